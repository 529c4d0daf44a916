package cli

import (
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
)

// hostLabel tells the servers that share this machine, this user and this folder of locks from others
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
	for range 2 {
		if id, err := os.ReadFile(file); err == nil {
			return string(id)
		}
		if keepID(file) != nil {
			break
		}
	}
	name, _ := os.Hostname()
	return name
}

// keepID writes a new id, unless another process has just done so.
func keepID(file string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	part, err := os.CreateTemp(filepath.Dir(file), "machine-id-*.part")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(part.Name()) }()
	_, err = part.WriteString(rand.Text())
	if closed := part.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	// Whole, or not at all: nobody reads half of it.
	if err := os.Link(part.Name(), file); err != nil && !os.IsExist(err) {
		return err
	}
	return nil
}
