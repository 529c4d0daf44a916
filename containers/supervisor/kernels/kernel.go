//go:build linux

package kernels

import (
	"cmp"
	"errors"
	"io"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/bounds"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/kernelproc"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/loop"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/procs"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
)

const (
	lostWait = 200 * time.Millisecond // between the end of a kernel's link and its exit status, or the other way round
	killWait = 5 * time.Second        // how long a killed process may take to vanish
)

// Kernel is an interpreter that code runs in, as the supervisor's loop sees it.
type Kernel struct {
	l       *Language
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
	goesOn     bool      // something of its last run
	entering   *entering // that it is to answer; nil: nothing
	scored     int       // by the OOM killer's score that it was given beside process 1; 0: it has its own, which is the highest
	fills      bool      // killed because it filled the work directory while no run was in it
	heard      time.Time // when its watcher was there to hear of interrupts; zero: not yet
	interrupts int
	cause      string
	taken      *loop.Timer // for dead, when it fires
	conclude   *loop.Timer
}

// Run is a run of code, as kernels see it.
type Run interface {
	Asked() *protocol.Request
	Began() time.Time
	Kernel() *Kernel                      // nil: it waits for one
	IsStopped() bool                      // it was interrupted
	Take(k *Kernel, born time.Time)       // begins in a kernel; born: when that was forked for it
	Refuse(name, message string)          // ends, as there is no kernel for it
	Provide()                             // looks for a kernel again
	SetClock(runs bool)                   // waiting for variables does not count
	SetWait(most time.Duration, f func()) // for a kernel that is on its way
	Hurry()                               // stops, as there is little time
	Heard()                               // the kernel's watcher has stopped code
	Full()                                // the interpreter's own heap is nearly full
	Report(m *kernelproc.Report)          // of its kernel
	Settle() bool                         // ends, if its code is over, and reports whether it was
	Lose(cause string)                    // ends, or looks for another kernel, as its own is dead
}

// Runs are those that go on.
type Runs interface {
	All() []Run
	KeepBackground(l *Language, id string, stream int, data []byte) // a kernel's own output for a run that is over
}

// isEnding reports whether no more runs may be given to a kernel.
func (k *Kernel) isEnding() bool { return k.killed || k.exited || k.linkEnded }

// listen posts a kernel's messages to the loop.
func (k *Kernel) listen() {
	s := k.l.set
	go func() {
		err := k.link.Read(func(r *kernelproc.Report) { s.Post(func() { k.onReport(r) }) })
		s.Post(func() { k.onLinkEnd(err) })
	}()
	if k.watcher != nil {
		go func() {
			_ = k.watcher.Read(func(m *kernelproc.Report) {
				if m.Type == "full" {
					s.Post(k.onFull)
				} else {
					s.Post(k.onHeard)
				}
			})
		}()
	}
}

// onHeard is called when the watcher is there, and then each time that it stopped code. Only then may the programs end
// that code waits for in a call: code then stops as the call returns, and does not continue with their failure. It does no
// harm that both look the same: interrupts are repeated.
func (k *Kernel) onHeard() {
	if k.heard.IsZero() {
		k.heard = time.Now()
		return
	}
	if r := k.l.set.of(k); r != nil {
		r.Heard()
	}
}

// onFull is called when the interpreter's own heap is nearly full, which it would end its process over.
func (k *Kernel) onFull() {
	if r := k.l.set.of(k); r != nil {
		r.Full()
	}
}

func (k *Kernel) onReport(m *kernelproc.Report) {
	l, s := k.l, k.l.set
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
		s.Server.Log("info", m.Message)
	case "background":
		if m.Stream == 1 || m.Stream == 2 {
			s.runs.KeepBackground(l, m.ID, m.Stream-1, m.Blob)
		}
	case "piped":
		k.releaseNamed()
	case "frozen":
		if !l.snapshots.onFrozen(k, m) && !l.pins.onFrozen(k, m) {
			l.frozen.onFrozen(k, m)
		}
	case "entered":
		if a := k.entering; a != nil {
			k.entering = nil
			a.onEntered(l.Name, bounds.Clean(m.Why, bounds.MaxNamed))
		}
	case "described":
		s.onDescribed(k, m)
	case "woken":
		if !l.snapshots.onWoken(k, m) {
			l.frozen.onWoken(k, m)
		}
	}
	r := s.of(k)
	if r == nil || r.Asked().ID != m.ID {
		return
	}
	switch {
	case m.Type == "done" && !k.killed: // one that came to its end as it was killed is over with its kernel: the next run needs another
		if k.goesOn = len(m.GoesOn) > 0; m.Looked && !k.goesOn && !r.Asked().Fresh {
			l.noteLooked(m.ID)
		}
		r.Report(m)
	case m.Type == "begun":
		k.begun, k.asleep = true, false
		l.frozen.onBegun(k)
	case m.Type != "done":
		r.Report(m)
	}
}

func (k *Kernel) onHello(m *kernelproc.Report) {
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
func (k *Kernel) onLinkEnd(err error) {
	k.linkEnded = true
	switch {
	case k.ended || k.l.twins.lose(k):
	case k.exited:
		k.concludeEnd()
	case !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET):
		k.l.set.Server.Log("warn", "a kernel is killed, because it sent "+err.Error())
		k.Kill("")
	default:
		k.l.set.After(lostWait, func() {
			if !k.exited {
				k.Kill("")
			}
		})
	}
}

// Kill ends a kernel and then its programs.
func (k *Kernel) Kill(cause string) {
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
		k.taken = k.l.set.After(killWait, k.concludeEnd)
	}
}

