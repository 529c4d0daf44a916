//go:build unix

package telemetry

import "golang.org/x/sys/unix"

// disk returns the size and the free bytes of a folder's disk for an ordinary user.
func disk(folder string) room {
	var s unix.Statfs_t
	if unix.Statfs(folder, &s) != nil {
		return room{}
	}
	return room{total: int64(s.Blocks) * int64(s.Bsize), available: int64(s.Bavail) * int64(s.Bsize)} //nolint:unconvert // the types differ on other systems
}
