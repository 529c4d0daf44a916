//go:build linux

package main

import (
	"os"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/artifacts"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/kernelproc"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/output"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/procs"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
)

// run is one execution of code, from its request to the end of its leftovers.
type run struct {
	s *Supervisor
	protocol.Request
	timeout, grace time.Duration
	started        time.Time
	startedTicks   int64
	mark           artifacts.Mark // when it began, by the clock that stamps files
	kernel         *kernel
	born           time.Time         // when the copy was forked that it runs in
	losses         int               // kernels that died before they began it
	before         map[int]bool      // the processes that were there when a fresh run began
	overlaps       bool              // with a run of the kernel that stays: for a fresh run
	asked          int               // how many times it was interrupted
	reason         string            // why it was interrupted: timed_out, cancelled, quota or memory
	over           string            // how the files were over their limit then
	memory         procs.Memory      // or the container's memory then
	oomSeen        int64             // programs that the memory limit had killed before
	condemned      bool              // killed because it ignored that
	streams        [2]*output.Stream // stdout and stderr
	pipes          []*kernelproc.Pipe
	timers         map[string]*timer
	record         record
	drawing        drawing
	reported       [2]int64 // counts of the last progress message
	reportedAt     time.Time
}

const mostTimeout = 400 * 24 * time.Hour

func newRun(s *Supervisor, r protocol.Request) *run {
	milliseconds := func(n int64) time.Duration {
		return time.Duration(min(max(n, 0), int64(mostTimeout/time.Millisecond))) * time.Millisecond
	}
	n := &run{
		s: s, Request: r, timeout: milliseconds(r.TimeoutMS), grace: milliseconds(r.GraceMS),
		started: time.Now(), startedTicks: procs.TicksNow(), oomSeen: procs.OOMKills(), timers: map[string]*timer{},
	}
	n.reportedAt = n.started
	for i, name := range []string{"stdout", "stderr"} {
		n.streams[i] = output.NewStream(s.settings.OutputBytes, output.NewSpool(s.workFD(), r.ID, name, s.settings.SpoolBytes))
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
	s := r.s
	r.kernel = k
	var writers []*os.File
	for i, out := range r.streams {
		if !s.language.TakesPipes {
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
		s.frozen.wake(k, r)
		k.moment.begin(r.ID)
	}
	k.link.Send(runFrame{"run", r.ID, r.Code, r.Before, r.LingerMS}, writers...)
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
	most := r.s.settings.OutputBytes
	r.s.server.send(protocol.Peek{
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
	r.timers[name] = r.s.after(d, f)
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
