//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"sync"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/versions"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
)

// undo keeps versions of the files around runs, and goes back to them.
type undo struct {
	loop
	server   *server
	settings *settings
	store    *versions.Store // nil: no versions are kept; set before a stream is served
	info     versions.Info
	placing  sync.RWMutex // held by a restore: no file is brought to its place meanwhile
	told     []byte
}

// undoFiles is how many files the versions may be.
const undoFiles = 10_000

// open begins to keep versions of the files in a folder.
func (u *undo) open(folder int, settings *settings) {
	u.settings = settings
	if folder < 0 || settings.UndoBytes <= 0 {
		return
	}
	infos := make(chan versions.Info, 1)
	go func() {
		for info := range infos {
			u.post(func() {
				u.info = info
				u.tell(false)
			})
		}
	}()
	u.store = versions.Open(folder, settings.UndoBytes, func(info versions.Info) {
		select {
		case <-infos: // only the newest counts, and the store waits for nobody
		default:
		}
		infos <- info
	})
}

// tell sends the runs that can be undone if they changed, or always if again is set.
func (u *undo) tell(again bool) {
	if u.store == nil || u.settings.Spare {
		return
	}
	m := protocol.Versions{Type: "versions", Runs: append([]string{}, u.info.Runs...), NotKept: notKept(u.info.NotKept), NotKeptTotal: u.info.NotKeptTotal, Did: did(u.info.Did)}
	if body, _ := json.Marshal(m); again || !bytes.Equal(body, u.told) {
		u.told = body
		u.server.sendBody(body, false)
	}
}

func notKept(list []versions.Named) []protocol.NotKept {
	told := []protocol.NotKept{}
	for _, n := range list {
		told = append(told, protocol.NotKept{Path: clean(n.Path, maxNamed), Why: clean(n.Why, maxNamed)})
	}
	return told
}

func did(list []versions.Did) (told []protocol.Did) {
	for _, d := range list {
		one := protocol.Did{Runs: d.Runs, Added: max(d.Added, 0), Changed: max(d.Changed, 0), Removed: max(d.Removed, 0)}
		for _, t := range d.Paths {
			one.Paths = append(one.Paths, protocol.Touched{Path: clean(t.Path, maxNamed), How: clean(t.How, maxNamed)})
		}
		told = append(told, one)
	}
	return told
}

func (u *undo) begin(run string) {
	if u.store != nil {
		u.store.Begin(run)
	}
}

// end keeps what a run changed, as far as there is room.
func (u *undo) end(run string, room int64) {
	if u.store != nil {
		u.store.End(run, room)
	}
}

func (u *undo) files() int64 {
	if most := u.settings.VolumeFiles; most > 0 {
		return min(undoFiles, most/8)
	}
	return undoFiles
}

// note is called by other goroutines, when files were brought.
func (u *undo) note(path ...string) {
	if u.store != nil {
		u.store.Note(path...)
	}
}

// giveWay drops the versions, and reports whether there are any.
func (u *undo) giveWay() bool { return u.store != nil && u.store.GiveWay() }

func (u *undo) apply(plan *versions.Plan, tell func(*protocol.RestoredFiles)) {
	go func() {
		o := plan.Apply()
		u.post(func() {
			tell(&protocol.RestoredFiles{Restored: o.Restored, Removed: o.Removed, NotKept: notKept(o.NotRestored), NotKeptTotal: o.NotRestoredTotal})
		})
	}()
}

func codeOf(err error) string {
	switch full := new(versions.FullError); {
	case errors.Is(err, versions.ErrBusy):
		return "busy"
	case errors.Is(err, versions.ErrUnknown):
		return "unknown"
	case errors.As(err, &full):
		return "full"
	}
	return "failed"
}
