package oidc

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/principal"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

const audience = "sandbox"

// issuer plays one.
type issuer struct {
	*httptest.Server
	mu    sync.Mutex
	keys  []map[string]any
	does  http.HandlerFunc // nil: what an issuer does
	asked atomic.Int32     // for keys
}

func newIssuer(t testing.TB, keys ...map[string]any) *issuer {
	t.Helper()
	i := &issuer{keys: keys}
	i.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i.mu.Lock()
		does := i.does
		i.mu.Unlock()
		if does != nil {
			does(w, r)
			return
		}
		i.serve(w, r)
	}))
	t.Cleanup(i.Close)
	return i
}

func (i *issuer) serve(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		_ = json.NewEncoder(w).Encode(map[string]string{"issuer": i.URL, "jwks_uri": i.URL + "/keys"})
	case "/keys":
		i.asked.Add(1)
		_ = json.NewEncoder(w).Encode(map[string]any{"keys": i.keys})
	default:
		http.NotFound(w, r)
	}
}

func (i *issuer) set(does http.HandlerFunc, keys ...map[string]any) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.does, i.keys = does, keys
}

// clock is a time that a test sets.
type clock struct{ atomic.Int64 }

func (c *clock) now() time.Time                { return time.Unix(0, c.Load()) }
func (c *clock) forward(d time.Duration)       { c.Add(int64(d)) }
func (c *clock) claim(d time.Duration) float64 { return float64(c.now().Add(d).Unix()) }

func verifier(i *issuer, change ...func(*Options)) (*Verifier, *clock) {
	o := Options{Issuer: i.URL, Audiences: []string{audience}, Logger: slog.New(slog.DiscardHandler)}
	for _, c := range change {
		c(&o)
	}
	v, c := New(o), new(clock)
	c.Store(time.Now().UnixNano())
	v.now = c.now
	return v, c
}

func encode(content []byte) string { return base64.RawURLEncoding.EncodeToString(content) }

func publicJWK(id string, public crypto.PublicKey) map[string]any {
	switch k := public.(type) {
	case *rsa.PublicKey:
		return map[string]any{"kty": "RSA", "kid": id, "use": "sig", "n": encode(k.N.Bytes()), "e": encode(big.NewInt(int64(k.E)).Bytes())}
	case *ecdsa.PublicKey:
		point, err := k.Bytes()
		if err != nil {
			panic(err)
		}
		half := len(point) / 2
		return map[string]any{"kty": "EC", "kid": id, "crv": k.Params().Name, "x": encode(point[1 : 1+half]), "y": encode(point[1+half:])}
	case ed25519.PublicKey:
		return map[string]any{"kty": "OKP", "kid": id, "crv": "Ed25519", "x": encode(k)}
	}
	panic("no such key")
}

var (
	rsaKey, _       = rsa.GenerateKey(rand.Reader, 2048)
	ecKey, _        = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	ec384Key, _     = ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	_, edKey, _     = ed25519.GenerateKey(rand.Reader)
	strangersKey, _ = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
)

// claims are those of a good token of alice's, with some changed; nil takes one away.
func (i *issuer) claims(c *clock, change map[string]any) jwt.MapClaims {
	claims := jwt.MapClaims{"iss": i.URL, "aud": audience, "sub": "alice", "exp": c.claim(time.Hour), "groups": []string{"staff"}}
	maps.Copy(claims, change)
	maps.DeleteFunc(claims, func(_ string, value any) bool { return value == nil })
	return claims
}

func sign(t testing.TB, method jwt.SigningMethod, key any, header map[string]any, claims jwt.MapClaims) string {
	t.Helper()
	token := jwt.NewWithClaims(method, claims)
	maps.Copy(token.Header, header)
	maps.DeleteFunc(token.Header, func(_ string, value any) bool { return value == nil })
	text := must.Get(token.SignedString(key))(t)
	return text
}

func request(authorization ...string) *http.Request {
	return (&http.Request{Header: http.Header{"Authorization": authorization}}).WithContext(context.Background())
}

