package httpserver

import (
	"cmp"
	"context"
	"crypto/tls"
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

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"golang.org/x/time/rate"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/principal"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/room"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/web"
)

// metadataPath is the path of a protected resource's metadata (RFC 9728).
const metadataPath = server.WellKnownProtectedResourcePath

// headerSession names a protocol session up to 2025-11-25.
const headerSession = server.HeaderKeySessionID

// single are the headers that decide about access: if there were two of one, each reader could choose another.
var single = []string{"Authorization", "X-API-Key", "Origin", headerSession, mcp.HeaderProtocolVersion, mcp.HeaderMethod, mcp.HeaderName}

// guard decides which requests get through.
type guard struct {
	token       *web.Token // the owner's; nil: none
	others      principal.Authenticator
	of          func(principal.Principal) (*Site, error)
	own         *Site // the user's
	log         *slog.Logger
	often       *rate.Sometimes // events that anybody can cause to be logged
	hosts       []string
	origins     []string
	certificate *tls.Certificate
	local       bool // only this machine reaches the server
	socket      bool // and only by a path: there are no names
	refuse      refuser
	issuer, url string // of Options
}

func newGuard(o *Options, refuse refuser) guard {
	return guard{
		refuse: refuse, hosts: o.AllowHosts, origins: o.AllowOrigins, certificate: o.Certificate, log: o.Logger, often: &rate.Sometimes{First: 20, Interval: time.Second},
		token: web.NewToken(o.Token), others: o.Authenticate, of: o.Of, own: &o.Site, issuer: o.Issuer, url: o.URL,
	}
}

// isOpen reports whether a request without a credential is let in, as the owner's.
func (g *guard) isOpen() bool { return g.token == nil }

func (g *guard) listensOn(address net.Addr) {
	tcp, ok := address.(*net.TCPAddr)
	g.socket = !ok
	g.local = !ok || tcp.IP.IsLoopback()
}

// admitted refuses requests that another origin's page made a browser send, and answers preflight requests.
func (g *guard) admitted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, name := range single {
			if len(r.Header.Values(name)) > 1 {
				g.refuse(w, r, http.StatusBadRequest, "the header "+name+" is there twice", "send it once")
				return
			}
		}
		if !g.isOwnName(r.Host) {
			g.refuse(w, r, http.StatusForbidden, fmt.Sprintf("%q is not a name of this server", text.Shorten(r.Host, 80)), "use its address, or name it with --allow-host-name")
			return
		}
		if origin := r.Header.Get("Origin"); origin != "" {
			if !g.isAllowed(origin, r) {
				g.refuse(w, r, http.StatusForbidden, fmt.Sprintf("pages of %q may not use this server", text.Shorten(origin, 80)), "--allow-origin names those that may")
				return
			}
			if allowOrigin(w.Header(), r, origin) {
				w.WriteHeader(http.StatusNoContent)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// isOwnName reports whether a Host header names this server. A page can make its own name lead here, and would then be of the same origin;
// it cannot do so with an address.
func (g *guard) isOwnName(host string) bool {
	if g.socket {
		return true
	}
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.ToLower(strings.TrimSuffix(strings.Trim(name, "[]"), "."))
	if address, err := netip.ParseAddr(name); err == nil {
		return !g.local || address.IsLoopback()
	}
	if name == "localhost" || name != "" && slices.ContainsFunc(g.hosts, func(h string) bool { return strings.EqualFold(h, name) }) {
		return true
	}
	return name != "" && g.certificate != nil && g.certificate.Leaf != nil && g.certificate.Leaf.VerifyHostname(name) == nil
}

// isAllowed reports whether a page of the origin may use the server: one that came from here, one of this machine
// where only that reaches the server, and one that was named.
func (g *guard) isAllowed(origin string, r *http.Request) bool {
	if slices.ContainsFunc(g.origins, func(o string) bool { return o == "*" || strings.EqualFold(o, origin) }) {
		return true
	}
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" {
		return false // "null" is the origin of a page without one
	}
	// Behind a proxy that speaks TLS the page's own origin begins with https, and the request does not.
	own := u.Scheme + "://" + u.Host
	if strings.EqualFold(own, baseURL(r)) || r.TLS == nil && strings.EqualFold(own, "https://"+r.Host) {
		return true
	}
	address, err := netip.ParseAddr(u.Hostname())
	return g.local && (u.Hostname() == "localhost" || err == nil && address.IsLoopback())
}

// allowOrigin tells a browser that the page may read the answer, and reports whether that was all it asked.
func allowOrigin(h http.Header, r *http.Request, origin string) (preflight bool) {
	h.Set("Access-Control-Allow-Origin", origin)
	h.Add("Vary", "Origin")
	h.Set("Access-Control-Expose-Headers", headerSession+", WWW-Authenticate")
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	h.Set("Access-Control-Allow-Methods", "GET, POST, PUT, DELETE")
	h.Set("Access-Control-Allow-Headers", r.Header.Get("Access-Control-Request-Headers"))
	h.Set("Access-Control-Max-Age", "7200")
	return true
}

type siteKey struct{}

// siteOf returns the Site of a request that was let through.
func siteOf(r *http.Request) *Site { return r.Context().Value(siteKey{}).(*Site) }

// enter returns a request as one of a principal, which its Site serves.
func enter(r *http.Request, p principal.Principal, site *Site) *http.Request {
	return r.WithContext(context.WithValue(principal.With(r.Context(), p), siteKey{}, site))
}

// authenticated lets requests of known principals through.
func (g *guard) authenticated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		given := principal.Bearer(r)
		own, shown := given != "" && g.token.Is(given), r
		if own {
			// A proxy that names the principal may send the server's own token as well. Others need not see that, whatever it looks like.
			shown = r.Clone(r.Context())
			shown.Header.Del("Authorization")
		}
		p, err := principal.Principal{}, principal.ErrNone
		if g.others != nil {
			p, err = g.others.Authenticate(shown)
		}
		if err == nil && p.IsUser() {
			err = errNameless
		}
		if errors.Is(err, principal.ErrNone) && (own || g.isOpen()) {
			if own || r.ContentLength == 0 { // or a message keeps its place once it was received
				web.Keep(r.Context(), "")
			}
			g.serve(w, enter(r, principal.Principal{}, g.own), next)
			return
		}
		if err == nil {
			web.Keep(r.Context(), p.Key())
			site, err := g.of(p)
			if err != nil {
				g.log.Error("a principal cannot be served", "principal", p.Name, "error", err)
				g.refuse(w, r, http.StatusServiceUnavailable, "the server cannot serve you now", "its log says why")
				return
			}
			r, stop := g.whileKnown(enter(r, p, site))
			defer stop()
			g.serve(w, r, next)
			return
		}
		if !errors.Is(err, principal.ErrNone) {
			g.often.Do(func() { g.log.Info("sign-in refused", "address", room.AddressOf(r), "error", err) })
		}
		challenge := fmt.Sprintf("Bearer resource_metadata=%q", g.base(r)+metadataPath+Path)
		if given != "" {
			challenge += `, error="invalid_token"`
		}
		w.Header().Set("WWW-Authenticate", challenge)
		g.refuse(w, r, http.StatusUnauthorized, "send the header Authorization: Bearer TOKEN", "the server's log says where its token is")
	})
}

