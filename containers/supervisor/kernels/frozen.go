//go:build linux

package kernels

import (
	"strconv"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/bounds"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/kernelproc"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/loop"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/procs"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
)

const (
	freezeMargin = 5 * time.Second // that a kernel may take longer than it was told to
	coldStart    = time.Minute     // that one may take to be there at all
	mostLost     = 50
	noVariables  = "no code has run"
	// A file that is written beside the one before, and the folder of both, are more files than there were.
	freezeFiles = 3
)

// frozen keeps the variables of the main kernel in a file of the work directory, which a later one reads them from.
type frozen struct {
	l        *Language
	kernel   *Kernel                 // that writes the file at this moment
	told     []func(protocol.Frozen) // who waits for that
	limit    *loop.Timer             // for it, or for the kernel that reads
	over     func(protocol.Frozen)   // the outcome, when the run that goes on has ended; nil: the container does not end
	size     int64                   // that the file may take
	waking   *Kernel                 // reads the file and has no run yet
	tookLong bool                    // which it was killed for
	origin   *protocol.Origin        // untold yet
}

func (f *frozen) name() string { return f.l.Name + ".frozen" }

// retire writes the variables, and calls over with the outcome. A run that goes on is stopped first.
func (f *frozen) retire(over func(protocol.Frozen)) {
	if r := f.l.kept; r != nil && f.kernel == nil {
		f.over = over
		r.Hurry() // its end goes on with this
		return
	}
	f.freeze(over)
}

// afterRun is called when the run that keeps its variables is over.
func (f *frozen) afterRun() {
	if over := f.over; over != nil {
		f.over = nil
		f.freeze(over)
	}
}

// answer answers the server's request.
func (f *frozen) answer(id string) {
	f.freeze(func(answer protocol.Frozen) {
		answer.ID = id
		f.l.pins.behind(func() { f.l.set.Server.Send(answer, false) })
	})
}

// freeze asks the main kernel to write its snapshot, and passes the outcome to tell.
func (f *frozen) freeze(tell func(protocol.Frozen)) {
	if f.kernel != nil {
		f.told = append(f.told, tell)
		return
	}
	room, why := f.room(f.l.set.Settings.FreezeBytes)
	if why != "" {
		tell(protocol.Frozen{Type: "frozen", Language: f.l.Name, Lost: []protocol.Lost{}, Error: why})
		return
	}
	f.size = room
	k, seconds := f.l.main, f.l.set.Settings.FreezeSeconds
	f.kernel, f.told = k, append(f.told, tell)
	f.limit = f.l.set.After(f.patience(), func() {
		f.l.set.Server.Log("warn", "a kernel is killed, because it did not write its variables in time")
		k.Kill("")
	})
	k.link.Send(map[string]any{"type": "freeze", "path": f.l.set.Dir.StateFile(f.name()), "limit_bytes": room, "seconds": seconds})
}

func (f *frozen) patience() time.Duration {
	return time.Duration(f.l.set.Settings.FreezeSeconds)*time.Second + freezeMargin
}

// room returns how many bytes of so many a file of variables may take, or why none is written.
func (f *frozen) room(room int64) (int64, string) {
	l, s := f.l, f.l.set
	switch {
	case room <= 0:
		return 0, "variables are not kept"
	case l.kept != nil:
		return 0, "a run goes on"
	case l.main == nil || l.main.isEnding() || !l.main.begun:
		return 0, noVariables
	}
	if err := s.Dir.MakeState(); err != nil {
		return 0, "the folder of the session's state cannot be used: " + err.Error()
	}
	if s.Disk.IsOn() {
		room = min(room, s.Disk.Room(freezeFiles))
		for _, other := range s.languages { // what is being written takes about as much as its kernel holds, if that is less
			if k := other.frozen.kernel; k != nil {
				room -= min(other.frozen.size, procs.Anonymous(k.pid))
			}
		}
	}
	if room <= 0 {
		return 0, "the work directory is full"
	}
	return room, ""
}

// onFrozen handles a kernel's report of its snapshot.
func (f *frozen) onFrozen(k *Kernel, m *kernelproc.Report) {
	if k == f.kernel {
		lost, total := lostOf(m)
		f.conclude(protocol.Frozen{Variables: max(m.Variables, 0), Bytes: max(m.Bytes, 0), Lost: lost, LostTotal: total, Error: bounds.Clean(m.Why, bounds.MaxNamed)})
	}
}

// conclude answers those who wait, and lets the waiting run begin.
func (f *frozen) conclude(answer protocol.Frozen) {
	answer.Type, answer.Language = "frozen", f.l.Name
	told := f.told
	if answer.Error == "" {
		f.l.first = nil // a new kernel does not have those variables any more
		f.l.Tell(false)
	}
	f.limit.Stop()
	f.kernel, f.told = nil, nil
	for _, tell := range told {
		tell(answer)
	}
	if r := f.l.kept; r != nil && r.Kernel() == nil {
		r.SetClock(true)
		r.Provide()
	}
}

