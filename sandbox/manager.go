// Package sandbox keeps sessions: each a volume and at most one kernel per language, on a
// container engine that it is handed.
//
// Start with NewManager and Manager.Run; a Run has its Result when it is Done. The package knows
// nothing of MCP, and of no engine more than of another. Whatever comes out of a container is bounded and
// checked, but it remains the word of hostile code.
package sandbox

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/place"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/runs"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/stay"
)

// Config configures a Manager. Begin with DefaultConfig, and set Engine, Kernels and StateDir: most limits must not be zero.
type Config struct {
	place.Config

	// Shared names a session that this server hands to another server of the state directory as soon as nothing runs in it: the
	// session of a client that starts a server for each call. Empty: none.
	Shared string
	// Gone reports whether the client of a default session (see DefaultOf) is gone, so that the session, unused for as long as idle,
	// may make room where MaxSessions are open. The manager calls it with its lock held. Nil: none is gone.
	Gone func(client string, idle time.Duration) bool
	// Overload returns why new sessions are refused for a while; none: they are not. The manager calls it with its lock held. Nil: never.
	Overload func() []string
}

// Of returns this configuration for one tenant of the server.
func (c Config) Of(tenant string) Config {
	c.Tenant, c.StateDir = tenant, state.TenantDir(c.StateDir, tenant)
	return c
}

// Manager owns this server's sessions. Its methods may be called from any goroutine.
type Manager struct {
	config  atomic.Pointer[Config]
	pool    *Pool
	ownPool bool // made for this manager alone, and closed with it
	quotas  *quotas

	*index

	ctx     context.Context // of the background work
	stop    context.CancelFunc
	working sync.WaitGroup
	changed atomic.Pointer[func()] // nil: nobody watches

	stopDraining context.CancelFunc // nil: it does not drain; under mu
}

// NewManager makes a manager that does nothing yet: the first Run, or Prewarm, uses the engine. Close it in the end, and the
// engine after it.
func NewManager(config Config) *Manager {
	if config.Tenant != "" {
		panic("sandbox: a tenant's manager needs the pool of its server")
	}
	m := NewPool(config).NewManager(config)
	m.ownPool = true
	return m
}

// NewManager is NewManager for one of several managers of a server.
func (p *Pool) NewManager(config Config) *Manager {
	m := newManager(config, p)
	p.enter(m)
	m.working.Go(m.expire)
	m.working.Go(m.keepAlive)
	if config.Shared != "" {
		m.working.Go(func() { m.offer(m.ctx, shareEvery, func(s *session) bool { return s.id == config.Shared }) })
	}
	return m
}

// newManager makes a manager that its pool does not know, without background work.
func newManager(config Config, pool *Pool) *Manager {
	config.Host = pool.config.Host
	config.BoundFiles()
	ctx, stop := context.WithCancel(context.Background())
	m := &Manager{pool: pool, index: newIndex(), ctx: ctx, stop: stop}
	m.quotas = newQuotas(m, config.Quota)
	config.InForce = &m.quotas.now
	m.config.Store(&config)
	return m
}

// conf returns the configuration of sessions that open now. Nobody changes it.
func (m *Manager) conf() *Config { return m.config.Load() }

// Reconfigure sets the configuration of sessions opened from now on. The quota applies to all sessions at once. Open sessions keep
// the rest of their configuration until they fall asleep or end. The engine and the place of sessions do not change.
func (m *Manager) Reconfigure(config Config) {
	now := m.conf()
	config.Engine, config.StateDir, config.Host, config.Tenant, config.InForce = now.Engine, now.StateDir, now.Host, now.Tenant, now.InForce
	config.BoundFiles()
	m.setQuota(config.Quota)
	m.config.Store(&config)
}

// SetMounts sets the folders of this machine that sessions see which are opened from now on.
func (m *Manager) SetMounts(mounts []engine.Mount) {
	c := *m.conf()
	c.Mounts = mounts
	m.config.Store(&c)
}

// Watch sets a function that a goroutine of its own calls after a session of this server came into use or went. It replaces the
// one of an earlier Watch.
func (m *Manager) Watch(changed func()) { m.changed.Store(&changed) }

func (m *Manager) notifyChanged() {
	if changed := m.changed.Load(); changed != nil {
		go (*changed)()
	}
}

// Config returns the settings in force, within the quota.
func (m *Manager) Config() Config {
	c := *m.conf()
	c.Quota = c.QuotaNow()
	c.MaxSessions = c.Quota.MaxSessions
	c.Limits.MemoryBytes, c.Limits.CPUs = c.Largest()
	return c
}

