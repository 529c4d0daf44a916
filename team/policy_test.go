package team

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/spf13/pflag"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/httpserver"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/principal"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/server"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/setting"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

// withPolicy loads settings with a policy file.
func withPolicy(t *testing.T, text string, more ...string) (*policy, *server.Program, error) {
	t.Helper()
	p := new(policy)
	s, err := readWithPolicy(t, []server.Feature{quotas(), p.feature()}, text, map[string]string{"API_KEY": "a-key-that-is-long"}, more...)
	return p, s, err
}

func readWithPolicy(t *testing.T, features []server.Feature, text string, env map[string]string, more ...string) (*server.Program, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "policy.yaml")
	must.OK(t, os.WriteFile(file, []byte(text), 0o600))
	return read(features, append([]string{"--http", "127.0.0.1:0", "--state-dir", filepath.Join(t.TempDir(), "state"), "--policy", file}, more...), env)
}

func TestAPolicyIsTheMostSpecificOne(t *testing.T) {
	p, s, err := withPolicy(t, `
default: {max-sessions: 3, run-timeout: 20, tools: [run_python_code]}
groups:
  a: {allow-domain: [one.example, two.example], memory-limit: 256m, max-sessions: 5}
  b: {allow-domain: [three.example], memory-limit: 128m}
  Trial: {memory-limit: 64m}
  B2: {memory-limit: 96m}
principals:
  alice: {memory-limit: 512m, network: none}
`, "--memory-limit", "2g", "--cpu-limit", "1.5", "--allow-domain", "of.all")
	must.OK(t, err)
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
		"the file's last": {principal.Principal{Name: "bob", Groups: []string{"B2", "a", "Trial"}}, 96 << 20, 5, 1, "one.example two.example"},
		"one person":      {principal.Principal{Name: "alice"}, 512 << 20, 3, 1, ""},
		"and her group":   {principal.Principal{Name: "alice", Groups: []string{"a"}}, 512 << 20, 5, 1, ""},
		"no name's group": {principal.Principal{Groups: []string{"a"}}, 2 << 30, 10, 0, "of.all"},
	} {
		own := s
		if !test.who.IsUser() {
			own, _, err = newTenants(&server.Running{Program: s}, p).settingsOf(test.who)
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if own.Sandbox.Limits.MemoryBytes != test.memory || own.Sandbox.MaxSessions != test.sessions || len(own.Tools.Enable) != test.tools ||
			strings.Join(own.Network.AllowDomain, " ") != test.domains || own.Sandbox.Limits.CPUs != 1.5 {
			t.Errorf("%s: %d bytes, %d sessions, tools %v, domains %v, %v processors", name, own.Sandbox.Limits.MemoryBytes, own.Sandbox.MaxSessions, own.Tools.Enable, own.Network.AllowDomain, own.Sandbox.Limits.CPUs)
		}
		if own.HostLabel() != s.HostLabel() || (own.SessionDir() == s.SessionDir()) != test.who.IsUser() {
			t.Errorf("%s: label %s, folder %s", name, own.HostLabel(), own.SessionDir())
		}
	}
	should.Hold(t, reflect.DeepEqual(s.Network.AllowDomain, []string{"of.all"}) && s.Sandbox.Limits.MemoryBytes == 2<<30,
		"the server's own settings have changed: %v", s.Network.AllowDomain)
}

func TestWhatAPolicySaysIsInPlaceOfTheServersOwn(t *testing.T) {
	private, public := t.TempDir(), t.TempDir()
	p, s, err := withPolicy(t, `
default: {mount: [`+public+`:q]}
groups:
  a: {disable-tools: [run_js_code]}
  b: {disable-tools: "exec_sql,run_bash", mount: []}
`, "--mount", private+":p")
	must.OK(t, err)
	for groups, want := range map[string]string{"": "q ", "a": "q run_js_code", "b": " exec_sql run_bash", "a b": " run_js_code exec_sql run_bash"} {
		own, _, err := newTenants(&server.Running{Program: s}, p).settingsOf(principal.Principal{Name: "bob", Groups: strings.Fields(groups)})
		must.OK(t, err)
		var mounts []string
		for _, m := range own.Mounts {
			mounts = append(mounts, m.Name)
		}
		should.Equal(t, strings.Join(mounts, " ")+" "+strings.Join(own.Tools.Disable, " "), want, "groups %q", groups)
	}
}

