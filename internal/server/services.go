// The services of a principal: its sessions, egress, tools, links and page.

package server

import (
	"context"
	"crypto/rand"
	"log/slog"
	"reflect"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/ask"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/netlog"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fair"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/httpserver"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/principal"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/rest"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/secrets"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/filelinks"
)

// Services are one principal's. They know no other principal's: a request can name nothing else. Methods are safe for several goroutines,
// but for Change.
type Services struct {
	running *Running
	of      principal.Principal
	manager *sandbox.Manager
	network *netlog.Log
	asks    *ask.Desk // holds questions if the settings let code ask
	out     *egressNow
	calls   *fair.Budget // of tools, in a minute
	mask    *secrets.Masker
	linkKey []byte
	apis    rest.APIs // they keep their own state of clients
	now     atomic.Pointer[front]

	// Told of the manager's events, whatever its settings.
	observer sandbox.Observer
	admit    func(context.Context, *sandbox.Run) error
}

// Of is the principal.
func (t *Services) Of() principal.Principal { return t.of }

// Manager returns the manager of the principal's sessions.
func (t *Services) Manager() *sandbox.Manager { return t.manager }

// Program returns the one in force now, with the principal's settings.
func (t *Services) Program() *Program { return t.now.Load().program }

// front holds one principal's services under one policy. A change of policy replaces it.
type front struct {
	program *Program
	box     *Sandbox
	links   *filelinks.Links // nil: there are none
	mcp     *server.MCPServer
	deps    *tools.Deps
	site    *httpserver.Site    // over HTTP
	api     func() *rest.Server // made at the first request
	page    func() *rest.Server
	called  called             // told of the page's calls; nil: nobody is
	end     context.CancelFunc // of its streams
}

// NewServices makes the services of a principal under its settings. It touches neither the engine nor, for the owner, the disk.
func (r *Running) NewServices(who principal.Principal, p *Program) (*Services, error) {
	t := &Services{
		running: r, of: who, network: &netlog.Log{}, out: &egressNow{}, calls: fair.NewBudget(time.Minute, int64(p.Tools.CallsPerMinute)),
		mask: secrets.Growing(nil), linkKey: []byte(rand.Text()), apis: apisOf(p.features),
	}
	log := r.logOf(who)
	t.asks = r.newDesk(t, log)
	box, err := p.newSandbox(r.shared, t.network, t.asks, log, func(box *Sandbox, config *sandbox.Config) {
		watched := r.watched.For(who)
		t.prepare(p, box, config)
		config.Observer, t.network.Added = watched, watched.Network
		if r.witness != nil {
			r.witness.Watch(who, config, t.network)
		}
		t.observer, t.admit = config.Observer, config.Admit
	})
	if err != nil {
		return nil, err
	}
	t.manager = box.Manager
	if r.entrance.draining.Load() {
		t.manager.Drain(true)
	}
	t.now.Store(r.newFront(t, p, box, log))
	return t, nil
}

// prepare completes the configuration of the manager, under the settings in force now.
func (t *Services) prepare(p *Program, box *Sandbox, config *sandbox.Config) {
	t.mask.Learn(p.secretValues(config.Env, box.connections.Sources()))
	config.Mask, config.Observer, config.Admit, config.WayOut = t.mask, t.observer, t.admit, t.out
	if web := t.running.Web; web != nil {
		config.Gone, config.Overload = web.isGone, func() []string { return t.running.state.Overload() }
	}
	t.out.put(box.egress)
}

// noPageWait is how long a question waits for a call from a client that can ask, if there is no page that a person may look at.
const noPageWait = 5 * time.Second

// newDesk returns the desk where code asks a person. Grants are stored beside the principal's sessions.
func (r *Running) newDesk(t *Services, log *slog.Logger) *ask.Desk {
	mask := func(text string) string { return t.manager.Config().Mask.Mask(text) }
	var wait time.Duration // the default
	if r.Web == nil {
		wait = noPageWait
	}
	return ask.New(ask.Options{
		Wait: wait, File: r.Program.AllowedFile(t.of), Principal: t.of.Name, Logger: log,
		Code: func(_, run, host string) string {
			if known, err := t.manager.FindRun(run); err == nil {
				return ask.Line(mask(known.Code()), host)
			}
			return ""
		},
		Mask: mask, Audit: r.Recorder(),
	})
}

