// The authorization server: for whom there is one, and where.

package server

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/audit"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/httpserver"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/oauth"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/principal"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/principal/oidc"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/principal/tokens"
)

// oidcSecretVariable has the secret of --oidc-client-id. It is no flag, for the reason that tokenVariable is none.
const oidcSecretVariable = "SANDBOX_OIDC_CLIENT_SECRET" //nolint:gosec // a name

// OAuthSettings say whether clients that cannot be given a token get one by OAuth.
type OAuthSettings struct {
	On  bool
	URL string
	// ClientID is this server at the issuer of PrincipalSettings, where people sign in then.
	ClientID     string
	clientSecret string
}

// check refuses what would give tokens away.
func (o *OAuthSettings) check(h *HTTPSettings, issuer string) error {
	var found problems
	found.wrong(!o.On && o.URL != "", "--oauth-url %s has no effect without --oauth", o.URL)
	found.wrong(!o.On && o.ClientID != "", "--oidc-client-id %s has no effect without --oauth", o.ClientID)
	found.wrong(o.ClientID != "" && issuer == "", "--oidc-client-id %s is of no issuer; name it with --oidc-issuer", o.ClientID)
	if !o.On {
		return errors.Join(found...)
	}
	found.wrong(h.Address == "", "--oauth has no effect without --http")
	found.wrong(h.NoAuth, "--oauth gives out tokens, and --http-no-auth asks for none; leave one of the two out")
	network, address, err := h.listenAddress()
	switch {
	case h.Address == "" || err != nil: // said already
	case o.URL != "":
		_, err := oauth.CheckIssuer(o.URL)
		found.wrong(err != nil, "--oauth-url %q %w", o.URL, err)
	case network == "tcp" && h.Certificate == "" && !isLocal(network, address):
		found.wrong(true, "--oauth on %s would send tokens over the network unencrypted; set --tls-cert and --tls-key, or have a proxy in front that speaks TLS and name its address with --oauth-url https://…", address)
	}
	return errors.Join(found...)
}

// issuer is the address of the authorization server. It must not be one that a request names.
func (o *OAuthSettings) issuer(w *web) (string, error) {
	address := o.URL
	if address == "" {
		base := w.base("")
		if base == nil {
			return "", UsageError{Err: fmt.Errorf("--oauth needs --oauth-url, such as https://sandbox.example.com: nobody can tell from %s how clients reach it", w.listener.Addr())}
		}
		address = base.String()
	}
	issuer, err := oauth.CheckIssuer(address)
	if err != nil {
		return "", UsageError{Err: fmt.Errorf("--oauth-url %q %w", address, err)}
	}
	return issuer, nil
}

// OAuthStore returns the clients and grants of the state directory.
func (s *Settings) OAuthStore() *oauth.Store {
	return oauth.OpenStore(filepath.Join(s.StateFolder(), oauth.FileName))
}

// serveOAuth serves the authorization server, where there is one, and returns what knows its tokens; nil: there is none.
func (s *Settings) serveOAuth(w *web, own *tokens.Store, recorder audit.Recorder, log *slog.Logger) (principal.Authenticator, error) {
	if !s.OAuth.On {
		return nil, nil
	}
	issuer, err := s.OAuth.issuer(w)
	if err != nil {
		return nil, err
	}
	options := oauth.Options{
		Issuer: issuer, Resource: httpserver.Path, Store: s.OAuthStore(), Audit: recorder, Logger: log,
		SignIn: own.SignIn,
		Still: func(p principal.Principal, credential string) (principal.Principal, error) {
			if p.Source != "oidc" {
				return own.Known(credential)
			}
			if s.OAuth.ClientID == "" || credential != s.Principals.Issuer {
				return principal.Principal{}, errors.New("people do not sign in at that issuer any more")
			}
			return p, nil
		},
	}
	if s.OAuth.ClientID != "" {
		verify := s.Principals.issuer(log)
		verify.Audiences = []string{s.OAuth.ClientID}
		options.Provider = &oauth.Provider{
			Issuer: s.Principals.Issuer, ClientID: s.OAuth.ClientID, ClientSecret: s.OAuth.clientSecret, Verify: oidc.New(verify).VerifyID,
		}
	}
	server := oauth.New(options)
	for pattern, handler := range server.Handlers() {
		w.options.Open[pattern] = handler
	}
	w.options.OAuth = &httpserver.OAuth{Issuer: issuer, Scope: oauth.Scope}
	if u, err := url.Parse(issuer); err == nil { // a proxy may keep the name, and a browser says where its page is from
		w.options.AllowHosts = append(w.options.AllowHosts, u.Hostname())
		w.options.AllowOrigins = append(w.options.AllowOrigins, issuer)
	}
	log.Info("clients may ask for access by OAuth", "url", issuer+httpserver.Path)
	return server, nil
}
