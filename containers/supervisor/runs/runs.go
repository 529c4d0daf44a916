//go:build linux

// Package runs has the runs of code and the programs of servers, from their requests to the end of their leftovers.
package runs

import (
	"cmp"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/bounds"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/guard"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/kernels"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/loop"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/parts"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/process"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/procs"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/programwire"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
)

// mostFresh is how many fresh runs go on at a time.
const mostFresh = 16

// Runs has the runs and programs that go on, beside the kernels. The loop owns it.
type Runs struct {
	*kernels.Set
	all       map[string]*run
	ended     map[*kernels.Language]*ended
	started   process.Programs              // by servers
	programs  map[*programwire.Start]string // of these, and what versions of files know them by; empty: they change none
	begun     int                           // programs so far
	pages     map[string]time.Time          // in output/ at the end of the last run, which it may have changed, and when they were
	restoring bool                          // no run and no program begins before that is over
	held      []*held                       // runs and programs to begin, in the order in which they came
	over      func()                        // called when a run is over
}

// New makes them, and their kernels.
func New(p *parts.Parts, programs []kernels.Program, over func()) *Runs {
	rs := &Runs{all: map[string]*run{}, ended: map[*kernels.Language]*ended{}, programs: map[*programwire.Start]string{}, over: over}
	rs.Set = kernels.New(p, rs, programs)
	for _, l := range rs.Languages() {
		rs.ended[l] = &ended{}
	}
	p.Memory.Guard(rs, append(rs.Consumers(), guard.Consumer{Name: "programs", Add: rs.started.Add, LetGo: func() bool { return false }}))
	return rs
}

// All are the runs that go on.
func (rs *Runs) All() (all []kernels.Run) {
	for _, r := range rs.all {
		all = append(all, r)
	}
	return all
}

// KeepBackground takes a kernel's own output for a run that is over.
func (rs *Runs) KeepBackground(l *kernels.Language, id string, stream int, data []byte) {
	rs.ended[l].keepBackground(id, stream, data)
}

// HasRuns reports whether a run goes on.
func (rs *Runs) HasRuns() bool { return len(rs.all) > 0 }

// IsIdle reports whether no run and no program goes on.
func (rs *Runs) IsIdle() bool { return len(rs.all)+len(rs.programs) == 0 }

// IsWaitedFor reports whether a run goes on, or something is to begin.
func (rs *Runs) IsWaitedFor() bool { return len(rs.all)+len(rs.held) > 0 }

// IsRestoring reports whether files or variables go back.
func (rs *Runs) IsRestoring() bool { return rs.restoring }

// SetRestoring holds runs and programs back meanwhile.
func (rs *Runs) SetRestoring(on bool) { rs.restoring = on }

// KeepVariables says why no variables may go back now.
func (rs *Runs) KeepVariables() string {
	if rs.restoring || len(rs.held) > 0 {
		return "a run or another restore goes on in this session"
	}
	return ""
}

// KeepFiles says why no files may go back now.
func (rs *Runs) KeepFiles() string {
	for _, id := range rs.programs {
		if id != "" {
			return "a command or an operation of a client goes on in this session"
		}
	}
	if len(rs.all) > 0 || rs.IsRetiring() {
		return "a run or another restore goes on in this session"
	}
	return rs.KeepVariables()
}

// held is a run or a program that begins when what it does can be undone.
type held struct {
	protocol.Request // a run's
	begin            func()
	changes          bool // files
	all              bool // it is of all languages
	limit            *loop.Timer
	late             bool
}

// mostHeld bounds its wait for copies.
const mostHeld = 10 * time.Second

// Begin takes a request for a run.
func (rs *Runs) Begin(m protocol.Request) {
	m.Fresh = m.Fresh || m.Copy // it runs as those do
	if !rs.Settings.AreKnown() || rs.Settings.Spare || m.ID == "" || rs.all[m.ID] != nil || rs.heldAt(m.ID) >= 0 {
		rs.Server.Log("warn", "a run without an id, before init or bind, or of an id that goes on was ignored")
		return
	}
	if t := rs.endedOf(m.ID); t != nil { // a server that missed its end sends it again
		t.record.replay()
		return
	}
	rs.held = append(rs.held, &held{Request: m, begin: func() { rs.begin(m) }, changes: true})
}

// BeginHeld begins what need not wait any more. The loop calls it after each event.
func (rs *Runs) BeginHeld() {
	all := rs.held
	rs.held = nil
	for _, m := range all {
		if rs.mustWait(m) {
			rs.held = append(rs.held, m)
			continue
		}
		m.limit.Stop()
		m.begin()
	}
}

