// What each principal has of a server: sessions, the way out, tools, links and the page of its own.

package server

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net/http"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/server"
	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/ask"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/netlog"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fair"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/httpserver"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/principal"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/rest"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/secrets"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/telemetry"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/filelinks"
)

// tenant is what one principal has of a server. Nothing in it knows of another's: what a request can name is this alone.
type tenant struct {
	of      principal.Principal
	manager *sandbox.Manager
	network *netlog.Log
	asks    *ask.Desk // has questions where the settings have code ask
	out     *wayOutNow
	calls   *fair.Budget // of tools, in a minute
	mask    *secrets.Masker
	linkKey []byte
	apis    rest.APIs // which keep what they know of clients
	now     atomic.Pointer[front]

	// What the manager tells, whatever its settings.
	observer sandbox.Observer
	admit    func(context.Context, *sandbox.Run) error

	turn    sync.Mutex    // held while the front is replaced: nobody else waits for that
	changes *rate.Limiter // of the front, which costs more than most requests

	// Under the tenants' lock.
	groups  []string  // under whose policy it is served
	used    time.Time // last
	refused error     // why nothing is done for the principal; nil: it is served
}

// front is a tenant's way in and out under one policy, which another takes the place of.
type front struct {
	values   values // of the policy
	settings *Settings
	box      *Sandbox
	links    *filelinks.Links // nil: there are none
	mcp      *server.MCPServer
	deps     *tools.Deps
	site     *httpserver.Site    // nil: nothing is served over HTTP
	api      func() *rest.Server // each is made for the first who asks
	page     func() *rest.Server
	called   called             // is told of the calls that the page makes; nil: nobody is
	end      context.CancelFunc // of its streams
}

// newTenant puts together what a principal has. It touches neither the engine nor, for the user whose server it is, the disk.
func (r *running) newTenant(p principal.Principal) (*tenant, error) {
	s, v, err := r.settingsOf(p)
	if err != nil {
		return nil, err
	}
	t := &tenant{
		of: p, network: &netlog.Log{}, out: &wayOutNow{}, calls: fair.NewBudget(time.Minute, int64(s.Tools.CallsPerMinute)),
		mask: secrets.Growing(nil), linkKey: []byte(rand.Text()), apis: newAPIs(),
		groups: p.Groups, changes: rate.NewLimiter(changesEach, changesEach),
	}
	log := r.logOf(p)
	t.asks = r.newDesk(t, log)
	box, err := s.newSandbox(r.shared, t.network, t.asks, log, func(box *Sandbox, config *sandbox.Config) {
		watched := r.watched.For(p)
		t.prepare(r, s, box, config)
		config.Observer, t.network.Added = watched, watched.Network
		r.audited.tenant(p, config, t.network)
		t.observer, t.admit = config.Observer, config.Admit
	})
	if err != nil {
		return nil, err
	}
	t.manager = box.Manager
	if r.drainer != nil && r.drainer.draining.Load() {
		t.manager.Drain(true)
	}
	t.now.Store(r.newFront(t, s, v, box, log))
	return t, nil
}

// prepare completes the configuration of the tenant's manager, under the settings that count now.
func (t *tenant) prepare(r *running, s *Settings, box *Sandbox, config *sandbox.Config) {
	t.mask.Learn(s.secretValues(config.Env, box.connections.Sources()))
	config.Mask, config.Observer, config.Admit, config.WayOut = t.mask, t.observer, t.admit, t.out
	if r.web != nil {
		config.Gone = r.web.isGone
	}
	t.out.put(box.way)
}

// noPageWait is how long a question waits for a call whose client can ask, where there is no page that a person may look at.
const noPageWait = 5 * time.Second

// newDesk returns where code asks a person. What is allowed for good is beside the principal's sessions.
func (r *running) newDesk(t *tenant, log *slog.Logger) *ask.Desk {
	mask := func(text string) string { return t.manager.Config().Mask.Mask(text) }
	var wait time.Duration // the default
	if r.web == nil {
		wait = noPageWait
	}
	return ask.New(ask.Options{
		Wait: wait, File: r.settings.AllowedFile(t.of), Principal: t.of.Name, Logger: log,
		Code: func(_, run, host string) string {
			if known, err := t.manager.FindRun(run); err == nil {
				return ask.Line(mask(known.Code()), host)
			}
			return ""
		},
		Mask: mask, Audit: r.audited.recorder(),
	})
}

// logOf is the log of what concerns a principal.
func (r *running) logOf(p principal.Principal) *slog.Logger {
	if p.IsUser() {
		return r.log
	}
	return r.log.With("principal", p.Name)
}

