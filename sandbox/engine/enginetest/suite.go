// Package enginetest tests every [engine.Engine] by the same promises, and provides an engine for tests with processes as
// containers.
package enginetest

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/channel"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
)

// Target is an engine under test.
type Target struct {
	Engine engine.Engine
	// Open returns another engine with the same containers.
	Open func(tb testing.TB) engine.Engine
	// Spec describes a container of an image with python3, with a name and a volume of its own, which the end of the test removes,
	// and a common label.
	Spec  func(tb testing.TB, command ...string) engine.Spec
	Label string
	// Nodes hold the images: nothing is known of one before a container uses it.
	Nodes bool
}

const (
	// echo sends everything back as it comes.
	echo = "import os\nwhile True:\n    b = os.read(0, 65536)\n    if not b: break\n    while b: b = b[os.write(1, b):]"
	// idle does nothing until its stdin ends.
	idle = "import sys; sys.stdin.read()"
	// lasting goes on without a server.
	lasting = "import time; print('up', flush=True); time.sleep(600)"
)

// Run tests an engine by the promises of [engine.Engine].
func Run(t *testing.T, target Target) {
	for _, test := range []struct {
		name string
		run  func(Target, *testing.T)
	}{
		{"stdio carries every byte", Target.bytes},
		{"stderr is apart and bounded", Target.stderr},
		{"close lets go of a container that runs on", Target.closing},
		{"reading ends with the container", Target.ending},
		{"a volume outlives its containers", Target.volume},
		{"the environment is given", Target.environment},
		{"a list tells what carries a label", Target.list},
		{"removing passes over what is not there", Target.removing},
		{"a volume in use is not removed", Target.volumeInUse},
		{"containers end and are removed at once", Target.removingMeetsTheEnd},
		{"images are looked up", Target.image},
		{"a start that fails leaves nothing", Target.failing},
		{"a name is had once", Target.nameInUse},
		{"many start at once", Target.many},
		{"a program's stdio carries every byte", Target.execBytes},
		{"a program hears of its end", Target.execClosing},
		{"no program starts where no container runs", Target.execGone},
		{"contexts are honoured", Target.contexts},
		{"an engine that is closed does nothing more", Target.closed},
		{"process 1 is joined by a later server", Target.supervisor},
	} {
		t.Run(strings.ReplaceAll(test.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			test.run(target, t)
		})
	}
}

func (g Target) python(t *testing.T, code string) engine.Spec {
	return g.Spec(t, "python3", "-c", code)
}

func (g Target) start(t *testing.T, spec engine.Spec) engine.Process {
	t.Helper()
	p := must.Get(g.Engine.Start(t.Context(), spec))(t)
	t.Cleanup(func() { p.Close() })
	return p
}

// output runs a container to its end and returns its stdout.
func (g Target) output(t *testing.T, spec engine.Spec) string {
	t.Helper()
	p := g.start(t, spec)
	out, err := io.ReadAll(p)
	if err != nil || p.Stderr() != "" {
		t.Logf("%v, stderr: %s", err, p.Stderr())
	}
	return string(out)
}

func (g Target) exec(t *testing.T, container string, command ...string) engine.Process {
	t.Helper()
	p := must.Get(g.Engine.Exec(t.Context(), container, command))(t)
	t.Cleanup(func() { p.Close() })
	return p
}

// find returns the list's entry of a container; without a name if there is none.
func (g Target) find(t *testing.T, name string) engine.Container {
	t.Helper()
	list := must.Get(g.Engine.List(t.Context(), g.Label, ""))(t)
	for _, c := range list.Containers {
		if c.Name == name {
			return c
		}
	}
	return engine.Container{}
}

// over waits until an engine knows that a container ended, which may be a moment after the end of its output.
func (g Target) over(t *testing.T, name string) {
	t.Helper()
	for g.find(t, name).Running {
		time.Sleep(10 * time.Millisecond)
	}
}

