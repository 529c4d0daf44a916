// How a session goes from one live server to another: the one that has it says that it may be had.

package state

import (
	"os"
	"path/filepath"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/filelock"
)

// leavingFile is there while a session's server lets another one have the session, and has content once one wants it.
const leavingFile = "leaving"

func leavingPath(dir, id string) string { return filepath.Join(Folder(dir, id), leavingFile) }

// Offer lets other servers know that they may have the session, of which the caller has the lock.
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

// TakeBack takes back what Offer said. The caller has the lock.
func TakeBack(dir, id string) { _ = os.Remove(leavingPath(dir, id)) }

// Want asks the server that has the session for it, and reports whether that one lets others have it.
func Want(dir, id string) bool {
	file, err := os.OpenFile(leavingPath(dir, id), os.O_WRONLY|filelock.NoFollow, 0)
	if err != nil {
		return false
	}
	_, err = file.WriteString("wanted\n")
	_ = file.Close()
	return err == nil
}

// IsWanted reports whether another server has asked for a session that was offered.
func IsWanted(dir, id string) bool {
	info, err := os.Lstat(leavingPath(dir, id))
	return err == nil && info.Size() > 0
}
