package runs

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/history"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

// historyShare is the part of Quota.DiskBytes for one session's history.
const historyShare = 4

// KeptRuns bounds a session's finished runs in memory, and the others those that wait for their turn or a container.
const (
	KeptRuns         = 16
	mostWaiting      = 100
	mostWaitingBytes = 4 << 20 // of code; one may have more
)

// Usage tracks the runs and other uses of a session, and the time until which it is in use: in its lock too, for later servers.
// Its methods may be called from any goroutine.
type Usage struct {
	id      string
	rules   *Rules
	limits  *Limits
	History *history.Writer
	isOpen  func() bool
	isFull  func() bool // the disk has no room for a history

	// Turned: the variables came from elsewhere than the last run, or were lost, and no answer has told since what there is.
	Turned atomic.Bool

	Mu       sync.Mutex
	Lock     *state.Lock // nil before the session is open
	marking  sync.Mutex
	Created  time.Time
	Awake    time.Time   // since when there are kernels
	awoke    bool        // this server started or reached some
	Runs     []*Run      // oldest first
	begun    []time.Time // of the runs of the last hour, at most maxBegun
	Active   int         // queued and going runs, and other uses
	lastUsed time.Time
	closing  bool
}

// NewUsage makes the uses of a session, which nothing records before Open. isFull reports that the disk has no room for a history.
func NewUsage(id string, rules *Rules, limits *Limits, isOpen, isFull func() bool) *Usage {
	now := time.Now()
	return &Usage{id: id, rules: rules, limits: limits, History: history.NewWriter(rules.QuotaNow().DiskBytes / historyShare), isOpen: isOpen, isFull: isFull, Created: now, Awake: now, lastUsed: now}
}

// Open begins to record uses, in a lock and a history, from which it loads earlier servers' unfinished runs.
func (u *Usage) Open(ctx context.Context, lock *state.Lock, created, awake time.Time) {
	unfinished, err := u.History.Open(state.Folder(u.rules.StateDir, u.id))
	if err != nil {
		u.rules.Logger.Warn("history", "session", u.id, "error", err)
	}
	var earlier []*Run
	for _, entry := range entriesOf(unfinished, u.id) {
		earlier = append(earlier, entry.Run(ctx, u.rules, u.id))
	}
	u.Mu.Lock()
	defer u.Mu.Unlock()
	u.Lock, u.Created, u.Awake = lock, created, awake
	u.Runs = append(earlier, u.Runs...)
	u.Touch()
}

// Uses -----------------------------------------------------------------------------

// Begin counts a run as a use, and records it. It calls queue in the order of the calls, if the run may begin.
func (u *Usage) Begin(run *Run, queue func()) error {
	u.Mu.Lock()
	defer u.Mu.Unlock()
	if u.closing {
		return ErrBeingClosed(u.id)
	}
	if err := u.mayWait(run); err != nil {
		return err
	}
	queue()
	u.rules.observeRun(run)
	u.remember(run)
	u.Active++
	u.Touch()
	if !run.Options.Unlisted && !u.isFull() {
		recordBegin(u.History, run)
	}
	return nil
}

// mayWait refuses a run where too many wait. The caller holds u.Mu.
func (u *Usage) mayWait(run *Run) error {
	count, bytes := 0, 0
	for _, r := range u.Runs {
		if r.waits() {
			count, bytes = count+1, bytes+len(r.Options.Code)
		}
	}
	if !run.waits() || count == 0 || count < mostWaiting && bytes+len(run.Options.Code) <= mostWaitingBytes {
		return nil
	}
	return fault.New(fault.SessionBusy, "Try again when some of them are over, or use another session_id.",
		"%d runs with %s of code wait in session %q, which is the most.", count, Size(int64(bytes)), u.id)
}

// Conclude ends a run and its use of the session.
func (u *Usage) Conclude(run *Run, res *Result, err error) {
	run.ending.Store(true)
	u.Leave() // first: a client with the answer may kill this server at once
	u.Settle(run, res, err)
}

// Settle ends a run and records it.
func (u *Usage) Settle(run *Run, res *Result, err error) {
	run.Finish(res, err, func(res *Result, err error) {
		if !run.Unrecorded.Load() && !run.Options.Unlisted {
			recordEnd(u.History, run.ID, res, err)
		}
	})
}

// Enter marks the session as in use, and leave as not.
func (u *Usage) Enter() error {
	u.Mu.Lock()
	defer u.Mu.Unlock()
	if u.closing {
		return ErrBeingClosed(u.id)
	}
	u.Active++
	u.Touch()
	return nil
}

// Leave ends what Enter began.
func (u *Usage) Leave() {
	u.Mu.Lock()
	defer u.Mu.Unlock()
	u.Active--
	u.Touch()
}

// Touch records the use, also for later servers: while code runs, the latest end of the run, so that the session does not look
// idle if this server dies. The caller holds u.Mu.
func (u *Usage) Touch() {
	u.lastUsed = time.Now()
	until := u.lastUsed
	for _, run := range u.Runs {
		goesOn := run.Unrecorded.Load() || !run.Over() && !run.ending.Load()
		if limit := run.lastEnd(); goesOn && limit.After(until) {
			until = limit
		}
	}
	if u.Lock != nil {
		u.touchLock(until)
	}
}

