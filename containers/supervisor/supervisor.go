//go:build linux

package main

import (
	"cmp"
	"encoding/json"
	"io"
	"net"
	"os"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/bounds"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/door"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/kernels"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/loop"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/parts"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/procs"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/runs"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/versions"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/channel"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
)

// quietTime is the pause after the last run before kernels start ahead of demand.
const quietTime = 2 * time.Second

const aheadWaits = 15

// Supervisor is process 1 of a container. Its state belongs to its loop, and to parts with types of their own. It
// never runs code of the session, and trusts nothing from it.
type Supervisor struct {
	*parts.Parts
	runs *runs.Runs
	door door.Door
	out  door.WayOut

	lastFrame time.Time
	idle      *loop.Timer
	ahead     *loop.Timer // for kernels that nobody has asked for
}

func newSupervisor(programs []kernels.Program, stdio io.ReadWriteCloser) *Supervisor {
	s := &Supervisor{lastFrame: time.Now()}
	s.Parts = parts.New(door.Handler{
		Frame: s.onFrame, End: s.onEnd, Streams: func(conn *channel.Conn) { s.Dir.AcceptAll(conn, s.runs.ServeProgram) },
	})
	s.runs = runs.New(s.Parts, programs, s.onRunOver)
	s.Undo.OnPins(s.runs.KeepPins)
	s.Server.Attach(stdio)
	return s
}

// serve is the loop. It does not return.
func (s *Supervisor) serve() {
	ended, children := loop.Signals()
	s.door.TakePlace()
	s.out.TakePlace(s.Server)
	s.runs.Warm()
	for {
		select {
		case <-ended:
			s.retire()
		default: // and before other messages of the same moment: after code ends its own container no run begins in it
		}
		select {
		case f := <-s.Loop:
			f()
		case <-children:
			procs.Reap(s.runs.Exited)
			s.Memory.NoteKills()
		case <-ended:
			s.retire()
		}
		s.runs.BeginHeld()
	}
}

// onEnd is called when a server is gone, or broke the protocol.
func (s *Supervisor) onEnd() {
	s.lastFrame = time.Now()
	if !s.Settings.AreKnown() || s.Settings.OnEOF != "wait" {
		procs.ShutDown()
	}
}

// takeOver replaces the server by a later one, and repeats messages that the one before may have missed.
func (s *Supervisor) takeOver(conn net.Conn) {
	s.Server.Attach(conn)
	s.lastFrame = time.Now()
	s.runs.Greet()
	s.runs.Replay()
}

func (s *Supervisor) onFrame(body []byte) {
	s.lastFrame = time.Now()
	var m protocol.Request
	if json.Unmarshal(body, &m) != nil {
		s.Server.Log("warn", "a message that is no JSON object was ignored")
		return
	}
	switch m.Type {
	case "init":
		s.onInit(body)
	case "bind":
		s.onBind(body)
	case "run":
		s.runs.Begin(m)
	case "interrupt":
		s.runs.Interrupt(m)
	case "peek":
		s.runs.Peek(m.ID)
	case "ping":
		s.Server.Send(protocol.Pong{Type: "pong", N: m.N}, true)
	case "describe":
		s.runs.Describe(m.ID)
	case "stop":
		s.retire()
	case "start", "freeze", "settle", "checkpoint", "restore":
		l := s.runs.Language(m.Language)
		switch {
		case l == nil || !s.Settings.AreKnown():
			s.Server.Log("warn", "a message about no language of this container was ignored")
		case m.Type == "start":
			l.Start()
		case m.Type == "freeze":
			l.Freeze(m.ID)
		case m.Type == "settle": // what is told of the last runs comes before the answer
			answer := protocol.Restored{Type: "restored", Language: l.Name, ID: bounds.Clean(m.ID, bounds.MaxNamed)}
			s.runs.Hold(func() { s.Undo.Settle(func() { s.Server.Send(answer, false) }) })
		case m.Type == "checkpoint":
			s.runs.Hold(func() { s.checkpoint(l, m) })
		case m.Name != "" && s.Undo.Keeps():
			s.Undo.FindPin(m.Name, func(found *versions.Pin, all []versions.Pin) { s.restore(l, m, found, all) })
		default:
			s.restore(l, m, nil, nil)
		}
	}
}

