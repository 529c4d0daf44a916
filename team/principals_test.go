package team

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/audit"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/cmd"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/doctor"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/principal"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/server"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/setting"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/team/tokens"
)

const proxySecret = "between-the-proxy-and-us"

// load reads settings of a program with the features of this package.
func load(t testing.TB, args []string, env map[string]string) (*server.Program, error) {
	t.Helper()
	return read(Features(), args, env)
}

func read(features []server.Feature, args []string, env map[string]string) (*server.Program, error) {
	return server.Read(features, args, func(name string) (string, bool) { v, ok := env[name]; return v, ok })
}

func TestBadSettingsOfPrincipals(t *testing.T) {
	secret := map[string]string{setting.HeaderSecretVariable: proxySecret}
	for name, test := range map[string]struct {
		args []string
		env  map[string]string
		want string // empty: it is good
	}{
		"an issuer":                 {[]string{"--oidc-issuer=https://login.example.com", "--oidc-audience=sandbox"}, nil, ""},
		"an issuer in the clear":    {[]string{"--oidc-issuer=http://login.example.com", "--oidc-audience=sandbox"}, nil, "--oidc-issuer: \"http://login.example.com\""},
		"no audience":               {[]string{"--oidc-issuer=https://login.example.com"}, nil, "needs --oidc-audience"},
		"an empty audience":         {[]string{"--oidc-issuer=https://login.example.com", "--oidc-audience=sandbox,"}, nil, "needs --oidc-audience"},
		"no issuer":                 {[]string{"--oidc-audience=sandbox"}, nil, "--oidc-audience sandbox is of no issuer"},
		"no claim":                  {[]string{"--oidc-issuer=https://login.example.com", "--oidc-audience=sandbox", "--oidc-claim="}, nil, "one of them is empty"},
		"an issuer for nobody":      {[]string{"--oidc-issuer=https://login.example.com", "--oidc-audience=sandbox", "--http=8000", "--http-no-auth"}, nil, "--http-no-auth lets everybody in"},
		"its address":               {[]string{"--http=8000", "--http-url=https://sandbox.example.com"}, nil, ""},
		"on this machine":           {[]string{"--http=8000", "--http-url=http://localhost:8000"}, nil, ""},
		"in the clear":              {[]string{"--http=8000", "--http-url=http://sandbox.example.com"}, nil, "is not the address of a server"},
		"below a path":              {[]string{"--http=8000", "--http-url=https://sandbox.example.com/"}, nil, "without a path"},
		"no address":                {[]string{"--http=8000", "--http-url=sandbox.example.com"}, nil, "is not the address of a server"},
		"its address over stdio":    {[]string{"--http-url=https://sandbox.example.com"}, nil, "has no effect without --http"},
		"a header from a proxy":     {[]string{"--trusted-header=X-Forwarded-User", "--trusted-proxy=10.0.0.7"}, nil, ""},
		"a header with a secret":    {[]string{"--trusted-header=X-Forwarded-User"}, secret, ""},
		"a short secret":            {[]string{"--trusted-header=X-Forwarded-User"}, map[string]string{setting.HeaderSecretVariable: "secret"}, "at least 16"},
		"a proxy by name":           {[]string{"--trusted-header=X-Forwarded-User", "--trusted-proxy=nginx"}, nil, `"nginx" is not an address`},
		"every proxy":               {[]string{"--trusted-header=X-Forwarded-User", "--trusted-proxy=0.0.0.0/0"}, nil, "every address"},
		"a proxy without a header":  {[]string{"--trusted-proxy=10.0.0.7"}, nil, "sets no header that counts"},
		"a header that is no name":  {[]string{"--trusted-header=X User"}, secret, `"X User" is not the name of a header`},
		"a header for all and none": {[]string{"--trusted-header=X-Forwarded-User", "--http=8000", "--http-no-auth"}, secret, "--http-no-auth lets everybody in"},
	} {
		_, err := load(t, test.args, test.env)
		should.Hold(t, (test.want != "" || err == nil) && (test.want == "" || err != nil && strings.Contains(err.Error(), test.want)),
			"%s: %v", name, err)
		should.Hold(t, err == nil || !strings.Contains(err.Error(), proxySecret), "%s: the error has the secret", name)
	}
}

