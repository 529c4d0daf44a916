package server

import (
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// hostLabel distinguishes the servers that share this machine, this user and this folder of locks from others
// that use the same engine: only by the locks can one tell whether another's sessions are alive.
func (s *Settings) hostLabel() string {
	return shortHash(fmt.Sprintf("%s %d %s", machineID("/etc/machine-id", s.stateDir()), os.Getuid(), s.sessionDir()))
}

// machineID is what the system's file says, or, where there is none (on a Mac, in a container), something of our own
// that stays in the state folder. A host's name would not do: on a laptop it changes with the network,
// and the sessions from before would be another machine's.
func machineID(system, stateDir string) string {
	if id, err := os.ReadFile(system); err == nil && len(id) > 0 {
		return string(id)
	}
	file := filepath.Join(stateDir, "machine-id")
	id, err := os.ReadFile(file)
	if err != nil {
		makeID(file)
		id, err = os.ReadFile(file)
	}
	if err != nil {
		name, _ := os.Hostname()
		return name
	}
	return string(id)
}

// makeID writes a new id, unless another process has just done so. Where it fails there is none to be read.
func makeID(file string) {
	if os.MkdirAll(filepath.Dir(file), 0o700) != nil {
		return
	}
	_ = writeWhole(file, false, func(to io.Writer) error {
		_, err := io.WriteString(to, rand.Text())
		return err
	})
}