func (s *Supervisor) onInit(body []byte) {
	if s.Settings.AreKnown() {
		return
	}
	s.must(s.Settings.Read(body))
	s.runs.Greet()
	s.Dir.Open(s.Settings.WorkDir, s.Settings.StateDir, func(problem string) { s.Server.Log("error", problem) })
	s.Disk.Guard(s.runs, s.Dir)
	s.Undo.Open(s.Dir)
	s.runs.Clear()
	s.Dir.Admit()
	s.apply()
	s.runs.Init()
	s.runs.Warm()
}

// onBind gives a spare container to a session.
func (s *Supervisor) onBind(body []byte) {
	if !s.Settings.AreKnown() || !s.Settings.Spare {
		return
	}
	s.must(s.Settings.Bind(body))
	s.apply()
	s.runs.Bind()
	s.runs.Warm()
}

func (s *Supervisor) must(err error) {
	if err != nil {
		s.Server.Log("error", "init: "+err.Error())
		procs.ShutDown()
	}
}

// apply applies the settings, interpreters apart.
func (s *Supervisor) apply() {
	settings := s.Settings
	if home := cmp.Or(settings.Env["HOME"], os.Getenv("HOME")); home != "" {
		_ = os.MkdirAll(home, 0o700) //nolint:gosec // its own home: the root is read-only, and a tmpfs starts empty
	}
	err := s.door.Serve(settings.Token, func(c net.Conn, filesOnly bool) {
		if filesOnly {
			go door.Visit(c, func(conn *channel.Conn) { s.Dir.AcceptAll(conn, nil) })
			return
		}
		s.Post(func() { s.takeOver(c) })
	})
	if err != nil {
		s.Server.Log("warn", "no later server can take this over: "+err.Error())
	}
	if settings.Trust != "" {
		if err := door.WriteTrust(settings.Trust); err != nil {
			s.Server.Log("error", "the certificates cannot be written: "+err.Error())
		}
	}
	if settings.WayOut > 0 {
		if err := s.out.Serve(settings.WayOut); err != nil {
			s.Server.Log("error", "there is no way out: "+err.Error())
		}
	}
	s.idle.Stop()
	if settings.IdleSeconds > 0 {
		s.idle = s.After(settings.Idle(), s.onIdle)
	}
}

// The end ----------------------------------------------------------------------------

// onRunOver starts the interpreters that nobody has asked for, once no run has gone on for a moment.
func (s *Supervisor) onRunOver() {
	s.lastFrame = time.Now()
	s.ahead.Stop()
	s.startAhead(0)
}

// startAhead puts that off while the machine is busy, up to aheadWaits times.
func (s *Supervisor) startAhead(waits int) {
	s.ahead = s.After(quietTime, func() {
		switch {
		case s.runs.HasRuns() || s.runs.IsRetiring() || !s.Memory.HasRoom():
		case waits < aheadWaits && procs.AreBusy():
			s.startAhead(waits + 1)
		default:
			s.runs.StartAhead()
		}
	})
}

// retire ends the container in order. Runs that go on are stopped, and the variables of all languages are written where they are to be
// kept.
func (s *Supervisor) retire() {
	switch {
	case s.runs.IsRetiring():
	case !s.Settings.AreKnown() || s.Settings.FreezeBytes <= 0:
		procs.ShutDown()
	default:
		s.runs.Keep(true, s.end)
	}
}

func (s *Supervisor) onIdle() {
	if s.stays() {
		return
	}
	s.runs.Keep(false, func() {
		if !s.stays() {
			s.end()
		}
	})
}

// end ends the container, without the snapshots that nothing goes back to any more.
func (s *Supervisor) end() {
	s.runs.DropSnapshots()
	s.runs.End()
	s.Server.Flush(flushTime)
	procs.ShutDown()
}

// flushTime is how long the end of the container waits for a server to read the last messages.
const flushTime = 500 * time.Millisecond

// stays reports whether the container is in use, or was so of late, and looks again when it may no longer be.
func (s *Supervisor) stays() bool {
	left := time.Until(s.lastFrame.Add(s.Settings.Idle()))
	if s.runs.IsWaitedFor() || s.runs.IsRestoring() || s.Dir.IsServing() {
		left = s.Settings.Idle()
	}
	if left > 0 {
		s.idle = s.After(left, s.onIdle)
	}
	return left > 0
}
