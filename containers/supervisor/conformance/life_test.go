//go:build linux

package conformance

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
)

// Life, frames, and what init asks for.

func TestReady(t *testing.T) {
	each(t, func(t *testing.T, l *language) {
		c := start(t, l, options{})
		check(t, "ready", fmt.Sprint(c.ready.Protocol, c.ready.Language, c.ready.Run, c.ready.Runs, c.ready.Over), fmt.Sprint(protocol.Version, l.name, "", []string{}, []string{}))
		should.Hold(t, regexp.MustCompile(`^\d+\.\d+\.\d+$`).MatchString(c.ready.Version) && c.ready.Features != nil,
			"ready: %s", c.ready)
		check(t, "the code's version", c.value(string(l.version)), "'"+c.ready.Version+"'")
	})
}

func TestARunRightBehindInit(t *testing.T) {
	each(t, func(t *testing.T, l *language) {
		c := start(t, l, options{noInit: true})
		c.send(fields{"type": "init", "work_dir": c.dir, "env": nil, "preload": nil}) // all else has a default
		check(t, "result", c.value("6 * 7"), "42")
		c.send(c.init(protocol.Init{WorkDir: "/nowhere"})) // another is ignored
		check(t, "ready frames", len(c.all("ready", "")), 1)
		check(t, "result", c.value("6 * 7"), "42")
	})
}

func TestInitThatIsNoGood(t *testing.T) {
	c := start(t, python, options{noInit: true})
	c.send(fields{"type": "init", "output_bytes": "many"})
	c.awaitExit()
	check(t, "messages before the end", len(c.messages), 0)
}

func TestLimitsAreBounded(t *testing.T) {
	t.Parallel()
	c := start(t, python, options{init: protocol.Init{OutputBytes: -5, MaxDisplays: -1, SpoolBytes: -7}})
	d := c.completed(lines(python.print.with(strings.Repeat("y", 5000)), python.display.with("<p>")))
	check(t, "output", len(d.Stdout.Head)+len(d.Stdout.Tail), 256)
	check(t, "displays", len(c.all("display", "")), 1)
}

func TestAnInterpreterThatIsMissing(t *testing.T) {
	each(t, func(t *testing.T, l *language) {
		c := start(t, l, options{noInit: true, env: []string{"PATH=/nowhere"}})
		c.send(c.init(protocol.Init{}))
		for _, fresh := range []bool{false, true} {
			d := c.run("1", request{Fresh: fresh})
			check(t, "error", d.errorName(), "NoInterpreter")
			should.Contain(t, d.Error.Message, l.interpreter, "what is missing is not named: %s", d)
		}
	})
}

func TestKernelsThatCannotBegin(t *testing.T) {
	each(t, func(t *testing.T, l *language) {
		bin := t.TempDir()
		script := fmt.Sprintf("#!/bin/sh\necho x >> %s/started\nexit 3\n", bin)
		must.OK(t, os.WriteFile(bin+"/"+l.interpreter, []byte(script), 0o755))
		c := start(t, l, options{noInit: true, env: []string{"PATH=" + bin + ":/usr/bin:/bin"}})
		c.send(c.init(protocol.Init{}))
		for _, fresh := range []bool{false, true} {
			d := c.run("1", request{Fresh: fresh})
			check(t, "end", d.ended(), map[bool]string{false: "killed 137 dead exit 3", true: "killed 137 fresh exit 3"}[fresh])
		}
		started, _ := os.ReadFile(bin + "/started")
		should.Hold(t, len(started) <= 2*10, "%d were started", len(started)/2)
	})
}

func TestPing(t *testing.T) {
	t.Parallel()
	c := start(t, python, options{})
	id := c.begin(string(python.spin))
	c.send(request{Type: "ping", N: 17})
	check(t, "pong", c.await("pong", 0).N, 17)
	c.interrupt(id, "cancelled")
	c.done(id)
}

