//go:build linux

// What runs ask of their kernels.

package kernels

import (
	"errors"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/kernelproc"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/procs"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
)

// standbyWait is how long a run waits for a kernel that is being forked.
const standbyWait = 500 * time.Millisecond

// Begin is called when a run begins.
func (l *Language) Begin(r Run) {
	l.use()
	l.ran = true
	if !r.Asked().Fresh {
		l.kept = r
	}
}

// Provide hands a run to the main kernel, to one from the reserve or to a new one, or makes it wait for one of them.
func (l *Language) Provide(r Run) {
	asked := r.Asked()
	if !asked.Fresh && l.frozen.kernel != nil {
		r.SetClock(false)
		return // that is the main one, and the run waits for the end of it
	}
	if !asked.Fresh && l.main != nil {
		if !l.main.isEnding() { // else the run waits for its end, and for the next one
			r.Take(l.main, time.Time{})
		}
		return
	}
	if asked.Copy && l.provideCopy(r) {
		return
	}
	if k := l.reserve.take(); k != nil {
		l.adopt(r, k, time.Time{})
	} else if l.reserve.isPromising() {
		r.SetWait(standbyWait, func() {
			l.reserve.giveUp()
			if r.Kernel() == nil {
				l.Provide(r)
			}
		})
	} else {
		l.provideNew(r)
	}
}

// provideCopy makes a run wait for a copy of the main kernel, forked when that is idle, or from its twin during a run. It
// reports whether there is a kernel to copy: the variables may still be in the snapshot.
func (l *Language) provideCopy(r Run) bool {
	if l.main == nil && l.frozen.isThere() {
		l.start()
	}
	if l.main == nil {
		return false
	}
	if l.main.isEnding() {
		return true // its end asks again, and so does the end of other obstacles
	}
	l.frozen.wake(l.main, r)
	l.twins.copyFor(r)
	return true
}

func (l *Language) provideNew(r Run) {
	k, err := l.spawn()
	if err == nil {
		l.adopt(r, k, time.Time{})
		return
	}
	name := "KernelStartError"
	if errors.Is(err, kernelproc.ErrNoInterpreter) {
		name = "NoInterpreter"
	}
	r.Refuse(name, "no interpreter could be started: "+err.Error())
}

// TakeOrigin returns the origin of the variables that a run began with, once.
func (l *Language) TakeOrigin(r Run) (origin *protocol.Origin) {
	k, asked := l.main, r.Asked()
	if asked.Copy {
		k = r.Kernel()
	}
	if asked.Fresh && (!asked.Copy || k == nil) {
		return nil
	}
	if k != nil {
		origin, k.origin = k.origin, nil
	}
	if origin == nil {
		origin = l.frozen.takeOrigin()
	}
	return origin
}

// Leave is called when a run has its answer: a run that keeps its variables leaves them to the next, and one with copy leaves its kernel.
func (l *Language) Leave(r Run, born time.Time, isCopy bool) {
	k, asked := r.Kernel(), r.Asked()
	if l.kept == r {
		l.kept = nil
	}
	switch {
	case isCopy:
		l.twins.keepCopy(k, asked.ID, born)
	case asked.Fresh && k != nil:
		k.end() // it was killed with its run
		k.closePipes()
	case k != nil && !k.isEnding():
		k.moment = &moment{run: asked.ID, since: k.moment.digest}
		if k.goesOn { // it changes variables later
			k.moment.since = ""
		}
		k.score()
	}
	if !asked.Fresh {
		l.want()
	}
}

// GoOn does what waited for the end of a run.
func (l *Language) GoOn(fresh bool) {
	if !fresh {
		l.set.provideWaiting() // those that wait for a copy of it
	}
	if l.HasZygote && (l.main == nil && !fresh || l.main != nil && l.main.begun && !l.main.loaded) { // one that ran no code loads nothing
		l.reserve.prepare()
	} else {
		l.reserve.want() // of all that there is to keep ready, the first run needs none
	}
	if !fresh {
		l.frozen.afterRun()
	}
}

// Renew is called after an install: what is kept ready may hold older imports of the packages.
func (l *Language) Renew() { l.reserve.renew() }

// HasRun reports whether a run came, so that a kernel may have variables.
func (l *Language) HasRun() bool { return l.ran }

// HasMain reports whether there is a kernel that keeps the session's variables.
func (l *Language) HasMain() bool { return l.main != nil }

// IsBusy reports whether a run goes on in that.
func (l *Language) IsBusy() bool { return l.kept != nil }

// Strays are the programs that do not belong to a kernel that stays. There are none to be told while a twin is on its way, whose
// process is not known before it speaks.
func (l *Language) Strays(table procs.Table) map[int]bool {
	if l.twins.awaitsHello() {
		return nil
	}
	strays := l.Programs(table)
	if l.main != nil {
		removeAll(strays, table.Family(l.main.pid))
	}
	return strays
}
