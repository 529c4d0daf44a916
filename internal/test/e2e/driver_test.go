//go:build unix

package e2e

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	settings "github.com/code-sandbox-mcp/code-sandbox-mcp/internal/setting"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/locked"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

// slowness is how many times slower than usual the machine is, from E2E_SLOWNESS: an emulated one is ten times.
// What a server waits for by default is as many times longer there.
var slowness = cmp.Or(atoi(os.Getenv("E2E_SLOWNESS")), 1)

func atoi(text string) int {
	n, _ := strconv.Atoi(text)
	return n
}

// slowed is how long what takes d elsewhere may take on this machine.
func slowed(d time.Duration) time.Duration { return time.Duration(slowness) * d }

// slowly returns the settings of a server on a busy machine, or on a slow one.
func slowly() []string {
	settings := []string{"SANDBOX_SOFT_WAIT=" + slowed(3*time.Minute).String(), "SANDBOX_START_TIMEOUT=" + slowed(3*time.Minute).String()}
	if slowness > 1 {
		minute := slowed(time.Minute).String()
		settings = append(settings, "SANDBOX_RUN_TIMEOUT="+minute, "SANDBOX_SQL_TIMEOUT="+minute)
	}
	return settings
}

// noSpares is a setting: what waits for later servers would be left behind.
const noSpares = "SANDBOX_SPARES=0"

// patience bounds every wait for an answer. It is generous: the tests share a machine, and none of
// them is about speed.
var patience = slowed(5 * time.Minute)

// An era is a generation of the protocol.
type era string

const (
	legacy era = "2025-11-25" // sessions that begin with initialize
	modern era = "2026-07-28" // stateless: every request says what it needs
)

// setup says how a server is started. The zero value is the default server, after its handshake.
type setup struct {
	args      []string
	env       []string // besides HOME and PATH, which is all that it gets otherwise
	stateDir  string   // empty: one of its own
	era       era      // empty: legacy
	silent    bool     // nothing is sent by the driver itself
	program   string   // empty: the one under test
	asShipped bool     // with the program's own defaults: no structured content, and its times on a slow machine too
}

// server is a running program under test, with a client's view of it. What is not said to be
// otherwise must be called by the test's own goroutine.
type server struct {
	t        *testing.T
	era      era
	stateDir string
	cmd      *exec.Cmd
	stdin    io.WriteCloser
	stdout   *os.File
	stderr   *locked.Buffer
	exited   chan struct{} // closed when the process has ended and all of its output is read
	lastID   int
	shared   bool // others use the state directory too
	killed   bool // by the test: what it left is not its fault

	writing sync.Mutex

	mu       sync.Mutex
	messages []message
	changed  chan struct{} // closed at the next message
	waiting  map[string]chan message
	sessions map[string]bool
}

// start starts a server, which ends with the test and may then leave nothing behind.
func start(t *testing.T, with setup) *server {
	t.Helper()
	s := &server{
		t: t, era: with.era, stateDir: with.stateDir, stderr: &locked.Buffer{}, exited: make(chan struct{}),
		changed: make(chan struct{}), waiting: make(map[string]chan message),
		sessions: make(map[string]bool),
	}
	if s.era == "" {
		s.era = legacy
	}
	if s.stateDir == "" {
		s.stateDir = t.TempDir()
	}
	s.shared = with.stateDir != ""
	s.launch(with)
	t.Cleanup(s.cleanUp)
	if !with.silent && s.era == legacy {
		s.handshake(string(legacy))
	}
	return s
}

// programFor is the program that has the settings and commands of these arguments and variables.
func programFor(given []string) string {
	names, elsewhere := settings.Elsewhere()
	for _, name := range names {
		elsewhere = append(elsewhere, "--"+name, settings.VariableOf(name))
	}
	for _, word := range given {
		if word, _, _ = strings.Cut(word, "="); slices.Contains(elsewhere, word) {
			return serverProgram
		}
	}
	return binary
}

func (s *server) launch(with setup) {
	s.t.Helper()
	s.cmd = exec.Command(cmp.Or(with.program, programFor(slices.Concat(with.args, with.env))), append([]string{"--state-dir", s.stateDir, "--log-level", "debug"}, with.args...)...)
	// What clients pass on. HOME is the real one: rootless Podman keeps its images there.
	s.cmd.Env = []string{"HOME=" + os.Getenv("HOME"), "PATH=" + os.Getenv("PATH"), noSpares}
	if !with.asShipped { // what is told exactly is easier to check than a text
		s.cmd.Env = append(append(s.cmd.Env, "SANDBOX_STRUCTURED_CONTENT=true"), slowly()...)
	}
	s.cmd.Env = append(s.cmd.Env, with.env...)
	s.cmd.Stderr = s.stderr
	stdin := must.Get(s.cmd.StdinPipe())(s.t)
	reader, writer, err := os.Pipe()
	must.OK(s.t, err)
	s.stdin, s.stdout, s.cmd.Stdout = stdin, reader, writer
	must.OK(s.t, s.cmd.Start())
	_ = writer.Close()
	go s.read()
}

// read takes everything that the server writes, and reports what is not the protocol's.
func (s *server) read() {
	defer close(s.exited)
	defer func() { _ = s.cmd.Wait() }()
	reader := bufio.NewReaderSize(s.stdout, 1<<20)
	for {
		line, err := reader.ReadBytes('\n')
		if errors.Is(err, os.ErrClosed) {
			return // the test has stopped reading
		}
		if err != nil {
			should.Hold(s.t, len(line) == 0, "stdout ends in the middle of a line: %.300q", line)
			return
		}
		m, err := parseMessage(line)
		if err != nil {
			s.t.Errorf("foreign bytes on stdout: %v: %.300q", err, line)
			continue
		}
		s.deliver(m)
	}
}

