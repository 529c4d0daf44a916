package sandbox

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/secrets"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/files"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/filewire"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/programwire"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/runs"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

// ProgramSpec describes a program to run in an existing session.
type ProgramSpec struct {
	SessionID string
	Argv      []string          // the first is looked for on the PATH
	Title     string            // what histories call it; empty: the words of Argv
	Env       map[string]string // beside the session's own
	Dir       string            // in the container; empty: WorkDir
	Terminal  *TerminalSize     // nil: it has pipes
	Timeout   time.Duration     // after which it is killed; zero: Config.MaxRunTimeout, which bounds it too
	NoGrowth  bool              // it makes no files larger, by the server's word: no limit of them refuses it
	NoChange  bool              // it changes no files either: they may go back meanwhile
	Unlisted  bool              // as in RunOptions
	Caller    context.Context   // likewise
}

// TerminalSize is a terminal's size in characters.
type TerminalSize = programwire.Size

// ProgramOutput is a piece of a program's output, or its end. Data comes from hostile code; secrets in it are masked.
type ProgramOutput struct {
	Stream string // "stdout", "stderr" or "pty"
	Data   []byte
	Exit   *ProgramExit // not nil: the last
}

// ProgramExit is a program's end.
type ProgramExit struct {
	Code   int            // 128 and the signal's number if one ended it
	Signal syscall.Signal // zero: none
	// ForMemory: it was stopped because the session's memory was nearly full.
	ForMemory bool
	// Lost is the reason why the end itself is not known: the container or the session ended. Nil: it is known.
	Lost error
}

// Program is a program in a session's container. It counts as a run: the session is in use, an interrupt of the run kills it, and it is in
// the history. Output must be received until Exit, or the program stalls. Methods may be called from any goroutine.
type Program struct {
	// PID is its number in the container, by hostile code's word.
	PID int
	// Output receives the output. It is closed after Exit.
	Output <-chan ProgramOutput

	run     *Run
	conn    net.Conn
	took    chan struct{}
	feeding chan struct{} // holds a token while input is on its way
	sending sync.Mutex
	ended   chan struct{}
}

const maxSignal = 64

// ErrProgramOver reports that a program has ended.
var ErrProgramOver = errors.New("the program has ended")

// Program starts a program. The error is a fault: invalid_argument if it cannot be started, session_not_found, and those of a run.
func (m *Manager) Program(ctx context.Context, spec ProgramSpec) (*Program, error) {
	options := RunOptions{
		SessionID: spec.SessionID, Language: Bash, Code: cmp.Or(spec.Title, strings.Join(spec.Argv, " ")), Timeout: spec.Timeout, Fresh: true, Program: true, Unlisted: spec.Unlisted, Caller: spec.Caller,
	}
	if spec.Timeout <= 0 {
		options.Timeout = m.conf().MaxRunTimeout
	}
	if err := m.check(&options); err != nil {
		return nil, err
	}
	s, err := m.open(ctx, spec.SessionID, toResume)
	if err != nil {
		return nil, err
	}
	if !spec.NoGrowth {
		err = s.manager.quotas.checkDisk(ctx, s.id)
	}
	if err != nil {
		return nil, err
	}
	select {
	case s.programs <- struct{}{}:
	default:
		return nil, fault.New(fault.SessionBusy, "Try again when some have ended.", "%d programs run in session %q, which is the most.", maxPrograms, s.id)
	}
	longest, _ := s.limits.Ask(&options)
	run := runs.NewRun(s.ctx, &s.config.Rules, state.NewID(runs.RunPrefix), s.id, options)
	run.Most = longest
	p, masked, err := s.beginProgram(ctx, run, &spec)
	if err != nil {
		time.AfterFunc(streamEnd, func() { <-s.programs })
		return nil, err
	}
	go p.follow(masked, func(res *Result, err error) {
		s.uses.Conclude(run, res, err)
		if res.Status == Completed || res.Status == Failed {
			<-s.programs
			return
		}
		time.AfterFunc(streamEnd, func() { <-s.programs })
	})
	return p, nil
}

