// A request's sender: tokens, the issuer, trusted headers.

package team

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/doctor"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/principal"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/server"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/setting"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/team/oidc"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/team/proxyheader"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/team/tokens"
)

// identity holds the settings for authentication over HTTP, beside the tokens from `tokens add`.
type identity struct {
	Issuer       string
	Audiences    []string
	Claim        string
	GroupsClaim  string
	Headers      []string
	GroupsHeader string
	Proxies      []string
	URL          string // of the server, for clients

	headerSecret string
}

// principals identifies people by tokens, OpenID Connect and trusted headers.
func principals() server.Feature { return newIdentity().feature() }

// newIdentity returns the defaults.
func newIdentity() *identity {
	return &identity{Claim: oidc.DefaultClaim, GroupsClaim: oidc.DefaultGroupsClaim, GroupsHeader: proxyheader.DefaultGroupsHeader}
}

func (t *identity) feature() server.Feature {
	return server.Feature{
		Name: "principals", Settings: t.rows, Check: t.check, Doctor: t.doctor, Authenticate: t.authenticate,
		Commands: func(root *cobra.Command, s *server.Program) { root.AddCommand(tokensCommand(s)) },
	}
}

func (t *identity) rows() []setting.Group {
	return []setting.Group{{Title: "Principals", Settings: []setting.Setting{
		setting.Row("oidc-issuer", "URL", &t.Issuer, 0, 0, "issuer of OpenID Connect whose tokens let people in over --http, as https://login.example.com/realms/staff"),
		setting.Row("oidc-audience", "NAMES", &t.Audiences, 0, 0, "what its tokens for this server name as their audience; one of these has to be there"),
		setting.Row("oidc-claim", "CLAIM", &t.Claim, 0, 0, "claim that names the principal; email counts only where it was verified"),
		setting.Row("oidc-groups-claim", "CLAIM", &t.GroupsClaim, 0, 0, "claim that has its groups, such as realm_access.roles"),
		setting.Row("trusted-header", "NAMES", &t.Headers, 0, 0, "headers in which a proxy says who is asking, such as X-Forwarded-User; the first that is there counts, and only from --trusted-proxy or with the secret of "+setting.HeaderSecretVariable),
		setting.Row("trusted-groups-header", "NAME", &t.GroupsHeader, 0, 0, "header in which it says their groups, with commas"),
		setting.Row("trusted-proxy", "ADDRESSES", &t.Proxies, 0, 0, "addresses and networks of proxies that set these headers, such as 10.0.0.7; "+proxyheader.Sockets+" is whoever reaches the socket"),
		setting.Row("http-url", "URL", &t.URL, 0, 0, "address by which clients and browsers reach --http, such as https://sandbox.example.com, of a proxy too (default: the address that a request names)"),
	}}}
}

// check refuses settings that let no principal in, or everybody.
func (t *identity) check(s *server.Program) error {
	t.headerSecret, _ = s.Env.Lookup(setting.HeaderSecretVariable)
	var found setting.Problems
	found.Wrong(s.HTTP.NoAuth && (t.Issuer != "" || len(t.Headers) > 0), "--http-no-auth lets everybody in as you, so --oidc-issuer and --trusted-header say nothing; leave it out")
	if t.Issuer != "" {
		err := oidc.CheckIssuer(t.Issuer)
		found.Wrong(err != nil, "--oidc-issuer: %w", err)
		found.Wrong(len(t.Audiences) == 0 || slices.Contains(t.Audiences, ""), "--oidc-issuer %s needs --oidc-audience, what its tokens for this server name as theirs; without, those for any other program would do", t.Issuer)
		found.Wrong(t.Claim == "" || t.GroupsClaim == "", "--oidc-claim and --oidc-groups-claim are names of claims, such as sub and groups; one of them is empty")
	}
	found.Wrong(t.Issuer == "" && len(t.Audiences) > 0, "--oidc-audience %s is of no issuer; name it with --oidc-issuer", strings.Join(t.Audiences, ","))
	switch {
	case len(t.Headers) > 0 && t.isUnguarded(): // refused where a server begins: the sweep behind one does not get the secret
	case len(t.Headers) > 0:
		err := t.header(nil).Check()
		found.Wrong(err != nil, "--trusted-header: %w", err)
	default:
		found.Wrong(len(t.Proxies) > 0, "--trusted-proxy %s sets no header that counts; name it with --trusted-header", strings.Join(t.Proxies, ","))
	}
	if t.URL != "" {
		u, err := url.Parse(t.URL)
		found.Wrong(err != nil || u.Host == "" || !oidc.IsSafe(u) || t.URL != u.Scheme+"://"+u.Host,
			"--http-url %q is not the address of a server, such as https://sandbox.example.com: https, or http on this machine, without a path", t.URL)
		found.Wrong(s.HTTP.Address == "" || s.HTTP.NoAuth, "--http-url %s has no effect without --http, or with --http-no-auth", t.URL)
	}
	return errors.Join(found...)
}

// isUnguarded reports whether anybody may set the trusted headers.
func (t *identity) isUnguarded() bool { return len(t.Proxies) == 0 && t.headerSecret == "" }