func kid(id string) map[string]any { return map[string]any{"kid": id} }

func TestATokenOfTheIssuerIsItsPrincipal(t *testing.T) {
	i := newIssuer(t, publicJWK("rsa", &rsaKey.PublicKey), publicJWK("ec", &ecKey.PublicKey), publicJWK("ec384", &ec384Key.PublicKey), publicJWK("ed", edKey.Public()))
	v, c := verifier(i)
	for _, test := range []struct {
		method jwt.SigningMethod
		key    any
		header map[string]any
	}{
		{jwt.SigningMethodRS256, rsaKey, kid("rsa")},
		{jwt.SigningMethodRS512, rsaKey, kid("rsa")},
		{jwt.SigningMethodPS256, rsaKey, kid("rsa")},
		{jwt.SigningMethodES256, ecKey, kid("ec")},
		{jwt.SigningMethodES384, ec384Key, kid("ec384")},
		{jwt.SigningMethodEdDSA, edKey, kid("ed")},
		{jwt.SigningMethodES256, ecKey, nil}, // the only key that can be meant
		{jwt.SigningMethodES256, ecKey, map[string]any{"kid": "ec", "typ": "at+jwt"}},
		{jwt.SigningMethodES256, ecKey, map[string]any{"kid": "ec", "typ": "application/at+JWT"}},
		{jwt.SigningMethodES256, ecKey, map[string]any{"kid": "ec", "typ": nil}},
	} {
		text := sign(t, test.method, test.key, test.header, i.claims(c, nil))
		p, err := v.Authenticate(request("Bearer " + text))
		if err != nil || p.Name != "alice" || p.Source != "oidc" || !slices.Equal(p.Groups, []string{"staff"}) {
			t.Errorf("%s: %+v, %v", test.method.Alg(), p, err)
		}
	}
	should.Equal(t, i.asked.Load(), 1, "the issuer was asked")
}

func TestWhatIsNoTokenOfAnIssuer(t *testing.T) {
	i := newIssuer(t, publicJWK("ec", &ecKey.PublicKey))
	v, c := verifier(i)
	good := "Bearer " + sign(t, jwt.SigningMethodES256, ecKey, kid("ec"), i.claims(c, nil))
	for name, header := range map[string][]string{
		"none": nil, "another token": {"Bearer csm_abcdefghijklmnop"}, "two parts": {"Bearer eyJhbGciOiJub25lIn0.e30"}, "two headers": {good, good},
		"another scheme": {strings.Replace(good, "Bearer", "Basic", 1)},
	} {
		p, err := v.Authenticate(request(header...))
		should.Hold(t, errors.Is(err, principal.ErrNone) && p.Name == "", "%s: %+v, %v", name, p, err)
	}
	should.Equal(t, i.asked.Load(), 0, "the issuer was asked")
}

