// Package sandbox keeps sessions: each a volume and at most one kernel per language, on a
// container engine that it is handed.
//
// Start with NewManager and Manager.Run; a Run tells its Result when it is Done. The package knows
// nothing of MCP and nothing of Podman. Whatever comes out of a container is bounded and
// checked, but it remains the word of hostile code.
package sandbox

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
)

// sessionID is what a session may be called.
var sessionID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)

// Manager owns this server's sessions. Its methods may be called from any goroutine.
type Manager struct {
	config Config
	images imageCache

	mu       sync.Mutex
	sessions map[string]*session
	opening  map[string]chan struct{} // closed when the session by that id, "" for the default one, is made
	entering map[string]chan struct{} // closed when the last run on its way into the session by that id is in
	fallback string                   // id of the default session, empty while there is none
	expired  map[string]string        // what to tell of sessions that have expired, by id, "" for the default one
	closed   bool

	ctx     context.Context // of the background work
	stop    context.CancelFunc
	working sync.WaitGroup
	sweepMu sync.Mutex // one sweep at a time
	swept   sync.Once  // the sweep after the first use of the engine
	changed func()     // may be nil; see Watch
}

// NewManager makes a manager that does nothing yet: the engine is used from the first Run on, or
// from Prewarm. Close it in the end.
func NewManager(config Config) *Manager {
	ctx, stop := context.WithCancel(context.Background())
	m := &Manager{config: config, sessions: make(map[string]*session), expired: make(map[string]string),
		opening: make(map[string]chan struct{}), entering: make(map[string]chan struct{}), ctx: ctx, stop: stop}
	m.working.Go(m.keepHouse)
	m.working.Go(m.keepAlive)
	return m
}

// Config gives the settings in force.
func (m *Manager) Config() Config { return m.config }

// Prewarm makes the default session's kernels ready ahead, as far as Config.Prewarm names them.
// It returns at once.
func (m *Manager) Prewarm() {
	if len(m.config.Prewarm) == 0 {
		return
	}
	s, err := m.ensure("")
	if err != nil {
		m.config.Logger.Warn("prewarm", "error", err)
		return
	}
	for _, language := range m.config.Prewarm {
		m.working.Go(func() { s.warm(language) })
	}
}

// Run queues code in its session, which is made when it does not exist, and returns when that is done: at
// once, unless another server has the session or it is just being closed, and is then made anew. The error is
// a fault: bad options, or no session to be had.
func (m *Manager) Run(options RunOptions) (*Run, error) {
	if err := m.check(&options); err != nil {
		return nil, err
	}
	before, leave := m.enter(options.SessionID)
	defer leave()
	waiting := options.Waiting
	if waiting == nil {
		waiting = func() {}
	}
	if before != nil {
		waiting()
		<-before
	}
	run, err := patiently(m.openElsewhere(options.SessionID), waiting, func() (*Run, error) {
		s, err := m.use(options.SessionID)
		if err != nil {
			return nil, err
		}
		return s.launch(newID("run-"), options)
	})
	if err == nil {
		m.sweepOnce(run.Done())
	}
	return run, err
}

// enter takes the last place among the runs on their way into a session. before, which may be nil, is
// closed when those before have come in, and leave lets the next one.
func (m *Manager) enter(id string) (before <-chan struct{}, leave func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if id == m.fallback {
		id = "" // one session, two names
	}
	last, in := m.entering[id], make(chan struct{})
	m.entering[id] = in
	return last, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		close(in)
		if m.entering[id] == in {
			delete(m.entering, id)
		}
	}
}

// sweepOnce removes what dead servers left, once in this server's life, after the first answer: when
// that is out tells after; nil, now.
func (m *Manager) sweepOnce(after <-chan struct{}) {
	m.swept.Do(func() {
		m.working.Go(func() {
			if after != nil {
				select {
				case <-after:
				case <-m.ctx.Done():
					return
				}
			}
			m.sweep()
		})
	})
}

// check puts defaults in and refuses what cannot be run.
func (m *Manager) check(o *RunOptions) error {
	if _, ok := m.config.Kernels[o.Language]; !ok {
		return fault.New(fault.InvalidArgument, "Use a language that session_info lists.", "There is no language %q here.", clip(string(o.Language), 40))
	}
	if strings.TrimSpace(o.Code) == "" {
		return fault.New(fault.InvalidArgument, "Pass the code to run as text.", "The code is empty.")
	}
	if len(o.Code) > m.config.CodeBytes {
		return fault.New(fault.CodeTooLarge,
			"Split the code over several calls (variables are kept), or put data into a file.",
			"The code has %d bytes and may have %d.", len(o.Code), m.config.CodeBytes).
			With("size_bytes", len(o.Code)).With("limit_bytes", m.config.CodeBytes)
	}
	if o.Timeout <= 0 {
		o.Timeout = m.config.RunTimeout
	}
	// A supervisor takes milliseconds, and none of them for no limit.
	o.Timeout = max(time.Millisecond, min(o.Timeout, m.config.MaxRunTimeout))
	return nil
}

