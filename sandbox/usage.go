package sandbox

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/history"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

// historyShare is the part of Quota.DiskBytes for one session's history.
const historyShare = 4

// keptRuns bounds a session's finished runs in memory.
const keptRuns = 16

// usage tracks the runs and other uses of a session, and the time until which it is in use: in its lock too, for later servers.
// Its methods may be called from any goroutine.
type usage struct {
	id      string
	config  *Config
	limits  *limits
	history *history.Writer
	isOpen  func() bool
	isFull  func() bool // the disk has no room for a history

	mu       sync.Mutex
	lock     *state.Lock // nil before the session is open
	created  time.Time
	awake    time.Time // since when there are kernels
	awoke    bool      // this server started or reached some
	runs     []*Run    // oldest first
	active   int       // queued and going runs, and other uses
	lastUsed time.Time
	closing  bool
}

func newUsage(id string, config *Config, limits *limits, isOpen, isFull func() bool) *usage {
	now := time.Now()
	return &usage{id: id, config: config, limits: limits, history: history.NewWriter(config.quota().DiskBytes / historyShare), isOpen: isOpen, isFull: isFull, created: now, awake: now, lastUsed: now}
}

// open begins to record uses, in a lock and a history, from which it loads earlier servers' unfinished runs.
func (u *usage) open(ctx context.Context, lock *state.Lock, created, awake time.Time) {
	unfinished, err := u.history.Open(state.Folder(u.config.StateDir, u.id))
	if err != nil {
		u.config.Logger.Warn("history", "session", u.id, "error", err)
	}
	var earlier []*Run
	for _, entry := range entriesOf(unfinished, u.id) {
		earlier = append(earlier, entry.run(ctx, u.config, u.id))
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.lock, u.created, u.awake = lock, created, awake
	u.runs = append(earlier, u.runs...)
	u.touch()
}

// Uses -----------------------------------------------------------------------------

// begin counts a run as a use, and records it. It calls queue in the order of the calls, if the run may begin.
func (u *usage) begin(run *Run, queue func()) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closing {
		return errBeingClosed(u.id)
	}
	queue()
	u.config.observeRun(run)
	u.remember(run)
	u.active++
	u.touch()
	if !run.options.Unlisted && !u.isFull() {
		recordBegin(u.history, run)
	}
	return nil
}

// conclude ends a run and its use of the session.
func (u *usage) conclude(run *Run, res *Result, err error) {
	run.ending.Store(true)
	u.leave() // first: a client with the answer may kill this server at once
	u.settle(run, res, err)
}

// settle ends a run and records it.
func (u *usage) settle(run *Run, res *Result, err error) {
	run.finish(res, err, func(res *Result, err error) {
		if !run.unrecorded.Load() && !run.options.Unlisted {
			recordEnd(u.history, run.ID, res, err)
		}
	})
}

// enter marks the session as in use, and leave as not.
func (u *usage) enter() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closing {
		return errBeingClosed(u.id)
	}
	u.active++
	u.touch()
	return nil
}

func (u *usage) leave() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.active--
	u.touch()
}

// touch records the use, also for later servers: while code runs, the latest end of the run, so that the session does not look
// idle if this server dies. The caller holds u.mu.
func (u *usage) touch() {
	u.lastUsed = time.Now()
	until := u.lastUsed
	for _, run := range u.runs {
		goesOn := run.unrecorded.Load() || !run.over() && !run.ending.Load()
		if limit := run.lastEnd(); goesOn && limit.After(until) {
			until = limit
		}
	}
	if u.lock != nil {
		u.touchLock(until)
	}
}

// touchLock records until when the session is in use. If that fails, a later server may remove it too early.
func (u *usage) touchLock(until time.Time) {
	if err := u.lock.Touch(until); err != nil {
		u.config.Logger.Warn("session lock", "session", u.id, "error", err)
	}
}

// Runs -----------------------------------------------------------------------------

// remember keeps the run for wait_for_run and forgets the oldest finished one.
func (u *usage) remember(run *Run) {
	for i := 0; i < len(u.runs)-1; i++ {
		u.runs[i].dropImages()
	}
	u.runs = append(u.runs, run)
	if len(u.runs) <= keptRuns {
		return
	}
	for i, old := range u.runs {
		if res, err := old.Result(); res != nil || err != nil {
			u.runs = slices.Delete(u.runs, i, i+1)
			return
		}
	}
}

// find returns the run of an id; nil: unknown.
func (u *usage) find(id string) *Run {
	u.mu.Lock()
	defer u.mu.Unlock()
	return findRun(u.runs, id)
}

func findRun(runs []*Run, id string) *Run {
	for _, run := range runs {
		if run.ID == id {
			return run
		}
	}
	return nil
}

// add keeps an earlier server's run that the history does not list as unfinished.
func (u *usage) add(run *Run) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.runs = append(u.runs, run)
}

// between counts the runs, after the one of an id and before last, that may have changed the variables of its kernel; 1 if the
// first is unknown.
func (u *usage) between(id string, last *Run) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	passed, found := 0, false
	for _, run := range u.runs {
		switch {
		case run.ID == id:
			passed, found = 0, true
		case run == last && found:
			return passed
		case run.Language == last.Language && !run.options.Fresh && !run.options.Copy:
			passed++
		}
	}
	return 1
}

// all returns the runs, the oldest first.
func (u *usage) all() []*Run {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Clone(u.runs)
}