// everyByte contains every byte, and sequences with a meaning for a terminal, Podman's detach keys or a protocol.
func everyByte(size int) []byte {
	sent := make([]byte, size)
	_, _ = rand.Read(sent)
	copy(sent, []byte{0x10, 0x11, 0x10, 0x11, 0, 4, 0xff, '\r', '\n'})
	return sent
}

func send(t *testing.T, to io.Writer, bytes []byte) {
	for part := range slices.Chunk(bytes, 70_001) {
		if _, err := to.Write(part); err != nil {
			t.Error(err)
			return
		}
	}
}

func (g Target) bytes(t *testing.T) {
	p := g.start(t, g.python(t, echo))
	sent := everyByte(4 << 20)
	go send(t, p, sent)
	got := make([]byte, len(sent))
	_, err := io.ReadFull(p, got)
	should.Hold(t, err == nil && bytes.Equal(got, sent), "what came back is not what was sent: %v", err)
}

func (g Target) stderr(t *testing.T) {
	p := g.start(t, g.python(t, `import sys
sys.stderr.write("x" * 100_000 + "the end")
sys.stderr.flush()
print("out")`))
	out, err := io.ReadAll(p)
	should.Hold(t, string(out) == "out\n" && err == nil, "stdout is %q, %v", out, err)
	if got := p.Stderr(); len(got) > 4<<10 || !strings.HasSuffix(got, "xthe end") {
		t.Errorf("stderr is %d bytes and ends in %q", len(got), got[max(0, len(got)-20):])
	}
}

func (g Target) closing(t *testing.T) {
	spec := g.python(t, lasting)
	p := g.start(t, spec)
	must.OK(t, should.ErrOf(io.ReadFull(p, make([]byte, 3))))
	should.OK(t, errors.Join(p.Close(), p.Close()))
	n, err := p.Read(make([]byte, 1))
	should.Hold(t, n == 0 && errors.Is(err, io.EOF), "Read after Close gave %d, %v", n, err)
	_, err = p.Write([]byte("x"))
	should.Hold(t, err != nil, "Write after Close worked")
	c := g.find(t, spec.Name)
	should.Hold(t, c.Running, "the container stopped: %+v", c)
}

func (g Target) ending(t *testing.T) {
	spec := g.python(t, lasting)
	p := g.start(t, spec)
	ended := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, readOnly{p})
		ended <- err
	}()
	must.OK(t, g.Engine.Remove(t.Context(), []string{spec.Name}, nil))
	if err := <-ended; err != nil { // io.EOF, to a copy
		t.Errorf("Read ended with %v", err)
	}
}

type readOnly struct{ io.Reader }

func (g Target) volume(t *testing.T) {
	spec := g.python(t, "f = open('/mnt/data/kept', 'a+'); f.write('x'); f.seek(0); print(f.read(), flush=True); import sys; sys.stdin.read()")
	other := spec
	other.Name = g.Spec(t).Name
	says := func(p io.ReadCloser, want string) {
		t.Helper()
		got, err := bufio.NewReader(p).ReadString('\n')
		should.Hold(t, got == want, "the file has %q, want %q, %v", got, want, err)
	}
	says(g.start(t, spec), "x\n")
	must.OK(t, g.Engine.Remove(t.Context(), []string{spec.Name}, nil))
	says(g.start(t, spec), "xx\n")
	p, err := g.Engine.Start(t.Context(), other)
	if alone := g.Engine.Abilities().OneContainer; alone != (err != nil) {
		t.Fatalf("a second container beside the first: %v", err)
	} else if alone {
		return
	}
	defer p.Close()
	says(p, "xxx\n")
}

func (g Target) environment(t *testing.T) {
	spec := g.python(t, "import os; print(ascii(os.environ['GIVEN']))")
	spec.Env = map[string]string{"GIVEN": "a=b é\n"}
	should.Equal(t, g.output(t, spec), `'a=b \xe9\n'`+"\n")
}

