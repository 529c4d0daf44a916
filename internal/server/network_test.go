package server

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/proxy"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/doctor"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/secrets"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

func TestTheNetworkIsWhatIsSet(t *testing.T) {
	env := map[string]string{"API_KEY": "sk-1234567890", "OTHER": "another-key-1"}
	lookup := func(name string) (string, bool) { v, ok := env[name]; return v, ok }
	for name, test := range map[string]struct {
		args []string
		env  map[string]string
		want string
	}{
		"nothing":                        {nil, nil, ""},
		"none":                           {[]string{"--network=none"}, nil, ""},
		"hosts are an allow list":        {[]string{"--allow-domain=api.github.com,*.example.com:8443"}, nil, "only api.github.com, *.example.com:8443 by HTTP(S)"},
		"of the environment":             {nil, map[string]string{"SANDBOX_ALLOW_DOMAIN": "a.example,b.example"}, "only a.example, b.example by HTTP(S)"},
		"hosts inside":                   {[]string{"--allow-private=gitlab.corp:443 GET|HEAD /api/*,10.201.0.0/16:80"}, nil, "only gitlab.corp:443 GET|HEAD /api/*, 10.201.0.0/16:80 by HTTP(S)"},
		"asking":                         {[]string{"--ask"}, nil, "only hosts of an empty list by HTTP(S)"},
		"open":                           {[]string{"--network=open", "--allow-domain=a.example:22"}, nil, "public hosts by HTTP(S), on the ports 80, 443, 8080, 8443"},
		"a secret":                       {[]string{"--secret=API_KEY@a.example,b.example,query,body"}, nil, "only a.example, b.example by HTTP(S); API_KEY has a placeholder, which is replaced by the value in headers, queries, bodies of requests to https://a.example, https://b.example"},
		"two secrets in the environment": {nil, map[string]string{"SANDBOX_SECRET": "API_KEY@a.example,K=OTHER@b.example"}, "only a.example, b.example by HTTP(S); API_KEY has a placeholder, which is replaced by the value in headers of requests to https://a.example; K has a placeholder, which is replaced by the value in headers of requests to https://b.example"},
	} {
		s, err := loadSettings(t, test.args, test.env)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		options, err := s.Network.Options(lookup)
		got := proxy.New(options).Summary()
		should.Hold(t, err == nil && got == test.want, "%s: %s (%v)", name, got, err)
	}
}

func TestBadSettingsOfTheNetwork(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"mode":             {[]string{"--network=all"}, `--network "all" is not none, allowlist or open`},
		"none, with hosts": {[]string{"--network=none", "--allow-domain=a.example"}, "--network none beside --allow-domain"},
		"none, asking":     {[]string{"--network=none", "--ask"}, "--network none beside --allow-domain"},
		"never inside":     {[]string{"--allow-private=127.0.0.1:443,gitlab.corp"}, "--allow-private: \"127.0.0.1:443\" is never reached"},
		"no authority":     {[]string{"--allow-private=gitlab.corp:443", "--allow-private-ca=/no/such.pem"}, "--allow-private-ca: open /no/such.pem"},
		"an empty list":    {[]string{"--network=allowlist"}, "--network allowlist allows no host"},
		"hosts":            {[]string{"--allow-domain=https://a.example,10.0.0.1"}, `"10.0.0.1" is not on the open internet`},
		"secret":           {[]string{"--secret=API_KEY"}, `--secret: "API_KEY" has no @`},
		"passed as well":   {[]string{"--secret=API_KEY@a.example", "--pass-through-env=API_KEY"}, "--secret: API_KEY is in --pass-through-env as well"},
	} {
		should.Fail(t, should.ErrOf(loadSettings(t, test.args, nil)), test.want, "%s", name)
	}
}

func TestValuesOfSecretsComeFromTheServersEnvironmentAndAreMasked(t *testing.T) {
	s := must.Get(loadSettings(t, []string{"--secret=API_KEY@a.example"}, nil))(t)
	for value, want := range map[string]string{"": "the value of API_KEY has 0 bytes", "sk-123": "has 6 bytes", "\x00": "is not set"} {
		lookup := func(string) (string, bool) { return value, value != "\x00" }
		if _, err := s.Network.Options(lookup); err == nil || !strings.Contains(err.Error(), "--secret: API_KEY: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", value, err)
		}
	}
	lookup := func(string) (string, bool) { return "sk-1234567890", true }
	for value, want := range map[string]string{"sk-1234567890": "ok: set, for requests to [a.example]", "sk-123": "fail: API_KEY: the value of API_KEY has 6 bytes; a secret has 8 at the least"} {
		checks := secretChecks(&s.Network, func(string) (string, bool) { return value, true })
		should.Hold(t, len(checks) == 1 && string(checks[0].Status)+": "+checks[0].Found == want && checks[0].Name == "secret API_KEY",
			"%+v", checks)
	}
	mask := secrets.New(s.Network.WithSecrets(map[string]string{"OTHER": "another-key-1"}, lookup))
	should.Equal(t, mask.Mask("sk-1234567890 another-key-1"), "[masked: API_KEY] [masked: OTHER]", "masked as")
}

// loadPackages reads settings from a command line.
func loadPackages(t *testing.T, argv ...string) (*Program, *pflag.FlagSet, error) {
	t.Helper()
	s, fs := New(nil), pflag.NewFlagSet("", pflag.ContinueOnError)
	s.Bind(fs)
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
		"--package-size-limit=0":      "--package-size-limit 0 must be above 0",
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

func TestVariablesThatAreNotMasked(t *testing.T) {
	for _, test := range []struct {
		name, value string
		unset       bool
		want        doctor.Status
		found       string
	}{
		{name: "a secret", value: "sk-7f3a90", want: doctor.OK, found: "masked"},
		{name: "not set", unset: true, want: doctor.Warn, found: "not set"},
		{name: "empty", value: "", want: doctor.Warn, found: "shorter than 6"},
		{name: "five characters", value: "abcde", want: doctor.Warn, found: "shorter than 6"},
		{name: "six", value: "abcdef", want: doctor.OK, found: "masked"},
		{name: "a word", value: "Production", want: doctor.Warn, found: "no secret"},
		{name: "a word in a longer text", value: "production-7f3a90", want: doctor.OK, found: "masked"},
		{name: "one character many times", value: "********", want: doctor.Warn, found: "no secret"},
		{name: "a number", value: "5432100", want: doctor.Warn, found: "no secret"},
		{name: "a long number", value: "54321005432100", want: doctor.OK, found: "masked"},
		{name: "the work folder", value: "/mnt/data/", want: doctor.Warn, found: "no secret"},
	} {
		t.Run(test.name, func(t *testing.T) {
			checks := passThroughChecks([]string{"NAME"}, func(string) (string, bool) { return test.value, !test.unset })
			must.Hold(t, len(checks) == 1, "%+v", checks)
			c := checks[0]
			if c.Name != "variable NAME" || c.Status != test.want || !strings.Contains(c.Found, test.found) || (c.Fix == "") != (c.Status == doctor.OK) {
				t.Errorf("%+v", c)
			}
			should.Hold(t, test.value == "" || !strings.Contains(c.Found+c.Why+c.Fix, test.value), "it tells the value: %+v", c)
		})
	}
}