// ranSince reports whether code in a run's language may have changed variables after then and before that run.
func (u *usage) ranSince(then time.Time, run *Run) bool {
	then = then.Add(time.Second) // a run that a stop interrupts ends, as far as this server knows, just as the snapshot is written
	ran := slices.ContainsFunc(u.all(), func(r *Run) bool {
		_, ended := r.Times()
		return r != run && r.Language == run.Language && !r.options.Fresh && !r.options.Copy && ended.After(then) && r.created.Before(run.created)
	})
	if ran {
		return true
	}
	over := func(id string, over bool, _ int64) bool { return over && id != run.ID }
	err := EachInHistory(u.config.StateDir, u.id, over, func(e *HistoryEntry) { // from before the session opened here
		if e.Result == nil || e.Language != run.Language || e.Fresh || e.Copy || e.Undone || !e.Started.Before(run.created) {
			return
		}
		ran = ran || e.Started.Add(e.Result.Duration).After(then)
	})
	if err != nil {
		u.config.Logger.Debug("history", "session", u.id, "error", err)
	}
	return ran
}

// await waits for the ends of the runs that were asked to end, until ctx ends.
func (u *usage) await(ctx context.Context) {
	for _, run := range u.all() {
		if run.earlier && !run.isFollowed() {
			continue // it was not asked to end
		}
		select {
		case <-run.Done():
		case <-ctx.Done():
		}
	}
}

// mark notes in the history which runs' changes the variables lost, true, or regained. If that fails, a later answer names too
// many runs as undone.
func (u *usage) mark(undone map[string]bool) {
	if err := history.Mark(state.Folder(u.config.StateDir, u.id), undone); err != nil {
		u.config.Logger.Warn("history", "session", u.id, "error", err)
	}
}

// The end --------------------------------------------------------------------------

// idleFor is the session's idle time; zero while something runs.
func (u *usage) idleFor(now time.Time) time.Duration {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.idle(now)
}

// idle is idleFor. The caller holds u.mu.
func (u *usage) idle(now time.Time) time.Duration {
	if u.active > 0 || !u.isOpen() || u.awaits(now) {
		return 0
	}
	return now.Sub(u.lastUsed)
}

// awaits reports whether an earlier server's run may still go on. The caller holds u.mu.
func (u *usage) awaits(now time.Time) bool {
	return slices.ContainsFunc(u.runs, func(r *Run) bool { return r.earlier && !r.over() && r.lastEnd().After(now) })
}

// hasExpired reports whether the session's time is over. The caller holds u.mu.
func (u *usage) hasExpired(now time.Time) bool {
	most := u.limits.ends()
	return u.isOpen() && (u.idle(now) >= most.IdleTimeout || u.awakeFor(now) >= most.Lifetime)
}

// wake starts the clock of the kernels with the first one, unless goOn let an earlier time count, and returns its start.
func (u *usage) wake() time.Time {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.awoke {
		u.awoke, u.awake = true, time.Now()
	}
	return u.awake
}

func (u *usage) goOn() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.awoke = true
}

// age is the age of the kernels, as far as this server knows.
func (u *usage) age(now time.Time) time.Duration {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.awakeFor(now)
}

// awakeFor is age: an earlier server's time counts only once a kernel of it is reached, for they may all have ended. The caller
// holds u.mu.
func (u *usage) awakeFor(now time.Time) time.Duration {
	if !u.awoke {
		return 0
	}
	return now.Sub(u.awake)
}

// usedAt sets the last use, if this server opened the session for another reason.
func (u *usage) usedAt(then time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.lastUsed = then
}

// touchLast records the last use in the lock.
func (u *usage) touchLast() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.touchLock(u.lastUsed)
}

// beginClosing ends the use of the session, and reports whether it did: false if another call did before, or if only returns
// false; only may be nil. Nothing begins between its answer and the closing.
func (u *usage) beginClosing(only func() bool) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closing || only != nil && !only() {
		return false
	}
	u.closing = true
	return true
}

// locked calls do, which needs the session's lock; it does nothing while the session is closing.
func (u *usage) locked(do func() error) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closing {
		return nil
	}
	return do()
}

// isBusy reports whether something goes on in the session.
func (u *usage) isBusy() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.active > 0
}

func (u *usage) isClosing() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.closing
}

// closeHistory writes the queued rest of the history.
func (u *usage) closeHistory() {
	if err := u.history.Close(); err != nil {
		u.config.Logger.Warn("history", "session", u.id, "error", err)
	}
}

// times returns the session's beginning and its last use.
func (u *usage) times() (created, lastUsed time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.active > 0 {
		return u.created, time.Now()
	}
	return u.created, u.lastUsed
}

func errBeingClosed(id string) *fault.Error {
	return fault.New(fault.SessionBusy, "Wait a second and try again, or use another session_id.",
		"Session %q is being closed.", id).Because(errClosing)
}

// recordDid writes to the history what runs did to files.
func (u *usage) recordDid(v *protocol.Versions) {
	did := make(map[string]history.Files)
	for _, d := range v.Did {
		f := history.Files{Added: max(d.Added, 0), Changed: max(d.Changed, 0), Removed: max(d.Removed, 0)}
		for _, t := range d.Paths {
			f.Paths = append(f.Paths, history.Touched{Path: u.config.Mask.Mask(text.Safe(t.Path, maxName)), How: text.Safe(t.How, maxName)})
		}
		for _, id := range d.Runs {
			one := f
			one.With = slices.DeleteFunc(slices.Clone(d.Runs), func(other string) bool { return other == id })
			did[id] = one
		}
	}
	u.history.Did(did)
}