// Prewarm is Pool.prewarm of the manager's Pool.
func (m *Manager) Prewarm() { m.pool.prewarm() }

// Run queues code in its session and returns at once. It makes a missing session. Runs of a session keep the order of their calls;
// a run waits if another server holds the session or its predecessor is just closing. The error is a fault: bad options, too many
// sessions, or a server that ends.
func (m *Manager) Run(options RunOptions) (*Run, error) {
	if err := m.check(&options); err != nil {
		return nil, err
	}
	for {
		s, err := m.get(options.SessionID, toUse)
		if err != nil {
			return nil, err
		}
		run, err := s.launch(state.NewID(runs.RunPrefix), options)
		if errors.Is(err, runs.ErrClosing) {
			continue // it just did: the next session of the name takes the run
		}
		if err == nil {
			m.pool.sweeper.once(run.Done())
		}
		return run, err
	}
}

// check fills in defaults and refuses impossible options.
func (m *Manager) check(o *RunOptions) error {
	if _, on := m.conf().Kernels[o.Language]; !on {
		return fault.New(fault.InvalidArgument, "Use a language that session_info lists.", "There is no language %q here.", text.Safe(string(o.Language), 40))
	}
	return o.Check(&m.conf().Rules)
}

// DefaultOf returns the id of the default session of one of several clients, for a Manager's methods. It is no session's name, and
// CheckSessionID refuses it in a request. The empty id is the default session of a server's only client.
func DefaultOf(client string) string { return "@" + client }

// ClientOf returns the client of a DefaultOf id.
func ClientOf(id string) string { return strings.TrimPrefix(id, "@") }

func isDefault(id string) bool { return id == "" || id[0] == '@' }

func notFound(id string) *fault.Error {
	if isDefault(id) {
		return fault.New(fault.SessionNotFound, "Run code or upload a file, which makes it; or name the session_id that is meant.",
			"This call names no session, and its client has none yet, or none any more.")
	}
	return fault.New(fault.SessionNotFound, "Run code with this session_id first: that opens or makes the session.", "There is no session %q.", id)
}

// CloseSession ends a session, the default one for an empty id, and removes its files unless keepFiles. It returns when that is
// done, with the session's id.
func (m *Manager) CloseSession(ctx context.Context, id string, keepFiles bool) (string, error) {
	// Half a removal is useless, so it goes on when the caller leaves.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), place.SweepTimeout+m.conf().RetireTime())
	defer cancel()
	s, err := m.open(ctx, id, toFind)
	if !isDefault(id) && err != nil && fault.From(err).Code == fault.SessionNotFound {
		return id, m.closeLeftover(ctx, id, keepFiles)
	}
	if err != nil {
		return "", err
	}
	if !isDefault(id) && m.conf().Gone != nil && s.place.Used() { // another client may use it
		m.mu.Lock()
		m.noteEnded(s, "it was closed", keepFiles)
		m.mu.Unlock()
	}
	return s.id, m.drop(ctx, s, keepFiles)
}

// closeLeftover removes a session that no server holds open.
func (m *Manager) closeLeftover(ctx context.Context, id string, keepFiles bool) error {
	left, err := stay.LeftoverOf(ctx, &m.conf().Config, id)
	if err != nil {
		return place.NotDone(m.conf().Engine, err, "look for session %q", id)
	}
	if left == nil && !state.IsKept(m.conf().StateDir, id) {
		return notFound(id)
	}
	if keepFiles && m.conf().Freezes() && left != nil && len(left.Running) > 0 && state.IsKept(m.conf().StateDir, id) {
		s, err := m.open(ctx, id, toResume) // so that its kernels write their snapshots
		if err != nil {
			return err
		}
		return m.drop(ctx, s, true)
	}
	lock, err := m.lockSession(id)
	if err != nil {
		return err
	}
	if keepFiles {
		if err := errors.Join(lock.Keep(), lock.Touch(time.Now())); err != nil {
			lock.Unlock()
			return errNoState(err)
		}
	}
	if left != nil {
		volumes := left.Volumes
		if keepFiles {
			volumes = nil
		}
		if err := m.conf().Engine.Remove(ctx, left.Containers, volumes); err != nil {
			lock.Release()
			return place.NotDone(m.conf().Engine, err, "remove all of session %q", id)
		}
	}
	if keepFiles {
		lock.Release()
	} else {
		lock.Remove()
	}
	return nil
}

