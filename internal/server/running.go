// A running server: its parts, from their beginning to their end.

package server

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/audit"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/httpserver"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/principal"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/setting"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/telemetry"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/webui"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/filelinks"
)

// closeTime is the time that sessions get to end. With the message loop's own grace it stays under the 1.5 s of an orderly end: clients
// kill after 2 s.
const closeTime = 700 * time.Millisecond

// uploadTime is the part of closeTime for uploads on their way to the object store.
const uploadTime = 300 * time.Millisecond

// Running is a server from its beginning to its end. Features read its fields and change only those of Web.
type Running struct {
	Program *Program
	Log     *slog.Logger
	Ending  context.Context // ends with the server
	Web     *Web            // nil: stdin and stdout are served

	linked   *filelinks.Listener
	shared   *shared
	watched  *telemetry.Recorder
	state    *telemetry.Now // nil: nobody watches
	witness  Witness
	entrance *entrance

	own        *Services      // the owner's
	principals Principals     // nil: the owner is the only user
	closing    sync.WaitGroup // of replaced fronts

	stopLinks     func()
	stopMaking    context.CancelFunc // ends the making of images
	imagesSettled func(context.Context)
}

// Recorder returns the recorder of changes; nil: nothing is recorded.
func (r *Running) Recorder() audit.Recorder {
	if r.witness == nil {
		return nil
	}
	return r.witness
}

// Close runs close beside the requests; End waits for it.
func (r *Running) Close(close func()) { r.closing.Go(close) }

// front returns a principal's services under its present policy.
func (r *Running) front(p principal.Principal) (*front, error) {
	t := r.own
	if !p.IsUser() {
		if r.principals == nil {
			return nil, errors.New("this server has one user")
		}
		var err error
		if t, err = r.principals.Get(p); err != nil {
			return nil, err
		}
	}
	return t.now.Load(), nil
}

// all returns the services of all principals, the owner's first.
func (r *Running) all() []*Services {
	list := []*Services{r.own}
	if r.principals != nil {
		list = append(list, r.principals.All()...)
	}
	return list
}

func (r *Running) managers() []*sandbox.Manager {
	var list []*sandbox.Manager
	for _, t := range r.all() {
		list = append(list, t.manager)
	}
	return list
}

// watchedTenants returns all principals, for the figures of the moment.
func (r *Running) watchedTenants() []telemetry.Tenant {
	var list []telemetry.Tenant
	for _, t := range r.all() {
		list = append(list, telemetry.Tenant{Of: principal.Principal{Name: t.of.Name}, Manager: t.manager})
	}
	return list
}

// Begin opens the addresses and puts their services together. gcArgs are as those of Serve.
func (p *Program) Begin(ctx context.Context, gcArgs []string, log *slog.Logger) (*Running, error) {
	r := &Running{Program: p, Log: log, Ending: ctx, stopLinks: func() {}}
	var err error
	for _, f := range p.features {
		if f.Witness != nil && err == nil {
			r.witness, err = f.Witness(p, log)
		}
	}
	if err != nil {
		return nil, err
	}
	if err := r.open(gcArgs); err != nil {
		if r.witness != nil {
			_ = r.witness.Close(ctx) // with the end that its beginning has
		}
		return nil, err
	}
	return r, nil
}

