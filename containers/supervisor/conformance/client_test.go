//go:build linux

// Package conformance holds the supervisor to docs/kernel-protocol.md, with the real program and its kernels as child processes: each promise
// once, for every language where a kernel has a part in it. What is about one interpreter is tested beside that.
package conformance

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/locked"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/channel"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
)

var (
	program string // the supervisor
	// slowness is how many times slower than others the machine is: 10 where it is emulated.
	slowness = max(1, number(os.Getenv("E2E_SLOWNESS")))
	// patience is when a test gives up. No test measures time by it.
	patience = time.Duration(slowness) * 3 * time.Minute
	// grace, in milliseconds, is what code has where its end by force is not what is tested; short where it is.
	grace = int64(20_000 * slowness)
)

const short = 300

// Most of what tests do is to wait, for processes to start and for times that the protocol has.
const parallel = "8"

func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", parallel) // where the command line has no other
	os.Exit(run(m))
}

func run(m *testing.M) int {
	syscall.Umask(0o022)
	dir, err := os.MkdirTemp("", "conformance-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	program = filepath.Join(dir, "supervisor")
	build := exec.Command("go", "build", "-o", program, "..")
	if ready := os.Getenv("SUPERVISOR"); ready != "" {
		build = exec.Command("cp", ready, program)
	}
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "the supervisor could not be built: %v\n%s", err, out)
		return 1
	}
	err = unpack(dir)
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// unpack brings the kernels to where somebody else can read them, as whom some tests run: a checkout may be in a home folder.
func unpack(dir string) error {
	python.program, javascript.program = filepath.Join(dir, "python", "main.py"), filepath.Join(dir, "node", "main.cjs")
	files, err := containers.Programs(runtime.GOARCH)
	if err != nil {
		return err
	}
	for _, f := range files {
		name := filepath.Join(dir, f.Path)
		if name == program {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(name, f.Content, f.Mode); err != nil {
			return err
		}
	}
	return nil
}

// watchSources has `go test` know what child processes read: else it would take a result for one of what has changed since.
var watchSources = sync.OnceFunc(func() {
	for _, root := range []string{"..", os.Getenv("SUPERVISOR")} {
		_ = filepath.WalkDir(root, func(path string, _ os.DirEntry, _ error) error {
			_, _ = os.Stat(path)
			return nil
		})
	}
})

func number(text string) int {
	n, _ := strconv.Atoi(strings.TrimSpace(text))
	return n
}

type fields map[string]any

type request = protocol.Request

// message is any that a supervisor sends: what is of another type than its own is empty.
type message struct {
	Type, ID          string
	protocol.Attached `json:"-"`
	protocol.Ready    `json:"-"`
	protocol.Progress `json:"-"`
	protocol.Display  `json:"-"`
	protocol.Done     `json:"-"`
	protocol.Pong     `json:"-"`
	protocol.Log      `json:"-"`
	peek              protocol.Peek
	twins             protocol.Twins
	restored          protocol.Restored
	versions          protocol.Versions
	kernel            protocol.KernelState
	frozen            protocol.Frozen
	described         protocol.Described

	raw []byte
}

func decode(body []byte) (*message, error) {
	m := &message{raw: body}
	var head protocol.Head
	if err := json.Unmarshal(body, &head); err != nil {
		return nil, err
	}
	m.Type, m.ID = head.Type, head.ID
	return m, json.Unmarshal(body, map[string]any{
		"attached": &m.Attached, "ready": &m.Ready, "progress": &m.Progress, "display": &m.Display, "done": &m.Done, "pong": &m.Pong, "log": &m.Log,
		"peek": &m.peek, "twins": &m.twins, "restored": &m.restored, "versions": &m.versions, "kernel": &m.kernel, "clear": &head, "frozen": &m.frozen,
		"described": &m.described,
	}[m.Type])
}

func (m *message) String() string { return string(m.raw[:min(len(m.raw), 3000)]) }

func (m *message) result() string {
	if m.Result == nil {
		return ""
	}
	return *m.Result
}

func (m *message) errorName() string {
	if m.Error == nil {
		return ""
	}
	return m.Error.Name
}

func (m *message) ended() string {
	return strings.TrimSpace(fmt.Sprint(m.Status, " ", m.ExitCode, " ", m.Kernel, " ", m.Cause))
}

func (m *message) paths() string {
	var paths []string
	for _, a := range m.Artifacts {
		paths = append(paths, a.Path)
	}
	slices.Sort(paths)
	return strings.Join(paths, " ")
}

// connection is a server's end of one, which speaks of one language.
type connection struct {
	*wire
	language string
}

// in speaks of another language.
func (c *connection) in(l *language) *connection { return &connection{c.wire, l.name} }

type wire struct {
	t    testing.TB
	raw  io.ReadWriteCloser
	conn *channel.Conn

	mu       sync.Mutex
	came     sync.Cond
	messages []*message
	ended    bool
	paused   bool // nothing is read
}

func connect(t testing.TB, raw io.ReadWriteCloser, language string) *connection {
	c := &connection{&wire{t: t, raw: raw, conn: channel.New(raw, channel.Options{MaxControl: protocol.MaxToServer})}, language}
	c.came.L = &c.mu
	go c.receive()
	t.Cleanup(func() { _ = c.conn.Close() })
	return c
}

func (c *connection) receive() {
	for {
		body, err := c.conn.Receive()
		c.mu.Lock()
		for c.paused {
			c.came.Wait()
		}
		var m *message
		if err == nil {
			m, err = decode(body)
		}
		if err != nil {
			c.ended = true
			c.came.Broadcast()
			c.mu.Unlock()
			return
		}
		c.messages = append(c.messages, m)
		c.came.Broadcast()
		c.mu.Unlock()
	}
}

func (c *connection) pause(on bool) {
	c.mu.Lock()
	c.paused = on
	c.mu.Unlock()
	c.came.Broadcast()
}

// send sends a message of package protocol, or fields that are none.
func (c *connection) send(message any) {
	c.t.Helper()
	body := must.Get(json.Marshal(message))(c.t)
	c.sendBody(body)
}

func (c *connection) sendBody(body []byte) { _ = c.conn.Send(body) }

// sendRaw sends bytes that may be no frame.
func (c *connection) sendRaw(data []byte) { _, _ = c.raw.Write(data) }

func frame(kind byte, body string) []byte {
	return append(append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), kind), body...)
}

