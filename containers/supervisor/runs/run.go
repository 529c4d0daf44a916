//go:build linux

package runs

import (
	"maps"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/artifacts"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/guard"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/kernelproc"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/kernels"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/loop"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/output"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/procs"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
)

// run is one execution of code, from its request to the end of its leftovers.
type run struct {
	rs *Runs
	l  *kernels.Language
	protocol.Request
	*trail
	timeout, grace time.Duration
	started        time.Time
	startedTicks   int64
	start          artifacts.Start
	kernel         *kernels.Kernel
	born           time.Time   // when the copy was forked that it runs in
	losses         int         // kernels that died before they began it
	before         procs.Table // the processes that were there when a fresh run began
	overlaps       bool        // with a run of the kernel that stays: for a fresh run
	asked          int         // how many times it was interrupted
	reason         string      // why it was interrupted: timed_out, cancelled, quota or memory
	over           string      // how the files were over their limit then
	memory         guard.Usage // or the container's memory then
	held           int64       // the memory of its kernel when it began
	oomSeen        int64       // programs that the memory limit had killed before
	condemned      bool        // killed because it ignored that
	timers         map[string]*loop.Timer
	answer         *protocol.Done // which waits for pictures; nil: the code goes on
	reported       [2]int64       // counts of the last progress message
	reportedAt     time.Time
}

const (
	mostTimeout = 400 * 24 * time.Hour
	mostLosses  = 2 // kernels that may die before they begin a run that gets another one
)

func newRun(rs *Runs, l *kernels.Language, r protocol.Request) *run {
	milliseconds := func(n int64) time.Duration {
		return time.Duration(min(max(n, 0), int64(mostTimeout/time.Millisecond))) * time.Millisecond
	}
	n := &run{
		rs: rs, l: l, Request: r, timeout: milliseconds(r.TimeoutMS), grace: milliseconds(r.GraceMS),
		started: time.Now(), startedTicks: procs.TicksNow(), oomSeen: procs.OOMKills(), timers: map[string]*loop.Timer{},
	}
	n.reportedAt = n.started
	n.trail = &trail{id: r.ID, record: record{run: r.ID, settings: rs.Settings, server: rs.Server}}
	n.record.drawing = drawing{loop: rs.Loop, browser: rs.Browser, over: func() {
		if n.answer != nil {
			n.finish(n.answer)
		}
	}}
	for i, name := range []string{"stdout", "stderr"} {
		n.streams[i] = output.NewStream(rs.Settings.OutputBytes, output.NewSpool(rs.Dir.FD(), r.ID, name, rs.Settings.SpoolBytes))
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
		return r.kernel.Pipes()
	}
	return r.pipes
}

func (r *run) dropTimers() {
	for _, t := range r.timers {
		t.Stop()
	}
}

type runFrame struct {
	Type     string `json:"type"`
	ID       string `json:"id"`
	Code     string `json:"code"`
	Before   string `json:"before,omitempty"`
	LingerMS int64  `json:"linger_ms"`
}

// Take hands a kernel the run, and the pipes that it is to write to. born is when it was forked for that.
func (r *run) Take(k *kernels.Kernel, born time.Time) {
	r.kernel, r.born = k, born
	if r.Fresh {
		r.before = procs.Read()
		delete(r.before, k.PID())
	}
	var writers []*os.File
	for i, out := range r.streams {
		if !r.l.TakesPipes {
			k.Pipes()[i].Drain(out.Write) // earlier output is not this run's
			continue
		}
		p, w, err := kernelproc.NewPipe(out.Write, nil)
		if err != nil {
			r.rs.Server.Log("error", "no pipe could be made: "+err.Error())
			k.Kill("")
			return
		}
		r.pipes, writers = append(r.pipes, p), append(writers, w)
	}
	k.Begin(r, runFrame{"run", r.ID, r.Code, r.Before, r.LingerMS}, writers...)
	r.rs.Disk.Begin(true)
	if r.rs.Settings.MemoryBytes > 0 {
		r.held = procs.Anonymous(k.PID())
	}
	r.rs.Memory.Begin(len(r.rs.all) == 1)
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
	most := r.rs.Settings.OutputBytes
	r.rs.Server.Send(protocol.Peek{
		Type: "peek", ID: r.ID, Stdout: r.streams[0].Report(most), Stderr: r.streams[1].Report(most), ElapsedMS: r.elapsed(),
	}, true)
}

// SetClock starts the run's clock anew, or stops it: waiting for a kernel with variables does not count.
func (r *run) SetClock(runs bool) {
	if !runs {
		r.timers["timeout"].Stop()
	} else if r.timeout > 0 && r.reason == "" {
		r.set("timeout", r.timeout, func() { r.interrupt("timed_out") })
	}
}