func TestForgedTokensAreRefused(t *testing.T) {
	pinned := publicJWK("pinned", &rsaKey.PublicKey)
	pinned["alg"] = "RS256"
	i := newIssuer(t, publicJWK("rsa", &rsaKey.PublicKey), publicJWK("ec", &ecKey.PublicKey), pinned)
	// Whatever a token points to would answer with the stranger's key.
	evil := newIssuer(t, publicJWK("ec", &strangersKey.PublicKey))
	v, c := verifier(i)
	der, err := x509.MarshalPKIXPublicKey(&rsaKey.PublicKey)
	must.OK(t, err)
	public := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	good := sign(t, jwt.SigningMethodES256, ecKey, kid("ec"), i.claims(c, nil))
	parts := strings.Split(good, ".")
	forge := func(header map[string]any, change map[string]any) string {
		return sign(t, jwt.SigningMethodES256, strangersKey, header, i.claims(c, change))
	}
	own := func(header, change map[string]any) string {
		h := kid("ec")
		maps.Copy(h, header)
		return sign(t, jwt.SigningMethodES256, ecKey, h, i.claims(c, change))
	}
	unsigned := sign(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, kid("ec"), i.claims(c, nil))
	for name, token := range map[string]string{
		"alg none":                      unsigned,
		"alg none in capitals":          encode([]byte(`{"alg":"NONE","kid":"ec"}`)) + "." + parts[1] + ".",
		"alg none, signed":              strings.TrimSuffix(unsigned, ".") + "." + parts[2],
		"no alg":                        encode([]byte(`{"kid":"ec"}`)) + "." + parts[1] + "." + parts[2],
		"no signature":                  parts[0] + "." + parts[1] + ".",
		"HS256 with the public key":     sign(t, jwt.SigningMethodHS256, public, kid("rsa"), i.claims(c, nil)),
		"HS256 with its number":         sign(t, jwt.SigningMethodHS256, rsaKey.N.Bytes(), kid("rsa"), i.claims(c, nil)),
		"a key for another algorithm":   sign(t, jwt.SigningMethodES256, ecKey, kid("rsa"), i.claims(c, nil)),
		"a key for one algorithm":       sign(t, jwt.SigningMethodRS512, rsaKey, kid("pinned"), i.claims(c, nil)),
		"a stranger's key":              forge(kid("ec"), nil),
		"a stranger's key, unnamed":     forge(nil, nil),
		"a key that is not known":       forge(kid("other"), nil),
		"an id that is no text":         own(map[string]any{"kid": 7}, nil),
		"an id that is a list":          own(map[string]any{"kid": []string{"ec"}}, nil),
		"jwk":                           forge(map[string]any{"kid": "ec", "jwk": publicJWK("ec", &strangersKey.PublicKey)}, nil),
		"jku":                           forge(map[string]any{"kid": "new", "jku": evil.URL + "/keys"}, nil),
		"x5u":                           forge(map[string]any{"kid": "new", "x5u": evil.URL + "/keys"}, nil),
		"crit":                          own(map[string]any{"crit": []string{"exp"}}, nil),
		"a token of logout":             own(map[string]any{"typ": "logout+jwt"}, nil),
		"a kind that is no text":        own(map[string]any{"typ": 1}, nil),
		"a proof of possession":         own(map[string]any{"typ": "dpop+jwt"}, nil),
		"others' claims":                parts[0] + "." + encode([]byte(`{"sub":"bob"}`)) + "." + parts[2],
		"another issuer":                own(nil, map[string]any{"iss": "https://other.example.com"}),
		"another issuer, nearly":        own(nil, map[string]any{"iss": i.URL + "/"}),
		"no issuer":                     own(nil, map[string]any{"iss": nil}),
		"another audience":              own(nil, map[string]any{"aud": "other"}),
		"other audiences":               own(nil, map[string]any{"aud": []string{"other", "sandbox2", "SANDBOX"}}),
		"an empty audience":             own(nil, map[string]any{"aud": ""}),
		"no audiences":                  own(nil, map[string]any{"aud": []string{}}),
		"no audience":                   own(nil, map[string]any{"aud": nil}),
		"an audience that is an object": own(nil, map[string]any{"aud": map[string]any{audience: true}}),
		"over":                          own(nil, map[string]any{"exp": c.claim(-time.Minute)}),
		"without end":                   own(nil, map[string]any{"exp": nil}),
		"an end that is a text":         own(nil, map[string]any{"exp": "never"}),
		"not yet":                       own(nil, map[string]any{"nbf": c.claim(time.Minute)}),
		"no name":                       own(nil, map[string]any{"sub": nil}),
		"an empty name":                 own(nil, map[string]any{"sub": ""}),
		"a name of blanks":              own(nil, map[string]any{"sub": "  "}),
		"a name with a line":            own(nil, map[string]any{"sub": "alice\nbob"}),
		"a name that is a number":       own(nil, map[string]any{"sub": 7}),
		"a name that is a list":         own(nil, map[string]any{"sub": []string{"alice"}}),
		"a long name":                   own(nil, map[string]any{"sub": strings.Repeat("a", 300)}),
		"a group that is a number":      own(nil, map[string]any{"groups": []any{"staff", 7}}),
		"groups that are an object":     own(nil, map[string]any{"groups": map[string]any{"staff": true}}),
		"an empty group":                own(nil, map[string]any{"groups": []string{""}}),
		"many groups":                   own(nil, map[string]any{"groups": slices.Repeat([]string{"g"}, maxGroups+1)}),
		"huge":                          own(nil, map[string]any{"x": strings.Repeat("a", maxTokenBytes)}),
		"huge nonsense":                 "eyJ." + strings.Repeat("a", 1<<20) + ".",
		"deep":                          "eyJ" + encode([]byte(strings.Repeat("[", 4000))) + "." + encode([]byte(strings.Repeat("[", 4000))) + ".x",
		"padded":                        good + "=",
	} {
		p, err := v.Authenticate(request("Bearer " + token))
		if err == nil || errors.Is(err, principal.ErrNone) || p.Name != "" {
			t.Errorf("%s: %+v, %v", name, p, err)
		} else if strings.Contains(err.Error(), parts[2]) {
			t.Errorf("%s: the error has the signature: %v", name, err)
		}
	}
	if p, err := v.Authenticate(request("Bearer " + good)); err != nil {
		t.Errorf("the good one: %+v, %v", p, err)
	}
	should.Equal(t, evil.asked.Load(), 0, "what tokens point to was asked")
	n := i.asked.Load()
	should.Hold(t, n <= 1+mostAtOnce, "the issuer was asked %d times", n)
}