// mustWait reports whether one must wait: for the end of a restore, or for copies of the files and variables before it.
func (rs *Runs) mustWait(m *held) bool {
	if rs.restoring || m.late {
		return rs.restoring
	}
	files := m.changes && rs.Undo.IsLooking()
	var copying []*kernels.Language
	for _, l := range rs.Languages() {
		if (m.all || l.Name == m.Language && !m.Fresh) && l.IsCopying() {
			copying = append(copying, l)
		}
	}
	waits := files || len(copying) > 0
	if waits && m.limit == nil {
		m.limit = rs.After(mostHeld, func() {
			m.late = true
			for _, l := range copying {
				l.GiveUpCopy()
			}
		})
	}
	return waits
}

// Hold calls a function when all that there is can be gone back to, as before a run.
func (rs *Runs) Hold(begin func()) {
	rs.held = append(rs.held, &held{begin: begin, changes: true, all: true})
}

// begin answers a request that no run can begin for; else it makes one, and finds it a kernel.
func (rs *Runs) begin(m protocol.Request) {
	l := rs.Language(m.Language)
	if name, why := rs.refuses(l, m); name != "" {
		rs.refuse(l, m.ID, name, why, "")
		return
	}
	if why := rs.Disk.Refuses(); why != "" {
		rs.refuse(l, m.ID, "QuotaExceeded", why, "full")
		return
	}
	if len(rs.all) == 0 {
		rs.Disk.ExpectRun()
	}
	r := newRun(rs, l, m)
	r.start = rs.Dir.Scanner().Begin()
	rs.all[r.ID] = r
	rs.Undo.Begin(r.ID)
	l.Begin(r)
	for _, other := range rs.all { // programs that are in no kernel's session may be either's
		if other != r && other.l == l {
			other.overlaps, r.overlaps = true, true
		}
	}
	r.SetClock(true)
	r.set("progress", time.Second, r.onProgress)
	l.Provide(r)
}

func (rs *Runs) heldAt(id string) int {
	return slices.IndexFunc(rs.held, func(m *held) bool { return m.ID == id })
}

// cancelHeld answers a run that did not begin, if there is one of this id.
func (rs *Runs) cancelHeld(id string) {
	i := rs.heldAt(id)
	if i < 0 {
		return
	}
	m := rs.held[i]
	m.limit.Stop()
	rs.held = slices.Delete(rs.held, i, i+1)
	rs.answerUnbegun(rs.Language(m.Language), protocol.Done{ID: id, Status: "cancelled", ExitCode: 130})
}

// refuses returns the error that a request is answered with at once, or an empty name.
func (rs *Runs) refuses(l *kernels.Language, m protocol.Request) (name, why string) {
	switch {
	case l == nil:
		return "NoSuchLanguage", "this container has no kernel of the language " + bounds.Clean(m.Language, bounds.MaxNamed)
	case rs.IsRetiring():
		return "SessionBusy", "the container is ending"
	case !m.Fresh && l.IsBusy():
		return "SessionBusy", "another run goes on in this kernel"
	case m.Fresh && rs.fresh() >= mostFresh:
		return "SessionBusy", fmt.Sprintf("%d fresh runs and copies go on here, and there may be no more", mostFresh)
	case m.Copy && !l.HasZygote:
		return "CopyError", "only Python's variables can be copied; a run with fresh: true leaves them as they are"
	case rs.Disk.IsBroken() != "":
		return "WorkDirectoryError", rs.Disk.IsBroken()
	}
	return "", ""
}

// fresh counts the fresh runs, in all languages.
func (rs *Runs) fresh() (n int) {
	for _, r := range rs.all {
		if r.Fresh {
			n++
		}
	}
	return n
}

func (rs *Runs) refuse(l *kernels.Language, id, name, message, cause string) {
	rs.answerUnbegun(l, protocol.Done{ID: id, Status: "failed", ExitCode: 1, Error: &protocol.Error{Name: name, Message: message}, Cause: cause})
}

// answerUnbegun answers a run whose code never began.
func (rs *Runs) answerUnbegun(l *kernels.Language, d protocol.Done) {
	d.Type, d.ID, d.Kernel = "done", bounds.Clean(d.ID, 64), "alive"
	if l == nil || !l.HasMain() {
		d.Kernel = "dead"
	}
	d.Artifacts, d.Background, d.GoesOn = []protocol.Artifact{}, []protocol.Background{}, []string{}
	rs.Server.Send(&d, false)
}

