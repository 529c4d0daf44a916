//go:build linux

package runs

import (
	"cmp"
	"net"
	"os"
	"strconv"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/process"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/filewire"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/programwire"
)

// ServeProgram serves a stream that asks for a program, and reports whether it does.
func (rs *Runs) ServeProgram(stream net.Conn, request []byte) bool {
	start := process.Asks(request)
	if start == nil {
		return false
	}
	begun := make(chan beginningProgram)
	rs.Post(func() {
		rs.held = append(rs.held, &held{begin: func() { rs.beginProgram(start, begun) }, changes: !start.NoChange})
	})
	p := <-begun
	if p.full != "" {
		_ = filewire.Write(stream, programwire.Output{Error: p.full, Full: true})
		return true
	}
	rs.started.Serve(stream, start, p.env, rs.Dir.Path(), func() {
		rs.Post(func() { rs.endProgram(start) }) // before the client knows: a run that follows at once can be undone
	})
	return true
}

// beginningProgram is the environment of a program, or why it may not begin.
type beginningProgram struct {
	env  []string
	full string
}

// beginProgram begins a program beside runs.
func (rs *Runs) beginProgram(start *programwire.Start, begun chan<- beginningProgram) {
	p := beginningProgram{env: os.Environ()}
	for name, value := range rs.Settings.Env {
		p.env = append(p.env, name+"="+value)
	}
	if !start.NoGrowth {
		p.full = cmp.Or(rs.Disk.IsBroken(), rs.Disk.Refuses())
	}
	if p.full == "" {
		id := ""
		if !start.NoChange {
			rs.begun++
			id = "program " + strconv.Itoa(rs.begun)
			rs.Undo.Begin(id)
		}
		rs.programs[start] = id
		rs.Disk.Begin(false)
		rs.Memory.Begin(len(rs.all)+len(rs.programs) == 1)
	}
	begun <- p
}

func (rs *Runs) endProgram(start *programwire.Start) {
	id := rs.programs[start]
	delete(rs.programs, start)
	if id != "" {
		rs.Undo.EndOther(id)
	}
	if len(rs.programs) == 0 {
		rs.Disk.EndRun()
	}
}
