package sandbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
)

// keptRuns is how many runs of a session can be asked for after they are over.
const keptRuns = 16

// errClosing ends everything in a session that is being closed.
var errClosing = errors.New("session is closing")

// errLeaving ends this server's use of a session that goes on without it.
var errLeaving = errors.New("the server is shutting down")

// session is one volume and at most one kernel per language. All its engine calls go through
// engineMu, one at a time.
type session struct {
	id      string
	named   bool // it outlives this server
	config  *Config
	images  *imageCache
	lock    *lockFile
	record  *record  // of a named session; under engineMu
	journal *journal // nil where the history cannot be written
	created time.Time
	used    atomic.Bool // somebody has asked for it; not where it is only kept ready
	ctx     context.Context
	cancel  context.CancelCauseFunc

	engineMu sync.Mutex
	// filesTurn holds a token for each use of the files.
	filesTurn chan struct{}

	mu       sync.Mutex
	lanes    map[Language]*lane
	runs     []*Run // oldest first
	active   int    // runs that are queued or going on, and other uses
	lastUsed time.Time
	closing  bool
	tried    bool // a container was asked for
	resumed  bool // an earlier server left files, and maybe containers, under this id
	stale    bool // what is on the engine under this id is of a session that nobody wants any more; under engineMu
}

func newSession(id string, named, resumed bool, lock *lockFile, config *Config, images *imageCache) *session {
	ctx, cancel := context.WithCancelCause(context.Background())
	now := time.Now()
	s := &session{
		id: id, named: named, resumed: resumed, config: config, images: images, lock: lock,
		created: now, lastUsed: now, ctx: ctx, cancel: cancel, lanes: make(map[Language]*lane),
		filesTurn: make(chan struct{}, mostFiles),
	}
	if named {
		s.resume()
	}
	s.openJournal()
	for language := range config.Kernels {
		s.lanes[language] = newLane(language)
	}
	return s
}

// resume reads what an earlier server knew of the session, and begins where it knew nothing.
func (s *session) resume() {
	if s.resumed {
		s.record = loadRecord(s.folder())
	}
	s.stale = !s.resumed && s.lock.found
	if s.record == nil {
		s.record = newRecord()
	}
	s.created = s.record.Created
	if !s.config.Visit || s.record.IdleSeconds == 0 {
		s.record.IdleSeconds = s.config.IdleTimeout.Seconds()
	}
	s.saveRecord()
}

func (s *session) saveRecord() {
	if err := s.record.save(s.folder()); err != nil {
		s.config.Logger.Warn("session record", "session", s.id, "error", err)
	}
}

// openJournal begins to record what runs, and remembers what ran when an earlier server ended.
func (s *session) openJournal() {
	open, err := unfinishedRuns(s.config.StateDir, s.id)
	for _, entry := range open {
		s.runs = append(s.runs, entry.run(s.ctx, s.config, s.id))
	}
	if err == nil {
		s.journal, err = openJournal(s.folder())
	}
	if err != nil {
		s.config.Logger.Warn("history", "session", s.id, "error", err)
	}
}

// settle ends a run and records it.
func (s *session) settle(run *Run, res *Result, err error) {
	run.finish(res, err, func(res *Result, err error) {
		if s.journal != nil && !run.unrecorded.Load() {
			s.journal.end(run, res, err)
		}
	})
}

func (s *session) folder() string { return sessionFolder(s.config.StateDir, s.id) }

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
	names := make([]string, 0, len(s.lanes))
	for language := range s.lanes {
		names = append(names, s.containerName(language))
	}
	slices.Sort(names)
	return names
}

