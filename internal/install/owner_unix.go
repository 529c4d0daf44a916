//go:build unix

package install

import (
	"io/fs"
	"os"
	"syscall"
)

// keepOwner gives a file the owner of another: under sudo it would be root.
func keepOwner(path string, like fs.FileInfo) error {
	want, ok := like.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if have, ok := info.Sys().(*syscall.Stat_t); ok && (have.Uid != want.Uid || have.Gid != want.Gid) {
		err := os.Chown(path, int(want.Uid), int(want.Gid))
		if have.Uid != want.Uid {
			return err
		}
	}
	return nil
}
