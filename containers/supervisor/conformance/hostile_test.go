//go:build linux

package conformance

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/daemon"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/filewire"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
)

// Code that attacks the supervisor.

func TestABreachCostsTheKernelAndNothingElse(t *testing.T) {
	each(t, func(t *testing.T, l *language) {
		c := start(t, l, options{})
		for name, attack := range map[string]string{
			"a header that is too long": `raw("ffffffff00000000")`,
			"a blob that is too long":   `raw("000000027fffffff7b7d")`,
			"no JSON":                   `send("")`,
			"no object":                 `send("[]")`,
			"half an object":            `send("{")`,
			"depth":                     `send("` + strings.Repeat("[", 500_000) + `")`,
			"a type that is none":       `send('{"type": 7, "id": {}}')`,
			"an answer that is none":    `send('{"type": "done", "id": "x", "result": {"a": 1}, "exit": "x"}')`,
		} {
			d := c.run(lines(l.forge, attack, l.sleep.with(600_000)))
			check(t, name, d.ended(), "killed 137 dead signal 9")
		}
		check(t, "the next", c.value("2"), "2")
	})
}

func TestHalfAFrameIsWaitedForUntilTheTimeout(t *testing.T) {
	each(t, func(t *testing.T, l *language) {
		c := start(t, l, options{})
		d := c.run(lines(l.forge, `raw("0000")`, l.sleep.with(600_000)), request{TimeoutMS: short, GraceMS: short})
		check(t, "status", d.Status, "timed_out")
		check(t, "the next", c.value("2"), "2")
	})
}

func TestForgedMessagesThatAreIgnored(t *testing.T) {
	each(t, func(t *testing.T, l *language) {
		c := start(t, l, options{})
		c.completed(l.forge)
		for _, header := range []string{
			`{}`, `{"type": null}`, `{"type": "hello", "pid": 1}`, `{"type": "hello", "pid": -1}`, `{"type": "loaded"}`, `{"type": "done"}`,
			`{"type": "done", "id": "never"}`, `{"type": "display", "id": "never", "mime": "text/html"}`, `{"type": "ready"}`, `{"type": "exit", "pid": 1}`,
			`{"type": "kernel", "state": "dead"}`, `{"type": "constructor", "id": "__proto__"}`, `{"a": ` + strings.Repeat("9", 100_000) + `}`,
			`{"type": "background", "id": "never", "stream": 1}`, `{"type": "background", "id": "never", "stream": -1}`, `{"type": "piped"}`,
		} {
			d := c.completed(lines("send('"+header+"')", "7"))
			check(t, header, d.ended()+d.result()+fmt.Sprint(d.DisplaysTotal), "completed 0 alive70")
		}
		check(t, "kernels that died", len(c.all("kernel", "")), 0)
	})
}

func TestAForgedAnswerIsBoundedAndSpoilsItsOwnRun(t *testing.T) {
	each(t, func(t *testing.T, l *language) {
		c := start(t, l, options{init: protocol.Init{OutputBytes: 1000}})
		long := strings.Repeat("é", 50_000)
		c.completed(l.forge)
		header := `{"type": "done", "id": "x", "result": "` + long + `", "exit": 1000000, "error": {"name": "` + long + `", "message": "` + long + `", "traceback": "` + long +
			`"}, "goes_on": ["` + long + `"` + strings.Repeat(`, "a"`, 1000) + `]}`
		d := c.run(lines("send('"+header+"')", l.sleep.with(300)), request{ID: "x"})
		check(t, "status", d.Status, "failed")
		for name, got := range map[string][2]int{
			"result": {len(d.result()), 1000}, "name": {len(d.Error.Name), 200}, "message": {len(d.Error.Message), 1000},
			"traceback": {len(d.Error.Traceback), 32_000}, "goes_on": {len(d.GoesOn), 8},
		} {
			if got[0] > got[1] {
				t.Errorf("%s has %d", name, got[0])
			}
		}
		check(t, "the next", c.value("2"), "2")
	})
}

