//go:build linux

package conformance

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
)

// Variables that are kept in a file.

// keeping starts a supervisor that keeps variables; in a folder of an earlier one, or in a new one.
func keeping(t *testing.T, l *language, dir string, more ...protocol.Init) *client {
	t.Helper()
	o := options{dir: dir}
	if len(more) > 0 {
		o.init = more[0]
	}
	o.init.FreezeBytes, o.init.OnEOF = 64*mebibyte, "wait"
	if o.init.FreezeSeconds == 0 {
		o.init.FreezeSeconds = 60 * slowness
	}
	o.noInit = true
	c := start(t, l, o)
	c.send(c.init(o.init)) // and a first run right behind it: one that is idle at once may end before it is ready
	return c
}

func frozenFile(l *language) string { return ".state/" + l.name + ".frozen" }

func (c *client) stop() {
	c.t.Helper()
	c.send(request{Type: "stop"})
	c.awaitExit()
}

// freeze has the variables written, and returns the answer.
func (c *connection) freeze(id string) protocol.Frozen {
	c.t.Helper()
	c.send(request{Type: "freeze", Language: c.language, ID: id})
	m := c.find(0, func(m *message) bool { return m.Type == "frozen" && m.ID == id })
	must.Hold(c.t, m != nil, "the connection ended before an answer to freeze")
	return m.frozen
}

// woken runs code that shows a variable, first of all, and returns where that came from.
func (c *client) woken(code, want string) protocol.Origin {
	c.t.Helper()
	d := c.completed(code)
	check(c.t, "x", d.result(), want)
	must.Hold(c.t, d.Origin != nil && d.Origin.From == "frozen", "it does not say where the variables came from: %s", d)
	return *d.Origin
}

func TestVariablesOutliveTheContainer(t *testing.T) {
	for name, end := range map[string]func(*client){
		"stop":    func(c *client) { c.send(request{Type: "stop"}) },
		"SIGTERM": func(c *client) { _ = c.cmd.Process.Signal(syscall.SIGTERM) },
		"idle":    func(*client) {},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, l *language) {
				init := protocol.Init{}
				if name == "idle" {
					init.IdleSeconds = 1
				}
				c := keeping(t, l, "", init)
				c.completed(l.set.with(41))
				end(c)
				c.awaitExit()
				info := must.Get(os.Stat(c.path(".state")))(t)
				check(t, "the folder is", info.Mode().Perm(), os.FileMode(0o700))

				c = keeping(t, l, c.dir)
				fresh := c.completed(string(l.has), request{Fresh: true})
				check(t, "a fresh run has it", fresh.result(), "0")
				check(t, "a fresh run tells", fresh.Origin == nil, true)
				origin := c.woken(string(l.get), "41")
				should.Hold(t, origin.Variables >= 1 && origin.AtMS != 0 && origin.Error == "", "origin: %+v", origin)
				check(t, "it is told again", c.completed("1").Origin == nil, true)
			})
		})
	}
}

func TestARunIsStoppedBeforeTheVariablesAreWritten(t *testing.T) {
	each(t, func(t *testing.T, l *language) {
		c := keeping(t, l, "")
		c.completed(l.set.with(1))
		id := c.begin(lines(l.set.with(2), l.write.with("begun", ""), string(l.spin)))
		c.awaitFile("begun")
		c.send(request{Type: "stop"})
		check(t, "the run", c.done(id).ended(), "cancelled 130 alive")
		c.awaitExit()

		c = keeping(t, l, c.dir)
		c.woken(string(l.get), "2")
		c.completed(l.set.with(3))
		c.begin(l.stubborn.with("stubborn"))
		c.awaitFile("stubborn")
		c.stop() // a kernel that has to be killed writes nothing

		c = keeping(t, l, c.dir)
		c.woken(string(l.get), "2")
	})
}

func TestAKernelThatNothingRanInLeavesTheFile(t *testing.T) {
	t.Parallel()
	c := keeping(t, python, "")
	c.completed(python.set.with(1))
	c.stop()
	c = keeping(t, python, c.dir)
	c.completed("2", request{Fresh: true})
	c.stop()
	c = keeping(t, python, c.dir)
	c.woken(string(python.get), "1")
}