const (
	// maxPrograms bounds the programs of a session: each has a stream, and a connection has at most 256 of them.
	maxPrograms = 128
	// streamEnd is the time until a supervisor has closed the stream of a program that was killed.
	streamEnd = time.Second
)

// beginProgram begins a run, and starts the program that it is.
func (s *session) beginProgram(ctx context.Context, run *Run, spec *ProgramSpec) (*Program, chan ProgramOutput, error) {
	if err := s.config.MayBegin(run); err != nil {
		run.Cancel(err)
		return nil, nil, err
	}
	if err := s.uses.Begin(run, func() {}); err != nil {
		return nil, nil, err
	}
	p, masked, err := s.startProgram(ctx, run, spec)
	if err != nil {
		err = s.files.Fault(ctx, err)
		s.uses.Conclude(run, nil, err)
	}
	return p, masked, err
}

// startProgram opens the stream of a program and waits until it runs. The channel receives its output, still with secrets.
func (s *session) startProgram(ctx context.Context, run *Run, spec *ProgramSpec) (*Program, chan ProgramOutput, error) {
	ctx, cancel := context.WithTimeout(ctx, s.config.StartTimeout)
	defer cancel()
	defer context.AfterFunc(run.Ctx, cancel)()
	if err := s.files.TakeOver(); err != nil {
		return nil, nil, err
	}
	c, err := s.files.SomeContainer(ctx)
	if err != nil {
		return nil, nil, err
	}
	start := programwire.Start{Op: programwire.Op, Argv: spec.Argv, Env: spec.Env, Dir: spec.Dir, PTY: spec.Terminal, NoGrowth: spec.NoGrowth, NoChange: spec.NoChange}
	if message, _ := json.Marshal(start); len(message) > filewire.MaxRequest {
		return nil, nil, fault.New(fault.InvalidArgument, "Put data into a file.", "The command and its variables have %d bytes and may have %d.", len(message), filewire.MaxRequest)
	}
	conn, err := c.Streams().Open()
	if err != nil {
		return nil, nil, err
	}
	out := make(chan ProgramOutput)
	p := &Program{Output: out, run: run, conn: conn, took: make(chan struct{}, 1), feeding: make(chan struct{}, 1), ended: make(chan struct{})}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	err = filewire.Write(conn, start)
	var first programwire.Output
	if err == nil {
		first, err = p.read()
	}
	if err == nil && first.Error != "" {
		code, hint := fault.InvalidArgument, "Check the command and its folder."
		if first.Full {
			code, hint = fault.QuotaExceeded, "Close the session; the setting is --volume-limit."
		}
		err = fault.New(code, hint, "%s.", strings.TrimSuffix(s.config.Mask.Mask(text.Safe(first.Error, runs.MaxName)), "."))
	}
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		_ = conn.Close()
		return nil, nil, err
	}
	p.PID = first.PID
	return p, out, nil
}

func (p *Program) read() (out programwire.Output, err error) {
	text, err := filewire.ReadText(p.conn, programwire.MaxMessage)
	if err == nil && json.Unmarshal(text, &out) != nil {
		err = files.ErrFrame
	}
	return out, err
}

