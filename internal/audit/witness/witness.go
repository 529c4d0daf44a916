// Package witness writes a server's events to an audit log: it is a second listener beside package telemetry.
//
// Start with New, and For for each principal. What it promises: a required log refuses a run that it cannot record, and unauthenticated
// requests do not fill the log.
package witness

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/audit"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/netlog"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/principal"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/secrets"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/web"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/clientheader"
)

// Witness records a server's events. Its methods are safe for several goroutines.
type Witness struct {
	log    *audit.Log
	signed *throttle
	// refused counts by address, and strangers counts all unknown senders together: there are many addresses.
	refused, strangers *throttle
}

// New returns a witness of a server.
func New(log *audit.Log) *Witness {
	return &Witness{log: log, signed: newThrottle(1, time.Hour), refused: newThrottle(maxRefusals, time.Minute), strangers: newThrottle(maxStrangers, time.Minute)}
}

const (
	// maxRefusals is how many refused requests of an address get lines of their own, a minute; later ones are counted.
	maxRefusals  = 20
	maxStrangers = 600
	// outcomeRefused is the outcome of egress that no rule allows.
	outcomeRefused = "refused"
)

// Of records one principal's actions.
type Of struct {
	log  *audit.Log
	who  principal.Principal
	mask *secrets.Masker
}

// For returns the recorder of a principal's actions. mask removes secrets unknown to the log; may be nil.
func (w *Witness) For(p principal.Principal, mask *secrets.Masker) *Of { return &Of{w.log, p, mask} }

// note collects facts of a request on its way.
type note struct {
	address string
	by      string // the tool, or the method and path
	run     atomic.Pointer[launched]
	files   sync.Map // already recorded: a file is opened several times for one answer
}

// launched is a run with the hash of its code.
type launched struct {
	*sandbox.Run
	hash string
}

type noteKey struct{}

func noteOf(ctx context.Context) *note {
	n, _ := ctx.Value(noteKey{}).(*note)
	if n == nil {
		n = &note{}
	}
	return n
}

// event returns an event of a request. The name is that of the tenant's principal; only the kind of credential is the request's.
func (o *Of) event(ctx context.Context, kind string) audit.Event {
	n := noteOf(ctx)
	e := audit.Event{Kind: kind, Principal: o.who.Name, Source: principal.Of(ctx).Source, Address: n.address, Tool: n.by, Mask: o.mask}
	if asked := clientheader.Of(ctx); asked != nil {
		e.Mask = o.mask.And(asked.Secrets)
	}
	return e
}

// Calls returns a function for tools.Deps.Called. sessionOf is Deps.SessionOf.
func (o *Of) Calls(sessionOf func(context.Context, mcp.CallToolRequest) string) func(context.Context, mcp.CallToolRequest) (context.Context, func(string)) {
	return func(ctx context.Context, request mcp.CallToolRequest) (in context.Context, ended func(code string)) {
		begun, session := time.Now(), sessionOf(ctx, request)
		n := &note{address: noteOf(ctx).address, by: request.Params.Name}
		ctx = context.WithValue(ctx, noteKey{}, n)
		return ctx, func(code string) {
			e := o.event(ctx, audit.KindCall)
			e.Outcome, e.Session, e.Detail = outcome(code), session, details(request)
			if run := n.run.Load(); run != nil {
				e.Session, e.Run = run.SessionID, run.ID
			} else if e.Run, _ = request.GetArguments()["run_id"].(string); session == "" {
				e.Session = sessionOf(ctx, request)
			}
			e.Detail["ms"] = time.Since(begun).Milliseconds()
			o.log.Record(e)
			if text := textOf(request.GetArguments()["query"]); text != "" && e.Tool == "exec_sql" {
				query := e
				query.Kind, query.Code, query.Detail = audit.KindQuery, text, map[string]any{"host": request.GetArguments()["connection"], "ms": e.Detail["ms"]}
				o.log.Record(query)
			}
		}
	}
}

// textOf returns an argument that is a text, also a long one that is not decoded yet; else "".
func textOf(value any) string {
	switch value := value.(type) {
	case string:
		return value
	case interface{ Decoded() string }:
		return value.Decoded()
	}
	return ""
}

func outcome(code string) string {
	if code == tools.CodeOK {
		return audit.Success
	}
	return code
}

// told are the tool arguments copied into audit events. Code, texts and rows are never among the details.
var told = []string{"filename", "save_to", "save_as", "host_path", "language", "packages", "connection", "keep_files", "glob", "cancel"}

