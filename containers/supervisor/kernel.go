//go:build linux

package main

import (
	"errors"
	"io"
	"syscall"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/kernelproc"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/procs"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
)

const (
	lostWait = 200 * time.Millisecond // between the end of a kernel's link and its exit status, or the other way round
	killWait = 5 * time.Second        // how long a killed process may take to vanish
)

// kernel is an interpreter that code runs in, as the supervisor's loop sees it.
type kernel struct {
	pid     int // 0 until one that the zygote forked has reported it
	link    *kernelproc.Link
	watcher *kernelproc.Link
	// pipes are those of a kernel that keeps them from run to run.
	pipes      []*kernelproc.Pipe
	named      *kernelproc.NamedPipes // that it is to open and has not yet
	pipedTicks int64                  // when it got the pipes that it has
	ready      bool
	begun      bool // with a run, the first one: before that it has run no code
	killed     bool // its end is on its way
	waitedFor  bool // a run has waited for it in vain
	ended      bool
	exited     bool // its status is known
	linkEnded  bool
	fills      bool      // killed because it filled the work directory while no run was in it
	heard      time.Time // when its watcher was there to hear of interrupts; zero: not yet
	interrupts int
	cause      string
	kill       *timer
	conclude   *timer
}

// isEnding reports whether no more runs may be given to a kernel.
func (k *kernel) isEnding() bool { return k.killed || k.exited || k.linkEnded }

// listen has the loop hear of what a kernel sends.
func (s *Supervisor) listen(k *kernel) {
	go func() {
		err := k.link.Read(func(r *kernelproc.Report) { s.post(func() { s.onReport(k, r) }) })
		s.post(func() { s.onLinkEnd(k, err) })
	}()
	if k.watcher != nil {
		go func() {
			_ = k.watcher.Read(func(*kernelproc.Report) { s.post(func() { s.onHeard(k) }) })
		}()
	}
}

// onHeard is called by a watcher that is there, and then each time that it has stopped code. Only then may the
// programs end that code waits for in a call: it stops when the call returns, and does not go on with
// their failure. That the two come as one does no harm: interrupts are repeated.
func (s *Supervisor) onHeard(k *kernel) {
	if k.heard.IsZero() {
		k.heard = time.Now()
		return
	}
	if r := s.runOf(k); r != nil && r.reason != "" {
		s.signalPrograms(r, syscall.SIGKILL)
	}
}

func (s *Supervisor) onReport(k *kernel, m *kernelproc.Report) {
	if k.ended {
		return
	}
	switch m.Type {
	case "hello":
		s.onHello(k, m)
	case "loaded":
		if k == s.main && s.language.HasZygote {
			s.reserve.want()
		}
	case "log":
		s.log("info", m.Message)
	case "background":
		if m.Stream == 1 || m.Stream == 2 {
			s.keepBackground(m.ID, m.Stream-1, m.Blob)
		}
	case "piped":
		k.releaseNamed()
	}
	r := s.runs[m.ID]
	if r == nil || r.kernel != k {
		return
	}
	switch m.Type {
	case "begun":
		k.begun = true
	case "display":
		s.onDisplay(r, m)
	case "clear":
		s.onClear(r)
	case "done":
		// One that came to its end as it was killed is over with its kernel: the next run needs another.
		if !k.killed {
			s.onDone(r, m)
		}
	}
}

func (s *Supervisor) onHello(k *kernel, m *kernelproc.Report) {
	if k.ready {
		return
	}
	k.ready = true
	if k.pid == 0 && m.PID > 1 {
		k.pid = m.PID
	}
	s.noteVersion(m)
	if k == s.reserve.kernel {
		s.reserve.onReady()
	}
}

// onLinkEnd is called when nothing more comes from a kernel: mostly at a death whose status is on its way.
func (s *Supervisor) onLinkEnd(k *kernel, err error) {
	k.linkEnded = true
	switch {
	case k.ended:
	case k.exited:
		s.concludeEnd(k)
	case !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET):
		s.log("warn", "a kernel is killed, because it sent "+err.Error())
		s.killKernel(k, "")
	default:
		s.after(lostWait, func() {
			if !k.exited {
				s.killKernel(k, "")
			}
		})
	}
}

// killKernel ends a kernel and, as soon as that is known, what it had started.
func (s *Supervisor) killKernel(k *kernel, cause string) {
	if k.ended {
		return
	}
	k.killed = true
	if k.cause == "" {
		k.cause = cause
	}
	procs.Signal(k.pid, syscall.SIGKILL)
	if k.kill == nil {
		// One that no signal can end, in a file system that hangs, must not keep the session locked.
		k.kill = s.after(killWait, func() { s.concludeEnd(k) })
	}
}

// concludeEnd does what the end of a kernel asks for, once.
func (s *Supervisor) concludeEnd(k *kernel) {
	if k.ended {
		return
	}
	k.end()
	if k == s.reserve.kernel {
		k.closePipes()
		s.reserve.onDeath()
		return
	}
	r := s.runOf(k)
	if k == s.main {
		s.main = nil
		s.killLeftovers()
	}
	cause := k.cause
	if cause == "" {
		cause = "signal 9"
	}
	if k.fills {
		cause = "quota"
	}
	switch {
	case r == nil:
		s.server.send(protocol.KernelState{Type: "kernel", State: "dead", Cause: cause}, false)
		s.provideWaiting()
		s.reserve.prepare()
	case s.canBeGivenAgain(r):
		// Its pipes have nothing of the run yet.
		r.kernel, r.pipes = nil, nil
		s.provide(r)
	default:
		s.finishKilled(r, cause)
	}
	k.closePipes()
}

// end stops the timers and closes the links of a kernel that is dead, or is taken for it.
func (k *kernel) end() {
	k.ended = true
	k.kill.stop()
	k.conclude.stop()
	k.link.Close()
	if k.watcher != nil {
		k.watcher.Close()
	}
	k.releaseNamed()
}

const mostLosses = 3 // kernels that may die before they begin a run

// canBeGivenAgain reports whether a run that its kernel has died over can go to another: code of runs before
// may have killed the kernel as it stood by, and its death was not known yet.
func (s *Supervisor) canBeGivenAgain(r *run) bool {
	if r.kernel.begun || r.reason != "" {
		return false
	}
	r.losses++
	return r.losses < mostLosses
}

func (k *kernel) closePipes() {
	for _, p := range k.pipes {
		p.Drain(nil)
		p.Close()
	}
	k.pipes = nil
}

func (k *kernel) releaseNamed() {
	if k.named != nil {
		k.named.Release()
		k.named = nil
	}
}
