//go:build unix

package telemetry

import "golang.org/x/sys/unix"

// disk returns what the disk of a folder has for an ordinary user.
func disk(folder string) room {
	var s unix.Statfs_t
	if unix.Statfs(folder, &s) != nil {
		return room{}
	}
	return room{Total: int64(s.Blocks) * int64(s.Bsize), Available: int64(s.Bavail) * int64(s.Bsize)} //nolint:unconvert // other systems have other types
}
