package server

import (
	"strings"
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/proxy"
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
		options, err := s.Network.options(lookup)
		if got := proxy.New(options).Summary(); err != nil || got != test.want {
			t.Errorf("%s: %s (%v)", name, got, err)
		}
		should.Equal(t, options.Limits, proxy.DefaultLimits(), "%s: the limits", name)
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
		"connections":      {[]string{"--network-connections=0"}, "--network-connections 0"},
		"bytes":            {[]string{"--network-byte-limit=1m"}, "--network-byte-limit 1MiB is less than --network-request-limit 1GiB"},
		"a request":        {[]string{"--network-request-limit=1"}, "--network-request-limit 1 is too small"},
		"time":             {[]string{"--network-timeout=0"}, "--network-timeout 0s must be above 0"},
		"idle time":        {[]string{"--network-idle-timeout=0"}, "--network-idle-timeout 0s must be above 0"},
	} {
		should.Fail(t, should.ErrOf(loadSettings(t, test.args, nil)), test.want, "%s", name)
	}
}

func TestValuesOfSecretsComeFromTheServersEnvironmentAndAreMasked(t *testing.T) {
	s, err := loadSettings(t, []string{"--secret=API_KEY@a.example", "--network-timeout=90"}, nil)
	must.OK(t, err)
	for value, want := range map[string]string{"": "the value of API_KEY has 0 bytes", "sk-123": "has 6 bytes", "\x00": "is not set"} {
		lookup := func(string) (string, bool) { return value, value != "\x00" }
		if _, err := s.Network.options(lookup); err == nil || !strings.Contains(err.Error(), "--secret: API_KEY: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", value, err)
		}
	}
	lookup := func(string) (string, bool) { return "sk-1234567890", true }
	for value, want := range map[string]string{"sk-1234567890": "ok: set, for requests to [a.example]", "sk-123": "fail: API_KEY: the value of API_KEY has 6 bytes; a secret has 8 at the least"} {
		checks := s.Network.secretChecks(func(string) (string, bool) { return value, true })
		if len(checks) != 1 || string(checks[0].Status)+": "+checks[0].Found != want || checks[0].Name != "secret API_KEY" {
			t.Errorf("%+v", checks)
		}
	}
	options, err := s.Network.options(lookup)
	if err != nil || options.Limits.Total != 90*time.Second {
		t.Errorf("%+v %v", options.Limits, err)
	}
	mask := secrets.New(s.Network.withSecrets(map[string]string{"OTHER": "another-key-1"}, lookup))
	should.Equal(t, mask.Mask("sk-1234567890 another-key-1"), "[masked: API_KEY] [masked: OTHER]", "masked as")
}
