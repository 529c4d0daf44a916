package server

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

// loadPackages reads settings from a command line.
func loadPackages(t *testing.T, argv ...string) (*Program, *pflag.FlagSet, error) {
	t.Helper()
	s, fs := &Program{}, pflag.NewFlagSet("", pflag.ContinueOnError)
	s.bind(fs)
	if err := fs.Parse(argv); err != nil {
		return s, fs, err
	}
	return s, fs, s.load(fs, func(string) (string, bool) { return "", false })
}

func TestPackageSettings(t *testing.T) {
	s, _, err := loadPackages(t, "--packages=listed", "--packages-allow=numpy,npm:@aws-sdk/*", "--package-min-age=7d", "--state-dir="+t.TempDir())
	must.OK(t, err)
	should.Equal(t, s.Packages.Rules.MinAge, 7*24*time.Hour, "the age")
	for argument, says := range map[string]string{
		"--packages=maybe":            `--packages "maybe" is not off, listed or on`,
		"--packages-deny=a b":         `--packages-deny: "a b"`,
		"--package-min-age=sevend":    "not a duration such as 90s, 5m or 7d",
		"--package-min-age=-1h":       "--package-min-age -1h0m0s must be at least 0",
		"--package-size-limit=3g":     "--package-cache-limit 2.0 GiB is less than --package-size-limit 3.0 GiB",
		"--package-size-limit=0":      "--package-size-limit 0 must be above 0",
		"--package-timeout=0":         "--package-timeout 0s must be above 0",
		"--pypi-index-url=pypi":       "--pypi-index-url is not an address",
		"--npm-registry=ftp://a:b@c/": "--npm-registry is not an address",
	} {
		if _, _, err := loadPackages(t, argument); err == nil || strings.Count(err.Error(), says) != 1 || strings.Count(err.Error(), argument[:strings.IndexByte(argument, '=')]) != 1 {
			t.Errorf("%s: got %v", argument, err)
		}
	}
}

func TestCredentialsOfAnIndexAreNotPrinted(t *testing.T) {
	_, fs, err := loadPackages(t, "--pypi-index-url=https://user:hunter2@packages.example/simple/", "--npm-registry=https://s3cret@npm.example/")
	must.OK(t, err)
	for name, want := range map[string]string{
		"pypi-index-url": "https://xxxxx@packages.example/simple/", "npm-registry": "https://xxxxx@npm.example/",
	} {
		should.Equal(t, fs.Lookup(name).Value.String(), want, "--%s prints", name)
	}
}
