package server

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/principal"
)

// withPolicy loads settings with a policy file.
func withPolicy(t *testing.T, text string, more ...string) (*Settings, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return loadSettings(t, append([]string{"--http", "8000", "--state-dir", filepath.Join(t.TempDir(), "state"), "--policy", file}, more...), map[string]string{"API_KEY": "a-key-that-is-long"})
}

func TestAPolicyIsTheMostSpecificOne(t *testing.T) {
	s, err := withPolicy(t, `
default: {max-sessions: 3, run-timeout: 20, tools: [run_python_code]}
groups:
  a: {allow-domain: [one.example, two.example], memory-limit: 256m, max-sessions: 5}
  b: {allow-domain: [three.example], memory-limit: 128m}
principals:
  alice: {memory-limit: 512m, allow-domain: []}
`, "--memory-limit", "2g", "--cpu-limit", "1.5", "--allow-domain", "of.all")
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		who      principal.Principal
		memory   int64
		sessions int
		tools    int
		domains  string
	}{
		"the user":        {principal.Principal{}, 2 << 30, 10, 0, "of.all"},
		"nobody special":  {principal.Principal{Name: "eve"}, 2 << 30, 3, 1, "of.all"},
		"unknown group":   {principal.Principal{Name: "eve", Groups: []string{"c"}}, 2 << 30, 3, 1, "of.all"},
		"a group":         {principal.Principal{Name: "bob", Groups: []string{"a"}}, 256 << 20, 5, 1, "one.example two.example"},
		"both":            {principal.Principal{Name: "bob", Groups: []string{"b", "a"}}, 128 << 20, 5, 1, "one.example two.example three.example"},
		"one person":      {principal.Principal{Name: "alice"}, 512 << 20, 3, 1, ""},
		"and her group":   {principal.Principal{Name: "alice", Groups: []string{"a"}}, 512 << 20, 5, 1, ""},
		"no name's group": {principal.Principal{Groups: []string{"a"}}, 2 << 30, 10, 0, "of.all"},
	} {
		own, _, err := s.of(test.who)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if own.Sandbox.Limits.MemoryBytes != test.memory || own.Sandbox.MaxSessions != test.sessions || len(own.Tools.Enable) != test.tools ||
			strings.Join(own.Network.AllowDomain, " ") != test.domains || own.Sandbox.Limits.CPUs != 1.5 {
			t.Errorf("%s: %d bytes, %d sessions, tools %v, domains %v, %v processors", name, own.Sandbox.Limits.MemoryBytes, own.Sandbox.MaxSessions, own.Tools.Enable, own.Network.AllowDomain, own.Sandbox.Limits.CPUs)
		}
		if own.HostLabel() != s.HostLabel() || (own.SessionDir() == s.SessionDir()) != test.who.IsUser() || own.tenant != test.who.Key() {
			t.Errorf("%s: label %s, folder %s, tenant %q", name, own.HostLabel(), own.SessionDir(), own.tenant)
		}
	}
	if !reflect.DeepEqual(s.Network.AllowDomain, []string{"of.all"}) || s.Sandbox.Limits.MemoryBytes != 2<<30 {
		t.Errorf("the server's own settings have changed: %v", s.Network.AllowDomain)
	}
}

func TestWhatIsWrongWithAPolicy(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"no YAML":            {"a: [", "--policy"},
		"a word of its own":  {"users: {}", "users"},
		"no setting":         {"default: {memory: 1g}", `default: there is no setting "memory"`},
		"the server's":       {"groups: {a: {http: 8001}}", "group a: http is of the whole server, and no principal's own"},
		"no value":           {"principals: {alice: {memory-limit: much}}", `principal alice: memory-limit: not a size such as 512m or 2g: "much"`},
		"out of bounds":      {"principals: {alice: {memory-limit: 1m}}", "principal alice: --memory-limit 1MiB is too small"},
		"a bad name":         {`principals: {" alice": {}}`, "blanks around it"},
		"a tool":             {"default: {tools: [run_cobol]}", `there is no tool "run_cobol"`},
		"only with another":  {"default: {network-request-limit: 2t}", "--network-byte-limit"},
		"an allowlist of no": {"default: {network: allowlist}", "allows no host"},
	} {
		if _, err := withPolicy(t, test.text); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := withPolicy(t, "default: {nonsense: 1}\ngroups: {a: {}}\nprincipals: {b: {worse: 1}}"); err == nil || strings.Count(err.Error(), "nonsense") != 1 || !strings.Contains(err.Error(), "worse") {
		t.Errorf("a mistake for everybody is told as that of each: %v", err)
	}
	if _, err := loadSettings(t, []string{"--policy", "none.yaml"}, nil); err == nil || !strings.Contains(err.Error(), "without --http") {
		t.Errorf("without --http: %v", err)
	}
	if s, err := withPolicy(t, ""); err != nil || len(s.policy.Default) > 0 {
		t.Errorf("an empty one: %v", err)
	}
}

// The log masks the secrets of all principals, whoever a line is about.
func TestSecretsOfPoliciesAreKnown(t *testing.T) {
	s, err := withPolicy(t, "groups: {a: {secret: [API_KEY@api.example]}}")
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	log, err := s.Logger(&said)
	if err != nil {
		t.Fatal(err)
	}
	log.Info("a-key-that-is-long")
	if strings.Contains(said.String(), "a-key-that-is-long") {
		t.Errorf("the log says %s", said.String())
	}
}

// Every setting that a policy may have is one, and it may have those that say what principals may do.
func TestSettingsOfPrincipalsExist(t *testing.T) {
	for _, group := range new(Settings).table() {
		for _, row := range group.settings {
			if strings.Contains(row.help, "of a principal ") || strings.Contains(row.help, "a principal may ") {
				if !slices.Contains(ofPrincipals, row.name) {
					t.Errorf("a policy cannot have %s", row.name)
				}
			}
		}
	}
	flags := Flags()
	for _, limit := range []string{"max-sessions", "max-kernels", "memory-total", "cpu-total", "disk-total", "keep-limit", "calls-per-minute", "bytes-out-limit"} {
		if !slices.Contains(ofPrincipals, limit) {
			t.Errorf("%s is no principal's own", limit)
		}
	}
	for _, name := range ofPrincipals {
		if flags.Lookup(name) == nil {
			t.Errorf("there is no setting %s", name)
		}
	}
}
