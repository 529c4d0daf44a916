// Hosts with addresses that are not public, and the questions to a person.

package proxy

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"slices"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/ask"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/netguard"
)

const (
	// maxHeld limits a session's looked-up names that lead inside.
	maxHeld = 1000
	// maxTried limits addresses for a name that are tried.
	maxTried = 4
)

// settle fixes the addresses to connect to if a target's may not be public: once for a session, so that a name that leads elsewhere later is
// of no use. It makes no look-up if no such address could be allowed.
func (x *exchange) settle(t target, v verdict, r *http.Request) ([]netip.Addr, *refusal) {
	p := x.proxy
	if !v.inside && p.options.Ask == nil && !slices.ContainsFunc(p.options.Hosts, func(h Host) bool { return h.network.IsValid() }) {
		return nil, nil
	}
	x.session.mu.Lock()
	held, isFull := x.session.held[t], len(x.session.held) >= maxHeld
	x.session.mu.Unlock()
	mayBe := func(address netip.Addr) bool {
		return v.inside || p.isNetworkAllowed(target{name: address.String(), port: t.port})
	}
	if held != nil && !slices.ContainsFunc(held, func(a netip.Addr) bool { return !netguard.IsPublic(a) && !mayBe(a) }) { // the policy may be another by now
		return held, nil
	}
	found, err := p.lookup(x.ctx, t.name)
	if err != nil {
		return nil, nil // the connection says why
	}
	var allowed, private []netip.Addr
	isInside := false
	for _, address := range found {
		switch {
		case netguard.IsPublic(address):
			allowed = append(allowed, address)
		case !netguard.IsInside(address):
		case mayBe(address):
			isInside = true
			allowed = append(allowed, address)
		default:
			private = append(private, address)
		}
	}
	switch {
	case len(allowed) > 0 && !isInside:
		return nil, nil // it is public, and the connection sees to it that it stays so
	case len(allowed) > 0 && isFull:
		return nil, &refusal{status: http.StatusForbidden, rule: "name_limit", words: "this session has used too many names of hosts that are inside; close it and begin a new one"}
	case len(allowed) > 0:
		allowed = allowed[:min(len(allowed), maxTried)]
		x.session.mu.Lock()
		defer x.session.mu.Unlock()
		if now := x.session.held[t]; now != nil && held == nil { // another request was first
			return now, nil
		}
		if x.session.held == nil {
			x.session.held = make(map[target][]netip.Addr)
		}
		x.session.held[t] = allowed
		return allowed, nil
	case len(private) == 0:
		return nil, addressDenied(t)
	}
	slices.SortFunc(private, netip.Addr.Compare)
	// A person sees this address, so it is the one.
	denied := x.ask(ask.Question{Host: t.address(), Address: private[0].String(), How: how(r)}, addressDenied(t))
	return private[:1], denied
}

// isNetworkAllowed reports whether an address is of a network that is allowed as a whole.
func (p *Proxy) isNetworkAllowed(t target) bool {
	return slices.ContainsFunc(p.options.Hosts, func(h Host) bool { return h.network.IsValid() && h.only == nil && h.allows(t) })
}

// reach connects to a target.
func (p *Proxy) reach(ctx context.Context, t target, v verdict) (net.Conn, error) {
	if v.held == nil {
		return p.dial(ctx, "tcp", t.address())
	}
	var problems []error
	for _, address := range v.held {
		var conn net.Conn
		var err error
		if to := netip.AddrPortFrom(address, t.port); netguard.IsPublic(address) {
			conn, err = p.dial(ctx, "tcp", to.String())
		} else {
			conn, err = p.dialInside(ctx, to)
		}
		if err == nil {
			return conn, nil
		}
		problems = append(problems, err)
	}
	return nil, errors.Join(problems...)
}

// how describes a request for a person.
func how(r *http.Request) string {
	if r.Method == http.MethodConnect {
		return "a connection, whose requests are not seen where it is encrypted"
	}
	return r.Method + " " + r.URL.EscapedPath()
}

// ask asks a person about a denied request, and returns the reason if it stays denied.
func (x *exchange) ask(q ask.Question, denied *refusal) *refusal {
	asker := x.proxy.options.Ask
	if asker == nil {
		return denied
	}
	q.Session, q.Run = x.entry.Session, x.entry.Run
	x.idle.Stop()
	answer, err := asker.Ask(x.ctx, q)
	x.idle.Reset(x.proxy.options.Limits.Idle)
	if err == nil && answer.Allows() {
		x.asked = "asked: " + answer.String()
		return nil
	}
	still := *denied
	switch {
	case err == nil:
		still.asked, still.words = "asked: "+ask.Deny.String(), still.words+"; a person was asked, and has denied it"
	case errors.Is(err, ask.ErrTooMany):
		still.asked, still.words = "asked: "+err.Error(), still.words+"; a person was not asked, as there are too many questions"
	case errors.Is(err, ask.ErrNoAnswer):
		still.asked, still.words = "asked: "+err.Error(), still.words+"; a person was asked, and has not answered"
	}
	return &still
}

// judgeRequest reports why a request is not sent, where its host's are restricted.
func (x *exchange) judgeRequest(r *http.Request, rt *route) *refusal {
	if rt.only == nil {
		return nil
	}
	readings := plainPath(r.URL)
	switch {
	case readings == nil:
		return &refusal{
			status: http.StatusForbidden, rule: "request_denied",
			words: "the path of the request can be read in several ways; requests to " + rt.address() + " have no empty segments, segments of dots, backslashes, encoded ? or #, or anything encoded twice in their paths",
		}
	case isOtherProtocol(r):
		return &refusal{
			status: http.StatusForbidden, rule: "request_denied",
			words: rt.address() + " is reached by HTTP requests and websockets alone, and not by a protocol that a request changes to",
		}
	case slices.ContainsFunc(rt.only, func(one requests) bool { return one.allow(r.Method, readings) }):
		return nil
	}
	denied := &refusal{
		status: http.StatusForbidden, rule: "request_denied",
		words: "this method and path are not allowed at " + rt.address() + "; the server's user can allow them with its entry of --allow-domain or --allow-private",
	}
	path := readings[0]
	return x.ask(ask.Question{Host: rt.address(), Method: r.Method, Path: path, How: r.Method + " " + path}, denied)
}
