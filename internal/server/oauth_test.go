package server

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/httpserver"
)

func TestWhereOAuthIsServed(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		args []string
		want string // in the error; empty: none
	}{
		"on loopback":                {[]string{"--http=8000", "--oauth"}, ""},
		"behind a proxy":             {[]string{"--http=0.0.0.0:8000", "--oauth", "--oauth-url=https://sandbox.example.com"}, ""},
		"on a socket behind one":     {[]string{"--http=unix:///run/x.sock", "--oauth", "--oauth-url=https://sandbox.example.com"}, ""},
		"with TLS":                   {[]string{"--http=0.0.0.0:8000", "--oauth", "--tls-cert=c", "--tls-key=k"}, ""},
		"by localhost":               {[]string{"--http=8000", "--oauth", "--oauth-url=http://localhost:8000"}, ""},
		"with an issuer":             {[]string{"--http=8000", "--oauth", "--oidc-issuer=https://id.example", "--oidc-audience=a", "--oidc-client-id=x"}, ""},
		"unencrypted":                {[]string{"--http=0.0.0.0:8000", "--oauth"}, "--oauth on 0.0.0.0:8000 would send tokens over the network unencrypted"},
		"unencrypted by the name":    {[]string{"--http=8000", "--oauth", "--oauth-url=http://sandbox.example.com"}, "must begin with https://"},
		"below a path":               {[]string{"--http=8000", "--oauth", "--oauth-url=https://sandbox.example.com/x"}, "without a path"},
		"over stdio":                 {[]string{"--oauth"}, "--oauth has no effect without --http"},
		"with everybody let in":      {[]string{"--http=8000", "--oauth", "--http-no-auth"}, "--http-no-auth asks for none"},
		"its address alone":          {[]string{"--http=8000", "--oauth-url=https://sandbox.example.com"}, "has no effect without --oauth"},
		"its client alone":           {[]string{"--http=8000", "--oidc-issuer=https://id.example", "--oidc-audience=a", "--oidc-client-id=x"}, "--oidc-client-id x has no effect without --oauth"},
		"with a client of no issuer": {[]string{"--http=8000", "--oauth", "--oidc-client-id=x"}, "is of no issuer"},
	} {
		_, err := loadSettings(t, test.args, nil)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What a server tells clients, and whose the tokens are that it has given out.
func TestOAuthIsServed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := loadSettings(t, []string{"--http=127.0.0.1:0", "--oauth", "--state-dir=" + dir}, nil)
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	w, err := s.HTTP.open(dir, log)
	if err != nil {
		t.Fatal(err)
	}
	defer w.listener.Close()
	if err := s.authenticate(w, nil, log); err != nil {
		t.Fatal(err)
	}
	issuer := "http://" + w.listener.Addr().String()
	if o := w.options.OAuth; o == nil || *o != (httpserver.OAuth{Issuer: issuer, Scope: "sandbox"}) {
		t.Errorf("%+v", o)
	}
	answer := httptest.NewRecorder()
	w.options.Open["GET /.well-known/oauth-authorization-server"].ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/", nil))
	if text, _ := io.ReadAll(answer.Body); !strings.Contains(string(text), `"issuer":"`+issuer+`"`) {
		t.Errorf("%s", text)
	}
	for token, want := range map[string]string{"csm_at_gx_y": "the token is not known here: it was revoked, or never given", "csm_none": "the token is not known here: it was taken back, or never given"} {
		r := httptest.NewRequest(http.MethodPost, "/mcp", nil)
		r.Header.Set("Authorization", "Bearer "+token)
		if _, err := w.options.Authenticate.Authenticate(r); err == nil || err.Error() != want {
			t.Errorf("%s: %v", token, err)
		}
	}

	everywhere, err := loadSettings(t, []string{"--http=127.0.0.1:0", "--oauth"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	everywhere.HTTP.Address = "0.0.0.0:0"
	open, err := everywhere.HTTP.open(t.TempDir(), log)
	if err != nil {
		t.Fatal(err)
	}
	defer open.listener.Close()
	if err := everywhere.authenticate(open, nil, log); err == nil || !strings.Contains(err.Error(), "--oauth needs --oauth-url") {
		t.Errorf("on every address: %v", err)
	}
}
