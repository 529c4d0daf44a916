//go:build linux

// Package versions keeps earlier states of the files in a session's work directory, and goes back to them. Behind each run a
// [Store] looks at what has changed and copies it aside, so that there is a copy of every file before the next run changes it.
//
// The copies are in the folder versions of the session's state, which is best out of the work directory, where programs would find
// them. The session's code runs as the same user and may change them, and every path, at any moment: it reaches its own files by that
// and nothing else. No link is followed, nothing but regular files is opened, no mount is entered but those that Open is given.
//
// Call [Open] once, then [Store.Begin] and [Store.End] around each run, and [Store.Prepare] and [Plan.Apply] to go back.
// [Store.List], [Store.Read] and [Store.Of] show earlier states.
package versions

import (
	"cmp"
	"os"
	"slices"
	"sort"
	"strings"
	"sync"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/artifacts"
	"golang.org/x/sys/unix"
)

const (
	mostRuns    = 100    // that changed files and can be undone
	mostPast    = 400    // versions of these, of restores, and of runs that changed nothing
	mostChanges = 30_000 // in all versions but the last
	mostDid     = 12     // versions in a report
	mostID      = 64     // bytes of a run's id
	mostFiles   = 10_000 // that are copied behind one run
	mostNamed   = 20     // paths in a report
)

// Named is a path, and why its content is not kept or was not restored.
type Named struct{ Path, Why string }

// Info describes what a store could restore.
type Info struct {
	// Runs are those whose beginning the files can go back to, the oldest first.
	Runs []string
	// NotKept are files whose present content has no copy, at most 20, of NotKeptTotal.
	NotKept      []Named
	NotKeptTotal int
	// Did is what the last runs did, the oldest first.
	Did []Did
	// Gone are the paths in Did that are not there now.
	Gone []string
	// Pins are the newest last; later ones have at least the number Upcoming.
	Pins     []Pin
	Upcoming int
}

// A Store keeps the versions of one work directory. Its methods may be called by several goroutines at once; only Prepare and
// Apply wait for files.
type Store struct {
	limit   int64
	changed func(Info)
	clock   artifacts.Clock

	mu      sync.Mutex
	more    sync.Cond
	queue   []func()
	walks   int           // looks at the files that were asked for and are not done
	settled chan struct{} // closed when there are none, and nothing is left to be copied
	open    bool          // which it is not yet
	stop    bool          // the present look is given up, because a run has begun
	running int
	mark    int64 // when the first run began since the last look, by the clock that stamps files; 0: none did
	ended   int64 // when the last run or restore ended, by that clock; 0: it is not known
	begun   map[string]beginning
	next    int                 // the number of the next version
	blind   bool                // runs ended behind which the files were not looked at yet
	crash   func(step int) bool // for tests: whether a restore ends before a step
	drop    bool                // everything is to be dropped
	owed    bool                // mounted folders that told of no change are to be looked at all the same
	free    int64               // bytes that the work directory may still take
	user    uint32              // as whom the session's code runs
	lost    []string            // pins that were dropped, untold
	hasPins bool                // as was told last

	// The rest belongs to the worker.
	files
	passed   int64      // what the clock has shown last
	versions []*version // the oldest first
	pins     []Pin      // likewise
	repinned bool       // the log does not have them as they are
	pending  []past     // runs that ended without a look
	unseen   bool       // the last look was given up
	over     bool       // nothing is kept any more
	todo     []*entry   // files to be copied
	copies   copies
	logged   int   // versions that the log has
	logSize  int64 // 0: it is to be written anew
	slack    int64 // a longer log is written anew
}

// beginning is where a run began.
type beginning struct {
	next  int  // the number of the first version with its changes
	exact bool // that version has no changes from before: no look was missed, and no other run went on
}

// past is a run that is over.
type past struct {
	Run   string `json:"run"`
	Next  int    `json:"next"`
	Exact bool   `json:"exact"`
	// Back: it was a restore.
	Back bool `json:"back,omitempty"`
}

// version is what changed between two looks. Without runs it is what others brought, which going back leaves.
type version struct {
	Number int      `json:"number"`
	Runs   []past   `json:"runs"`
	Before []change `json:"before"`
	Did    *Did     `json:"did,omitempty"`
}