func TestAPrincipalIsCutOffWhereOthersAreAskedFor(t *testing.T) {
	_, _, err := withPolicy(t, "principals: {alice: {network: none, memory-limit: }}", "--ask", "--network", "allowlist")
	should.OK(t, err)
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
		"only with another":  {"default: {mcp-allow: [a.b]}", "--mcp-servers"},
		"an allowlist of no": {"default: {network: allowlist}", "allows no host"},
	} {
		_, _, err := withPolicy(t, test.text)
		should.Hold(t, err != nil && strings.Contains(err.Error(), test.want), "%s: %v", name, err)
	}
	if _, _, err := withPolicy(t, "default: {nonsense: 1}\ngroups: {a: {}}\nprincipals: {b: {worse: 1}}"); err == nil || strings.Count(err.Error(), "nonsense") != 1 || !strings.Contains(err.Error(), "worse") {
		t.Errorf("a mistake for everybody is told as that of each: %v", err)
	}
	file := filepath.Join(t.TempDir(), "policy.yaml")
	must.OK(t, os.WriteFile(file, nil, 0o600))
	s, err := load(t, nil, map[string]string{"SANDBOX_POLICY": file}) // as a command does that serves nothing
	must.OK(t, err)
	should.Fail(t, should.ErrOf(s.Begin(t.Context(), nil, slog.New(slog.DiscardHandler))), "without --http", "without --http")
	if p, _, err := withPolicy(t, ""); err != nil || len(p.now.Default) > 0 {
		t.Errorf("an empty one: %v", err)
	}
}

// The log masks the secrets of all principals, whoever a line is about.
func TestSecretsOfPoliciesAreKnown(t *testing.T) {
	_, s, err := withPolicy(t, "{default: {allow-domain: [x.example]}, groups: {a: {network: allowlist, pass-through-env: [API_KEY]}}}")
	must.OK(t, err)
	var said strings.Builder
	log := must.Get(s.Logger(&said))(t)
	log.Info("a-key-that-is-long")
	should.Hold(t, !strings.Contains(said.String(), "a-key-that-is-long"), "the log says %s", said.String())
}

// Every setting that a policy may have is one, and it may have those that say what principals may do.
func TestSettingsOfPrincipalsExist(t *testing.T) {
	flags := server.Flags(Features())
	flags.VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && (strings.Contains(f.Usage, "of a principal ") || strings.Contains(f.Usage, "a principal may ")) && !slices.Contains(ofPrincipals, f.Name) {
			t.Errorf("a policy cannot have %s", f.Name)
		}
	})
	for _, limit := range []string{"max-sessions", "max-kernels", "memory-total", "cpu-total", "disk-total", "keep-limit", "calls-per-minute", "bytes-out-limit"} {
		should.Hold(t, slices.Contains(ofPrincipals, limit), "%s is no principal's own", limit)
	}
	for _, name := range ofPrincipals {
		f := flags.Lookup(name)
		should.Hold(t, f != nil && !f.Hidden, "there is no setting %s", name)
	}
}

// begun is a server that nobody uses yet.
func begun(t *testing.T, args []string, env map[string]string) *server.Running {
	t.Helper()
	s := must.Get(load(t, args, env))(t)
	return begin(t, s)
}

func begin(t *testing.T, s *server.Program) *server.Running {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r := must.Get(s.Begin(ctx, nil, slog.New(slog.DiscardHandler)))(t)
	t.Cleanup(func() {
		cancel()
		_ = r.Web.Listener.Close()
		r.End(context.Background())
	})
	return r
}

// begunWith is a server with a policy file.
func begunWith(t *testing.T, text string) (all *tenants, rewrite func(text string)) {
	t.Helper()
	p, s, err := withPolicy(t, text)
	must.OK(t, err)
	s.Mask() // as the log has, before anything uses it
	all = newTenants(begin(t, s), p)
	t.Cleanup(func() { all.Close(context.Background()) })
	return all, func(text string) {
		t.Helper()
		must.OK(t, os.WriteFile(p.file, []byte(text), 0o600))
		all.reload()
	}
}