// set replaces a timer by another.
func (r *run) set(name string, d time.Duration, f func()) {
	r.timers[name].Stop()
	r.timers[name] = r.rs.After(d, f)
}

// What kernels see of it ---------------------------------------------------------------

func (r *run) Asked() *protocol.Request             { return &r.Request }
func (r *run) Began() time.Time                     { return r.started }
func (r *run) Kernel() *kernels.Kernel              { return r.kernel }
func (r *run) IsStopped() bool                      { return r.reason != "" }
func (r *run) SetWait(most time.Duration, f func()) { r.set("standby wait", most, f) }

func (r *run) Provide() {
	r.timers["standby wait"].Stop()
	r.l.Provide(r)
}

func (r *run) Refuse(name, message string) {
	r.finish(&protocol.Done{Status: "failed", ExitCode: 1, Kernel: r.fate("dead"), Error: &protocol.Error{Name: name, Message: message}})
}

func (r *run) Heard() {
	if r.reason != "" {
		r.signalPrograms(syscall.SIGKILL)
	}
}

func (r *run) Full() {
	if r.reason == "" && r.rs.Settings.MemoryBytes > 0 {
		r.memory = r.rs.Memory.Usage()
		r.interrupt("memory")
	}
}

func (r *run) Report(m *kernelproc.Report) {
	switch m.Type {
	case "display":
		r.record.show(m)
	case "clear":
		r.record.clear()
	case "heard":
		r.timers["again"].Stop()
	case "done":
		r.onDone(m)
	}
}

func (r *run) Lose(cause string) {
	switch {
	case !r.kernel.HasBegun() && r.reason == "" && r.losses < mostLosses:
		// Earlier code may have killed the idle kernel, unknown to the supervisor. Its pipes hold nothing of the run yet.
		r.losses++
		r.kernel, r.pipes = nil, nil
		r.l.Provide(r)
	case r.l.EndsWithCode && strings.HasPrefix(cause, kernels.ExitCause) && r.reason == "":
		r.finishEnded(cause)
	default:
		r.finishKilled(cause)
	}
}

// Interrupts, the grace after them, and the kill ---------------------------------------

const (
	leaveWait   = 500 * time.Millisecond // that programs of an interrupted run may take to end
	retireGrace = time.Second            // of a run that the end of the container stops
	mostPolite  = 2                      // interrupts that programs may ignore where they are killed so that the kernel goes on
)

var exitCodes = map[string]int{"completed": 0, "failed": 1, "quota": 1, "memory": 1, "timed_out": 124, "cancelled": 130, "killed": 137}

// interrupt stops a run, once. The kernel is killed if that takes longer than the grace.
func (r *run) interrupt(reason string) {
	if r.Settle() || r.reason != "" {
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

// Hurry stops a run for which there is little time.
func (r *run) Hurry() {
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
		if !k.HeardSince().IsZero() {
			left = min(time.Until(k.HeardSince().Add(r.grace)), left)
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
	r.timers["again"].Stop()
	if r.kernel != nil {
		r.kernel.Kill("")
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
	r.asked++
	if k.Interrupt(r.ID, r.reason) {
		signal := syscall.SIGINT
		if r.l.KillsPrograms && r.asked > mostPolite {
			signal = syscall.SIGKILL
		}
		if r.l.KillsPrograms { // first, as code may replace an ended program by another
			procs.Signal(k.PID(), syscall.SIGINT)
			r.signalPrograms(signal)
			return
		}
		r.signalPrograms(signal)
		procs.Signal(k.PID(), syscall.SIGINT)
	}
}

// signalPrograms signals the programs of a run, as the terminal's Ctrl-C would, and leaves those of earlier runs alone.
func (r *run) signalPrograms(signal syscall.Signal) {
	table := procs.Read()
	for pid := range table.Family(r.kernel.PID()) {
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
	for pid := range r.l.Programs(table) {
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
	r.rs.After(wait, func() {
		procs.MustKill(func(t procs.Table) map[int]bool {
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
	owned := procs.Read().Owned(k.PID())
	if !stays {
		procs.Signal(k.PID(), syscall.SIGKILL)
	}
	procs.MustKill(func(t procs.Table) map[int]bool {
		left := map[int]bool{}
		maps.Copy(left, t.Owned(k.PID()))
		for pid := range owned {
			if _, ok := t[pid]; ok {
				left[pid] = true
			}
		}
		if !r.overlaps {
			for pid := range r.l.Strays(t) {
				if _, before := r.before[pid]; !before {
					left[pid] = true
				}
			}
		}
		delete(left, k.PID())
		return left
	})
}
