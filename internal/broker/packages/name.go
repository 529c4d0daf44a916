package packages

import (
	"fmt"
	"regexp"
	"strings"
)

// Ecosystem is a package kind, with its own index, client and rules for names.
type Ecosystem string

// The ecosystems.
const (
	PyPI Ecosystem = "pypi"
	NPM  Ecosystem = "npm"
)

const (
	maxNPMName  = 214 // npm's own bound
	maxPyPIName = 214
)

var (
	pypiName = regexp.MustCompile(`(?i)^([A-Z0-9]|[A-Z0-9][A-Z0-9._-]*[A-Z0-9])$`)
	npmName  = regexp.MustCompile(`^(@[A-Za-z0-9][A-Za-z0-9._~-]*/)?[A-Za-z0-9][A-Za-z0-9._~-]*$`)
	runs     = regexp.MustCompile(`[-_.]+`)
)

// normalise returns a name's one spelling that stands for all; false where it is no name.
// PyPI takes case and the runs of -, _ and . for the same; npm compares names byte for byte.
func (e Ecosystem) normalise(name string) (string, bool) {
	if e == NPM {
		return name, len(name) <= maxNPMName && npmName.MatchString(name)
	}
	return spell(name), len(name) <= maxPyPIName && pypiName.MatchString(name)
}

func spell(pypi string) string { return strings.ToLower(runs.ReplaceAllString(pypi, "-")) }

// entry is one line in an allow or deny list.
type entry struct {
	text    string
	only    Ecosystem // empty: every one
	matches map[Ecosystem]*regexp.Regexp
}

// parseEntry reads NAME, with * for any characters, and pypi: or npm: before it where it is meant for one ecosystem.
func parseEntry(text string) (entry, error) {
	only, pattern := cutEcosystem(strings.TrimSpace(text))
	e := entry{text: strings.TrimSpace(text), only: only, matches: make(map[Ecosystem]*regexp.Regexp)}
	for _, ecosystem := range []Ecosystem{PyPI, NPM} {
		if only != "" && only != ecosystem {
			continue
		}
		// A wildcard stands for a name's characters, so a pattern is a name once they are put in its place.
		if _, ok := ecosystem.normalise(strings.ReplaceAll(pattern, "*", "x")); !ok {
			continue
		}
		parts := strings.Split(pattern, "*")
		for i, part := range parts {
			if ecosystem == PyPI {
				part = spell(part)
			}
			parts[i] = regexp.QuoteMeta(part)
		}
		e.matches[ecosystem] = regexp.MustCompile("^" + strings.Join(parts, ".*") + "$")
	}
	if len(e.matches) == 0 {
		return e, fmt.Errorf("%q is not the name of a package, such as numpy, pypi:django or npm:@aws-sdk/*", text)
	}
	return e, nil
}

func cutEcosystem(text string) (Ecosystem, string) {
	for _, ecosystem := range []Ecosystem{PyPI, NPM} {
		if name, ok := strings.CutPrefix(text, string(ecosystem)+":"); ok {
			return ecosystem, name
		}
	}
	return "", text
}

// find returns the first entry with the normalised name.
func find(entries []entry, ecosystem Ecosystem, name string) (entry, bool) {
	for _, e := range entries {
		if m := e.matches[ecosystem]; m != nil && m.MatchString(name) {
			return e, true
		}
	}
	return entry{}, false
}