// What a principal gets by another policy counts for what it opens later, and its secrets are masked.
func TestAPolicyThatChangesCounts(t *testing.T) {
	all, rewrite := begunWith(t, "groups: {a: {secret: [API_KEY@api.example], memory-limit: 2g}, b: {memory-limit: 256m}}")
	bob := principal.Principal{Name: "bob", Groups: []string{"b"}}
	first := must.Get(all.Get(bob))(t)
	const key = "a-key-that-is-long"
	if got := first.Manager().Config(); got.Mask.Mask(key) != key || got.Limits.MemoryBytes != 256<<20 {
		t.Errorf("of b: %s, %d bytes", got.Mask.Mask(key), got.Limits.MemoryBytes)
	}
	before := first.Program()
	bob.Groups = []string{"a"}
	second, err := all.Get(bob)
	must.Hold(t, err == nil && second == first && second.Program() != before,
		"the same services by other settings: %v, %v", second == first, err)
	if got := second.Manager().Config(); got.Limits.MemoryBytes != 2<<30 || got.Mask.Mask(key) == key {
		t.Errorf("of a: %d bytes, the secret is %s", got.Limits.MemoryBytes, got.Mask.Mask(key))
	}
	rewrite("default: {memory-limit: 128m, pass-through-env: [API_KEY]}")
	third, err := all.Get(bob)
	if got := third.Manager().Config(); err != nil || got.Limits.MemoryBytes != 128<<20 || got.Env["API_KEY"] != key {
		t.Errorf("of all: %d bytes, %v, %v", got.Limits.MemoryBytes, got.Env, err)
	}
	after := third.Program()
	again, _ := all.Get(bob)
	should.Hold(t, again.Program() == after, "unchanged settings are made anew")
}

// A principal whose groups change, and one that comes for the first time, keep nobody else waiting.
func TestAChangeOfGroupsKeepsNobodyElseWaiting(t *testing.T) {
	all, rewrite := begunWith(t, "groups: {a: {memory-limit: 2g}, b: {memory-limit: 256m}}")
	alice := principal.Principal{Name: "alice", Groups: []string{"a"}}
	first, err := all.Get(alice)
	must.OK(t, err)
	known, _ := all.known(alice)
	known.turn.Lock() // as while its front is replaced
	before := first.Program()
	changed := make(chan *server.Services)
	go func() {
		next, _ := all.Get(principal.Principal{Name: "alice", Groups: []string{"b"}})
		changed <- next
	}()
	waits, goOn := make(chan struct{}), make(chan struct{})
	go func() { // as while carol gets what she has
		_, _, _ = all.making.Do(principal.Principal{Name: "carol"}.Key(), func() (any, error) {
			close(waits)
			<-goOn
			return nil, context.Canceled
		})
	}()
	<-waits
	if same, err := all.Get(alice); err != nil || same.Program() != before {
		t.Errorf("under the groups from before: %v", err)
	}
	should.OK(t, should.ErrOf(all.Get(principal.Principal{Name: "bob"})))
	close(goOn)
	known.turn.Unlock()
	if next := <-changed; next == nil || next.Program() == before || next.Manager().Config().Limits.MemoryBytes != 256<<20 {
		t.Error("the change does not count")
	}
	made := make(chan error, 20)
	for range cap(made) {
		go func() {
			_, err := all.Get(principal.Principal{Name: "dave"})
			made <- err
		}()
	}
	rewrite("default: {memory-limit: 128m}")
	for range cap(made) {
		should.OK(t, <-made)
	}
	if dave, err := all.Get(principal.Principal{Name: "dave"}); err != nil || dave.Manager().Config().Limits.MemoryBytes != 128<<20 {
		t.Errorf("by the policy of before: %v", err)
	}
}

// What cannot count lets nobody go on with more than it.
func TestAPolicyThatCannotCountRefuses(t *testing.T) {
	all, rewrite := begunWith(t, "groups: {staff: {memory-limit: 128m}, small: {secret: [OWN@a.example]}, closed: {network: none}}")
	bob := principal.Principal{Name: "bob", Groups: []string{"staff"}}
	must.OK(t, should.ErrOf(all.Get(bob)))
	rewrite("groups: {staff: {memory-limit: 128m}, small: {secret: [OWN@a.example]}, closed: {network: none}, xtra: {pass-through-env: [OWN]}}")
	bob.Groups = []string{"small", "xtra"} // neither is wrong, and both together are
	for range 2 {
		_, err := all.Get(bob)
		should.Hold(t, err != nil, "a policy that cannot count lets bob in")
	}
	bob.Groups = []string{"closed"}
	should.OK(t, should.ErrOf(all.Get(bob)), "another that can does not")
}

