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
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

// principalsFolder, in the state folder, holds a folder for each principal.
const principalsFolder = "principals"

// StateFolder returns the folder of locks, histories and the HTTP token. dir is the setting. Without one the folder depends on the user
// alone, so that all of a user's servers share it.
func StateFolder(dir string) string {
	if abs, err := filepath.Abs(dir); dir != "" && err == nil {
		return abs
	}
	if cache, err := os.UserCacheDir(); runtime.GOOS == "windows" && err == nil {
		return filepath.Join(cache, "code-sandbox-mcp") // of the user's profile, and of no other machine
	}
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) && !isAnothers(dir) {
		return filepath.Join(dir, "code-sandbox-mcp")
	}
	if home := homeDir(); home != "" {
		return filepath.Join(home, ".local", "state", "code-sandbox-mcp")
	}
	return filepath.Join(os.TempDir(), fmt.Sprintf("code-sandbox-mcp-%d", os.Getuid()))
}

// homeDir returns this user's home, or "". HOME may be unset, as under some service managers, or another user's, as under sudo -E: that
// user could change the files there.
func homeDir() string {
	home := os.Getenv("HOME")
	if filepath.IsAbs(home) && !isAnothers(home) {
		return home
	}
	if self, err := user.LookupId(strconv.Itoa(os.Geteuid())); err == nil && filepath.IsAbs(self.HomeDir) {
		return self.HomeDir
	}
	return ""
}

// isAnothers is state.IsAnothers of a folder; false if it does not exist, since it can perhaps be made.
func isAnothers(folder string) bool {
	info, err := os.Stat(folder) //nolint:gosec // it is only looked at
	return err == nil && state.IsAnothers(info)
}

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
