package packages

import (
	"strings"

	pep440 "github.com/aquasecurity/go-pep440-version"
)

// distribution holds a Python package's file name.
type distribution struct {
	name, version string // the name normalised
	wheel         bool   // else a source distribution
}

// maxFilename is the longest name that a file system takes, in bytes.
const maxFilename = 255

// readings returns a wheel's or source distribution's possible names. Old source distributions may contain the - of their names, so
// that there is more than one. Other files, such as eggs and installers, which no client takes any more, have none.
func readings(file string) (all []distribution) {
	if strings.ContainsAny(file, `/\`) || len(file) > maxFilename {
		return nil
	}
	if stem, ok := strings.CutSuffix(file, ".whl"); ok {
		parts := strings.Split(stem, "-")
		if name, ok := PyPI.normalise(parts[0]); ok && (len(parts) == 5 || len(parts) == 6) {
			all = append(all, distribution{name: name, version: parts[1], wheel: true})
		}
		return all
	}
	stem, ok := strings.CutSuffix(file, ".tar.gz")
	if !ok {
		if stem, ok = strings.CutSuffix(file, ".zip"); !ok {
			return nil
		}
	}
	for i, c := range stem {
		if c != '-' {
			continue
		}
		name, ok := PyPI.normalise(stem[:i])
		if _, err := pep440.Parse(stem[i+1:]); err == nil && ok {
			all = append(all, distribution{name: name, version: stem[i+1:]})
		}
	}
	return all
}

// namesIn are the package names whose file this may be.
func namesIn(file string) (names []string) {
	for _, d := range readings(file) {
		names = append(names, d.name)
	}
	return names
}

// parseFilename reads a file name of the package, given by its normalised name; "" is for an unknown one.
func parseFilename(file, name string) (distribution, bool) {
	for _, d := range readings(file) {
		if name == "" || name == d.name {
			return d, true
		}
	}
	return distribution{}, false
}
