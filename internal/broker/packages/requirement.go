package packages

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	pep440 "github.com/aquasecurity/go-pep440-version"
	"github.com/blang/semver/v4"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
)

// Requirement is a client's requirement, in parts.
type Requirement struct {
	Ecosystem Ecosystem
	Name      string   // normalised; empty for a tarball of npm's that is a file
	Extras    []string // PyPI
	Specifier string   // PyPI: ">=1,<2"; npm: a version, range or tag; empty: any
	Marker    string   // PyPI: the part behind the semicolon
	Path      string   // a file of the session instead of one from the index
}

// String writes the requirement as one argument for pip or npm, made of its parts alone.
func (r Requirement) String() string {
	switch {
	case r.Path != "":
		return r.Path
	case r.Ecosystem == NPM && r.Specifier != "":
		return r.Name + "@" + r.Specifier
	case r.Ecosystem == NPM:
		return r.Name
	}
	s := r.Name
	if len(r.Extras) > 0 {
		s += "[" + strings.Join(r.Extras, ",") + "]"
	}
	s += r.Specifier
	if r.Marker != "" {
		s += " ; " + r.Marker
	}
	return s
}

const (
	maxRequirement = 1000
	filesRoot      = "/mnt/data/" // a session's files, in the container
)

// Check parses one requirement by its ecosystem's rules and reports whether the policy allows it, as far as that is known without the index,
// which is asked later. The fault is package_denied, or invalid_argument if it is no requirement. Options, addresses, aliases and files
// outside the session's are refused.
func (p *Policy) Check(ecosystem Ecosystem, requirement string) (Requirement, *fault.Error) {
	requirement = strings.Trim(requirement, " \t")
	if f := checkForm(ecosystem, requirement); f != nil {
		return Requirement{}, f
	}
	if strings.HasPrefix(requirement, "/") {
		return p.checkFile(ecosystem, requirement)
	}
	parse := parsePython
	if ecosystem == NPM {
		parse = parseNPM
	}
	r, f := parse(requirement)
	if f != nil {
		return Requirement{}, f
	}
	if f := p.checkName(ecosystem, r.Name); f != nil {
		return Requirement{}, f
	}
	if pinned := r.pinned(); pinned != "" {
		if f := p.checkVersion(ecosystem, r.Name, pinned); f != nil {
			return Requirement{}, f
		}
	}
	return r, nil
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
func (p *Policy) checkFile(ecosystem Ecosystem, file string) (Requirement, *fault.Error) {
	none := Requirement{}
	if path.Clean(file) != file || !strings.HasPrefix(file, filesRoot) {
		return none, notPlain(file, "only files below "+filesRoot+" are installed")
	}
	r := Requirement{Ecosystem: ecosystem, Path: file}
	if ecosystem == NPM {
		if !strings.HasSuffix(file, ".tgz") && !strings.HasSuffix(file, ".tar.gz") {
			return none, notPlain(file, "npm installs .tgz and .tar.gz files")
		}
		return r, nil
	}
	d, ok := parseFilename(path.Base(file), "")
	if !ok {
		return none, notPlain(file, "pip installs wheels and source distributions by their full names, such as demo-1.0-py3-none-any.whl or demo-1.0.tar.gz")
	}
	r.Name = d.name
	f := p.checkLists(ecosystem, d.name)
	if f == nil {
		f = p.checkVersion(ecosystem, d.name, d.version)
	}
	if f == nil && !d.wheel {
		f = p.checkSdist(path.Base(file))
	}
	if f != nil {
		return none, f
	}
	return r, nil
}

// pinned returns the one version that the requirement asks for, or "".
func (r Requirement) pinned() string {
	if r.Ecosystem == NPM {
		s := strings.TrimPrefix(strings.TrimPrefix(r.Specifier, "="), "v")
		if _, err := semver.Parse(s); err != nil {
			return ""
		}
		return s
	}
	for clause := range strings.SplitSeq(r.Specifier, ",") {
		number, ok := strings.CutPrefix(clause, "==")
		number = strings.TrimPrefix(number, "=")
		if ok && !strings.HasSuffix(number, ".*") {
			return number
		}
	}
	return ""
}

var (
	npmTag   = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]*$`)
	npmRange = regexp.MustCompile(`^[0-9A-Za-z.+*^~<>=| -]+$`)
	tarball  = regexp.MustCompile(`(?i)\.(tgz|tar|tar\.[a-z0-9]+|tbz|txz|tlz|zip|whl|egg)$`)
)

// parseNPM reads NAME, NAME@VERSION, NAME@RANGE and NAME@TAG, as npm's own parser takes them.
func parseNPM(s string) (Requirement, *fault.Error) {
	if strings.Contains(s, ":") {
		return Requirement{}, notPlain(s, "addresses, aliases and git repositories are not installed")
	}
	name, spec, asked := s, "", false
	if at := strings.LastIndex(s, "@"); at > 0 {
		name, spec, asked = s[:at], strings.Trim(s[at+1:], " "), true
	}
	if tarball.MatchString(name) || tarball.MatchString(spec) || strings.ContainsAny(spec, "/#") {
		return Requirement{}, notPlain(s, "addresses are not installed, and files by their whole path alone")
	}
	if _, ok := NPM.normalise(name); !ok {
		if strings.Contains(name, "/") {
			return Requirement{}, notPlain(s, "folders and repositories are not installed")
		}
		return Requirement{}, malformed(s, "its name is not one that npm takes")
	}
	if asked && (strings.HasPrefix(spec, ".") || !npmTag.MatchString(spec) && !npmRange.MatchString(spec)) {
		return Requirement{}, malformed(s, "what follows the @ is not a version, a range or a tag")
	}
	return Requirement{Ecosystem: NPM, Name: name, Specifier: spec}, nil
}

var (
	pythonParts = regexp.MustCompile(`^([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)[ \t]*(?:\[([^\]]*)\])?[ \t]*([^;]*?)[ \t]*(?:;(.*))?$`)
	clauseForm  = regexp.MustCompile(`^(~=|===|==|!=|<=|>=|<|>)[ \t]*([A-Za-z0-9_.*+!-]+)$`)
)

// parsePython reads a requirement by PEP 508.
func parsePython(s string) (Requirement, *fault.Error) {
	none := Requirement{}
	parts := pythonParts.FindStringSubmatch(s)
	switch {
	case strings.Contains(s, "://"), parts != nil && strings.HasPrefix(parts[3], "@"):
		return none, notPlain(s, "addresses are not installed")
	case parts == nil:
		if strings.HasPrefix(s, ".") || strings.Contains(s, "/") {
			return none, notPlain(s, "files are installed by their whole path below "+filesRoot)
		}
		return none, malformed(s, "it does not begin with a name")
	case strings.HasPrefix(parts[3], "/"):
		return none, notPlain(s, "files are installed by their whole path below "+filesRoot)
	case tarball.MatchString(parts[1]):
		return none, notPlain(s, "files are installed by their whole path below "+filesRoot) // pip takes it for one
	}
	name, ok := PyPI.normalise(parts[1])
	if !ok {
		return none, malformed(s, "its name is not one that PyPI takes")
	}
	r := Requirement{Ecosystem: PyPI, Name: name}
	for extra := range strings.SplitSeq(parts[2], ",") {
		extra, ok := PyPI.normalise(strings.Trim(extra, " \t"))
		if !ok && strings.Trim(parts[2], " \t") != "" {
			return none, malformed(s, "its extras are not names")
		}
		if ok {
			r.Extras = append(r.Extras, extra)
		}
	}
	if r.Specifier, ok = parseSpecifier(parts[3]); !ok {
		return none, malformed(s, "its versions are not written as in >=1.2,<2")
	}
	r.Marker = strings.Trim(parts[4], " \t")
	if strings.Contains(s, ";") && !isMarker(r.Marker) {
		return none, malformed(s, "its marker after the ; is not one of PEP 508")
	}
	return r, nil
}

func parseSpecifier(s string) (string, bool) {
	if inner, ok := strings.CutPrefix(s, "("); ok {
		if s, ok = strings.CutSuffix(inner, ")"); !ok {
			return "", false
		}
	}
	s = strings.Trim(s, " \t")
	if s == "" {
		return "", true
	}
	var clauses []string
	for clause := range strings.SplitSeq(s, ",") {
		parts := clauseForm.FindStringSubmatch(strings.Trim(clause, " \t"))
		if parts == nil {
			return "", false
		}
		if _, err := pep440.NewSpecifiers(parts[1] + parts[2]); err != nil && parts[1] != "===" {
			return "", false
		}
		clauses = append(clauses, parts[1]+parts[2])
	}
	return strings.Join(clauses, ","), true
}

var (
	markerToken     = regexp.MustCompile(`^[ \t]*('[^'\\]*'|"[^"\\]*"|\(|\)|===|[<>=!~]=|[<>]|[a-z_.]+)[ \t]*`)
	markerVariables = strings.Fields(`python_version python_full_version os_name sys_platform platform_release platform_system
		platform_version platform_machine platform_python_implementation implementation_name implementation_version extra`)
	markerOperators = strings.Fields("=== == ~= != <= >= < >")
)

