package server

import "runtime/debug"

// version may be set when the program is linked (-ldflags -X); without it the module's own counts.
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
