//go:build linux

// Interrupts, the grace after them, and the kill.

package main

import (
	"syscall"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/procs"
)

// leaveWait is how long programs of an interrupted run may take to end.
const leaveWait = 500 * time.Millisecond

// mostPolite is how many interrupts programs may ignore where they are killed so that the kernel goes on.
const mostPolite = 2

var exitCodes = map[string]int{"completed": 0, "failed": 1, "quota": 1, "memory": 1, "timed_out": 124, "cancelled": 130, "killed": 137}

// interrupt stops a run, once. The kernel is killed if that takes longer than the grace.
func (r *run) interrupt(reason string) {
	if d := r.drawing.answer; d != nil { // its code is over
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
		grace *= time.Duration(max(1, r.s.language.Unheard))
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
	if k != nil && r.s.language.HasWatcher {
		left := time.Duration(r.s.language.Unheard) * r.grace
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
	again := r.s.language.Again
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
	if k.ready { // an interpreter that is just starting would end
		signal := syscall.SIGINT
		if r.s.language.KillsPrograms && r.asked > mostPolite {
			signal = syscall.SIGKILL
		}
		if r.s.language.KillsPrograms { // first, as code may replace an ended program by another
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
	for pid := range r.s.kernels.programs(table) {
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
	r.s.after(wait, func() {
		killAll(func(t procs.Table) map[int]bool {
			left := map[int]bool{}
			for p := range started {
				if now, ok := t[p.pid]; ok && now.Start == p.start {
					left[p.pid] = true
					for below := range t.Family(p.pid) {
						left[below] = true
					}
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
		for pid := range ownedBy(t, k.pid) {
			left[pid] = true
		}
		for pid := range owned {
			if _, ok := t[pid]; ok {
				left[pid] = true
			}
		}
		if !r.overlaps {
			for pid := range r.s.kernels.strays(t) {
				if !r.before[pid] {
					left[pid] = true
				}
			}
		}
		delete(left, k.pid)
		return left
	})
}
