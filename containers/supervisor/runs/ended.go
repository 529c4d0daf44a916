//go:build linux

package runs

import (
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/kernelproc"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/output"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
)

const (
	// mostPast is how many finished runs may still report output in the background.
	mostPast       = 32
	mostBackground = 8 // files that an answer names
	mostLast       = 8 // runs that are over, for a later server
)

// ended keeps the runs of a language that are over; the newest last.
type ended struct {
	heard []*trail // whose background output is kept
	last  []*trail // for a later server
}

// trail is the output of a run: what stays when it is over.
type trail struct {
	id      string
	streams [2]*output.Stream // stdout and stderr
	pipes   []*kernelproc.Pipe
	record  record
}

// add keeps a run for its output in the background and for a later server.
func (p *ended) add(r *trail, laterServer bool) {
	for _, out := range r.streams {
		out.Release()
	}
	p.heard = append(p.heard, r)
	if len(p.heard) > mostPast {
		for _, pipe := range p.heard[0].pipes {
			pipe.Close()
		}
		for _, out := range p.heard[0].streams {
			out.Close()
		}
		p.heard = append(p.heard[:0], p.heard[1:]...)
	}
	if !laterServer {
		return
	}
	p.last = append(p.last, r)
	bytes := 0
	for i := len(p.last) - 1; i >= 0; i-- {
		bytes += p.last[i].record.bytes
		if len(p.last)-i > mostLast || bytes > recordBytes && i < len(p.last)-1 {
			p.last[i].record = record{}
			p.last = append(p.last[:0], p.last[i+1:]...)
			break
		}
	}
}

func (p *ended) replay() {
	for _, t := range p.last {
		t.record.replay()
	}
}

func (p *ended) takeBackground() []protocol.Background {
	told := []protocol.Background{}
	for _, r := range p.heard {
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

// keepBackground takes a kernel's own output for a finished run.
func (p *ended) keepBackground(id string, stream int, data []byte) {
	for _, r := range p.heard {
		if r.id == id {
			r.streams[stream].WriteBackground(data)
			return
		}
	}
}