// onEnd is called when a kernel is dead.
func (f *frozen) onEnd(k *Kernel, cause string) {
	if k == f.kernel {
		f.conclude(protocol.Frozen{Lost: []protocol.Lost{}, Error: "the kernel ended: " + cause})
	}
	if k == f.waking {
		f.onWakeLost(cause)
	}
	f.l.pins.lose(k, cause)
}

// lostOf bounds a kernel's list of lost variables.
func lostOf(m *kernelproc.Report) ([]protocol.Lost, int) {
	return cleaned(m.Lost), max(m.LostTotal, len(m.Lost))
}

func cleaned(lost []protocol.Lost) []protocol.Lost {
	clear := []protocol.Lost{}
	for _, l := range lost[:min(len(lost), mostLost)] {
		clear = append(clear, protocol.Lost{Name: bounds.Clean(l.Name, bounds.MaxNamed), Why: bounds.Clean(l.Why, bounds.MaxNamed)})
	}
	return clear
}

// readTime is how many times as long reading may take as writing: what is not read in time is lost, and a machine that wakes many sessions is
// slow.
const readTime = 3

// Waking -----------------------------------------------------------------------------

// wake asks the main kernel to restore the snapshot, if there is one, before its first run or before a copy. The clocks
// of all waiting runs stand still.
func (f *frozen) wake(k *Kernel, r Run) {
	if !k.begun && !k.woken && f.l.set.Settings.FreezeBytes > 0 && f.isThere() {
		k.woken = true
		f.waking, f.tookLong = k, false
		k.link.Send(map[string]any{"type": "wake", "path": f.l.set.Dir.StateFile(f.name()), "seconds": readTime * f.l.set.Settings.FreezeSeconds})
		f.limitWake(k)
	}
	if k == f.waking && !k.awake {
		r.SetClock(false)
	}
}

// limitWake is called again when the kernel is there, which a cold one is only a while later.
func (f *frozen) limitWake(k *Kernel) {
	if k != f.waking || k.awake {
		return
	}
	most := readTime * f.patience()
	if !k.ready {
		most += coldStart
	}
	f.limit.Stop()
	f.limit = f.l.set.After(most, func() {
		f.tookLong = true
		k.Kill("")
	})
}

// letTimeBegin is called when there is nothing to wait for any more.
func (f *frozen) letTimeBegin(k *Kernel) {
	for _, r := range f.l.set.runs.All() {
		if asked := r.Asked(); asked.Language == f.l.Name && (r.Kernel() == k || asked.Copy && r.Kernel() == nil) {
			r.SetClock(true)
		}
	}
}

func (f *frozen) isThere() bool { return f.l.set.Dir.HasState(f.name()) }

// onWoken handles a kernel's report of its restore.
func (f *frozen) onWoken(k *Kernel, m *kernelproc.Report) {
	if k != f.waking || k.awake {
		return
	}
	k.awake = true
	f.limit.Stop()
	if m.Why != "" {
		f.waking = nil
		f.setAside(bounds.Clean(m.Why, bounds.MaxNamed))
		f.l.twins.refuseWaiting(f.origin.Error)
	} else {
		lost, total := lostOf(m)
		f.origin = &protocol.Origin{From: "frozen", Variables: max(m.Variables, 0), AtMS: m.AtMS, Lost: lost, LostTotal: total, Doubtful: cleaned(m.Doubtful)}
	}
	f.letTimeBegin(k)
	if f.l.set.of(k) == nil {
		f.waking = nil // it was to be copied
	}
}

// onBegun is called when the run begins that a kernel was to wake for: later failures are not the file's.
func (f *frozen) onBegun(k *Kernel) {
	if k == f.waking {
		f.limit.Stop()
		f.waking = nil
	}
}

// onWakeLost gives up a file that a kernel died over. A kernel that never came up did not read it, one whose run was
// stopped may not be through, and other runs may have caused a want of memory.
func (f *frozen) onWakeLost(cause string) {
	k := f.waking
	f.onBegun(k)
	r := f.l.set.of(k)
	why, its := "the kernel ended over them: "+cause, r == nil || !r.IsStopped()
	switch {
	case f.tookLong:
		why, its = "it took longer than "+strconv.Itoa(readTime*f.l.set.Settings.FreezeSeconds)+" s", true
	case cause == "memory":
		why, its = "there is not enough memory for them", f.l.set.isAlone(k)
	}
	if k.ready && its {
		f.setAside(why)
	}
	f.letTimeBegin(k)
}

// setAside renames the file, so that no later kernel reads it, and lets the next answer say why.
func (f *frozen) setAside(why string) {
	f.origin = &protocol.Origin{From: "frozen", Lost: []protocol.Lost{}, Error: "the frozen variables could not be read: " + why}
	if err := f.l.set.Dir.SetAside(f.name()); err != nil {
		f.l.set.Server.Log("warn", "the file of the frozen variables cannot be set aside: "+err.Error())
	}
}

// takeOrigin returns, once, where the variables came from that a run began with.
func (f *frozen) takeOrigin() *protocol.Origin {
	origin := f.origin
	f.origin = nil
	return origin
}
