//go:build unix

package filelock

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// NoFollow is a flag for os.OpenFile: a symbolic link in the last place of the path is not followed.
const NoFollow = unix.O_NOFOLLOW

// Try locks a file until it is closed, or fails with ErrHeld.
func Try(file *os.File) error {
	err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return ErrHeld
	}
	return err
}

// Remove removes a file that this process locked, and closes it. A process that opened it meanwhile gets a lock without a name.
func Remove(file *os.File) error {
	return errors.Join(os.Remove(file.Name()), file.Close())
}
