package install

import (
	"path"
	"strings"
)

// System holds the facts that determine the place of a configuration. The places are computed from it alone, so those of every operating
// system can be tested on any.
type System struct {
	OS   string // a value of runtime.GOOS
	Home string // the user's folder
	// Env returns a variable; "" if it is unset.
	Env func(string) string
}

// join joins a path with the system's separator.
func (s System) join(parts ...string) string {
	if s.OS == "windows" {
		return strings.Join(parts, `\`)
	}
	return path.Join(parts...)
}

func (s System) home(parts ...string) string { return s.join(append([]string{s.Home}, parts...)...) }

// folder returns a variable's value if it is an absolute path, else other.
func (s System) folder(variable, other string) string {
	value := s.Env(variable)
	if strings.HasPrefix(value, "/") || s.OS == "windows" && len(value) > 2 && value[1] == ':' {
		return value
	}
	return other
}

// xdg returns the settings folder of programs that follow the XDG specification on every system.
func (s System) xdg() string { return s.folder("XDG_CONFIG_HOME", s.home(".config")) }

func (s System) appData() string { return s.folder("APPDATA", s.home("AppData", "Roaming")) }

func (s System) localAppData() string { return s.folder("LOCALAPPDATA", s.home("AppData", "Local")) }

// settings returns the settings folder of desktop programs.
func (s System) settings() string {
	switch s.OS {
	case "windows":
		return s.appData()
	case "darwin":
		return s.home("Library", "Application Support")
	}
	return s.xdg()
}

// onWindows returns windows on Windows, and others elsewhere.
func (s System) onWindows(windows, others string) string {
	if s.OS == "windows" {
		return windows
	}
	return others
}
