package packages

import (
	"fmt"
	"path"
	"regexp"
	"strings"

	pep440 "github.com/aquasecurity/go-pep440-version"
	"github.com/blang/semver/v4"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
)

const (
	maxRequirement = 1000
	filesRoot      = "/mnt/data/" // a session's files, in the container
)

// Check returns a requirement as one argument for an installer, if it is one by its ecosystem's rules and the policy allows it, as far as that
// is known without the index, which is asked later. The fault is package_denied, or invalid_argument if it is no requirement. Options,
// addresses, aliases and files outside the session's are refused.
func (p *Policy) Check(ecosystem Ecosystem, requirement string) (string, *fault.Error) {
	requirement = strings.Trim(requirement, " \t")
	f := checkForm(ecosystem, requirement)
	switch {
	case f != nil:
	case strings.HasPrefix(requirement, "/"):
		f = p.checkFile(ecosystem, requirement)
	case ecosystem == NPM:
		var name, version string
		if name, version, f = parseNPM(requirement); f == nil {
			f = p.checkPackage(NPM, name, version)
		}
	default:
		var name, version string
		if name, version, f = parsePython(requirement); f == nil {
			f = p.checkPackage(PyPI, name, version)
		}
	}
	if f != nil {
		return "", f
	}
	return requirement, nil
}

// checkPackage judges a name and a version; the empty one is any.
func (p *Policy) checkPackage(ecosystem Ecosystem, name, version string) *fault.Error {
	f := p.checkName(ecosystem, name)
	if f == nil && version != "" {
		f = p.checkVersion(ecosystem, name, version)
	}
	return f
}

// checkForm refuses a text that is no requirement of any ecosystem, with words for the likely intention.
func checkForm(ecosystem Ecosystem, s string) *fault.Error {
	switch {
	case ecosystem != PyPI && ecosystem != NPM:
		return malformed(s, "there are no packages of the kind "+string(ecosystem))
	case s == "":
		return malformed(s, "it is empty")
	case len(s) > maxRequirement:
		return malformed(s, fmt.Sprintf("it has %d characters and may have %d", len(s), maxRequirement))
	case strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' }):
		return malformed(s, "it has characters that no requirement has")
	case ecosystem == PyPI && (strings.HasPrefix(s, "-r") || strings.HasPrefix(s, "--req")):
		return fault.New(fault.PackageDenied, "Use %pip install -r FILE in code, which the same policy is for, or name the packages.",
			"%q: files of requirements are not installed by this tool.", text.Shorten(s, 100))
	case strings.HasPrefix(s, "-"):
		return notPlain(s, "options are not passed on")
	}
	return nil
}

func malformed(requirement, why string) *fault.Error {
	return fault.New(fault.InvalidArgument, `Name packages as pip and npm do: "numpy", "pandas>=2,<3", "uvicorn[standard]"; "lodash", "lodash@^4.17".`,
		"The package %q cannot be read: %s.", text.Shorten(requirement, 100), why)
}

func notPlain(requirement, why string) *fault.Error {
	return fault.New(fault.PackageDenied, "Name the package as the index has it, or the path of a file below "+filesRoot+".",
		"%q: %s", text.Shorten(requirement, 100), why)
}

// checkFile judges a file of the session. Mode off concerns the index, so such files are installed there too; their requirements from the
// index are not.
func (p *Policy) checkFile(ecosystem Ecosystem, file string) *fault.Error {
	if path.Clean(file) != file || !strings.HasPrefix(file, filesRoot) {
		return notPlain(file, "only files below "+filesRoot+" are installed")
	}
	if ecosystem == NPM {
		if !strings.HasSuffix(file, ".tgz") && !strings.HasSuffix(file, ".tar.gz") {
			return notPlain(file, "npm installs .tgz and .tar.gz files")
		}
		return nil
	}
	d, ok := parseFilename(path.Base(file), "")
	if !ok {
		return notPlain(file, "pip installs wheels and source distributions by their full names, such as demo-1.0-py3-none-any.whl or demo-1.0.tar.gz")
	}
	f := p.checkLists(ecosystem, d.name)
	if f == nil {
		f = p.checkVersion(ecosystem, d.name, d.version)
	}
	if f == nil && !d.wheel {
		f = p.checkSdist(path.Base(file))
	}
	return f
}