// isMarker reports whether s is a marker by PEP 508's grammar.
func isMarker(s string) bool {
	var tokens []string
	for s != "" {
		token := markerToken.FindStringSubmatch(s)
		if token == nil {
			return false
		}
		tokens, s = append(tokens, token[1]), s[len(token[0]):]
	}
	m := marker{left: tokens}
	return m.or() && len(m.left) == 0
}

// marker is the unread rest of a marker, by tokens. Its methods consume a part of the grammar and report whether it was there.
type marker struct{ left []string }

func (m *marker) take(ok func(string) bool) bool {
	if len(m.left) == 0 || !ok(m.left[0]) {
		return false
	}
	m.left = m.left[1:]
	return true
}

func (m *marker) word(w string) bool { return m.take(func(t string) bool { return t == w }) }

func (m *marker) or() bool {
	ok := m.and()
	for ok && m.word("or") {
		ok = m.and()
	}
	return ok
}

func (m *marker) and() bool {
	ok := m.term()
	for ok && m.word("and") {
		ok = m.term()
	}
	return ok
}

func (m *marker) term() bool {
	if m.word("(") {
		return m.or() && m.word(")")
	}
	return m.value() && m.operator() && m.value()
}

func (m *marker) value() bool {
	return m.take(func(t string) bool {
		return t[0] == '\'' || t[0] == '"' || slices.Contains(markerVariables, t)
	})
}

func (m *marker) operator() bool {
	if m.word("not") {
		return m.word("in")
	}
	return m.word("in") || m.take(func(t string) bool { return slices.Contains(markerOperators, t) })
}
