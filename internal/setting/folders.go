package setting

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

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
	if home := HomeDir(); home != "" {
		return filepath.Join(home, ".local", "state", "code-sandbox-mcp")
	}
	return filepath.Join(os.TempDir(), fmt.Sprintf("code-sandbox-mcp-%d", os.Getuid()))
}

// HomeDir returns this user's home, or "". HOME may be unset, as under some service managers, or another user's, as under sudo -E: that
// user could change the files there.
func HomeDir() string {
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