func (g Target) list(t *testing.T) {
	running, over := g.python(t, idle), g.python(t, "pass")
	key, mine := g.Label+".list", rand.Text()
	for _, spec := range []engine.Spec{running, over} {
		spec.Labels[key] = mine
	}
	g.start(t, running)
	g.output(t, over)
	g.over(t, over.Name)
	for _, value := range []string{mine, ""} {
		got, err := g.Engine.List(t.Context(), key, value)
		must.Hold(t, err == nil && len(got.Containers) == 2 && len(got.Volumes) == 2, "List(%q) gave %+v, %v", value, got, err)
		for _, c := range got.Containers {
			should.Hold(t, c.Running == (c.Name == running.Name) && c.Labels[key] == mine && !c.Created.IsZero(), "container %+v", c)
		}
		for _, v := range got.Volumes {
			should.Hold(t, v.Labels[key] == mine && !v.Created.IsZero(), "volume %+v", v)
		}
	}
	none, err := g.Engine.List(t.Context(), key, "another")
	should.Hold(t, err == nil && len(none.Containers)+len(none.Volumes) == 0, "another value gives %+v, %v", none, err)
}

func (g Target) removing(t *testing.T) {
	spec := g.python(t, lasting)
	g.start(t, spec)
	for range 2 {
		names := []string{spec.Name, spec.Name + "-absent"}
		must.OK(t, g.Engine.Remove(t.Context(), names, names))
	}
	should.Hold(t, g.find(t, spec.Name).Name == "", "it is still there")
}

func (g Target) volumeInUse(t *testing.T) {
	spec := g.python(t, idle)
	g.start(t, spec)
	err := g.Engine.Remove(t.Context(), nil, []string{spec.Volume})
	should.Hold(t, err != nil, "the volume of a running container was removed")
}

func (g Target) removingMeetsTheEnd(t *testing.T) {
	for range 4 {
		spec := g.python(t, idle)
		p := g.start(t, spec)
		must.OK(t, p.Close())
		should.OK(t, g.Engine.Remove(t.Context(), []string{spec.Name}, []string{spec.Volume}))
	}
}

func (g Target) image(t *testing.T) {
	info, err := g.Engine.Image(t.Context(), g.python(t, "pass").Image)
	should.Hold(t, err == nil && info.ID != "" && (info.Arch != "" || g.Nodes), "the image is %+v, %v", info, err)
	refs := []string{"", "not a reference!", strings.Repeat("x", 5000)}
	if !g.Nodes {
		refs = append(refs, "localhost/no-such-image:1")
	}
	for _, ref := range refs {
		if _, err := g.Engine.Image(t.Context(), ref); err == nil {
			t.Errorf("Image(%.20q) found something", ref)
		} else if ref == "localhost/no-such-image:1" && !errors.Is(err, engine.ErrImageMissing) {
			t.Errorf("Image(%q): %v", ref, err)
		}
	}
}

func (g Target) failing(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*engine.Spec)
		want   error
	}{
		"the image is missing":          {func(s *engine.Spec) { s.Image = "localhost/no-such-image:1" }, engine.ErrImageMissing},
		"the image's name is bad":       {func(s *engine.Spec) { s.Image = "no image!" }, nil},
		"the program is missing":        {func(s *engine.Spec) { s.Command = []string{"no-such-program", "-c", "x"} }, nil},
		"its path is missing":           {func(s *engine.Spec) { s.Command = []string{"/no/such/node"} }, nil},
		"the program is no program":     {func(s *engine.Spec) { s.Command = []string{"/etc/passwd"} }, nil},
		"the program is a folder":       {func(s *engine.Spec) { s.Command = []string{"/etc"} }, nil},
		"there is no supervisor for it": {func(s *engine.Spec) { s.Arch = "s390x" }, engine.ErrArchitecture},
		"the name is bad":               {func(s *engine.Spec) { s.Name = "../../etc" }, nil},
		"there is no name":              {func(s *engine.Spec) { s.Name = "" }, nil},
		"there is no volume":            {func(s *engine.Spec) { s.Volume = "" }, nil},
		"there is no command":           {func(s *engine.Spec) { s.Command = nil }, nil},
	} {
		spec := g.python(t, "pass")
		named := spec.Name
		test.change(&spec)
		p, err := g.Engine.Start(t.Context(), spec)
		if err == nil {
			p.Close()
		}
		should.Hold(t, err != nil && (test.want == nil || errors.Is(err, test.want)), "%s: %v", name, err)
		should.Hold(t, g.find(t, named).Name == "", "%s: the container is still there", name)
	}
}

