package install

import (
	"path"
	"strings"
)

// System is what the place of a configuration depends on. The places are computed from it alone, so those of every
// operating system can be looked at on any.
type System struct {
	OS   string // as runtime.GOOS has it
	Home string // the user's folder
	// Env looks a variable up; "" where it is not set.
	Env func(string) string
}

// join puts a path together as the system writes it.
func (s System) join(parts ...string) string {
	if s.OS == "windows" {
		return strings.Join(parts, `\`)
	}
	return path.Join(parts...)
}

func (s System) home(parts ...string) string { return s.join(append([]string{s.Home}, parts...)...) }

// folder is what a variable says, where it is an absolute path, and else the other.
func (s System) folder(variable, other string) string {
	value := s.Env(variable)
	if strings.HasPrefix(value, "/") || s.OS == "windows" && len(value) > 2 && value[1] == ':' {
		return value
	}
	return other
}

// xdg is where programs that follow the XDG specification on every system keep their settings.
func (s System) xdg() string { return s.folder("XDG_CONFIG_HOME", s.home(".config")) }

func (s System) appData() string { return s.folder("APPDATA", s.home("AppData", "Roaming")) }

func (s System) localAppData() string { return s.folder("LOCALAPPDATA", s.home("AppData", "Local")) }

// settings is where desktop programs keep their settings.
func (s System) settings() string {
	switch s.OS {
	case "windows":
		return s.appData()
	case "darwin":
		return s.home("Library", "Application Support")
	}
	return s.xdg()
}

// onWindows chooses between the folder on Windows and that on all other systems.
func (s System) onWindows(windows, others string) string {
	if s.OS == "windows" {
		return windows
	}
	return others
}
