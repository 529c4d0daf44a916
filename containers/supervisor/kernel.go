//go:build linux

package main

import (
	"cmp"
	"errors"
	"io"
	"strings"
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
	s       *Supervisor
	pid     int // 0 until a forked kernel reports it
	link    *kernelproc.Link
	watcher *kernelproc.Link
	// pipes are those of a kernel that keeps them from run to run.
	pipes      []*kernelproc.Pipe
	named      *kernelproc.NamedPipes // that it is still to open
	pipedTicks int64                  // when it got its pipes
	ready      bool
	begun      bool // the first run: before that it ran no code
	woken      bool // it was told to restore
	awake      bool // and reported it
	asleep     bool // a twin without a message so far: it began as the kernel that it copies
	moment     *moment
	origin     *protocol.Origin // where its variables came from, until an answer says so
	killed     bool             // its end is on its way
	waitedFor  bool             // a run waited for it in vain
	ended      bool
	exited     bool // its status is known
	linkEnded  bool
	fills      bool      // killed because it filled the work directory while no run was in it
	heard      time.Time // when its watcher was there to hear of interrupts; zero: not yet
	interrupts int
	cause      string
	taken      *timer // for dead, when it fires
	conclude   *timer
}

// isEnding reports whether no more runs may be given to a kernel.
func (k *kernel) isEnding() bool { return k.killed || k.exited || k.linkEnded }

// listen posts a kernel's messages to the loop.
func (k *kernel) listen() {
	s := k.s
	go func() {
		err := k.link.Read(func(r *kernelproc.Report) { s.post(func() { k.onReport(r) }) })
		s.post(func() { k.onLinkEnd(err) })
	}()
	if k.watcher != nil {
		go func() {
			_ = k.watcher.Read(func(m *kernelproc.Report) {
				if m.Type == "full" {
					s.post(k.onFull)
				} else {
					s.post(k.onHeard)
				}
			})
		}()
	}
}

// onHeard is called when the watcher is there, and then each time that it stopped code. Only then may the programs end
// that code waits for in a call: code then stops as the call returns, and does not continue with their failure. It does no
// harm that both look the same: interrupts are repeated.
func (k *kernel) onHeard() {
	if k.heard.IsZero() {
		k.heard = time.Now()
		return
	}
	if r := k.s.runs.of(k); r != nil && r.reason != "" {
		r.signalPrograms(syscall.SIGKILL)
	}
}

// onFull is called when the interpreter's own heap is nearly full, which it would end its process over.
func (k *kernel) onFull() {
	if r := k.s.runs.of(k); r != nil && r.reason == "" && k.s.settings.MemoryBytes > 0 {
		r.memory = k.s.memory.read()
		r.interrupt("memory")
	}
}

func (k *kernel) onReport(m *kernelproc.Report) {
	s := k.s
	if k.ended {
		return
	}
	switch m.Type {
	case "hello":
		k.onHello(m)
	case "loaded":
		if k == s.kernels.main && s.language.HasZygote {
			s.reserve.want()
			s.twins.want()
			s.runs.provideWaiting()
		}
	case "twinned":
		s.twins.onTwinned(k, m)
	case "log":
		s.log("info", m.Message)
	case "background":
		if m.Stream == 1 || m.Stream == 2 {
			s.past.keepBackground(m.ID, m.Stream-1, m.Blob)
		}
	case "piped":
		k.releaseNamed()
	case "frozen":
		s.frozen.onFrozen(k, m)
	case "woken":
		s.frozen.onWoken(k, m)
	}
	r := s.runs.all[m.ID]
	if r == nil || r.kernel != k {
		return
	}
	switch m.Type {
	case "begun":
		k.begun, k.asleep = true, false
		s.frozen.onBegun(k)
	case "display":
		r.show(m)
	case "clear":
		r.clear()
	case "heard":
		r.timers["again"].stop()
	case "done":
		// One that came to its end as it was killed is over with its kernel: the next run needs another.
		if !k.killed {
			r.onDone(m)
		}
	}
}