func TestForgedDisplaysAndLogsAreBounded(t *testing.T) {
	each(t, func(t *testing.T, l *language) {
		c := start(t, l, options{init: protocol.Init{ImageBytes: 1000, MaxDisplays: 10}})
		c.completed(l.forge)
		var code []string
		for _, path := range []string{"/etc/passwd", "../x", "a/../../x", "a//b", "", strings.Repeat("x", 5000), "a\x00b", "./x"} {
			code = append(code, fmt.Sprintf("send(%s, 10)", quote(`{"type": "display", "id": "x", "mime": "image/svg+xml", "path": `+quote(path)+`, "size": -5, "alt": "`+strings.Repeat("a", 2000)+`"}`)))
		}
		code = append(code, `send('{"type": "display", "id": "x", "mime": "image/png"}', 5000)`, `send('{"type": "display", "id": "x", "mime": "no type"}', 10)`)
		for range 150 {
			code = append(code, `send('{"type": "log", "message": "`+strings.Repeat("l", 3000)+`"}')`)
		}
		c.run(lines(append(code, "1")...), request{ID: "x"})
		shown := c.all("display", "x")
		check(t, "displays", len(shown), 9)
		for _, m := range shown[:8] {
			check(t, "display", fmt.Sprint(m.Path, m.SizeBytes, m.Data, len(m.Alt) <= 1000), "10 map[image/svg+xml:xxxxxxxxxx] true")
		}
		check(t, "one that is too large", len(shown[8].Data), 0)
		for _, m := range c.all("log", "") {
			check(t, "a log is long", len(m.Message) > 2000, false)
		}
		check(t, "logs", len(c.all("log", "")) <= 100, true)
	})
}

func TestAFloodOfDisplays(t *testing.T) {
	each(t, func(t *testing.T, l *language) {
		c := start(t, l, options{init: protocol.Init{MaxDisplays: 5}})
		c.completed(l.forge)
		before := statusOf(t, c.pid(), "VmRSS")
		loop := code{python: "while True: ", javascript: "while (true) "}[l]
		d := c.run(loop+`send('{"type": "display", "id": "x", "mime": "image/png"}', 500_000)`, request{ID: "x", TimeoutMS: 1000, GraceMS: 2000})
		check(t, "status", d.Status, "timed_out")
		check(t, "displays", len(c.all("display", "")) <= 5, true)
		grown := statusOf(t, c.pid(), "VmRSS") - before
		should.Hold(t, grown <= 48<<10, "it grew by %d KiB", grown)
		check(t, "the next", c.value("2"), "2")
	})
}

func TestAKernelThatAnswersAndNeverReadsAgain(t *testing.T) {
	each(t, func(t *testing.T, l *language) {
		c := start(t, l, options{})
		c.completed(l.forge)
		d := c.run(lines(`send('{"type": "done", "id": "x"}')`, l.stubborn.with("running")), request{ID: "x"})
		check(t, "the forged one", d.ended(), "completed 0 alive")
		c.awaitFile("running")
		d = c.run(code{python: "x = ", javascript: "var x = "}[l]+quote(strings.Repeat("a", 900_000)), request{TimeoutMS: short, GraceMS: short})
		check(t, "the next", d.ended(), "timed_out 124 dead ignored_interrupt")
		check(t, "the one after", c.value("2"), "2")
	})
}

func TestALinkThatIsClosed(t *testing.T) {
	each(t, func(t *testing.T, l *language) {
		c := start(t, l, options{})
		for _, close := range map[*language][]string{
			python: {
				"import os; os.closerange(3, 4096)",
				python.forge + "link().shutdown(socket.SHUT_RDWR)",
				python.forge + "link().shutdown(socket.SHUT_WR)",
			},
			javascript: {`require("fs").closeSync(3);`},
		}[l] {
			d := c.run(lines(close, l.sleep.with(600_000)), request{TimeoutMS: 2000, GraceMS: short})
			check(t, close, d.Kernel, "dead")
			check(t, "the next", c.value("2"), "2")
		}
	})
}

func TestAChildThatKeepsTheLinkOpen(t *testing.T) {
	c := start(t, python, options{})
	d := c.run("import os, time\nif os.fork() == 0: time.sleep(600)\nos._exit(3)")
	check(t, "end", d.ended(), "killed 137 dead exit 3")
	check(t, "the next", c.value("2"), "2")
}

