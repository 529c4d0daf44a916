// Where a principal is served: one replica has all of its sessions.

package replicas

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/web"
)

// placeTime is what a request waits for a replica that serves it, which is longer than another one takes to follow a dead one.
const placeTime = 10 * time.Second

// place returns the replica that serves a tenant; nil: this one. It is the one that has sessions of the tenant, or else the one that
// all choose (rendezvous hashing), so that few move when a replica comes or goes.
func (r *Replicas) place(tenant string) *peer {
	r.mu.Lock()
	defer r.mu.Unlock()
	has := make(map[string]int)
	for _, s := range r.sessions {
		if s.tenant == tenant && s.holder != "" && (r.o.Counts == nil || r.o.Counts(tenant, s.id)) {
			has[s.holder]++
		}
	}
	var best *peer
	for _, p := range r.peers {
		if p.address != "" && (best == nil || p.rank(best, has, tenant) > 0) {
			best = p
		}
	}
	if best == nil || best.name == r.o.Name {
		return nil
	}
	return best
}

// rank compares two replicas for a tenant.
func (p *peer) rank(other *peer, has map[string]int, tenant string) int {
	stays := func(p *peer) int {
		if p.drains {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(has[p.name], has[other.name]), cmp.Compare(stays(p), stays(other)), slices.Compare(score(p, tenant), score(other, tenant)))
}

// score ranks replicas for a tenant, for each another way.
func score(p *peer, tenant string) []byte {
	sum := sha256.Sum256([]byte(p.name + "\x00" + tenant))
	return sum[:]
}

// IsPlaced reports whether a tenant is served here.
func (r *Replicas) IsPlaced(tenant string) bool { return r.place(tenant) == nil }

// Hands hands requests on to the replicas that serve them.
type Hands struct {
	r         *Replicas
	transport *http.Transport
	scheme    string
}

// NewHands returns one for replicas that speak TLS with the same certificate as this one; nil: they do not speak TLS.
func (r *Replicas) NewHands(certificate *tls.Certificate) *Hands {
	h := &Hands{r: r, scheme: "http", transport: &http.Transport{
		DialContext:        (&net.Dialer{Timeout: time.Second}).DialContext,
		DisableKeepAlives:  true, // only where nothing could be connected it is known that nothing was done
		DisableCompression: true, // the answer is the client's
	}}
	if certificate != nil {
		h.scheme = "https"
		h.transport.TLSClientConfig = &tls.Config{
			MinVersion:         tls.VersionTLS12,
			InsecureSkipVerify: true, //nolint:gosec // the certificate is of no address; it is compared below
			VerifyConnection: func(s tls.ConnectionState) error {
				if !slices.Equal(s.PeerCertificates[0].Raw, certificate.Certificate[0]) {
					return errors.New("another replica has another certificate")
				}
				return nil
			},
		}
	}
	return h
}

// Serve has a tenant's request served: here, or by the replica that has the tenant's sessions. It reports whether one of them did.
func (h *Hands) Serve(w http.ResponseWriter, r *http.Request, tenant string, here http.Handler) bool {
	ctx, cancel := context.WithTimeout(r.Context(), placeTime)
	defer cancel()
	as, handed := handedOnAs(r)
	if handed && as != tenant {
		h.r.o.Logger.Error("another replica has let a request in as somebody else than this one would: do all have the same settings?", "path", r.URL.Path)
		return false
	}
	for {
		if err := h.r.Ready(ctx); err != nil {
			return false
		}
		var to *peer
		if !handed {
			to = h.r.place(tenant)
		}
		if to == nil {
			here.ServeHTTP(w, r)
			return true
		}
		if h.handOn(w, r, tenant, to) {
			return true
		}
		select {
		case <-time.After(againAfter):
		case <-ctx.Done():
			return false
		}
	}
}

// patient is a client's side of a request that was handed on: how long that may take is for the other replica to say, and what a
// client has for reading counts anew for each part of the answer.
type patient struct {
	http.ResponseWriter

	control *http.ResponseController
}

func newPatient(w http.ResponseWriter) patient {
	p := patient{w, http.NewResponseController(w)}
	_ = errors.Join(p.control.SetReadDeadline(time.Time{}), p.control.SetWriteDeadline(time.Time{}))
	return p
}

// Write writes a part.
func (p patient) Write(b []byte) (int, error) {
	_ = p.control.SetWriteDeadline(time.Now().Add(web.WriteTime))
	return p.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (p patient) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// errDied ends a request whose replica has died.
var errDied = errors.New("the replica that served this has ended")

// handOn hands a request on, and reports whether it was answered: one that has not reached the other replica can be served by
// another.
func (h *Hands) handOn(w http.ResponseWriter, r *http.Request, tenant string, to *peer) bool {
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	go func() {
		select {
		case <-to.gone:
			cancel(errDied)
		case <-ctx.Done():
		}
	}()
	h.r.mu.Lock()
	address, by := to.address, to.handedOn(tenant, r.RemoteAddr)
	h.r.mu.Unlock()
	answered := true
	proxy := httputil.ReverseProxy{
		Transport: h.transport, FlushInterval: -1,
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(&url.URL{Scheme: h.scheme, Host: address})
			p.Out.Host = p.In.Host
			// What was sent along is what the other one is to see.
			for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
				if values, sent := p.In.Header[name]; sent {
					p.Out.Header[name] = values
				}
			}
			p.Out.Header.Set(handedOnHeader, by)
		},
		ModifyResponse: func(answer *http.Response) error {
			for name := range answer.Header {
				w.Header().Del(name) // this replica has said the same
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			var dialed *net.OpError
			if errors.As(err, &dialed) && dialed.Op == "dial" {
				answered = false
				return
			}
			h.r.o.Logger.Debug("hand a request on", "replica", to.name, "error", cmp.Or(context.Cause(ctx), err))
			http.Error(w, "the replica that served this has ended, perhaps after it did what was asked; look, and try again", http.StatusBadGateway)
		},
	}
	out := r.WithContext(ctx)
	if r.Body != nil && r.Body != http.NoBody {
		out.Body = io.NopCloser(r.Body) // it is there yet for another
	}
	proxy.ServeHTTP(newPatient(w), out)
	return answered
}
