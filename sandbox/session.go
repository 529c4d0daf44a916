package sandbox

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/files"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/history"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

// keptRuns is how many runs of a session can be asked for after they are over.
const keptRuns = 16

// errClosing ends everything in a session that is being closed.
var errClosing = errors.New("session is closing")

// errLeaving ends this server's use of a session that goes on without it.
var errLeaving = errors.New("the server is shutting down")

// session is one volume and at most one kernel per language. It is there before it is open: what uses it queues, and
// awaits opened. All its engine calls go through engineMu, one at a time.
type session struct {
	id    string
	named bool // it outlives this server
	// fallback is whose default session one without a name is, as DefaultOf has it; under the manager's lock.
	fallback string
	config   *Config
	images   *imageCache
	history  *history.Writer
	used     atomic.Bool // by a call; not where it is only kept ready
	ctx      context.Context
	cancel   context.CancelCauseFunc

	before       *session // of the same name, which is closing; under the manager's lock
	certificates string   // that its code trusts beside those of the image, in PEM; set before it is open

	opened  chan struct{} // closed when the session can be used, or openErr says why it cannot
	openErr error
	gone    chan struct{} // closed when it has been closed

	engineMu sync.Mutex
	record   *state.Record // of a named session; under engineMu
	stale    bool          // what is on the engine under this id is of a session that has ended; under engineMu
	out      *outConns     // of all its containers
	limits   limits
	files    *sessionFiles

	mu       sync.Mutex
	lock     *state.Lock // nil before it is open
	created  time.Time
	resumed  bool // an earlier server left files, and maybe containers, under this id
	slots    map[Language]*slot
	runs     []*Run // oldest first
	active   int    // runs that are queued or going on, and other uses
	lastUsed time.Time
	closing  bool
	tried    bool // a container was asked for
}

func newSession(id string, named bool, before *session, config *Config, images *imageCache) *session {
	ctx, cancel := context.WithCancelCause(context.Background())
	now := time.Now()
	s := &session{
		id: id, named: named, before: before, config: config, images: images, history: history.NewWriter(),
		created: now, lastUsed: now, ctx: ctx, cancel: cancel, slots: make(map[Language]*slot),
		opened: make(chan struct{}), gone: make(chan struct{}),
		out: newOutConns(maxOut, outIdle), limits: limits{config: config},
	}
	s.files = newSessionFiles(s)
	for language := range config.Kernels {
		s.slots[language] = newSlot(language)
	}
	return s
}

// begin reads what earlier servers left of the session, whose lock it takes over, and begins to record what runs. resumed
// says that they left it on purpose.
func (s *session) begin(lock *state.Lock, resumed bool) {
	created := s.created
	if s.named {
		s.record = s.loadRecord(resumed)
		created = s.record.Created
	}
	s.trust()
	if s.named {
		s.saveRecord()
	}
	unfinished, err := s.history.Open(s.folder())
	if err != nil {
		s.config.Logger.Warn("history", "session", s.id, "error", err)
	}
	var earlier []*Run
	for _, entry := range entriesOf(unfinished, s.id) {
		earlier = append(earlier, entry.run(s.ctx, s.config, s.id))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lock, s.resumed, s.created = lock, resumed, created
	s.limits.restore(s.record)
	s.runs = append(earlier, s.runs...)
	s.touch()
}

func (s *session) loadRecord(resumed bool) *state.Record {
	var r *state.Record
	if resumed {
		r = state.LoadRecord(s.config.StateDir, s.id)
	}
	if r == nil {
		r = state.NewRecord()
	}
	if !s.config.Visit || r.IdleSeconds == 0 {
		own := limits{config: s.config}
		own.restore(r)
		r.IdleSeconds = own.ends().IdleTimeout.Seconds()
	}
	return r
}

func (s *session) saveRecord() {
	if err := s.record.Save(s.config.StateDir, s.id); err != nil {
		s.config.Logger.Warn("session record", "session", s.id, "error", err)
		for _, l := range s.slots {
			l.noteLater("The server cannot write its state directory, whose disk may be full: its successor may not find this session's variables. The files stay.")
		}
	}
}

// awaitOpen waits until the session can be used. The error is a fault, or says why ctx has ended.
func (s *session) awaitOpen(ctx context.Context) error {
	select {
	case <-s.opened:
		return s.openErr
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *session) isOpen() bool { return isClosed(s.opened) && s.openErr == nil }

// settle ends a run and records it.
func (s *session) settle(run *Run, res *Result, err error) {
	run.finish(res, err, func(res *Result, err error) {
		if !run.unrecorded.Load() && !run.options.Unlisted {
			recordEnd(s.history, run.ID, res, err)
		}
	})
}

func (s *session) folder() string { return state.Folder(s.config.StateDir, s.id) }

// volumeName carries a part of the host's label, so that servers that do not share their locks cannot
// reach each other's sessions by using the same session id on one engine.
func (s *session) volumeName() string {
	host := s.config.Host
	return "csm-" + host[:min(6, len(host))] + "-" + s.id
}

func (s *session) containerName(language Language) string {
	return s.volumeName() + "-" + string(language)
}

// containerNames are the names that any of the session's containers could have.
func (s *session) containerNames() []string {
	names := make([]string, 0, len(s.slots))
	for language := range s.slots {
		names = append(names, s.containerName(language))
	}
	slices.Sort(names)
	return names
}

// launch queues a run and returns it at once: it waits for the session to open, and then for its turn.
func (s *session) launch(id string, options RunOptions) (*Run, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return nil, errBeingClosed(s.id)
	}
	run := newRun(s.ctx, s.config, id, s.id, options)
	run.ahead = func() *RunInfo { return s.ahead(run) }
	turn := openTurn() // a fresh run has an interpreter of its own, and waits for no other run
	if !options.Fresh {
		turn = s.slots[options.Language].enqueue()
	}
	s.config.observeRun(run)
	s.remember(run)
	s.active++
	s.touch()
	if !options.Unlisted {
		recordBegin(s.history, run)
	}
	go func() {
		res, err := s.perform(run, turn)
		s.conclude(run, res, err)
	}()
	return run, nil
}

// conclude ends a run that counted as a use of the session.
func (s *session) conclude(run *Run, res *Result, err error) {
	run.ending.Store(true)
	s.leave() // first: a client that has the answer may kill this server at once
	s.settle(run, res, err)
}

// enter marks the session as in use, and leave as not.
func (s *session) enter() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return errBeingClosed(s.id)
	}
	s.active++
	s.touch()
	return nil
}

