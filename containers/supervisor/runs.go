//go:build linux

package main

import (
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/procs"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
)

// mostFresh is how many fresh runs go on at a time.
const mostFresh = 16

func (s *Supervisor) onRun(m protocol.Request) {
	switch {
	case s.settings == nil || m.ID == "" || s.runs[m.ID] != nil:
		s.log("warn", "a run without an id, before init or of an id that goes on was ignored")
		return
	case !m.Fresh && s.kept != nil, m.Fresh && s.freshRuns() >= mostFresh:
		s.refuse(m.ID, "SessionBusy", "another run goes on in this kernel", "")
		return
	case s.guard == nil && s.settings.hasVolumeLimit():
		s.refuse(m.ID, "WorkDirectoryError", "the work directory cannot be used, so its limit could not be kept", "")
		return
	}
	if s.guard != nil {
		if why := s.guard.refuses(); why != "" {
			s.refuse(m.ID, "QuotaExceeded", why, "full")
			return
		}
		if len(s.runs) == 0 {
			s.guard.expectRun()
		}
	}
	r := s.newRun(m)
	if s.scanner != nil {
		r.mark = s.scanner.Begin()
	}
	s.runs[r.ID] = r
	if !r.Fresh {
		s.kept = r
		s.overlap()
	} else {
		r.overlaps = s.kept != nil
	}
	if r.timeout > 0 {
		s.set(r, "timeout", r.timeout, func() { s.interrupt(r, "timed_out") })
	}
	s.set(r, "progress", time.Second, func() { s.onProgress(r) })
	s.provide(r)
}

func (s *Supervisor) freshRuns() int {
	if s.kept != nil {
		return len(s.runs) - 1
	}
	return len(s.runs)
}

// overlap notes with the fresh runs that go on that what is started now may be another's.
func (s *Supervisor) overlap() {
	for _, r := range s.runs {
		r.overlaps = r.Fresh
	}
}

func (s *Supervisor) refuse(id, name, message, cause string) {
	fate := "alive"
	if s.main == nil {
		fate = "dead"
	}
	s.server.send(&protocol.Done{
		Type: "done", ID: clean(id, 64), Status: "failed", ExitCode: 1, Error: &protocol.Error{Name: name, Message: message},
		Artifacts: []protocol.Artifact{}, Cause: cause, Kernel: fate, Background: []protocol.Background{}, GoesOn: []string{},
	}, false)
}

// standbyWait is how long a run waits for a kernel that is being forked.
const standbyWait = 500 * time.Millisecond

// provide hands a run to the main kernel, to one from the reserve or to a new one; or has it wait for one of them.
func (s *Supervisor) provide(r *run) {
	if !r.Fresh && s.main != nil {
		if !s.main.isEnding() { // else the run waits for its end, and for the next one
			s.handOver(r, s.main)
		}
		return
	}
	if k := s.reserve.take(); k != nil {
		s.adopt(r, k)
	} else if s.reserve.isPromising() {
		s.set(r, "standby wait", standbyWait, func() { s.reserve.giveUp(r) })
	} else {
		s.adoptNew(r)
	}
}

// provideWaiting asks again what runs that wait for a kernel can have.
func (s *Supervisor) provideWaiting() {
	for _, r := range s.runs {
		if r.kernel == nil {
			r.timers["standby wait"].stop()
			s.provide(r)
		}
	}
}

func (s *Supervisor) adoptNew(r *run) {
	k, err := s.spawn()
	if err != nil {
		s.finish(r, &protocol.Done{
			Status: "failed", ExitCode: 1, Kernel: r.fate("dead"),
			Error: &protocol.Error{Name: "KernelStartError", Message: "no interpreter could be started: " + err.Error()},
		})
		return
	}
	s.adopt(r, k)
}

func (s *Supervisor) adopt(r *run, k *kernel) {
	if r.Fresh {
		r.before = map[int]bool{}
		for pid := range procs.Read() {
			r.before[pid] = true
		}
		delete(r.before, k.pid)
	} else {
		s.main = k
	}
	s.handOver(r, k)
	s.reserve.prepare()
}

func (s *Supervisor) runOf(k *kernel) *run {
	for _, r := range s.runs {
		if r.kernel == k {
			return r
		}
	}
	return nil
}