func (t *identity) header(log *slog.Logger) proxyheader.Options {
	return proxyheader.Options{Headers: t.Headers, GroupsHeader: t.GroupsHeader, Proxies: t.Proxies, Secret: t.headerSecret, Logger: log}
}

func (t *identity) issuer(log *slog.Logger) oidc.Options {
	return oidc.Options{Issuer: t.Issuer, Audiences: t.Audiences, Claim: t.Claim, GroupsClaim: t.GroupsClaim, Logger: log}
}

// tokenStore returns the state directory's tokens.
func tokenStore(s *server.Program, log *slog.Logger) *tokens.Store {
	return tokens.Open(filepath.Join(setting.StateFolder(s.StateDir), tokens.FileName), log)
}

// authenticate returns the chain that identifies requests without the owner's token. A trusted header comes first: a proxy that may
// set it often sends a token as well, which is the proxy's and not the person's.
func (t *identity) authenticate(r *server.Running) (principal.Authenticator, error) {
	o := &r.Web.Options
	o.Issuer, o.URL = t.Issuer, t.URL
	if u, err := url.Parse(t.URL); err == nil && t.URL != "" { // a proxy may keep the host name, and a browser names its page's origin
		o.AllowHosts, o.AllowOrigins = append(o.AllowHosts, u.Hostname()), append(o.AllowOrigins, t.URL)
	}
	return t.chain(r, tokenStore(r.Program, r.Log))
}

// chain is authenticate with these tokens from `tokens add`.
func (t *identity) chain(r *server.Running, own *tokens.Store) (principal.Authenticator, error) {
	var chain principal.Chain
	if len(t.Headers) > 0 {
		if t.isUnguarded() {
			return nil, setting.UsageError{Err: fmt.Errorf("--trusted-header %s alone would let everybody be anybody, because anybody can send it; name the proxies that set it with --trusted-proxy, or give them a secret in %s", strings.Join(t.Headers, ","), setting.HeaderSecretVariable)}
		}
		header, err := proxyheader.New(t.header(r.Log))
		if err != nil {
			return nil, setting.UsageError{Err: fmt.Errorf("--trusted-header: %w", err)} // not reached: the settings were checked
		}
		chain = append(chain, header)
	}
	chain = append(chain, own)
	if t.Issuer != "" {
		chain = append(chain, oidc.New(t.issuer(r.Log)))
	}
	return chain, nil
}

// issuerTime is how long doctor waits for an issuer.
const issuerTime = 15 * time.Second

// doctor checks tokens, the issuer and the headers, as far as they are configured.
func (t *identity) doctor(ctx context.Context, s *server.Program) []doctor.Check {
	log := slog.New(slog.DiscardHandler)
	checks := tokenChecks(tokenStore(s, log))
	if t.Issuer != "" {
		ctx, cancel := context.WithTimeout(ctx, issuerTime)
		defer cancel()
		check := doctor.Check{Name: "OIDC issuer", Status: doctor.OK}
		if keys, err := oidc.New(t.issuer(log)).Check(ctx); err != nil {
			check.Status, check.Found = doctor.Warn, "its keys cannot be had: "+err.Error()
			check.Why, check.Fix = "its tokens let nobody in until they can", "compare --oidc-issuer with what the issuer calls itself, and see that this machine reaches it"
		} else {
			check.Found = fmt.Sprintf("%s, keys that tokens are checked with: %d", t.Issuer, keys)
		}
		checks = append(checks, check)
	}
	if len(t.Headers) > 0 {
		checks = append(checks, t.headerCheck())
	}
	return checks
}

// tokenChecks check the tokens, if there are any.
func tokenChecks(own *tokens.Store) []doctor.Check {
	check := doctor.Check{Name: "tokens", Status: doctor.OK}
	all, err := own.List()
	over := 0
	for _, t := range all {
		if t.IsOver(time.Now()) {
			over++
		}
	}
	switch {
	case err != nil:
		check.Status, check.Found, check.Why = doctor.Warn, err.Error(), "nobody is let in by a token of their own"
		check.Fix = "do what it says"
	case len(all) == 0:
		return nil
	default:
		check.Found = fmt.Sprintf("%d tokens, %d expired", len(all), over)
	}
	return []doctor.Check{check}
}

// headerCheck warns of proxies on more than one machine, if only the address is checked.
func (t *identity) headerCheck() doctor.Check {
	check := doctor.Check{Name: "trusted header", Status: doctor.OK, Found: strings.Join(t.Headers, ", ")}
	if t.headerSecret != "" {
		check.Found += ", with a secret"
		return check
	}
	check.Found += ", from " + strings.Join(t.Proxies, ", ")
	for _, proxy := range t.Proxies {
		address, _ := netip.ParseAddr(proxy)
		network, err := netip.ParsePrefix(proxy)
		if address.IsLoopback() || err == nil && network.Bits() < network.Addr().BitLen() {
			check.Status, check.Why = doctor.Warn, fmt.Sprintf("every program that %s is an address of can say that it is anybody", proxy)
			check.Fix = "give the proxy a secret, in " + setting.HeaderSecretVariable + ", or name its own address"
		}
	}
	return check
}