func TestFreeze(t *testing.T) {
	each(t, func(t *testing.T, l *language) {
		c := keeping(t, l, "")
		check(t, "before any run", c.freeze("a").Error, "no code has run")
		c.completed(l.set.with(1))
		answer := c.freeze("b")
		must.Hold(t, answer.Error == "" && answer.Variables >= 1 && answer.Bytes != 0 && answer.Lost != nil, "frozen: %+v", answer)
		check(t, "it goes on", c.value(string(l.get)), "1")
		id := c.begin(lines(l.set.with(2), l.awaitFile.with("go")))
		check(t, "while a run goes on", c.freeze("c").Error, "a run goes on")
		c.write("go", "")
		c.done(id)

		check(t, "the kernel", c.run(l.die.with(9)).Kernel, "dead")
		c.woken(string(l.get), "1")
	})
}

func TestWhereNothingIsKept(t *testing.T) {
	t.Parallel()
	c := start(t, python, options{init: protocol.Init{OnEOF: "wait"}})
	c.completed(python.set.with(1))
	check(t, "an answer", c.freeze("a").Error, "variables are not kept")
	c.stop()
	check(t, "a file", c.exists(".state"), false)

	c = start(t, python, options{init: protocol.Init{FreezeBytes: mebibyte, FreezeSeconds: 20}})
	c.completed(python.set.with(1))
	_ = c.stdin.Close()
	c.awaitExit()
	check(t, "a file at the end of the connection", c.exists(".state"), false)
}

func TestAFolderOfTheFileThatIsNone(t *testing.T) {
	t.Parallel()
	c := keeping(t, python, "")
	c.completed(python.shell.with("mkdir elsewhere; ln -s elsewhere .state"))
	why := c.freeze("a").Error
	should.Hold(t, strings.HasPrefix(why, "the folder of the session's state cannot be used"), "error: %q", why)
	c.write("elsewhere/"+python.name+".frozen", "not to be read")
	check(t, "the kernel", c.run(python.die.with(9)).Kernel, "dead")
	check(t, "it is read", c.completed("1").Origin == nil, true)
}

func TestAFileThatCannotBeRead(t *testing.T) {
	each(t, func(t *testing.T, l *language) {
		c := keeping(t, l, "")
		c.completed(l.set.with(1))
		c.stop()
		c.write(frozenFile(l), strings.Repeat("no variables", 1000))
		c = keeping(t, l, c.dir)
		copied := c.begin("1", request{Copy: true})
		why := c.woken("1", "1").Error
		should.Hold(t, strings.HasPrefix(why, "the frozen variables could not be read: "), "error: %q", why)
		check(t, "a copy", c.done(copied).errorName(), "CopyError")
		check(t, "it is set aside", c.exists(frozenFile(l)+".bad"), true)
		check(t, "it is told again", c.completed("1").Origin == nil, true)
	})
}

func TestNoRoomForTheFile(t *testing.T) {
	each(t, func(t *testing.T, l *language) {
		c := keeping(t, l, "", protocol.Init{VolumeBytes: limit * mebibyte})
		c.completed(l.set.with(1))
		check(t, "at first", c.freeze("a").Error, "")
		before := c.read(frozenFile(l))
		c.completed(lines(l.set.with(2), l.fill.with("f", limit-1)))
		c.completed(code{python: "import random; y = random.randbytes(2 << 20)", javascript: `y = require("crypto").randomBytes(2 << 20); 1`}[l])
		answer := c.freeze("b")
		should.Hold(t, answer.Error != "" || answer.LostTotal != 0, "frozen: %+v", answer)
		if answer.Error != "" {
			check(t, "the file is as before", c.read(frozenFile(l)) == before, true)
		}
		check(t, "the kernel", c.value(string(l.get)), "2")
	})
}

// object is an expression of an object of Python whose class does something as it is written, and something as it is read.
func object(written, read string) string {
	return fmt.Sprintf(`
class Kept:
    def __reduce__(self):
        exec(%s, {})
        return exec, (%s, {})
kept = Kept()`, quote(written), quote(read))
}