func TestClientsAreToldTheIssuer(t *testing.T) {
	o := begun(t, []string{
		"--http=127.0.0.1:0", "--http-url=https://sandbox.example.com", "--oidc-issuer=https://login.example.com", "--oidc-audience=x", "--state-dir=" + t.TempDir(),
	}, nil).Web.Options
	if o.Issuer != "https://login.example.com" || o.URL != "https://sandbox.example.com" || !slices.Contains(o.AllowHosts, "sandbox.example.com") {
		t.Errorf("%q, %q, %q", o.Issuer, o.URL, o.AllowHosts)
	}
}

// A server refuses a header that anybody can send, and no other command does.
func TestAHeaderWithoutAGuardIsRefused(t *testing.T) {
	for _, secret := range []map[string]string{nil, {setting.HeaderSecretVariable: ""}} {
		s := must.Get(load(t, []string{"--http=127.0.0.1:0", "--state-dir", t.TempDir(), "--trusted-header=X-Forwarded-User"}, secret))(t)
		should.Fail(t, should.ErrOf(s.Begin(t.Context(), nil, slog.New(slog.DiscardHandler))), "--trusted-header X-Forwarded-User alone would let everybody be anybody", "%v", secret)
	}
}

func TestWhoseARequestIs(t *testing.T) {
	of := newIdentity()
	s, err := read([]server.Feature{of.feature()}, []string{
		"--state-dir", t.TempDir(), "--trusted-header=X-Forwarded-User", "--oidc-issuer=https://127.0.0.1:1", "--oidc-audience=sandbox",
	}, map[string]string{setting.HeaderSecretVariable: proxySecret})
	must.OK(t, err)
	log := slog.New(slog.DiscardHandler)
	own := tokenStore(s, log)
	t.Cleanup(own.Close)
	_, token, err := own.Add("program", nil, 0)
	must.OK(t, err)
	chain, err := of.chain(&server.Running{Program: s, Log: log}, own)
	must.OK(t, err)
	bearer, user, secret := [2]string{"Authorization", "Bearer " + token}, [2]string{"X-Forwarded-User", "alice"}, [2]string{"X-Sandbox-Proxy-Secret", proxySecret}
	for name, test := range map[string]struct {
		headers [][2]string
		want    string
		none    bool // it shows nothing
	}{
		"nothing":                             {nil, "", true},
		"a token":                             {[][2]string{bearer}, "program", false},
		"a header":                            {[][2]string{user, secret}, "alice", false},
		"a program's token, and whom it asks": {[][2]string{bearer, user, secret}, "alice", false},
		"a header that does not count":        {[][2]string{bearer, user}, "program", false},
		"that header alone":                   {[][2]string{user}, "", false},
		"a token that was never given":        {[][2]string{{"Authorization", "Bearer csm_nonsense"}}, "", false},
		"a token of an issuer that is away":   {[][2]string{{"Authorization", "Bearer eyJhbGciOiJSUzI1NiJ9.e30.x"}}, "", false},
		"another token":                       {[][2]string{{"Authorization", "Bearer 0123456789abcdef"}}, "", true},
		"a bad name, beside a good token":     {[][2]string{bearer, {"X-Forwarded-User", ""}, secret}, "", false},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/mcp", nil)
		for _, h := range test.headers {
			r.Header.Add(h[0], h[1])
		}
		p, err := chain.Authenticate(r)
		should.Hold(t, p.Name == test.want && (err == nil) == (test.want != "") && errors.Is(err, principal.ErrNone) == test.none,
			"%s: %+v, %v", name, p, err)
	}
}