// Open returns the store of the work directory dir, a descriptor that stays the caller's and open, in the folder at the path state. It
// goes on with a restore that was cut short, and looks at the files. Limit is how many bytes the copies may take together. Changed is called by another
// goroutine when the description of the store has changed. Mounts are paths in the directory at which folders of the machine are mounted:
// their files have versions too.
func Open(dir int, state string, limit int64, changed func(Info), mounts ...string) *Store {
	s := &Store{
		limit: limit, changed: changed, clock: artifacts.NewClock(dir), begun: map[string]beginning{},
		files: files{dir: dir, now: map[string]*entry{}, dirty: map[string]bool{}}, free: limit, copies: copies{work: dir, state: state, folder: -1},
	}
	s.more.L, s.user = &s.mu, uint32(os.Geteuid())
	s.openMounts(mounts)
	s.look(func() { s.load(); s.seen() })
	go s.work()
	if unix.Faccessat(unix.AT_FDCWD, state+"/"+folder+"/"+journalName, unix.F_OK, unix.AT_SYMLINK_NOFOLLOW) == nil {
		<-s.Settled() // a restore goes on to its end before anything else changes
	}
	return s
}

// look queues a function that begins with a look at the files.
func (s *Store) look(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.open {
		s.settled, s.open = make(chan struct{}), true
	}
	s.walks++
	s.stop = false
	s.queue = append(s.queue, f)
	s.more.Signal()
}

// do queues a function, and waits for its end.
func (s *Store) do(f func()) {
	done := make(chan struct{})
	s.mu.Lock()
	s.queue = append(s.queue, func() { f(); close(done) })
	s.more.Signal()
	s.mu.Unlock()
	<-done
}

// work runs the queued functions, and copies files while there are none.
func (s *Store) work() {
	for {
		s.mu.Lock()
		for len(s.queue) == 0 && len(s.todo) == 0 && !s.drop && (!s.owed || s.running > 0) {
			s.more.Wait()
		}
		var f func()
		drop := s.drop
		if len(s.queue) > 0 && !drop {
			f, s.queue = s.queue[0], s.queue[1:]
		}
		s.mu.Unlock()
		switch {
		case drop:
			s.dropAll()
		case f != nil:
			f()
		case len(s.todo) > 0:
			s.keepTodo()
		default:
			s.lookOwed(s.isFree)
		}
		if len(s.todo) == 0 {
			s.settle()
			s.finish()
		}
	}
}

// Settled returns a channel that is closed when the files behind the last run are known and copied, as far as they can be: what a run
// does that begins then can be undone.
func (s *Store) Settled() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.settled
}

func (s *Store) settle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open && s.walks == 0 {
		close(s.settled)
		s.open = false
	}
}

// isWanted reports whether the worker should leave what it copies.
func (s *Store) isWanted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.queue) > 0 || s.drop
}

// Begin says that a run begins. A look at the files that is not done by then is given up.
func (s *Store) Begin(run string) {
	mark, _ := s.clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stop = s.walks > 0
	s.begun[run] = beginning{s.next, s.walks == 0 && !s.blind && s.running == 0}
	s.running++
	if s.mark == 0 {
		s.mark = int64(mark)
	}
}

// End says that a run is over, and has what it changed copied. Free is how many bytes the work directory may take besides.
func (s *Store) End(run string, free int64) {
	s.markEnd()
	s.mu.Lock()
	b, known := s.begun[run]
	if !known {
		s.mu.Unlock()
		return
	}
	delete(s.begun, run)
	s.running--
	s.free = free
	number := s.next
	s.next++
	s.mu.Unlock()
	s.look(func() { s.capture(number, past{Run: run, Next: b.next, Exact: b.exact}) })
}

// markEnd notes that a run or a restore is over: what changes from now on in mounted folders is of others.
func (s *Store) markEnd() {
	mark, isKnown := s.clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended = int64(mark); !isKnown {
		s.ended = 0
	}
}

// EndOther says that something else than a run is over that began as one does, such as a program of a client. What it changed counts as
// noted, or as changed by a run that still goes on.
func (s *Store) EndOther(id string) {
	s.mu.Lock()
	_, known := s.begun[id]
	delete(s.begun, id)
	if known {
		s.running--
	}
	s.mu.Unlock()
	if known {
		s.Note()
	}
}

// Note says that somebody else than a run, such as an upload, has changed the files at these paths. Going back before an earlier
// run leaves them. No path means: perhaps all.
func (s *Store) Note(paths ...string) {
	s.mu.Lock()
	idle := s.running == 0
	s.mu.Unlock()
	switch {
	case len(paths) > 0:
		s.look(func() { s.note(paths) })
	case idle:
		s.look(func() {
			changes, complete := s.changes()
			if complete && len(s.pending) == 0 {
				s.bring(changes)
			}
			s.follow(changes, complete)
			s.seen()
		})
	}
}

// GiveWay has all versions dropped, since the work directory is full, and reports whether there are any.
func (s *Store) GiveWay() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop = s.drop || s.copies.total.Load() > 0 || s.hasPins
	s.more.Signal()
	return s.drop
}

// seen says that a look is over.
func (s *Store) seen() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.walks--
	s.blind = s.unseen
}

// changes looks at all files, and returns what was at the paths where something else is now. Complete is false, and nothing is
// changed, if a run began or not everything was seen.
func (s *Store) changes() (before []change, complete bool) { return s.changesIn(true) }

