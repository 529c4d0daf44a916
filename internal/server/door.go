// The door: what the user's own commands and pages ask of a running server.

package server

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/checkpoint"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/door"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/httpserver"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/notebook"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/principal"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/rest"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/room"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/setting"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/web"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/history"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/runs"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools"
)

// entrance is a server's side of its door.
type entrance struct {
	*Running
	card     door.Card // without what changes
	draining atomic.Bool
}

func newEntrance(r *Running) *entrance {
	e := &entrance{Running: r, card: door.Card{
		ID: state.NewID(""), PID: os.Getpid(), Version: CurrentVersion(), Began: time.Now().UTC(), SessionDir: filepath.Base(r.Program.SessionDir()),
	}}
	if r.Web != nil {
		e.card.Address = r.Web.Listener.Addr().String()
	}
	return e
}

// serve serves the door until ctx ends. A server works without one.
func (e *entrance) serve(ctx context.Context) {
	l, err := door.Listen(setting.StateFolder(e.Program.StateDir), e.card.ID)
	if err != nil {
		e.Log.Warn("commands and pages of this user do not reach this server", "error", err)
		return
	}
	memory := room.New()
	if e.Web != nil {
		memory = e.Web.server.Memory()
	}
	err = httpserver.New(httpserver.Options{Memory: memory, Logger: e.Log, Site: httpserver.Site{Routes: map[string]http.Handler{
		"GET " + door.Path:       http.HandlerFunc(e.tell),
		"POST " + door.DrainPath: http.HandlerFunc(e.drain),
		"/v1/":                   http.HandlerFunc(e.forTenant),
	}}}).Serve(ctx, l)
	e.Log.Debug("the door is closed", "error", err)
}

// tell answers with the server's card.
func (e *entrance) tell(w http.ResponseWriter, r *http.Request) {
	card := e.card
	card.Draining = e.draining.Load()
	for _, t := range e.all() {
		if card.Draining {
			t.manager.Drain(true) // one may be new
		}
		load := t.manager.Load()
		card.Sessions, card.Busy, card.Clients = card.Sessions+load.Sessions, card.Busy+load.Busy, card.Clients+load.Clients
		if r.URL.Query().Has(door.WithTenants) {
			card.Tenants = append(card.Tenants, door.Tenant{Key: t.of.Key(), Name: t.of.Name, Sessions: t.manager.OpenSessions(r.Context())})
		}
	}
	web.JSON(w, r, http.StatusOK, card)
}

func (e *entrance) drain(w http.ResponseWriter, r *http.Request) {
	var on bool
	if err := json.NewDecoder(r.Body).Decode(&on); err != nil {
		http.Error(w, "send true or false", http.StatusBadRequest)
		return
	}
	if e.draining.Swap(on) != on {
		e.Log.Info("asked to drain", "draining", on)
	}
	for _, m := range e.managers() {
		m.Drain(on)
	}
	e.tell(w, r)
}

// forTenant answers a request to /v1 for the owner, or for the principal that it names.
func (e *entrance) forTenant(w http.ResponseWriter, r *http.Request) {
	t := e.own
	if key := r.Header.Get(door.TenantHeader); key != "" {
		t = nil
		if e.principals != nil {
			t = e.principals.ByKey(key)
		}
	}
	if t == nil {
		http.Error(w, "this server has nothing open of that principal", http.StatusNotFound)
		return
	}
	r.Header.Set(door.TenantHeader, t.of.Key())
	t.now.Load().page().ServeHTTP(w, r.WithContext(principal.With(r.Context(), t.of)))
}

// ForPersons returns the interface behind pages and commands, of the owner or of the principal with this Key.
func (p *Program) ForPersons(ending context.Context, deps *tools.Deps, tenant string) *rest.Server {
	return rest.New(rest.Options{
		Deps: deps, FreeReads: true, Version: CurrentVersion(), Logger: deps.Logger, Ending: ending,
		Uses: p.uses(tenant),
		Others: func(ctx context.Context) map[string]*door.Neighbour {
			servers, _ := door.List(ctx, setting.StateFolder(p.StateDir), true) // without a usable folder there are none
			return door.Of(servers, p.SessionDir(), tenant)
		},
		Export: func(ctx context.Context, session string, to io.Writer, how url.Values) (any, error) {
			if how.Get("as") == AsNotebook {
				runs, err := runs.ReadHistory(deps.Manager.Config().StateDir, session)
				if err == nil {
					err = notebook.Write(to, runs)
				}
				return Exported{Runs: len(runs)}, err
			}
			most, _ := strconv.ParseInt(how.Get("max_bytes"), 10, 64)
			return p.export(ctx, deps.Manager, session, to, most)
		},
	})
}

// uses returns what shows the owner everybody's sessions; nil for a principal.
func (p *Program) uses(tenant string) func(context.Context) ([]door.Use, error) {
	if tenant != "" {
		return nil
	}
	return func(ctx context.Context) ([]door.Use, error) { return door.Uses(ctx, setting.StateFolder(p.StateDir)) }
}

// AsNotebook is the value of "as" by which the history alone is exported, as a notebook.
const AsNotebook = "notebook"

// Exported reports on an export.
type Exported struct {
	checkpoint.Report
	Runs     int      `json:"runs,omitempty"` // in a notebook
	Problems []string `json:"problems"`
}

// export writes a session, and leaves it unchanged.
func (p *Program) export(ctx context.Context, manager *sandbox.Manager, id string, to io.Writer, most int64) (told Exported, err error) {
	before, err := manager.Resume(ctx, id)
	if err != nil {
		return told, err
	}
	if told.Problems, err = manager.Freeze(ctx, id, false); err != nil {
		return told, err
	}
	config := manager.Config()
	ran, size, err := history.Export(state.Folder(config.StateDir, id))
	if err != nil {
		return told, err
	}
	defer func() { _ = ran.Close() }()
	manifest := checkpoint.Manifest{
		SessionID: id, Created: before.Created.UTC(), Program: CurrentVersion(), PassThroughEnv: p.PassThroughEnv,
		Languages: slices.Sorted(maps.Keys(config.Kernels)),
	}
	limits := checkpoint.Limits{Bytes: cmp.Or(most, config.VolumeBytes), Entries: config.VolumeFiles}
	told.Report, err = checkpoint.Export(to, manifest, ran, size, func(visit func(sandbox.Entry, io.Reader) error) (sandbox.ExportEnd, error) {
		return manager.ExportFiles(ctx, id, visit)
	}, limits)
	return told, err
}
