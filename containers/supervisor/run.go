//go:build linux

package main

import (
	"maps"
	"os"
	"syscall"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/artifacts"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/kernelproc"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/output"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/procs"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
)

// run is one execution of code, from its request to the end of its leftovers.
type run struct {
	l *language
	protocol.Request
	*trail
	timeout, grace time.Duration
	started        time.Time
	startedTicks   int64
	mark           artifacts.Mark // when it began, by the clock that stamps files
	kernel         *kernel
	born           time.Time   // when the copy was forked that it runs in
	losses         int         // kernels that died before they began it
	before         procs.Table // the processes that were there when a fresh run began
	overlaps       bool        // with a run of the kernel that stays: for a fresh run
	asked          int         // how many times it was interrupted
	reason         string      // why it was interrupted: timed_out, cancelled, quota or memory
	over           string      // how the files were over their limit then
	memory         usage       // or the container's memory then
	oomSeen        int64       // programs that the memory limit had killed before
	condemned      bool        // killed because it ignored that
	timers         map[string]*timer
	answer         *protocol.Done // which waits for pictures; nil: the code goes on
	reported       [2]int64       // counts of the last progress message
	reportedAt     time.Time
}

const mostTimeout = 400 * 24 * time.Hour

func newRun(l *language, r protocol.Request) *run {
	s := l.s
	milliseconds := func(n int64) time.Duration {
		return time.Duration(min(max(n, 0), int64(mostTimeout/time.Millisecond))) * time.Millisecond
	}
	n := &run{
		l: l, Request: r, timeout: milliseconds(r.TimeoutMS), grace: milliseconds(r.GraceMS),
		started: time.Now(), startedTicks: procs.TicksNow(), oomSeen: procs.OOMKills(), timers: map[string]*timer{},
	}
	n.reportedAt = n.started
	n.trail = &trail{id: r.ID, record: record{run: r.ID, settings: s.settings, server: s.server}}
	n.record.drawing = drawing{loop: s.loop, browser: s.browser, over: func() {
		if n.answer != nil {
			n.finish(n.answer)
		}
	}}
	for i, name := range []string{"stdout", "stderr"} {
		n.streams[i] = output.NewStream(s.settings.OutputBytes, output.NewSpool(s.workDir.fd(), r.ID, name, s.settings.SpoolBytes))
	}
	return n
}

func (r *run) elapsed() int64 { return time.Since(r.started).Milliseconds() }

// drain passes on the output so far.
func (r *run) drain() {
	for _, p := range r.outputPipes() {
		p.Drain(nil)
	}
}

// outputPipes are those that the run's output comes by, its own or its kernel's.
func (r *run) outputPipes() []*kernelproc.Pipe {
	if r.pipes == nil && r.kernel != nil {
		return r.kernel.pipes
	}
	return r.pipes
}

func (r *run) dropTimers() {
	for _, t := range r.timers {
		t.stop()
	}
}

type runFrame struct {
	Type     string `json:"type"`
	ID       string `json:"id"`
	Code     string `json:"code"`
	Before   string `json:"before,omitempty"`
	LingerMS int64  `json:"linger_ms"`
}

// handOver sends a kernel the run, and the pipes that it is to write to.
func (r *run) handOver(k *kernel) {
	l, s := r.l, r.l.s
	r.kernel = k
	var writers []*os.File
	for i, out := range r.streams {
		if !l.TakesPipes {
			k.pipes[i].Drain(out.Write) // earlier output is not this run's
			continue
		}
		p, w, err := kernelproc.NewPipe(out.Write, nil)
		if err != nil {
			s.log("error", "no pipe could be made: "+err.Error())
			k.kill("")
			return
		}
		r.pipes, writers = append(r.pipes, p), append(writers, w)
	}
	if !r.Fresh {
		l.frozen.wake(k, r)
		l.beginMoment(k, r.ID)
	}
	k.link.Send(runFrame{"run", r.ID, r.Code, r.Before, r.LingerMS}, writers...)
	k.score()
	if s.guard != nil {
		s.guard.beginRun()
	}
	s.memory.beginRun()
}

// fate says what became of the variables; for a fresh run it is always the same.
func (r *run) fate(kernel string) string {
	if r.Fresh {
		return "fresh"
	}
	return kernel
}

// peek sends the run's output so far.
func (r *run) peek() {
	r.drain()
	most := r.l.s.settings.OutputBytes
	r.l.s.server.send(protocol.Peek{
		Type: "peek", ID: r.ID, Stdout: r.streams[0].Report(most), Stderr: r.streams[1].Report(most), ElapsedMS: r.elapsed(),
	}, true)
}

// startTimeout starts the run's clock, also anew: waiting for a kernel with variables does not count.
func (r *run) startTimeout() {
	if r.timeout > 0 && r.reason == "" {
		r.set("timeout", r.timeout, func() { r.interrupt("timed_out") })
	}
}

// set replaces a timer by another.
func (r *run) set(name string, d time.Duration, f func()) {
	r.timers[name].stop()
	r.timers[name] = r.l.s.after(d, f)
}

const mostLosses = 3 // kernels that may die before they begin a run

// canBeGivenAgain reports whether a run whose kernel died can go to another one: earlier code may have killed the idle
// kernel, unknown to the supervisor.
func (r *run) canBeGivenAgain() bool {
	if r.kernel.begun && !r.kernel.asleep || r.reason != "" {
		return false
	}
	r.losses++
	return r.losses < mostLosses
}