// CheckSessionID refuses what cannot be a session's name.
func CheckSessionID(id string) error {
	if sessionID.MatchString(id) {
		return nil
	}
	return fault.New(fault.InvalidSessionID,
		"Use 1 to 64 letters, digits, _ or -, beginning with a letter or digit; or leave session_id out for the default session.",
		"%q is not a session id.", clip(id, 80))
}

// open gives the session to somebody who uses it, the default one for an empty id, and makes it when it
// does not exist.
func (m *Manager) open(id string) (*session, error) {
	return patiently(m.openElsewhere(id), func() {}, func() (*session, error) { return m.use(id) })
}

// use is open that does not wait: errLocked and errClosing tell what for.
func (m *Manager) use(id string) (*session, error) {
	s, err := m.ensure(id)
	if err == nil && !s.used.Swap(true) {
		m.cameOrWent()
	}
	return s, err
}

// ensure is use for nobody yet.
func (m *Manager) ensure(id string) (*session, error) {
	if id != "" {
		if err := CheckSessionID(id); err != nil {
			return nil, err
		}
	}
	for {
		s, wait, err := m.claim(id)
		if s != nil || err != nil {
			return s, err
		}
		if wait == nil {
			return m.admit(id, m.newSession)
		}
		<-wait // another call is just making it
	}
}

// claim gives the session that exists, or what to wait for where it is being made; and else marks it as
// being made, which admit must follow.
func (m *Manager) claim(id string) (*session, <-chan struct{}, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, nil, errShuttingDown()
	}
	key := id
	if id == "" {
		key = m.fallback
	}
	if s := m.sessions[key]; s != nil {
		if s.isClosing() {
			return nil, nil, errBeingClosed(s.id)
		}
		return s, nil, nil
	}
	if wait := m.opening[id]; wait != nil {
		return nil, wait, nil
	}
	if err := m.room(id); err != nil {
		return nil, nil, err
	}
	m.opening[id] = make(chan struct{})
	return nil, nil, nil
}

// admit makes a session that was claimed and lets those in who wait for it. Making reads the disk, so
// nothing is locked meanwhile.
func (m *Manager) admit(id string, make func(id string, named bool) (*session, error)) (*session, error) {
	name := id
	if id == "" {
		name = newID("sbx-")
	}
	s, err := make(name, id != "")
	m.mu.Lock()
	defer m.mu.Unlock()
	close(m.opening[id])
	delete(m.opening, id)
	if err != nil {
		return nil, err
	}
	if m.closed {
		s.abandon()
		return nil, errShuttingDown()
	}
	m.sessions[name] = s
	m.tellExpired(id, s)
	if id == "" {
		m.fallback = name
	}
	return s, nil
}

func errShuttingDown() *fault.Error {
	return fault.New(fault.SessionBusy, "Start the server again.", "The server is shutting down.")
}

func (m *Manager) newSession(id string, named bool) (*session, error) {
	lock, err := m.tryLock(id)
	if err != nil {
		return nil, err
	}
	resumed := named && lock.kept()
	if named && !resumed {
		// A close that could not remove all, or a server that was killed, may have left a folder.
		_ = os.RemoveAll(sessionFolder(m.config.StateDir, id))
	}
	if named {
		lock.keep()
	}
	return newSession(id, named, resumed, lock, &m.config, &m.images), nil
}

// lock takes the session's lock, and waits for it. The error is a fault.
func (m *Manager) lock(id string) (*lockFile, error) {
	return patiently(m.openElsewhere(id), func() {}, func() (*lockFile, error) { return m.tryLock(id) })
}

// tryLock is lock without the waiting: errLocked where another server has the session.
func (m *Manager) tryLock(id string) (*lockFile, error) {
	lock, err := takeLock(m.config.StateDir, id)
	if err != nil && !errors.Is(err, errLocked) {
		m.config.Logger.Warn("session lock", "session", id, "error", err)
		return nil, errNoState(err)
	}
	return lock, err
}

