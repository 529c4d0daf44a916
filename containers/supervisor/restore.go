//go:build linux

package main

import (
	"cmp"
	"strings"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/bounds"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/kernels"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/versions"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/workdir"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
)

// restore answers the message of that name. In this order: the ways back of the files and of all variables are prepared, the variables go
// back, the files do, and kernels enter their folders. What fails before the second leaves all as it is. No run begins before it is over.
type restore struct {
	*Supervisor
	asked  protocol.Request
	pin    *versions.Pin // nil: it is to runs
	left   []*kernels.Language
	ways   []*kernels.Way
	answer protocol.Restored
	files  *workdir.Return // nil: they stay
}

// restore begins with what can go back: before runs, or, if a name is given, to the checkpoint that was found, of all.
func (s *Supervisor) restore(l *kernels.Language, m protocol.Request, pin *versions.Pin, all []versions.Pin) {
	r := &restore{Supervisor: s, asked: m, pin: pin, answer: protocol.Restored{
		Type: "restored", Language: l.Name, ID: bounds.Clean(m.ID, bounds.MaxNamed), Checkpoints: workdir.Checkpoints(all),
	}}
	if pin != nil {
		to := workdir.CheckpointOf(*pin)
		r.answer.Checkpoint = &to
	}
	busy := s.runs.KeepFiles()
	switch {
	case m.Name != "" && pin == nil:
		r.answer.Error = "there is no checkpoint of that name"
	case !m.Files:
		r.answer.Error = s.runs.KeepVariables()
	case !s.Undo.Keeps():
		r.answer.Files = workdir.Refused("unknown", "no versions of files are kept here")
	case busy != "":
		r.answer.Files = workdir.Refused("busy", busy)
	}
	if r.answer.Error == "" && r.answer.Files == nil {
		r.look()
	}
	if r.answer.Error != "" || r.answer.Files != nil {
		r.tell()
		return
	}
	s.runs.SetRestoring(true)
	if m.Files {
		r.prepareFiles()
	} else {
		r.prepareVariables()
	}
}

// target is what a language's variables go back to.
func (r *restore) target(l *kernels.Language) kernels.Target {
	if r.pin != nil {
		return kernels.Target{Run: r.pin.Key(), Pin: r.pin}
	}
	return kernels.Target{Run: r.asked.Languages[l.Name]}
}

// look finds the languages whose variables can go back. What stands against that for now refuses all.
func (r *restore) look() {
	var why []string
	for _, l := range r.runs.Languages() {
		if _, asked := r.asked.Languages[l.Name]; !asked {
			continue
		}
		if r.answer.Error = l.Obstacle(); r.answer.Error != "" {
			return
		}
		if lacks := l.CannotGoBack(r.target(l)); lacks != "" {
			r.answer.Stay = append(r.answer.Stay, protocol.Lost{Name: l.Name, Why: lacks})
			why = append(why, lacks)
		} else {
			r.left = append(r.left, l)
		}
	}
	if len(r.left) == 0 && !r.asked.Files {
		r.answer.Error = cmp.Or(strings.Join(why, "; "), "no language of this container was named")
	}
}

func (r *restore) prepareFiles() {
	run := r.asked.Run
	if r.pin != nil {
		run = r.pin.Key()
	}
	room, holders := r.Disk.Room(r.Undo.Files()), r.runs.Holders()
	r.Dir.Prepare(r.answer.ID, run, room, holders, func(files *workdir.Return, refused *protocol.RestoredFiles) {
		if r.files, r.answer.Files = files, refused; files == nil {
			r.end()
			return
		}
		r.prepareVariables()
	})
}

// prepareVariables goes on with the next language, and in the end with all of them.
func (r *restore) prepareVariables() {
	if len(r.left) == 0 {
		r.goBack()
		return
	}
	l := r.left[0]
	r.left = r.left[1:]
	l.Prepare(r.target(l), func(w *kernels.Way, why string) {
		if why != "" {
			r.drop(why)
			return
		}
		r.ways = append(r.ways, w)
		r.prepareVariables()
	})
}

// drop leaves all as it is.
func (r *restore) drop(why string) {
	r.answer.Error, r.answer.Files = why, nil
	for _, w := range r.ways {
		w.Drop()
	}
	if r.files != nil {
		r.files.Drop()
	}
	r.end()
}

func (r *restore) goBack() {
	for _, w := range r.ways {
		if why := w.Gone(); why != "" {
			r.drop(why)
			return
		}
	}
	kernel := 0 // which may have files open as they were
	for _, w := range r.ways {
		lost, total := w.Take()
		r.answer.Went = append(r.answer.Went, w.Name)
		r.lose(lost, total)
		kernel = max(kernel, w.Reopened())
	}
	if r.files == nil {
		r.end()
		return
	}
	r.files.Apply(kernel, func(files *protocol.RestoredFiles, parted []protocol.Lost) {
		r.answer.Files = files
		r.lose(parted, len(parted))
		r.runs.Enter(func(gone []protocol.Lost) {
			r.lose(gone, len(gone))
			r.end()
		})
	})
}

func (r *restore) lose(lost []protocol.Lost, total int) {
	r.answer.Lost, r.answer.LostTotal = append(r.answer.Lost, lost...), r.answer.LostTotal+total
}

func (r *restore) end() {
	r.tell()
	r.runs.SetRestoring(false)
}

func (r *restore) tell() {
	for _, l := range r.runs.Languages() {
		if _, asked := r.asked.Languages[l.Name]; asked {
			before, copies := l.Restorable()
			r.answer.Runs, r.answer.Copies = append(r.answer.Runs, before...), append(r.answer.Copies, copies...)
		}
	}
	r.Server.Send(r.answer, false)
	for _, l := range r.runs.Languages() {
		l.Tell(false)
	}
}

// checkpoint answers the message of that name: it keeps the present files, then the variables, by a name. No run begins meanwhile.
func (s *Supervisor) checkpoint(l *kernels.Language, m protocol.Request) {
	answer := protocol.Restored{Type: "restored", Language: l.Name, ID: bounds.Clean(m.ID, bounds.MaxNamed)}
	why, code := cmp.Or(s.runs.KeepFiles(), s.runs.Obstacle()), "busy"
	if !s.Undo.Keeps() {
		why, code = "no versions of files are kept here", "unknown"
	}
	if why != "" {
		answer.Files = workdir.Refused(code, why)
		s.Server.Send(answer, false)
		return
	}
	s.runs.SetRestoring(true)
	pin := versions.Pin{
		Name: bounds.Clean(m.Name, versions.MostName), After: bounds.Clean(m.Run, bounds.MaxNamed), AtMS: time.Now().UnixMilli(), Languages: s.runs.WithVariables(),
	}
	s.Undo.Pin(pin, func(pin versions.Pin, files *protocol.RestoredFiles) {
		answer.Files = files
		if files.Error != "" {
			s.Server.Send(answer, false)
			s.runs.SetRestoring(false)
			return
		}
		s.runs.Pin(pin, func(lost []protocol.Lost, total int) {
			answer.Lost, answer.LostTotal = lost, total
			s.Undo.FindPin(pin.Name, func(found *versions.Pin, all []versions.Pin) {
				if found != nil {
					made := workdir.CheckpointOf(*found)
					answer.Checkpoint = &made
				}
				answer.Checkpoints, answer.Dropped = workdir.Checkpoints(all), s.Undo.Dropped()
				s.Server.Send(answer, false)
				s.runs.SetRestoring(false)
			})
		})
	})
}
