// The sender of a request: tokens, the issuer, trusted headers, OAuth.

package team

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/doctor"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/principal"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/server"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/team/oidc"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/team/proxyheader"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/team/tokens"
)

// identity holds the settings of authentication over HTTP, beside the tokens of `tokens add`.
type identity struct {
	Issuer       string
	Audiences    []string
	Claim        string
	GroupsClaim  string
	Headers      []string
	GroupsHeader string
	Proxies      []string
	oauth        oauthSettings

	headerSecret string
}

// principals identifies people by tokens, OpenID Connect, trusted headers and OAuth.
func principals() server.Feature { return new(identity).feature() }

func (t *identity) feature() server.Feature {
	return server.Feature{
		Name: "principals", Settings: t.rows, Check: t.check, Doctor: t.doctor, Authenticate: t.authenticate,
		Commands: func(root *cobra.Command, s *server.Program) { root.AddCommand(tokensCommand(s)) },
	}
}

func (t *identity) rows() []server.SettingGroup {
	return []server.SettingGroup{{Title: "Principals", Settings: []server.Setting{
		server.Row("oidc-issuer", "URL", &t.Issuer, 0, 0, "issuer of OpenID Connect whose tokens let people in over --http, as https://login.example.com/realms/staff"),
		server.Row("oidc-audience", "NAMES", &t.Audiences, 0, 0, "what its tokens for this server name as their audience; one of these has to be there"),
		server.Row("oidc-claim", "CLAIM", server.Default(&t.Claim, oidc.DefaultClaim), 0, 0, "claim that names the principal; email counts only where it was verified"),
		server.Row("oidc-groups-claim", "CLAIM", server.Default(&t.GroupsClaim, oidc.DefaultGroupsClaim), 0, 0, "claim that has its groups, such as realm_access.roles"),
		server.Row("trusted-header", "NAMES", &t.Headers, 0, 0, "headers in which a proxy says who is asking, such as X-Forwarded-User; the first that is there counts, and only from --trusted-proxy or with the secret of "+server.HeaderSecretVariable),
		server.Row("trusted-groups-header", "NAME", server.Default(&t.GroupsHeader, proxyheader.DefaultGroupsHeader), 0, 0, "header in which it says their groups, with commas"),
		server.Row("trusted-proxy", "ADDRESSES", &t.Proxies, 0, 0, "addresses and networks of proxies that set these headers, such as 10.0.0.7; "+proxyheader.Sockets+" is whoever reaches the socket"),
		server.Row("oauth", "", &t.oauth.On, 0, 0, "let clients that cannot be given a token, such as connectors of claude.ai and ChatGPT, ask people for access by OAuth; with TLS, on a loopback address, or with --oauth-url"),
		server.Row("oauth-url", "URL", &t.oauth.URL, 0, 0, "address by which clients and browsers reach --http, such as https://sandbox.example.com, of a proxy too (default: the address that it listens on)"),
		server.Row("oidc-client-id", "ID", &t.oauth.ClientID, 0, 0, "client of --oidc-issuer as which --oauth has people sign in there, instead of asking for their token; its secret is in "+server.OIDCSecretVariable),
	}}}
}

// check refuses settings that let nobody in, or everybody.
func (t *identity) check(s *server.Program) error {
	t.oauth.clientSecret, _ = s.LookupEnv(server.OIDCSecretVariable)
	t.headerSecret, _ = s.LookupEnv(server.HeaderSecretVariable)
	var found server.Problems
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
	found = append(found, t.oauth.check(&s.HTTP, t.Issuer))
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

// tokenStore returns the tokens of the state directory.
func tokenStore(s *server.Program, log *slog.Logger) *tokens.Store {
	return tokens.Open(filepath.Join(server.StateFolder(s.StateDir), tokens.FileName), log)
}

// authenticate returns the chain that identifies requests without the owner's token. A trusted header comes first: a proxy that may
// set it often sends a token as well, which is the proxy's and not the person's.
func (t *identity) authenticate(r *server.Running) (principal.Authenticator, error) {
	return t.chain(r, tokenStore(r.Program, r.Log))
}

// chain is authenticate with these tokens of `tokens add`.
func (t *identity) chain(r *server.Running, own *tokens.Store) (principal.Authenticator, error) {
	var chain principal.Chain
	if len(t.Headers) > 0 {
		if t.isUnguarded() {
			return nil, server.UsageError{Err: fmt.Errorf("--trusted-header %s alone would let everybody be anybody, because anybody can send it; name the proxies that set it with --trusted-proxy, or give them a secret in %s", strings.Join(t.Headers, ","), server.HeaderSecretVariable)}
		}
		header, err := proxyheader.New(t.header(r.Log))
		if err != nil {
			return nil, server.UsageError{Err: fmt.Errorf("--trusted-header: %w", err)} // not reached: the settings were checked
		}
		chain = append(chain, header)
	}
	if t.oauth.On {
		granted, err := t.serveOAuth(r, own)
		if err != nil {
			return nil, err
		}
		chain = append(chain, granted)
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
		check.Found = fmt.Sprintf("%d of principals, of which %d are over", len(all), over)
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
			check.Fix = "give the proxy a secret, in " + server.HeaderSecretVariable + ", or name its own address"
		}
	}
	return check
}