// open opens the addresses and puts their services together.
func (r *Running) open(gcArgs []string) (err error) {
	p, log := r.Program, r.Log
	if r.linked, err = listenLinks(&p.Links, log); err != nil {
		return err
	}
	r.watched = telemetry.New(telemetry.Options{Version: CurrentVersion(), Principals: p.MetricsPrincipals, Logger: log})
	if r.Web, err = openWeb(&p.HTTP, setting.StateFolder(p.StateDir), log); err != nil {
		return err
	}
	r.entrance = newEntrance(r)
	if err = r.openFeatures(); err != nil {
		return err
	}
	r.shared = newShared(p.Engine(log), gcArgs, log)
	making, stopMaking := context.WithCancel(r.Ending)
	r.stopMaking = stopMaking
	kernels := p.Kernels()
	r.imagesSettled = makeMissing(making, r.shared.engine, kernels, imagePatience(p.Tools.SoftWait), log)
	r.shared.kernels = kernels
	if r.own, err = r.NewServices(principal.Principal{}, p); err != nil {
		stopMaking()
		return err
	}
	r.serveLinks()
	if r.Web != nil {
		now := telemetry.NowOptions{Tenants: r.watchedTenants, Draining: r.entrance.draining.Load, StartWait: r.shared.pool.StartWait, StateDir: setting.StateFolder(p.StateDir), Logger: log}
		if r.witness != nil {
			now.Audit, now.AuditRequired = r.witness.Err, r.witness.Required()
		}
		r.state = telemetry.NewNow(now)
		r.Web.watch(r.watched, r.state)
		if r.witness != nil {
			around := r.Web.Options.Around
			r.Web.Options.Around = func(next http.Handler) http.Handler { return r.witness.Requests(around(next)) }
		}
		r.prepareWeb()
	}
	return nil
}

// openFeatures makes the authenticator and the services of principals.
func (r *Running) openFeatures() (err error) {
	for _, f := range r.Program.features {
		if f.Principals != nil {
			if r.principals, err = f.Principals(r); err != nil {
				return err
			}
		}
		if f.Authenticate != nil && r.Web != nil && !r.Program.HTTP.NoAuth {
			if r.Web.Options.Authenticate, err = f.Authenticate(r); err != nil {
				return err
			}
		}
	}
	return nil
}

// End ends everything that Begin started, within closeTime.
func (r *Running) End(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, closeTime)
	defer cancel()
	r.stopLinks()
	nothingReady := make(chan bool, 1)
	go func() { nothingReady <- r.shared.pool.Close(ctx) }()
	nothingLeft := r.closeServices(ctx)
	nothingLeft = <-nothingReady && nothingLeft
	if r.witness != nil {
		_ = r.witness.Close(ctx) // it has logged why
	}
	r.stopMaking()
	r.imagesSettled(ctx)
	_ = r.shared.engine.Close()
	if nothingLeft {
		r.shared.keeper.dismiss()
	}
}

// closeServices ends all sessions. It reports whether the engine is free of them.
func (r *Running) closeServices(ctx context.Context) bool {
	others := make(chan bool, 1)
	go func() { others <- r.principals == nil || r.principals.Close(ctx) }()
	nothingLeft := r.own.Close(ctx)
	nothingLeft = <-others && nothingLeft
	replaced := make(chan struct{})
	go func() {
		r.closing.Wait()
		close(replaced)
	}()
	select {
	case <-replaced:
	case <-ctx.Done():
	}
	return nothingLeft
}

// prepareWeb makes the server that all principals share.
func (r *Running) prepareWeb() {
	w := r.Web
	routes := w.Options.Routes // for the owner alone
	own := r.own.now.Load()
	w.Options.Site = *own.site
	maps.Copy(w.Options.Routes, routes)
	api := own.api()
	maps.Copy(w.Options.Open, api.Open())
	w.Options.Refuse, w.Options.Translate = api.Refuse, r.own.apis.Translate
	w.Options.Of = func(p principal.Principal) (*httpserver.Site, error) {
		t, err := r.front(p)
		if err != nil {
			return nil, err
		}
		return t.site, nil
	}
	page := webui.New(webui.Options{
		Token: w.Options.Token, Authenticate: w.Options.Authenticate, NoAuth: w.Options.Token == "", Logger: r.Log,
		API: func(p principal.Principal) (webui.API, error) {
			t, err := r.front(p)
			if err != nil {
				return nil, err
			}
			return t.page(), nil
		},
		Questions: func(p principal.Principal) webui.Questions {
			if t, err := r.front(p); err == nil && t.deps.Asks != nil {
				return t.deps.Asks
			}
			return nil
		},
	})
	maps.Copy(w.Options.Open, page.Routes())
	w.server = httpserver.New(w.Options)
}