// Interrupts, the grace after them, and the kill ---------------------------------------

// leaveWait is how long programs of an interrupted run may take to end.
const leaveWait = 500 * time.Millisecond

// mostPolite is how many interrupts programs may ignore where they are killed so that the kernel goes on.
const mostPolite = 2

var exitCodes = map[string]int{"completed": 0, "failed": 1, "quota": 1, "memory": 1, "timed_out": 124, "cancelled": 130, "killed": 137}

// interrupt stops a run, once. The kernel is killed if that takes longer than the grace.
func (r *run) interrupt(reason string) {
	if d := r.answer; d != nil { // its code is over
		r.finish(d)
		return
	}
	if r.reason != "" {
		return
	}
	r.reason = reason
	if r.kernel == nil {
		r.finishKilled("")
		return
	}
	grace := r.grace
	if reason == "memory" { // V8 hears of nothing while it collects much garbage or copies a large table
		grace *= time.Duration(max(1, r.l.Unheard))
	}
	r.set("grace", grace, r.onGraceOver)
	r.keepInterrupting()
}

// hurry stops a run for which there is little time.
func (r *run) hurry() {
	r.grace = min(r.grace, retireGrace)
	if r.reason == "" {
		r.interrupt("cancelled")
	} else {
		r.set("grace", r.grace, r.onGraceOver)
	}
}

// onGraceOver condemns the run. A new kernel cannot hear of an interrupt while it computes, until its watcher
// is there: the grace counts from then on. Code could put that off for ever, so there is an end to it.
func (r *run) onGraceOver() {
	k := r.kernel
	if k != nil && r.l.HasWatcher {
		left := time.Duration(r.l.Unheard) * r.grace
		if !k.heard.IsZero() {
			left = min(time.Until(k.heard.Add(r.grace)), left)
		}
		if left > 0 {
			r.set("grace", left, r.condemn)
			return
		}
	}
	r.condemn()
}

func (r *run) condemn() {
	r.condemned = true
	r.timers["again"].stop()
	if r.kernel != nil {
		r.kernel.kill("")
	}
}

// keepInterrupting interrupts again while the grace lasts: os.system() and some handlers swallow a signal.
func (r *run) keepInterrupting() {
	again := r.l.Again
	if again == 0 {
		again = max(r.grace/4, 50*time.Millisecond)
	}
	r.set("again", again, r.keepInterrupting)
	k := r.kernel
	if k == nil {
		return
	}
	k.interrupts++
	r.asked++
	message := map[string]any{"type": "interrupt", "id": r.ID, "n": k.interrupts}
	if r.reason == "memory" {
		message["reason"] = r.reason
	}
	k.link.Send(message) // also to a kernel still starting
	if k.watcher != nil {
		k.watcher.Send(message)
		return
	}
	if k.ready && !r.l.isCutBySignals() { // an interpreter that is just starting would end
		signal := syscall.SIGINT
		if r.l.KillsPrograms && r.asked > mostPolite {
			signal = syscall.SIGKILL
		}
		if r.l.KillsPrograms { // first, as code may replace an ended program by another
			procs.Signal(k.pid, syscall.SIGINT)
			r.signalPrograms(signal)
			return
		}
		r.signalPrograms(signal)
		procs.Signal(k.pid, syscall.SIGINT)
	}
}

// signalPrograms signals the programs of a run, as the terminal's Ctrl-C would, and leaves those of earlier runs alone.
func (r *run) signalPrograms(signal syscall.Signal) {
	table := procs.Read()
	for pid := range table.Family(r.kernel.pid) {
		if table[pid].Start >= r.startedTicks {
			procs.Signal(pid, signal)
		}
	}
}

// endPrograms ends the programs of an interrupted run, also those that ignore interrupts.
func (r *run) endPrograms() {
	type one struct {
		pid   int
		start int64
	}
	table := procs.Read()
	started := map[one]bool{}
	for pid := range r.l.programs(table) {
		if table[pid].Start >= r.startedTicks {
			started[one{pid, table[pid].Start}] = true
		}
	}
	if len(started) == 0 {
		return
	}
	wait := leaveWait
	if r.reason == "memory" {
		wait = 0 // else they would take the next run's
	}
	r.l.s.after(wait, func() {
		killAll(func(t procs.Table) map[int]bool {
			left := map[int]bool{}
			for p := range started {
				if now, ok := t[p.pid]; ok && now.Start == p.start {
					left[p.pid] = true
					maps.Copy(left, t.Family(p.pid))
				}
			}
			return left
		})
	})
}

// endFresh kills the leftovers of a fresh run: its kernel, unless that stays as a copy, and new programs that no other run
// can have started.
func (r *run) endFresh(stays bool) {
	k := r.kernel
	owned := ownedBy(procs.Read(), k.pid)
	if !stays {
		procs.Signal(k.pid, syscall.SIGKILL)
	}
	killAll(func(t procs.Table) map[int]bool {
		left := map[int]bool{}
		maps.Copy(left, ownedBy(t, k.pid))
		for pid := range owned {
			if _, ok := t[pid]; ok {
				left[pid] = true
			}
		}
		if !r.overlaps {
			for pid := range r.l.strays(t) {
				if _, before := r.before[pid]; !before {
					left[pid] = true
				}
			}
		}
		delete(left, k.pid)
		return left
	})
}
