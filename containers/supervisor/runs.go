//go:build linux

package main

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/kernelproc"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/procs"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
)

// mostFresh is how many fresh runs go on at a time.
const mostFresh = 16

// runs keeps the runs that go on.
type runs struct {
	s         *Supervisor
	all       map[string]*run
	restoring bool               // no run begins before that is over
	held      []protocol.Request // runs that came meanwhile
}

// begin answers a request that no run can begin for; else it makes one, and finds it a kernel.
func (rs *runs) begin(m protocol.Request) {
	s := rs.s
	m.Fresh = m.Fresh || m.Copy // it runs as those do
	if s.settings == nil || s.settings.Spare || m.ID == "" || rs.all[m.ID] != nil {
		s.log("warn", "a run without an id, before init or bind, or of an id that goes on was ignored")
		return
	}
	if t := s.over(m.ID); t != nil { // a server that missed its end sends it again
		t.record.replay()
		return
	}
	if rs.restoring {
		rs.held = append(rs.held, m)
		return
	}
	l := s.language(m.Language)
	if name, why := rs.refuses(l, m); name != "" {
		rs.refuse(l, m.ID, name, why, "")
		return
	}
	if s.guard != nil {
		if why := s.guard.refuses(); why != "" {
			rs.refuse(l, m.ID, "QuotaExceeded", why, "full")
			return
		}
		if len(rs.all) == 0 {
			s.guard.expectRun()
		}
	}
	l.use()
	l.ran = true
	r := newRun(l, m)
	if s.workDir.scanner != nil {
		r.mark = s.workDir.scanner.Begin()
	}
	rs.all[r.ID] = r
	s.undo.begin(r.ID)
	if !r.Fresh {
		l.kept = r
	}
	for _, other := range rs.all { // programs that are in no kernel's session may be either's
		if other != r && other.l == l {
			other.overlaps, r.overlaps = true, true
		}
	}
	r.startTimeout()
	r.set("progress", time.Second, r.onProgress)
	rs.provide(r)
}

// cancelHeld answers a run that waits for the end of a restore, if there is one of this id.
func (rs *runs) cancelHeld(id string) {
	i := slices.IndexFunc(rs.held, func(m protocol.Request) bool { return m.ID == id })
	if i < 0 {
		return
	}
	m := rs.held[i]
	rs.held = slices.Delete(rs.held, i, i+1)
	rs.answerUnbegun(rs.s.language(m.Language), protocol.Done{ID: id, Status: "cancelled", ExitCode: 130})
}

// goOn lets the held runs begin.
func (rs *runs) goOn() {
	held := rs.held
	rs.restoring, rs.held = false, nil
	for _, m := range held {
		rs.begin(m)
	}
}

// refuses returns the error that a request is answered with at once, or an empty name.
func (rs *runs) refuses(l *language, m protocol.Request) (name, why string) {
	switch s := rs.s; {
	case l == nil:
		return "NoSuchLanguage", "this container has no kernel of the language " + clean(m.Language, maxNamed)
	case s.retiring:
		return "SessionBusy", "the container is ending"
	case !m.Fresh && l.kept != nil:
		return "SessionBusy", "another run goes on in this kernel"
	case m.Fresh && rs.fresh() >= mostFresh:
		return "SessionBusy", fmt.Sprintf("%d fresh runs and copies go on here, and there may be no more", mostFresh)
	case m.Copy && !l.HasZygote:
		return "CopyError", "only Python's variables can be copied; a run with fresh: true leaves them as they are"
	case s.guard == nil && s.settings.hasVolumeLimit():
		return "WorkDirectoryError", "the work directory cannot be used, so its limit could not be kept"
	}
	return "", ""
}

// fresh counts the fresh runs, in all languages.
func (rs *runs) fresh() (n int) {
	for _, r := range rs.all {
		if r.Fresh {
			n++
		}
	}
	return n
}

func (rs *runs) refuse(l *language, id, name, message, cause string) {
	rs.answerUnbegun(l, protocol.Done{ID: id, Status: "failed", ExitCode: 1, Error: &protocol.Error{Name: name, Message: message}, Cause: cause})
}

// answerUnbegun answers a run whose code never began.
func (rs *runs) answerUnbegun(l *language, d protocol.Done) {
	d.Type, d.ID, d.Kernel = "done", clean(d.ID, 64), "alive"
	if l == nil || l.main == nil {
		d.Kernel = "dead"
	}
	d.Artifacts, d.Background, d.GoesOn = []protocol.Artifact{}, []protocol.Background{}, []string{}
	rs.s.server.send(&d, false)
}