var (
	npmTag   = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]*$`)
	npmRange = regexp.MustCompile(`^[0-9A-Za-z.+*^~<>=| -]+$`)
	tarball  = regexp.MustCompile(`(?i)\.(tgz|tar|tar\.[a-z0-9]+|tbz|txz|tlz|zip|whl|egg)$`)
)

// parseNPM reads NAME, NAME@VERSION, NAME@RANGE and NAME@TAG, as npm's own parser takes them. The version is empty unless there is but one.
func parseNPM(s string) (name, version string, f *fault.Error) {
	if strings.Contains(s, ":") {
		return "", "", notPlain(s, "addresses, aliases and git repositories are not installed")
	}
	name, spec, asked := s, "", false
	if at := strings.LastIndex(s, "@"); at > 0 {
		name, spec, asked = s[:at], strings.Trim(s[at+1:], " "), true
	}
	_, isName := NPM.normalise(name)
	switch {
	case tarball.MatchString(name), tarball.MatchString(spec), strings.ContainsAny(spec, "/#"):
		return "", "", notPlain(s, "addresses are not installed, and files by their whole path alone")
	case !isName && strings.Contains(name, "/"):
		return "", "", notPlain(s, "folders and repositories are not installed")
	case !isName:
		return "", "", malformed(s, "its name is not one that npm takes")
	case asked && (strings.HasPrefix(spec, ".") || !npmTag.MatchString(spec) && !npmRange.MatchString(spec)):
		return "", "", malformed(s, "what follows the @ is not a version, a range or a tag")
	}
	version = strings.TrimPrefix(strings.TrimPrefix(spec, "="), "v")
	if _, err := semver.Parse(version); err != nil {
		version = ""
	}
	return name, version, nil
}

var (
	pythonParts = regexp.MustCompile(`^([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)[ \t]*(?:\[([^\]]*)\])?[ \t]*([^;]*?)[ \t]*(?:;(.*))?$`)
	clauseForm  = regexp.MustCompile(`^(~=|===|==|!=|<=|>=|<|>)[ \t]*([A-Za-z0-9_.*+!-]+)$`)
)

// parsePython reads a requirement by PEP 508. The name is normalised, and the version empty unless there is but one.
func parsePython(s string) (name, version string, f *fault.Error) {
	parts := pythonParts.FindStringSubmatch(s)
	switch {
	case strings.Contains(s, "://"), parts != nil && strings.HasPrefix(parts[3], "@"):
		return "", "", notPlain(s, "addresses are not installed")
	case parts == nil && !strings.HasPrefix(s, ".") && !strings.Contains(s, "/"):
		return "", "", malformed(s, "it does not begin with a name")
	case parts == nil, strings.HasPrefix(parts[3], "/"), tarball.MatchString(parts[1]): // which pip takes for a file
		return "", "", notPlain(s, "files are installed by their whole path below "+filesRoot)
	}
	name, isName := PyPI.normalise(parts[1])
	version, areVersions := parseSpecifier(parts[3])
	switch {
	case !isName:
		return "", "", malformed(s, "its name is not one that PyPI takes")
	case !areVersions:
		return "", "", malformed(s, "its versions are not written as in >=1.2,<2")
	case strings.Contains(s, ";") && strings.Trim(parts[4], " \t") == "":
		return "", "", malformed(s, "it has no marker after the ;")
	}
	for extra := range strings.SplitSeq(parts[2], ",") {
		if _, ok := PyPI.normalise(strings.Trim(extra, " \t")); !ok && strings.Trim(parts[2], " \t") != "" {
			return "", "", malformed(s, "its extras are not names")
		}
	}
	return name, version, nil
}

// parseSpecifier reads clauses such as >=1,<2, and returns the version that one of them asks for alone.
func parseSpecifier(s string) (version string, ok bool) {
	if inner, ok := strings.CutPrefix(s, "("); ok {
		if s, ok = strings.CutSuffix(inner, ")"); !ok {
			return "", false
		}
	}
	if s = strings.Trim(s, " \t"); s == "" {
		return "", true
	}
	for clause := range strings.SplitSeq(s, ",") {
		parts := clauseForm.FindStringSubmatch(strings.Trim(clause, " \t"))
		if parts == nil {
			return "", false
		}
		if _, err := pep440.NewSpecifiers(parts[1] + parts[2]); err != nil && parts[1] != "===" {
			return "", false
		}
		if strings.HasPrefix(parts[1], "==") && !strings.HasSuffix(parts[2], ".*") && version == "" {
			version = parts[2]
		}
	}
	return version, true
}
