// Package oidc finds a principal by a token that an issuer of OpenID Connect has signed.
//
// Start with New. A Verifier asks the issuer for nothing until the first token comes, so that a server starts without it, and keeps its
// keys and the tokens that were found good.
//
// What it promises:
//
//   - A token is good only if a key of the issuer's has signed it by an algorithm for such keys, and if it names the issuer, one of the
//     audiences and a time that is not over. Keys that a token brings or points to are not looked at.
//   - Whatever tokens come, the issuer is asked no more than about twice a minute.
//   - What the issuer answers is bounded in length and time.
package oidc

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/principal"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
)

// The claims that are read where nothing else is said.
const (
	DefaultClaim       = "sub"
	DefaultGroupsClaim = "groups"
)

// Bounds.
const (
	maxTokenBytes  = 16 << 10
	maxAnswerBytes = 1 << 20 // of the issuer
	maxGroups      = 500
	maxVerified    = 4096 // tokens that are remembered
)

const (
	// fetchTime is what the issuer has to answer.
	fetchTime = 10 * time.Second
	// leeway is how far the clocks of the issuer and of this machine may be apart.
	leeway = 30 * time.Second
)

// Options say whose tokens are good, and what is read from them.
type Options struct {
	// Issuer is its address, as its tokens have it.
	Issuer string
	// Audiences are those of which a token must name one; there is at least one.
	Audiences []string
	// Claim names the principal; default DefaultClaim. "email" counts only where the token says that it was verified.
	Claim string
	// GroupsClaim has its groups; default DefaultGroupsClaim. A name with dots, such as realm_access.roles, leads into objects.
	GroupsClaim string
	Logger      *slog.Logger
}

// Verifier checks tokens of an issuer. Its methods may be called by any number of goroutines.
type Verifier struct {
	opts   Options
	client *http.Client
	now    func() time.Time
	parser *jwt.Parser
	keys   *keySet

	mu       sync.Mutex
	verified map[[sha256.Size]byte]verified
}

// verified is a token that was found good.
type verified struct {
	principal  principal.Principal
	expires    time.Time
	generation int // of the keys
}

// New returns a verifier, and asks nobody yet. CheckIssuer has said that the issuer is one.
func New(o Options) *Verifier {
	o.Claim, o.GroupsClaim = cmp.Or(o.Claim, DefaultClaim), cmp.Or(o.GroupsClaim, DefaultGroupsClaim)
	v := &Verifier{opts: o, client: NewClient(), now: time.Now, verified: make(map[[sha256.Size]byte]verified)}
	now := func() time.Time { return v.now() }
	v.keys = &keySet{fetch: v.fetchKeys, now: now, log: o.Logger}
	v.parser = jwt.NewParser(jwt.WithValidMethods(algorithms), jwt.WithIssuer(o.Issuer), jwt.WithAudience(o.Audiences...),
		jwt.WithExpirationRequired(), jwt.WithLeeway(leeway), jwt.WithTimeFunc(now), jwt.WithStrictDecoding())
	return v
}

// NewClient returns what an issuer is asked with: it follows no redirect, waits ten seconds, and asks no proxy of the environment, nor does
// anything else of this program.
func NewClient() *http.Client {
	return &http.Client{
		Transport:     &http.Transport{DialContext: (&net.Dialer{Timeout: fetchTime}).DialContext, ForceAttemptHTTP2: true, IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: 64 << 10},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Timeout:       fetchTime,
	}
}

// CheckIssuer refuses what cannot be an issuer's address: an answer that somebody on the way can change is worth nothing.
func CheckIssuer(address string) error {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
		return fmt.Errorf("%q is not the address of an issuer, such as https://login.example.com/realms/staff", address)
	}
	if !IsSafe(u) {
		return fmt.Errorf("%q: an issuer is reached by https, or on a loopback address", address)
	}
	return nil
}

// IsSafe reports whether what an address answers is its own: by https, or by http on this machine.
func IsSafe(u *url.URL) bool {
	ip, err := netip.ParseAddr(u.Hostname())
	local := u.Hostname() == "localhost" || err == nil && ip.IsLoopback()
	return u.Scheme == "https" || u.Scheme == "http" && local
}

// IsToken reports whether a text has the form of a signed token.
func IsToken(given string) bool {
	return strings.HasPrefix(given, "eyJ") && strings.Count(given, ".") == 2
}

