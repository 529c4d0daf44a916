// The services of a principal: its sessions, egress, tools, links and page.

package server

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/server"
	"github.com/spf13/pflag"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/ask"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/netlog"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/proxy"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fair"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/httpserver"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/principal"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/rest"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/secrets"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
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
	out     *wayOutNow
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

// Settings returns those in force now.
func (t *Services) Settings() *Settings { return t.now.Load().settings }

// front holds one principal's services under one policy. A change of policy replaces it.
type front struct {
	settings *Settings
	box      *Sandbox
	links    *filelinks.Links // nil: there are none
	mcp      *server.MCPServer
	deps     *tools.Deps
	site     *httpserver.Site    // nil: nothing is served over HTTP
	api      func() *rest.Server // made at the first request
	page     func() *rest.Server
	called   called             // told of the page's calls; nil: nobody is
	end      context.CancelFunc // of its streams
}

// NewServices makes the services of a principal under its settings. It touches neither the engine nor, for the owner, the disk.
func (r *Running) NewServices(p principal.Principal, s *Settings) (*Services, error) {
	t := &Services{
		running: r, of: p, network: &netlog.Log{}, out: &wayOutNow{}, calls: fair.NewBudget(time.Minute, int64(s.Tools.CallsPerMinute)),
		mask: secrets.Growing(nil), linkKey: []byte(rand.Text()), apis: s.newAPIs(),
	}
	log := r.LogOf(p)
	t.asks = r.newDesk(t, log)
	box, err := s.newSandbox(r.shared, t.network, t.asks, log, func(box *Sandbox, config *sandbox.Config) {
		watched := r.watched.For(p)
		t.prepare(s, box, config)
		config.Observer, t.network.Added = watched, watched.Network
		if r.witness != nil {
			r.witness.Watch(p, config, t.network)
		}
		t.observer, t.admit = config.Observer, config.Admit
	})
	if err != nil {
		return nil, err
	}
	t.manager = box.Manager
	if r.drainer != nil && r.drainer.draining.Load() {
		t.manager.Drain(true)
	}
	t.now.Store(r.newFront(t, s, box, log))
	return t, nil
}

// prepare completes the configuration of the manager, under the settings in force now.
func (t *Services) prepare(s *Settings, box *Sandbox, config *sandbox.Config) {
	t.mask.Learn(s.secretValues(config.Env, box.connections.Sources()))
	config.Mask, config.Observer, config.Admit, config.WayOut = t.mask, t.observer, t.admit, t.out
	if web := t.running.Web; web != nil {
		config.Gone = web.isGone
	}
	t.out.put(box.way)
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
		Wait: wait, File: r.Settings.AllowedFile(t.of), Principal: t.of.Name, Logger: log,
		Code: func(_, run, host string) string {
			if known, err := t.manager.FindRun(run); err == nil {
				return ask.Line(mask(known.Code()), host)
			}
			return ""
		},
		Mask: mask, Audit: r.Recorder(),
	})
}

// LogOf returns the log of a principal's services.
func (r *Running) LogOf(p principal.Principal) *slog.Logger {
	if p.IsUser() {
		return r.Log
	}
	return r.Log.With("principal", p.Name)
}

func (r *Running) newFront(t *Services, s *Settings, box *Sandbox, log *slog.Logger) *front {
	f, before := &front{settings: s, box: box}, t.now.Load()
	ending, end := context.WithCancel(r.Ending)
	f.end = end
	if before != nil && before.settings.Links == s.Links && before.settings.Tools.PageScripts == s.Tools.PageScripts {
		f.links = before.links // with its allowed uploads
	} else {
		f.links = r.linksOf(t, s)
	}
	f.mcp, f.deps = s.mcpServer(box, f.links, log)
	if before.storesAlike(s) {
		f.deps.Store = before.deps.Store // with files on their way
	}
	if r.witness != nil {
		f.called = r.witness.Calls(t.of, f.deps)
	}
	f.deps.Called, f.deps.Calls = bothCalled(r.watched.For(t.of).Call, f.called), t.calls
	if s.Network.Ask {
		f.deps.Asks = t.asks
	}
	if r.Web != nil {
		s.serveOverHTTP(ending, f, t.apis)
		if !t.of.IsUser() {
			f.site.Prepare()
		}
	}
	return f
}

// Change replaces the settings of the services. Settings of containers apply to sessions that open later.
func (t *Services) Change(s *Settings) error {
	r, before := t.running, t.now.Load()
	log := r.LogOf(t.of)
	var reach *Sandbox
	if before.reachesAlike(s) {
		reach = before.box // code may be using it
	}
	box, config, err := s.sandboxParts(r.shared, reach, t.network, t.asks, log, func(box *Sandbox, config *sandbox.Config) {
		if reach == nil {
			box.way.proxy.TakeOver(before.box.way.proxy)
		}
		t.prepare(s, box, config)
	})
	if err != nil {
		return err
	}
	box.Manager = t.manager
	t.calls.Set(int64(s.Tools.CallsPerMinute))
	t.manager.Reconfigure(config)
	next := r.newFront(t, s, box, log)
	t.now.Store(next)
	r.closing.Go(func() { before.close(context.WithoutCancel(r.Ending), next) })
	return nil
}