func TestChecksOfPrincipals(t *testing.T) {
	issuer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/keys" {
			_, _ = fmt.Fprint(w, `{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}`)
			return
		}
		_, _ = fmt.Fprintf(w, `{"issuer":"http://%[1]s","jwks_uri":"http://%[1]s/keys"}`, r.Host)
	}))
	defer issuer.Close()
	closed := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	_ = closed.Close()
	type configured struct {
		*identity
		*server.Program
	}
	with := func(args ...string) configured {
		of := newIdentity()
		s := must.Get(read([]server.Feature{of.feature()}, append([]string{"--state-dir", t.TempDir()}, args...), nil))(t)
		return configured{of, s}
	}
	given := with()
	store := tokenStore(given.Program, slog.New(slog.DiscardHandler))
	_, _, err := store.Add("alice", nil, 0)
	must.Hold(t, err == nil, "%v", err)
	open := with()
	_, _, err = tokenStore(open.Program, slog.New(slog.DiscardHandler)).Add("alice", nil, 0)
	must.Hold(t, err == nil, "%v", err)
	must.OK(t, os.Chmod(filepath.Join(setting.StateFolder(open.StateDir), tokens.FileName), 0o644))
	openIs := doctor.Warn
	if runtime.GOOS == "windows" { // which has no such modes
		openIs = doctor.OK
	}
	for name, test := range map[string]struct {
		settings configured
		check    string // empty: there is none
		want     doctor.Status
	}{
		"nothing is set":       {with(), "", ""},
		"a token":              {given, "tokens", doctor.OK},
		"tokens for all":       {open, "tokens", openIs},
		"an issuer":            {with("--oidc-issuer="+issuer.URL, "--oidc-audience=x"), "OIDC issuer", doctor.OK},
		"an issuer, misspelt":  {with("--oidc-issuer="+issuer.URL+"/", "--oidc-audience=x"), "OIDC issuer", doctor.Warn},
		"an issuer that is no": {with("--oidc-issuer=http://"+closed.Addr().String(), "--oidc-audience=x"), "OIDC issuer", doctor.Warn},
		"a proxy":              {with("--trusted-header=X-User", "--trusted-proxy=10.0.0.7"), "trusted header", doctor.OK},
		"a network":            {with("--trusted-header=X-User", "--trusted-proxy=10.0.0.0/16"), "trusted header", doctor.Warn},
		"a network of one":     {with("--trusted-header=X-User", "--trusted-proxy=10.0.0.7/32"), "trusted header", doctor.OK},
		"loopback":             {with("--trusted-header=X-User", "--trusted-proxy=127.0.0.1"), "trusted header", doctor.Warn},
	} {
		checks := test.settings.doctor(t.Context(), test.settings.Program)
		if test.check == "" {
			should.Len(t, checks, 0, "%s", name)
			continue
		}
		if len(checks) != 1 || checks[0].Name != test.check || checks[0].Status != test.want || (checks[0].Fix == "") != (test.want == doctor.OK) {
			t.Errorf("%s: %+v", name, checks)
		}
	}
}

// auditLog is one of three lines.
func auditLog(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	l := must.Get(audit.Open(audit.Options{Path: path}))(t)
	l.Record(audit.Event{Time: time.Now().Add(-48 * time.Hour), Kind: audit.KindServer, Action: "Start", Outcome: audit.Success})
	l.Record(audit.Event{Kind: audit.KindCall, Principal: "ann", Session: "one", Tool: "run_python_code", Outcome: audit.Success, Detail: map[string]any{"ms": 7}})
	l.Record(audit.Event{Kind: audit.KindFile, Principal: "bob", Session: "two", Outcome: audit.Success, Detail: map[string]any{"file": "output/a\x1b[31m.txt"}})
	must.OK(t, l.Close(context.Background()))
	return path
}