func TestDescriptorsThatAreSentAreDropped(t *testing.T) {
	c := start(t, python, options{openFiles: 64})
	c.completed(python.forge + "import array\nr = os.open('/dev/null', 0)\nfor _ in range(200):\n" +
		"    s = link()\n" +
		"    try: s.sendmsg([b'\\0\\0\\0\\2\\0\\0\\0\\0{}'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [r]))])\n" +
		"    except OSError: pass") // too many on their way
	check(t, "the next", c.value("2"), "2")
}

func TestFilesNamedLikeModules(t *testing.T) {
	each(t, func(t *testing.T, l *language) {
		dir := t.TempDir()
		for _, name := range []string{"errno", "json", "socket", "struct", "importlib", "ctypes", "threading", "IPython", "signal", "decimal"} {
			must.OK(t, os.WriteFile(dir+"/"+name+".py", []byte("open('taken-over', 'w')"), 0o644))
		}
		for _, name := range []string{"fs", "path", "vm"} {
			_ = os.MkdirAll(dir+"/node_modules/"+name, 0o755)
			must.OK(t, os.WriteFile(dir+"/node_modules/"+name+"/index.js", []byte(`require("fs").writeFileSync("taken-over", "")`), 0o644))
		}
		c := start(t, l, options{dir: dir, init: protocol.Init{Warm: []string{l.name}, Preload: map[string][]string{l.name: {"decimal"}}}})
		check(t, "result", c.value("1 + 1"), "2")
		c.standby(l)
		check(t, "result", c.completed("1 + 1", request{Fresh: true}).result(), "2")
		check(t, "code of the session has run", c.exists("taken-over"), false)
	})
}

func TestItsMemoryAndDescriptorsAreClosedToCode(t *testing.T) {
	t.Parallel()
	c := start(t, python, options{asNobody: true})
	pid := c.pid()
	d := c.completed(python.shell.with(fmt.Sprintf("for f in mem environ maps fd/0 fd/10; do head -c 1 /proc/%d/$f 2> /dev/null && echo $f; done; ls /proc/%[1]d/fd 2> /dev/null; true", pid)))
	check(t, "what can be read", d.Stdout.Head, "")
}

// Streams ----------------------------------------------------------------------------------

func TestStreamsThatNobodyReadsHinderNothing(t *testing.T) {
	t.Parallel()
	c := start(t, python, options{})
	c.completed(python.set.with(1))
	before := statusOf(t, c.pid(), "VmRSS")
	var open []net.Conn
	for range 10_000 { // most are more than may wait, and are refused
		stream, err := c.conn.Open()
		if err != nil {
			break
		}
		open = append(open, stream)
		if len(open)%100 == 0 {
			c.ping()
		}
	}
	check(t, "x", c.value(string(python.get)), "1")
	for _, stream := range open {
		_ = stream.Close()
	}
	check(t, "x", c.value(string(python.get)), "1")
	if grown := statusOf(t, c.pid(), "VmRSS") - before; grown > 96<<10 { // a goroutine for each
		t.Errorf("it grew by %d KiB", grown)
	}
	stream := must.Get(c.conn.Open())(t)
	_, _ = stream.Write([]byte(strings.Repeat("\xff", 64)))
	_, _ = io.Copy(io.Discard, stream) // what is no request ends it
}

func TestFilesWhileARunGoesOn(t *testing.T) {
	t.Parallel()
	c := waiting(t, python, protocol.Init{})
	c.write("input/mine", "here")
	id := c.begin(python.awaitFile.with("go"))
	visitor := c.later() // for files alone: it takes nobody's place
	visitor.send(protocol.Attach{Type: "attach", Protocol: protocol.Version, Token: token, FilesOnly: true})
	visitor.send(request{Type: "interrupt", ID: id, Reason: "cancelled"})
	visitor.send(request{Type: "stop"})
	for _, conn := range []*connection{c.connection, visitor} {
		stream := must.Get(conn.conn.Open())(t)
		must.OK(t, filewire.Write(stream, filewire.Request{Op: filewire.Get, Path: "input/mine", Limit: -1}))
		answer, err := io.ReadAll(stream)
		check(t, "the file comes", err == nil && strings.Contains(string(answer), "here"), true)
	}
	check(t, "messages to a visitor", len(visitor.messages), 0)
	c.write("go", "")
	check(t, "the run", c.done(id).ended(), "completed 0 alive")
}

