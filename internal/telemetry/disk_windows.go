package telemetry

import "golang.org/x/sys/windows"

// disk returns the size and the free bytes of a folder's disk for this user.
func disk(folder string) room {
	name, err := windows.UTF16PtrFromString(folder)
	if err != nil {
		return room{}
	}
	var available, total, free uint64
	if windows.GetDiskFreeSpaceEx(name, &available, &total, &free) != nil {
		return room{}
	}
	return room{total: int64(total), available: int64(available)} //nolint:gosec // no disk is larger
}
