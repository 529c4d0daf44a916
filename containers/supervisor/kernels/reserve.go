//go:build linux

package kernels

import (
	"os"
	"syscall"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/kernelproc"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/loop"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/procs"
)

// All of these double with each loss, up to 64 times: neither must one that code kills again and again eat the
// time of the runs, nor a slow machine throw away for ever what was almost done.
const (
	loadWait    = 600 * time.Second
	forkWait    = 10 * time.Second
	lossPause   = 5 * time.Second
	spareDelay  = 20 * time.Millisecond
	spareYields = 300 * time.Millisecond // a new run needs the processor more
	doublings   = 6
)

// reserve keeps a kernel ready for a fresh run, or for the time after a kernel's death: it is only ever a short cut.
// With a zygote, that forks the kernel. It imports ahead once a kernel was taken: most sessions never want a second one.
type reserve struct {
	l      *Language
	kernel *Kernel
	wanted bool
	taken  bool
	losses int
	due    time.Time // when the next may be started
	timer  *loop.Timer
	idle   *loop.Timer // until nothing is kept ready any more, because no run came
	zygote *zygote
}

type zygote struct {
	pid   int
	link  *kernelproc.Link
	ready bool // it can fork
	loads bool // it imports ahead, or has done so
	limit *loop.Timer
}

func (r *reserve) want() {
	r.wanted = true
	r.idle.Stop()
	r.idle = r.l.set.After(aheadTime, r.rest)
	r.prepare()
}

// rest ends what is kept ready until a run wants it again.
func (r *reserve) rest() {
	if r.wanted = false; r.zygote != nil {
		r.endZygote()
	}
	if r.kernel != nil {
		r.kernel.Kill("")
	}
}

// prepare makes the missing ones: a zygote between runs, a kernel at any time.
func (r *reserve) prepare() {
	if !r.wanted || r.l.missing != "" {
		return
	}
	l, s := r.l, r.l.set
	if z := r.zygote; z != nil && z.ready && r.taken && !z.loads && l.isQuiet() && (r.kernel == nil || r.kernel.ready) {
		z.ready, z.loads = false, true
		z.link.Send(map[string]any{"type": "load"})
		r.limitLoad(z)
	}
	if r.kernel != nil {
		return
	}
	wait := max(time.Until(r.due), 0)
	switch {
	case l.HasZygote && r.zygote != nil:
		if r.zygote.ready {
			r.order()
		}
		return
	case l.HasZygote && !l.isQuiet():
		return // the end of the run asks again
	case !l.HasZygote:
		wait = max(wait, spareDelay)
		for _, run := range s.runs.All() {
			wait = max(wait, spareYields-time.Since(run.Began()))
		}
	}
	if wait > 0 {
		r.timer.Stop()
		r.timer = s.After(wait, r.prepareNow)
		return
	}
	r.prepareNow()
}

func (r *reserve) prepareNow() {
	l := r.l
	if r.kernel != nil || time.Until(r.due) > 0 {
		return
	}
	if l.HasZygote {
		if r.zygote == nil && l.isQuiet() {
			r.startZygote()
		}
		return
	}
	k, err := l.spawn()
	if err != nil {
		r.lose("it could not be started: " + err.Error())
		return
	}
	r.kernel = k
}

// take returns the kernel, or nil where it is not ready. prepare makes the next one.
func (r *reserve) take() *Kernel {
	k := r.kernel
	if k == nil || !k.ready && r.l.HasZygote {
		return nil
	}
	r.kernel, r.taken = nil, true
	procs.Signal(k.pid, syscall.SIGCONT) // code may have found and stopped it
	return k
}

// isPromising reports whether a run does well to wait for the kernel that is not ready.
func (r *reserve) isPromising() bool { return r.kernel != nil && !r.kernel.waitedFor }

// giveUp ends a run's wait: the zygote is stopped, or starved. The kernel may still come, but no run waits for it again.
func (r *reserve) giveUp() {
	if r.kernel != nil {
		r.kernel.waitedFor = true
	}
}

// onReady is called when the kernel reports that it is there.
func (r *reserve) onReady() {
	if r.zygote != nil {
		r.zygote.limit.Stop()
	} else {
		r.losses = 0
	}
	r.l.set.provideWaiting()
}