// say is a shell command that sends a text to a port of loopback, and prints what comes back until the end.
func say(port int, text string) string {
	return fmt.Sprintf(`bash -c 'exec 3<>/dev/tcp/127.0.0.1/%d && printf %s >&3 && cat <&3'`, port, text)
}

func freePort(t *testing.T) int {
	t.Helper()
	free := must.Get(daemon.FreePort())(t)
	return free
}

// serve answers each stream that the supervisor opens with what it has said, twice.
func (c *connection) serve(length int) {
	for {
		stream, err := c.conn.Accept()
		if err != nil {
			return
		}
		go func() {
			said := make([]byte, length)
			_, _ = io.ReadFull(stream, said)
			_, _ = stream.Write([]byte(strings.Repeat(string(said), 2)))
			_ = stream.Close()
		}()
	}
}

func TestConnectionsOfCodeAreCarriedToTheServer(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	c := start(t, python, options{init: protocol.Init{WayOut: port}})
	go c.serve(5)
	command := python.shell.with(say(port, "hello"))
	for range 2 {
		check(t, "what comes back", c.completed(command).Stdout.Head, "hellohello")
	}
	many := python.shell.with("for i in 1 2 3 4 5 6 7 8 9; do for j in 1 2 3 4 5 6 7 8 9; do " + say(port, "again") + " & done; done; wait")
	check(t, "what comes back from many at a time", strings.Count(c.completed(many).Stdout.Head, "again"), 162)
}

// Python runs what is beside the packages of the session before anything else, such as the lines of a .pth file, and may
// be faster than the server's first message.
func TestNoCodeOfTheSessionTakesThePlaceOfTheWayOut(t *testing.T) {
	t.Parallel()
	port, dir := freePort(t), t.TempDir()
	door := "@conformance-first-" + strconv.Itoa(port)
	version, err := exec.Command("python3", "-c", "import sys; print('python%d.%d' % sys.version_info[:2])").Output()
	packages := filepath.Join(dir, ".local", "lib", strings.TrimSpace(string(version)), "site-packages")
	early := fmt.Sprintf("import socket\ntaken = []\nfor family, at in (socket.AF_INET, ('127.0.0.1', %d)), (socket.AF_UNIX, '\\0%s'):\n"+
		"    s = socket.socket(family)\n    try:\n        s.bind(at), s.listen(), taken.append(s)\n    except OSError:\n        pass\nopen(%q, 'w')\n",
		port, door[1:], filepath.Join(dir, "early"))
	err = errors.Join(err, os.MkdirAll(packages, 0o755))
	for name, text := range map[string]string{"early.pth": "import early\n", "early.py": early} {
		err = errors.Join(err, os.WriteFile(filepath.Join(packages, name), []byte(text), 0o644))
	}
	must.OK(t, err)
	c := start(t, python, options{noInit: true, dir: dir, env: []string{
		"PYTHONUSERBASE=" + filepath.Join(dir, ".local"), "CODE_SANDBOX_SOCKET=" + door, protocol.WayOutVariable + "=" + strconv.Itoa(port),
	}})
	c.awaitFile("early")
	c.send(c.init(protocol.Init{WayOut: port, Token: "token"}))
	go c.serve(5)
	check(t, "what was early", c.completed("import sys; print(len(sys.modules['early'].taken))").Stdout.Head, "0\n")
	check(t, "what comes back", c.completed(python.shell.with(say(port, "hello"))).Stdout.Head, "hellohello")
}

func TestNothingListensWithoutAWayOut(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	c := start(t, python, options{})
	d := c.run(python.shell.with(say(port, "hello") + "; true"))
	check(t, "refused", strings.Contains(d.Stderr.Head, "refused"), true)
}

func TestAConnectionOfCodeEndsWhereNoServerIs(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	c := waiting(t, python, protocol.Init{WayOut: port})
	id := c.begin(lines(python.awaitFile.with("go"), python.shell.with(say(port, "hello")+"; echo over"), python.write.with("over", "")))
	_ = c.stdin.Close()
	c.awaitEnd()
	c.write("go", "")
	c.awaitFile("over")
	later, _ := c.taken()
	check(t, "it ends", strings.HasSuffix(later.done(id).Stdout.Head, "over\n"), true)
	go later.serve(5)
	check(t, "what comes back from the later server", later.completed(python.shell.with(say(port, "hello"))).Stdout.Head, "hellohello")
}
