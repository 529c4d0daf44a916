// Whose requests are: the tokens, the issuer and the headers that the settings name.

package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/audit"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/doctor"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/principal"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/principal/oidc"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/principal/proxyheader"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/principal/tokens"
)

// headerSecretVariable has what a proxy sends with the headers that name principals. It is no flag, for the reason that tokenVariable is none.
const headerSecretVariable = "SANDBOX_TRUSTED_HEADER_SECRET"

// PrincipalSettings say how requests over HTTP show whose they are, beside the tokens that `tokens add` has given out.
type PrincipalSettings struct {
	Issuer       string
	Audiences    []string
	Claim        string
	GroupsClaim  string
	Headers      []string
	GroupsHeader string
	Proxies      []string

	headerSecret string
}

// check refuses what lets nobody in, or everybody.
func (p *PrincipalSettings) check(noAuth bool) error {
	var found problems
	found.wrong(noAuth && (p.Issuer != "" || len(p.Headers) > 0), "--http-no-auth lets everybody in as you, so --oidc-issuer and --trusted-header say nothing; leave it out")
	if p.Issuer != "" {
		err := oidc.CheckIssuer(p.Issuer)
		found.wrong(err != nil, "--oidc-issuer: %w", err)
		found.wrong(len(p.Audiences) == 0 || slices.Contains(p.Audiences, ""), "--oidc-issuer %s needs --oidc-audience, what its tokens for this server name as theirs; without, those for any other program would do", p.Issuer)
		found.wrong(p.Claim == "" || p.GroupsClaim == "", "--oidc-claim and --oidc-groups-claim are names of claims, such as sub and groups; one of them is empty")
	}
	found.wrong(p.Issuer == "" && len(p.Audiences) > 0, "--oidc-audience %s is of no issuer; name it with --oidc-issuer", strings.Join(p.Audiences, ","))
	switch {
	case len(p.Headers) > 0 && len(p.Proxies) == 0 && p.headerSecret == "":
		found.wrong(true, "--trusted-header %s alone would let everybody be anybody, because anybody can send it; name the proxies that set it with --trusted-proxy, or give them a secret in %s", strings.Join(p.Headers, ","), headerSecretVariable)
	case len(p.Headers) > 0:
		err := p.header(nil).Check()
		found.wrong(err != nil, "--trusted-header: %w", err)
	default:
		found.wrong(len(p.Proxies) > 0, "--trusted-proxy %s sets no header that counts; name it with --trusted-header", strings.Join(p.Proxies, ","))
	}
	return errors.Join(found...)
}

func (p *PrincipalSettings) header(log *slog.Logger) proxyheader.Options {
	return proxyheader.Options{Headers: p.Headers, GroupsHeader: p.GroupsHeader, Proxies: p.Proxies, Secret: p.headerSecret, Logger: log}
}

func (p *PrincipalSettings) issuer(log *slog.Logger) oidc.Options {
	return oidc.Options{Issuer: p.Issuer, Audiences: p.Audiences, Claim: p.Claim, GroupsClaim: p.GroupsClaim, Logger: log}
}

// TokenStore returns the tokens of the state directory.
func (s *Settings) TokenStore(log *slog.Logger) *tokens.Store {
	return tokens.Open(filepath.Join(s.StateFolder(), tokens.FileName), log)
}

// authenticate has a server over HTTP find out whose requests are that have not its own token.
func (s *Settings) authenticate(w *web, recorder audit.Recorder, log *slog.Logger) error {
	_ = os.Unsetenv(oidcSecretVariable)
	if s.HTTP.NoAuth {
		return nil
	}
	own := s.TokenStore(log)
	granted, err := s.serveOAuth(w, own, recorder, log)
	if err != nil {
		return err
	}
	w.options.Authenticate, err = s.authenticator(own, granted, log)
	return err
}

// authenticator returns what finds out whose requests are that have not the server's own token, with the tokens of principals' own and those that
// OAuth has given out; granted nil: it has given out none. A trusted header comes first: who may set it often has a token as well, which is the
// program's and not the person's.
func (s *Settings) authenticator(own *tokens.Store, granted principal.Authenticator, log *slog.Logger) (principal.Chain, error) {
	_ = os.Unsetenv(headerSecretVariable)
	var chain principal.Chain
	if p := &s.Principals; len(p.Headers) > 0 {
		header, err := proxyheader.New(p.header(log))
		if err != nil {
			return nil, UsageError{Err: fmt.Errorf("--trusted-header: %w", err)} // not reached: the settings were checked
		}
		chain = append(chain, header)
	}
	if granted != nil {
		chain = append(chain, granted)
	}
	chain = append(chain, own)
	if p := &s.Principals; p.Issuer != "" {
		chain = append(chain, oidc.New(p.issuer(log)))
	}
	return chain, nil
}

// issuerTime is what doctor waits for an issuer.
const issuerTime = 15 * time.Second

// principalChecks tell of tokens, the issuer and the headers, where they are used.
func (s *Settings) principalChecks(ctx context.Context) []doctor.Check {
	log := slog.New(slog.DiscardHandler)
	checks := tokenChecks(s.TokenStore(log))
	p := &s.Principals
	if p.Issuer != "" {
		ctx, cancel := context.WithTimeout(ctx, issuerTime)
		defer cancel()
		check := doctor.Check{Name: "OIDC issuer", Status: doctor.OK}
		if keys, err := oidc.New(p.issuer(log)).Check(ctx); err != nil {
			check.Status, check.Found = doctor.Warn, "its keys cannot be had: "+err.Error()
			check.Why, check.Fix = "its tokens let nobody in until they can", "compare --oidc-issuer with what the issuer calls itself, and see that this machine reaches it"
		} else {
			check.Found = fmt.Sprintf("%s, keys that tokens are checked with: %d", p.Issuer, keys)
		}
		checks = append(checks, check)
	}
	if len(p.Headers) > 0 {
		checks = append(checks, p.headerCheck())
	}
	return checks
}

// tokenChecks tell of the tokens, where there are some.
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

// headerCheck warns of proxies that are more than one machine, where nothing but the address is asked for.
func (p *PrincipalSettings) headerCheck() doctor.Check {
	check := doctor.Check{Name: "trusted header", Status: doctor.OK, Found: strings.Join(p.Headers, ", ")}
	if p.headerSecret != "" {
		check.Found += ", with a secret"
		return check
	}
	check.Found += ", from " + strings.Join(p.Proxies, ", ")
	for _, proxy := range p.Proxies {
		address, _ := netip.ParseAddr(proxy)
		network, err := netip.ParsePrefix(proxy)
		if address.IsLoopback() || err == nil && network.Bits() < network.Addr().BitLen() {
			check.Status, check.Why = doctor.Warn, fmt.Sprintf("every program that %s is an address of can say that it is anybody", proxy)
			check.Fix = "give the proxy a secret, in " + headerSecretVariable + ", or name its own address"
		}
	}
	return check
}