// A group's tools are all that its people have, in the list and in calls, whichever way the group is told: by a token, a header or a claim,
// under the names that the settings have for these.
func TestAPolicyOfAGroupHoldsHoweverTheGroupIsTold(t *testing.T) {
	public, private, err := ed25519.GenerateKey(nil)
	must.OK(t, err)
	issuer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/keys" {
			_, _ = fmt.Fprintf(w, `{"keys":[{"kty":"OKP","crv":"Ed25519","x":%q}]}`, base64.RawURLEncoding.EncodeToString(public))
			return
		}
		_, _ = fmt.Fprintf(w, `{"issuer":"http://%[1]s","jwks_uri":"http://%[1]s/keys"}`, r.Host)
	}))
	defer issuer.Close()
	claims := func(name, group string) map[string]string {
		token := jwt.NewWithClaims(jwt.SigningMethodEdDSA, jwt.MapClaims{
			"iss": issuer.URL, "aud": "sandbox", "sub": "not-" + name, "upn": name, "exp": time.Now().Add(time.Hour).Unix(),
			"groups": []string{"none-" + group}, "realm": map[string]any{"roles": []string{group}},
		})
		text := must.Get(token.SignedString(private))(t)
		return map[string]string{"Authorization": "Bearer " + text}
	}
	headers := func(name, group string) map[string]string {
		return map[string]string{"X-User": name, "X-Own-Groups": group, "X-Forwarded-Groups": "none-" + group, "X-Sandbox-Proxy-Secret": proxySecret}
	}
	s, err := readWithPolicy(t, Features(), "groups: {readers: {tools: [upload_file]}}", map[string]string{setting.HeaderSecretVariable: proxySecret},
		"--trusted-header=X-User", "--trusted-groups-header=X-Own-Groups",
		"--oidc-issuer="+issuer.URL, "--oidc-audience=sandbox", "--oidc-claim=upn", "--oidc-groups-claim=realm.roles")
	must.OK(t, err)
	r := begin(t, s)
	own := tokenStore(s, r.Log)
	t.Cleanup(own.Close)
	tokens := func(name, group string) map[string]string {
		_, token, err := own.Add(name, []string{group}, 0)
		must.OK(t, err)
		return map[string]string{"Authorization": "Bearer " + token}
	}
	serving, stop := context.WithCancel(t.Context())
	defer stop()
	go func() { _ = httpserver.New(r.Web.Options).Serve(serving, r.Web.Listener) }()
	for way, credential := range map[string]func(name, group string) map[string]string{"token": tokens, "header": headers, "claim": claims} {
		check := func(group string, restricted bool) {
			c, err := client.NewStreamableHttpClient("http://"+r.Web.Listener.Addr().String()+httpserver.Path, transport.WithHTTPHeaders(credential(group+"-by-"+way, group)))
			must.OK(t, err)
			defer c.Close()
			must.OK(t, should.ErrOf(c.Initialize(t.Context(), mcp.InitializeRequest{Params: mcp.InitializeParams{ProtocolVersion: mcp.LATEST_PROTOCOL_VERSION}})))
			listed, err := c.ListTools(t.Context(), mcp.ListToolsRequest{})
			must.OK(t, err)
			var names []string
			for _, tool := range listed.Tools {
				names = append(names, tool.Name)
			}
			is := slices.Equal(names, []string{"upload_file"})
			should.Hold(t, is == restricted, "by %s, %s: the tools are %q", way, group, names)
			called := func(tool string) string {
				result, err := c.CallTool(t.Context(), mcp.CallToolRequest{Params: mcp.CallToolParams{Name: tool, Arguments: map[string]any{"run_id": "run-none", "filename": "..", "text": ""}}})
				if err != nil {
					return err.Error()
				}
				return fmt.Sprint(result.Content)
			}
			should.Equal(t, strings.Contains(called("wait_for_run"), "run_not_found"), !restricted, "by %s, %s: the call answers %s", way, group, called("wait_for_run"))
			should.Equal(t, strings.Contains(called("upload_file"), "invalid_"), true, "by %s, %s: the call answers %s", way, group, called("upload_file"))
		}
		check("readers", true)
		check("writers", false)
	}
}