// Authenticate implements principal.Authenticator for the issuer's tokens.
func (v *Verifier) Authenticate(r *http.Request) (principal.Principal, error) {
	given := principal.Bearer(r)
	if !IsToken(given) {
		return principal.Principal{}, principal.ErrNone
	}
	return v.Verify(r.Context(), given)
}

// Verify returns whose a token is. It may wait for the issuer.
func (v *Verifier) Verify(ctx context.Context, token string) (principal.Principal, error) {
	sum := sha256.Sum256([]byte(token))
	if p, ok := v.recall(sum); ok {
		return p, nil
	}
	claims, generation, err := v.check(ctx, token)
	if err != nil {
		return principal.Principal{}, err
	}
	p, err := v.principal(claims)
	if err != nil {
		return principal.Principal{}, err
	}
	if expires, err := claims.GetExpirationTime(); err == nil {
		v.remember(sum, verified{p, expires.Time, generation})
	}
	return p, nil
}

// VerifyID is Verify for the token of a sign-in, whose nonce it returns too, as one that somebody else has begun has another, and its end.
func (v *Verifier) VerifyID(ctx context.Context, token string) (p principal.Principal, nonce string, until time.Time, err error) {
	claims, _, err := v.check(ctx, token)
	if err != nil {
		return principal.Principal{}, "", until, err
	}
	nonce, _ = claims["nonce"].(string)
	if ends, err := claims.GetExpirationTime(); err == nil && ends != nil {
		until = ends.Time
	}
	p, err = v.principal(claims)
	return p, nonce, until, err
}

// check returns the claims of a token that is good, and the generation of the keys.
func (v *Verifier) check(ctx context.Context, token string) (jwt.MapClaims, int, error) {
	if len(token) > maxTokenBytes {
		return nil, 0, fmt.Errorf("the token has %d bytes, and may have %d", len(token), maxTokenBytes)
	}
	if len(v.opts.Audiences) == 0 {
		return nil, 0, errors.New("no audience is named, so any token of the issuer's would do")
	}
	var generation int
	claims := jwt.MapClaims{}
	_, err := v.parser.ParseWithClaims(token, claims, func(t *jwt.Token) (public any, err error) {
		id, err := checkHeader(t.Header)
		if err != nil {
			return nil, err
		}
		public, generation, err = v.keys.find(ctx, id, t.Method.Alg())
		return public, err
	})
	return claims, generation, err
}

// checkHeader returns the id of the key that a token names. What it says of keys besides is nobody's word but its own.
func checkHeader(header map[string]any) (id string, err error) {
	if _, has := header["crit"]; has {
		return "", errors.New("the token has a header that must be understood, and is not (crit)")
	}
	kind, _ := header["typ"].(string)
	kind = strings.TrimPrefix(strings.ToLower(kind), "application/")
	if has := header["typ"] != nil; has && kind != "jwt" && kind != "at+jwt" { // others are for something else, such as logout+jwt
		return "", fmt.Errorf("a token of the kind %q lets nobody in", text.Shorten(kind, 80))
	}
	id, ok := header["kid"].(string)
	if !ok && header["kid"] != nil {
		return "", errors.New("the id of the token's key is not a text")
	}
	return id, nil
}

// principal reads whom a token names.
func (v *Verifier) principal(claims jwt.MapClaims) (principal.Principal, error) {
	name, ok := claim(claims, v.opts.Claim).(string)
	if !ok {
		return principal.Principal{}, fmt.Errorf("the token has no text in its claim %q", v.opts.Claim)
	}
	if err := principal.CheckName(name); err != nil {
		return principal.Principal{}, fmt.Errorf("the claim %q: %w", v.opts.Claim, err)
	}
	if is := claims["email_verified"]; v.opts.Claim == "email" && is != true && is != "true" { // as text some issuers write it
		return principal.Principal{}, errors.New("the token does not say that its email address was verified")
	}
	groups, err := groupsOf(claim(claims, v.opts.GroupsClaim))
	if err != nil {
		return principal.Principal{}, fmt.Errorf("the claim %q: %w", v.opts.GroupsClaim, err)
	}
	return principal.Principal{Name: name, Groups: groups, Source: "oidc"}, nil
}

// claim returns the value of a claim, which may stand within objects.
func claim(claims map[string]any, name string) any {
	if value, has := claims[name]; has {
		return value
	}
	first, rest, deeper := strings.Cut(name, ".")
	if within, is := claims[first].(map[string]any); deeper && is {
		return claim(within, rest)
	}
	return nil
}

