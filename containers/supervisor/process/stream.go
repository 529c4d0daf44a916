//go:build linux

package process

import (
	"encoding/json"
	"maps"
	"os"
	"syscall"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/procs"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/filewire"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/programwire"
	"golang.org/x/sys/unix"
)

// killedOutput is the time for which the output of a killed program is read, which others may hold open.
const killedOutput = time.Second

// control calls do with a file's descriptor, without making the file a blocking one.
func control(file *os.File, do func(fd int) error) error {
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = do(int(fd)) }); err != nil {
		return err
	}
	return failed
}

func resize(fd int, size programwire.Size) error {
	return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: size.Rows, Col: size.Cols})
}

// send sends a message. A server that does not read holds the program up, as a full pipe does.
func (p *Program) send(message programwire.Output) {
	p.writing.Lock()
	defer p.writing.Unlock()
	_ = filewire.Write(p.stream, message)
}

// copy sends a stream of output to its end.
func (p *Program) copy(name string, from *os.File, ended chan<- struct{}) {
	room := make([]byte, programwire.MaxData)
	for {
		n, err := from.Read(room)
		if n > 0 {
			p.send(programwire.Output{Stream: name, Data: room[:n]})
		}
		if err != nil {
			ended <- struct{}{}
			return
		}
	}
}

// obey follows the server's messages until the stream ends, and then kills the program if it runs.
func (p *Program) obey() {
	for {
		text, err := filewire.ReadText(p.stream, programwire.MaxMessage)
		var in programwire.Input
		if err == nil {
			err = json.Unmarshal(text, &in)
		}
		if err != nil {
			break
		}
		p.follow(in)
	}
	p.signal(syscall.SIGKILL) // before its input ends, which it would take for the whole of it
	close(p.fed)
}

func (p *Program) follow(in programwire.Input) {
	switch {
	case in.Size != nil && p.pty != nil:
		_ = control(p.pty, func(fd int) error { return resize(fd, *in.Size) })
	case in.Signal > 0:
		p.signal(syscall.Signal(in.Signal))
	case in.Close || len(in.Data) > 0:
		p.fed <- in // the server sends the next one when this one was taken
	}
}

// feed writes the input, which a program need not read, and tells the server of each piece.
func (p *Program) feed() {
	for in := range p.fed {
		if in.Close && p.pty == nil {
			_ = p.input.Close()
		}
		_, _ = p.input.Write(in.Data)
		p.send(programwire.Output{Took: true})
	}
	if p.pty == nil {
		_ = p.input.Close()
	}
}

// signal sends a signal to the program's own group. SIGKILL also reaches its session and descendants, and ends the wait for output that
// others hold open.
func (p *Program) signal(signal syscall.Signal) {
	if p.over.Load() || p.pid <= 1 {
		return
	}
	if signal != syscall.SIGKILL {
		p.signalGroup(signal)
		return
	}
	p.signalGroup(syscall.SIGSTOP) // or the first kill of a child could make it end by itself
	procs.KillAll(p.Processes)
	_ = p.input.SetWriteDeadline(time.Now()) // of the rest, which nobody reads
	for _, from := range p.output {
		_ = from.SetReadDeadline(time.Now().Add(killedOutput))
	}
}

// Stop kills the program for a cause, which is told with its end.
func (p *Program) Stop(cause string) {
	p.all.mu.Lock()
	p.cause = cause
	p.all.mu.Unlock()
	p.signal(syscall.SIGKILL)
}

// Processes are those of the program: its session and descendants.
func (p *Program) Processes(table procs.Table) map[int]bool {
	p.all.mu.Lock()
	defer p.all.mu.Unlock()
	own := p.left(table)
	if p.ended == 0 {
		own[p.pid] = true
		maps.Copy(own, table.Family(p.pid))
	}
	return own
}

// signalGroup sends a signal to the program's own group, or to what is left of its session.
func (p *Program) signalGroup(signal syscall.Signal) {
	p.all.mu.Lock()
	defer p.all.mu.Unlock()
	if p.ended == 0 {
		_ = syscall.Kill(-p.pid, signal)
		return
	}
	for pid := range p.left(procs.Read()) {
		procs.Signal(pid, signal)
	}
}

// left are the processes of the program's session: none of a later one of the same number. The caller holds the lock of all.
func (p *Program) left(table procs.Table) map[int]bool {
	own := make(map[int]bool)
	for pid, other := range table {
		if other.Session == p.pid && (p.ended == 0 || other.Start <= p.ended) {
			own[pid] = true
		}
	}
	return own
}

// close closes the ended program's pipes.
func (p *Program) close() {
	if p.input != nil {
		_ = p.input.Close()
	}
	for _, from := range p.output {
		_ = from.Close()
	}
}