// launch queues a run and returns it at once.
func (s *session) launch(id string, options RunOptions) (*Run, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return nil, errBeingClosed(s.id)
	}
	run := newRun(s.ctx, s.config, id, s.id, options)
	run.ahead = func() *RunInfo { return s.ahead(run) }
	turn := openTurn() // a fresh run has an interpreter of its own, and waits for nobody
	if !options.Fresh {
		turn = s.lanes[options.Language].enqueue()
	}
	s.remember(run)
	s.active++
	s.touch()
	if s.journal != nil {
		s.journal.begin(run)
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
	s.leave() // first: whoever has the answer may kill this server at once
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
// run at the most, so that nobody takes the session for idle if this server dies. The caller holds s.mu.
func (s *session) touch() {
	s.lastUsed = time.Now()
	until := s.lastUsed
	for _, run := range s.runs {
		goesOn := run.unrecorded.Load() || !run.over() && !run.ending.Load()
		if limit := run.lastEnd(); goesOn && limit.After(until) {
			until = limit
		}
	}
	s.lock.touch(until)
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
	for _, run := range s.runs {
		if run.ID == id {
			return run
		}
	}
	return nil
}

// perform takes the run from its place in the queue to its result.
func (s *session) perform(run *Run, turn turn) (res *Result, err error) {
	lane := s.lanes[run.Language]
	defer func() {
		if err != nil { // which tells nothing else: the next run does
			run.passNotes(lane.noteLater)
		}
		turn.leave()
	}()
	if err := turn.wait(run); err != nil {
		return s.notInTurn(run, err)
	}
	k, err := s.kernel(lane, run.note, false)
	if err == nil && !run.options.Fresh && lane.adoptedNow() != nil {
		// The kernel was busy when it was taken over, and may not outlive what it was busy with.
		if err := lane.waitAdopted(run); err != nil {
			return s.notInTurn(run, err)
		}
		k, err = s.kernel(lane, run.note, false)
	}
	if run.ctx.Err() != nil {
		return run.stopped()
	}
	if err != nil {
		return nil, err
	}
	done, err := k.run(run)
	if errors.Is(err, errKernelGone) {
		k, done, err = s.rejoin(run, lane, k)
	}
	return s.outcome(run, lane, k, done, err)
}

// outcome turns what a kernel said of a run, or why it said nothing, into the run's result.
func (s *session) outcome(run *Run, l *lane, k *kernel, done protocol.Done, err error) (*Result, error) {
	if err != nil {
		return s.lostUnder(run, l, k, err)
	}
	l.noteLost(k, run.note) // as this one came
	res := s.result(run, done)
	if errors.Is(context.Cause(run.ctx), errClosing) {
		res.VariablesLost, res.Cause = true, causeClosed
	}
	return res, nil
}

// notInTurn settles a run that did not come to its turn.
func (s *session) notInTurn(run *Run, err error) (*Result, error) {
	if errors.Is(err, errTurnTimeout) {
		busy := fault.New(fault.SessionBusy, "Try again, or use another session_id.",
			"Session %q still ran other %s code after %s.", s.id, run.Language, run.options.Timeout)
		if before := s.ahead(run); before != nil { // and has not ended this moment
			busy = fault.New(fault.SessionBusy, before.wayOut()+"; or use another session_id.",
				"Session %q still runs other code after %s: %s", s.id, run.options.Timeout, before).With("run_id", before.RunID)
		}
		return nil, busy
	}
	return run.stopped()
}

// kernel gives the lane's live kernel: the one it has, one that runs without a server, or a new one.
func (s *session) kernel(l *lane, note func(string), warm bool) (*kernel, error) {
	l.starting.Lock()
	defer l.starting.Unlock()
	// In the end, because reachEarlier may have something to tell.
	defer func() {
		for _, text := range l.takeNotes() {
			note(text)
		}
	}()
	if k := l.kernelNow(); k != nil && k.alive() {
		l.noteLost(k, note)
		return k, nil
	}
	if k, err := s.retake(l); k != nil || err != nil {
		return k, err
	}
	k, err := s.reachEarlier(l)
	switch {
	case k != nil:
		return k, nil
	case err != nil && !isFinal(err):
		return nil, errNotTakenOver(s.id, l.language).Because(err)
	case l.hadKernel():
		note(fmt.Sprintf("The %s kernel's container had ended since the last run: its variables are gone, the files are there.", l.language))
	case errors.Is(err, errOtherSettings):
		note(fmt.Sprintf("The server's settings or secrets have changed since this session's %s kernel began, so it begins anew: its variables are gone, the files are there.", l.language))
	}
	k, err = s.startKernel(l, warm)
	if err != nil {
		return nil, err
	}
	l.setKernel(k)
	l.reached = true
	s.loseUnfinished(l, false) // whatever there was has been replaced
	return k, nil
}

// lostUnder settles a run whose container ended or stopped answering under it, and clears the
// container away so that the next run gets a new one.
func (s *session) lostUnder(run *Run, l *lane, k *kernel, why error) (*Result, error) {
	if s.isClosing() {
		return &Result{
			SessionID: s.id, RunID: run.ID, Language: run.Language, Status: Cancelled, ExitCode: 130,
			Duration: time.Since(run.created), VariablesLost: true, Cause: causeClosed,
		}, nil
	}
	s.discard(l, k)
	if !k.wasReady() {
		return nil, s.neverReady(k, l.language)
	}
	res := &Result{
		SessionID: s.id, RunID: run.ID, Language: run.Language, Status: Killed, ExitCode: 137,
		Duration: time.Since(run.created), VariablesLost: true, Cause: "the container ended",
	}
	if errors.Is(why, errUnresponsive) {
		res.Status, res.ExitCode, res.Cause = TimedOut, 124, "the kernel did not answer and was removed"
		if errors.Is(context.Cause(run.ctx), errInterrupted) {
			res.Status, res.ExitCode = Cancelled, 130
		}
	}
	return res, nil
}

// discard removes the container of a kernel that is of no more use, unless it has a follower already.
func (s *session) discard(l *lane, k *kernel) {
	l.starting.Lock() // nobody starts the next one by this name while we remove this one
	defer l.starting.Unlock()
	k.close()
	if l.kernelNow() != k {
		return
	}
	l.setKernel(nil)
	ctx, cancel := context.WithTimeout(context.Background(), s.config.StartTimeout)
	defer cancel()
	s.engineMu.Lock()
	defer s.engineMu.Unlock()
	if s.ctx.Err() != nil {
		return // it is another server's by now, or goes with the session
	}
	if err := s.config.Engine.Remove(ctx, []string{s.containerName(l.language)}, nil); err != nil {
		s.config.Logger.Warn("remove container", "session", s.id, "error", err)
	}
}

// warm makes the lane's kernel ready ahead of its first run.
func (s *session) warm(language Language) {
	l := s.lanes[language]
	if l == nil {
		return
	}
	s.mu.Lock()
	if l.inUse() { // a run was quicker
		s.mu.Unlock()
		return
	}
	turn := l.enqueue()
	s.mu.Unlock()
	defer turn.leave()
	if _, err := s.kernel(l, l.noteLater, true); err != nil {
		s.config.Logger.Warn("prewarm", "language", language, "error", err, "cause", errors.Unwrap(err))
	}
}

// idleFor is how long nobody has used the session; zero while something runs.
func (s *session) idleFor(now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.idle(now)
}

// idle is idleFor. The caller holds s.mu.
func (s *session) idle(now time.Time) time.Duration {
	if s.active > 0 || s.awaits(now) {
		return 0
	}
	return now.Sub(s.lastUsed)
}

// awaits reports whether a run of an earlier server may still go on. The caller holds s.mu.
func (s *session) awaits(now time.Time) bool {
	return slices.ContainsFunc(s.runs, func(r *Run) bool { return r.earlier && !r.over() && r.lastEnd().After(now) })
}

// beginClosing lets nobody use the session any more, and reports whether it did: not where somebody else
// did before, nor where only says no, which may be nil. Nothing begins between its answer and the closing.
func (s *session) beginClosing(only func() bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing || only != nil && !only() {
		return false
	}
	s.closing = true
	return true
}

func (s *session) isClosing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closing
}