func (r *running) newFront(t *tenant, s *Settings, v values, box *Sandbox, log *slog.Logger) *front {
	f, before := &front{values: v, settings: s, box: box}, t.now.Load()
	ending, end := context.WithCancel(r.ending)
	f.end = end
	if before != nil && before.settings.Links == s.Links && before.settings.Tools.PageScripts == s.Tools.PageScripts {
		f.links = before.links // with the uploads that it has allowed
	} else {
		f.links = r.linksOf(t, s)
	}
	f.mcp, f.deps = s.mcpServer(box, f.links, log)
	if before.storesAlike(s) {
		f.deps.Store = before.deps.Store // which has files on their way
	}
	f.called = r.audited.called(t.of, f.deps)
	f.deps.Called, f.deps.Calls = bothCalled(r.watched.For(t.of).Call, f.called), t.calls
	if s.Network.Ask {
		f.deps.Asks = t.asks
	}
	if r.web != nil {
		s.serveOverHTTP(ending, f, t.apis)
		if !t.of.IsUser() {
			f.site.Prepare()
		}
	}
	return f
}

// apply has the policy of these groups count for a tenant from now on, and reports whether it says something else than before. What a
// container is made with counts for sessions that open later. Where it cannot count the tenant is refused. The caller holds known.turn.
func (t *tenants) apply(known *tenant, groups []string) (changed bool, err error) {
	defer func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if known.refused = err; err == nil {
			known.groups = groups
		}
	}()
	r, who, before := t.r, known.of, known.now.Load()
	who.Groups = groups
	s, v, err := r.settingsOf(who)
	if err != nil {
		return false, err
	}
	if reflect.DeepEqual(v, before.values) {
		return false, nil
	}
	log := r.logOf(who)
	var reach *Sandbox
	if before.reachesAlike(s) {
		reach = before.box // which code may be using
	}
	box, config, err := s.sandboxParts(r.shared, reach, known.network, known.asks, log, func(box *Sandbox, config *sandbox.Config) {
		if reach == nil {
			box.way.proxy.TakeOver(before.box.way.proxy)
		}
		known.prepare(r, s, box, config)
	})
	if err != nil {
		return false, err
	}
	box.Manager = known.manager
	known.calls.Set(int64(s.Tools.CallsPerMinute))
	known.manager.Reconfigure(config)
	next := r.newFront(known, s, v, box, log)
	known.now.Store(next)
	t.closing.Go(func() { before.close(context.WithoutCancel(r.ending), next) })
	return true, nil
}

// reachesAlike reports whether code reaches the same things under other settings.
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

// close ends what goes on by the front, but no session, and nothing that the one in its place goes on with.
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

// close ends the tenant's sessions, and reports whether nothing is left that something else would have to remove.
func (t *tenant) close(ctx context.Context) bool {
	f := t.now.Load()
	f.end()
	// Files are read from their sessions, which end next.
	uploading, stopUploading := context.WithTimeout(ctx, uploadTime)
	f.deps.Store.Close(uploading)
	stopUploading()
	return f.box.end(ctx)
}

const (
	// forgetAfter is how long a principal's tenant stays that has no session open and is not asked for.
	forgetAfter = time.Hour
	// principalsFolder, in the state folder, has one of each principal's own.
	principalsFolder = "principals"
)

// tenants are those of all principals but the user whose server it is. Its methods may be called from any goroutine.
type tenants struct {
	r *running

	policy sync.RWMutex       // of running.settings.policy, which is read again
	making singleflight.Group // of what principals have who come for the first time

	mu       sync.Mutex
	live     map[string]*tenant // by principal.Principal.Key
	policies int                // how often the policy was read again
	closed   bool
	closing  sync.WaitGroup // of what has been replaced
}

func newTenants(r *running) *tenants { return &tenants{r: r, live: make(map[string]*tenant)} }

// changesEach is how often in a second the front of one principal is replaced, and how often at once.
const changesEach = 10

// settingsOf is Settings.of by the policy of now.
func (r *running) settingsOf(p principal.Principal) (*Settings, values, error) {
	if !p.IsUser() {
		r.tenants.policy.RLock()
		defer r.tenants.policy.RUnlock()
	}
	return r.settings.of(p)
}

// get returns what a principal has, which is made where it has nothing yet.
func (t *tenants) get(p principal.Principal) (*front, error) {
	if p.IsUser() {
		return t.r.own.now.Load(), nil
	}
	known, isNow := t.known(p)
	if known == nil {
		var err error
		if known, err = t.makeOnce(p); err != nil {
			return nil, err
		}
	} else if isNow {
		return known.now.Load(), nil
	}
	known.turn.Lock()
	defer known.turn.Unlock()
	if _, isNow = t.known(p); !isNow { // another request may have seen to it meanwhile
		if t.isClosed() {
			return nil, context.Canceled
		}
		time.Sleep(known.changes.Reserve().Delay())
		if _, err := t.apply(known, p.Groups); err != nil {
			return nil, err
		}
	}
	return known.now.Load(), nil
}

// known returns what a principal has, nil: nothing yet, and whether it is served by that under the groups that it has now.
func (t *tenants) known(p principal.Principal) (known *tenant, isNow bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if known = t.live[p.Key()]; known != nil {
		known.used = time.Now()
		isNow = known.refused == nil && slices.Equal(known.groups, p.Groups)
	}
	return known, isNow
}

func (t *tenants) isClosed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.closed
}

// makeOnce is make for all who come at the same time.
func (t *tenants) makeOnce(p principal.Principal) (*tenant, error) {
	made, err, _ := t.making.Do(p.Key(), func() (any, error) { return t.make(p) })
	if err != nil {
		return nil, err
	}
	return made.(*tenant), nil
}

