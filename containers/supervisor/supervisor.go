//go:build linux

package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/browser"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/process"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/procs"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/channel"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/filewire"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/programwire"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
)

// quietTime is how long no run goes on before kernels are started that nobody has asked for.
const quietTime = 2 * time.Second

// Supervisor is process 1 of a container. Its state belongs to its loop, and to parts with types of their own. It
// never runs code of the session, and trusts nothing from it.
type Supervisor struct {
	loop
	server    *server
	settings  *settings
	languages []*language      // the first one's interpreter starts at once
	started   process.Programs // by servers

	workDir workDir
	guard   *diskGuard // nil: the work directory is unlimited
	door    door
	out     wayOut
	runs    *runs
	undo    *undo
	memory  *memoryGuard
	browser *browser.Browser

	lastFrame time.Time
	idle      *timer
	ahead     *timer // for kernels that nobody has asked for
	retiring  bool   // the container ends in order: no run begins any more
	logs      int    // since the last run ended
}

func newSupervisor(programs []program, stdio io.ReadWriteCloser) *Supervisor {
	s := &Supervisor{loop: make(loop), server: &server{}, lastFrame: time.Now()}
	s.workDir.known = make(chan struct{})
	s.runs = &runs{s: s, all: map[string]*run{}}
	s.browser = browser.New(browserFolder)
	s.memory = &memoryGuard{
		loop: s.loop, browser: s.browser, oomSeen: procs.OOMKills(),
		going: func() int { return len(s.runs.all) }, stopLargest: s.runs.stopLargest,
	}
	for _, p := range programs {
		l := newLanguage(s, p.language, p.path)
		s.languages = append(s.languages, l)
		s.memory.consumers = append(s.memory.consumers, consumer{l.Name, l.addConsumers, l.letGo})
	}
	s.undo = &undo{loop: s.loop, server: s.server}
	s.workDir.undo, s.workDir.pages = s.undo, s.browser
	s.out.open = s.openStream
	s.server.link = s.attach(stdio)
	return s
}

// serve is the loop. It does not return.
func (s *Supervisor) serve() {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	children := make(chan os.Signal, 1)
	signal.Notify(children, syscall.SIGCHLD)
	outliveSignals()
	s.door.takePlace()
	s.out.takePlace()
	// An interpreter takes some tens of milliseconds to start, so it does not wait for init where it need not.
	s.languages[0].start()
	for {
		select {
		case <-ended:
			s.retire()
		default: // and before other messages of the same moment: after code ends its own container no run begins in it
		}
		select {
		case f := <-s.loop:
			f()
		case <-children:
			s.reap()
		case <-ended:
			s.retire()
		}
	}
}

// outliveSignals catches signals of the code that would end a Go program. Nothing reads them. Programs would inherit it if
// they were ignored.
func outliveSignals() {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGQUIT, syscall.SIGABRT,
		syscall.SIGALRM, syscall.SIGXFSZ, syscall.SIGXCPU, syscall.SIGTRAP, syscall.SIGSYS, syscall.SIGBUS, syscall.SIGFPE,
		syscall.SIGSEGV, syscall.SIGILL, syscall.SIGVTALRM, syscall.SIGPROF, syscall.SIGSTKFLT, syscall.SIGIO, syscall.SIGPWR)
}

// language returns the language of that name, or nil.
func (s *Supervisor) language(name string) *language {
	for _, l := range s.languages {
		if l.Name == name {
			return l
		}
	}
	return nil
}

// isContainer reports whether the container ends with this process: it is process 1, or the command of a keeper.
var isContainer = os.Getpid() == 1 || os.Getppid() == 1

// shutDown ends the container, or else the programs of this process.
func shutDown() {
	if !isContainer {
		procs.KillAll(func(t procs.Table) map[int]bool { return t.Family(os.Getpid()) })
	}
	os.Exit(0)
}

func (s *Supervisor) log(level, message string) {
	const most = 100
	if s.logs++; s.logs <= most && s.settings != nil {
		s.server.send(protocol.Log{Type: "log", Level: level, Message: clean(message, 2000)}, true)
	}
}

