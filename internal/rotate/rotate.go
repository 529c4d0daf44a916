// Package rotate renames files that have their size: FILE to FILE.1, what that was to FILE.2, and so on.
package rotate

import (
	"fmt"
	"os"
)

// Name is that of the nth old file of a path; 0: the path itself.
func Name(path string, n int) string {
	if n == 0 {
		return path
	}
	return fmt.Sprintf("%s.%d", path, n)
}

// Shift renames the old files and then the file itself, of which keep old ones stay; 0: none, the file is removed. Where an old one
// cannot be renamed, there is a gap among them, which is filled the next time. The error is that of the file itself. The caller sees
// to it that nobody else does the same.
func Shift(path string, keep int) error {
	if keep == 0 {
		return os.Remove(path)
	}
	free := 1
	for free < keep {
		if _, err := os.Lstat(Name(path, free)); err != nil {
			break
		}
		free++
	}
	for n := free; n > 0; n-- {
		if err := os.Rename(Name(path, n-1), Name(path, n)); n == 1 {
			return err
		}
	}
	return nil
}