func (s *server) deliver(m message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.messages = append(s.messages, m)
	close(s.changed)
	s.changed = make(chan struct{})
	id := string(m.ID)
	if m.Method != "" || id == "null" {
		return
	}
	waiting := s.waiting[id]
	if waiting == nil {
		s.t.Errorf("an answer that nobody waits for: %.300s", m.line)
		return
	}
	delete(s.waiting, id)
	waiting <- m
}

// write sends bytes as they are. Any goroutine may call it.
func (s *server) write(data []byte) {
	s.t.Helper()
	s.writing.Lock()
	defer s.writing.Unlock()
	should.OK(s.t, should.ErrOf(s.stdin.Write(data)), "write to the server")
}

// line sends one line of text.
func (s *server) line(text string) {
	s.t.Helper()
	s.write([]byte(text + "\n"))
}

// object is a JSON object.
type object = map[string]any

func (s *server) notify(method string, params object) {
	s.t.Helper()
	s.send(object{"jsonrpc": "2.0", "method": method, "params": params})
}

func (s *server) send(value any) {
	s.t.Helper()
	text := must.Get(json.Marshal(value))(s.t)
	s.write(append(text, '\n'))
}

// request is one that was sent.
type request struct {
	server *server
	id     string
	method string
	tool   string // that a call of beginCall is of
	answer chan message
}

// begin sends a request and does not wait for its answer.
func (s *server) begin(method string, params object) *request {
	s.t.Helper()
	s.lastID++
	r := s.expect(strconv.Itoa(s.lastID), method)
	full := object{}
	for name, value := range params {
		full[name] = value
	}
	if s.era == modern {
		full["_meta"] = modernMeta(full["_meta"])
	}
	s.send(object{"jsonrpc": "2.0", "id": s.lastID, "method": method, "params": full})
	return r
}

// modernMeta adds what every request of the stateless era carries.
func modernMeta(given any) object {
	meta := object{
		"io.modelcontextprotocol/protocolVersion":    string(modern),
		"io.modelcontextprotocol/clientInfo":         object{"name": "e2e", "version": "1"},
		"io.modelcontextprotocol/clientCapabilities": object{},
	}
	if more, ok := given.(object); ok {
		for name, value := range more {
			meta[name] = value
		}
	}
	return meta
}

// expect prepares for the answer to an id that the test sends by itself.
func (s *server) expect(id, method string) *request {
	r := &request{server: s, id: id, method: method, answer: make(chan message, 1)}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting[id] = r.answer
	return r
}

// wait returns the answer.
func (r *request) wait() message {
	r.server.t.Helper()
	select {
	case m := <-r.answer:
		return m
	case <-r.server.exited:
		select {
		case m := <-r.answer:
			return m
		default:
		}
		r.server.t.Fatalf("the server ended without an answer to %s", r.method)
	case <-time.After(patience):
		r.server.t.Fatalf("no answer to %s", r.method)
	}
	panic("not reached")
}

// pending reports whether the answer has not come yet.
func (r *request) pending() bool { return len(r.answer) == 0 }

// request sends a request and returns its answer, which must be a result.
func (s *server) request(method string, params object) message {
	s.t.Helper()
	m := s.begin(method, params).wait()
	if m.Error != nil {
		s.t.Fatalf("%s: error %d: %s", method, m.Error.Code, m.Error.Message)
	}
	return m
}

// handshake begins a session of the older era and returns the server's part of it.
func (s *server) handshake(version string) (result struct {
	ProtocolVersion string
	Instructions    string
	ServerInfo      struct{ Name, Version, Title string }
	Capabilities    map[string]any
}) {
	s.t.Helper()
	m := s.request("initialize", object{
		"protocolVersion": version, "capabilities": object{}, "clientInfo": object{"name": "e2e", "version": "1"},
	})
	decode(s.t, m.Result, &result)
	s.notify("notifications/initialized", nil)
	return result
}

// waitFor waits until the messages so far are as the test wants them.
func (s *server) waitFor(what string, ready func([]message) bool) {
	s.t.Helper()
	timeout := time.After(patience)
	for {
		s.mu.Lock()
		done, changed := ready(slices.Clone(s.messages)), s.changed
		s.mu.Unlock()
		if done {
			return
		}
		select {
		case <-changed:
		case <-s.exited:
			s.t.Fatalf("the server ended before %s", what)
		case <-timeout:
			s.t.Fatalf("timeout: %s", what)
		}
	}
}

func decode(t *testing.T, text json.RawMessage, into any) {
	t.Helper()
	must.OK(t, json.Unmarshal(text, into), "%.300s", text)
}

// tail is the end of a log, for a failure's message.
func tail(text string) string {
	const most = 6000
	if len(text) > most {
		return "…" + text[len(text)-most:]
	}
	return text
}

// eventually polls until the condition holds, for what no message tells of.
func eventually(t *testing.T, what string, holds func() (bool, string)) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		ok, state := holds()
		if ok {
			return
		}
		must.Hold(t, !time.Now().After(deadline), "timeout: %s: %s", what, state)
		time.Sleep(pause)
	}
}

func sprint(value any) string {
	text, err := json.MarshalIndent(value, "", " ")
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(text)
}