func TestWhatIsIgnored(t *testing.T) {
	t.Parallel()
	c := start(t, python, options{})
	c.completed(python.set.with(1), request{ID: "first"})
	for _, f := range []fields{
		{"type": "grease", "x": []int{1}}, {"no": "type"}, {"type": []string{"run"}}, {"type": "peek", "id": "never"},
		{"type": "interrupt", "id": "first", "reason": "cancelled"}, {"type": "interrupt", "id": "never"}, {"type": "interrupt"},
		{"type": "run", "language": python.name, "id": 1, "code": "1"}, {"type": "run", "language": python.name, "id": nil, "code": "1"},
		{"type": "run", "language": python.name, "id": "bad", "code": []string{"1"}}, {"type": "run", "language": python.name, "code": "1"},
		{"type": "start", "language": "cobol"}, {"type": "freeze", "id": "a"}, {"type": "restore", "language": 1},
	} {
		c.send(f)
	}
	from := c.now()
	for _, text := range []string{"", "{", "[]", "\xff\xfe", "null", strings.Repeat("[", 100_000), `{"type":` + strings.Repeat("9", 10_000) + "}"} {
		c.sendBody([]byte(text))
	}
	c.send(fields{"type": "run", "language": python.name, "id": "last", "code": string(python.get), "unknown": fields{"deep": []int{}}})
	check(t, "x", c.done("last").result(), "1")
	c.await("log", from)
	check(t, "answers", len(c.all("done", "")), 2)
	check(t, "peeks", len(c.all("peek", "")), 0)
}

func TestARunBeforeInitIsIgnored(t *testing.T) {
	c := start(t, python, options{noInit: true})
	c.begin("1")
	c.send(c.init(protocol.Init{}))
	c.completed("1")
	check(t, "answers", len(c.all("done", "")), 1)
}

func TestFramesInPieces(t *testing.T) {
	c := start(t, javascript, options{})
	for _, b := range frame('c', `{"type": "run", "language": "javascript", "id": "pieces", "code": "'ü' + 1"}`) {
		c.sendRaw([]byte{b})
	}
	check(t, "result", c.done("pieces").result(), "'ü1'")
}

func TestABrokenStreamEndsTheSupervisor(t *testing.T) {
	for name, data := range map[string][]byte{
		"too long": {0, 0x20, 0, 0, 'c'}, "no kind": frame('x', "{}"), "a stream's frame that is too long": {0, 0x20, 0, 0, 's'},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := start(t, python, options{})
			c.sendRaw(data)
			c.awaitExit()
		})
	}
}

func TestCodeOfNearlyAFrame(t *testing.T) {
	each(t, func(t *testing.T, l *language) {
		c := start(t, l, options{})
		for _, fresh := range []bool{false, true} {
			d := c.completed(code{python: "len(", javascript: "("}[l]+quote(strings.Repeat("a", 1_000_000))+code{python: ")", javascript: ").length"}[l], request{Fresh: fresh})
			check(t, "result", d.result(), "1000000")
		}
	})
}

func TestARunWhileAnotherGoesOn(t *testing.T) {
	t.Parallel()
	c := start(t, python, options{})
	first := c.begin(lines(python.awaitFile.with("go"), "1"))
	d := c.run("2")
	check(t, "the second", d.ended()+" "+d.errorName(), "failed 1 alive SessionBusy")
	c.write("go", "")
	check(t, "the first", c.done(first).result(), "1")
}

func TestDoneHasEveryField(t *testing.T) {
	t.Parallel()
	c := start(t, python, options{})
	d := c.completed(python.print.with("a"))
	var all map[string]any
	must.OK(t, json.Unmarshal(d.raw, &all))
	var names []string
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	check(t, "fields", strings.Join(names, " "), "artifacts artifacts_total background cause displays_total duration_ms error exit_code goes_on id "+
		"kernel result status stderr stdout type")
	check(t, "end", d.ended(), "completed 0 alive")
	should.Hold(t, d.Error == nil && d.Artifacts != nil && d.Background != nil && d.GoesOn != nil, "done: %s", d)
}

