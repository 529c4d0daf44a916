package team

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/doctor"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/principal"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/server"
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
	secret := map[string]string{server.HeaderSecretVariable: proxySecret}
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
		"a header from a proxy":     {[]string{"--trusted-header=X-Forwarded-User", "--trusted-proxy=10.0.0.7"}, nil, ""},
		"a header with a secret":    {[]string{"--trusted-header=X-Forwarded-User"}, secret, ""},
		"a short secret":            {[]string{"--trusted-header=X-Forwarded-User"}, map[string]string{server.HeaderSecretVariable: "secret"}, "at least 16"},
		"a proxy by name":           {[]string{"--trusted-header=X-Forwarded-User", "--trusted-proxy=nginx"}, nil, `"nginx" is not an address`},
		"every proxy":               {[]string{"--trusted-header=X-Forwarded-User", "--trusted-proxy=0.0.0.0/0"}, nil, "every address"},
		"a proxy without a header":  {[]string{"--trusted-proxy=10.0.0.7"}, nil, "sets no header that counts"},
		"a header that is no name":  {[]string{"--trusted-header=X User"}, secret, `"X User" is not the name of a header`},
		"a header for all and none": {[]string{"--trusted-header=X-Forwarded-User", "--http=8000", "--http-no-auth"}, secret, "--http-no-auth lets everybody in"},
	} {
		_, err := load(t, test.args, test.env)
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && strings.Contains(err.Error(), proxySecret) {
			t.Errorf("%s: the error has the secret", name)
		}
	}
}

// A server refuses a header that anybody can send, and no other command does.
func TestAHeaderWithoutAGuardIsRefused(t *testing.T) {
	for _, secret := range []map[string]string{nil, {server.HeaderSecretVariable: ""}} {
		s, err := load(t, []string{"--http=127.0.0.1:0", "--state-dir", t.TempDir(), "--trusted-header=X-Forwarded-User"}, secret)
		must.OK(t, err)
		should.Fail(t, should.ErrOf(s.Begin(t.Context(), nil, slog.New(slog.DiscardHandler))), "--trusted-header X-Forwarded-User alone would let everybody be anybody", "%v", secret)
	}
}

func TestWhoseARequestIs(t *testing.T) {
	of := new(identity)
	s, err := read([]server.Feature{of.feature()}, []string{
		"--state-dir", t.TempDir(), "--trusted-header=X-Forwarded-User", "--oidc-issuer=https://127.0.0.1:1", "--oidc-audience=sandbox",
	}, map[string]string{server.HeaderSecretVariable: proxySecret})
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
		if p.Name != test.want || (err == nil) != (test.want != "") || errors.Is(err, principal.ErrNone) != test.none {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
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
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	_ = closed.Close()
	type configured struct {
		*identity
		*server.Program
	}
	with := func(args ...string) configured {
		of := new(identity)
		s, err := read([]server.Feature{of.feature()}, append([]string{"--state-dir", t.TempDir()}, args...), nil)
		must.OK(t, err)
		return configured{of, s}
	}
	given := with()
	store := tokenStore(given.Program, slog.New(slog.DiscardHandler))
	if _, _, err := store.Add("alice", nil, 0); err != nil {
		t.Fatal(err)
	}
	open := with()
	if _, _, err := tokenStore(open.Program, slog.New(slog.DiscardHandler)).Add("alice", nil, 0); err != nil {
		t.Fatal(err)
	}
	must.OK(t, os.Chmod(filepath.Join(server.StateFolder(open.StateDir), tokens.FileName), 0o644))
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
