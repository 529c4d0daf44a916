//go:build linux

package main

import (
	"cmp"
	"errors"
	"io"
	"strconv"
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
	l       *language
	pid     int // 0 until a forked kernel reports it
	link    *kernelproc.Link
	watcher *kernelproc.Link
	// pipes are those of a kernel that keeps them from run to run.
	pipes      []*kernelproc.Pipe
	named      *kernelproc.NamedPipes // that it is still to open
	pipedTicks int64                  // when it got its pipes
	ready      bool
	loaded     bool // and has imported ahead
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
	looked     procs.Activity // when the work directory was last looked at
	activity   procs.Activity // when it was last counted
	before     procs.Activity // and at the count before
	scored     int            // by the OOM killer's score that it has beside process 1
	fills      bool           // killed because it filled the work directory while no run was in it
	heard      time.Time      // when its watcher was there to hear of interrupts; zero: not yet
	interrupts int
	cause      string
	taken      *timer // for dead, when it fires
	conclude   *timer
}

// isEnding reports whether no more runs may be given to a kernel.
func (k *kernel) isEnding() bool { return k.killed || k.exited || k.linkEnded }

// listen posts a kernel's messages to the loop.
func (k *kernel) listen() {
	s := k.l.s
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
	if r := k.l.s.runs.of(k); r != nil && r.reason != "" {
		r.signalPrograms(syscall.SIGKILL)
	}
}

// onFull is called when the interpreter's own heap is nearly full, which it would end its process over.
func (k *kernel) onFull() {
	if r := k.l.s.runs.of(k); r != nil && r.reason == "" && k.l.s.settings.MemoryBytes > 0 {
		r.memory = k.l.s.memory.usage()
		r.interrupt("memory")
	}
}

func (k *kernel) onReport(m *kernelproc.Report) {
	l, s := k.l, k.l.s
	if k.ended {
		return
	}
	switch m.Type {
	case "hello":
		k.onHello(m)
	case "loaded":
		if k.loaded = true; k == l.main {
			l.keepReady()
		}
	case "twinned":
		l.twins.onTwinned(k, m)
	case "log":
		s.log("info", m.Message)
	case "background":
		if m.Stream == 1 || m.Stream == 2 {
			l.past.keepBackground(m.ID, m.Stream-1, m.Blob)
		}
	case "piped":
		k.releaseNamed()
	case "frozen":
		if !l.snapshots.onFrozen(k, m) {
			l.frozen.onFrozen(k, m)
		}
	case "woken":
		if !l.snapshots.onWoken(k, m) {
			l.frozen.onWoken(k, m)
		}
	}
	r := s.runs.all[m.ID]
	if r == nil || r.kernel != k {
		return
	}
	switch m.Type {
	case "begun":
		k.begun, k.asleep = true, false
		l.frozen.onBegun(k)
	case "display":
		r.record.show(m)
	case "clear":
		r.record.clear()
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
	l := k.l
	if k.ready {
		return
	}
	k.ready = true
	if k.pid == 0 && m.PID > 1 {
		k.pid = m.PID
	}
	l.noteVersion(m)
	l.frozen.limitWake(k)
	if k == l.reserve.kernel {
		l.reserve.onReady()
	}
	l.twins.onReady(k)
}

// onLinkEnd is called when nothing more comes from a kernel: mostly at a death whose status is on its way.
func (k *kernel) onLinkEnd(err error) {
	k.linkEnded = true
	switch {
	case k.ended || k.l.twins.lose(k):
	case k.exited:
		k.concludeEnd()
	case !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET):
		k.l.s.log("warn", "a kernel is killed, because it sent "+err.Error())
		k.kill("")
	default:
		k.l.s.after(lostWait, func() {
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
		k.taken = k.l.s.after(killWait, k.concludeEnd)
	}
}

func (k *kernel) onExit(status syscall.WaitStatus) {
	k.exited = true
	k.cause = cmp.Or(k.cause, k.causeOf(status))
	// Its earlier messages count, and its link ends with it unless a child holds that open.
	if k.linkEnded {
		k.concludeEnd()
	} else {
		k.conclude = k.l.s.after(lostWait, k.concludeEnd)
	}
}

const exitCause = "exit " // and the status

func (k *kernel) causeOf(status syscall.WaitStatus) string {
	if !status.Signaled() {
		return exitCause + strconv.Itoa(status.ExitStatus())
	}
	if status.Signal() == syscall.SIGKILL && procs.OOMKills() > k.l.s.memory.oomSeen {
		return "memory"
	}
	return "signal " + strconv.Itoa(int(status.Signal()))
}

// concludeEnd handles the end of a kernel, once.
func (k *kernel) concludeEnd() {
	l, s := k.l, k.l.s
	if k.ended || l.twins.lose(k) {
		return
	}
	k.end()
	if l.snapshots.lose(k, cmp.Or(k.cause, "signal 9")) {
		k.closePipes()
		return
	}
	if k == l.reserve.kernel {
		k.closePipes()
		l.reserve.onDeath()
		return
	}
	r := s.runs.of(k)
	if r != nil && r.answer != nil { // it died behind the run
		r.finish(r.answer)
		if r.Fresh {
			return
		}
		r = nil
	}
	cause := cmp.Or(k.cause, "signal 9")
	if k.fills {
		cause = "quota"
	}
	if k == l.main {
		l.main = nil
		killAll(l.programs) // its programs, and none of current fresh runs
		l.twins.goOn(k)
		if l.main == nil && (k.begun || k.woken) {
			l.twins.refuseWaiting("the kernel with them has ended: " + cause)
		}
	}
	l.frozen.onEnd(k, cause)
	switch {
	case r == nil:
		if k.begun || k.woken {
			l.sendKernel("dead", cause)
		}
		s.runs.provideWaiting()
		l.reserve.prepare()
	case r.canBeGivenAgain():
		// Its pipes hold nothing of the run yet.
		r.kernel, r.pipes = nil, nil
		s.runs.provide(r)
	case l.EndsWithCode && strings.HasPrefix(cause, exitCause) && r.reason == "":
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
	for pid := range k.l.programs(table) {
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
		k.l.s.log("warn", "what programs that were left behind print may be taken for a later run's: "+err.Error())
		return
	}
	k.releaseNamed()
	r.pipes = k.pipes
	k.pipes, k.named, k.pipedTicks = named.Readers, named, procs.TicksNow()
	k.link.Send(map[string]any{"type": "pipes", "paths": named.Paths})
}
