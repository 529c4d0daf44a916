//go:build linux

package main

import (
	"cmp"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/bounds"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/kernels"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/versions"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/workdir"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
)

// restore answers the message of that name. In this order: the way back of the files is prepared, the variables go back, the files do.
// No run begins before it is over.
type restore struct {
	*Supervisor
	l      *kernels.Language
	asked  protocol.Request
	to     kernels.Target
	answer protocol.Restored
	files  *workdir.Return // nil: they stay
}

// restore begins with what can go back: before a run, or, if a name is given, to the checkpoint that was found, of all.
func (s *Supervisor) restore(l *kernels.Language, m protocol.Request, pin *versions.Pin, all []versions.Pin) {
	r := &restore{Supervisor: s, l: l, asked: m, to: kernels.Target{Run: m.Run, Pin: pin}, answer: protocol.Restored{
		Type: "restored", Language: l.Name, ID: bounds.Clean(m.ID, bounds.MaxNamed), Run: bounds.Clean(m.Run, bounds.MaxNamed),
		Checkpoints: workdir.Checkpoints(all),
	}}
	if pin != nil {
		to := workdir.CheckpointOf(*pin)
		r.to.Run, r.answer.Checkpoint = pin.Key(), &to
	}
	stay, busy := "", s.runs.KeepFiles()
	if m.Variables {
		stay = l.CannotGoBack(r.to)
	}
	switch {
	case m.Name != "" && pin == nil:
		r.answer.Error = "there is no checkpoint of that name"
	case stay != "" && !m.Files:
		r.answer.Error = stay
	case !m.Files:
		r.answer.Error = s.runs.KeepVariables()
	case !s.Undo.Keeps():
		r.answer.Files = workdir.Refused("unknown", "no versions of files are kept here")
	case busy != "":
		r.answer.Files = workdir.Refused("busy", busy)
	}
	if stay != "" && m.Files {
		r.asked.Variables, r.answer.Stay = false, stay
	}
	switch {
	case r.answer.Error != "" || r.answer.Files != nil:
		r.tell()
	case m.Files:
		s.runs.SetRestoring(true)
		r.prepareFiles()
	default:
		s.runs.SetRestoring(true)
		r.restoreVariables()
	}
}

func (r *restore) prepareFiles() {
	room, holders := r.Disk.Room(r.Undo.Files()), r.runs.Holders()
	r.Dir.Prepare(r.answer.ID, r.to.Run, room, holders, func(files *workdir.Return, refused *protocol.RestoredFiles) {
		r.files, r.answer.Files = files, refused
		switch {
		case files == nil:
			r.end()
		case r.asked.Variables:
			r.restoreVariables()
		default:
			r.restoreFiles(0)
		}
	})
}

func (r *restore) restoreVariables() {
	r.l.GoBack(r.to, func(lost []protocol.Lost, total int, why string) {
		r.answer.Lost, r.answer.LostTotal, r.answer.Error = lost, total, why
		switch {
		case r.files == nil:
			r.end()
		case why != "":
			r.files.Drop()
			r.end()
		default:
			r.restoreFiles(r.l.Reopened())
		}
	})
}

// restoreFiles brings the files back. The kernel whose variables went back may have some open as they were.
func (r *restore) restoreFiles(kernel int) {
	r.files.Apply(kernel, func(files *protocol.RestoredFiles, parted []protocol.Lost) {
		r.answer.Files, r.answer.Lost = files, append(r.answer.Lost, parted...)
		r.answer.LostTotal += len(parted)
		r.end()
	})
}

func (r *restore) end() {
	r.tell()
	r.runs.SetRestoring(false)
}

func (r *restore) tell() {
	r.answer.Runs, r.answer.Copies = r.l.Restorable()
	r.Server.Send(r.answer, false)
	r.l.Tell(false)
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