func (s *session) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.active--
	s.touch()
}

// touch records the use, for servers that come after this one too: while code runs, up to when it may
// run at the most, so that the session is not taken for idle if this server dies. The caller holds s.mu.
func (s *session) touch() {
	s.lastUsed = time.Now()
	until := s.lastUsed
	for _, run := range s.runs {
		goesOn := run.unrecorded.Load() || !run.over() && !run.ending.Load()
		if limit := run.lastEnd(); goesOn && limit.After(until) {
			until = limit
		}
	}
	if s.lock != nil {
		s.touchLock(s.lock, until)
	}
}

// touchLock records until when the session is in use. Where that fails, a later server may remove it before its time.
func (s *session) touchLock(lock *state.Lock, until time.Time) {
	if err := lock.Touch(until); err != nil {
		s.config.Logger.Warn("session lock", "session", s.id, "error", err)
	}
}

func errBeingClosed(id string) *fault.Error {
	return fault.New(fault.SessionBusy, "Wait a second and try again, or use another session_id.",
		"Session %q is being closed.", id).Because(errClosing)
}

// remember keeps the run for wait_for_run and forgets the oldest that is over.
func (s *session) remember(run *Run) {
	for i := 0; i < len(s.runs)-1; i++ {
		s.runs[i].dropImages()
	}
	s.runs = append(s.runs, run)
	if len(s.runs) <= keptRuns {
		return
	}
	for i, old := range s.runs {
		if res, err := old.Result(); res != nil || err != nil {
			s.runs = slices.Delete(s.runs, i, i+1)
			return
		}
	}
}

func (s *session) findRun(id string) *Run {
	s.mu.Lock()
	defer s.mu.Unlock()
	return findRun(s.runs, id)
}

func findRun(runs []*Run, id string) *Run {
	for _, run := range runs {
		if run.ID == id {
			return run
		}
	}
	return nil
}

// idleFor is how long the session was not used; zero while something runs.
func (s *session) idleFor(now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.idle(now)
}

// idle is idleFor. The caller holds s.mu.
func (s *session) idle(now time.Time) time.Duration {
	if s.active > 0 || !s.isOpen() || s.awaits(now) {
		return 0
	}
	return now.Sub(s.lastUsed)
}

// hasExpired reports whether the session's time is over. The caller holds s.mu.
func (s *session) hasExpired(now time.Time) bool {
	most := s.limits.ends()
	return s.isOpen() && (s.idle(now) >= most.IdleTimeout || now.Sub(s.created) >= most.Lifetime)
}

// awaits reports whether a run of an earlier server may still go on. The caller holds s.mu.
func (s *session) awaits(now time.Time) bool {
	return slices.ContainsFunc(s.runs, func(r *Run) bool { return r.earlier && !r.over() && r.lastEnd().After(now) })
}

// ping keeps the supervisors from ending as idle.
func (s *session) ping(n int) {
	for _, k := range s.liveKernels() {
		_ = k.send(protocol.Request{Type: "ping", N: int64(n)})
	}
}

// usedEngine reports whether anything of this session can be on the engine.
func (s *session) usedEngine() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.resumed || s.tried
}

// sizeTimeout bounds the wait for a supervisor that counts files; the answer is then without a size.
const sizeTimeout = 2 * time.Second

// size asks a live kernel what the session's files take. nil: there is none that answers.
func (s *session) size(ctx context.Context) *int64 {
	ctx, cancel := context.WithTimeout(ctx, sizeTimeout)
	defer cancel()
	for _, k := range s.liveKernels() {
		if _, bytes, _, err := (files.Client{Streams: k.conn}).Usage(ctx); err == nil {
			return &bytes
		}
	}
	return nil
}

func (s *session) liveKernels() []*kernel {
	s.mu.Lock()
	defer s.mu.Unlock()
	var live []*kernel
	for _, l := range s.slots {
		if k := l.kernel.Load(); k != nil && k.alive() && k.wasReady() {
			live = append(live, k)
		}
	}
	return live
}