// touchLock records until when the session is in use. If that fails, a later server may remove it too early.
func (u *Usage) touchLock(until time.Time) {
	if err := u.Lock.Touch(until); err != nil {
		u.rules.Logger.Warn("session lock", "session", u.id, "error", err)
	}
}

// Runs -----------------------------------------------------------------------------

// remember keeps the run for wait_for_run and forgets the oldest finished one.
func (u *Usage) remember(run *Run) {
	for i := 0; i < len(u.Runs)-1; i++ {
		u.Runs[i].dropImages()
	}
	u.begun = append(u.begun[max(0, len(u.begun)-maxBegun+1):], run.Created)
	u.Runs = append(u.Runs, run)
	if len(u.Runs) <= KeptRuns {
		return
	}
	for i, old := range u.Runs {
		if res, err := old.Result(); res != nil || err != nil {
			u.Runs = slices.Delete(u.Runs, i, i+1)
			return
		}
	}
}

// maxBegun bounds the runs that are counted of an hour.
const maxBegun = 10_000

// Counts returns how many runs go on, and how many have begun in the last hour.
func (u *Usage) Counts() (going, lastHour int) {
	u.Mu.Lock()
	defer u.Mu.Unlock()
	for _, run := range u.Runs {
		if !run.Over() {
			going++
		}
	}
	old, _ := slices.BinarySearchFunc(u.begun, time.Now().Add(-time.Hour), time.Time.Compare)
	u.begun = slices.Delete(u.begun, 0, old)
	return going, len(u.begun)
}

// Find returns the run of an id; nil: unknown.
func (u *Usage) Find(id string) *Run {
	u.Mu.Lock()
	defer u.Mu.Unlock()
	return FindRun(u.Runs, id)
}

// FindRun returns the run of an id; nil: there is none.
func FindRun(runs []*Run, id string) *Run {
	for _, run := range runs {
		if run.ID == id {
			return run
		}
	}
	return nil
}

// Add keeps an earlier server's run that the history does not list as unfinished.
func (u *Usage) Add(run *Run) {
	u.Mu.Lock()
	defer u.Mu.Unlock()
	u.Runs = append(u.Runs, run)
}

// Between counts the runs, after the one of an id and before last, that may have changed the variables of its kernel; 1 if the
// first is unknown.
func (u *Usage) Between(id string, last *Run) int {
	u.Mu.Lock()
	defer u.Mu.Unlock()
	passed, found := 0, false
	for _, run := range u.Runs {
		switch {
		case run.ID == id:
			passed, found = 0, true
		case run == last && found:
			return passed
		case run.Language == last.Language && !run.Options.Fresh && !run.Options.Copy:
			passed++
		}
	}
	return 1
}

// All returns the runs, the oldest first.
func (u *Usage) All() []*Run {
	u.Mu.Lock()
	defer u.Mu.Unlock()
	return slices.Clone(u.Runs)
}

// RanSince reports whether code in a run's language may have changed variables after then and before that run.
func (u *Usage) RanSince(then time.Time, run *Run) bool {
	then = then.Add(time.Second) // a run that a stop interrupts ends, as far as this server knows, just as the snapshot is written
	ran := slices.ContainsFunc(u.All(), func(r *Run) bool {
		_, ended := r.Times()
		return r != run && r.Language == run.Language && !r.Options.Fresh && !r.Options.Copy && ended.After(then) && r.Created.Before(run.Created)
	})
	if ran {
		return true
	}
	over := func(id string, over bool, _ int64) bool { return over && id != run.ID }
	err := EachInHistory(u.rules.StateDir, u.id, over, func(e *HistoryEntry) { // from before the session opened here
		if e.Result == nil || e.Language != run.Language || e.Fresh || e.Copy || e.Undone || !e.Started.Before(run.Created) {
			return
		}
		ran = ran || e.Started.Add(e.Result.Duration).After(then)
	})
	if err != nil {
		u.rules.Logger.Debug("history", "session", u.id, "error", err)
	}
	return ran
}

// Await waits for the ends of the runs that were asked to end, until ctx ends.
func (u *Usage) Await(ctx context.Context) {
	for _, run := range u.All() {
		if run.Earlier && !run.IsFollowed() {
			continue // it was not asked to end
		}
		select {
		case <-run.Done():
		case <-ctx.Done():
		}
	}
}

// Mark notes in the history which runs were undone, or are not any more. If that fails, a later answer names too many runs as undone.
func (u *Usage) Mark(mark history.Mark) {
	u.marking.Lock()
	defer u.marking.Unlock()
	if err := history.AddMark(state.Folder(u.rules.StateDir, u.id), mark); err != nil {
		u.rules.Logger.Warn("history", "session", u.id, "error", err)
	}
}

// The end --------------------------------------------------------------------------

// IdleFor is the session's idle time; zero while something runs.
func (u *Usage) IdleFor(now time.Time) time.Duration {
	u.Mu.Lock()
	defer u.Mu.Unlock()
	return u.Idle(now)
}