func details(request mcp.CallToolRequest) map[string]any {
	arguments, d := request.GetArguments(), make(map[string]any)
	for _, name := range told {
		if value, is := arguments[name]; is {
			d[name] = value
		}
	}
	if path, is := arguments["path"]; is {
		d["file"] = path
	}
	if address, is := arguments["url"].(string); is { // its query may be a credential
		if u, err := url.Parse(address); err == nil {
			d["url"] = (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
		}
	}
	return d
}

// Admit is sandbox.Config.Admit: it records a run before it is queued, and refuses it if the log is required and cannot be written.
func (o *Of) Admit(caller context.Context, run *sandbox.Run) error {
	e := o.run(caller, run, "Launch")
	e.Code, e.CodeHash = run.Code(), audit.HashOf(run.Code())
	noteOf(caller).run.Store(&launched{run, e.CodeHash})
	return o.log.RecordNow(caller, e)
}

func (o *Of) run(caller context.Context, run *sandbox.Run, action string) audit.Event {
	e := o.event(caller, audit.KindRun)
	e.Action, e.Session, e.Run, e.Detail = action, run.SessionID, run.ID, map[string]any{"language": string(run.Language)}
	return e
}

// RunBegan implements sandbox.Observer.
func (o *Of) RunBegan(caller context.Context, run *sandbox.Run) (over func(*sandbox.Result, error)) {
	begun, e := time.Now(), o.run(caller, run, "Terminate")
	if known := noteOf(caller).run.Load(); known != nil && known.Run == run {
		e.CodeHash = known.hash
	} else {
		e.CodeHash = audit.HashOf(run.Code())
	}
	return func(res *sandbox.Result, err error) {
		e.Time = time.Now()
		e.Detail["ms"] = e.Time.Sub(begun).Milliseconds()
		switch {
		case err != nil:
			e.Outcome = string(fault.From(err).Code)
		case res.Status == sandbox.Completed:
			e.Outcome = audit.Success
		default:
			e.Outcome = string(res.Status)
		}
		if res != nil {
			e.Detail["exit_code"] = res.ExitCode
		}
		o.log.Record(e)
	}
}

// FileMoved implements sandbox.Observer.
func (o *Of) FileMoved(caller context.Context, t sandbox.Transfer) {
	if _, known := noteOf(caller).files.LoadOrStore(t.Session+"\x00"+t.Path+"\x00"+string(t.Direction), true); known || t.Bytes == 0 && t.Size > 0 {
		return // or the file was only looked at
	}
	e := o.event(caller, audit.KindFile)
	e.Session, e.Outcome, e.Detail = t.Session, audit.Success, map[string]any{"file": t.Path, "size": t.Size}
	if e.Action = "Download"; t.Direction == sandbox.In {
		e.Action = "Upload"
	}
	o.log.Record(e)
}

// Network records each entry of the network log.
func (o *Of) Network(e netlog.Entry) {
	event := audit.Event{
		Mask: o.mask, Time: e.Time, Kind: audit.KindNetwork, Principal: o.who.Name, Session: e.Session, Run: e.Run, Outcome: audit.Success,
		Detail: map[string]any{"by": e.Kind, "method": e.Method, "host": e.Host, "ms": e.DurationMS, "sent": e.SentBytes, "received": e.ReceivedBytes},
	}
	if e.Kind == "sql" {
		event.Kind = audit.KindQuery
	}
	for name, said := range map[string]string{"path": e.Path, "rule": e.Rule} {
		if said != "" {
			event.Detail[name] = said
		}
	}
	if e.Status != 0 {
		event.Detail["http_status"] = e.Status
	}
	if !e.Allowed {
		event.Outcome = outcomeRefused
	}
	o.log.Record(event)
}

// Requests records refused requests, and the first sight of each sender in an hour.
func (w *Witness) Requests(next http.Handler) http.Handler {
	return http.HandlerFunc(func(to http.ResponseWriter, r *http.Request) {
		address, _, err := net.SplitHostPort(r.RemoteAddr)
		if err != nil {
			address = "" // a socket's
		}
		n := &note{address: address, by: r.Method + " " + r.URL.Path}
		who := &atomic.Pointer[principal.Principal]{}
		ctx := context.WithValue(r.Context(), noteKey{}, n)
		ctx = principal.Watch(ctx, func(p principal.Principal) {
			who.Store(&p)
			if _, write := w.signed.take(p.Name + "\x00" + p.Source + "\x00" + n.address); write {
				w.log.Record(audit.Event{Kind: audit.KindSignIn, Principal: p.Name, Source: p.Source, Address: n.address, Outcome: audit.Success})
			}
		})
		answer := web.NoteStatus(to)
		defer func() {
			if answer.Status != http.StatusUnauthorized && answer.Status != http.StatusForbidden && answer.Status != http.StatusTooManyRequests {
				return
			}
			e := audit.Event{
				Kind: audit.KindRefusal, Address: n.address, Tool: n.by, Outcome: http.StatusText(answer.Status), Detail: map[string]any{"http_status": answer.Status},
			}
			if p := who.Load(); p != nil {
				e.Principal, e.Source = p.Name, p.Source
			}
			more, write := w.refused.take(n.address + "\x00" + e.Principal)
			if write && who.Load() == nil {
				var others int64
				if others, write = w.strangers.take(""); write {
					more += others
				} else {
					w.strangers.hold(more)
				}
			}
			if more > 0 {
				e.Detail["more_before"] = more
			}
			if write {
				w.log.Record(e)
			}
		}()
		next.ServeHTTP(answer, r.WithContext(ctx))
	})
}

// Close records the number of refused requests that were only counted.
func (w *Witness) Close() {
	if n := w.refused.rest() + w.strangers.rest(); n > 0 {
		w.log.Record(audit.Event{Kind: audit.KindRefusal, Outcome: "counted", Detail: map[string]any{"more_before": n}})
	}
}
