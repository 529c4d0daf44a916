//go:build unix

package state

import (
	"io/fs"
	"os"
	"syscall"
)

// IsAnothers reports whether a file belongs to another user than this one or root, who can change everything anyway.
func IsAnothers(info fs.FileInfo) bool {
	owner := int(info.Sys().(*syscall.Stat_t).Uid)
	return owner != 0 && owner != os.Geteuid()
}

// openToOthers reports whether everybody can add files to a folder, and remove those of others.
func openToOthers(info fs.FileInfo) bool {
	return info.Mode().Perm()&0o002 != 0 && info.Mode()&(fs.ModeSticky|fs.ModeSymlink) == 0
}
