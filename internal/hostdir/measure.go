package hostdir

import (
	"io/fs"
	"path/filepath"
)

// Measure counts what is in a folder, links not followed, until there are more entries or bytes than these. What this user cannot read
// does not count.
func Measure(folder string, mostEntries int, mostBytes int64) (entries int, bytes int64) {
	_ = filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // code cannot read it either
		}
		if path != folder {
			entries++
		}
		if info, err := d.Info(); err == nil && d.Type().IsRegular() {
			bytes += info.Size()
		}
		if entries > mostEntries || bytes > mostBytes {
			return fs.SkipAll
		}
		return nil
	})
	return entries, bytes
}
