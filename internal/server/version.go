package server

import "runtime/debug"

// version is set by the linker (-ldflags -X); empty: the module's version counts.
var version = ""

// CurrentVersion returns the version of the program.
func CurrentVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