// onDeath is called when the kernel is dead.
func (r *reserve) onDeath() {
	r.kernel = nil
	if r.l.HasZygote || !r.wanted {
		r.prepare()
		return
	}
	r.lose("it died")
}

func (r *reserve) lose(why string) {
	r.l.set.Server.Log("info", "what was kept ready was lost: "+why)
	r.due = time.Now().Add(r.patience(lossPause) >> 3)
	if r.l.HasZygote {
		r.due = time.Now().Add(r.patience(lossPause))
	}
	r.losses++
	r.prepare()
}

func (r *reserve) patience(d time.Duration) time.Duration { return d << min(r.losses, doublings) }

// The zygote -----------------------------------------------------------------------

func (r *reserve) startZygote() {
	l, s := r.l, r.l.set
	process, err := kernelproc.Spawn(l.Language, l.program, "zygote", os.Stderr, os.Stderr)
	if err != nil {
		r.lose("the zygote could not be started: " + err.Error())
		return
	}
	z := &zygote{pid: process.PID, link: process.Link}
	r.zygote = z
	z.link.Send(l.initMessage())
	r.limitLoad(z)
	go func() {
		err := z.link.Read(func(m *kernelproc.Report) { s.Post(func() { r.onZygote(z, m) }) })
		s.Post(func() { r.dropZygote(z, "its link ended: "+err.Error()) })
	}()
}

func (r *reserve) limitLoad(z *zygote) {
	z.limit.Stop()
	z.limit = r.l.set.After(r.patience(loadWait), func() { r.dropZygote(z, "it did not load in time") })
}

func (r *reserve) onZygote(z *zygote, m *kernelproc.Report) {
	if r.zygote != z {
		return
	}
	switch m.Type {
	case "loaded":
		z.ready = true
		z.limit.Stop()
		if k := r.kernel; k != nil {
			k.Kill("") // it was forked before the imports
		}
		r.prepare()
	case "exit":
		r.l.set.Exited(m.PID, syscall.WaitStatus(m.Status))
	}
}

// order asks the zygote to fork a kernel.
func (r *reserve) order() {
	link, theirs, err := kernelproc.Pair()
	if err != nil {
		return
	}
	z := r.zygote
	r.kernel = &Kernel{l: r.l, link: link, pipedTicks: procs.TicksNow(), moment: &moment{}}
	r.kernel.listen()
	z.link.Send(map[string]any{"type": "fork"}, theirs)
	z.limit = r.l.set.After(r.patience(forkWait), func() { r.dropZygote(z, "it did not fork in time") })
}

func (r *reserve) onExit(pid int) {
	if r.zygote != nil && r.zygote.pid == pid {
		r.dropZygote(r.zygote, "it died")
	}
}

func (r *reserve) dropZygote(z *zygote, why string) {
	if r.zygote == z {
		r.endZygote()
		r.lose("the zygote: " + why)
	}
}

// endZygote ends the zygote and its pending fork.
func (r *reserve) endZygote() {
	z := r.zygote
	r.zygote = nil
	z.limit.Stop()
	procs.Signal(z.pid, syscall.SIGKILL)
	r.l.set.Disk.Forget() // while it ends, it looks like a program that hides its open files
	z.link.Close()
	if k := r.kernel; k != nil && !k.ready {
		r.kernel = nil
		k.ended = true
		k.link.Close()
		r.l.set.provideWaiting()
	}
}

// letGo ends the spare kernel and zygote to free memory, and reports whether there was one.
func (r *reserve) letGo() bool {
	z := r.zygote
	if z != nil {
		r.endZygote()
		r.lose("memory is short")
	}
	if k := r.kernel; k != nil && !k.killed {
		k.Kill("")
		return true
	}
	return z != nil
}

// renew is called after an install: the zygote may hold older imports of the packages.
func (r *reserve) renew() {
	if r.zygote == nil {
		return
	}
	r.rest()
	r.want()
}

// zygoteFamily is the zygote and its children, also one that it forks just now and whose number is not known yet.
func (r *reserve) zygoteFamily(table procs.Table) map[int]bool {
	if r.zygote == nil {
		return nil
	}
	family := map[int]bool{r.zygote.pid: true}
	for pid, p := range table {
		if p.Parent == r.zygote.pid {
			family[pid] = true
		}
	}
	return family
}