func TestClocksMayDiffer(t *testing.T) {
	i := newIssuer(t, publicJWK("ec", &ecKey.PublicKey))
	v, c := verifier(i)
	for name, change := range map[string]map[string]any{
		"just over": {"exp": c.claim(-leeway / 2)}, "hardly yet": {"nbf": c.claim(leeway / 2)}, "one audience of some": {"aud": []string{"x", audience}},
	} {
		should.OK(t, should.ErrOf(v.Authenticate(request("Bearer "+sign(t, jwt.SigningMethodES256, ecKey, kid("ec"), i.claims(c, change))))), "%s", name)
	}
}

func TestTheClaimThatNamesAPrincipal(t *testing.T) {
	i := newIssuer(t, publicJWK("ec", &ecKey.PublicKey))
	for _, test := range []struct {
		claim, groups string
		claims        map[string]any
		want          string // empty: it is refused
		in            []string
	}{
		{"email", "", map[string]any{"email": "a@example.com", "email_verified": true}, "a@example.com", []string{"staff"}},
		{"email", "", map[string]any{"email": "a@example.com", "email_verified": "true"}, "a@example.com", []string{"staff"}},
		{"email", "", map[string]any{"email": "a@example.com", "email_verified": false}, "", nil},
		{"email", "", map[string]any{"email": "a@example.com", "email_verified": "false"}, "", nil},
		{"email", "", map[string]any{"email": "a@example.com", "email_verified": 1}, "", nil},
		{"email", "", map[string]any{"email": "a@example.com"}, "", nil},
		{"preferred_username", "roles", map[string]any{"preferred_username": "al", "roles": "one"}, "al", []string{"one"}},
		{"preferred_username", "", nil, "", nil},
		{"sub", "realm_access.roles", map[string]any{"realm_access": map[string]any{"roles": []string{"a", "b"}}}, "alice", []string{"a", "b"}},
		{"sub", "https://example.com/groups", map[string]any{"https://example.com/groups": []string{"c"}}, "alice", []string{"c"}},
		{"sub", "realm_access.roles", nil, "alice", nil},
		{"sub", "groups", map[string]any{"groups": nil}, "alice", nil},
	} {
		v, c := verifier(i, func(o *Options) { o.Claim, o.GroupsClaim = test.claim, test.groups })
		p, err := v.Authenticate(request("Bearer " + sign(t, jwt.SigningMethodES256, ecKey, kid("ec"), i.claims(c, test.claims))))
		should.Hold(t, p.Name == test.want && (err == nil) == (test.want != "") && slices.Equal(p.Groups, test.in),
			"%s of %v: %+v, %v", test.claim, test.claims, p, err)
	}
}