// drop closes the session and forgets it, unless keepFiles is set and the session cannot be marked so.
func (m *Manager) drop(ctx context.Context, s *session, keepFiles bool) error {
	var unmarked error
	closing := s.uses.BeginClosing(func() bool {
		if keepFiles {
			unmarked = s.uses.Lock.Keep()
			s.uses.Touch()
		}
		return unmarked == nil
	})
	switch {
	case unmarked != nil:
		return errNoState(unmarked)
	case !closing:
		return runs.ErrBeingClosed(s.id)
	}
	return m.finishClosing(ctx, s, keepFiles)
}

// finishClosing follows BeginClosing. When it is done, another session of the name opens.
func (m *Manager) finishClosing(ctx context.Context, s *session, keepFiles bool) error {
	err := s.close(ctx, keepFiles)
	m.forget(s)
	if err != nil {
		return fault.New(fault.EngineError, "Nothing else is needed: what is left over is removed later by itself.",
			"Session %q is closed, but %s did not remove all of it.", s.id, m.conf().Engine.Abilities().Name).Because(err)
	}
	return nil
}

// forget forgets a session that ended, or goes on elsewhere.
func (m *Manager) forget(s *session) {
	if m.conf().WayOut != nil {
		m.conf().WayOut.Forget(s.id)
	}
	m.mu.Lock()
	if m.sessions[s.id] == s {
		delete(m.sessions, s.id)
	}
	m.forgetDefault(s)
	close(s.gone)
	m.mu.Unlock()
	m.notifyChanged()
}

// Close ends the unnamed sessions with their files, and detaches from the named ones, which go on. It reports whether it finished
// before ctx ended; a sweep after this process does the rest.
func (m *Manager) Close(ctx context.Context) bool {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return true
	}
	m.closed = true
	var all []*session
	for _, s := range m.sessions {
		all = append(all, s)
		if s.before != nil {
			all = append(all, s.before)
		}
	}
	m.mu.Unlock()
	m.pool.leave(m)
	m.stop()
	gone := make(chan bool, 1)
	go func() {
		var failed atomic.Bool
		var closing sync.WaitGroup
		for _, s := range all {
			closing.Go(func() {
				if err := m.leave(ctx, s); err != nil {
					m.conf().Logger.Warn("close session", "session", s.id, "error", err, "cause", errors.Unwrap(err))
					failed.Store(true)
				}
			})
		}
		if m.ownPool {
			closing.Go(func() {
				if !m.pool.Close(ctx) {
					failed.Store(true)
				}
			})
		}
		closing.Wait()
		m.working.Wait()
		gone <- !failed.Load()
	}()
	select {
	case done := <-gone:
		return done
	case <-ctx.Done():
		return false
	}
}

// leave closes a session, or detaches from a named one, when the server shuts down.
func (m *Manager) leave(ctx context.Context, s *session) error {
	<-s.opened // soon: m.ctx ended
	if !s.isOpen() {
		return nil
	}
	switch {
	case !s.uses.BeginClosing(nil): // a call is just closing it
		select {
		case <-s.gone:
			return nil
		case <-ctx.Done():
			return runs.ErrBeingClosed(s.id)
		}
	case s.named && s.place.HasFiles():
		s.leaveBehind(ctx)
		return nil
	}
	return m.finishClosing(ctx, s, false)
}

// DefaultConfig returns the defaults of the command line, with a Logger that writes nothing.
func DefaultConfig() Config {
	return Config{Config: place.Config{
		Rules: runs.Rules{
			CodeBytes: 100_000, OutputBytes: 16_000, RunTimeout: time.Minute, MaxRunTimeout: time.Hour,
			IdleTimeout: 30 * time.Minute, Lifetime: 24 * time.Hour, Keep: 30 * 24 * time.Hour, MaxSessions: 10, Logger: slog.New(slog.DiscardHandler),
			Limits: engine.Limits{MemoryBytes: 1 << 30, CPUs: 2, PIDs: 256, TmpBytes: 256 << 20, FileBytes: 2 << 30, OpenFiles: 1024},
		},
		SpoolBytes: 64 << 20, VolumeBytes: 2 << 30, VolumeFiles: 200_000, UndoBytes: 256 << 20, KeepLimit: 10 << 30,
		FreezeBytes: 512 << 20, FreezeTime: 20 * time.Second, Linger: 2 * time.Second, StartTimeout: time.Minute, Spares: 1, SparesBytes: 512 << 20,
	}}
}