// over returns a run of the last ones that are over; nil: it is none.
func (s *Supervisor) over(id string) *trail {
	for _, l := range s.languages {
		for _, t := range l.past.last {
			if t.id == id {
				return t
			}
		}
	}
	return nil
}

// attach begins to listen to a server.
func (s *Supervisor) attach(raw io.ReadWriteCloser) *link {
	l := newLink(channel.New(raw, channel.Options{Supervisor: true, MaxControl: protocol.MaxToSupervisor}))
	go func() {
		for {
			body, err := l.conn.Receive()
			if err != nil {
				s.post(func() { s.onEnd(l, err) })
				return
			}
			s.post(func() {
				if l == s.server.link {
					s.onFrame(body)
				}
			})
		}
	}()
	go s.workDir.acceptAll(l, s.serveProgram)
	return l
}

// visit serves the streams of one that is no server of this container, and wants files alone.
func (s *Supervisor) visit(raw io.ReadWriteCloser) {
	l := &link{conn: channel.New(raw, channel.Options{Supervisor: true, MaxControl: protocol.MaxToSupervisor})}
	go s.workDir.acceptAll(l, nil)
	for {
		if _, err := l.conn.Receive(); err != nil {
			_ = l.conn.Close()
			return
		}
	}
}

// serveProgram serves a stream that asks for a program, and reports whether it does.
func (s *Supervisor) serveProgram(stream net.Conn, request []byte) bool {
	start := process.Asks(request)
	if start == nil {
		return false
	}
	var env []string
	var full string
	begun := make(chan struct{})
	s.post(func() {
		env, full = s.beginProgram(start.NoGrowth)
		close(begun)
	})
	<-begun
	if full != "" {
		_ = filewire.Write(stream, programwire.Output{Error: full, Full: true})
		return true
	}
	s.started.Serve(stream, start, env, s.workDir.path)
	if s.guard != nil && !start.NoGrowth { // which is set before a program begins, and never changed
		s.post(s.guard.endProgram)
	}
	return true
}

// beginProgram returns the environment of the session's programs, or why none may begin.
func (s *Supervisor) beginProgram(noGrowth bool) (env []string, full string) {
	switch {
	case noGrowth:
	case s.guard != nil:
		full = s.guard.beginProgram()
	case s.settings.hasVolumeLimit():
		full = "the work directory cannot be used, so its limit could not be kept"
	}
	env = os.Environ()
	for name, value := range s.settings.Env {
		env = append(env, name+"="+value)
	}
	return env, full
}

// openStream opens a stream to the server of this moment.
func (s *Supervisor) openStream() (net.Conn, error) {
	links := make(chan *link, 1)
	s.post(func() { links <- s.server.link })
	return (<-links).conn.Open()
}

// onEnd is called when a server is gone, or broke the protocol.
func (s *Supervisor) onEnd(l *link, err error) {
	if l != s.server.link {
		return
	}
	if !errors.Is(err, io.EOF) {
		s.log("error", "the connection ended: "+err.Error())
	}
	s.lastFrame = time.Now()
	if s.settings == nil || s.settings.OnEOF != "wait" {
		shutDown()
	}
	l.close()
}

// takeOver replaces the server by a later one, and repeats messages that the one before may have missed.
func (s *Supervisor) takeOver(conn net.Conn) {
	s.server.close()
	s.server.link = s.attach(conn)
	s.lastFrame = time.Now()
	s.greet()
	for _, l := range s.languages {
		l.past.replay()
	}
	for _, r := range s.runs.all {
		r.record.replay()
	}
	for _, l := range s.languages {
		l.sendRestorable(true)
	}
	s.undo.tell(true)
}

// greet begins a connection.
func (s *Supervisor) greet() {
	m := protocol.Attached{Type: "attached", Protocol: protocol.Version, Runs: []string{}, Over: []string{}}
	for id := range s.runs.all {
		m.Runs = append(m.Runs, id)
	}
	for _, held := range s.runs.held {
		m.Runs = append(m.Runs, held.ID)
	}
	for _, l := range s.languages {
		m.Languages = append(m.Languages, protocol.Started{Language: l.Name, Started: l.ran})
		for _, t := range l.past.last {
			m.Over = append(m.Over, t.id)
		}
	}
	s.server.send(m, false)
	for _, l := range s.languages {
		l.sendState()
	}
}