// Idle is IdleFor. The caller holds u.Mu.
func (u *Usage) Idle(now time.Time) time.Duration {
	if u.Active > 0 || !u.isOpen() || u.awaits(now) {
		return 0
	}
	return now.Sub(u.lastUsed)
}

// awaits reports whether an earlier server's run may still go on. The caller holds u.Mu.
func (u *Usage) awaits(now time.Time) bool {
	return slices.ContainsFunc(u.Runs, func(r *Run) bool { return r.Earlier && !r.Over() && r.lastEnd().After(now) })
}

// HasExpired reports whether the session's time is over. The caller holds u.Mu.
func (u *Usage) HasExpired(now time.Time) bool {
	most := u.limits.Ends()
	return u.isOpen() && (u.Idle(now) >= most.IdleTimeout || u.awakeFor(now) >= most.Lifetime)
}

// Wake starts the clock of the kernels with the first one, unless GoOn let an earlier time count, and returns its start.
func (u *Usage) Wake() time.Time {
	u.Mu.Lock()
	defer u.Mu.Unlock()
	if !u.awoke {
		u.awoke, u.Awake = true, time.Now()
	}
	return u.Awake
}

// GoOn lets the kernels count from their recorded start, for one of them was reached.
func (u *Usage) GoOn() {
	u.Mu.Lock()
	defer u.Mu.Unlock()
	u.awoke = true
}

// Age is the age of the kernels, as far as this server knows.
func (u *Usage) Age(now time.Time) time.Duration {
	u.Mu.Lock()
	defer u.Mu.Unlock()
	return u.awakeFor(now)
}

// awakeFor is age: an earlier server's time counts only once a kernel of it is reached, for they may all have ended. The caller
// holds u.Mu.
func (u *Usage) awakeFor(now time.Time) time.Duration {
	if !u.awoke {
		return 0
	}
	return now.Sub(u.Awake)
}

// UsedAt sets the last use, if this server opened the session for another reason.
func (u *Usage) UsedAt(then time.Time) {
	u.Mu.Lock()
	defer u.Mu.Unlock()
	u.lastUsed = then
}

// TouchLast records the last use in the lock.
func (u *Usage) TouchLast() {
	u.Mu.Lock()
	defer u.Mu.Unlock()
	u.touchLock(u.lastUsed)
}

// BeginClosing ends the use of the session, and reports whether it did: false if another call did before, or if only returns
// false; only may be nil. Nothing begins between its answer and the closing.
func (u *Usage) BeginClosing(only func() bool) bool {
	u.Mu.Lock()
	defer u.Mu.Unlock()
	if u.closing || only != nil && !only() {
		return false
	}
	u.closing = true
	return true
}

// Locked calls do, which needs the session's lock; it does nothing while the session is closing.
func (u *Usage) Locked(do func() error) error {
	u.Mu.Lock()
	defer u.Mu.Unlock()
	if u.closing {
		return nil
	}
	return do()
}

// IsBusy reports whether something goes on in the session.
func (u *Usage) IsBusy() bool {
	u.Mu.Lock()
	defer u.Mu.Unlock()
	return u.Active > 0
}

// IsClosing reports whether BeginClosing was called.
func (u *Usage) IsClosing() bool {
	u.Mu.Lock()
	defer u.Mu.Unlock()
	return u.closing
}

// CloseHistory writes the queued rest of the history.
func (u *Usage) CloseHistory() {
	if err := u.History.Close(); err != nil {
		u.rules.Logger.Warn("history", "session", u.id, "error", err)
	}
}

// Times returns the session's beginning and its last use.
func (u *Usage) Times() (created, lastUsed time.Time) {
	u.Mu.Lock()
	defer u.Mu.Unlock()
	if u.Active > 0 {
		return u.Created, time.Now()
	}
	return u.Created, u.lastUsed
}

// ErrBeingClosed refuses a use of a session that is being closed.
func ErrBeingClosed(id string) *fault.Error {
	return fault.New(fault.SessionBusy, "Wait a second and try again, or use another session_id.",
		"Session %q is being closed.", id).Because(ErrClosing)
}

// RecordLooked writes to the history which runs changed no variable.
func (u *Usage) RecordLooked(runs []string) {
	did := make(map[string]history.Did)
	for _, id := range runs {
		did[id] = history.Did{Looked: true}
	}
	u.History.Did(did)
}

// RecordDid writes to the history what runs did to files.
func (u *Usage) RecordDid(v *protocol.Versions) {
	did := make(map[string]history.Did)
	for _, d := range v.Did {
		f := history.Files{Added: max(d.Added, 0), Changed: max(d.Changed, 0), Removed: max(d.Removed, 0)}
		for _, t := range d.Paths {
			f.Paths = append(f.Paths, history.Touched{Path: u.rules.Mask.Mask(text.Safe(t.Path, MaxName)), How: text.Safe(t.How, MaxName)})
		}
		for _, id := range d.Runs {
			one := f
			one.With = slices.DeleteFunc(slices.Clone(d.Runs), func(other string) bool { return other == id })
			did[id] = history.Did{Files: &one}
		}
	}
	u.History.Did(did)
}
