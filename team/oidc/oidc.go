// Package oidc finds a principal by a token that an OpenID Connect issuer signed.
//
// Start with New. A Verifier does not ask the issuer until the first token comes, so that a server starts without it.
//
// What it promises:
//
//   - A token is good only if the issuer's key signed it by an algorithm for such keys, and if it names the issuer, one of the
//     audiences and a time that is not over. Keys that a token brings or points to are ignored.
//   - Whatever tokens come, the issuer is asked no more than about twice a minute.
//   - The issuer's answers are bounded in length and time.
package oidc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/principal"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
)

// The default claims.
const (
	DefaultClaim       = "sub"
	DefaultGroupsClaim = "groups"
)

// Bounds.
const (
	maxTokenBytes  = 16 << 10
	maxAnswerBytes = 1 << 20 // of the issuer
	maxErrorChars  = 300     // of an error, which may quote a token or an answer
	maxGroups      = 500
)

const (
	// fetchTime is the time that the issuer gets to answer.
	fetchTime = 10 * time.Second
	// leeway is the allowed difference between the issuer's clock and this machine's.
	leeway = 30 * time.Second
)

// Options say which tokens are good, and which of their claims are read.
type Options struct {
	// Issuer is its address, as in its tokens.
	Issuer string
	// Audiences are the accepted ones, at least one. A token must name one of them.
	Audiences []string
	// Claim names the principal; default DefaultClaim. "email" counts only if the token says that it was verified.
	Claim string
	// GroupsClaim names its groups; default DefaultGroupsClaim. A name with dots, such as realm_access.roles, leads into objects.
	GroupsClaim string
	Logger      *slog.Logger
}

// Verifier checks an issuer's tokens. Its methods are safe for several goroutines.
type Verifier struct {
	opts   Options
	now    func() time.Time
	keys   *keySet
	tokens *oidc.IDTokenVerifier
}

// New returns a verifier, and sends no request yet. The issuer passed CheckIssuer.
func New(o Options) *Verifier {
	o.Claim, o.GroupsClaim = cmp.Or(o.Claim, DefaultClaim), cmp.Or(o.GroupsClaim, DefaultGroupsClaim)
	v := &Verifier{opts: o, now: time.Now}
	v.keys = newKeySet(o.Issuer, func() time.Time { return v.now() }, o.Logger)
	v.tokens = oidc.NewVerifier(o.Issuer, v.keys, &oidc.Config{
		SkipClientIDCheck: true, SupportedSigningAlgs: algorithmNames(), Now: func() time.Time { return v.now().Add(-leeway) },
	})
	return v
}

// newClient returns the client for requests to an issuer: it follows no redirect, waits ten seconds, bounds answers, and asks no proxy of
// the environment.
func newClient() *http.Client {
	return &http.Client{
		Transport:     bounded{&http.Transport{DialContext: (&net.Dialer{Timeout: fetchTime}).DialContext, ForceAttemptHTTP2: true, IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: 64 << 10}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Timeout:       fetchTime,
	}
}

// bounded cuts answers.
type bounded struct{ *http.Transport }

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := b.Transport.RoundTrip(r)
	if err == nil {
		answer.Body = http.MaxBytesReader(nil, answer.Body, maxAnswerBytes)
	}
	return answer, err
}

// CheckIssuer refuses an unsafe address of an issuer: an answer that others on the way can change is worthless.
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

// IsSafe reports whether answers from an address are authentic: by https, or by http on this machine.
func IsSafe(u *url.URL) bool {
	ip, err := netip.ParseAddr(u.Hostname())
	local := u.Hostname() == "localhost" || err == nil && ip.IsLoopback()
	return u.Scheme == "https" || u.Scheme == "http" && local
}

// isToken reports whether a text looks like a signed token.
func isToken(given string) bool {
	return strings.HasPrefix(given, "eyJ") && strings.Count(given, ".") == 2
}

// Authenticate implements principal.Authenticator for the issuer's tokens.
func (v *Verifier) Authenticate(r *http.Request) (principal.Principal, error) {
	given := principal.Bearer(r)
	if !isToken(given) {
		return principal.Principal{}, principal.ErrNone
	}
	return v.Verify(r.Context(), given)
}

// Verify returns a token's principal. It may wait for the issuer.
func (v *Verifier) Verify(ctx context.Context, token string) (p principal.Principal, err error) {
	if len(token) > maxTokenBytes {
		return p, fmt.Errorf("the token has %d bytes, and may have %d", len(token), maxTokenBytes)
	}
	good, err := v.tokens.Verify(ctx, token)
	if err != nil {
		return p, shortened(err)
	}
	var claims map[string]any
	if err := good.Claims(&claims); err != nil {
		return p, err // not reached: they were read before
	}
	begins, _ := claims["nbf"].(float64) // the library lets clocks differ by minutes
	switch {
	case time.Unix(int64(begins), 0).After(v.now().Add(leeway)):
		return p, errors.New("the token is not good yet")
	case !slices.ContainsFunc(good.Audience, func(a string) bool { return slices.Contains(v.opts.Audiences, a) }):
		return p, fmt.Errorf("the token is for %s, and not for --oidc-audience", text.Shorten(strings.Join(good.Audience, ", "), 80))
	}
	return v.principal(claims)
}

// shortened returns an error cut to maxErrorChars.
func shortened(err error) error { return errors.New(text.Shorten(err.Error(), maxErrorChars)) }

// principal returns the principal that a token names.
func (v *Verifier) principal(claims map[string]any) (principal.Principal, error) {
	name, ok := claim(claims, v.opts.Claim).(string)
	if !ok {
		return principal.Principal{}, fmt.Errorf("the token has no text in its claim %q", v.opts.Claim)
	}
	if err := principal.CheckName(name); err != nil {
		return principal.Principal{}, fmt.Errorf("the claim %q: %w", v.opts.Claim, err)
	}
	if is := claims["email_verified"]; v.opts.Claim == "email" && is != true && is != "true" { // some issuers write it as text
		return principal.Principal{}, errors.New("the token does not say that its email address was verified")
	}
	groups, err := groupsOf(claim(claims, v.opts.GroupsClaim))
	if err != nil {
		return principal.Principal{}, fmt.Errorf("the claim %q: %w", v.opts.GroupsClaim, err)
	}
	return principal.Principal{Name: name, Groups: groups, Source: "oidc"}, nil
}

// claim returns a claim's value, possibly within objects.
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

// groupsOf reads groups. A mistake in one refuses all: a group may also take rights away.
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

// Check asks the issuer for its keys, and returns the number of usable ones.
func (v *Verifier) Check(ctx context.Context) (int, error) {
	keys, err := v.keys.fetch(ctx)
	return len(keys), err
}
