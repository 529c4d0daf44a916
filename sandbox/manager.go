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
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

// Manager owns this server's sessions. Its methods may be called from any goroutine.
type Manager struct {
	config  atomic.Pointer[Config]
	ownPool bool // it was made for this manager alone, and closes with it

	*index

	ctx     context.Context // of the background work
	stop    context.CancelFunc
	working sync.WaitGroup
	changed atomic.Pointer[func()] // nil: nobody watches

	stopDraining context.CancelFunc // nil: it does not drain; under mu
}

// NewManager makes a manager that does nothing yet: the engine is used from the first Run on, or
// from Prewarm. Close it in the end, and the engine after it.
func NewManager(config Config) *Manager {
	ownPool := config.Pool == nil
	if ownPool {
		if config.Tenant != "" {
			panic("sandbox: a tenant's manager needs the pool of its server")
		}
		config.Pool = NewPool(config)
	}
	m := newManager(config)
	m.ownPool = ownPool
	config.Pool.enter(m)
	m.working.Go(m.expire)
	m.working.Go(m.keepAlive)
	if config.Shared != "" {
		m.working.Go(func() { m.offer(m.ctx, shareEvery, func(s *session) bool { return s.id == config.Shared }) })
	}
	return m
}

// newManager makes a manager that no pool knows of, without its work in the background.
func newManager(config Config) *Manager {
	config.Host = config.Pool.config.Host
	config.boundFiles()
	ctx, stop := context.WithCancel(context.Background())
	m := &Manager{index: newIndex(), ctx: ctx, stop: stop}
	config.quotas = newQuotas(m, config.Quota)
	m.config.Store(&config)
	return m
}

// conf returns the configuration of sessions that open now, which nobody changes.
func (m *Manager) conf() *Config { return m.config.Load() }

// Reconfigure has sessions that open from now on made with another configuration, and its quota count for all. Sessions that are
// open keep the rest of theirs until they fall asleep or end. The engine and where sessions are stay what they were.
func (m *Manager) Reconfigure(config Config) {
	now := m.conf()
	config.Engine, config.StateDir, config.Host, config.Tenant, config.Pool, config.quotas = now.Engine, now.StateDir, now.Host, now.Tenant, now.Pool, now.quotas
	config.boundFiles()
	m.SetQuota(config.Quota)
	m.config.Store(&config)
}

// Watch has changed called whenever a session of this server has come into use or gone, from a goroutine
// of its own, in the place of what Watch was given before.
func (m *Manager) Watch(changed func()) { m.changed.Store(&changed) }

func (m *Manager) notifyChanged() {
	if changed := m.changed.Load(); changed != nil {
		go (*changed)()
	}
}

// Config returns the settings in force, as far as the quota allows them.
func (m *Manager) Config() Config {
	c := *m.conf()
	c.Quota = c.quota()
	c.MaxSessions = c.Quota.MaxSessions
	c.Limits.MemoryBytes, c.Limits.CPUs = c.largest()
	return c
}

// Prewarm is that of the manager's Pool.
func (m *Manager) Prewarm() { m.conf().Pool.Prewarm() }

// Run queues code in its session, which is made when it does not exist, and returns at once. Runs of a session keep the
// order of their calls, also where another server has the session or its predecessor is just being closed, which the run
// waits for. The error is a fault: bad options, too many sessions, or a server that ends.
func (m *Manager) Run(options RunOptions) (*Run, error) {
	if err := options.check(m.conf()); err != nil {
		return nil, err
	}
	for {
		s, err := m.get(options.SessionID, toUse)
		if err != nil {
			return nil, err
		}
		run, err := s.launch(state.NewID("run-"), options)
		if errors.Is(err, errClosing) {
			continue // since this moment: the next session of the name takes the run
		}
		if err == nil {
			m.conf().Pool.sweeper.once(run.Done())
		}
		return run, err
	}
}

// DefaultOf returns the id by which a Manager's methods know the default session of one of several clients. It is no
// session's name, and CheckSessionID refuses it in a request. The empty id is the default session of a server's only
// client.
func DefaultOf(client string) string { return "@" + client }

// ClientOf returns the client that DefaultOf was given.
func ClientOf(id string) string { return strings.TrimPrefix(id, "@") }

func isDefault(id string) bool { return id == "" || id[0] == '@' }

func notFound(id string) *fault.Error {
	if isDefault(id) {
		return fault.New(fault.SessionNotFound, "Run code or upload a file, which makes it; or name the session_id that is meant.",
			"This call names no session, and its client has none yet, or none any more.")
	}
	return fault.New(fault.SessionNotFound, "Run code with this session_id first: that opens or makes the session.", "There is no session %q.", id)
}