// A container that was made ahead is bound to a session once, and has nothing of one before.
func TestBind(t *testing.T) {
	each(t, func(t *testing.T, l *language) {
		const own = "of-the-session-alone"
		c := waiting(t, l, protocol.Init{Spare: true, Warm: []string{l.name}, IdleSeconds: 3600})
		c.begin("1", request{ID: "early"})
		later, ready := c.taken()
		check(t, "ready", fmt.Sprint(ready.Run, ready.Runs, ready.Over), "[] []")
		for _, value := range []string{"s3cret", "of-another"} {
			bind := c.init(protocol.Init{Env: map[string]string{"MINE": value}, Token: own, OnEOF: "wait", WorkDir: "/nowhere"})
			bind.Type = "bind"
			later.send(bind)
		}
		for _, fresh := range []bool{false, true} {
			check(t, "MINE", later.completed(l.environment.with("MINE"), request{Fresh: fresh}).result(), "'s3cret'")
		}
		later.completed(l.write.with("here", ""))
		c.awaitFile("here")
		check(t, "answers to what came too early", len(later.all("done", "early")), 0)
		last := c.later()
		last.send(protocol.Attach{Type: "attach", Protocol: protocol.Version, Token: own})
		last.greeted()
		refused := c.later()
		refused.send(protocol.Attach{Type: "attach", Protocol: protocol.Version, Token: token})
		refused.awaitEnd()
	})
}

// The end ------------------------------------------------------------------------------

func TestEnds(t *testing.T) {
	for name, end := range map[string]func(*client){
		"stop":             func(c *client) { c.send(request{Type: "stop"}) },
		"the end of stdin": func(c *client) { _ = c.stdin.Close() },
		"SIGTERM":          func(c *client) { _ = c.cmd.Process.Signal(syscall.SIGTERM) },
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, l *language) {
				c := start(t, l, options{init: protocol.Init{Warm: []string{l.name}}})
				c.completed(l.spawn.with("sleep 600"))
				pids := []int{number(c.value("p.pid")), number(c.value(string(l.pid)))}
				c.begin(string(l.spin))
				c.ping()
				end(c)
				c.awaitExit()
				for _, pid := range pids {
					awaitDeath(t, pid)
				}
			})
		})
	}
}

func TestIdle(t *testing.T) {
	t.Parallel()
	c := start(t, python, options{noInit: true})
	c.send(c.init(protocol.Init{IdleSeconds: 1}))
	check(t, "a run keeps it", c.value(lines(python.sleep.with(2500), "1")), "1")
	c.awaitExit()
}

func TestItOutlivesItsServerUntilItIsIdle(t *testing.T) {
	t.Parallel()
	c := start(t, python, options{noInit: true})
	c.send(c.init(protocol.Init{OnEOF: "wait", IdleSeconds: 1}))
	c.begin(lines(python.write.with("begun", ""), python.sleep.with(1500), python.write.with("wrote", "")))
	c.awaitFile("begun")
	_ = c.stdin.Close()
	c.awaitExit()
	check(t, "the run has ended", c.exists("wrote"), true)
}

// The work directory -------------------------------------------------------------------

func TestAWorkDirectoryThatIsMissingIsMade(t *testing.T) {
	t.Parallel()
	c := start(t, python, options{noInit: true})
	c.send(c.init(protocol.Init{WorkDir: c.path("a/b")}))
	c.completed(python.write.with("here", ""))
	for _, name := range []string{"here", "input", "output"} {
		check(t, name, c.exists("a/b/"+name), true)
	}
}

func TestAWorkDirectoryThatCannotBe(t *testing.T) {
	t.Parallel()
	c := start(t, python, options{init: protocol.Init{WorkDir: "/dev/null/x"}})
	check(t, "result", c.value("2"), "2")
	check(t, "log", c.await("log", 0).Level, "error")

	limited := start(t, python, options{init: protocol.Init{WorkDir: "/dev/null/x", VolumeBytes: 1000}})
	d := limited.run(python.print.with("ran"))
	check(t, "with a limit", d.ended()+" "+d.errorName()+d.Stdout.Head, "failed 1 alive WorkDirectoryError")
}

func TestAServerThatDoesNotRead(t *testing.T) {
	t.Parallel()
	c := start(t, python, options{})
	c.completed("1")
	before := statusOf(t, c.pid(), "VmRSS")
	c.pause(true)
	for range 100_000 {
		c.send(request{Type: "ping", N: 1})
	}
	id := c.begin("1")
	c.pause(false)
	c.done(id)
	grown := statusOf(t, c.pid(), "VmHWM") - before
	should.Hold(t, grown <= 32<<10, "it grew by %d KiB", grown)
}