// ping tells the supervisors that their server lives, so that they do not end as idle.
func (s *session) ping(n int) {
	for _, k := range s.liveKernels() {
		_ = k.send(protocol.Request{Type: "ping", N: int64(n)})
	}
}

// close ends everything in the session: runs are cut off, containers removed, and the volume too
// unless keepFiles. It returns the engine's error; the session is over all the same.
func (s *session) close(ctx context.Context, keepFiles bool) error {
	s.cancel(errClosing)
	s.engineMu.Lock()
	defer s.engineMu.Unlock()
	var volumes []string
	if !keepFiles {
		volumes = []string{s.volumeName()}
	}
	if !keepFiles {
		s.lock.unkeep() // should the removal fail, a later sweep knows that nobody wants the files
	}
	var err error
	if s.usedEngine() {
		err = s.config.Engine.Remove(ctx, s.containerNames(), volumes)
	}
	if keepFiles {
		ending, cancel := context.WithTimeout(ctx, leaveTime)
		s.awaitRuns(ending)
		cancel()
	}
	s.closeJournal()
	switch {
	case keepFiles:
		s.lock.keep()
		s.lock.touch(time.Now())
		s.lock.release()
	case err != nil:
		s.lock.release() // what is left over is cleared later, and the file tells that nobody has it
	default:
		s.lock.remove()
	}
	return err
}