// now is the place of the next message.
func (c *connection) now() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.messages)
}

// find waits for the first message from a place on that matches, or returns nil where the connection ends before.
func (c *connection) find(from int, matches func(*message) bool) *message {
	c.t.Helper()
	late := time.AfterFunc(patience, c.came.Broadcast)
	defer late.Stop()
	deadline := time.Now().Add(patience)
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		for ; from < len(c.messages); from++ {
			if matches(c.messages[from]) {
				return c.messages[from]
			}
		}
		if c.ended {
			return nil
		}
		must.Hold(c.t, !time.Now().After(deadline), "what was expected did not come")
		c.came.Wait()
	}
}

// await waits for a message of a type.
func (c *connection) await(kind string, from int) *message {
	c.t.Helper()
	m := c.find(from, func(m *message) bool { return m.Type == kind })
	must.Hold(c.t, m != nil, "the connection ended before a message %q came", kind)
	return m
}

// greeted waits for the message attached, with that of its language's first kernel.
func (c *connection) greeted() *message {
	c.t.Helper()
	m, ready := c.await("attached", 0), c.find(0, func(m *message) bool { return m.Type == "ready" && m.Language == c.language })
	must.Hold(c.t, ready != nil, "the connection ended before a kernel was ready")
	m.Ready = ready.Ready
	return m
}

// awaitEnd waits for the end of the connection.
func (c *connection) awaitEnd() {
	c.t.Helper()
	c.find(c.now(), func(*message) bool { return false })
}

// all lists what has come of a type; with an id only that run's.
func (c *connection) all(kind, id string) []*message {
	c.mu.Lock()
	defer c.mu.Unlock()
	var found []*message
	for _, m := range c.messages {
		if m.Type == kind && (id == "" || m.ID == id) {
			found = append(found, m)
		}
	}
	return found
}

// shown returns the texts beside what a run shows in the end.
func (c *connection) shown(id string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var keys, texts []string
	for _, m := range c.messages {
		switch {
		case m.ID != id:
		case m.Type == "clear":
			keys, texts = nil, nil
		case m.Type != "display":
		case m.Key != "" && slices.Contains(keys, m.Key):
			texts[slices.Index(keys, m.Key)] = m.Alt
		default:
			keys, texts = append(keys, m.Key), append(texts, m.Alt)
		}
	}
	return strings.Join(texts, " ")
}

var runs atomic.Int64

