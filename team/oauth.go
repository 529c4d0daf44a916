// The authorization server: its users and its address.

package team

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/httpserver"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/principal"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/server"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/team/oauth"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/team/oidc"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/team/tokens"
)

// oauthSettings configure OAuth, for clients that cannot be given a token.
type oauthSettings struct {
	On  bool
	URL string
	// ClientID is this server's id at the issuer of identity. People sign in there if it is set.
	ClientID     string
	clientSecret string
}

// check refuses settings that would give tokens away.
func (o *oauthSettings) check(h *server.HTTPSettings, issuer string) error {
	var found server.Problems
	found.Wrong(!o.On && o.URL != "", "--oauth-url %s has no effect without --oauth", o.URL)
	found.Wrong(!o.On && o.ClientID != "", "--oidc-client-id %s has no effect without --oauth", o.ClientID)
	found.Wrong(o.ClientID != "" && issuer == "", "--oidc-client-id %s is of no issuer; name it with --oidc-issuer", o.ClientID)
	if !o.On {
		return errors.Join(found...)
	}
	found.Wrong(h.Address == "", "--oauth has no effect without --http")
	found.Wrong(h.NoAuth, "--oauth gives out tokens, and --http-no-auth asks for none; leave one of the two out")
	network, address, err := h.ListenAddress()
	switch {
	case h.Address == "" || err != nil: // reported already
	case o.URL != "":
		_, err := oauth.CheckIssuer(o.URL)
		found.Wrong(err != nil, "--oauth-url %q %w", o.URL, err)
	case network == "tcp" && h.Certificate == "" && !server.IsLocal(network, address):
		found.Wrong(true, "--oauth on %s would send tokens over the network unencrypted; set --tls-cert and --tls-key, or have a proxy in front that speaks TLS and name its address with --oauth-url https://…", address)
	}
	return errors.Join(found...)
}

// issuer returns the address of the authorization server. No request may determine it.
func (o *oauthSettings) issuer(w *server.Web) (string, error) {
	address := o.URL
	if address == "" {
		base := w.Base("")
		if base == nil {
			return "", server.UsageError{Err: fmt.Errorf("--oauth needs --oauth-url, such as https://sandbox.example.com: nobody can tell from %s how clients reach it", w.Listener.Addr())}
		}
		address = base.String()
	}
	issuer, err := oauth.CheckIssuer(address)
	if err != nil {
		return "", server.UsageError{Err: fmt.Errorf("--oauth-url %q %w", address, err)}
	}
	return issuer, nil
}

// oauthStore returns the clients and grants of the state directory.
func oauthStore(s *server.Program) *oauth.Store {
	return oauth.OpenStore(filepath.Join(server.StateFolder(s.StateDir), oauth.FileName))
}

// serveOAuth serves the authorization server, and returns the authenticator of its tokens.
func (t *identity) serveOAuth(r *server.Running, own *tokens.Store) (principal.Authenticator, error) {
	w := r.Web
	issuer, err := t.oauth.issuer(w)
	if err != nil {
		return nil, err
	}
	w.PublicURL = t.oauth.URL
	options := oauth.Options{
		Issuer: issuer, Resource: httpserver.Path, Store: oauthStore(r.Program), Audit: r.Recorder(), Logger: r.Log,
		SignIn: own.SignIn,
		Still: func(p principal.Principal, credential string) (principal.Principal, error) {
			if p.Source != "oidc" {
				return own.Known(credential)
			}
			if t.oauth.ClientID == "" || credential != t.Issuer {
				return principal.Principal{}, errors.New("people do not sign in at that issuer any more")
			}
			return p, nil
		},
	}
	if t.oauth.ClientID != "" {
		verify := t.issuer(r.Log)
		verify.Audiences = []string{t.oauth.ClientID}
		options.Provider = &oauth.Provider{
			Issuer: t.Issuer, ClientID: t.oauth.ClientID, ClientSecret: t.oauth.clientSecret, Verify: oidc.New(verify).VerifyID,
		}
	}
	authorization := oauth.New(options)
	for pattern, handler := range authorization.Handlers() {
		w.Options.Open[pattern] = handler
	}
	w.Options.OAuth = &httpserver.OAuth{Issuer: issuer, Scope: oauth.Scope}
	if u, err := url.Parse(issuer); err == nil { // a proxy may keep the host name, and a browser names its page's origin
		w.Options.AllowHosts = append(w.Options.AllowHosts, u.Hostname())
		w.Options.AllowOrigins = append(w.Options.AllowOrigins, issuer)
	}
	r.Log.Info("clients may ask for access by OAuth", "url", issuer+httpserver.Path)
	return authorization, nil
}