// The guards ---------------------------------------------------------------------------

// StopRuns stops the runs, which took the files over their limit.
func (rs *Runs) StopRuns(why string) {
	for _, r := range rs.all {
		r.over = why
		r.interrupt("quota")
	}
}

// EndAll ends every process of the session's code, and frees the files that they hold.
func (rs *Runs) EndAll(why string) {
	procs.MustKill(rs.Programs)
	for _, r := range rs.all {
		r.over, r.reason = why, cmp.Or(r.reason, "quota")
		if r.kernel == nil {
			r.finishKilled("quota")
		}
	}
	rs.EndAsFull()
}

// StopLargest stops the run or program that has taken the most; one at a time, as that may be enough: its memory is free a little later
// than its end. What a kernel held when its run began is not that run's.
func (rs *Runs) StopLargest() time.Duration {
	var stop func()
	most := int64(-1)
	table := procs.Read()
	for _, r := range rs.all {
		if r.reason == "memory" {
			return leaveWait
		}
		if r.kernel == nil {
			continue
		}
		pid := r.kernel.PID()
		if takes := procs.Anonymous(pid) - r.held + table.Anonymous(table.Owned(pid)); stop == nil || takes > most {
			stop, most = func() { r.stopForMemory(table) }, takes
		}
	}
	for _, p := range rs.started.Running() {
		if takes := table.Anonymous(p.Processes(table)); stop == nil || takes > most {
			stop, most = func() { p.Stop(programwire.CauseMemory) }, takes
		}
	}
	if stop == nil {
		return 0
	}
	stop()
	return leaveWait
}

// stopForMemory interrupts a run, unless it is on its way out.
func (r *run) stopForMemory(table procs.Table) {
	if r.reason != "" {
		return
	}
	r.memory = r.rs.Memory.LastUsage(table) // not by a new look: the code goes on to take memory meanwhile
	if r.kernel.IsWaking() {
		r.kernel.Kill("memory") // it did not begin: another kernel gets it, without the snapshot
		return
	}
	r.interrupt("memory")
}

// Of the container ---------------------------------------------------------------------

// Interrupt stops a run, or one that is to begin.
func (rs *Runs) Interrupt(m protocol.Request) {
	r := rs.all[m.ID]
	switch {
	case r == nil:
		rs.cancelHeld(m.ID)
	case m.Reason == "timed_out":
		r.interrupt(m.Reason)
	default:
		r.interrupt("cancelled")
	}
}

// Peek sends a run's output so far.
func (rs *Runs) Peek(id string) {
	if r := rs.all[id]; r != nil {
		r.peek()
	} else if rs.heldAt(id) >= 0 {
		rs.Server.Send(protocol.Peek{Type: "peek", ID: id}, true)
	}
}

// Greet begins a connection.
func (rs *Runs) Greet() {
	m := protocol.Attached{Type: "attached", Protocol: protocol.Version, Runs: []string{}, Over: []string{}}
	for id := range rs.all {
		m.Runs = append(m.Runs, id)
	}
	for _, held := range rs.held {
		if held.ID != "" { // else it is a program
			m.Runs = append(m.Runs, held.ID)
		}
	}
	for _, l := range rs.Languages() {
		m.Languages = append(m.Languages, protocol.Started{Language: l.Name, Started: l.HasRun()})
		for _, t := range rs.ended[l].last {
			m.Over = append(m.Over, t.id)
		}
	}
	rs.Server.Send(m, false)
	for _, l := range rs.Languages() {
		l.SendState()
	}
}

// Replay sends a later server what the one before may have missed.
func (rs *Runs) Replay() {
	for _, l := range rs.Languages() {
		rs.ended[l].replay()
	}
	for _, r := range rs.all {
		r.record.replay()
	}
	for _, l := range rs.Languages() {
		l.Tell(true)
	}
	rs.Undo.Tell(true)
}

// endedOf returns a run of the last ones that are over; nil: it is none.
func (rs *Runs) endedOf(id string) *trail {
	for _, e := range rs.ended {
		for _, t := range e.last {
			if t.id == id {
				return t
			}
		}
	}
	return nil
}

// Exited is called when a process has ended.
func (rs *Runs) Exited(pid int, status syscall.WaitStatus) {
	rs.started.Exited(pid, status)
	rs.Set.Exited(pid, status)
}

// End ends all that is left, as the container ends: fresh runs, and those that waited for the variables to be written.
func (rs *Runs) End() {
	for _, r := range rs.all {
		r.reason = cmp.Or(r.reason, "cancelled")
		r.finishKilled("")
	}
}
