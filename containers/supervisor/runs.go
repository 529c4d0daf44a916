//go:build linux

package main

import (
	"fmt"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/procs"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
)

// mostFresh is how many fresh runs go on at a time.
const mostFresh = 16

// runs keeps the runs that go on.
type runs struct {
	s    *Supervisor
	all  map[string]*run
	kept *run // the one of them that keeps its variables
}

// begin answers a request that no run can begin for; else it makes one, and finds it a kernel.
func (rs *runs) begin(m protocol.Request) {
	s := rs.s
	m.Fresh = m.Fresh || m.Copy // it runs as those do
	switch {
	case s.settings == nil || s.settings.Spare || m.ID == "" || rs.all[m.ID] != nil:
		s.log("warn", "a run without an id, before init or bind, or of an id that goes on was ignored")
		return
	case s.frozen.retiring:
		rs.refuse(m.ID, "SessionBusy", "the container is ending", "")
		return
	case !m.Fresh && rs.kept != nil:
		rs.refuse(m.ID, "SessionBusy", "another run goes on in this kernel", "")
		return
	case m.Fresh && rs.fresh() >= mostFresh:
		rs.refuse(m.ID, "SessionBusy", fmt.Sprintf("%d fresh runs and copies go on here, and there may be no more", mostFresh), "")
		return
	case m.Copy && !s.language.HasZygote:
		rs.refuse(m.ID, "CopyError", "only Python's variables can be copied; a run with fresh: true leaves them as they are", "")
		return
	case s.guard == nil && s.settings.hasVolumeLimit():
		rs.refuse(m.ID, "WorkDirectoryError", "the work directory cannot be used, so its limit could not be kept", "")
		return
	}
	if s.guard != nil {
		if why := s.guard.refuses(); why != "" {
			rs.refuse(m.ID, "QuotaExceeded", why, "full")
			return
		}
		if len(rs.all) == 0 {
			s.guard.expectRun()
		}
	}
	r := newRun(s, m)
	if s.scanner != nil {
		r.mark = s.scanner.Begin()
	}
	rs.all[r.ID] = r
	if !r.Fresh {
		rs.kept = r
		rs.overlap()
	} else {
		r.overlaps = rs.kept != nil
	}
	r.startTimeout()
	r.set("progress", time.Second, r.onProgress)
	rs.provide(r)
}

func (rs *runs) fresh() int {
	if rs.kept != nil {
		return len(rs.all) - 1
	}
	return len(rs.all)
}

// overlap marks the current fresh runs: programs started from now on may be another run's.
func (rs *runs) overlap() {
	for _, r := range rs.all {
		r.overlaps = r.Fresh
	}
}

func (rs *runs) refuse(id, name, message, cause string) {
	fate := "alive"
	if rs.s.kernels.main == nil {
		fate = "dead"
	}
	rs.s.server.send(&protocol.Done{
		Type: "done", ID: clean(id, 64), Status: "failed", ExitCode: 1, Error: &protocol.Error{Name: name, Message: message},
		Artifacts: []protocol.Artifact{}, Cause: cause, Kernel: fate, Background: []protocol.Background{}, GoesOn: []string{},
	}, false)
}

// standbyWait is how long a run waits for a kernel that is being forked.
const standbyWait = 500 * time.Millisecond

// provide hands a run to the main kernel, to one from the reserve or to a new one, or makes it wait for one of them.
func (rs *runs) provide(r *run) {
	s := rs.s
	if !r.Fresh && s.frozen.kernel != nil {
		r.timers["timeout"].stop()
		return // that is the main one, and the run waits for the end of it
	}
	if !r.Fresh && s.kernels.main != nil {
		if !s.kernels.main.isEnding() { // else the run waits for its end, and for the next one
			r.handOver(s.kernels.main)
		}
		return
	}
	if r.Copy && rs.provideCopy(r) {
		return
	}
	if k := s.reserve.take(); k != nil {
		rs.adopt(r, k)
	} else if s.reserve.isPromising() {
		r.set("standby wait", standbyWait, func() { s.reserve.giveUp(r) })
	} else {
		rs.adoptNew(r)
	}
}

// provideCopy makes a run wait for a copy of the main kernel, forked when that is idle, or from its twin during a run. It
// reports whether there is a kernel to copy: the variables may still be in the snapshot.
func (rs *runs) provideCopy(r *run) bool {
	s := rs.s
	if s.kernels.main == nil && s.frozen.isThere() {
		if s.kernels.main = s.reserve.take(); s.kernels.main == nil {
			s.startMain()
		}
	}
	main := s.kernels.main
	if main == nil {
		return false
	}
	if main.isEnding() {
		return true // its end asks again, and so does the end of other obstacles
	}
	s.frozen.wake(main, r)
	if !s.twins.isComing(r) {
		s.twins.order(r)
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
	k, err := rs.s.kernels.spawn()
	if err != nil {
		r.finish(&protocol.Done{
			Status: "failed", ExitCode: 1, Kernel: r.fate("dead"),
			Error: &protocol.Error{Name: "KernelStartError", Message: "no interpreter could be started: " + err.Error()},
		})
		return
	}
	rs.adopt(r, k)
}

func (rs *runs) adopt(r *run, k *kernel) {
	if r.Fresh {
		r.before = map[int]bool{}
		for pid := range procs.Read() {
			r.before[pid] = true
		}
		delete(r.before, k.pid)
	} else {
		rs.s.kernels.main = k
	}
	r.handOver(k)
	rs.s.reserve.prepare()
}

func (rs *runs) of(k *kernel) *run {
	for _, r := range rs.all {
		if r.kernel == k {
			return r
		}
	}
	return nil
}

// isAlone reports whether no run goes on in another kernel.
func (rs *runs) isAlone(k *kernel) bool {
	for _, r := range rs.all {
		if r.kernel != nil && r.kernel != k {
			return false
		}
	}
	return true
}