// standbyWait is how long a run waits for a kernel that is being forked.
const standbyWait = 500 * time.Millisecond

// provide hands a run to the main kernel, to one from the reserve or to a new one, or makes it wait for one of them.
func (rs *runs) provide(r *run) {
	l := r.l
	if !r.Fresh && l.frozen.kernel != nil {
		r.timers["timeout"].stop()
		return // that is the main one, and the run waits for the end of it
	}
	if !r.Fresh && l.main != nil {
		if !l.main.isEnding() { // else the run waits for its end, and for the next one
			r.handOver(l.main)
		}
		return
	}
	if r.Copy && rs.provideCopy(r) {
		return
	}
	if k := l.reserve.take(); k != nil {
		rs.adopt(r, k)
	} else if l.reserve.isPromising() {
		r.set("standby wait", standbyWait, func() { l.reserve.giveUp(r) })
	} else {
		rs.adoptNew(r)
	}
}

// provideCopy makes a run wait for a copy of the main kernel, forked when that is idle, or from its twin during a run. It
// reports whether there is a kernel to copy: the variables may still be in the snapshot.
func (rs *runs) provideCopy(r *run) bool {
	l := r.l
	if l.main == nil && l.frozen.isThere() {
		l.start()
	}
	main := l.main
	if main == nil {
		return false
	}
	if main.isEnding() {
		return true // its end asks again, and so does the end of other obstacles
	}
	l.frozen.wake(main, r)
	if !l.twins.isComing(r) {
		l.twins.order(r)
	}
	return true
}

// provideWaiting tries again to provide kernels for the waiting runs.
func (rs *runs) provideWaiting() {
	for _, r := range rs.all {
		if r.kernel == nil {
			r.timers["standby wait"].stop()
			rs.provide(r)
		}
	}
}

func (rs *runs) adoptNew(r *run) {
	k, err := r.l.spawn()
	if err == nil {
		rs.adopt(r, k)
		return
	}
	name := "KernelStartError"
	if errors.Is(err, kernelproc.ErrNoInterpreter) {
		name = "NoInterpreter"
	}
	r.finish(&protocol.Done{
		Status: "failed", ExitCode: 1, Kernel: r.fate("dead"), Error: &protocol.Error{Name: name, Message: "no interpreter could be started: " + err.Error()},
	})
}

func (rs *runs) adopt(r *run, k *kernel) {
	if r.Fresh {
		r.before = procs.Read()
		delete(r.before, k.pid)
	} else {
		r.l.main = k
	}
	r.handOver(k)
	r.l.reserve.prepare()
}

// stopLargest interrupts the run whose kernel takes the most, with its programs; one at a time, as that may be enough.
func (rs *runs) stopLargest() {
	var largest *run
	most := int64(-1)
	table, memory := procs.Read(), rs.s.memory
	for _, r := range rs.all {
		if r.reason == "memory" {
			memory.patient = time.Now().Add(leaveWait) // its memory is free a little later than its end
			return
		}
		if r.kernel == nil {
			continue
		}
		takes := procs.Anonymous(r.kernel.pid)
		for pid := range ownedBy(table, r.kernel.pid) {
			takes += procs.Anonymous(pid)
		}
		if takes > most {
			largest, most = r, takes
		}
	}
	if largest == nil || largest.reason != "" { // it is on its way out
		return
	}
	memory.patient = time.Now().Add(leaveWait) // also where it ends before the next look: its pages are given back a little later
	// Not by a new look: the code goes on to take memory meanwhile.
	largest.memory = memory.lastUsage(table)
	if largest.kernel == largest.l.frozen.waking {
		largest.kernel.kill("memory") // it did not begin: another kernel gets it, without the snapshot
		return
	}
	largest.interrupt("memory")
}

func (rs *runs) of(k *kernel) *run {
	for _, r := range rs.all {
		if r.kernel == k {
			return r
		}
	}
	return nil
}

// isAlone reports whether no other kernel has variables or a run.
func (rs *runs) isAlone(k *kernel) bool {
	for _, other := range rs.s.mains() {
		if other != k && other.begun {
			return false
		}
	}
	for _, r := range rs.all {
		if r.kernel != nil && r.kernel != k {
			return false
		}
	}
	return true
}