// changesIn looks at the mounted folders, and at the work directory if asked. A mounted folder that is not seen has no changes.
func (s *Store) changesIn(work bool) (before []change, complete bool) {
	s.mu.Lock()
	s.mark = 0
	s.mu.Unlock()
	s.round++
	var found []*entry
	if work {
		l, complete := s.see(nil, s.goesOn)
		if s.unseen = !complete; s.unseen {
			return nil, false
		}
		found = l.found
	}
	for _, m := range s.mounts {
		if m.skipped = m.why == "" && !m.mayHaveChanged(); m.skipped {
			continue
		}
		if l, complete := s.see(m, s.goesOn); complete {
			found = append(found, l.found...)
		}
	}
	if len(s.mounts) > 0 && !s.goesOn() {
		s.unseen = true
		return nil, false
	}
	for _, m := range s.mounts {
		m.told.Store(false) // one that was not seen is looked at again anyway
	}
	for _, e := range found {
		before = append(before, s.set(e.path, e))
	}
	for path, e := range s.now {
		if e.round == s.round {
			continue
		}
		if m := s.mountOf(path); m == nil && work || m != nil && m.why == "" && !m.skipped {
			before = append(before, s.set(path, nil))
		}
	}
	return before, true
}

// note takes the files at paths as they are, with the folders that they are in.
func (s *Store) note(paths []string) {
	var brought []change
	for _, path := range paths {
		for at := 0; at <= len(path); at++ {
			if at == len(path) || path[at] == '/' {
				brought = append(brought, s.notePath(path[:at], at == len(path))...)
			}
		}
	}
	s.bring(brought)
	s.seen()
	s.followUp(true)
}

// capture looks at the files behind a run.
func (s *Store) capture(number int, run past) {
	s.pending = append(s.pending, run)
	changes, complete := s.changes()
	s.mu.Lock()
	for _, m := range s.mounts {
		s.owed = s.owed || complete && m.skipped
	}
	s.mu.Unlock()
	if complete {
		s.addVersion(number, changes)
	}
	s.seen()
	s.followUp(complete)
}

// followUp orders the copying behind a look.
func (s *Store) followUp(complete bool) {
	if complete {
		s.prune()
	}
	if complete && !s.over {
		s.plan()
	}
	s.tell()
}

// GiveUp removes all that is kept, and keeps nothing any more: what others bring to its place is for the next process.
func (s *Store) GiveUp() {
	s.do(func() {
		if s.over = true; s.copies.folder < 0 {
			return
		}
		s.dropAll()
		_ = unix.Unlinkat(s.copies.folder, logName, 0)
		s.copies.close()
	})
}

// addVersion ends the pending runs. What others changed beside them is in the version too, so that going back names it.
func (s *Store) addVersion(number int, changes []change) {
	by := s.by(changes)
	others := by(beside | between)
	s.push(&version{number, s.pending, by(runs | beside), s.did(by(runs))})
	s.pending = nil
	s.bring(others)
}

func (s *Store) push(v *version) {
	if n := len(s.versions); n > 0 {
		v.Number = max(v.Number, s.versions[n-1].Number+1)
	}
	s.versions = append(s.versions, v)
}

// bring makes a version of what others have brought.
func (s *Store) bring(changes []change) {
	last := len(s.versions) - 1
	switch {
	case last < 0 || len(changes) == 0:
		return
	case len(s.versions[last].Runs) > 0:
		s.push(&version{Number: s.number()})
		last++
	}
	v, has := s.versions[last], map[string]bool{}
	for _, c := range v.Before {
		has[string(c.Path)] = true
	}
	for _, c := range changes {
		if !has[string(c.Path)] {
			v.Before = append(v.Before, c)
		}
	}
	s.logged = min(s.logged, last) // the log gets it again
}

// rebase takes the files as they are. It reports whether it has seen them all.
func (s *Store) rebase() bool {
	changes, complete := s.changes()
	s.follow(changes, complete)
	return complete
}

// follow makes a version of the changes of pending runs.
func (s *Store) follow(changes []change, complete bool) {
	switch {
	case complete && len(s.pending) > 0:
		s.addVersion(s.number(), changes)
	case complete:
		s.bring(s.by(changes)(between))
	}
	s.followUp(complete)
}

func (s *Store) number() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next++
	return s.next - 1
}