// begin sends a run, and returns its id.
func (c *connection) begin(code string, more ...request) string {
	c.t.Helper()
	var r request
	if len(more) > 0 {
		r = more[0]
	}
	r.Type, r.Code, r.GraceMS = "run", code, cmp.Or(r.GraceMS, grace)
	r.Language = cmp.Or(r.Language, c.language)
	r.ID = cmp.Or(r.ID, "r"+strconv.FormatInt(runs.Add(1), 10))
	c.send(r)
	return r.ID
}

func (c *connection) done(id string) *message {
	c.t.Helper()
	m := c.find(0, func(m *message) bool { return m.Type == "done" && m.ID == id })
	must.Hold(c.t, m != nil, "the connection ended during a run")
	return m
}

func (c *connection) run(code string, more ...request) *message {
	c.t.Helper()
	return c.done(c.begin(code, more...))
}

// completed runs code that has to complete, and returns its answer.
func (c *connection) completed(code string, more ...request) *message {
	c.t.Helper()
	d := c.run(code, more...)
	must.Hold(c.t, d.Status == "completed", "%.300s\ndid not complete: %s %v", code, d, c.all("log", ""))
	return d
}

// value runs an expression, and returns what its value is shown as.
func (c *connection) value(code string) string {
	c.t.Helper()
	return c.completed(code).result()
}

func (c *connection) interrupt(id, reason string) {
	c.send(request{Type: "interrupt", ID: id, Reason: reason})
}

// ping waits until the supervisor has taken all that was sent to it.
func (c *connection) ping() {
	c.t.Helper()
	from := c.now()
	n := int64(from + 1000)
	c.send(request{Type: "ping", N: n})
	c.find(from, func(m *message) bool { return m.Type == "pong" && m.N == n })
}

// client is a supervisor with the connection of the server that has started it.
type client struct {
	*connection
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	dir    string
	door   string
	exited chan struct{}
	ready  *message
}

// options are how a supervisor is started.
type options struct {
	init      protocol.Init // whose zero values are the defaults
	also      []*language   // of the same supervisor
	noInit    bool
	dir       string // its work directory; empty: a new one
	program   string // for the interpreter; empty: the language's
	env       []string
	openFiles int  // a limit: a leak shows as an error then
	asNobody  bool // also where the tests may do anything
}

type stdio struct {
	io.Writer
	io.Reader
	close func() error
}

func (s stdio) Close() error { return s.close() }

// start begins a supervisor.
func start(t testing.TB, l *language, o options) *client {
	t.Helper()
	watchSources()
	c := &client{dir: o.dir, exited: make(chan struct{})}
	if c.dir == "" {
		c.dir = t.TempDir()
	}
	c.door = "@conformance-" + strconv.FormatInt(time.Now().UnixNano(), 36) + "-" + strconv.Itoa(os.Getpid())
	if o.program == "" {
		o.program = l.program
	}
	command := []string{program, l.name + "=" + o.program}
	for _, other := range o.also {
		command = append(command, other.name+"="+other.program)
	}
	if o.openFiles > 0 {
		command = append([]string{"sh", "-c", `ulimit -n "$0"; exec "$@"`, strconv.Itoa(o.openFiles)}, command...)
	}
	c.cmd = exec.Command(command[0], command[1:]...)
	c.cmd.Dir, c.cmd.Env = c.dir, append(append(os.Environ(), "CODE_SANDBOX_SOCKET="+c.door), o.env...)
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if o.asNobody && os.Getuid() == 0 {
		c.asNobody(t)
	}
	var stderr locked.Buffer
	c.cmd.Stderr = &stderr
	in := must.Get(c.cmd.StdinPipe())(t)
	out, ours, err := os.Pipe()
	must.OK(t, err)
	c.stdin, c.cmd.Stdout = in, ours
	must.OK(t, c.cmd.Start())
	_ = ours.Close()
	go func() {
		_ = c.cmd.Wait()
		close(c.exited)
	}()
	c.connection = connect(t, stdio{in, out, func() error { return errors.Join(in.Close(), out.Close()) }}, l.name)
	t.Cleanup(func() {
		c.end()
		if t.Failed() && stderr.String() != "" {
			t.Logf("the supervisor said: %.3000s", stderr.String())
		}
	})
	if !o.noInit {
		c.send(c.init(o.init))
		c.ready = c.greeted()
	}
	return c
}

const nobody = 65534