func errNoState(err error) *fault.Error {
	if errors.Is(err, errForeign) {
		return fault.New(fault.ExecutionFailed, "Name a folder of your own with --state-dir, or take that one away; the server's log tells which it is.",
			"The server's state directory belongs to another user, or others can write to it.").Because(err)
	}
	return fault.New(fault.ExecutionFailed, "Check that the home directory can be written to, or name another with --state-dir.",
		"The server cannot write its state directory.").Because(err)
}

// BeginImport makes a named session that does not exist yet, with the history that OpenHistory gave of
// another, which may come from anybody. Until CloseSession with keepFiles it is one that nobody wants:
// what a killed import leaves is removed by the next sweep. ErrBadHistory says that the history makes no
// sense; the rest are faults: file_exists, and those of opening a session.
func (m *Manager) BeginImport(id string, history io.Reader) error {
	if err := CheckSessionID(id); err != nil {
		return err
	}
	s, wait, err := m.claim(id)
	switch {
	case err != nil:
		return err
	case s != nil || wait != nil:
		return errSessionExists(id)
	}
	_, err = m.admit(id, func(id string, _ bool) (*session, error) { return m.importSession(id, history) })
	return err
}

func (m *Manager) importSession(id string, history io.Reader) (*session, error) {
	lock, err := m.lock(id)
	if err != nil {
		return nil, err
	}
	if lock.kept() {
		lock.release()
		return nil, errSessionExists(id)
	}
	if err := importHistory(sessionFolder(m.config.StateDir, id), history); err != nil {
		lock.remove()
		return nil, err
	}
	return newSession(id, true, false, lock, &m.config, &m.images), nil
}

func errSessionExists(id string) *fault.Error {
	return fault.New(fault.FileExists, "Give it another name, or close that session first.", "There is a session %q already.", id)
}

// room refuses one more session than there may be. Named ones that no server has open count too: they
// hold their files and perhaps a kernel. Those of other live servers are theirs to count. The caller holds
// m.mu.
func (m *Manager) room(id string) error {
	now := time.Now()
	idle := make(map[string]time.Duration)
	for _, s := range m.sessions {
		idle[s.id] = s.idleFor(now)
	}
	for opening := range m.opening {
		idle[opening] = 0
	}
	waiting := keptSessions(m.config.StateDir)
	_, waits := waiting[id] // to open it makes none more
	maps.DeleteFunc(waiting, func(kept string, used time.Time) bool {
		_, open := idle[kept]
		return open || kept == id || now.Sub(used) >= idleTimeout(m.config.StateDir, kept, m.config.IdleTimeout)
	})
	if len(idle)+len(waiting) < m.config.MaxSessions || waits && len(idle) < m.config.MaxSessions {
		return nil
	}
	for kept, used := range waiting {
		if !openElsewhere(m.config.StateDir, kept) {
			idle[kept] = max(0, now.Sub(used))
		}
	}
	if len(idle) < m.config.MaxSessions {
		return nil
	}
	longest := slices.SortedFunc(maps.Keys(idle), func(a, b string) int {
		return cmp.Or(cmp.Compare(idle[b], idle[a]), cmp.Compare(a, b))
	})
	names := make([]string, 0, hintedSessions)
	for _, id := range longest[:min(len(longest), hintedSessions)] {
		names = append(names, fmt.Sprintf("%s (idle %d s)", id, int(idle[id].Seconds())))
	}
	return fault.New(fault.MaxSessions, "Close one of these with close_session, or use one of them: "+strings.Join(names, ", ")+".",
		"There are %d sessions, and there may be %d.", len(idle), m.config.MaxSessions).
		With("limit", m.config.MaxSessions)
}

// hintedSessions is how many sessions are named to somebody who has too many.
const hintedSessions = 20

