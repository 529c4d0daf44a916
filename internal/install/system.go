package install

import (
	"path"
	"slices"
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

func (s System) join(parts ...string) string {
	if s.OS == "windows" {
		return strings.Join(parts, `\`)
	}
	return path.Join(parts...)
}

func (s System) home(parts ...string) string { return s.join(append([]string{s.Home}, parts...)...) }

// expand returns a path of the table as the system writes it.
func (s System) expand(written string) string {
	parts := strings.Split(written, "/")
	parts[0] = s.folders()[parts[0]]
	return s.join(parts...)
}

// folders returns the folders that the table's paths begin with. On every system some programs follow the XDG specification.
func (s System) folders() map[string]string {
	appData, xdg := s.folder("APPDATA", s.home("AppData", "Roaming")), s.folder("XDG_CONFIG_HOME", s.home(".config"))
	config, settings := xdg, xdg // of programs of a terminal, and of a desktop
	switch s.OS {
	case "windows":
		config, settings = appData, appData
	case "darwin":
		settings = s.home("Library", "Application Support")
	}
	return map[string]string{
		"~": s.Home, "xdg": xdg, "config": config, "settings": settings, "appData": appData,
		"localAppData": s.folder("LOCALAPPDATA", s.home("AppData", "Local")),
	}
}

func (s System) places(c *Client) (places []place) {
	for _, p := range c.user {
		only, isNot := strings.CutPrefix(p.os, "not ")
		if only != "" && (only == s.OS) == isNot {
			continue
		}
		p.root, p.signs = s.folder(p.variable, s.expand(p.root)), slices.Clone(p.signs)
		for i := range p.signs {
			p.signs[i] = s.expand(p.signs[i])
		}
		places = append(places, p)
	}
	return places
}

// folder returns a variable's value if it is an absolute path, else other.
func (s System) folder(variable, other string) string {
	value := s.Env(variable)
	if strings.HasPrefix(value, "/") || s.OS == "windows" && len(value) > 2 && value[1] == ':' {
		return value
	}
	return other
}
