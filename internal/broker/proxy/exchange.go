package proxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/caller"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/netlog"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/netguard"
)

// refusal is why a request is not answered by its host.
type refusal struct {
	status int
	rule   string
	words  string
	asked  string // recorded in place of the rule, if a person was asked
}

// Error returns the rule and the words, in one line.
func (r *refusal) Error() string { return r.rule + ": " + r.words }

// exchange is a request or a tunnel: its bounds and its record.
type exchange struct {
	proxy   *Proxy
	session *session
	ctx     context.Context // ends with the request, or by a bound, with its refusal as the cause
	cancel  context.CancelCauseFunc
	idle    *time.Timer
	stop    context.CancelFunc

	mu      sync.Mutex
	entered bool // it is one of the session's connections

	entry          netlog.Entry
	asked          string      // the person's grant, as it is recorded
	silent         atomic.Bool // others are recorded in its place
	sent, received atomic.Int64
}

func (p *Proxy) begin(r *http.Request) *exchange {
	c := caller.Of(r.Context())
	x := &exchange{proxy: p, session: p.session(c.Session)}
	x.entry = netlog.Entry{Time: time.Now(), Session: c.Session, Run: c.Run, Kind: "proxy", Method: r.Method, Allowed: true}
	l := p.options.Limits
	tooLong := &refusal{status: http.StatusGatewayTimeout, rule: "time_limit", words: fmt.Sprintf("it took longer than %v", l.Total)}
	ctx, stop := context.WithTimeoutCause(r.Context(), l.Total, tooLong)
	x.stop = stop
	x.ctx, x.cancel = context.WithCancelCause(ctx)
	x.idle = time.AfterFunc(l.Idle, func() {
		x.cancel(&refusal{status: http.StatusGatewayTimeout, rule: "idle_limit", words: fmt.Sprintf("nothing came for %v", l.Idle)})
	})
	return x
}

// end records the exchange.
func (x *exchange) end() {
	if limit := x.limit(); limit != nil && x.entry.Rule == "" {
		x.entry.Rule = limit.rule
	}
	x.entry.Rule = cmp.Or(x.entry.Rule, x.asked)
	x.leave()
	x.idle.Stop()
	x.cancel(nil)
	x.stop()
	if x.silent.Load() {
		return
	}
	x.entry.SentBytes, x.entry.ReceivedBytes = x.sent.Load(), x.received.Load()
	x.entry.DurationMS = time.Since(x.entry.Time).Milliseconds()
	x.proxy.options.Log.Add(x.entry)
}

// limit returns the refusal that cancelled the context, or nil.
func (x *exchange) limit() *refusal {
	var limit *refusal
	errors.As(context.Cause(x.ctx), &limit)
	return limit
}

const (
	// slotWait is the time for which a request waits for others of its session to end.
	slotWait = 15 * time.Second
	// maxWaiting limits the waiting requests in a session, as each holds its headers. By HTTP/2 there could be thousands.
	maxWaiting = 256
	// quietWait is the time without a byte after which a tunnel does not count as one of the session's connections, until the next byte.
	quietWait = 250 * time.Millisecond
)

// enter takes one of the session's connections, which leave puts back.
func (x *exchange) enter() *refusal {
	if limit := x.over(0, 0); limit != nil {
		return limit
	}
	if limit := x.overAll(x.proxy.out.Wait()); limit != nil {
		return limit
	}
	wait, cancel := context.WithTimeout(x.ctx, slotWait)
	defer cancel()
	defer x.session.waiting.Add(-1)
	if x.session.waiting.Add(1) <= maxWaiting && x.resume(wait) == nil {
		return nil
	}
	return &refusal{status: http.StatusServiceUnavailable, rule: "connection_limit", words: fmt.Sprintf(
		"this session has %d connections in use, the most at a time; use fewer", x.proxy.options.Limits.Connections)}
}

// resume takes one of the session's connections if the exchange holds none.
func (x *exchange) resume(ctx context.Context) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.entered {
		return nil
	}
	if x.session.connections.Acquire(ctx, 1) != nil {
		return context.Cause(ctx)
	}
	x.entered = true
	return nil
}

func (x *exchange) leave() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.entered {
		x.session.connections.Release(1)
		x.entered = false
	}
}

