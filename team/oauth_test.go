package team

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/httpserver"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/server"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
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
		_, err := load(t, test.args, nil)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What a server tells clients, and whose the tokens are that it has given out.
func TestOAuthIsServed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := begun(t, []string{"--http=127.0.0.1:0", "--oauth", "--state-dir=" + dir}, nil).Web
	issuer := "http://" + w.Listener.Addr().String()
	if o := w.Options.OAuth; o == nil || *o != (httpserver.OAuth{Issuer: issuer, Scope: "sandbox"}) {
		t.Errorf("%+v", o)
	}
	answer := httptest.NewRecorder()
	w.Options.Open["GET /.well-known/oauth-authorization-server"].ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/", nil))
	if text, _ := io.ReadAll(answer.Body); !strings.Contains(string(text), `"issuer":"`+issuer+`"`) {
		t.Errorf("%s", text)
	}
	for token, want := range map[string]string{"csm_at_gx_y": "the token is not known here: it was revoked, or never given", "csm_none": "the token is not known here: it was taken back, or never given"} {
		r := httptest.NewRequest(http.MethodPost, "/mcp", nil)
		r.Header.Set("Authorization", "Bearer "+token)
		if _, err := w.Options.Authenticate.Authenticate(r); err == nil || err.Error() != want {
			t.Errorf("%s: %v", token, err)
		}
	}

	everywhere, err := load(t, []string{"--http=0.0.0.0:0", "--oauth-url=https://sandbox.example.com", "--oauth", "--state-dir=" + dir}, nil)
	must.OK(t, err)
	open, err := everywhere.Begin(t.Context(), nil, slog.New(slog.DiscardHandler))
	must.OK(t, err)
	defer open.End(context.Background())
	defer open.Web.Listener.Close()
	should.Fail(t, should.ErrOf((&oauthSettings{On: true}).issuer(open.Web)), "--oauth needs --oauth-url", "on every address")
}

// People sign in at an issuer, whose token for this server's client says who they are, and then allow what a program asks for.
func TestOAuthHandsOverToAnIssuer(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	must.OK(t, err)
	var nonce string
	mux := http.NewServeMux()
	issuer := httptest.NewServer(mux)
	defer issuer.Close()
	answer := func(pattern string, value func() any) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(value())
		})
	}
	answer("/.well-known/openid-configuration", func() any {
		return map[string]any{"issuer": issuer.URL, "jwks_uri": issuer.URL + "/keys", "authorization_endpoint": issuer.URL + "/authorize", "token_endpoint": issuer.URL + "/token"}
	})
	answer("/keys", func() any {
		text := base64.RawURLEncoding.EncodeToString
		return map[string]any{"keys": []any{map[string]any{"kty": "RSA", "kid": "1", "n": text(key.N.Bytes()), "e": text(big.NewInt(int64(key.E)).Bytes())}}}
	})
	audience := "sandbox-client"
	answer("/token", func() any {
		token := jwt.NewWithClaims(jwt.SigningMethodRS256, jwt.MapClaims{"iss": issuer.URL, "aud": audience, "sub": "bob", "groups": []string{"staff"}, "nonce": nonce, "exp": time.Now().Add(time.Minute).Unix()})
		token.Header["kid"] = "1"
		signed, _ := token.SignedString(key)
		return map[string]any{"id_token": signed, "access_token": "x"}
	})
	w := begun(t, []string{"--http=127.0.0.1:0", "--oauth", "--state-dir=" + t.TempDir(), "--oidc-issuer=" + issuer.URL, "--oidc-audience=api", "--oidc-client-id=sandbox-client"}, map[string]string{server.OIDCSecretVariable: "s3cret"}).Web
	served := http.NewServeMux()
	for pattern, handler := range w.Options.Open {
		served.Handle(pattern, handler)
	}
	go func() { _ = http.Serve(w.Listener, served) }()
	defer w.Listener.Close()
	base := w.Options.OAuth.Issuer

	jar, _ := cookiejar.New(nil)
	browser := &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	do := func(method, address, body string) (*url.URL, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, base+address, strings.NewReader(body))
		must.OK(t, err)
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		response, err := browser.Do(r)
		must.OK(t, err)
		defer response.Body.Close()
		text, _ := io.ReadAll(response.Body)
		at, _ := url.Parse(response.Header.Get("Location"))
		return at, string(text)
	}
	_, text := do(http.MethodPost, "/oauth/register", `{"redirect_uris":["http://127.0.0.1/cb"]}`)
	var client struct {
		ID string `json:"client_id"`
	}
	must.OK(t, json.Unmarshal([]byte(text), &client))
	const verifier = "0123456789-0123456789-0123456789-0123456789"
	sum := sha256.Sum256([]byte(verifier))
	request := url.Values{"response_type": {"code"}, "client_id": {client.ID}, "redirect_uri": {"http://127.0.0.1/cb"}, "code_challenge": {base64.RawURLEncoding.EncodeToString(sum[:])}, "code_challenge_method": {"S256"}}
	signIn := func() string {
		t.Helper()
		at, text := do(http.MethodGet, "/oauth/authorize?"+request.Encode(), "")
		if at.Query().Get("client_id") != "sandbox-client" || at.Query().Get("redirect_uri") != base+"/oauth/callback" {
			t.Fatalf("the browser is sent to %s\n%s", at, text)
		}
		nonce = at.Query().Get("nonce")
		_, text = do(http.MethodGet, "/oauth/callback?"+url.Values{"code": {"x"}, "state": {at.Query().Get("state")}}.Encode(), "")
		return text
	}
	audience = "api" // for the server itself, and not for its client
	if text := signIn(); strings.Contains(text, "<form") {
		t.Errorf("a token for somebody else lets in: %s", text)
	}
	audience = "sandbox-client"
	page := signIn()
	_, ticket, _ := strings.Cut(page, `name="ticket" value="`)
	ticket, _, _ = strings.Cut(ticket, `"`)
	at, text := do(http.MethodPost, "/oauth/authorize", url.Values{"ticket": {ticket}, "decision": {"allow"}}.Encode())
	if at.Query().Get("code") == "" {
		t.Fatalf("%s\n%s\n%s", page, at, text)
	}
	_, text = do(http.MethodPost, "/oauth/token", url.Values{"grant_type": {"authorization_code"}, "client_id": {client.ID}, "redirect_uri": {"http://127.0.0.1/cb"}, "code": {at.Query().Get("code")}, "code_verifier": {verifier}}.Encode())
	var token struct {
		Access string `json:"access_token"`
	}
	must.OK(t, json.Unmarshal([]byte(text), &token))
	r := httptest.NewRequest(http.MethodPost, "/mcp", nil)
	r.Header.Set("Authorization", "Bearer "+token.Access)
	if p, err := w.Options.Authenticate.Authenticate(r); err != nil || p.Name != "bob" || p.Source != "oauth" || len(p.Groups) != 1 {
		t.Errorf("%+v %v", p, err)
	}
}