func TestWithoutAnAudienceNobodyIsLetIn(t *testing.T) {
	i := newIssuer(t, publicJWK("ec", &ecKey.PublicKey))
	v, c := verifier(i, func(o *Options) { o.Audiences = nil })
	p, err := v.Authenticate(request("Bearer " + sign(t, jwt.SigningMethodES256, ecKey, kid("ec"), i.claims(c, nil))))
	should.Hold(t, err != nil, "got %+v", p)
}

func TestATokenEndsInTime(t *testing.T) {
	i := newIssuer(t, publicJWK("ec", &ecKey.PublicKey))
	v, c := verifier(i)
	r := request("Bearer " + sign(t, jwt.SigningMethodES256, ecKey, kid("ec"), i.claims(c, map[string]any{"exp": c.claim(10 * time.Minute)})))
	p := must.Get(v.Authenticate(r))(t)
	c.forward(9 * time.Minute)
	should.Hold(t, principal.Still(v, r, p), "it is over before its time")
	c.forward(time.Minute + leeway + time.Second)
	should.Hold(t, !principal.Still(v, r, p), "it is not over")
}

func TestANewKeyIsFetchedAndOneTakenAwayIsForgotten(t *testing.T) {
	i := newIssuer(t, publicJWK("old", &ecKey.PublicKey))
	v, c := verifier(i)
	long := map[string]any{"exp": c.claim(100 * time.Hour)}
	old := request("Bearer " + sign(t, jwt.SigningMethodES256, ecKey, kid("old"), i.claims(c, long)))
	must.OK(t, should.ErrOf(v.Authenticate(old)))
	i.set(nil, publicJWK("new", edKey.Public()))
	should.OK(t, should.ErrOf(v.Authenticate(request("Bearer "+sign(t, jwt.SigningMethodEdDSA, edKey, kid("new"), i.claims(c, long))))), "the new key")
	if p, err := v.Authenticate(old); err == nil || !strings.Contains(err.Error(), errNoKey.Error()) {
		t.Errorf("the old key, whose token was remembered: %+v, %v", p, err)
	}
}

func TestAKeyTakenAwayIsForgottenThoughNobodyBringsANewOne(t *testing.T) {
	i := newIssuer(t, publicJWK("old", &ecKey.PublicKey))
	v, c := verifier(i)
	old := request("Bearer " + sign(t, jwt.SigningMethodES256, ecKey, kid("old"), i.claims(c, map[string]any{"exp": c.claim(100 * time.Hour)})))
	must.OK(t, should.ErrOf(v.Authenticate(old)))
	i.set(nil, publicJWK("new", edKey.Public()))
	c.forward(freshTime + time.Second)
	_, _ = v.Authenticate(old) // which has them fetched
	v.settle()
	p, err := v.Authenticate(old)
	should.Hold(t, err != nil && strings.Contains(err.Error(), errNoKey.Error()), "%+v, %v", p, err)
}

// settle waits for what is being fetched.
func (v *Verifier) settle() { _, _, _ = v.keys.asking.Do("", func() (any, error) { return nil, nil }) }