// prune drops the oldest versions that are too many, and pins where these would be.
func (s *Store) prune() {
	old, runs, changes := 0, 0, 0
	for i, v := range slices.Backward(s.versions) {
		changes += len(v.Before)
		if len(v.Before) > 0 && len(v.Runs) > 0 && !v.Runs[0].Back {
			runs++
		}
		if i < len(s.versions)-1 && (runs > mostRuns || changes > mostChanges) || len(s.versions)-i > mostPast {
			old = i + 1
			break
		}
	}
	hasShed := old > 0
	for old = s.shed(old); old > 0; old = s.shed(old) {
		changes = 0
		for _, v := range s.versions[:old] {
			changes += len(v.Before)
		}
		if old <= mostRuns && changes <= mostChanges {
			break
		}
		s.dropPin()
	}
	if hasShed || s.repinned || len(s.dirty) > 0 { // else every copy is needed as before
		s.gather()
	}
}

// gather removes the copies that no version needs.
func (s *Store) gather() {
	if s.copies.total.Load() == 0 {
		return
	}
	needed := map[string]bool{}
	for _, e := range s.now {
		needed[e.ID] = true
	}
	for _, v := range s.versions {
		for _, c := range v.Before {
			if c.Was != nil {
				needed[c.Was.ID] = true
			}
		}
	}
	s.copies.keepOnly(needed)
}

// dropAll removes everything that is kept.
func (s *Store) dropAll() {
	s.versions, s.logged, s.todo = nil, 0, nil
	for len(s.pins) > 0 {
		s.dropPin()
	}
	for _, e := range s.now {
		e.ID, e.Why = "", whyFull
	}
	s.gather()
	s.mu.Lock()
	s.drop = false
	s.mu.Unlock()
	s.rewriteLog()
	s.tell()
}

// oldest is the number of the oldest version.
func (s *Store) oldest() int {
	if len(s.versions) == 0 {
		return 1 << 60
	}
	return s.versions[0].Number
}

// find returns a run whose beginning can be restored, or the place of a pin.
func (s *Store) find(run string) (past, bool) {
	for _, p := range s.pins {
		if p.Key() == run {
			return past{Next: p.Next}, true
		}
	}
	for _, v := range s.versions {
		for _, p := range v.Runs {
			if p.Run == run && p.Next >= s.oldest() {
				return p, p.Exact
			}
		}
	}
	return past{}, false
}

// Info describes the store.
func (s *Store) Info() (info Info) {
	s.do(func() { info = s.info() })
	return info
}

func (s *Store) tell() { s.changed(s.info()) }

func (s *Store) info() Info {
	info := Info{Pins: slices.Clone(s.pins)}
	s.mu.Lock()
	info.Upcoming, s.hasPins = s.next, len(s.pins) > 0
	s.mu.Unlock()
	for _, v := range s.versions {
		var runs []string
		for _, p := range v.Runs {
			if p.Run == "" {
				continue
			}
			runs = append(runs, p.Run)
			if _, ok := s.find(p.Run); ok {
				info.Runs = append(info.Runs, p.Run)
			}
		}
		if v.Did != nil && len(runs) > 0 { // the log of an earlier program may lack it
			did := *v.Did
			did.Runs = runs
			info.Did = append(info.Did, did)
		}
	}
	info.Did = info.Did[max(0, len(info.Did)-mostDid):]
	for _, d := range info.Did {
		for _, t := range d.Paths {
			if s.now[t.Path] == nil {
				info.Gone = append(info.Gone, t.Path)
			}
		}
	}
	info.NotKept, info.NotKeptTotal = s.unkept()
	return info
}

// unkept lists the present files without a copy.
func (s *Store) unkept() ([]Named, int) {
	var list []Named
	for _, e := range s.now {
		if e.isUnkept() && e.Why != "" {
			list = append(list, Named{e.path, e.Why})
		}
	}
	for _, m := range s.mounts {
		if m.why != "" {
			list = append(list, Named{m.path, m.why})
		}
	}
	return firstOf(list)
}

// firstOf bounds a list.
func firstOf(list []Named) ([]Named, int) {
	sort.Slice(list, func(i, j int) bool { return list[i].Path < list[j].Path }) // package slices would be in the program once for each type
	return list[:min(len(list), mostNamed)], len(list)
}

// plan orders the files that are to be copied: those that a person sees first, and the small ones before the large.
func (s *Store) plan() {
	s.todo = nil
	if isNew, err := s.copies.open(); isNew || err != nil {
		s.verify()
	}
	for _, e := range s.now {
		if s.copies.folder < 0 && e.isUnkept() {
			e.Why = ErrFolder.Error()
		} else if e.isUnkept() {
			s.todo = append(s.todo, e)
		}
	}
	sort.Slice(s.todo, func(i, j int) bool {
		a, b := s.todo[i], s.todo[j]
		if a.hidden != b.hidden {
			return b.hidden
		}
		return cmp.Or(cmp.Compare(a.Size, b.Size), strings.Compare(a.path, b.path)) < 0
	})
	for len(s.todo) > mostFiles+len(s.mounts)*mostEntries {
		last := len(s.todo) - 1
		s.todo[last].Why = whyMany
		s.todo = s.todo[:last]
	}
}