// send counts bytes on their way out, and returns the bound that they exceed.
func (x *exchange) send(n int) error {
	if err := x.count(&x.sent, &x.session.sent, n); err != nil {
		return err
	}
	if limit := x.overAll(x.proxy.out.Take(n)); limit != nil {
		x.cancel(limit)
		return limit
	}
	return nil
}

// receive counts bytes on their way in.
func (x *exchange) receive(n int) error { return x.count(&x.received, &x.session.received, n) }

func (x *exchange) count(own, all *atomic.Int64, n int) error {
	x.idle.Reset(x.proxy.options.Limits.Idle)
	limit := x.over(own.Add(int64(n)), all.Add(int64(n)))
	if limit == nil {
		return nil
	}
	x.cancel(limit)
	return limit
}

// over returns the bound that this many bytes exceed: the exchange's or its session's.
func (x *exchange) over(own, all int64) *refusal {
	l := x.proxy.options.Limits
	all = max(all, x.session.sent.Load(), x.session.received.Load())
	exceeds := func(what string, most int64) *refusal {
		return &refusal{status: http.StatusForbidden, rule: "byte_limit", words: fmt.Sprintf("%s may send and receive %s each way", what, humanize.IBytes(uint64(most)))}
	}
	switch {
	case own > l.RequestBytes:
		return exceeds("a request", l.RequestBytes)
	case all > l.SessionBytes:
		return exceeds("a session", l.SessionBytes)
	}
	return nil
}

// overAll reports that all sessions together sent as much as they may, and for how long.
func (x *exchange) overAll(wait time.Duration) *refusal {
	if wait == 0 {
		return nil
	}
	return &refusal{status: http.StatusTooManyRequests, rule: "byte_limit", words: fmt.Sprintf("all sessions together may send %s in an hour, and have; more can be sent in %d s; the server's user can set --bytes-out-limit",
		humanize.IBytes(uint64(x.proxy.options.Limits.HourBytes)), int(math.Ceil(wait.Seconds())))}
}

// Receive counts bytes that came for a session in another way than through the proxy, and returns the bound that they exceed.
func (p *Proxy) Receive(session string, bytes int) error {
	x := &exchange{proxy: p, session: p.session(session)}
	if limit := x.over(0, x.session.received.Add(int64(bytes))); limit != nil {
		return limit
	}
	return nil
}

// failed reports why a host could not be asked, or did not answer.
func (x *exchange) failed(t target, err error) *refusal {
	var already *refusal
	switch {
	case x.limit() != nil:
		return x.limit()
	case errors.As(err, &already):
		return already
	case netguard.IsRefused(err):
		return addressDenied(t)
	}
	return &refusal{status: http.StatusBadGateway, rule: "host_unreachable", words: t.address() + " could not be reached: " + netguard.Reason(err)}
}

const ruleAddress = "address_denied"

func addressDenied(t target) *refusal {
	return &refusal{status: http.StatusForbidden, rule: ruleAddress, words: t.name + " has an address that is private, local or reserved; only hosts on the open internet are reached, whatever is allowed, and those of --allow-private"}
}

// refuse answers a request with the words, which are the status line's reason as well: it is all that many clients show.
func (x *exchange) refuse(w http.ResponseWriter, r *http.Request, problem *refusal) {
	x.entry.Rule, x.entry.Status = cmp.Or(problem.asked, problem.rule), problem.status
	x.entry.Allowed = problem.status >= http.StatusInternalServerError
	words := problem.Error()
	if r.ProtoMajor == 1 {
		control := http.NewResponseController(w)
		if r.Method != http.MethodConnect {
			// A client that is still sending would not read an answer that the end of the connection follows.
			_ = control.SetReadDeadline(time.Now().Add(time.Second))
			_, _ = io.CopyN(io.Discard, r.Body, 256<<10)
		}
		if conn, _, err := control.Hijack(); err == nil {
			defer func() { _ = conn.Close() }()
			_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
			head := fmt.Sprintf("HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\nConnection: close\r\n\r\n", problem.status, words, len(words)+1)
			if r.Method != http.MethodHead {
				head += words + "\n"
			}
			_, _ = io.WriteString(conn, head)
			return
		}
	}
	http.Error(w, words, problem.status)
}