func TestKeysOfAnIssuerThatIsGoneAreUsedForAWhile(t *testing.T) {
	i := newIssuer(t, publicJWK("ec", &ecKey.PublicKey))
	v, c := verifier(i)
	r := request("Bearer " + sign(t, jwt.SigningMethodES256, ecKey, kid("ec"), i.claims(c, map[string]any{"exp": c.claim(100 * time.Hour)})))
	must.OK(t, should.ErrOf(v.Authenticate(r)))
	i.set(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	c.forward(endTime - time.Minute)
	should.OK(t, should.ErrOf(v.Authenticate(r)), "within the time")
	v.settle()
	c.forward(2 * time.Minute)
	p, err := v.Authenticate(r)
	should.Hold(t, err != nil, "after it: %+v", p)
}

func TestUnknownKeysDoNotHammerTheIssuer(t *testing.T) {
	i := newIssuer(t, publicJWK("ec", &ecKey.PublicKey))
	v, c := verifier(i)
	flood := func() {
		var wait sync.WaitGroup
		for n := range 4 {
			wait.Go(func() {
				for m := range 25 {
					token := sign(t, jwt.SigningMethodES256, strangersKey, kid(fmt.Sprint("forged", n, m)), i.claims(c, nil))
					p, err := v.Authenticate(request("Bearer " + token))
					should.Hold(t, err != nil, "got %+v", p)
				}
			})
		}
		wait.Wait()
	}
	flood()
	should.Equal(t, i.asked.Load(), 1+mostAtOnce, "the issuer was asked")
	c.forward(againTime)
	flood()
	should.Equal(t, i.asked.Load(), 2+mostAtOnce, "the issuer was asked")
	should.OK(t, should.ErrOf(v.Authenticate(request("Bearer "+sign(t, jwt.SigningMethodES256, ecKey, kid("ec"), i.claims(c, nil))))), "the good one")
}

func TestAnIssuerThatIsNotThereIsAskedSeldom(t *testing.T) {
	i := newIssuer(t, publicJWK("ec", &ecKey.PublicKey))
	var asked atomic.Int32
	i.set(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.WriteHeader(http.StatusServiceUnavailable)
	}, i.keys...)
	v, c := verifier(i)
	r := request("Bearer " + sign(t, jwt.SigningMethodES256, ecKey, kid("ec"), i.claims(c, nil)))
	for range 600 { // ten minutes of requests each second
		p, err := v.Authenticate(r)
		must.Hold(t, err != nil, "got %+v", p)
		c.forward(time.Second)
	}
	n := asked.Load()
	should.Hold(t, n >= 20 && n <= 1+mostAtOnce+20, "it was asked %d times", n)
	i.set(nil, i.keys...)
	c.forward(againTime)
	should.OK(t, should.ErrOf(v.Authenticate(r)), "it is back")
}

func TestWhatAnIssuerMayNotAnswer(t *testing.T) {
	elsewhere := newIssuer(t, publicJWK("ec", &ecKey.PublicKey))
	answer := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text)) }
	}
	for name, does := range map[string]func(*issuer) http.HandlerFunc{
		"nonsense": func(*issuer) http.HandlerFunc { return answer("<html>") },
		"nothing":  func(*issuer) http.HandlerFunc { return answer("{}") },
		"endless":  func(*issuer) http.HandlerFunc { return answer(`{"issuer":"` + strings.Repeat("x", 2*maxAnswerBytes)) },
		"another issuer": func(*issuer) http.HandlerFunc {
			return answer(`{"issuer":"https://x.example","jwks_uri":"` + elsewhere.URL + `/keys"}`)
		},
		"a redirect": func(i *issuer) http.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) {
				if path, ok := strings.CutPrefix(r.URL.Path, "/there"); ok {
					r.URL.Path = path
					i.serve(w, r)
					return
				}
				http.Redirect(w, r, i.URL+"/there"+r.URL.Path, http.StatusFound)
			}
		},
		"keys over http": func(i *issuer) http.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/keys" {
					i.serve(w, r)
					return
				}
				answer(`{"issuer":"`+i.URL+`","jwks_uri":"`+strings.Replace(i.URL, "127.0.0.1", "0.0.0.0", 1)+`/keys"}`)(w, r)
			}
		},
		"keys in a file": func(i *issuer) http.HandlerFunc {
			return answer(`{"issuer":"` + i.URL + `","jwks_uri":"file:///etc/passwd"}`)
		},
		"keys of nowhere": func(i *issuer) http.HandlerFunc { return answer(`{"issuer":"` + i.URL + `"}`) },
		"no keys": func(i *issuer) http.HandlerFunc {
			return answer(`{"issuer":"` + i.URL + `","jwks_uri":"` + i.URL + `/keys","keys":[]}`)
		},
	} {
		i := newIssuer(t)
		i.set(does(i), elsewhere.keys...)
		v, c := verifier(i)
		p, err := v.Authenticate(request("Bearer " + sign(t, jwt.SigningMethodES256, ecKey, kid("ec"), i.claims(c, nil))))
		should.Hold(t, err != nil, "%s: %+v", name, p)
		if _, err := v.Check(t.Context()); err == nil {
			t.Errorf("%s: it is checked", name)
		}
	}
	v, _ := verifier(elsewhere)
	n, err := v.Check(t.Context())
	should.Hold(t, n == 1 && err == nil, "a good one: %d, %v", n, err)
}