// make makes what a principal has, where there is nothing yet.
func (t *tenants) make(p principal.Principal) (*tenant, error) {
	key := p.Key()
	t.mu.Lock()
	t.forgetIdle(time.Now())
	known, closed, policies := t.live[key], t.closed, t.policies
	t.mu.Unlock()
	switch {
	case known != nil:
		return known, nil
	case closed:
		return nil, context.Canceled
	}
	made, err := t.r.newTenant(p)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		t.closing.Go(func() { made.close(context.WithoutCancel(t.r.ending)) })
		return nil, context.Canceled
	}
	made.used = time.Now()
	if t.policies != policies { // it is by the one from before
		made.groups, made.refused = nil, errOldPolicy
	}
	t.live[key] = made
	return made, nil
}

var errOldPolicy = errors.New("the policy has changed since")

// forgetIdle drops those that nobody has asked for and that have no session open: what sleeps needs none. The caller holds t.mu.
func (t *tenants) forgetIdle(now time.Time) {
	for key, known := range t.live {
		stay := max(forgetAfter, known.now.Load().settings.Links.Lifetime) // its links are good for so long
		if now.Sub(known.used) > stay && len(known.manager.Known()) == 0 {
			delete(t.live, key)
			t.closing.Go(func() { known.close(context.WithoutCancel(t.r.ending)) })
		}
	}
}

// all returns those that are there, the user's first.
func (t *tenants) all() []*tenant {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := []*tenant{t.r.own}
	for _, known := range t.live {
		list = append(list, known)
	}
	return list
}

// managers are those of all.
func (t *tenants) managers() []*sandbox.Manager {
	var list []*sandbox.Manager
	for _, known := range t.all() {
		list = append(list, known.manager)
	}
	return list
}

// watched are all, for the figures of the moment.
func (t *tenants) watched() []telemetry.Tenant {
	var list []telemetry.Tenant
	for _, known := range t.all() {
		list = append(list, telemetry.Tenant{Of: principal.Principal{Name: known.of.Name}, Manager: known.manager})
	}
	return list
}

// close ends all, and reports whether nothing is left that something else would have to remove.
func (t *tenants) close(ctx context.Context) bool {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	all := t.all()
	left := make(chan bool, len(all))
	for _, known := range all {
		go func() {
			known.turn.Lock() // until its front is the last
			defer known.turn.Unlock()
			left <- !known.close(ctx)
		}()
	}
	nothingLeft := true
	for range all {
		nothingLeft = !<-left && nothingLeft
	}
	replaced := make(chan struct{})
	go func() {
		t.closing.Wait()
		close(replaced)
	}()
	select {
	case <-replaced:
	case <-ctx.Done():
	}
	return nothingLeft
}

// folderOf is the state folder of a principal.
func (s *Settings) folderOf(p principal.Principal) string {
	if p.IsUser() {
		return s.StateFolder()
	}
	return filepath.Join(s.StateFolder(), principalsFolder, p.Key())
}

// AllowedFile is where what a person has allowed for good is kept for a principal's code.
func (s *Settings) AllowedFile(p principal.Principal) string {
	return filepath.Join(s.folderOf(p), ask.FileName)
}

// of returns the settings for what a principal has, in a state folder of its own, and what the policy says of it.
func (s *Settings) of(p principal.Principal) (*Settings, values, error) {
	if p.IsUser() {
		return s, nil, nil
	}
	v := s.policy.of(p)
	own, err := s.withValues(v)
	if err != nil {
		return nil, nil, err
	}
	own.StateDir, own.hostLabel, own.tenant = s.folderOf(p), s.HostLabel(), p.Key()
	own.Prewarm = nil
	return own, v, state.SaveTenant(s.SessionDir(), p.Key(), p.Name)
}

// quota returns what a principal's sessions may take together. What its policy says of those that sleep counts for all, whatever
// it was when they began.
func (s *Settings) quota() sandbox.Quota {
	q := s.Sandbox.Quota
	q.MaxSessions, q.KeepLimit = s.Sandbox.MaxSessions, s.Sandbox.KeepLimit
	return q
}

// linksPrefix begins the addresses of the links of a principal's files; its Key and filelinks.Prefix follow.
const linksPrefix = "/p/"

// linksOf gives out links to a principal's files; nil where nothing serves them.
func (r *running) linksOf(t *tenant, s *Settings) *filelinks.Links {
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

// ServeHTTP answers the links of the principals' files. Each has keys of its own, so that a link is good at its own address alone.
func (t *tenants) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	rest, is := strings.CutPrefix(r.URL.Path, linksPrefix)
	if !is {
		t.r.own.now.Load().links.ServeHTTP(w, r)
		return
	}
	key, _, _ := strings.Cut(rest, "/")
	t.mu.Lock()
	known := t.live[key]
	t.mu.Unlock()
	if known == nil { // whose links it could be is not said: no link is good here
		known = t.r.own
	}
	http.StripPrefix(linksPrefix+key, known.now.Load().links).ServeHTTP(w, r)
}
