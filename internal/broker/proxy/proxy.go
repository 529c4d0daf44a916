// Package proxy is the HTTP proxy through which code in a sandbox without a network reaches the hosts that are allowed.
//
// Start with New; Proxy is an http.Handler for CONNECT and for requests in absolute form, each with a caller.Caller in its context. The
// proxy resolves names and connects, to public addresses, and to private ones of hosts that are allowed by name. A tunnel carries TLS to
// its host, or HTTP that is read. For the hosts of secrets TLS ends here, with a certificate of the session's own Authority: placeholders
// become values on the way out, and values are masked on the way back, so that code never sees one. TLS also ends here for hosts with
// restricted methods and paths. Bytes, connections and times are bounded, and every request is recorded in a netlog.Log.
package proxy

import (
	"cmp"
	"context"
	"crypto/x509"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/ask"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/netlog"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fair"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/netguard"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/secrets"
)

// Mode sets which hosts code reaches.
type Mode string

// The modes.
const (
	None      Mode = "none"      // no host
	Allowlist Mode = "allowlist" // Options.Hosts, and those with secrets
	Open      Mode = "open"      // every public one on web ports, and the allow list
)

// Modes are all of them.
var Modes = []Mode{None, Allowlist, Open}

// Options are the rules and services of a Proxy.
type Options struct {
	Mode    Mode // default None
	Hosts   []Host
	Secrets []Secret // with their values; their hosts are allowed as well
	Limits  Limits
	Log     *netlog.Log // may be nil
	// Roots verify host certificates. Nil: this machine's.
	Roots *x509.CertPool
	// Ask is asked about refused requests that may be allowed. May be nil.
	Ask ask.Asker
	// Indexes answer requests for packages, whatever the mode. Nil: there are none.
	Indexes Indexes
}

// Indexes are hosts with packages.
type Indexes interface {
	// Hosts are their names.
	Hosts() []string
	// Serves reports whether a host, as host:port, is one of them.
	Serves(host string) bool
	// Answer answers a request for packages, whose URL has the host, and records it. It returns false, without an answer, for another request.
	Answer(w http.ResponseWriter, r *http.Request) bool
}

// Limits bound the bytes that a session may send and receive. Each field's zero value means its default.
type Limits struct {
	Connections  int           // of a session in use at a time; default 32
	RequestBytes int64         // of a request or a tunnel, each way; default 1 GiB
	SessionBytes int64         // of a session, each way; default 10 GiB
	HourBytes    int64         // that all sessions send in an hour; 0: any number
	Idle         time.Duration // how long a request or a tunnel may be without a byte; default 5 min
	Total        time.Duration // how long one may take; default 1 h
}

// Proxy lets sessions' requests through. Its methods may be called by any goroutine.
type Proxy struct {
	options Options
	mask    *secrets.Masker
	dial    netguard.DialFunc // connects to public addresses
	// lookup and dialInside reach the hosts that may be at a private address.
	lookup     func(ctx context.Context, host string) ([]netip.Addr, error)
	dialInside func(ctx context.Context, to netip.AddrPort) (net.Conn, error)
	roots      *x509.CertPool // that hosts are verified with; nil: this machine's
	out        *fair.Budget   // bytes that all sessions send

	mu       sync.Mutex
	sessions map[string]*session
}

// session is one session's state.
type session struct {
	connections    *semaphore.Weighted
	waiting        atomic.Int32 // for one of them
	sent, received atomic.Int64
	authority      *Authority

	mu   sync.Mutex
	held map[target][]netip.Addr // the addresses of names that may be inside
}

// New makes a proxy.
func New(options Options) *Proxy {
	l := &options.Limits
	l.Connections, l.RequestBytes, l.SessionBytes = cmp.Or(l.Connections, 32), cmp.Or(l.RequestBytes, 1<<30), cmp.Or(l.SessionBytes, 10<<30)
	l.Idle, l.Total = cmp.Or(l.Idle, 5*time.Minute), cmp.Or(l.Total, time.Hour)
	options.Mode = cmp.Or(options.Mode, None)
	if options.Log == nil {
		options.Log = new(netlog.Log)
	}
	return &Proxy{
		options: options, mask: secrets.New(options.Values()), dial: netguard.Dial(), lookup: netguard.Lookup, dialInside: netguard.DialInside,
		roots: options.Roots, sessions: make(map[string]*session), out: fair.NewBudget(time.Hour, l.HourBytes),
	}
}

