package packages

import (
	"errors"
	"fmt"
	"strings"
	"time"

	pep440 "github.com/aquasecurity/go-pep440-version"
	"github.com/blang/semver/v4"
	"github.com/dustin/go-humanize"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
)

// A policy's modes.
const (
	Off    = "off"    // no package is installed from an index
	Listed = "listed" // the packages of the allow list
	On     = "on"     // any package that no rule refuses
)

// Cautious is the deny set of packages that reach for other machines, for the system or for servers.
const Cautious = "cautious"

// DefaultMinimum is the least version of packages with known holes in older ones.
var DefaultMinimum = []string{
	"pillow>=9.0.0", "numpy>=1.22.2", "requests>=2.31.0", "pandas>=1.4.0",
	"tensorflow>=2.11.1", "torch>=1.13.1", "urllib3>=1.26.5", "scipy>=1.10.0",
}

// denySets are lists that one setting switches on.
var denySets = map[string][]string{
	"": nil,
	Cautious: {
		"crypto", "pycrypto", "cryptography", "paramiko", "fabric", "ansible", "salt", "puppet", "psutil",
		"pywin32", "winreg", "win32com", "win32api", "pyinstaller", "py2exe", "cx_Freeze", "distutils", "pycdlib",
		"django", "flask", "fastapi", "tornado", "twisted", "socketserver", "ftplib", "smtplib",
		"sh", "shellingham", "pexpect", "pyshell", "ctypes", "cffi", "mmap", "code", "pdb", "rpdb", "ipdb", "pyrasite",
		"docker", "kubernetes", "boto3", "azure", "azure-*", "google-cloud", "google-cloud-*",
	},
}

// Rules are a policy as settings say it. The zero value of a field that is not named here means that there is no such rule.
type Rules struct {
	Mode       string        // Off, Listed or On; empty: On
	Allow      []string      // NAME, with wildcards, pypi: or npm: before it where it is meant for one ecosystem
	Deny       []string      // likewise; it beats Allow
	DenySet    string        // Cautious; Allow beats it
	Minimum    []string      // NAME>=VERSION, of PyPI without npm: before it
	MinAge     time.Duration // later versions are not installed, nor are those without a date
	AllowSdist bool          // source distributions too
	FileLimit  int64         // bytes of one file; zero: DefaultFileLimit
}

// DefaultFileLimit is the largest file of a package, in bytes.
const DefaultFileLimit = 200 << 20

// Policy decides which packages may be installed. It does not change and is safe for use by several goroutines.
type Policy struct {
	rules         Rules
	allow, deny   []entry
	denySet       []entry
	pythonMinimum map[string]pep440.Version
	npmMinimum    map[string]semver.Version
}

// NewPolicy checks rules. Its error names each setting that is wrong.
func NewPolicy(rules Rules) (*Policy, error) {
	if rules.Mode == "" {
		rules.Mode = On
	}
	if rules.FileLimit == 0 {
		rules.FileLimit = DefaultFileLimit
	}
	p := &Policy{rules: rules, pythonMinimum: make(map[string]pep440.Version), npmMinimum: make(map[string]semver.Version)}
	var problems []error
	wrong := func(bad bool, format string, args ...any) {
		if bad {
			problems = append(problems, fmt.Errorf(format, args...))
		}
	}
	entries := func(setting string, lines []string) (all []entry) {
		for _, line := range lines {
			e, err := parseEntry(line)
			wrong(err != nil, "--%s: %w", setting, err)
			all = append(all, e)
		}
		return all
	}
	set, known := denySets[rules.DenySet]
	p.allow, p.deny = entries("packages-allow", rules.Allow), entries("packages-deny", rules.Deny)
	for _, name := range set {
		e, _ := parseEntry(string(PyPI) + ":" + name)
		p.denySet = append(p.denySet, e)
	}
	for _, line := range rules.Minimum {
		err := p.addMinimum(line)
		wrong(err != nil, "--packages-minimum: %w", err)
	}
	wrong(rules.Mode != Off && rules.Mode != Listed && rules.Mode != On, "--packages %q is not off, listed or on", rules.Mode)
	wrong(!known, "--packages-deny-set %q is not a set of packages; there is %s", rules.DenySet, Cautious)
	wrong(rules.Mode == Listed && len(rules.Allow) == 0, "--packages listed allows what --packages-allow names, which is empty; name some, or use --packages off")
	wrong(rules.Mode == On && rules.DenySet == "" && len(rules.Allow) > 0, "--packages-allow has no effect, because --packages is on and allows all; use --packages listed")
	return p, errors.Join(problems...)
}

// Summary describes in a sentence the packages that may be installed.
func (p *Policy) Summary() string {
	switch {
	case p.rules.Mode == Off:
		return "Nothing is installed from an index here; wheels and tarballs in " + strings.TrimSuffix(filesRoot, "/") + " are."
	case p.rules.Mode == Listed && len(p.allow) <= summarised:
		names := make([]string, len(p.allow))
		for i, e := range p.allow {
			names[i] = e.text
		}
		return "Only these may be installed: " + strings.Join(names, ", ") + "."
	case p.rules.Mode == Listed:
		return "Only listed packages may be installed."
	case p.rules.AllowSdist:
		return "Most are allowed; a refusal names its rule."
	}
	return "Most are allowed, Python's as wheels alone; a refusal names its rule."
}

