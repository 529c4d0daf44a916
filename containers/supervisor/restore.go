//go:build linux

package main

import (
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/bounds"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/kernels"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/workdir"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
)

// restore answers the message of that name. In this order: the way back of the files is prepared, the variables go back, the files do.
// No run begins before it is over.
type restore struct {
	*Supervisor
	l      *kernels.Language
	asked  protocol.Request
	answer protocol.Restored
	files  *workdir.Return // nil: they stay
}

// restore begins with what can go back.
func (s *Supervisor) restore(l *kernels.Language, m protocol.Request) {
	r := &restore{Supervisor: s, l: l, asked: m, answer: protocol.Restored{
		Type: "restored", Language: l.Name, ID: bounds.Clean(m.ID, bounds.MaxNamed), Run: bounds.Clean(m.Run, bounds.MaxNamed),
	}}
	stay, busy := "", s.runs.KeepFiles()
	if m.Variables {
		stay = l.CannotGoBack(m.Run)
	}
	switch {
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
	r.Dir.Prepare(r.answer.ID, r.asked.Run, room, holders, func(files *workdir.Return, refused *protocol.RestoredFiles) {
		r.files, r.answer.Files = files, refused
		switch {
		case files == nil:
			r.end()
		case r.asked.Variables:
			r.restoreVariables()
		default:
			r.restoreFiles(nil)
		}
	})
}

func (r *restore) restoreVariables() {
	r.l.GoBack(r.asked.Run, func(lost []protocol.Lost, total int, why string) {
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

// restoreFiles brings the files back. Kernels whose variables went back may have some open as they were.
func (r *restore) restoreFiles(kernels []int) {
	r.files.Apply(kernels, func(files *protocol.RestoredFiles, parted []protocol.Lost) {
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