// TakeOver moves the sessions of another proxy to this one, which serves none yet: their counted bytes, and the authorities that their code
// trusts.
func (p *Proxy) TakeOver(from *Proxy) {
	from.mu.Lock()
	defer from.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.Copy(p.sessions, from.sessions)
	p.out = from.out
	p.out.Set(p.options.Limits.HourBytes)
}

// Values are the secrets' values by name, for a masker.
func (o Options) Values() map[string]string {
	values := make(map[string]string)
	for _, s := range o.Secrets {
		values[s.Name] = s.Value
	}
	return values
}

// Environment returns the secrets' variables, each with its placeholder.
func (p *Proxy) Environment() map[string]string {
	env := make(map[string]string)
	for _, s := range p.options.Secrets {
		env[s.Name] = s.placeholder()
	}
	return env
}

// endedHosts are the hosts for which TLS ends here, and for which an Authority is made: those with secrets, package indexes, and those with
// restricted requests.
func (p *Proxy) endedHosts() []string {
	hosts := p.indexHosts()
	for _, h := range p.options.Hosts {
		if h.only != nil {
			hosts = append(hosts, h.authorized())
		}
	}
	for _, s := range p.options.Secrets {
		for _, h := range s.Hosts {
			hosts = append(hosts, h.name)
		}
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

func (p *Proxy) indexHosts() (hosts []string) {
	if p.options.Indexes == nil {
		return nil
	}
	for _, written := range p.options.Indexes.Hosts() {
		if name, err := normalize(written); err == nil {
			hosts = append(hosts, name)
		}
	}
	return hosts
}

// EndsForCode reports whether TLS ends here for hosts that any program may reach, and not installers alone.
func (p *Proxy) EndsForCode() bool {
	return p.options.Mode != None && (len(p.options.Secrets) > 0 || slices.ContainsFunc(p.options.Hosts, func(h Host) bool { return h.only != nil }) ||
		slices.ContainsFunc(p.indexHosts(), func(name string) bool { return p.judge(target{name, 443}).denied == nil }))
}

// Trust returns the certificate, in PEM, that a session's code must trust, and the data to keep for the session: its authority with the
// private key, which is made anew if the kept one does not fit the hosts for which TLS ends here. Both are empty if there are none. Without
// it those hosts cannot be reached.
func (p *Proxy) Trust(session string, kept []byte) (certificate string, keep []byte, err error) {
	hosts := p.endedHosts()
	if len(hosts) == 0 {
		return "", nil, nil
	}
	a := new(Authority)
	if len(kept) == 0 || a.UnmarshalText(kept) != nil || !a.covers(hosts) {
		if a, err = newAuthority(hosts); err != nil {
			return "", nil, err
		}
	}
	if keep, err = a.MarshalText(); err != nil {
		return "", nil, err
	}
	s := p.session(session)
	p.mu.Lock()
	defer p.mu.Unlock()
	s.authority = a
	return string(a.certificatePEM()), keep, nil
}

func (p *Proxy) authority(s *session) *Authority {
	p.mu.Lock()
	defer p.mu.Unlock()
	return s.authority
}

// Forget drops the state for a session that ended: its authority and byte counts.
func (p *Proxy) Forget(session string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.sessions, session)
}

func (p *Proxy) session(id string) *session {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.sessions[id]
	if s == nil {
		s = &session{connections: semaphore.NewWeighted(int64(p.options.Limits.Connections))}
		p.sessions[id] = s
	}
	return s
}

// ServeHTTP serves a request in absolute form, or a tunnel.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := p.begin(r)
	defer x.end()
	if problem := p.serve(w, r, x); problem != nil {
		x.refuse(w, r, problem)
	}
}

func (p *Proxy) serve(w http.ResponseWriter, r *http.Request, x *exchange) *refusal {
	usual := uint16(80)
	if r.Method == http.MethodConnect {
		usual = 443
	}
	t, err := parseTarget(r.URL.Host, usual)
	switch {
	case r.Method != http.MethodConnect && r.URL.Scheme != "http":
		return &refusal{status: http.StatusBadRequest, rule: "bad_request", words: "a request to this proxy is CONNECT host:port, or begins with http://"}
	case err != nil:
		x.entry.Host = r.URL.Host
		return &refusal{status: http.StatusBadRequest, rule: "bad_request", words: "the host of the request cannot be read: " + err.Error()}
	}
	x.entry.Host = t.authority(usual)
	v := p.judge(t)
	v.isIndex = p.options.Indexes != nil && p.options.Indexes.Serves(t.address())
	if v.isAskable && !v.isIndex {
		q := ask.Question{Host: t.address(), How: how(r)}
		if v.denied.rule == ruleAddress {
			q.Address = t.name
		}
		if v.denied = x.ask(q, v.denied); v.denied == nil && q.Address != "" {
			v.inside = true
		}
	}
	if v.denied == nil {
		v.held, v.denied = x.settle(t, v, r)
	}
	if v.denied != nil && !v.isIndex && !isExplained(r, t) {
		return v.denied
	}
	if problem := x.enter(); problem != nil {
		return problem
	}
	if r.Method == http.MethodConnect {
		return p.connect(w, r, x, t, v)
	}
	rt := p.route(t, v, nil)
	if x.answered(w, r, rt) {
		return nil
	}
	if v.denied != nil {
		return v.denied
	}
	rt.transport.DisableKeepAlives = true
	return p.forward(w, r, x, rt)
}