func (s *Supervisor) onFrame(body []byte) {
	s.lastFrame = time.Now()
	var m protocol.Request
	if json.Unmarshal(body, &m) != nil {
		s.log("warn", "a message that is no JSON object was ignored")
		return
	}
	switch m.Type {
	case "init":
		s.onInit(body)
	case "bind":
		s.onBind(body)
	case "run":
		s.runs.begin(m)
	case "interrupt":
		if r := s.runs.all[m.ID]; r != nil {
			reason := "cancelled"
			if m.Reason == "timed_out" {
				reason = m.Reason
			}
			r.interrupt(reason)
		} else {
			s.runs.cancelHeld(m.ID)
		}
	case "peek":
		if r := s.runs.all[m.ID]; r != nil {
			r.peek()
		}
	case "ping":
		s.server.send(protocol.Pong{Type: "pong", N: m.N}, true)
	case "stop":
		s.retire()
	case "start", "freeze", "restore":
		if l := s.language(m.Language); l != nil && s.settings != nil {
			l.onRequest(m)
		} else {
			s.log("warn", "a message about no language of this container was ignored")
		}
	}
}

func (s *Supervisor) onInit(body []byte) {
	if s.settings != nil {
		return
	}
	s.settings = s.mustRead(body)
	s.memory.settings = s.settings
	s.greet()
	s.workDir.path = s.settings.WorkDir
	s.workDir.open(func(problem string) { s.log("error", problem) })
	if s.workDir.dir != nil && s.settings.hasVolumeLimit() {
		s.guard = newDiskGuard(s)
	}
	s.undo.open(s.workDir.fd(), s.settings)
	for _, l := range s.languages {
		l.snapshots.clear()
	}
	close(s.workDir.known)
	s.apply()
	for _, k := range s.kernels() {
		k.link.Send(k.l.initMessage())
	}
	s.warm()
}

// onBind gives a spare container to a session. The place and the limits of its files stay.
func (s *Supervisor) onBind(body []byte) {
	if s.settings == nil || !s.settings.Spare {
		return
	}
	before := *s.settings
	*s.settings = *s.mustRead(body) // which others hold
	s.settings.WorkDir, s.settings.VolumeBytes, s.settings.VolumeFiles = before.WorkDir, before.VolumeBytes, before.VolumeFiles
	s.settings.Spare = false
	s.apply()
	bind := map[string]any{"type": "bind", "env": s.settings.Env}
	for _, k := range s.kernels() {
		k.link.Send(bind)
	}
	for _, l := range s.languages {
		if z := l.reserve.zygote; z != nil {
			z.link.Send(bind)
		}
	}
	s.warm()
}

// warm starts the interpreters that are there before the first run, side by side: the first language's, those that have frozen
// variables, and those that the server names.
func (s *Supervisor) warm() {
	s.languages[0].start()
	for _, l := range s.languages {
		if s.settings.FreezeBytes > 0 && l.frozen.isThere() {
			l.start()
		}
	}
	for _, name := range s.settings.Warm {
		if l := s.language(name); l != nil {
			l.warm()
		}
	}
}

func (s *Supervisor) mustRead(body []byte) *settings {
	settings, err := readSettings(body)
	if err != nil {
		s.log("error", "init: "+err.Error())
		shutDown()
	}
	return settings
}

// apply applies the settings, interpreters apart.
func (s *Supervisor) apply() {
	settings := s.settings
	if home := cmp.Or(settings.Env["HOME"], os.Getenv("HOME")); home != "" {
		_ = os.MkdirAll(home, 0o700) //nolint:gosec // its own home: the root is read-only, and a tmpfs starts empty
	}
	err := s.door.serve(settings.Token, func(c net.Conn, filesOnly bool) {
		if filesOnly {
			go s.visit(c)
			return
		}
		s.post(func() { s.takeOver(c) })
	})
	if err != nil {
		s.log("warn", "no later server can take this over: "+err.Error())
	}
	if settings.Trust != "" {
		if err := writeTrust(settings.Trust); err != nil {
			s.log("error", "the certificates cannot be written: "+err.Error())
		}
	}
	if settings.WayOut > 0 {
		if err := s.out.serve(settings.WayOut); err != nil {
			s.log("error", "there is no way out: "+err.Error())
		}
	}
	s.idle.stop()
	if settings.IdleSeconds > 0 {
		s.idle = s.after(settings.idle(), s.onIdle)
	}
}

