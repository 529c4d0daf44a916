//go:build linux

package workdir

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/artifacts"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/bounds"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/door"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/loop"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/versions"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/volume"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
)

// Undo keeps versions of the files around runs, and goes back to them. The loop owns it.
type Undo struct {
	loop     loop.Loop
	server   *door.Server
	settings *bounds.Settings
	store    *versions.Store // nil: no versions are kept; set before a stream is served
	info     versions.Info
	placing  sync.RWMutex // held by a restore: no file is brought to its place meanwhile
	told     []byte
	awaited  <-chan struct{} // until the files behind the last run are copied
	caughtUp bool            // with what others changed in mounted folders before the next run
	named    []string        // Files without a copy that an answer has named
	pinned   func(pins []versions.Pin, upcoming int)
}

// OnPins sets what is called with the checkpoints that there are, when these may have changed; later ones have at least the number upcoming.
func (u *Undo) OnPins(f func(pins []versions.Pin, upcoming int)) { u.pinned = f }

// NewUndo keeps no versions yet.
func NewUndo(l loop.Loop, server *door.Server, settings *bounds.Settings) *Undo {
	return &Undo{loop: l, server: server, settings: settings}
}

const undoFiles = 10_000 // that the versions may be

// Open begins to keep versions of the files in a folder.
func (u *Undo) Open(w *Dir) {
	if w.dir == nil || u.settings.UndoBytes <= 0 {
		return
	}
	infos := make(chan versions.Info, 1)
	go func() {
		for info := range infos {
			u.loop.Post(func() {
				u.info = info
				u.pinned(info.Pins, info.Upcoming)
				u.Tell(false)
			})
		}
	}()
	u.store = versions.Open(w.FD(), w.state, u.settings.UndoBytes, func(info versions.Info) {
		select {
		case <-infos: // only the newest counts, and the store waits for nobody
		default:
		}
		infos <- info
	}, u.settings.UndoMounts...)
}

// Tell sends the runs that can be undone if they changed, or always if again is set.
func (u *Undo) Tell(again bool) {
	if u.store == nil || u.settings.Spare {
		return
	}
	m := protocol.Versions{
		Type: "versions", Runs: append([]string{}, u.info.Runs...), NotKept: notKept(u.info.NotKept), NotKeptTotal: u.info.NotKeptTotal,
		Did: did(u.info.Did), Gone: cleaned(u.info.Gone), Checkpoints: Checkpoints(u.info.Pins),
	}
	if body, _ := json.Marshal(m); again || !bytes.Equal(body, u.told) {
		u.told = body
		u.server.SendBody(body, false)
	}
}

func notKept(list []versions.Named) []protocol.NotKept {
	told := []protocol.NotKept{}
	for _, n := range list {
		told = append(told, protocol.NotKept{Path: bounds.Clean(n.Path, bounds.MaxNamed), Why: bounds.Clean(n.Why, bounds.MaxNamed)})
	}
	return told
}

func cleaned(paths []string) (told []string) {
	for _, path := range paths {
		told = append(told, bounds.Clean(path, bounds.MaxNamed))
	}
	return told
}

func did(list []versions.Did) (told []protocol.Did) {
	for _, d := range list {
		one := protocol.Did{Runs: d.Runs, Added: max(d.Added, 0), Changed: max(d.Changed, 0), Removed: max(d.Removed, 0)}
		for _, t := range d.Paths {
			one.Paths = append(one.Paths, protocol.Touched{Path: bounds.Clean(t.Path, bounds.MaxNamed), How: bounds.Clean(t.How, bounds.MaxNamed)})
		}
		told = append(told, one)
	}
	return told
}

// IsLooking reports whether the files behind the last run are not all copied yet. The loop goes on when they are.
func (u *Undo) IsLooking() bool {
	if u.store == nil {
		return false
	}
	if !u.caughtUp {
		u.caughtUp = true
		u.store.CatchUp()
	}
	settled := u.store.Settled()
	select {
	case <-settled:
		return false
	default:
	}
	if u.awaited != settled {
		u.awaited = settled
		go func() {
			<-settled
			u.loop.Post(func() {})
		}()
	}
	return true
}

// Settle tells the server how the files are, and then calls on the loop.
func (u *Undo) Settle(then func()) {
	if u.store == nil {
		then()
		return
	}
	go func() {
		info := u.store.Info()
		u.loop.Post(func() {
			u.info = info
			u.Tell(false)
			then()
		})
	}()
}

// Begin notes that a run or a program begins.
func (u *Undo) Begin(run string) {
	if u.store != nil {
		u.caughtUp = false
		u.store.Begin(run)
	}
}

// End keeps what a run changed, as far as there is room.
func (u *Undo) End(run string, room int64) {
	if u.store != nil {
		u.store.End(run, room)
	}
}

// EndOther is End for what is no run: what it changed stays as earlier runs are undone.
func (u *Undo) EndOther(id string) {
	if u.store != nil {
		u.store.EndOther(id)
	}
}

// Files is how many files the versions may be.
func (u *Undo) Files() int64 {
	if most := u.settings.VolumeFiles; most > 0 {
		return min(undoFiles, most/8)
	}
	return undoFiles
}

// note is called by other goroutines, when files were brought.
func (u *Undo) note(path ...string) {
	if u.store != nil {
		u.store.Note(path...)
	}
}