// find gives an existing session, the default one for an empty id. session_not_found otherwise.
func (m *Manager) find(id string) (*session, error) {
	if id != "" {
		if err := CheckSessionID(id); err != nil {
			return nil, err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if id == "" {
		id = m.fallback
	}
	if s := m.sessions[id]; s != nil {
		return s, nil
	}
	return nil, notFound(id)
}

func notFound(id string) *fault.Error {
	const hint = "Run code with this session_id first: that opens or makes the session."
	if id == "" {
		return fault.New(fault.SessionNotFound, hint, "The default session does not exist yet.")
	}
	return fault.New(fault.SessionNotFound, hint, "There is no session %q.", id)
}

// FindRun gives a run of a session that this server has open or that waits for a server, going on or
// over. run_not_found otherwise.
func (m *Manager) FindRun(id string) (*Run, error) {
	for _, s := range m.all() {
		run := s.findRun(id)
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
	return m.findEarlier(id)
}

// CloseSession ends a session, the default one for an empty id, and removes its files unless
// keepFiles. It returns when that is done, with the id of the session that it was.
func (m *Manager) CloseSession(ctx context.Context, id string, keepFiles bool) (string, error) {
	// Half a removal helps nobody, so it is not cut short when the caller leaves.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sweepTimeout)
	defer cancel()
	s, err := m.find(id)
	var f *fault.Error
	if id != "" && errors.As(err, &f) && f.Code == fault.SessionNotFound {
		return id, m.closeLeftover(ctx, id, keepFiles)
	}
	if err != nil {
		return "", err
	}
	return s.id, m.drop(ctx, s, keepFiles)
}

// closeLeftover removes a session that no server has open any more.
func (m *Manager) closeLeftover(ctx context.Context, id string, keepFiles bool) error {
	left, err := leftoverOf(ctx, m.config.Engine, m.config.Host, id)
	if err != nil {
		return errNotDone(err, "look for session %q", id)
	}
	if left == nil && !keptOnDisk(m.config.StateDir, id) {
		return notFound(id)
	}
	lock, err := m.lock(id)
	if err != nil {
		return err
	}
	if left != nil {
		volumes := left.volumes
		if keepFiles {
			volumes = nil
		}
		if err := m.config.Engine.Remove(ctx, left.containers, volumes); err != nil {
			lock.release()
			return errNotDone(err, "remove all of session %q", id)
		}
	}
	if keepFiles {
		lock.keep()
		lock.touch(time.Now())
		lock.release()
	} else {
		lock.remove()
	}
	return nil
}

// openElsewhere tells that another server has the session, and what it runs there.
func (m *Manager) openElsewhere(id string) func() *fault.Error {
	return func() *fault.Error {
		running := ""
		for _, run := range busyWith(&m.config, id) {
			running += " It runs " + run.String() + "."
		}
		return fault.New(fault.SessionBusy, "Use another session_id, or close the session there first.",
			"Session %q is open in another running server.%s", id, running)
	}
}

// drop closes the session and forgets it.
func (m *Manager) drop(ctx context.Context, s *session, keepFiles bool) error {
	if !s.beginClosing(nil) {
		return errBeingClosed(s.id)
	}
	return m.finishClosing(ctx, s, keepFiles)
}

// finishClosing follows beginClosing. The session stays known until it is gone, so that nobody makes it
// anew in between.
func (m *Manager) finishClosing(ctx context.Context, s *session, keepFiles bool) error {
	err := s.close(ctx, keepFiles)
	m.mu.Lock()
	delete(m.sessions, s.id)
	wasDefault := m.fallback == s.id
	if wasDefault {
		m.fallback = ""
	}
	again := wasDefault && !m.closed
	m.mu.Unlock()
	m.cameOrWent()
	if again {
		m.Prewarm() // a container is kept ready for the next default session too
	}
	if err != nil {
		return fault.New(fault.EngineError, "Nothing else is needed: what is left over is removed later by itself.",
			"Session %q is closed, but Podman did not remove all of it.", s.id).Because(err)
	}
	return nil
}

// Close ends the unnamed sessions with their files, and lets go of the named ones, which go on. It
// reports whether all of that was done when ctx ended; what was not is left to a sweep after this process.
func (m *Manager) Close(ctx context.Context) bool {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return true
	}
	m.closed = true
	all := make([]*session, 0, len(m.sessions))
	for _, s := range m.sessions {
		all = append(all, s)
	}
	m.mu.Unlock()
	m.stop()
	gone := make(chan bool, 1)
	go func() {
		var failed atomic.Bool
		var closing sync.WaitGroup
		for _, s := range all {
			closing.Go(func() {
				if err := m.leave(ctx, s); err != nil {
					m.config.Logger.Warn("close session", "session", s.id, "error", err, "cause", errors.Unwrap(err))
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

// leave is a session's end with its server's.
func (m *Manager) leave(ctx context.Context, s *session) error {
	if !s.named {
		return m.drop(ctx, s, false)
	}
	if s.beginClosing(nil) {
		s.leaveBehind(ctx)
	}
	return nil
}

// newID makes a name with 65 random bits behind the prefix.
func newID(prefix string) string { return prefix + strings.ToLower(rand.Text()[:13]) }
