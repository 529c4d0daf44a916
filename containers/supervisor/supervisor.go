//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/artifacts"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/browser"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/files"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/kernelproc"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/procs"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/channel"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
)

// Supervisor is process 1 of a container. Its state belongs to its loop, and to parts with types of their own. It
// never runs code of the session, and trusts nothing from it.
type Supervisor struct {
	loop
	language *kernelproc.Language

	initialised chan struct{} // closed when settings are there
	filesAt     string        // the work directory; set before initialised is closed, and never changed
	moving      atomic.Int32  // streams about files that are being served

	server   *link
	settings *settings
	version  string
	features []string
	workDir  *os.File // nil where there is none
	scanner  *artifacts.Scanner
	guard    *guard // nil: the work directory is unlimited

	door    door
	out     wayOut
	kernels *kernels
	reserve *reserve
	runs    *runs
	frozen  *frozen
	memory  *memoryGuard
	twins   *twins
	past    past
	browser *browser.Browser

	lastFrame time.Time
	idle      *timer
	logs      int // since the last run ended
}

func newSupervisor(language *kernelproc.Language, program string, stdio io.ReadWriteCloser) *Supervisor {
	s := &Supervisor{
		loop: make(loop), language: language, initialised: make(chan struct{}), features: []string{}, lastFrame: time.Now(),
	}
	s.kernels = &kernels{s: s, program: program, oomSeen: procs.OOMKills()}
	s.reserve = &reserve{s: s}
	s.runs = &runs{s: s, all: map[string]*run{}}
	s.frozen = &frozen{s: s}
	s.twins = &twins{s: s}
	s.memory = &memoryGuard{s: s}
	s.browser = browser.New(browserFolder)
	s.out.open = s.openStream
	s.server = s.attach(stdio)
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
	if !s.awaitsTrust() {
		s.startMain()
	}
	for {
		select {
		case <-ended:
			s.frozen.retire()
		default: // and before other messages of the same moment: after code ends its own container no run begins in it
		}
		select {
		case f := <-s.loop:
			f()
		case <-children:
			s.kernels.reap()
		case <-ended:
			s.frozen.retire()
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

// awaitsTrust reports whether the interpreter reads, as it starts, the certificates that init brings.
func (s *Supervisor) awaitsTrust() bool {
	return os.Getenv(s.language.TrustVariable) == protocol.TrustFile
}

func (s *Supervisor) startMain() {
	main, err := s.kernels.spawn()
	if errors.Is(err, kernelproc.ErrNoInterpreter) {
		s.server.send(protocol.KernelState{Type: "kernel", State: "missing", Cause: err.Error()}, false)
	}
	s.kernels.main = main // where it cannot start, the first run says so
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
				if l == s.server {
					s.onFrame(body)
				}
			})
		}
	}()
	go s.acceptStreams(l)
	return l
}

// visit serves the streams of one that is no server of this container, and wants files alone.
func (s *Supervisor) visit(raw io.ReadWriteCloser) {
	l := &link{conn: channel.New(raw, channel.Options{Supervisor: true, MaxControl: protocol.MaxToSupervisor})}
	go s.acceptStreams(l)
	for {
		if _, err := l.conn.Receive(); err != nil {
			_ = l.conn.Close()
			return
		}
	}
}

// acceptStreams serves the streams about files that a server opens. They are independent of runs.
func (s *Supervisor) acceptStreams(l *link) {
	for {
		stream, err := l.conn.Accept()
		if err != nil {
			return
		}
		go s.serveFiles(stream)
	}
}

func (s *Supervisor) serveFiles(stream net.Conn) {
	defer func() { _ = stream.Close() }()
	<-s.initialised // a stream may overtake the message
	s.moving.Add(1)
	defer s.moving.Add(-1)
	files.Serve(stream, s.filesAt, s.browser)
}

// openStream opens a stream to the server of this moment.
func (s *Supervisor) openStream() (net.Conn, error) {
	links := make(chan *link, 1)
	s.post(func() { links <- s.server })
	return (<-links).conn.Open()
}

// onEnd is called when a server is gone, or broke the protocol.
func (s *Supervisor) onEnd(l *link, err error) {
	if l != s.server {
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
	s.server = s.attach(conn)
	s.lastFrame = time.Now()
	s.sendReady()
	for _, r := range s.past.last {
		r.replay()
	}
	for _, r := range s.runs.all {
		r.replay()
	}
	s.twins.sendRestorable(true)
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
		}
	case "peek":
		if r := s.runs.all[m.ID]; r != nil {
			r.peek()
		}
	case "restore":
		s.twins.restore(m)
	case "ping":
		s.server.send(protocol.Pong{Type: "pong", N: m.N}, true)
	case "freeze":
		s.frozen.answer(clean(m.ID, 64))
	case "stop":
		s.frozen.retire()
	}
}