// reachesAlike reports whether egress is the same under other settings.
func (f *front) reachesAlike(s *Settings) bool {
	reach := func(s *Settings) []any {
		return []any{s.Network, s.Packages, s.ToolServers, s.SQL, s.SQLAllow, s.SQLFromCode, s.Databases}
	}
	return reflect.DeepEqual(reach(f.settings), reach(s))
}

// storesAlike reports whether files go to the same store under other settings.
func (f *front) storesAlike(s *Settings) bool {
	return f != nil && f.settings.ArtifactStore == s.ArtifactStore && f.settings.ArtifactStoreLimit == s.ArtifactStoreLimit
}

// close ends the front's work, but no session, and nothing that next goes on with.
func (f *front) close(ctx context.Context, next *front) {
	f.end()
	if next.deps.Store != f.deps.Store {
		uploading, stopUploading := context.WithTimeout(ctx, uploadTime)
		defer stopUploading()
		f.deps.Store.Close(uploading)
	}
	if next.box.way != f.box.way {
		f.box.endWayOut(ctx)
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

// principalsFolder, in the state folder, holds a folder for each principal.
const principalsFolder = "principals"

// folderOf is the state folder of a principal.
func (s *Settings) folderOf(p principal.Principal) string {
	if p.IsUser() {
		return s.StateFolder()
	}
	return filepath.Join(s.StateFolder(), principalsFolder, p.Key())
}

// AllowedFile returns the file of a principal's grants.
func (s *Settings) AllowedFile(p principal.Principal) string {
	return filepath.Join(s.folderOf(p), ask.FileName)
}

// For returns settings, made by With, for a principal's services: its sessions use a state folder of its own.
func (s *Settings) For(p principal.Principal, own *Settings) (*Settings, error) {
	own.StateDir, own.hostLabel, own.tenant = s.folderOf(p), s.HostLabel(), p.Key()
	own.Prewarm = nil
	return own, state.SaveTenant(s.SessionDir(), p.Key(), p.Name)
}

// With returns a copy of the settings with other values for some of them. may reports whether a setting may have another value.
func (s *Settings) With(values map[string]any, may func(name string) bool) (*Settings, error) {
	own := New(s.features)
	groups := own.table()
	*own = *s // the variables of the table have these values now
	own.groups, own.skills, own.Others, own.OnHangup = groups, nil, nil, nil
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	own.declare(flags)
	var found Problems
	for _, name := range slices.Sorted(maps.Keys(values)) {
		f := flags.Lookup(name)
		switch {
		case f == nil && !s.has(name):
			found.Wrong(true, "there is no setting %q", name)
			continue
		case f == nil || !may(name):
			found.Wrong(true, "%s is of the whole server, and no principal's own", name)
			continue
		}
		if err := f.Value.Set(flat(values[name])); err != nil {
			found = append(found, fmt.Errorf("%s: %w", name, err))
		}
	}
	if len(found) > 0 {
		return nil, errors.Join(found...)
	}
	if values["network"] == string(proxy.None) { // overrides the server's allowed hosts
		n := &own.Network
		n.AllowDomain, n.AllowPrivate, n.Secret = nil, nil, nil
	}
	return own, own.check()
}

// has reports whether there is a setting of this name.
func (s *Settings) has(name string) bool {
	return slices.ContainsFunc(s.groups, func(g SettingGroup) bool {
		return slices.ContainsFunc(g.Settings, func(r Setting) bool { return r.Name == name })
	})
}

// quota returns the bounds of a principal's sessions together. Its policy on sleeping sessions applies to all of them, however old.
func (s *Settings) quota() sandbox.Quota {
	q := s.Sandbox.Quota
	q.MaxSessions, q.KeepLimit = s.Sandbox.MaxSessions, s.Sandbox.KeepLimit
	return q
}

// linksPrefix begins the addresses of links to a principal's files; its Key and filelinks.Prefix follow.
const linksPrefix = "/p/"

// linksOf returns the links to a principal's files; nil if nothing serves them.
func (r *Running) linksOf(t *Services, s *Settings) *filelinks.Links {
	base := r.linksBase()
	if base == nil {
		return nil
	}
	if !t.of.IsUser() {
		base = base.JoinPath(linksPrefix, t.of.Key())
	}
	return filelinks.New(filelinks.Options{
		Manager: t.manager, Key: t.linkKey, BaseURL: base, Lifetime: s.Links.Lifetime, UploadBytes: s.Tools.DownloadBytes, Scripts: s.Tools.PageScripts,
		Count: func() error { return t.now.Load().deps.CountCall() }, Logger: t.manager.Config().Logger,
	})
}

// serveLink answers the links of all principals' files. Each principal's key is different, so a link is good at its own address alone.
func (r *Running) serveLink(w http.ResponseWriter, request *http.Request) {
	rest, is := strings.CutPrefix(request.URL.Path, linksPrefix)
	if !is {
		r.own.now.Load().links.ServeHTTP(w, request)
		return
	}
	key, _, _ := strings.Cut(rest, "/")
	known := r.own // no link is good there: the answer must not reveal principals
	if r.principals != nil {
		if of := r.principals.ByKey(key); of != nil {
			known = of
		}
	}
	http.StripPrefix(linksPrefix+key, known.now.Load().links).ServeHTTP(w, request)
}