// groupsOf reads groups. What is wrong with one is wrong with all: a group may also stand for less.
func groupsOf(value any) ([]string, error) {
	var groups []string
	switch value := value.(type) {
	case nil:
	case string:
		groups = []string{value}
	case []any:
		for _, item := range value {
			group, ok := item.(string)
			if !ok {
				return nil, errors.New("a group is not a text")
			}
			groups = append(groups, group)
		}
	default:
		return nil, errors.New("it is no list of texts")
	}
	if len(groups) > maxGroups {
		return nil, fmt.Errorf("it has %d groups, and may have %d", len(groups), maxGroups)
	}
	for _, group := range groups {
		if err := principal.CheckName(group); err != nil {
			return nil, err
		}
	}
	return groups, nil
}

// recall returns whose a token is that was found good, while it and the keys are.
func (v *Verifier) recall(sum [sha256.Size]byte) (principal.Principal, bool) {
	v.mu.Lock()
	known, ok := v.verified[sum]
	v.mu.Unlock()
	if !ok || !v.now().Before(known.expires) {
		return principal.Principal{}, false
	}
	keys, generation := v.keys.current()
	return known.principal, keys != nil && generation == known.generation
}

// remember keeps a token that was found good. Where there are too many, those go that are over, and else any.
func (v *Verifier) remember(sum [sha256.Size]byte, known verified) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.verified) >= maxVerified {
		now := v.now()
		for other, is := range v.verified {
			if !now.Before(is.expires) {
				delete(v.verified, other)
			}
		}
		for other := range v.verified {
			if len(v.verified) < maxVerified {
				break
			}
			delete(v.verified, other)
		}
	}
	v.verified[sum] = known
}

// Check asks the issuer for its keys, and returns how many of them tokens can be checked with.
func (v *Verifier) Check(ctx context.Context) (int, error) {
	keys, err := v.fetchKeys(ctx)
	return len(keys), err
}

// fetchKeys asks the issuer where its keys are, and for these.
func (v *Verifier) fetchKeys(ctx context.Context) ([]key, error) {
	found, err := Discover(ctx, v.client, v.opts.Issuer)
	if err == nil {
		err = CheckEndpoint("keys", found.Keys)
	}
	if err != nil {
		return nil, err
	}
	set, err := get(ctx, v.client, found.Keys)
	if err != nil {
		return nil, err
	}
	return parseKeys(set)
}

// Discovery is what an issuer says of itself.
type Discovery struct {
	Issuer    string   `json:"issuer"`
	Keys      string   `json:"jwks_uri"`
	Authorize string   `json:"authorization_endpoint"`
	Token     string   `json:"token_endpoint"`
	Methods   []string `json:"token_endpoint_auth_methods_supported"`
}

// Discover asks an issuer what it says of itself. Its addresses are for CheckEndpoint before they are used.
func Discover(ctx context.Context, client *http.Client, issuer string) (Discovery, error) {
	content, err := get(ctx, client, strings.TrimSuffix(issuer, "/")+"/.well-known/openid-configuration")
	if err != nil {
		return Discovery{}, err
	}
	var found Discovery
	if err := json.Unmarshal(content, &found); err != nil {
		return Discovery{}, fmt.Errorf("what the issuer says of itself is no JSON: %w", err)
	}
	if found.Issuer != issuer {
		return Discovery{}, fmt.Errorf("the issuer says that it is %q, and not %q; --oidc-issuer has to be the same to the letter", text.Shorten(found.Issuer, 200), issuer)
	}
	return found, nil
}

// CheckEndpoint refuses an address of an issuer's that CheckIssuer would not take for its scheme; what is what is there.
func CheckEndpoint(what, address string) error {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || !IsSafe(u) {
		return fmt.Errorf("the issuer has its %s at %q, which is not an https address", what, text.Shorten(address, 200))
	}
	return nil
}

func get(ctx context.Context, client *http.Client, address string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/json")
	answer, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answered %s", address, text.Shorten(answer.Status, 80))
	}
	content, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswerBytes+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", address, err)
	}
	if len(content) > maxAnswerBytes {
		return nil, fmt.Errorf("%s answered with more than %d bytes", address, maxAnswerBytes)
	}
	return content, nil
}
