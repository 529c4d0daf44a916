package server

import (
	"fmt"
	"net/url"
	"time"

	"github.com/spf13/pflag"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/packages"
)

// PackageSettings say which packages code may install, and from where.
type PackageSettings struct {
	Mode       string
	Allow      []string
	Deny       []string
	DenySet    string
	Minimum    []string
	MinAge     seconds
	AllowSdist bool

	PyPI, NPM  indexURL
	SizeLimit  ByteSize
	Timeout    seconds
	CacheLimit ByteSize
}

func (p *PackageSettings) bind(fs *pflag.FlagSet) {
	fs.StringVar(&p.Mode, "packages", packages.On, "what code may install: `off`, listed for what --packages-allow names, or on")
	fs.StringSliceVar(&p.Allow, "packages-allow", nil, "`names` that may be installed, such as numpy, pypi:scikit-* or npm:@aws-sdk/*")
	fs.StringSliceVar(&p.Deny, "packages-deny", nil, "`names` that may not be installed, written in the same way")
	fs.StringVar(&p.DenySet, "packages-deny-set", "", "a `set` of packages that may not be installed: "+packages.Cautious)
	fs.StringSliceVar(&p.Minimum, "packages-minimum", packages.DefaultMinimum, "the least `versions`; npm's as npm:lodash>=4.17.21")
	fs.Var(&p.MinAge, "package-min-age", "how long ago a version must have been published, such as 7d")
	fs.BoolVar(&p.AllowSdist, "packages-allow-sdist", false, "install source distributions of Python packages too")
	p.PyPI, p.NPM = packages.DefaultPyPI, packages.DefaultNPM
	fs.Var(&p.PyPI, "pypi-index-url", "index of Python packages; credentials in it stay with the server")
	fs.Var(&p.NPM, "npm-registry", "registry of npm packages, likewise")
	p.SizeLimit, p.Timeout, p.CacheLimit = packages.DefaultFileLimit, seconds(packages.DefaultTimeout), packages.DefaultCacheLimit
	fs.Var(&p.SizeLimit, "package-size-limit", "the largest file of a package")
	fs.Var(&p.Timeout, "package-timeout", "how long fetching one may take")
	fs.Var(&p.CacheLimit, "package-cache-limit", "what the files of packages may take on this machine, for all sessions")
}

// check refuses what cannot be meant.
func (p *PackageSettings) check() error {
	for name, value := range map[string]int64{
		"size-limit": int64(p.SizeLimit), "timeout": int64(p.Timeout), "cache-limit": int64(p.CacheLimit),
	} {
		if value <= 0 {
			return fmt.Errorf("--package-%s must be above 0", name)
		}
	}
	options, err := p.options("")
	if err != nil {
		return err
	}
	_, err = packages.New(options)
	return err
}

// options are what the package indexes of the sandboxes are made of, all but the log.
func (p *PackageSettings) options(stateDir string) (packages.Options, error) {
	policy, err := packages.NewPolicy(packages.Rules{
		Mode: p.Mode, Allow: p.Allow, Deny: p.Deny, DenySet: p.DenySet, Minimum: p.Minimum,
		MinAge: time.Duration(p.MinAge), AllowSdist: p.AllowSdist, FileLimit: int64(p.SizeLimit),
	})
	return packages.Options{
		Policy: policy, CacheFolder: packages.CacheFolder(stateDir), CacheLimit: int64(p.CacheLimit),
		PyPI: string(p.PyPI), NPM: string(p.NPM), Timeout: time.Duration(p.Timeout),
	}, err
}

// indexURL is an address that may have credentials, which are not in what it prints.
type indexURL string

func (u *indexURL) Set(text string) error {
	*u = indexURL(text) // packages checks it
	return nil
}

func (u indexURL) String() string {
	parsed, err := url.Parse(string(u))
	if err != nil {
		return "an address that cannot be read"
	}
	if parsed.User != nil {
		parsed.User = url.User("xxxxx") // as net/url hides passwords; a name may be a token
	}
	return parsed.String()
}

// Type names the value in a flag's help.
func (u indexURL) Type() string { return "url" }
