package filelock

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// NoFollow is a flag for os.OpenFile: a symbolic link in the last place of the path is not followed.
const NoFollow = windows.O_FILE_FLAG_OPEN_REPARSE_POINT

// Nobody else can read locked bytes, so the lock is far behind the content of a file.
const behind = 1 << 30

// Try locks a file until it is closed, or fails with ErrHeld.
func Try(file *os.File) error {
	place := windows.Overlapped{OffsetHigh: behind}
	err := windows.LockFileEx(windows.Handle(file.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &place)
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return ErrHeld
	}
	return err
}

// Remove closes a file that this process locked, and removes it. It stays if another process opened it meanwhile: open files cannot be
// removed here.
func Remove(file *os.File) error {
	return errors.Join(file.Close(), os.Remove(file.Name()))
}