func (g Target) nameInUse(t *testing.T) {
	spec := g.python(t, idle)
	first := g.start(t, spec)
	if p, err := g.Engine.Start(t.Context(), spec); err == nil {
		p.Close()
		t.Fatal("a second container of the same name started")
	}
	should.OK(t, should.ErrOf(first.Write([]byte("x"))))
	c := g.find(t, spec.Name)
	should.Hold(t, c.Running, "the first container was stopped")
}

func (g Target) many(t *testing.T) {
	specs := make([]engine.Spec, 12)
	for i := range specs {
		specs[i] = g.python(t, fmt.Sprintf("print(%d)", i))
	}
	var wait sync.WaitGroup
	for i, spec := range specs {
		wait.Go(func() {
			p, err := g.Engine.Start(t.Context(), spec)
			if err != nil {
				t.Error(err)
				return
			}
			defer p.Close()
			out, err := io.ReadAll(p)
			should.Hold(t, err == nil && string(out) == fmt.Sprintln(i), "container %d said %q, %v", i, out, err)
		})
	}
	wait.Wait()
}

func (g Target) execBytes(t *testing.T) {
	spec := g.python(t, idle)
	g.start(t, spec)
	sent := everyByte(1 << 20)
	p := g.exec(t, spec.Name, "python3", "-I", "-c", "import sys; n = sys.stdin.buffer.read(1 << 20); sys.stdout.buffer.write(n)")
	go send(t, p, sent)
	got, err := io.ReadAll(p)
	should.Hold(t, err == nil && bytes.Equal(got, sent), "%d bytes came back, %v; they are not what was sent", len(got), err)
}

func (g Target) execClosing(t *testing.T) {
	spec := g.python(t, idle)
	g.start(t, spec)
	p := g.exec(t, spec.Name, "python3", "-c", "import sys; print('up', flush=True); sys.stdin.read(); open('/mnt/data/ended', 'w')")
	must.OK(t, should.ErrOf(io.ReadFull(p, make([]byte, 3))))
	should.OK(t, errors.Join(p.Close(), p.Close()))
	for {
		look := g.exec(t, spec.Name, "python3", "-c", "import os; print(os.path.exists('/mnt/data/ended'))")
		if out, err := io.ReadAll(look); err != nil || string(out) == "True\n" {
			return
		}
	}
}

func (g Target) execGone(t *testing.T) {
	over := g.python(t, "pass")
	g.output(t, over)
	g.over(t, over.Name)
	for _, name := range []string{over.Name, over.Name + "-none"} {
		should.Be(t, should.ErrOf(g.Engine.Exec(t.Context(), name, []string{"true"})), engine.ErrContainerGone, "exec in %s", name)
	}
	running := g.python(t, idle)
	g.start(t, running)
	_, err := g.Engine.Exec(t.Context(), running.Name, nil)
	should.Hold(t, err != nil && !errors.Is(err, engine.ErrContainerGone), "no command: %v", err)
	if p, err := g.Engine.Exec(t.Context(), running.Name, []string{"/no/such/program"}); err == nil {
		out, err := io.ReadAll(p)
		should.Hold(t, len(out) == 0 && err == nil, "a program that is not there said %q, %v", out, err)
		p.Close()
	}
}