func (k *kernel) onHello(m *kernelproc.Report) {
	s := k.s
	if k.ready {
		return
	}
	k.ready = true
	if k.pid == 0 && m.PID > 1 {
		k.pid = m.PID
	}
	s.noteVersion(m)
	s.frozen.limitWake(k)
	if k == s.reserve.kernel {
		s.reserve.onReady()
	}
	s.twins.onReady(k)
}

// onLinkEnd is called when nothing more comes from a kernel: mostly at a death whose status is on its way.
func (k *kernel) onLinkEnd(err error) {
	k.linkEnded = true
	switch {
	case k.ended || k.s.twins.lose(k):
	case k.exited:
		k.concludeEnd()
	case !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET):
		k.s.log("warn", "a kernel is killed, because it sent "+err.Error())
		k.kill("")
	default:
		k.s.after(lostWait, func() {
			if !k.exited {
				k.kill("")
			}
		})
	}
}

// kill ends a kernel and then its programs.
func (k *kernel) kill(cause string) {
	if k.ended {
		return
	}
	k.killed = true
	if k.cause == "" {
		k.cause = cause
	}
	procs.Signal(k.pid, syscall.SIGKILL)
	if k.taken == nil {
		// One that no signal can end, in a file system that hangs, must not keep the session locked.
		k.taken = k.s.after(killWait, k.concludeEnd)
	}
}

// concludeEnd handles the end of a kernel, once.
func (k *kernel) concludeEnd() {
	s := k.s
	if k.ended || s.twins.lose(k) {
		return
	}
	k.end()
	if k == s.reserve.kernel {
		k.closePipes()
		s.reserve.onDeath()
		return
	}
	r := s.runs.of(k)
	if r != nil && r.drawing.answer != nil { // it died behind the run
		r.finish(r.drawing.answer)
		if r.Fresh {
			return
		}
		r = nil
	}
	cause := cmp.Or(k.cause, "signal 9")
	if k.fills {
		cause = "quota"
	}
	if k == s.kernels.main {
		s.kernels.main = nil
		killAll(s.kernels.programs) // its programs, and none of current fresh runs
		s.twins.goOn(k)
		if s.kernels.main == nil && (k.begun || k.woken) {
			s.twins.refuseWaiting("the kernel with them has ended: " + cause)
		}
	}
	s.frozen.onEnd(k, cause)
	switch {
	case r == nil:
		s.server.send(protocol.KernelState{Type: "kernel", State: "dead", Cause: cause}, false)
		s.runs.provideWaiting()
		s.reserve.prepare()
	case r.canBeGivenAgain():
		// Its pipes hold nothing of the run yet.
		r.kernel, r.pipes = nil, nil
		s.runs.provide(r)
	case s.language.EndsWithCode && strings.HasPrefix(cause, exitCause) && r.reason == "":
		r.finishEnded(cause)
	default:
		r.finishKilled(cause)
	}
	k.closePipes()
}

// end stops the timers and closes the links of a kernel that is dead, or is taken for it.
func (k *kernel) end() {
	k.ended = true
	k.taken.stop()
	k.conclude.stop()
	k.link.Close()
	if k.watcher != nil {
		k.watcher.Close()
	}
	k.releaseNamed()
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

// hasNewPrograms reports whether a program of the kernel may hold its pipes.
func (k *kernel) hasNewPrograms() bool {
	table := procs.Read()
	for pid := range k.s.kernels.programs(table) {
		if table[pid].Start >= k.pipedTicks {
			return true
		}
	}
	return false
}

// leavePipes leaves the kernel's pipes to the programs of the ended run, and sends it others.
func (k *kernel) leavePipes(r *run) {
	named, err := kernelproc.NewNamedPipes([2]func([]byte){r.streams[0].WriteBackground, r.streams[1].WriteBackground})
	if err != nil {
		k.s.log("warn", "what programs that were left behind print may be taken for a later run's: "+err.Error())
		return
	}
	k.releaseNamed()
	r.pipes = k.pipes
	k.pipes, k.named, k.pipedTicks = named.Readers, named, procs.TicksNow()
	k.link.Send(map[string]any{"type": "pipes", "paths": named.Paths})
}
