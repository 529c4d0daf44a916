//go:build linux

package main

import (
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/kernelproc"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/procs"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
)

// hasNewPrograms reports whether any program of a kernel may have been given the pipes that it has.
func (s *Supervisor) hasNewPrograms(k *kernel) bool {
	table := procs.Read()
	for pid := range s.programs(table) {
		if table[pid].Start >= k.pipedTicks {
			return true
		}
	}
	return false
}

// leavePipes leaves a kernel's pipes to the programs that hold them, and sends it others.
func (s *Supervisor) leavePipes(r *run) {
	k := r.kernel
	named, err := kernelproc.NewNamedPipes([2]func([]byte){r.streams[0].WriteBackground, r.streams[1].WriteBackground})
	if err != nil {
		s.log("warn", "what programs that were left behind print may be taken for a later run's: "+err.Error())
		return
	}
	k.releaseNamed()
	r.pipes = k.pipes
	k.pipes, k.named, k.pipedTicks = named.Readers, named, procs.TicksNow()
	k.link.Send(map[string]any{"type": "pipes", "paths": named.Paths})
}

// retire keeps a run that is over in mind, for what comes in the background and for a later server.
func (s *Supervisor) retire(r *run) {
	for _, out := range r.streams {
		out.Release()
	}
	s.past = append(s.past, r)
	if len(s.past) > mostPast {
		for _, p := range s.past[0].pipes {
			p.Close()
		}
		for _, out := range s.past[0].streams {
			out.Close()
		}
		s.past = append(s.past[:0], s.past[1:]...)
	}
	if s.settings.Token == "" {
		return
	}
	s.last = append(s.last, r)
	bytes := 0
	for i := len(s.last) - 1; i >= 0; i-- {
		bytes += s.last[i].record.bytes
		if len(s.last)-i > mostLast || bytes > recordBytes && i < len(s.last)-1 {
			s.last[i].record = record{}
			s.last = append(s.last[:0], s.last[i+1:]...)
			break
		}
	}
}

func (s *Supervisor) takeBackground() []protocol.Background {
	told := []protocol.Background{}
	for _, r := range s.past {
		for _, out := range r.streams {
			if len(told) == mostBackground {
				return told
			}
			if b, ok := out.TakeBackground(); ok {
				told = append(told, b)
			}
		}
	}
	return told
}

// keepBackground takes what a kernel itself says for a run that is over.
func (s *Supervisor) keepBackground(id string, stream int, data []byte) {
	for _, r := range s.past {
		if r.ID == id {
			r.streams[stream].WriteBackground(data)
			return
		}
	}
}