// asNobody has the supervisor have no rights that go beyond its own files.
func (c *client) asNobody(t testing.TB) {
	c.cmd.SysProcAttr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
	c.cmd.Env = append(c.cmd.Env, "PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/nonexistent")
	for dir := c.dir; len(dir) > len(os.TempDir()); dir = filepath.Dir(dir) {
		must.OK(t, os.Chmod(dir, 0o755))
	}
	must.OK(t, os.Chown(c.dir, nobody, nobody))
}

func (c *client) init(i protocol.Init) protocol.Init {
	i.Type, i.Protocol, i.WorkDir = "init", protocol.Version, cmp.Or(i.WorkDir, c.dir)
	i.OutputBytes, i.SpoolBytes, i.ImageBytes = cmp.Or(i.OutputBytes, 30_000), cmp.Or(i.SpoolBytes, 64<<20), cmp.Or(i.ImageBytes, 1<<20)
	i.MaxDisplays, i.MaxArtifacts = cmp.Or(i.MaxDisplays, 20), cmp.Or(i.MaxArtifacts, 100)
	return i
}

// end ends the supervisor and all that it has started.
func (c *client) end() {
	_ = c.cmd.Process.Signal(syscall.SIGCONT)
	_ = c.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-c.exited:
	case <-time.After(patience):
		_ = c.cmd.Process.Kill()
		<-c.exited
	}
}

// awaitExit waits until the supervisor has ended by itself, and as one that did well.
func (c *client) awaitExit() {
	c.t.Helper()
	select {
	case <-c.exited:
		must.Equal(c.t, c.cmd.ProcessState.ExitCode(), 0, "the supervisor ended with")
	case <-time.After(patience):
		c.t.Fatal("the supervisor did not end")
	}
}

func (c *client) pid() int { return c.cmd.Process.Pid }

func (c *client) path(names ...string) string {
	return filepath.Join(append([]string{c.dir}, names...)...)
}

func (c *client) read(name string) string {
	c.t.Helper()
	text := must.Get(os.ReadFile(c.path(name)))(c.t)
	return string(text)
}

func (c *client) write(name, text string) {
	c.t.Helper()
	must.OK(c.t, os.WriteFile(c.path(name), []byte(text), 0o644))
}

func (c *client) exists(name string) bool {
	_, err := os.Lstat(c.path(name))
	return err == nil
}

func (c *client) awaitFile(name string) {
	c.t.Helper()
	must.Soon(c.t, "no file "+name, func() bool { return c.exists(name) })
}

// later is a connection of a later server.
func (c *client) later() *connection {
	c.t.Helper()
	conn := must.Get(net.Dial("unix", c.door))(c.t)
	return connect(c.t, conn, c.language)
}

// Processes --------------------------------------------------------------------------

// state is the letter that proc(5) has for a process; empty where there is none.
func state(pid int) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if at := strings.LastIndexByte(string(text), ')'); at >= 0 {
		return strings.Fields(string(text[at+1:]))[0]
	}
	return ""
}

func lives(pid int) bool { return !slices.Contains([]string{"", "Z", "X"}, state(pid)) }

func awaitDeath(t testing.TB, pid int) {
	t.Helper()
	must.Soon(t, fmt.Sprintf("process %d is still there", pid), func() bool { return !lives(pid) })
}

// stop stops all threads of a process.
func stop(t testing.TB, pid int) {
	t.Helper()
	_ = syscall.Kill(pid, syscall.SIGSTOP)
	must.Soon(t, fmt.Sprintf("process %d goes on", pid), func() bool {
		stats, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		return !slices.ContainsFunc(stats, func(stat string) bool {
			text, err := os.ReadFile(stat)
			return err == nil && !strings.Contains(string(text), ") T ")
		})
	})
}

// children are what all threads of a process have started, with those that were not waited for.
func children(pid int) []int {
	var found []int
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, task := range tasks {
		text, _ := os.ReadFile(task)
		for _, child := range strings.Fields(string(text)) {
			found = append(found, number(child))
		}
	}
	return found
}

// offspring are those that live.
func offspring(pid int) []int {
	return slices.DeleteFunc(children(pid), func(child int) bool { return !lives(child) })
}

// statusOf is a number of /proc/PID/status.
func statusOf(t testing.TB, pid int, name string) int {
	t.Helper()
	text := must.Get(os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)))(t)
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			return number(strings.Fields(rest)[0])
		}
	}
	return 0
}

func check(t testing.TB, what string, got, want any) {
	t.Helper()
	must.Hold(t, fmt.Sprintf("%#v", got) == fmt.Sprintf("%#v", want), "%s: got %#v, want %#v", what, got, want)
}