// serve passes an authenticated request on if the memory budget has room for its header.
func (g *guard) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	if _, err := room.Take(r.Context(), room.Head); err != nil {
		w.Header().Set("Retry-After", "1")
		g.refuse(w, r, http.StatusServiceUnavailable, "too many requests at once", "try again later")
		return
	}
	next.ServeHTTP(w, r)
}

// knownEvery is the interval at which a stream checks that its principal is still known.
const knownEvery = 10 * time.Second

// errSignedOut ends the streams of a credential that is no longer good.
var errSignedOut = errors.New("what the request has shown is not good any more")

// whileKnown returns a request with a context that ends soon after its credential does, if it may be a stream: a call that began is
// answered.
func (g *guard) whileKnown(r *http.Request) (_ *http.Request, stop func()) {
	if r.Method == http.MethodPost && r.Header.Get(mcp.HeaderMethod) != string(mcp.MethodSubscriptionsListen) && !isStream(r) {
		return r, func() {}
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	shown, who := r.Clone(ctx), principal.Of(ctx)
	tick := time.NewTicker(knownEvery)
	go func() {
		for {
			select {
			case <-tick.C:
				if !principal.Still(g.others, shown, who) {
					cancel(errSignedOut)
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return r.WithContext(ctx), func() { tick.Stop(); cancel(nil) }
}

// errNameless reports an Authenticator that took a request for one of the owner's.
var errNameless = errors.New("the principal has no name")

// metadata tells clients that the header must carry a token, and who issues it. Without an issuer it is in a file.
func (g *guard) metadata(w http.ResponseWriter, r *http.Request) {
	if g.isOpen() {
		refuse(w, http.StatusNotFound, "no token is asked for here")
		return
	}
	config := server.ProtectedResourceMetadataConfig{Resource: g.base(r) + Path, ResourceName: "Code sandbox", BearerMethodsSupported: []string{"header"}}
	if g.issuer != "" {
		config.AuthorizationServers = []string{g.issuer}
	}
	server.NewProtectedResourceMetadataHandler(config).ServeHTTP(w, r)
}

// base returns the server's address for clients: tokens name it as their audience.
func (g *guard) base(r *http.Request) string {
	return cmp.Or(g.url, baseURL(r))
}

// baseURL returns the server's address as the request's client sees it.
func baseURL(r *http.Request) string {
	if r.TLS != nil {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}
