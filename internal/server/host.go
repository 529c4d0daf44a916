// This machine: the folders of state on it, and its name.

package server

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// principalsFolder, in the state folder, holds a folder for each principal.
const principalsFolder = "principals"

// hostLabel distinguishes the servers that share this machine, user and folder of locks from others on the same engine: only the locks tell
// whether another server's sessions are alive.
func hostLabel(stateFolder, sessionDir string) string {
	return shortHash(fmt.Sprintf("%s %d %s", machineID("/etc/machine-id", stateFolder), os.Getuid(), sessionDir))
}

// machineID returns the content of the system's file. Without one (on a Mac, in a container) it returns an id of our own that stays in the
// state folder. A host's name would not do: on a laptop it changes with the network, and earlier sessions would be another machine's.
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

// makeID writes a new id, unless another process has just done so. After a failure there is none to read.
func makeID(file string) {
	if os.MkdirAll(filepath.Dir(file), 0o700) != nil {
		return
	}
	own, err := os.CreateTemp(filepath.Dir(file), "machine-id-*")
	if err != nil {
		return
	}
	defer func() { _ = os.Remove(own.Name()) }()
	_, err = own.WriteString(rand.Text())
	if err = errors.Join(err, own.Close()); err != nil {
		return
	}
	if err := os.Link(own.Name(), file); err != nil && !errors.Is(err, fs.ErrExist) {
		_ = os.Rename(own.Name(), file) // a file system without hard links
	}
}

func shortHash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}
