package sandbox

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/history"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

// keptRuns is how many runs of a session can be asked for after they are over.
const keptRuns = 16

// usage keeps what a session is used for, its runs and what else goes on, and until when: in its lock too, for servers that
// come after this one. Its methods may be called from any goroutine.
type usage struct {
	id      string
	config  *Config
	limits  *limits
	history *history.Writer
	isOpen  func() bool

	mu       sync.Mutex
	lock     *state.Lock // nil before the session is open
	created  time.Time
	awake    time.Time // since when there are kernels
	awoke    bool      // there are, by this server
	runs     []*Run    // oldest first
	active   int       // runs that are queued or going on, and other uses
	lastUsed time.Time
	closing  bool
}

func newUsage(id string, config *Config, limits *limits, isOpen func() bool) *usage {
	now := time.Now()
	return &usage{id: id, config: config, limits: limits, history: history.NewWriter(config.quota().DiskBytes / historyShare), isOpen: isOpen, created: now, awake: now, lastUsed: now}
}

// open begins to record uses, in a lock and a history, from which it takes the runs that earlier servers left.
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

// begin counts a run as a use, and records it. queue is called where it may begin, in the order of the calls.
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
	if !run.options.Unlisted && !u.config.quotas.isFull(u.id) {
		recordBegin(u.history, run)
	}
	return nil
}

// conclude ends a run that counted as a use of the session.
func (u *usage) conclude(run *Run, res *Result, err error) {
	run.ending.Store(true)
	u.leave() // first: a client that has the answer may kill this server at once
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

// touch records the use, for servers that come after this one too: while code runs, up to when it may
// run at the most, so that the session is not taken for idle if this server dies. The caller holds u.mu.
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

// touchLock records until when the session is in use. Where that fails, a later server may remove it before its time.
func (u *usage) touchLock(until time.Time) {
	if err := u.lock.Touch(until); err != nil {
		u.config.Logger.Warn("session lock", "session", u.id, "error", err)
	}
}

// Runs -----------------------------------------------------------------------------

// remember keeps the run for wait_for_run and forgets the oldest that is over.
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

// find returns the run of an id; nil: it is not known.
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

// add keeps a run of an earlier server that the history does not have as unfinished.
func (u *usage) add(run *Run) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.runs = append(u.runs, run)
}

// between counts the runs between one of an id and another that may have changed the variables of its kernel; 1 where the
// first is not known.
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

// ranSince reports whether code of the same language as a run's may have changed variables since then, and before that run.
func (u *usage) ranSince(then time.Time, run *Run) bool {
	then = then.Add(time.Second) // a run that a stop interrupts ends, as far as this server knows, just as they are written
	ran := slices.ContainsFunc(u.all(), func(r *Run) bool {
		_, ended := r.Times()
		return r != run && r.Language == run.Language && !r.options.Fresh && !r.options.Copy && ended.After(then) && r.created.Before(run.created)
	})
	if ran {
		return true
	}
	over := func(id string, over bool, _ int64) bool { return over && id != run.ID }
	err := EachInHistory(u.config.StateDir, u.id, over, func(e *HistoryEntry) { // of when the session was open before
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

// await waits for the ends of the runs, which were asked to end, as long as ctx lasts.
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

// mark notes in the history which runs' changes the variables have no more, true, or have now. Where that fails a later
// answer names more runs as undone than there are.
func (u *usage) mark(undone map[string]bool) {
	if err := history.Mark(state.Folder(u.config.StateDir, u.id), undone); err != nil {
		u.config.Logger.Warn("history", "session", u.id, "error", err)
	}
}

// The end --------------------------------------------------------------------------

// idleFor is how long the session was not used; zero while something runs.
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

// awaits reports whether a run of an earlier server may still go on. The caller holds u.mu.
func (u *usage) awaits(now time.Time) bool {
	return slices.ContainsFunc(u.runs, func(r *Run) bool { return r.earlier && !r.over() && r.lastEnd().After(now) })
}

// hasExpired reports whether the session's time is over. The caller holds u.mu.
func (u *usage) hasExpired(now time.Time) bool {
	most := u.limits.ends()
	return u.isOpen() && (u.idle(now) >= most.IdleTimeout || u.awakeFor(now) >= most.Lifetime)
}

// wake begins the time of the kernels with the first, unless goOn has said that it had begun before, and returns when that was.
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

// age is how long the kernels have been there, as far as this server knows.
func (u *usage) age(now time.Time) time.Duration {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.awakeFor(now)
}

// awakeFor is age: what earlier servers recorded counts when a kernel of theirs is reached, for they may all have ended.
// The caller holds u.mu.
func (u *usage) awakeFor(now time.Time) time.Duration {
	if !u.awoke {
		return 0
	}
	return now.Sub(u.awake)
}

// usedAt says when the session was last used, where this server has had it for another reason.
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

// beginClosing ends the use of the session, and reports whether it did: not where another call
// did before, nor where only returns false; it may be nil. Nothing begins between its answer and the closing.
func (u *usage) beginClosing(only func() bool) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closing || only != nil && !only() {
		return false
	}
	u.closing = true
	return true
}

// locked does something that only the holder of the session's lock may do; nothing where the session is closing.
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

// closeHistory writes what waits to be written.
func (u *usage) closeHistory() {
	if err := u.history.Close(); err != nil {
		u.config.Logger.Warn("history", "session", u.id, "error", err)
	}
}

// describe fills in what the session has been used for.
func (u *usage) describe(i *SessionInfo) {
	u.mu.Lock()
	defer u.mu.Unlock()
	i.Created, i.LastUsed = u.created, u.lastUsed
	if u.active > 0 {
		i.LastUsed = time.Now()
	}
}