func (r *Running) logOf(p principal.Principal) *slog.Logger {
	if p.IsUser() {
		return r.Log
	}
	return r.Log.With("principal", p.Name)
}

func (r *Running) newFront(t *Services, p *Program, box *Sandbox, log *slog.Logger) *front {
	f, before := &front{program: p, box: box}, t.now.Load()
	ending, end := context.WithCancel(r.Ending)
	f.end = end
	if before != nil && before.program.Links == p.Links && before.program.Tools.PageScripts == p.Tools.PageScripts &&
		before.program.Tools.DownloadBytes == p.Tools.DownloadBytes {
		f.links = before.links // with its allowed uploads
	} else {
		f.links = r.linksOf(t, p)
	}
	f.mcp, f.deps = newMCP(p, box, f.links, log)
	if before.storesAlike(p) {
		f.deps.Store = before.deps.Store // with files on their way
	}
	if r.witness != nil {
		f.called = r.witness.Calls(t.of, f.deps)
	}
	f.deps.Called, f.deps.Calls = bothCalled(r.watched.For(t.of).Call, f.called), t.calls
	if p.Network.Ask {
		f.deps.Asks = t.asks
	}
	f.serveOverHTTP(ending, t)
	if !t.of.IsUser() {
		f.site.Prepare()
	}
	return f
}

// Change replaces the settings of the services. Settings of containers apply to sessions that open later.
func (t *Services) Change(p *Program) error {
	r, before := t.running, t.now.Load()
	log := r.logOf(t.of)
	var reach *Sandbox
	if before.reachesAlike(p) {
		reach = before.box // code may be using it
	}
	box, config, err := p.sandboxParts(r.shared, reach, t.network, t.asks, log, func(box *Sandbox, config *sandbox.Config) {
		if reach == nil {
			box.egress.proxy.TakeOver(before.box.egress.proxy)
		}
		t.prepare(p, box, config)
	})
	if err != nil {
		return err
	}
	box.Manager = t.manager
	t.calls.Set(int64(p.Tools.CallsPerMinute))
	t.manager.Reconfigure(config)
	next := r.newFront(t, p, box, log)
	t.now.Store(next)
	r.closing.Go(func() { before.close(context.WithoutCancel(r.Ending), next) })
	return nil
}

// reachesAlike reports whether egress is the same under other settings.
func (f *front) reachesAlike(p *Program) bool {
	reach := func(p *Program) []any { return []any{p.Network, p.Packages, p.ToolServers, p.SQL} }
	return reflect.DeepEqual(reach(f.program), reach(p))
}

// storesAlike reports whether files go to the same store under other settings.
func (f *front) storesAlike(p *Program) bool {
	return f != nil && f.program.ArtifactStore.Address == p.ArtifactStore.Address
}

// close ends the front's work, but no session, and nothing that next goes on with.
func (f *front) close(ctx context.Context, next *front) {
	f.end()
	if next.deps.Store != f.deps.Store {
		uploading, stopUploading := context.WithTimeout(ctx, uploadTime)
		defer stopUploading()
		f.deps.Store.Close(uploading)
	}
	if next.box.egress != f.box.egress {
		f.box.endEgress(ctx)
	}
}

// Close ends the principal's sessions. It reports whether the engine is free of them.
func (t *Services) Close(ctx context.Context) bool {
	f := t.now.Load()
	f.end()
	// Files are read from their sessions, which end next.
	uploading, stopUploading := context.WithTimeout(ctx, uploadTime)
	f.deps.Store.Close(uploading)
	stopUploading()
	return f.box.end(ctx)
}

// called is tools.Deps.Called.
type called = func(context.Context, mcp.CallToolRequest) (context.Context, func(code string))

// bothCalled calls both; second may be nil.
func bothCalled(first, second called) called {
	if second == nil {
		return first
	}
	return func(ctx context.Context, request mcp.CallToolRequest) (context.Context, func(string)) {
		ctx, ended := first(ctx, request)
		ctx, also := second(ctx, request)
		return ctx, func(code string) {
			ended(code)
			also(code)
		}
	}
}