// follow passes the output on, until the program ends or its run is interrupted or over.
func (p *Program) follow(out chan<- ProgramOutput, conclude func(*Result, error)) {
	defer close(out)
	timer := time.AfterFunc(p.run.Timeout(), p.run.Interrupt)
	defer timer.Stop()
	defer context.AfterFunc(p.run.Ctx, func() { _ = p.conn.Close() })() // which kills it
	streams := make(map[string]*secrets.Stream)
	var last programwire.Output
	var err error
	for last.Exit == nil && err == nil {
		if last, err = p.read(); err != nil {
			break
		}
		if last.Took {
			select {
			case p.took <- struct{}{}:
			default: // a second one is forged
			}
		}
		switch last.Stream {
		case programwire.Stdout, programwire.Stderr, programwire.PTY:
			if streams[last.Stream] == nil {
				streams[last.Stream] = p.run.Rules.Mask.StreamBytes(outputWriter{p, last.Stream, out})
			}
			_, _ = streams[last.Stream].Write(last.Data)
		}
	}
	close(p.ended)
	_ = p.conn.Close()
	res := p.run.Unanswered(Killed, 137)
	exit := &ProgramExit{Code: 137, Signal: syscall.SIGKILL}
	res.Duration = time.Since(p.run.Created)
	cause := context.Cause(p.run.Ctx)
	switch {
	case last.Exit != nil:
		exit = &ProgramExit{Code: last.Exit.Code & 0xff, Signal: syscall.Signal(last.Exit.Signal), ForMemory: last.Exit.Cause == programwire.CauseMemory}
		res.Status, res.ExitCode = Completed, exit.Code
		if exit.Code != 0 {
			res.Status = Failed
		}
	case errors.Is(cause, runs.ErrInterrupted):
		res.Status, res.ExitCode = Cancelled, 130
	case cause != nil:
		exit.Lost, res.Cause = cause, runs.CauseClosed
	default:
		exit.Lost = errors.Join(io.ErrUnexpectedEOF, err)
	}
	for _, stream := range streams {
		_ = stream.Close()
	}
	conclude(res, nil)
	out <- ProgramOutput{Exit: exit}
}

// outputWriter passes on one stream without secrets.
type outputWriter struct {
	program *Program
	stream  string
	to      chan<- ProgramOutput
}

func (w outputWriter) Write(data []byte) (int, error) {
	select {
	case w.to <- ProgramOutput{Stream: w.stream, Data: append([]byte(nil), data...)}:
	case <-w.program.run.Ctx.Done(): // nobody reads it any more
	}
	return len(data), nil
}

func (p *Program) send(in programwire.Input) error {
	p.sending.Lock()
	defer p.sending.Unlock()
	if err := filewire.Write(p.conn, in); err != nil {
		return ErrProgramOver
	}
	return nil
}

// feed sends input and waits until the program's pipe has taken it. The error is ErrProgramOver or the cause of ctx's end.
func (p *Program) feed(ctx context.Context, in programwire.Input) error {
	select {
	case p.feeding <- struct{}{}:
	case <-p.ended:
		return ErrProgramOver
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if err := p.send(in); err != nil {
		<-p.feeding
		return err
	}
	select {
	case <-p.took:
		<-p.feeding
		return nil
	case <-p.ended:
		<-p.feeding
		return ErrProgramOver
	case <-ctx.Done(): // the next input waits for this one
		go func() {
			select {
			case <-p.took:
			case <-p.ended:
			}
			<-p.feeding
		}()
		return context.Cause(ctx)
	}
}

// Write writes to the program's standard input or terminal, and waits until it was taken. The error is ErrProgramOver or the cause of ctx's
// end.
func (p *Program) Write(ctx context.Context, data []byte) error {
	for len(data) > 0 {
		piece := data[:min(len(data), programwire.MaxData)]
		if err := p.feed(ctx, programwire.Input{Data: piece}); err != nil {
			return err
		}
		data = data[len(piece):]
	}
	return nil
}

// CloseInput ends the standard input of a program with pipes.
func (p *Program) CloseInput(ctx context.Context) error {
	return p.feed(ctx, programwire.Input{Close: true})
}

// Signal sends a signal to the program's process group.
func (p *Program) Signal(signal syscall.Signal) error {
	if signal <= 0 || signal > maxSignal {
		return fault.New(fault.InvalidArgument, "Use 15 or 9.", "%d is no signal.", int(signal))
	}
	return p.send(programwire.Input{Signal: int(signal)})
}

// Resize sets the size of the program's terminal.
func (p *Program) Resize(size TerminalSize) error { return p.send(programwire.Input{Size: &size}) }

// Kill kills the program and all that it started. It returns at once, before Exit.
func (p *Program) Kill() { p.run.Interrupt() }