// leaveTime is how long code that a server interrupts at its own end has to stop.
const leaveTime = 400 * time.Millisecond

// leaveBehind lets go of a named session. Its containers go on, with the variables, and end by
// themselves when no server takes them up in the idle time; code that runs is interrupted, but by a
// manager that only visits.
func (s *session) leaveBehind(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, leaveTime)
	defer cancel()
	if !s.config.Visit {
		s.cancel(errLeaving)
		s.awaitRuns(ctx)
	}
	// Whoever just starts a container should come to its end, or the next server finds half of one.
	if s.lockEngine(ctx) {
		defer s.engineMu.Unlock()
	}
	for _, run := range s.runsNow() {
		if !run.over() {
			run.unrecorded.Store(true) // the next server may hear its end
		}
	}
	for _, l := range s.lanes {
		if k := l.kernelNow(); k != nil {
			k.close()
		}
	}
	s.cancel(errLeaving)
	s.closeJournal()
	s.mu.Lock()
	s.touch()
	s.mu.Unlock()
	s.lock.release()
}

// lockEngine takes engineMu when it can be had while ctx lasts, and reports whether it was.
func (s *session) lockEngine(ctx context.Context) bool {
	for !s.engineMu.TryLock() {
		if ctx.Err() != nil {
			return false
		}
		time.Sleep(leaveTime / 40)
	}
	return true
}

func (s *session) runsNow() []*Run {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.runs)
}

// awaitRuns waits for the ends of the runs, which were asked to end, as long as ctx lasts.
func (s *session) awaitRuns(ctx context.Context) {
	for _, run := range s.runsNow() {
		if run.earlier && !run.isFollowed() {
			continue // nobody has asked it
		}
		select {
		case <-run.Done():
		case <-ctx.Done():
		}
	}
}

// abandon lets go of a session that nobody has used yet.
func (s *session) abandon() {
	s.cancel(errClosing)
	s.closeJournal()
	if s.named {
		s.lock.release()
	} else {
		s.lock.remove()
	}
}

// closeJournal writes what waits to be written.
func (s *session) closeJournal() {
	if s.journal == nil {
		return
	}
	if err := s.journal.close(); err != nil {
		s.config.Logger.Warn("history", "session", s.id, "error", err)
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
		if _, bytes, _, err := (fileClient{k.conn}).usage(ctx); err == nil {
			return &bytes
		}
	}
	return nil
}

func (s *session) liveKernels() []*kernel {
	s.mu.Lock()
	defer s.mu.Unlock()
	var live []*kernel
	for _, l := range s.lanes {
		if k := l.kernelNow(); k != nil && k.alive() && k.wasReady() {
			live = append(live, k)
		}
	}
	return live
}