func TestTheAuditLogIsShown(t *testing.T) {
	path := auditLog(t)
	for flags, want := range map[string]string{
		"":                             "Start,run_python_code,output/a",
		"--since 1h":                   "run_python_code,output/a",
		"--since 7d":                   "Start,run_python_code,output/a",
		"--since 2000-01-01":           "Start,run_python_code,output/a",
		"--since 2100-01-01T00:00:00Z": "",
		"--principal ann":              "run_python_code",
		"--principal=":                 "Start",
		"--session two":                "output/a",
		"--kind server":                "Start",
		"--kind call --principal bob":  "",
	} {
		for _, more := range [][]string{nil, {"--json"}} {
			out, err := command(t, append(append([]string{"audit", "show", path}, strings.Fields(flags)...), more...)...)
			should.OK(t, err, "%s", flags)
			for _, what := range []string{"Start", "run_python_code", "output/a"} {
				wanted := strings.Contains(want, what)
				should.Hold(t, wanted == strings.Contains(out, what), "%s %v: %s is wanted: %v, in\n%s", flags, more, what, wanted, out)
			}
			should.Hold(t, !strings.Contains(out, "\x1b"), "%s: a terminal would act upon %q", flags, out)
		}
	}
}

func TestTheAuditLogsHeadIsKeptAndAskedFor(t *testing.T) {
	path := auditLog(t)
	text := must.Get(os.ReadFile(path))(t)
	head := ""
	must.OK(t, audit.Read(bytes.NewReader(text), func(_ []byte, l *audit.Line) error {
		head = l.Hash
		return nil
	}))
	should.OK(t, should.ErrOf(command(t, "audit", "verify", path, "--head", head)))
	must.OK(t, os.WriteFile(path, text[:strings.LastIndex(strings.TrimSpace(string(text)), "\n")+1], 0o600))
	should.OK(t, should.ErrOf(command(t, "audit", "verify", path)), "without the head")
	should.Be(t, should.ErrOf(command(t, "audit", "verify", path, "--head", head)), server.ErrReported, "with the head")
}

func TestDetailsOfTheAuditLogAreShown(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	l := must.Get(audit.Open(audit.Options{Path: path}))(t)
	l.Record(audit.Event{Kind: audit.KindRun, Run: "run-1", Code: "1"})
	l.Record(audit.Event{Kind: audit.KindNetwork, Detail: map[string]any{"http_status": 418, "sent": 5, "received": 7}})
	l.Record(audit.Event{Kind: audit.KindFile, Detail: map[string]any{"file": "output/a", "size": 9}})
	must.OK(t, l.Close(context.Background()))
	out, err := command(t, "audit", "show", path)
	for _, want := range []string{"code_sha256=" + audit.HashOf("1"), "http_status=418 received=7 sent=5", "file=output/a size=9"} {
		should.Hold(t, err == nil && strings.Contains(out, want), "%q is not in\n%s, %v", want, out, err)
	}
}

func TestWrongUseOfTheAuditLog(t *testing.T) {
	path := auditLog(t)
	for _, args := range [][]string{
		{}, {"show"}, {"verify", path, path}, {"show", path, "--kind", "calls"}, {"show", path, "--since", "soon"}, {"verify", path, "--head", "12"},
		{"--audit-code", "none", "verify", path}, {"--audit-required", "verify", path},
	} {
		var wrong setting.UsageError
		out, err := command(t, append([]string{"audit"}, args...)...)
		should.Hold(t, errors.As(err, &wrong), "%v: %q, %v", args, out, err)
	}
	for _, args := range [][]string{{"show", path + "-none"}, {"verify", path + "-none"}} {
		out, err := command(t, append([]string{"audit"}, args...)...)
		should.Hold(t, err != nil, "%v: %q", args, out)
	}
}

func TestChangesOfTokensAreInTheAuditLog(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "audit.jsonl")
	must.OK(t, should.ErrOf(command(t, "tokens", "--state-dir", folder, "--audit-log", path, "add", "ann")))
	must.OK(t, should.ErrOf(command(t, "tokens", "--state-dir", folder, "--audit-log", path, "revoke", "ann")))
	out, err := command(t, "audit", "show", path, "--kind", "policy")
	if err != nil || !strings.Contains(out, "token added") || !strings.Contains(out, "token revoked") || strings.Contains(out, "csm_") {
		t.Errorf("%s, %v", out, err)
	}
	if out, err := command(t, "tokens", "--state-dir", folder, "--audit-log", filepath.Join(folder, "none", "audit.jsonl"), "add", "bob"); err == nil {
		t.Errorf("a token is given out that the log cannot tell of: %s", out)
	}
}