// Processes --------------------------------------------------------------------------

// reap takes the status of every ended process.
func (s *Supervisor) reap() {
	defer s.memory.noteKills()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		s.onExit(pid, status)
	}
}

func (s *Supervisor) onExit(pid int, status syscall.WaitStatus) {
	s.started.Exited(pid, status)
	for _, l := range s.languages {
		l.reserve.onExit(pid)
	}
	for _, k := range s.kernels() {
		if k.pid == pid && !k.exited {
			k.onExit(status)
		}
	}
}

// mains are the main kernels.
func (s *Supervisor) mains() (all []*kernel) {
	for _, l := range s.languages {
		if l.main != nil {
			all = append(all, l.main)
		}
	}
	return all
}

func (s *Supervisor) kernels() (all []*kernel) {
	for _, l := range s.languages {
		all = append(all, l.kernels()...)
	}
	return all
}

// programs are the processes of runs and their leftovers: all but kernels, zygotes and the browser.
func (s *Supervisor) programs(table procs.Table) map[int]bool {
	programs := table.Family(os.Getpid())
	for _, l := range s.languages {
		removeAll(programs, l.reserve.zygoteFamily(table))
	}
	removeAll(programs, s.browser.Processes(table))
	for _, k := range s.kernels() {
		delete(programs, k.pid)
		if r := s.runs.of(k); r != nil && r.Fresh {
			removeAll(programs, ownedBy(table, k.pid))
		}
	}
	return programs
}

// The end ----------------------------------------------------------------------------

// prepareAhead starts the interpreters that nobody has asked for, once no run has gone on for a moment.
func (s *Supervisor) prepareAhead() {
	s.ahead.stop()
	s.ahead = s.after(quietTime, func() {
		if len(s.runs.all) > 0 || s.retiring || !s.memory.hasRoom() {
			return
		}
		for _, l := range s.languages {
			l.startAhead()
		}
	})
}

// retire ends the container in order. Runs that go on are stopped, and the variables of all languages are written, side by side,
// where they are to be kept.
func (s *Supervisor) retire() {
	switch {
	case s.retiring:
	case s.settings == nil || s.settings.FreezeBytes <= 0:
		shutDown()
	default:
		s.retiring = true
		s.endWhenKept((*frozen).retire, s.end)
	}
}

// endWhenKept has every language keep its variables in that way, and then calls end.
func (s *Supervisor) endWhenKept(keep func(*frozen, func(protocol.Frozen)), end func()) {
	left := len(s.languages)
	for _, l := range s.languages {
		keep(l.frozen, func(answer protocol.Frozen) {
			if answer.Error != "" && answer.Error != noVariables {
				s.log("warn", "the variables of "+l.Name+" were not kept: "+answer.Error)
			}
			if left--; left == 0 {
				end()
			}
		})
	}
}

func (s *Supervisor) onIdle() {
	if s.stays() {
		return
	}
	s.endWhenKept((*frozen).freeze, func() {
		if !s.stays() {
			s.end()
		}
	})
}

// end ends the container, without the snapshots that nothing goes back to any more.
func (s *Supervisor) end() {
	for _, l := range s.languages {
		l.snapshots.giveWay()
	}
	for _, r := range s.runs.all { // fresh ones, and those that waited for the variables to be written
		r.reason = cmp.Or(r.reason, "cancelled")
		r.finishKilled("")
	}
	s.server.flush(flushTime)
	shutDown()
}

// flushTime is how long the end of the container waits for a server to read the last messages.
const flushTime = 500 * time.Millisecond

// stays reports whether the container is in use, or was so of late, and looks again when it may no longer be.
func (s *Supervisor) stays() bool {
	left := time.Until(s.lastFrame.Add(s.settings.idle()))
	if len(s.runs.all) > 0 || s.workDir.moving.Load() > 0 {
		left = s.settings.idle()
	}
	if left > 0 {
		s.idle = s.after(left, s.onIdle)
	}
	return left > 0
}
