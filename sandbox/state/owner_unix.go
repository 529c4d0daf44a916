//go:build unix

package state

import (
	"io/fs"
	"os"
	"syscall"
)

// IsAnothers reports whether a file is of a user that is neither this one nor root, who can change everything anyway.
func IsAnothers(info fs.FileInfo) bool {
	owner := int(info.Sys().(*syscall.Stat_t).Uid)
	return owner != 0 && owner != os.Geteuid()
}

// openToOthers reports whether everybody can put things into a folder, and take away what others have put there.
func openToOthers(info fs.FileInfo) bool {
	return info.Mode().Perm()&0o002 != 0 && info.Mode()&(fs.ModeSticky|fs.ModeSymlink) == 0
}
