//go:build !linux

// On other systems containers run elsewhere, so this machine knows nothing of them.

package podman

func localIDs(string) (space idSpace, ok bool) { return idSpace{}, false }

func hardLimits() (openFiles, processes uint64) { return 0, 0 }
