package packages

import (
	"strings"

	pep440 "github.com/aquasecurity/go-pep440-version"
)

// distribution holds the parts of a Python package's file name.
type distribution struct {
	name, version string // the name normalised
	wheel         bool   // else a source distribution
	platform      string // that a wheel is for, such as any or win_amd64
}

// elsewhere reports whether a file is for other systems alone: containers are Linux.
func (d distribution) elsewhere() bool {
	return d.wheel && d.platform != "any" && !strings.Contains(d.platform, "linux")
}

// maxFilename is the longest name that a file system takes, in bytes.
const maxFilename = 255

// parseFilename reads the name of a wheel or a source distribution of the package, given by its normalised name; "" is for an unknown one.
// It returns false for other files, such as eggs and installers, which no client takes any more.
func parseFilename(file, name string) (distribution, bool) {
	if strings.ContainsAny(file, `/\`) || len(file) > maxFilename {
		return distribution{}, false
	}
	if stem, ok := strings.CutSuffix(file, ".whl"); ok {
		parts := strings.Split(stem, "-")
		if len(parts) != 5 && len(parts) != 6 {
			return distribution{}, false
		}
		found, ok := PyPI.normalise(parts[0])
		return distribution{name: found, version: parts[1], wheel: true, platform: parts[len(parts)-1]}, ok && (name == "" || name == found)
	}
	stem, ok := strings.CutSuffix(file, ".tar.gz")
	if !ok {
		if stem, ok = strings.CutSuffix(file, ".zip"); !ok {
			return distribution{}, false
		}
	}
	// Old source distributions may contain the - of their names, so that only the part behind shows where the name ends.
	for i, c := range stem {
		if c != '-' {
			continue
		}
		found, ok := PyPI.normalise(stem[:i])
		if _, err := pep440.Parse(stem[i+1:]); err == nil && ok && (name == "" || name == found) {
			return distribution{name: found, version: stem[i+1:]}, true
		}
	}
	return distribution{}, false
}
