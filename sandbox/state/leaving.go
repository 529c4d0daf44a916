// Handing a session from one live server to another: its holder offers it.

package state

import (
	"os"
	"path/filepath"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/filelock"
)

// leavingFile exists while a session's server offers it to others, and is not empty once one wants it.
const leavingFile = "leaving"

func leavingPath(dir, id string) string { return filepath.Join(Folder(dir, id), leavingFile) }

// Offer tells other servers that they may take the session. The caller holds its lock.
func Offer(dir, id string) error {
	if err := os.MkdirAll(Folder(dir, id), 0o700); err != nil {
		return err
	}
	file, err := os.OpenFile(leavingPath(dir, id), os.O_WRONLY|os.O_CREATE|filelock.NoFollow, 0o600)
	if err != nil {
		return err
	}
	return file.Close()
}

// TakeBack withdraws Offer. The caller holds the lock.
func TakeBack(dir, id string) { _ = os.Remove(leavingPath(dir, id)) }

// Want asks the session's server for it, and reports whether that server offers it.
func Want(dir, id string) bool {
	file, err := os.OpenFile(leavingPath(dir, id), os.O_WRONLY|filelock.NoFollow, 0)
	if err != nil {
		return false
	}
	_, err = file.WriteString("wanted\n")
	_ = file.Close()
	return err == nil
}

// IsWanted reports whether another server asked for an offered session.
func IsWanted(dir, id string) bool {
	info, err := os.Lstat(leavingPath(dir, id))
	return err == nil && info.Size() > 0
}