// isExplained reports whether a refusal is answered to the first request inside a tunnel, not to CONNECT, of which
// some clients show no more than the status: Node's fetch makes tunnels for plain HTTP too.
func isExplained(r *http.Request, t target) bool {
	return r.Method == http.MethodConnect && t.port == 80
}

// answered answers a request to an index, if it is for packages.
func (x *exchange) answered(w http.ResponseWriter, r *http.Request, rt *route) bool {
	if !rt.isIndex {
		return false
	}
	r = r.Clone(r.Context())
	r.URL.Host = rt.address()
	answered := x.proxy.options.Indexes.Answer(w, r)
	if answered {
		x.silent.Store(true)
	}
	return answered
}

// verdict is the policy's decision on a target.
type verdict struct {
	isIndex   bool     // requests for packages are answered all the same
	denied    *refusal // nil: it is reached
	isAskable bool     // a person may allow it all the same
	inside    bool     // its address may be private
	// only are the requests that are allowed; nil: all. One entry that restricts them is enough, whatever others allow.
	only []requests
	held []netip.Addr // the addresses to connect to; nil: the public ones of the name
}

// judge reports whether and how a target is reached.
func (p *Proxy) judge(t target) (v verdict) {
	isListed := len(p.secretsOf(t)) > 0
	for _, h := range p.options.Hosts {
		isListed = isListed || h.allows(t)
		// In this mode a host is reached on more ports than its entry names.
		if h.allows(t) || p.options.Mode == Open && h.only != nil && h.port == 0 && h.allows(target{t.name, 443}) {
			v.inside, v.only = v.inside || h.inside, append(v.only, h.only...)
		}
	}
	address, err := netip.ParseAddr(t.name)
	isPrivate := err == nil && !netguard.IsPublic(address)
	switch {
	case p.options.Mode == None:
		v.denied = &refusal{status: http.StatusForbidden, rule: "no_network", words: "no network; the server's user can allow hosts with --allow-domain"}
	case isThisMachine(t.name), isPrivate && !netguard.IsInside(address):
		v.denied = addressDenied(t)
	case isPrivate && !v.inside:
		v.denied, v.isAskable = addressDenied(t), true
	case isListed:
	case p.options.Mode == Open && slices.Contains(netguard.WebPorts(), t.port):
	case p.options.Mode == Open:
		v.denied = &refusal{status: http.StatusForbidden, rule: "host_denied", words: t.name + " is not reached on the port " + strconv.Itoa(int(t.port)) +
			"; the ports are " + portList() + ", and the server's user can allow it with --allow-domain " + t.address()}
		v.isAskable = true
	default:
		entry := t.name
		if !slices.Contains(webPorts, t.port) {
			entry = t.address()
		}
		v.denied = &refusal{status: http.StatusForbidden, rule: "host_denied", words: entry + " is not an allowed host; the server's user can allow it with --allow-domain " + entry}
		v.isAskable = true
	}
	return v
}

func portList() string {
	var ports []string
	for _, port := range netguard.WebPorts() {
		ports = append(ports, strconv.Itoa(int(port)))
	}
	return strings.Join(ports, ", ")
}

// isThisMachine reports whether a name is this machine's by all conventions.
func isThisMachine(name string) bool {
	return name == "localhost" || strings.HasSuffix(name, ".localhost")
}

func (p *Proxy) secretsOf(t target) []Secret {
	var found []Secret
	for _, s := range p.options.Secrets {
		if s.isFor(t) {
			found = append(found, s)
		}
	}
	return found
}

// quiet is for servers with code in a sandbox as their client: its mistakes are its own to know.
var quiet = log.New(io.Discard, "", 0)