// NewlyUnkept lists the files without a copy that no answer has named: those that a person sees.
func (u *Undo) NewlyUnkept() (list []protocol.NotKept) {
	var all []string
	for _, n := range notKept(u.info.NotKept) {
		if !artifacts.IsArtifact(n.Path) && !strings.HasPrefix(n.Path, "input/") {
			continue
		}
		if all = append(all, n.Path); !slices.Contains(u.named, n.Path) {
			list = append(list, n)
		}
	}
	u.named = all
	return list
}

// Checkpoints, by names -------------------------------------------------------------------

// Checkpoints describes them, the newest last.
func Checkpoints(pins []versions.Pin) (list []protocol.Checkpoint) {
	for _, p := range pins {
		list = append(list, CheckpointOf(p))
	}
	return list
}

// CheckpointOf describes one.
func CheckpointOf(p versions.Pin) protocol.Checkpoint {
	return protocol.Checkpoint{Name: bounds.Clean(p.Name, versions.MostName), After: bounds.Clean(p.After, bounds.MaxNamed), AtMS: p.AtMS, Languages: p.Languages}
}

// Pin keeps the present files by a name, and calls then on the loop: with why they cannot be kept, or the files without a copy.
func (u *Undo) Pin(p versions.Pin, then func(p versions.Pin, files *protocol.RestoredFiles)) {
	go func() {
		p, unkept, total, err := u.store.Pin(p)
		files := &protocol.RestoredFiles{NotKept: notKept(unkept), NotKeptTotal: total}
		if err != nil {
			files = Refused(codeOf(err), err.Error())
		}
		u.loop.Post(func() { then(p, files) })
	}()
}

// FindPin looks for the checkpoint of a name, and calls then on the loop with it, nil if there is none, and all that there are.
func (u *Undo) FindPin(name string, then func(found *versions.Pin, all []versions.Pin)) {
	go func() {
		found, all := u.store.FindPin(name)
		u.loop.Post(func() {
			u.info.Pins = all
			u.Tell(false) // before any answer
			then(found, all)
		})
	}()
}

// Unpin drops the oldest checkpoint for want of room.
func (u *Undo) Unpin() { go u.store.Unpin() }

// Dropped returns, once, the names of the checkpoints that were dropped for want of room.
func (u *Undo) Dropped() []string {
	if u.store == nil {
		return nil
	}
	return u.store.Lost()
}

// GiveWay drops the versions, and reports whether there are any.
func (u *Undo) GiveWay() bool { return u.store != nil && u.store.GiveWay() }

// Keeps reports whether versions are kept.
func (u *Undo) Keeps() bool { return u.store != nil }

// Return is a way back of the files that is prepared: no file is brought to its place before it is over.
type Return struct {
	u      *Undo
	plan   *versions.Plan
	opened map[int]map[uint64]string // what processes had open then, by their numbers
}

// Prepare finds what brings the files back to before a run, and calls then on the loop with that, or with why they stay.
func (w *Dir) Prepare(id, run string, room int64, holders []int, then func(*Return, *protocol.RestoredFiles)) {
	u := w.undo
	go func() {
		u.placing.Lock()
		opened, all := map[int]map[uint64]string{}, []uint64{}
		for _, pid := range holders {
			opened[pid] = volume.Opened(w.Folders(), pid)
			all = slices.AppendSeq(all, maps.Keys(opened[pid]))
		}
		plan, err := u.store.Prepare(id, run, room, all...)
		u.loop.Post(func() {
			if err != nil {
				u.placing.Unlock()
				then(nil, Refused(codeOf(err), err.Error()))
				return
			}
			then(&Return{u, plan, opened}, nil)
		})
	}()
}

// Drop leaves the files as they are.
func (r *Return) Drop() {
	r.plan.Drop()
	r.u.placing.Unlock()
}

// Apply carries it out. It tells of the replaced files that a kernel whose variables went back has open as they were; 0: there is none. No
// code ran in it since.
func (r *Return) Apply(kernel int, tell func(*protocol.RestoredFiles, []protocol.Lost)) {
	go func() {
		o := r.plan.Apply()
		var parted []protocol.Lost
		for _, path := range r.plan.Parted(r.opened[kernel]) {
			parted = append(parted, protocol.Lost{Name: "what is open of " + bounds.Clean(path, bounds.MaxNamed), Why: "that file was replaced meanwhile: open it again"})
		}
		r.u.loop.Post(func() {
			r.u.placing.Unlock()
			tell(&protocol.RestoredFiles{Restored: o.Restored, Removed: o.Removed, NotKept: notKept(o.NotRestored), NotKeptTotal: o.NotRestoredTotal}, parted)
		})
	}()
}

// Refused says why no files go back.
func Refused(code, why string) *protocol.RestoredFiles {
	return &protocol.RestoredFiles{NotKept: []protocol.NotKept{}, Code: code, Error: why}
}

func codeOf(err error) string {
	switch full := new(versions.FullError); {
	case errors.Is(err, versions.ErrBusy):
		return "busy"
	case errors.Is(err, versions.ErrUnknown):
		return "unknown"
	case errors.As(err, &full), errors.Is(err, syscall.ENOSPC):
		return "full"
	}
	return "failed"
}
