//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"sync"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/kernelproc"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/versions"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
)

// undo keeps versions of the files around runs, and goes back to them.
type undo struct {
	s       *Supervisor
	store   *versions.Store // nil: no versions are kept; set before a stream is served
	info    versions.Info
	going   bool               // a restore goes on, and no run begins
	waiting []protocol.Request // runs that came meanwhile
	placing sync.RWMutex       // held by a restore: no file is brought to its place meanwhile
	told    []byte
}

// undoFiles is how many files the versions may be.
const undoFiles = 10_000

func (u *undo) open() {
	s := u.s
	if s.workDir.dir == nil || s.settings.UndoBytes <= 0 {
		return
	}
	infos := make(chan versions.Info, 1)
	go func() {
		for info := range infos {
			s.post(func() {
				u.info = info
				u.tell(false)
			})
		}
	}()
	u.store = versions.Open(s.workDir.fd(), s.settings.UndoBytes, func(info versions.Info) {
		select {
		case <-infos: // only the newest counts, and the store waits for nobody
		default:
		}
		infos <- info
	})
}

// tell sends the runs that can be undone if they changed, or always if again is set.
func (u *undo) tell(again bool) {
	if u.store == nil || u.s.settings.Spare {
		return
	}
	m := protocol.Versions{Type: "versions", Runs: append([]string{}, u.info.Runs...), NotKept: notKept(u.info.NotKept), NotKeptTotal: u.info.NotKeptTotal, Did: did(u.info.Did)}
	if body, _ := json.Marshal(m); again || !bytes.Equal(body, u.told) {
		u.told = body
		u.s.server.sendBody(body, false)
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

func (u *undo) end(run string) {
	if u.store == nil {
		return
	}
	free := int64(math.MaxInt64 / 2)
	if u.s.guard != nil {
		free = u.s.guard.watch.Room(u.files())
	}
	u.store.End(run, free)
}

func (u *undo) files() int64 {
	if most := u.s.settings.VolumeFiles; most > 0 {
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

// holds keeps a run until a restore is over.
func (u *undo) holds(m protocol.Request) bool {
	if u.going {
		u.waiting = append(u.waiting, m)
	}
	return u.going
}

// cancel answers a run that waits for the end of a restore, if there is one of this id.
func (u *undo) cancel(id string) {
	i := slices.IndexFunc(u.waiting, func(m protocol.Request) bool { return m.ID == id })
	if i < 0 {
		return
	}
	m := u.waiting[i]
	u.waiting = slices.Delete(u.waiting, i, i+1)
	u.s.runs.answerUnbegun(u.s.language(m.Language), protocol.Done{ID: id, Status: "cancelled", ExitCode: 130})
}

// restore answers the message of that name. No run begins before it is over.
func (u *undo) restore(l *language, m protocol.Request) {
	s := u.s
	answer := protocol.Restored{Type: "restored", Language: l.Name, ID: clean(m.ID, maxNamed), Run: clean(m.Run, maxNamed)}
	tell := func() {
		answer.Runs, answer.Copies = l.restorable()
		s.server.send(answer, false)
		l.sendRestorable(false)
	}
	over := func() {
		tell()
		u.goOn()
	}
	refused := func(code, why string) *protocol.RestoredFiles {
		return &protocol.RestoredFiles{NotKept: []protocol.NotKept{}, Code: code, Error: why}
	}
	// goBack goes on when the variables are those from before the run.
	goBack := func(then, failed func()) {
		l.goBack(m.Run, func(report *kernelproc.Report, why string) {
			if answer.Error = why; why != "" {
				failed()
				return
			}
			if report != nil {
				answer.Lost, answer.LostTotal = lostOf(report)
			}
			then()
		})
	}
	why := ""
	if m.Variables {
		why = l.cannotGoBack(m.Run)
	}
	if why != "" && m.Files && !l.HasZygote {
		m.Variables, answer.Stay, why = false, why, ""
	}
	switch {
	case why != "":
		answer.Error = why
		tell()
	case !m.Files && u.going:
		answer.Error = "another restore goes on in this session"
		tell()
	case !m.Files:
		u.going = true
		goBack(over, over)
	case u.store == nil:
		answer.Files = refused("unknown", "no versions of files are kept here")
		tell()
	case len(s.runs.all) > 0 || s.retiring || u.going:
		answer.Files = refused("busy", "a run or another restore goes on in this session")
		tell()
	default:
		u.going = true
		free := int64(math.MaxInt64 / 2)
		if s.guard != nil {
			free = s.guard.room(u.files())
		}
		go func() {
			u.placing.Lock()
			plan, err := u.store.Prepare(answer.ID, m.Run, free)
			placed := func() {
				u.placing.Unlock()
				over()
			}
			apply := func() {
				u.apply(plan, func(files *protocol.RestoredFiles) {
					answer.Files = files
					placed()
				})
			}
			s.post(func() {
				switch {
				case err != nil:
					answer.Files = refused(codeOf(err), err.Error())
					placed()
				case m.Variables:
					goBack(apply, func() { plan.Drop(); placed() })
				default:
					apply()
				}
			})
		}()
	}
}

func (u *undo) apply(plan *versions.Plan, tell func(*protocol.RestoredFiles)) {
	go func() {
		o := plan.Apply()
		u.s.post(func() {
			tell(&protocol.RestoredFiles{Restored: o.Restored, Removed: o.Removed, NotKept: notKept(o.NotRestored), NotKeptTotal: o.NotRestoredTotal})
		})
	}()
}

// goOn lets the waiting runs begin.
func (u *undo) goOn() {
	waiting := u.waiting
	u.going, u.waiting = false, nil
	for _, m := range waiting {
		u.s.runs.begin(m)
	}
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
