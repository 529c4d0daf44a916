package state

import "io/fs"

// IsAnothers is false: the folders that are used are in the user's profile, which Windows keeps for the user.
func IsAnothers(fs.FileInfo) bool { return false }

func openToOthers(fs.FileInfo) bool { return false }
