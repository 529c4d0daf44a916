// Package oauth is a small OAuth 2.1 authorization server, for MCP clients that cannot be given a token: a person allows them on a page to
// do anything that the person's own token does.
//
// Start with New. Handlers returns the public handlers, and Authenticate identifies a request by its access token. The server supports the
// authorization code grant with PKCE, refresh tokens, registration (RFC 7591), client ID metadata documents, revocation (RFC 7009), resource
// indicators (RFC 8707) and the issuer in its answers (RFC 9207), for one resource: the MCP endpoint beside it.
//
// It promises:
//
//   - No browser is sent to a client but by a person's click here, nor before the client is known and the address is one of its own, by
//     each character.
//   - A code is good once, for a minute, for the client and the address that it was made for, and with the verifier alone. A repeated code
//     or refresh token revokes its grant.
//   - Nothing is allowed without a person who just signed in, on a page that no other page can frame or fill in, and that names the
//     client and the address that gets the answer. The decision is never remembered.
//   - Tokens are random, and kept as sums alone. They are good for this server's MCP endpoint, and for no longer than their person's
//     credential.
//   - Public requests are bounded: clients, documents that are fetched and from where, and how often an issuer is asked for its
//     endpoints. Nothing of it is counted by address, as behind a proxy all share one, so that a stranger uses up nobody's share.
package oauth

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/audit"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/principal"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/web"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/team/oidc"
)

// Scope is the scope that clients ask for: everything that the person may do.
const Scope = "sandbox"

// scopeOffline asks for a refresh token.
const scopeOffline = "offline_access"

// The lifetimes of codes and tokens.
const (
	codeTime    = time.Minute
	accessTime  = time.Hour
	refreshTime = 30 * 24 * time.Hour
)

const (
	grantCode    = "authorization_code"
	grantRefresh = "refresh_token"
)

// Paths of the handlers.
const (
	metadataPath  = "/.well-known/oauth-authorization-server"
	authorizePath = "/oauth/authorize"
	callbackPath  = "/oauth/callback"
	tokenPath     = "/oauth/token" //nolint:gosec // a path and no credential
	registerPath  = "/oauth/register"
	revokePath    = "/oauth/revoke"
)

// Options configure a Server. Issuer, Resource, Store and either SignIn or Provider are required.
type Options struct {
	// Issuer is the address of this server for clients and browsers; CheckIssuer must accept it.
	Issuer string
	// Resource is the path below it that tokens are good for, such as /mcp.
	Resource string
	Store    *Store
	// SignIn returns the principal of a typed token. The error is not shown.
	SignIn func(token string) (principal.Principal, error)
	// Provider is whom a browser is handed over to, instead of a form for a token.
	Provider *Provider
	// Still returns the present principal of a credential, and an error if it is no longer good: credential is CredentialOf the token, or
	// the Provider's issuer. It is called at each request. Nil: all stays as it was.
	Still func(p principal.Principal, credential string) (principal.Principal, error)
	// Documents is how clients' documents are fetched. Nil: over https, from the open internet alone.
	Documents http.RoundTripper
	Audit     audit.Recorder   // nil: nothing is recorded
	Logger    *slog.Logger     // nil: nothing is logged
	Now       func() time.Time // nil: time.Now
}

// Server is an authorization server. Its methods may be called by any number of goroutines.
type Server struct {
	o         Options
	resource  string
	secure    bool
	key       []byte // of tickets
	origin    *http.CrossOriginProtection
	documents *documents
	provider  *provider // nil: people type their token
	often     *rate.Sometimes
	// registering is held by who writes a client, so that in a flood of them only one contends for the file with who wants a token.
	registering sync.Mutex

	mu    sync.Mutex
	codes map[string]*code // by sum, until the tickets that they were made for are over
}

// CheckIssuer returns the issuer of an address, in the form that clients compare. It is https and a host, or http on this machine.
func CheckIssuer(address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.User != nil || u.Path != "" && u.Path != "/" || u.RawQuery != "" || strings.Contains(address, "#") {
		return "", errors.New("is not an address such as https://sandbox.example.com, without a path")
	}
	if !oidc.IsSafe(u) {
		return "", errors.New("must begin with https://, as its tokens would cross the network unencrypted")
	}
	host := strings.ToLower(u.Host)
	if port := u.Port(); u.Scheme == "https" && port == "443" || u.Scheme == "http" && port == "80" || port == "" {
		host = strings.TrimSuffix(host, ":"+port)
	}
	return u.Scheme + "://" + host, nil
}