// FindRun returns a run of a session that this server has open or that waits for a server, going on or
// over. run_not_found otherwise.
func (m *Manager) FindRun(id string) (*Run, error) {
	for _, s := range m.all() {
		run := s.uses.find(id)
		if run == nil {
			continue
		}
		if run.earlier && !run.over() && !run.isFollowed() {
			if err := s.reach(run.Language); err != nil {
				return nil, err
			}
		}
		return run, nil
	}
	if run := m.findRefused(id); run != nil {
		return run, nil
	}
	return m.findEarlier(id)
}

// CloseSession ends a session, the default one for an empty id, and removes its files unless
// keepFiles. It returns when that is done, with the id of the session that it was.
func (m *Manager) CloseSession(ctx context.Context, id string, keepFiles bool) (string, error) {
	// Half a removal is of no use, so it is not cut short when the caller leaves.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sweepTimeout+m.conf().retireTime())
	defer cancel()
	s, err := m.open(id, toFind)
	if !isDefault(id) && err != nil && fault.From(err).Code == fault.SessionNotFound {
		return id, m.closeLeftover(ctx, id, keepFiles)
	}
	if err != nil {
		return "", err
	}
	if !isDefault(id) && m.conf().Gone != nil && s.engine.used() { // another client may use it
		m.mu.Lock()
		m.noteEnded(s, "it was closed", keepFiles)
		m.mu.Unlock()
	}
	return s.id, m.drop(ctx, s, keepFiles)
}

// closeLeftover removes a session that no server has open any more.
func (m *Manager) closeLeftover(ctx context.Context, id string, keepFiles bool) error {
	left, err := leftoverOf(ctx, m.conf(), id)
	if err != nil {
		return m.conf().notDone(err, "look for session %q", id)
	}
	if left == nil && !state.IsKept(m.conf().StateDir, id) {
		return notFound(id)
	}
	if keepFiles && m.conf().freezes() && left != nil && len(left.running) > 0 && state.IsKept(m.conf().StateDir, id) {
		s, err := m.open(id, toResume) // so that its kernels write their variables
		if err != nil {
			return err
		}
		return m.drop(ctx, s, true)
	}
	lock, err := m.conf().lockSession(m.ctx, id)
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
		volumes := left.volumes
		if keepFiles {
			volumes = nil
		}
		if err := m.conf().Engine.Remove(ctx, left.containers, volumes); err != nil {
			lock.Release()
			return m.conf().notDone(err, "remove all of session %q", id)
		}
	}
	if keepFiles {
		lock.Release()
	} else {
		lock.Remove()
	}
	return nil
}

// drop closes the session and forgets it, but where its files are to be kept and it cannot be marked so.
func (m *Manager) drop(ctx context.Context, s *session, keepFiles bool) error {
	var unmarked error
	closing := s.uses.beginClosing(func() bool {
		if keepFiles {
			unmarked = s.uses.lock.Keep()
			s.uses.touch()
		}
		return unmarked == nil
	})
	switch {
	case unmarked != nil:
		return errNoState(unmarked)
	case !closing:
		return errBeingClosed(s.id)
	}
	return m.finishClosing(ctx, s, keepFiles)
}

// finishClosing follows beginClosing. Another session of its name opens when it is done.
func (m *Manager) finishClosing(ctx context.Context, s *session, keepFiles bool) error {
	err := s.close(ctx, keepFiles)
	m.forget(s)
	if err != nil {
		return fault.New(fault.EngineError, "Nothing else is needed: what is left over is removed later by itself.",
			"Session %q is closed, but %s did not remove all of it.", s.id, m.conf().engineName()).Because(err)
	}
	return nil
}

// forget forgets a session that has ended, or that goes on elsewhere.
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

// Close ends the unnamed sessions with their files, and detaches from the named ones, which go on. It
// reports whether all of that was done when ctx ended; what was not is left to a sweep after this process.
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
	m.conf().Pool.leave(m)
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
				if !m.conf().Pool.Close(ctx) {
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
	<-s.opened // soon: m.ctx has ended
	if !s.isOpen() {
		return nil
	}
	switch {
	case !s.uses.beginClosing(nil): // a call is just closing it
		select {
		case <-s.gone:
			return nil
		case <-ctx.Done():
			return errBeingClosed(s.id)
		}
	case s.named && s.engine.hasFiles():
		s.leaveBehind(ctx)
		return nil
	}
	return m.finishClosing(ctx, s, false)
}
