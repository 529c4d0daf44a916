//go:build linux

package process

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/filewire"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/programwire"
)

// served is the server's end of a program.
type served struct {
	t        *testing.T
	conn     net.Conn
	programs *Programs
}

func serve(t *testing.T, start programwire.Start) *served {
	t.Helper()
	ours, theirs := net.Pipe()
	var programs Programs
	start.Op = programwire.Op
	text, err := json.Marshal(start)
	asked := Asks(text)
	must.Hold(t, err == nil && asked != nil, "%v %v", err, string(text))
	over := make(chan struct{})
	go func() {
		defer close(over)
		programs.Serve(theirs, asked, os.Environ(), t.TempDir(), func() {})
	}()
	t.Cleanup(func() {
		_ = ours.Close()
		<-over
	})
	return &served{t, ours, &programs}
}

func (s *served) next() (out programwire.Output) {
	s.t.Helper()
	text, err := filewire.ReadText(s.conn, programwire.MaxMessage)
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	must.OK(s.t, err)
	if out.PID != 0 {
		go func() { // as process 1 does
			var status syscall.WaitStatus
			if _, err := syscall.Wait4(out.PID, &status, 0, nil); err == nil {
				s.programs.Exited(out.PID, status)
			}
		}()
	}
	return out
}

func (s *served) send(in programwire.Input) {
	s.t.Helper()
	must.OK(s.t, filewire.Write(s.conn, in))
}

// rest returns the output of each stream, and the end.
func (s *served) rest() (printed map[string]string, exit programwire.Exit) {
	s.t.Helper()
	printed = make(map[string]string)
	for {
		out := s.next()
		if out.Exit != nil {
			return printed, *out.Exit
		}
		printed[out.Stream] += string(out.Data)
	}
}

func TestProgramsWithPipes(t *testing.T) {
	t.Parallel()
	s := serve(t, programwire.Start{Argv: []string{"bash", "-c", `echo "$A"; read line; echo "$line" >&2; exit 7`}, Env: map[string]string{"A": "b"}})
	pid := s.next().PID
	must.Hold(t, pid > 1, "%v", pid)
	go func() {
		s.send(programwire.Input{Data: []byte("typed\n")})
		s.send(programwire.Input{Close: true})
	}()
	printed, exit := s.rest()
	if printed[programwire.Stdout] != "b\n" || printed[programwire.Stderr] != "typed\n" || exit != (programwire.Exit{Code: 7}) {
		t.Errorf("%q %+v", printed, exit)
	}
}

func TestProgramsWithATerminal(t *testing.T) {
	t.Parallel()
	s := serve(t, programwire.Start{Argv: []string{"bash", "-c", "stty size; read; stty size"}, PTY: &programwire.Size{Rows: 12, Cols: 34}})
	s.next()
	printed := ""
	for !strings.Contains(printed, "12 34") {
		printed += string(s.next().Data)
	}
	s.send(programwire.Input{Size: &programwire.Size{Rows: 56, Cols: 78}})
	s.send(programwire.Input{Data: []byte("\n")})
	rest, exit := s.rest()
	should.Hold(t, strings.Contains(rest[programwire.PTY], "56 78") && exit.Code == 0, "%q %+v", rest, exit)
}

// A terminal's sizes and control characters reach its program alone, and a kill what left its session.
func TestEscapesFromATerminal(t *testing.T) {
	t.Parallel()
	s := serve(t, programwire.Start{Argv: []string{"bash", "-c", "trap 'echo interrupted' INT; setsid sleep 1000 & echo left $!; read; stty size; sleep 1000"}, PTY: &programwire.Size{}})
	s.next()
	printed := ""
	until := func(text string) {
		t.Helper()
		for !strings.Contains(printed, text) {
			printed += string(s.next().Data)
		}
	}
	until("\n")
	for _, size := range []programwire.Size{{Rows: 65535, Cols: 65535}, {}, {Rows: 1, Cols: 65535}} {
		s.send(programwire.Input{Size: &size})
	}
	s.send(programwire.Input{Data: []byte("\x03\x1b[2J\x1b]0;title\x07\n")})
	until("interrupted")
	until("1 65535")
	var left int
	_, rest, _ := strings.Cut(printed, "left ")
	must.OK(t, should.ErrOf(fmt.Sscanf(rest, "%d", &left)), "%v", printed)
	s.send(programwire.Input{Signal: int(syscall.SIGKILL)})
	_, exit := s.rest()
	should.Hold(t, exit.Signal == int(syscall.SIGKILL), "%+v", exit)
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", left))
	should.Hold(t, err != nil || strings.Contains(string(stat), ") Z "), "what left the session lives: %s", stat)
}

// A kill reaches what left the group, and ends the wait for output that something holds open.
func TestKilledPrograms(t *testing.T) {
	t.Parallel()
	s := serve(t, programwire.Start{Argv: []string{"bash", "-c", "trap '' TERM; set -m; sleep 1000 & yes"}})
	s.next()
	s.next()
	s.send(programwire.Input{Signal: int(syscall.SIGTERM)})
	s.send(programwire.Input{Signal: int(syscall.SIGKILL)})
	_, exit := s.rest()
	should.Hold(t, exit.Signal == int(syscall.SIGKILL), "%+v", exit)
}

// The stream's end kills the program, although its output is not read. The clean-up waits for that.
func TestAStreamThatEnds(t *testing.T) {
	t.Parallel()
	s := serve(t, programwire.Start{Argv: []string{"yes"}})
	s.next()
}

func TestProgramsThatCannotStart(t *testing.T) {
	t.Parallel()
	for _, start := range []programwire.Start{{}, {Argv: []string{"no-such-program"}}, {Argv: []string{"/etc"}}, {Argv: []string{"true"}, Dir: "/no-such-folder"}} {
		out := serve(t, start).next()
		should.Hold(t, out.Error != "" && out.PID == 0, "%+v: %+v", start, out)
	}
}