// New returns a server.
func New(o Options) *Server {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Still == nil {
		o.Still = func(p principal.Principal, _ string) (principal.Principal, error) { return p, nil }
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.Store.now = o.Now
	s := &Server{
		o: o, resource: o.Issuer + o.Resource, secure: strings.HasPrefix(o.Issuer, "https://"), key: []byte(rand.Text() + rand.Text()),
		origin: http.NewCrossOriginProtection(), documents: newDocuments(o.Documents, o.Now),
		often: &rate.Sometimes{First: 20, Interval: time.Second}, codes: make(map[string]*code),
	}
	if o.Provider != nil {
		s.provider = &provider{Provider: *o.Provider, client: oidc.NewClient(), now: o.Now}
	}
	_ = s.origin.AddTrustedOrigin(o.Issuer) // it is one: behind a proxy the request names another host
	return s
}

// Handlers returns the public handlers, by patterns of http.ServeMux.
func (s *Server) Handlers() map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{
		"GET " + metadataPath:                s.metadata,
		"GET " + metadataPath + s.o.Resource: s.metadata, // for clients that take the resource for the issuer
		"GET " + authorizePath:               s.authorize,
		"POST " + authorizePath:              s.decide,
		"GET " + callbackPath:                s.callback,
		"POST " + tokenPath:                  s.token,
		"POST " + revokePath:                 s.revoke,
		"POST " + registerPath:               s.register,
	}
}

// metadata serves the server's metadata (RFC 8414).
func (s *Server) metadata(w http.ResponseWriter, _ *http.Request) {
	methods := []string{methodNone, methodPost, methodBasic}
	web.JSON(w, http.StatusOK, map[string]any{
		"issuer":                                         s.o.Issuer,
		"authorization_endpoint":                         s.o.Issuer + authorizePath,
		"token_endpoint":                                 s.o.Issuer + tokenPath,
		"registration_endpoint":                          s.o.Issuer + registerPath,
		"revocation_endpoint":                            s.o.Issuer + revokePath,
		"scopes_supported":                               []string{Scope, scopeOffline},
		"response_types_supported":                       []string{"code"},
		"response_modes_supported":                       []string{"query"},
		"grant_types_supported":                          []string{grantCode, grantRefresh},
		"code_challenge_methods_supported":               []string{"S256"},
		"token_endpoint_auth_methods_supported":          methods,
		"revocation_endpoint_auth_methods_supported":     methods,
		"client_id_metadata_document_supported":          true,
		"authorization_response_iss_parameter_supported": true,
	})
}

// Authenticate implements principal.Authenticator for access tokens.
func (s *Server) Authenticate(r *http.Request) (principal.Principal, error) {
	token := principal.Bearer(r)
	if !strings.HasPrefix(token, accessPrefix) {
		return principal.Principal{}, principal.ErrNone
	}
	g, err := s.o.Store.access(token)
	if err != nil {
		return principal.Principal{}, err
	}
	p, err := s.check(g)
	p.Source = "oauth"
	return p, err
}

var (
	errAudience = errors.New("the token is for another resource")
	errNotGood  = errors.New("what the grant's person has shown is not good any more")
)

// check returns the present principal of a grant. It refuses a grant for another server, or of a person who lost the right to it.
func (s *Server) check(g *Grant) (principal.Principal, error) {
	if g.Audience != s.resource {
		return principal.Principal{}, errAudience
	}
	p, err := s.o.Still(g.person(), g.Credential)
	if err != nil || p.Name != g.Principal {
		return principal.Principal{}, fmt.Errorf("%w: %w", errNotGood, cmp.Or(err, errUnknown))
	}
	return p, nil
}

// revoked tells the audit log of a grant that was revoked, and why.
func (s *Server) revoked(r *http.Request, g *Grant, why string) {
	s.record(r, audit.Event{
		Kind: audit.KindPolicy, Action: "OAuth grant revoked", Outcome: audit.Success, Principal: g.Principal, Source: "oauth",
		Detail: map[string]any{"grant": g.ID, "client": g.Client, "why": why},
	})
}

// warn logs events that strangers can cause as often as they like: the first lines, and then one a second.
func (s *Server) warn(what string, args ...any) {
	s.often.Do(func() { s.o.Logger.Warn(what, args...) })
}

func (s *Server) record(r *http.Request, e audit.Event) {
	if s.o.Audit != nil {
		e.Address, _, _ = net.SplitHostPort(r.RemoteAddr)
		e.Tool = r.Method + " " + r.URL.Path
		s.o.Audit.Record(e)
	}
}

// refuse answers a client with an error of OAuth.
func refuse(w http.ResponseWriter, status int, code, description string) {
	web.Refuse(w)
	web.JSON(w, status, map[string]string{"error": code, "error_description": description})
}