// calls makes every call of an engine, on a context.
func (g Target) calls(ctx context.Context, t *testing.T, e engine.Engine, running string) map[string]error {
	spec := g.python(t, idle)
	failed := make(map[string]error)
	_, failed["image"] = e.Image(ctx, spec.Image)
	_, failed["list"] = e.List(ctx, g.Label, "")
	failed["remove"] = e.Remove(ctx, []string{spec.Name + "-absent"}, nil)
	if p, err := e.Start(ctx, spec); err != nil {
		failed["start"] = err
	} else {
		p.Close()
		failed["start"] = nil
	}
	if p, err := e.Exec(ctx, running, []string{"true"}); err != nil {
		failed["exec"] = err
	} else {
		p.Close()
		failed["exec"] = nil
	}
	should.Hold(t, g.find(t, spec.Name).Name == "", "the container that was not started is there")
	return failed
}

func (g Target) contexts(t *testing.T) {
	running := g.python(t, lasting)
	g.start(t, running)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for call, err := range g.calls(cancelled, t, g.Engine, running.Name) {
		should.Hold(t, errors.Is(err, context.Canceled) && !errors.Is(err, engine.ErrEngineUnavailable),
			"%s that was cancelled: %v", call, err)
	}
	late, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	for call, err := range g.calls(late, t, g.Engine, running.Name) {
		should.Hold(t, errors.Is(err, context.DeadlineExceeded) || errors.Is(err, engine.ErrEngineUnavailable),
			"%s whose time is over: %v", call, err)
	}
}

func (g Target) closed(t *testing.T) {
	running := g.python(t, lasting)
	g.start(t, running)
	other := g.Open(t)
	must.OK(t, should.ErrOf(other.List(t.Context(), g.Label, "")))
	must.OK(t, errors.Join(other.Close(), other.Close()))
	for call, err := range g.calls(t.Context(), t, other, running.Name) {
		should.Hold(t, errors.Is(err, engine.ErrEngineUnavailable), "%s: %v", call, err)
	}
	should.Hold(t, g.find(t, running.Name).Running, "a container ended with an engine")
}

// supervisor lets one server start a container, and another one go on with it.
func (g Target) supervisor(t *testing.T) {
	spec := g.Spec(t, containers.Supervisor("python")...)
	spec.Arch = runtime.GOARCH
	first := connect(g.start(t, spec))
	first.say(t, protocol.Init{
		Type: "init", Protocol: protocol.Version, WorkDir: engine.WorkDir, OnEOF: "wait", Token: "a token", IdleSeconds: 600,
		OutputBytes: 1000, SpoolBytes: 1000,
	})
	first.hear(t, "ready")
	first.say(t, protocol.Request{Type: "run", Language: "python", ID: "1", Code: "import os; x = os.path.exists('output'); x"})
	done := first.hear(t, "done")
	must.Hold(t, done.Result != nil && *done.Result == "True", "the first run came to %+v", done)
	should.OK(t, first.conn.Close())
	later := connect(g.exec(t, spec.Name, containers.Join()...))
	later.say(t, protocol.Attach{Type: "attach", Protocol: protocol.Version, Token: "a token"})
	later.hear(t, "ready")
	later.say(t, protocol.Request{Type: "run", Language: "python", ID: "2", Code: "x + 41"})
	for {
		done := later.hear(t, "done") // of the first run, and then of the second
		if done.ID == "2" {
			should.Hold(t, done.Result != nil && *done.Result == "42", "the second run came to %+v", done)
			return
		}
	}
}

// peer is a server that speaks to a supervisor.
type peer struct {
	proc engine.Process
	conn *channel.Conn
}

func connect(p engine.Process) peer {
	return peer{p, channel.New(p, channel.Options{MaxControl: protocol.MaxToServer})}
}

func (p peer) say(t *testing.T, message any) {
	t.Helper()
	text, err := json.Marshal(message)
	if err == nil {
		err = p.conn.Send(text)
	}
	must.OK(t, err)
}

// hear returns the next message of a type, decoded as done.
func (p peer) hear(t *testing.T, kind string) protocol.Done {
	t.Helper()
	for {
		text, err := p.conn.Receive()
		must.Hold(t, err == nil, "%v; it said %s", err, p.proc.Stderr())
		var message protocol.Done
		must.OK(t, json.Unmarshal(text, &message))
		if message.Type == kind {
			return message
		}
	}
}