// summarised is the most names in a summary.
const summarised = 20

func (p *Policy) addMinimum(line string) error {
	ecosystem, rest := cutEcosystem(strings.TrimSpace(line))
	name, least, ok := strings.Cut(rest, ">=")
	wanted := fmt.Errorf("%q is not NAME>=VERSION, such as numpy>=1.22.2 or npm:lodash>=4.17.21", line)
	if !ok {
		return wanted
	}
	if ecosystem == "" {
		ecosystem = PyPI
	}
	name, ok = ecosystem.normalise(strings.TrimSpace(name))
	if !ok {
		return wanted
	}
	least = strings.TrimSpace(least)
	if ecosystem == NPM {
		v, err := semver.Parse(least)
		if err != nil {
			return wanted
		}
		p.npmMinimum[name] = v
		return nil
	}
	v, err := pep440.Parse(least)
	if err != nil {
		return wanted
	}
	p.pythonMinimum[name] = v
	return nil
}

// denied makes a refusal: of which package, why, and by which setting.
func denied(what, setting, format string, args ...any) *fault.Error {
	f := fault.New(fault.PackageDenied, "Use another package, or ask whoever runs the server to change "+setting+".",
		"%s: %s (%s)", text.Shorten(what, 150), fmt.Sprintf(format, args...), setting)
	return f.With("setting", setting)
}

// checkName is the verdict on a package, before anything is known of it. The name is normalised.
func (p *Policy) checkName(ecosystem Ecosystem, name string) *fault.Error {
	if p.rules.Mode == Off {
		return denied(name, "--packages off", "no packages are installed here")
	}
	return p.checkLists(ecosystem, name)
}

func (p *Policy) checkLists(ecosystem Ecosystem, name string) *fault.Error {
	if e, ok := find(p.deny, ecosystem, name); ok {
		return denied(name, "--packages-deny", "it is on the deny list, as %s", e.text)
	}
	_, allowed := find(p.allow, ecosystem, name)
	if p.rules.Mode == Listed && !allowed {
		return denied(name, "--packages-allow", "it is not on the list of packages that may be installed here")
	}
	if _, ok := find(p.denySet, ecosystem, name); ok && !allowed {
		return denied(name, "--packages-deny-set", "it is one of the %s set, which is not installed here", p.rules.DenySet)
	}
	return nil
}

// checkListed is the verdict on a file of a package that is allowed.
func (p *Policy) checkListed(ecosystem Ecosystem, name string, f *listed, now time.Time) *fault.Error {
	refused := p.checkVersion(ecosystem, name, f.version)
	if refused == nil {
		refused = p.checkAge(f.name, f.published, now)
	}
	if refused == nil && f.isSource {
		refused = p.checkSdist(f.name)
	}
	if refused == nil {
		refused = p.checkSize(f.name, f.size)
	}
	return refused
}

// checkVersion is the verdict on a version by its number. One that cannot be read is below every minimum.
func (p *Policy) checkVersion(ecosystem Ecosystem, name, number string) *fault.Error {
	below := func(least string) *fault.Error {
		return denied(name, "--packages-minimum", "versions below %s are not installed here", least)
	}
	if least, ok := p.pythonMinimum[name]; ok && ecosystem == PyPI {
		if v, err := pep440.Parse(number); err != nil || v.LessThan(least) {
			return below(least.Original())
		}
	}
	if least, ok := p.npmMinimum[name]; ok && ecosystem == NPM {
		if v, err := semver.Parse(number); err != nil || v.LT(least) {
			return below(least.String())
		}
	}
	return nil
}

// checkAge judges a version by the time of its publication, the zero time if it is unknown.
func (p *Policy) checkAge(what string, published, now time.Time) *fault.Error {
	least := p.rules.MinAge
	if least == 0 {
		return nil
	}
	if published.IsZero() {
		return denied(what, "--package-min-age", "the index does not tell when it was published, and it has to be %s old", age(least))
	}
	if now.Sub(published) < least {
		return denied(what, "--package-min-age", "it was published on %s and has to be %s old", published.UTC().Format("2 January 2006 15:04 UTC"), age(least))
	}
	return nil
}

// age writes a duration as people say it.
func age(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d == day:
		return "1 day"
	case d%day == 0:
		return fmt.Sprintf("%d days", d/day)
	default:
		return d.String()
	}
}

// checkSize judges a file of this many bytes, less than zero if that is unknown.
func (p *Policy) checkSize(what string, size int64) *fault.Error {
	if size <= p.rules.FileLimit {
		return nil
	}
	return p.tooLarge(what, "it has "+humanize.Bytes(uint64(size)))
}

func (p *Policy) tooLarge(what, why string) *fault.Error {
	return denied(what, "--package-size-limit", "%s, and %s is the most", why, humanize.Bytes(uint64(p.rules.FileLimit)))
}

func (p *Policy) checkSdist(what string) *fault.Error {
	if p.rules.AllowSdist {
		return nil
	}
	return denied(what, "--packages-allow-sdist", "it is a source distribution, which would have to be built; wheels alone are installed here")
}
