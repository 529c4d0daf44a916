//go:build unix

package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// issueTokens plays an issuer of OpenID Connect, and returns its address and what signs.
func issueTokens(t *testing.T) (address string, key *ecdsa.PrivateKey) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	point, err := key.PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	of := base64.RawURLEncoding.EncodeToString
	issuer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/keys" {
			_, _ = fmt.Fprintf(w, `{"keys":[{"kty":"EC","kid":"1","crv":"P-256","x":%q,"y":%q}]}`, of(point[1:33]), of(point[33:]))
			return
		}
		_, _ = fmt.Fprintf(w, `{"issuer":"http://%[1]s","jwks_uri":"http://%[1]s/keys"}`, r.Host)
	}))
	t.Cleanup(issuer.Close)
	return issuer.URL, key
}

// Whichever way somebody shows who it is, it is the same principal, and nobody else is.
func TestPeopleShowWhoTheyAre(t *testing.T) {
	t.Parallel()
	const secret = "between-the-proxy-and-us"
	issuer, key := issueTokens(t)
	s := startHTTPWith(t, setup{
		args: []string{"--oidc-issuer", issuer, "--oidc-audience", "sandbox", "--trusted-header", "X-Forwarded-User"},
		env:  []string{"SANDBOX_TRUSTED_HEADER_SECRET=" + secret},
	})
	token := func(method jwt.SigningMethod, by any, name, audience string, lifetime time.Duration) string {
		unsigned := jwt.NewWithClaims(method, jwt.MapClaims{"iss": issuer, "aud": audience, "sub": name, "exp": time.Now().Add(lifetime).Unix()})
		unsigned.Header["kid"] = "1"
		text, err := unsigned.SignedString(by)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	bearer := func(token string) http.Header { return http.Header{"Authorization": {"Bearer " + token}} }
	proxied := func(name string, more ...string) http.Header {
		h := http.Header{"Authorization": nil, "X-Forwarded-User": {name}, "X-Sandbox-Proxy-Secret": {secret}}
		for _, token := range more {
			h.Set("Authorization", "Bearer "+token)
		}
		return h
	}
	signed := token(jwt.SigningMethodES256, key, "alice", "sandbox", time.Hour)
	alice := &httpClient{server: &httpServer{server: s.server, url: s.url, token: signed}, client: http.DefaultClient}
	if err := alice.initialize(t.Context()); err != nil {
		t.Fatal(err)
	}
	own, others := s.as("alice"), s.as("bob")
	list := object{"jsonrpc": "2.0", "id": 7, "method": "tools/list"}
	for name, test := range map[string]struct {
		shown http.Header
		want  int // 200: it is alice; 404: it is somebody else; 401: nobody
	}{
		"the issuer's token":                       {bearer(signed), 200},
		"a token of her own":                       {bearer(own.token), 200},
		"the proxy's word":                         {proxied("alice"), 200},
		"the proxy's word, beside its token":       {proxied("alice", others.token), 200},
		"the proxy's word, beside the server's":    {proxied("alice", s.token), 200},
		"the server's token":                       {bearer(s.token), 404},
		"another's token of the issuer":            {bearer(token(jwt.SigningMethodES256, key, "bob", "sandbox", time.Hour)), 404},
		"another's own":                            {bearer(others.token), 404},
		"the proxy's word of another":              {proxied("bob"), 404},
		"the proxy's word of another, with hers":   {proxied("bob", own.token), 404},
		"another's, and a header without secret":   {http.Header{"Authorization": {"Bearer " + others.token}, "X-Forwarded-User": {"alice"}}, 404},
		"nothing":                                  {http.Header{"Authorization": nil}, 401},
		"a header without secret":                  {http.Header{"Authorization": nil, "X-Forwarded-User": {"alice"}}, 401},
		"a header with another secret":             {http.Header{"Authorization": nil, "X-Forwarded-User": {"alice"}, "X-Sandbox-Proxy-Secret": {secret + "x"}}, 401},
		"the server's, and a header without one":   {http.Header{"Authorization": {"Bearer " + s.token}, "X-Forwarded-User": {"alice"}}, 401},
		"two names in headers":                     {http.Header{"Authorization": nil, "X-Forwarded-User": {"alice", "bob"}, "X-Sandbox-Proxy-Secret": {secret}}, 401},
		"the proxy's word of nobody":               {proxied(""), 401},
		"the proxy's word of nobody, with a token": {proxied("", own.token), 401},
		"a placeholder":                            {proxied("{{LIBRECHAT_USER_ID}}"), 401},
		"a token without signature":                {bearer(token(jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, "alice", "sandbox", time.Hour)), 401},
		"a token by a secret":                      {bearer(token(jwt.SigningMethodHS256, []byte(secret), "alice", "sandbox", time.Hour)), 401},
		"a token for another":                      {bearer(token(jwt.SigningMethodES256, key, "alice", "other", time.Hour)), 401},
		"a token that is over":                     {bearer(token(jwt.SigningMethodES256, key, "alice", "sandbox", -time.Hour)), 401},
		"a token of nobody":                        {bearer(token(jwt.SigningMethodES256, key, "", "sandbox", time.Hour)), 401},
		"a token that was never given out":         {bearer("csm_abcdefghijklmnopqrstuvwxyz"), 401},
	} {
		if status, _, _ := alice.post(t.Context(), list, test.shown); status != test.want {
			t.Errorf("%s: %d, want %d", name, status, test.want)
		}
	}
	mustShell(t, s.stateDir, "tokens", "revoke", "alice")
	if status, _, _ := alice.post(t.Context(), list, bearer(own.token)); status != 401 {
		t.Errorf("a revoked token: %d", status)
	}
	if status, _, _ := alice.post(t.Context(), list, bearer(signed)); status != 200 {
		t.Errorf("the issuer's token, after that: %d", status)
	}
	for what, text := range map[string]string{"the secret": secret, "a token": own.token, "another's token": others.token, "the issuer's token": signed, "its signature": signed[strings.LastIndex(signed, ".")+1:], "the server's token": s.token} {
		if strings.Contains(s.stderr.String(), text) {
			t.Errorf("%s is in the log", what)
		}
	}
	var listed struct{ Tokens []struct{ Name string } }
	if err := json.Unmarshal([]byte(mustShell(t, s.stateDir, "tokens", "list", "--json")), &listed); err != nil || len(listed.Tokens) != 1 || listed.Tokens[0].Name != "bob" {
		t.Errorf("%+v, %v", listed, err)
	}
}