func (k *Kernel) onExit(status syscall.WaitStatus) {
	k.exited = true
	k.cause = cmp.Or(k.cause, k.causeOf(status))
	// Its earlier messages count, and its link ends with it unless a child holds that open.
	if k.linkEnded {
		k.concludeEnd()
	} else {
		k.conclude = k.l.set.After(lostWait, k.concludeEnd)
	}
}

// ExitCause is the cause of a kernel's death that is followed by its status.
const ExitCause = "exit "

func (k *Kernel) causeOf(status syscall.WaitStatus) string {
	if !status.Signaled() {
		return ExitCause + strconv.Itoa(status.ExitStatus())
	}
	if status.Signal() == syscall.SIGKILL && k.l.set.Memory.HasKilled() {
		return "memory"
	}
	return "signal " + strconv.Itoa(int(status.Signal()))
}

// concludeEnd handles the end of a kernel, once.
func (k *Kernel) concludeEnd() {
	l, s := k.l, k.l.set
	if k.ended || l.twins.lose(k) {
		return
	}
	k.end()
	defer k.closePipes()
	cause := cmp.Or(k.cause, "signal 9")
	if l.snapshots.lose(k, cause) {
		return
	}
	if k == l.reserve.kernel {
		l.reserve.onDeath()
		return
	}
	r := s.of(k)
	if r != nil && r.Settle() { // it died behind the run
		if r.Asked().Fresh {
			return
		}
		r = nil
	}
	if k.fills {
		cause = "quota"
	}
	if k == l.main {
		l.main = nil
		procs.MustKill(l.Programs) // its programs, and none of current fresh runs
		l.goOn(k, cause)
	}
	l.frozen.onEnd(k, cause)
	if r == nil {
		if k.begun || k.woken {
			l.sendKernel("dead", cause)
		}
		s.provideWaiting()
		l.reserve.prepare()
	} else {
		r.Lose(cause)
	}
}

// end stops the timers and closes the links of a kernel that is dead, or is taken for it.
func (k *Kernel) end() {
	k.ended = true
	k.taken.Stop()
	k.conclude.Stop()
	k.link.Close()
	if k.watcher != nil {
		k.watcher.Close()
	}
	k.releaseNamed()
}

func (k *Kernel) closePipes() {
	for _, p := range k.pipes {
		p.Drain(nil)
		p.Close()
	}
	k.pipes = nil
}

func (k *Kernel) releaseNamed() {
	if k.named != nil {
		k.named.Release()
		k.named = nil
	}
}

// hasNewPrograms reports whether a program of the kernel may hold its pipes.
func (k *Kernel) hasNewPrograms() bool {
	table := procs.Read()
	for pid := range k.l.Programs(table) {
		if table[pid].Start >= k.pipedTicks {
			return true
		}
	}
	return false
}

// LeavePipes leaves the kernel's pipes to programs that an ended run left behind, if there are any, and sends it others. It returns the
// pipes whose output is the run's.
func (k *Kernel) LeavePipes(take [2]func([]byte)) []*kernelproc.Pipe {
	if k.ended || !k.hasNewPrograms() {
		return nil
	}
	named, err := kernelproc.NewNamedPipes(take)
	if err != nil {
		k.l.set.Server.Log("warn", "what programs that were left behind print may be taken for a later run's: "+err.Error())
		return nil
	}
	k.releaseNamed()
	left := k.pipes
	k.pipes, k.named, k.pipedTicks = named.Readers, named, procs.TicksNow()
	k.link.Send(map[string]any{"type": "pipes", "paths": named.Paths})
	return left
}

// Of a run -----------------------------------------------------------------------------

// PID is its process.
func (k *Kernel) PID() int { return k.pid }

// Pipes are those that the output of its run comes by, if it keeps them from run to run.
func (k *Kernel) Pipes() []*kernelproc.Pipe { return k.pipes }

// IsAlive reports whether it can be given another run.
func (k *Kernel) IsAlive() bool { return !k.isEnding() && !k.ended }

// HasBegun reports whether it began the run that it was given.
func (k *Kernel) HasBegun() bool { return k.begun && !k.asleep }

// IsWaking reports whether it reads the frozen variables, and has not begun its run.
func (k *Kernel) IsWaking() bool { return k == k.l.frozen.waking }

// HeardSince is when its watcher was there to hear of interrupts; zero: not yet.
func (k *Kernel) HeardSince() time.Time { return k.heard }

// Begin gives it a run.
func (k *Kernel) Begin(r Run, message any, writers ...*os.File) {
	if asked := r.Asked(); !asked.Fresh {
		k.l.frozen.wake(k, r)
		k.l.begin(k, asked.ID)
	}
	k.score()
	k.link.Send(message, writers...)
}

// Interrupt interrupts its run, once more, and reports whether signals are to do that.
func (k *Kernel) Interrupt(run, reason string) bool {
	k.interrupts++
	message := map[string]any{"type": "interrupt", "id": run, "n": k.interrupts}
	if reason == "memory" {
		message["reason"] = reason
	}
	k.link.Send(message) // also to a kernel still starting
	if k.watcher != nil {
		k.watcher.Send(message)
		return false
	}
	return k.ready && !k.l.isCutBySignals() // an interpreter that is just starting would end
}

// endAsFull ends it, because it filled the work directory.
func (k *Kernel) endAsFull() {
	k.fills = true
	k.Kill("quota")
}

// giveWay is called before a kernel's end: that takes milliseconds of the processor, which an answer or the next run needs more.
func (k *Kernel) giveWay() {
	if k.pid > 0 {
		_ = unix.Setpriority(unix.PRIO_PROCESS, k.pid, 19)
	}
}

// discard ends a kernel that nothing is waited for from.
func (k *Kernel) discard() {
	k.end()
	procs.Signal(k.pid, syscall.SIGKILL)
	k.closePipes()
}