// program is a program with the features of this package.
var program = cmd.Program{Name: "code-sandbox-server", Features: Features}

// command runs a command line, and returns what it prints.
func command(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	root := program.Command()
	root.SetOut(&out)
	root.SetArgs(args)
	err := root.Execute()
	return out.String(), err
}

func TestTokensAreGivenOutListedAndRevoked(t *testing.T) {
	state := t.TempDir()
	tokens := func(args ...string) (string, error) {
		return command(t, append([]string{"tokens", "--state-dir", state}, args...)...)
	}
	if out, err := tokens("list"); err != nil || out != "no tokens\n" {
		t.Errorf("%q, %v", out, err)
	}
	out, err := tokens("add", "alice", "--group", "staff,admins", "--group", "x", "--expires", "90d", "--json")
	must.OK(t, err)
	var added struct {
		ID, Name, Token, Header string
		Groups                  []string
		Expires                 *string
	}
	must.OK(t, json.Unmarshal([]byte(out), &added))
	if added.Name != "alice" || added.Header != "Authorization: Bearer "+added.Token || !slices.Equal(added.Groups, []string{"staff", "admins", "x"}) || added.Expires == nil {
		t.Errorf("got %s", out)
	}
	out, err = tokens("add", "bob")
	should.Hold(t, err == nil && strings.Count(out, "csm_") == 2 && strings.Contains(out, "good until it is revoked"), "%q, %v", out, err)
	out, err = tokens("add", "bob", "--expires", "1h")
	should.Hold(t, err == nil && regexp.MustCompile(`good until [0-9-]{10} [0-9]{2}:[0-9]{2}\.`).MatchString(out), "%q, %v", out, err)
	// What a client sends lets it in.
	s := &server.Program{Set: &setting.Set{Settings: setting.Settings{StateDir: state}}}
	r := &http.Request{Header: http.Header{"Authorization": {"Bearer " + added.Token}}}
	store := tokenStore(s, slog.New(slog.DiscardHandler))
	if p, err := store.Authenticate(r); err != nil || p.Name != "alice" {
		t.Errorf("%+v, %v", p, err)
	}
	store.Close()
	out, err = tokens("list")
	if err != nil || strings.Contains(out, "csm_") || !strings.Contains(out, "staff, admins, x") || !strings.Contains(out, "never") || !strings.Contains(out, " ago") {
		t.Errorf("%q, %v", out, err)
	}
	out, err = tokens("list", "--json")
	if err != nil || strings.Contains(out, added.Token) || strings.Contains(out, "hash") || !strings.Contains(out, added.ID) || !strings.Contains(out, `"groups": []`) {
		t.Errorf("%q, %v", out, err)
	}
	if out, err := tokens("revoke", added.ID); err != nil || out != "revoked "+added.ID+" of alice\n" {
		t.Errorf("%q, %v", out, err)
	}
	if p, err := store.Authenticate(r); err == nil {
		t.Errorf("it still lets in %+v", p)
	}
	if out, err := tokens("revoke", "alice"); err == nil {
		t.Errorf("%q", out)
	}
}

func TestWrongUseOfTokens(t *testing.T) {
	state := t.TempDir()
	for _, args := range [][]string{
		{}, {"add"}, {"add", ""}, {"add", "a\nb"}, {"add", "a", "b"}, {"add", "alice", "--group", "\x01"}, {"add", "alice", "--expires", "0"},
		{"add", "alice", "--expires", "-1h"}, {"add", "alice", "--expires", "soon"}, {"list", "x"}, {"revoke"},
	} {
		should.Equal(t, program.Main(append([]string{"tokens", "--state-dir", state}, args...)), 2, "%q exits with", args)
	}
}