func TestAKernelThatDiesAsItWrites(t *testing.T) {
	t.Parallel()
	c := keeping(t, python, "")
	c.completed(python.set.with(1))
	c.freeze("a")
	c.completed(python.set.with(2))
	pid := number(c.value(string(python.pid)))
	c.completed(object("import time; open('begun', 'w').close(); time.sleep(600)", ""))
	c.send(request{Type: "freeze", Language: c.language, ID: "b"})
	c.awaitFile("begun")
	check(t, "going back", c.restore("any").Error, "the variables are being written")
	_ = syscall.Kill(pid, syscall.SIGKILL)
	why := c.freeze("b").Error
	should.Hold(t, strings.HasPrefix(why, "the kernel ended: "), "error: %q", why)
	c.woken("x", "1")
}

func TestARunThatComesAsAnIdleKernelWrites(t *testing.T) {
	t.Parallel()
	c := keeping(t, python, "", protocol.Init{IdleSeconds: 1})
	c.completed(python.set.with(1) + object("import os, time; open('begun', 'w').close()\nwhile not os.path.exists('go'): time.sleep(0.01)", ""))
	c.awaitFile("begun")
	id := c.begin("x + 1")
	c.ping()
	c.write("go", "")
	check(t, "the run", c.done(id).result(), "2")
	c.awaitExit()
}

func TestVariablesThatEndTheKernelAsTheyAreRead(t *testing.T) {
	for name, read := range map[string]string{
		"death": "import os; os._exit(1)",
		"time":  "import time\nwhile True:\n    try: time.sleep(60)\n    except BaseException: pass",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := keeping(t, python, "")
			c.completed(lines(python.set.with(1), object("", read)))
			c.stop()
			c = keeping(t, python, c.dir, protocol.Init{FreezeSeconds: 1})
			copied := c.begin("x", request{Copy: true})
			d := c.completed("'x' in globals()", request{TimeoutMS: patience.Milliseconds()})
			check(t, "a copy", c.done(copied).errorName(), "CopyError")
			check(t, "x", d.result(), "False")
			should.Hold(t, d.Origin != nil && strings.HasPrefix(d.Origin.Error, "the frozen variables could not be read: "),
				"answer: %s", d)
			check(t, "it is set aside", c.exists(frozenFile(python)+".bad"), true)
		})
	}
}

func TestTheTimeOfARunBeginsWithItsVariables(t *testing.T) {
	t.Parallel()
	c := keeping(t, python, "")
	c.completed(lines(python.set.with(1), object("", "import time; time.sleep(1.5)")))
	c.stop()
	c = keeping(t, python, c.dir)
	copied := c.begin("x", request{Copy: true})
	check(t, "x", c.completed("x", request{TimeoutMS: 1000 * int64(slowness)}).result(), "1")
	check(t, "x in a copy", c.done(copied).result(), "1")
}

func TestATwinIsWrittenWhereTheKernelHasToBeKilled(t *testing.T) {
	t.Parallel()
	c := keeping(t, python, "", protocol.Init{Twins: 2, TwinBytes: 1 << 30})
	c.twinned(python.set.with(1))
	c.begin(python.stubborn.with("stubborn"))
	c.awaitFile("stubborn")
	c.stop()
	c = keeping(t, python, c.dir)
	c.woken("x", "1")
}

func TestAForgedAnswerToFreezeIsBounded(t *testing.T) {
	t.Parallel()
	c := keeping(t, python, "")
	c.completed(python.forge)
	c.completed(object(`import __main__, json
lost = [{"name": "n" * 10000, "why": "w" * 10000}] * 80
__main__.send(json.dumps({"type": "frozen", "variables": -5, "bytes": -5, "lost": lost, "lost_total": 1, "why": "y" * 10000}))
__main__.send(json.dumps({"type": "woken", "variables": 7}))`, ""))
	answer := c.freeze("a")
	check(t, "lost", fmt.Sprint(len(answer.Lost), answer.LostTotal, answer.Variables, answer.Bytes), "50 80 0 0")
	check(t, "texts", fmt.Sprint(len(answer.Lost[0].Name), len(answer.Lost[0].Why), len(answer.Error)), "200 200 200")
	check(t, "a kernel that was not asked has woken", c.completed("1").Origin == nil, true)
}