func (s *Supervisor) onInit(body []byte) {
	if s.settings != nil {
		return
	}
	s.settings = s.mustRead(body)
	s.filesAt = s.settings.WorkDir
	close(s.initialised)
	s.openWorkDir()
	s.apply()
	switch {
	case s.kernels.main != nil:
		s.kernels.main.link.Send(initOf(s.settings))
	case s.awaitsTrust() && !s.settings.Spare:
		s.startMain()
	}
	if s.version != "" {
		s.sendReady()
	}
}

// onBind gives a spare container to a session. The place and the limits of its files stay.
func (s *Supervisor) onBind(body []byte) {
	if s.settings == nil || !s.settings.Spare {
		return
	}
	before := s.settings
	s.settings = s.mustRead(body)
	s.settings.WorkDir, s.settings.VolumeBytes, s.settings.VolumeFiles = before.WorkDir, before.VolumeBytes, before.VolumeFiles
	s.settings.Spare = false
	s.apply()
	bind := map[string]any{"type": "bind", "env": s.settings.Env}
	for _, k := range s.kernels.all() {
		k.link.Send(bind)
	}
	if z := s.reserve.zygote; z != nil {
		z.link.Send(bind)
	}
	if s.kernels.main == nil && s.awaitsTrust() {
		s.startMain()
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
	if home := homeOf(settings); home != "" {
		_ = os.MkdirAll(home, 0o700) // the root is read-only, and a tmpfs starts empty
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
	if settings.Warm {
		s.reserve.want()
	}
}

func homeOf(s *settings) string {
	if home := s.Env["HOME"]; home != "" {
		return home
	}
	return os.Getenv("HOME")
}

// noteVersion records the first kernel's version and features; ready waits for that.
func (s *Supervisor) noteVersion(m *kernelproc.Report) {
	if s.version != "" || m.Version == "" {
		return
	}
	s.version = clean(m.Version, 100)
	for _, feature := range m.Features[:min(len(m.Features), 16)] {
		s.features = append(s.features, clean(feature, 100))
	}
	if s.settings != nil {
		s.sendReady()
	}
}

func (s *Supervisor) sendReady() {
	m := protocol.Ready{Type: "ready", Protocol: protocol.Version, Language: s.language.Name, Version: s.version, Features: s.features, Runs: []string{}, Over: []string{}}
	if s.runs.kept != nil {
		m.Run = s.runs.kept.ID
	}
	for id := range s.runs.all {
		m.Runs = append(m.Runs, id)
	}
	for _, r := range s.past.last {
		m.Over = append(m.Over, r.ID)
	}
	s.server.send(m, false)
}

func (s *Supervisor) openWorkDir() {
	path := s.settings.WorkDir
	_ = os.MkdirAll(path, 0o755)
	if info, err := os.Lstat(path); err == nil && info.IsDir() && info.Mode().Perm()&0o700 != 0o700 {
		_ = os.Chmod(path, info.Mode().Perm()|0o700) // earlier code may have locked it
	}
	dir, err := os.OpenFile(path, os.O_RDONLY|syscall.O_DIRECTORY, 0)
	if err != nil {
		s.log("error", "the work directory cannot be used: "+err.Error())
		return
	}
	s.workDir = dir
	s.scanner = artifacts.NewScanner(dir)
	if s.settings.hasVolumeLimit() {
		s.guard = newGuard(s)
	}
	for _, name := range []string{"input", "output"} {
		if _, err := os.Lstat(path + "/" + name); errors.Is(err, os.ErrNotExist) {
			if err := os.Mkdir(path+"/"+name, 0o755); err != nil {
				s.log("error", "the folder "+name+" cannot be made: "+err.Error())
			}
		}
	}
}

func (s *Supervisor) workFD() int {
	if s.workDir == nil {
		return -1
	}
	return int(s.workDir.Fd())
}

func (s *Supervisor) onIdle() {
	if s.stays() {
		return
	}
	s.frozen.freeze(func(answer protocol.Frozen) {
		if !s.stays() {
			s.frozen.end(answer)
		}
	})
}

// stays reports whether the container is in use, or was so of late, and looks again when it may no longer be.
func (s *Supervisor) stays() bool {
	left := time.Until(s.lastFrame.Add(s.settings.idle()))
	if len(s.runs.all) > 0 || s.moving.Load() > 0 {
		left = s.settings.idle()
	}
	if left > 0 {
		s.idle = s.after(left, s.onIdle)
	}
	return left > 0
}
