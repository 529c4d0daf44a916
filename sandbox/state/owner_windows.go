package state

import "io/fs"

// IsAnothers is false: the used folders are in the user's profile, which Windows protects.
func IsAnothers(fs.FileInfo) bool { return false }

func openToOthers(fs.FileInfo) bool { return false }