func TestKeysThatNothingIsCheckedWith(t *testing.T) {
	small, _ := rsa.GenerateKey(rand.Reader, 1024)
	with := func(k map[string]any, name string, value any) map[string]any {
		k = maps.Clone(k)
		k[name] = value
		return k
	}
	ec, r := publicJWK("x", &ecKey.PublicKey), publicJWK("x", &rsaKey.PublicKey)
	for name, k := range map[string]map[string]any{
		"a small one":      publicJWK("x", &small.PublicKey),
		"a huge one":       with(r, "n", encode([]byte(strings.Repeat("\xff", 4096)))),
		"no number":        with(r, "n", "!"),
		"beside the curve": with(ec, "y", ec["x"]),
		"another curve":    with(ec, "crv", "secp256k1"),
		"for encryption":   with(ec, "use", "enc"),
		"a secret":         {"kty": "oct", "kid": "x", "k": "c2VjcmV0", "alg": "HS256"},
		"an id of its own": with(ec, "kid", 7),
	} {
		text := must.Get(json.Marshal(map[string]any{"keys": []any{k}}))(t)
		keys, err := parseKeys(text)
		should.Hold(t, err != nil, "%s: %+v", name, keys)
	}
}

func TestAddressesOfIssuers(t *testing.T) {
	for address, good := range map[string]bool{
		"https://login.example.com": true, "https://login.example.com/realms/staff/": true, "https://10.0.0.5:8443/x": true,
		"http://127.0.0.1:8080/realms/x": true, "http://localhost:9000": true, "http://[::1]/x": true,
		"http://login.example.com": false, "http://10.0.0.5": false, "http://localhost.evil.com": false, "login.example.com": false, "": false,
		"https://user:pass@login.example.com": false, "https://login.example.com?x=1": false, "https://login.example.com#x": false, "ftp://localhost": false, "https://": false,
	} {
		err := CheckIssuer(address)
		should.Hold(t, (err == nil) == good, "%q: %v", address, err)
	}
}

func FuzzVerify(f *testing.F) {
	i := newIssuer(f, publicJWK("ec", &ecKey.PublicKey))
	v, c := verifier(i)
	good := sign(f, jwt.SigningMethodES256, ecKey, kid("ec"), i.claims(c, nil))
	f.Add(good)
	f.Add(encode([]byte(`{"alg":"none"}`)) + ".e30.")
	f.Fuzz(func(t *testing.T, token string) {
		p, err := v.Verify(t.Context(), token)
		should.Hold(t, err != nil || strings.HasPrefix(token, good[:len(good)-1]), "%q is %+v", token, p)
	})
}

// Neither a proxy of the environment nor another address sees what an issuer is asked.
func TestClientsAskTheIssuerItself(t *testing.T) {
	t.Parallel()
	c := newClient()
	transport, is := c.Transport.(bounded)
	should.Hold(t, is && transport.Proxy == nil && c.CheckRedirect(nil, nil) != nil && c.Timeout == fetchTime, "%+v", c)
}
