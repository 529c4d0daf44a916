//go:build linux

package conformance

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
)

// Twins of Python's kernel, and going back to them. Where a test says that a run has a twin behind it, it waits for that.

func startTwins(t *testing.T) *client {
	t.Parallel()
	return start(t, python, options{init: protocol.Init{Twins: 3, TwinBytes: 1 << 40}})
}

// twinned runs code, waits until there is a twin of what it has left, and returns the run's id.
func (c *client) twinned(code string) string {
	c.t.Helper()
	d := c.completed(code)
	c.awaitTwin(c.after(d))
	return d.Done.ID
}

// after is the place behind a message.
func (c *client) after(m *message) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Index(c.messages, m) + 1
}

func (c *client) awaitTwin(from int) {
	c.t.Helper()
	c.find(from, func(m *message) bool { return m.Type == "twins" && m.twins.Why == "" })
}

func (c *client) twins() protocol.Twins {
	all := c.all("twins", "")
	return all[len(all)-1].twins
}

func (c *client) restore(run string) protocol.Restored {
	c.t.Helper()
	from := c.now()
	c.send(request{Type: "restore", Language: c.language, ID: "restore", Languages: map[string]string{c.language: run}})
	return c.await("restored", from).restored
}

// twinPIDs are the processes of the twins that there are, the oldest first.
func (c *client) twinPIDs(kernel int) []int {
	pids := slices.DeleteFunc(offspring(c.pid()), func(pid int) bool {
		return pid == kernel || !strings.Contains(commandLine(pid), python.program+"\x00kernel")
	})
	slices.Sort(pids)
	return pids
}

func commandLine(pid int) string {
	text, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	return string(text)
}

func TestAKilledKernelIsReplacedByItsTwin(t *testing.T) {
	c := startTwins(t)
	behind := c.twinned("x = [1]; import random; random.seed(7); import os; folder = os.getcwd()")
	for _, code := range []string{
		python.die.with(9), "import os; os._exit(3)", "import ctypes; ctypes.string_at(0)", "x.append(2); " + python.die.with(15),
	} {
		d := c.run(lines("print('said')", code))
		c.awaitTwin(c.after(d))
		check(t, code, d.Status+" "+d.Kernel, "killed restored")
		check(t, "output", d.Stdout.Head, "said\n")
		check(t, "origin", d.Origin.From+" "+d.Origin.Run, "twin "+behind)
		same := c.completed("x, folder == os.getcwd()")
		check(t, "x", same.result(), "([1], True)")
		c.awaitTwin(c.after(same)) // else the next one's could be taken for it
		next := c.completed("pass")
		should.Equal(t, next.Origin, nil, "told once more: %v", next)
		c.awaitTwin(c.after(next))
		behind = next.Done.ID
	}
	id := c.begin(python.stubborn.with("running"), request{GraceMS: short})
	c.awaitFile("running")
	c.interrupt(id, "timed_out")
	check(t, "one that ignores interrupts", c.done(id).ended(), "timed_out 124 restored ignored_interrupt")
	check(t, "random goes on", c.value("random.random() == random.Random(7).random()"), "True")
}

func TestATwinIsThereForTheRunBehindAKernelThatDiedBetweenRuns(t *testing.T) {
	c := startTwins(t)
	behind := c.twinned("x = 1; import os")
	last := c.completed("os.getpid()")
	_ = syscall.Kill(number(last.result()), syscall.SIGKILL)
	c.await("kernel", 0)
	d := c.completed("x")
	check(t, "x", d.result()+" "+d.Kernel, "1 alive")
	if d.Origin.Run != last.Done.ID { // its twin may have been there first
		check(t, "origin", d.Origin.Run, behind)
	}
}

func TestRestore(t *testing.T) {
	c := startTwins(t)
	c.twinned("x = 0")
	var ids []string
	for i := 1; i <= 3; i++ {
		ids = append(ids, c.twinned("x = "+strconv.Itoa(i)))
	}
	ids = append(ids, c.twinned("x = 4; "+python.spawn.with("exec sleep 600")+"; print(p.pid, file=open('pid', 'w'), flush=True)"))
	check(t, "runs", c.twins().Runs, ids[2:]) // the third twin is behind the last
	program := number(strings.TrimSpace(c.read("pid")))
	from := c.now()
	r := c.restore(ids[2])
	check(t, "restored", r, protocol.Restored{Type: "restored", Language: "python", ID: "restore", Went: []string{"python"}})
	awaitDeath(t, program)
	c.checkNoCopy(ids[3])
	c.awaitTwin(from)
	check(t, "x", c.value("x"), "2")
	check(t, "once more", c.restore(ids[2]).Error, "")
}

const noCopy = "no copy of the variables from before this run is kept"

// checkNoCopy has a run refused that cannot be gone back to, whatever is said of the present variables.
func (c *client) checkNoCopy(run string) {
	c.t.Helper()
	why := c.restore(run).Error
	must.Hold(c.t, strings.HasPrefix(why, noCopy), "error: %q", why)
}

func TestWhatCannotBeGoneBackTo(t *testing.T) {
	c := startTwins(t)
	first := c.twinned("x = 1")
	check(t, "before all variables", c.restore(first).Error, "")
	check(t, "x", c.run("x").errorName(), "NameError")
	first = c.twinned("x = 1")
	check(t, "an unknown run", c.restore("nobody's").Error, noCopy)
	second := c.twinned("x = 2")
	id := c.begin(python.awaitFile.with("go on"))
	r := c.restore(second)
	check(t, "while a run goes on", r.Error, "a run goes on in this kernel")
	check(t, "what there is", r.Runs, []string{first, second})
	c.write("go on", "")
	c.done(id)
	check(t, "x", c.value("x"), "2")

	node := start(t, javascript, options{init: protocol.Init{Twins: 3}})
	d := node.run("1", request{Copy: true})
	check(t, "a copy in JavaScript", d.Status+" "+d.errorName(), "failed CopyError")
}

func TestWhatStandsAgainstATwin(t *testing.T) {
	c := startTwins(t)
	c.twinned("x = 1")
	for _, one := range []struct{ begin, end, why string }{
		{
			"import threading; e = threading.Event(); w = threading.Thread(target=e.wait, name='worker', daemon=True); w.start()",
			"e.set(); w.join()", "a thread of the code runs: worker",
		},
		{"import asyncio; task = asyncio.ensure_future(asyncio.Event().wait())", "task.cancel(); await asyncio.sleep(0)", "a task of the code is not done: wait()"},
		{"import socket; s = socket.socket()", "s.close()", "a socket is open"},
		{"import fcntl; f = open('f', 'w'); fcntl.flock(f, fcntl.LOCK_EX)", "f.close()", "a file is locked"},
		{
			"import os; fork = os.fork\ndef refuse(): raise BlockingIOError(11, 'no process')\nos.fork = refuse\n" + nativeThread,
			"os.fork = fork; end()", "the fork failed: BlockingIOError",
		},
		{nativeThread, "end()", "a copy would lack threads of libraries: "},
	} {
		from := c.now()
		c.completed(one.begin)
		c.find(from, func(m *message) bool { return m.Type == "twins" && strings.HasPrefix(m.twins.Why, one.why) })
		should.Contain(t, c.restore("nobody's").Error, one.why, "going back")
		should.Contain(t, c.restore(c.twinned(one.end)).Error, one.why, "going back before a run that began without one")
	}
}

// nativeThread starts a thread of C's that no library is known for, and defines end().
const nativeThread = `import ctypes
libc = ctypes.CDLL(None)
words = (ctypes.c_ulong * 3)()
libc.pthread_create(words, None, libc.pause, None)
def end():
    libc.pthread_cancel(ctypes.c_ulong(words[0])); libc.pthread_join(ctypes.c_ulong(words[0]), None)`

func TestWhatAForkSharesIsRenewedInATwin(t *testing.T) {
	c := startTwins(t)
	c.twinned("import asyncio; q = asyncio.Queue(); await asyncio.sleep(0); await asyncio.to_thread(abs, -1)")
	d := c.run(python.die.with(9))
	check(t, "end", d.Kernel, "restored")
	c.awaitTwin(c.after(d))
	check(t, "the queue", c.value("asyncio.get_running_loop().call_later(0.01, q.put_nowait, 7); await q.get()"), "7")
	check(t, "a pool", c.value("await asyncio.to_thread(abs, -1)"), "1")
}

func TestIdleThreadsOfExecutorsDoNotStandAgainstATwin(t *testing.T) {
	c := startTwins(t)
	c.twinned("from concurrent.futures import ThreadPoolExecutor; pool = ThreadPoolExecutor(3); sum(pool.map(abs, range(-9, 0)))")
	check(t, "in a copy", c.completed("sum(pool.map(abs, range(-9, 0)))", request{Copy: true}).result(), "45")
	check(t, "in the kernel", c.value("sum(pool.map(abs, range(-9, 0)))"), "45")
}

func TestATwinHasNothingOpenInTheKernel(t *testing.T) {
	c := startTwins(t)
	c.twinned(lines(
		"import fcntl, tempfile", "from subprocess import PIPE, Popen", "p = Popen(['cat'], stdin=PIPE, stdout=PIPE)",
		"f, g = open('f', 'w+'), tempfile.TemporaryFile('w+')", "f.write('one'); f.flush(); g.write('two'); g.flush(); g.seek(1)",
	))
	first := c.completed("p.communicate(b'hello')[0]")
	check(t, "a pipe", first.result(), "b'hello'")
	c.completed("fcntl.flock(f, fcntl.LOCK_EX); f.write('two'); f.close(); g.read()")
	d := c.completed("f = open('f', 'r+'); fcntl.flock(f, fcntl.LOCK_EX); f.read()")
	check(t, "a lock", d.result(), "'onetwo'")
	check(t, "restored", c.restore(first.Done.ID).Error, "")
	check(t, "files where they were", c.value("f.tell(), g.read()"), "(3, 'wo')")
	check(t, "the program", c.value("p.poll(), p.stdout.read()"), "(-9, b'')")
}

func TestCodeSeesNothingOfATwin(t *testing.T) {
	c := startTwins(t)
	c.completed("import os, signal; seen = []; signal.signal(signal.SIGCHLD, lambda *_: seen.append(1))")
	c.twinned("pass")
	c.twinned("try: os.wait()\nexcept ChildProcessError as e: seen.append(e.errno)")
	check(t, "seen", c.value("seen"), "[10]")
	_ = c.value("import subprocess; subprocess.run(['true']).returncode")
	check(t, "its own child", c.value("seen"), "[10, 1]")
}

func TestATwinThatCodeKillsIsReplaced(t *testing.T) {
	c := startTwins(t)
	c.twinned("x = 1; import os; open('pid', 'w').write(str(os.getpid()))")
	c.twinned("pass")
	for _, pid := range c.twinPIDs(number(c.read("pid"))) {
		c.completed("os.kill(" + strconv.Itoa(pid) + ", 9)")
		awaitDeath(t, pid)
	}
	c.twinned("pass") // the first message may be about the death
	c.twinned("x = 2")
	check(t, "end", c.run(python.die.with(9)).Kernel, "restored")
	check(t, "x", c.value("x"), "2")
}

func TestTwinsAreBounded(t *testing.T) {
	t.Parallel()
	for what, one := range map[string]struct {
		bytes int64
		want  int
	}{"by number": {1 << 40, 3}, "by memory": {1 << 10, 1}} {
		t.Run(what, func(t *testing.T) {
			c := start(t, python, options{init: protocol.Init{Twins: 3, TwinBytes: one.bytes}})
			for range 5 {
				c.twinned("open('pid', 'w').write(str(__import__('os').getpid()))")
			}
			kernel := number(c.read("pid"))
			must.Soon(t, "there are more or fewer twins", func() bool { return len(c.twinPIDs(kernel)) == one.want })
		})
	}
}

func TestCopies(t *testing.T) {
	c := startTwins(t)
	c.twinned("x = [1]; import os")
	one := c.begin("x.append(2); open('one', 'w').close()\n"+python.awaitFile.with("two")+"\nx", request{Copy: true})
	two := c.begin("x.append(3); open('two', 'w').close()\n"+python.awaitFile.with("one")+"\nx", request{Copy: true})
	d := c.done(one)
	check(t, "one", d.ended()+" "+d.result(), "completed 0 fresh [1, 2]")
	check(t, "it is kept", d.Copied, true)
	check(t, "two", c.done(two).result(), "[1, 3]")
	check(t, "the original", c.value("x"), "[1]")
	check(t, "a killed one", c.run(python.die.with(9), request{Copy: true}).ended(), "killed 137 fresh signal 9")
	r := c.restore(two)
	check(t, "restored", r.Error, "")
	check(t, "x", c.value("x"), "[1, 3]")
	check(t, "the other way", c.restore(one).Error, "")
	check(t, "x", c.value("x"), "[1, 2]")
	c.checkNoCopy(one)
}

func TestManyCopiesAtOnce(t *testing.T) {
	c := startTwins(t)
	c.twinned("x = 0; import os, time")
	for round := range 4 {
		var ids []string
		for i := range 12 {
			code := "time.sleep(" + strconv.Itoa(i%3) + " / 50); x = " + strconv.Itoa(i) + "; x"
			ids = append(ids, c.begin(code, request{Copy: true}))
		}
		for i, id := range ids {
			d := c.done(id)
			check(t, "a copy in round "+strconv.Itoa(round), d.ended()+" "+d.result(), "completed 0 fresh "+strconv.Itoa(i))
		}
	}
	check(t, "the twin is still there", c.run(python.die.with(9)).Kernel, "restored")
	check(t, "the original", c.value("x"), "0")
	c.twinned("x = 1")
}

func TestACopyBesideARun(t *testing.T) {
	t.Parallel()
	c := start(t, python, options{init: protocol.Init{Twins: 6, TwinBytes: 1 << 40}})
	before := c.twinned("x = [1]")
	id := c.begin("x.append(2)\n" + python.awaitFile.with("go on"))
	first := c.completed("x.append(3); x", request{Copy: true})
	check(t, "x in a copy", first.result(), "[1, 3]")
	check(t, "where from", first.Origin.From+" "+first.Origin.Run, "twin "+before)
	check(t, "x in another", c.completed("x", request{Copy: true}).result(), "[1]")
	c.write("go on", "")
	c.done(id)
	check(t, "the original", c.value("x"), "[1, 2]")
	check(t, "restored", c.restore(first.Done.ID).Error, "")
	check(t, "x", c.value("x"), "[1, 3]")
}

// What a copy waits for is ended: its twin, before it could fork.
func TestACopyWhoseTwinEnds(t *testing.T) {
	c := startTwins(t)
	c.twinned("x = [1]; import os; open('pid', 'w').write(str(os.getpid()))")
	twins := c.twinPIDs(number(c.read("pid")))
	id := c.begin("x.append(2)\n" + python.awaitFile.with("go on"))
	for _, signal := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL} {
		for _, pid := range twins {
			_ = syscall.Kill(pid, signal)
		}
		if signal == syscall.SIGSTOP {
			c.begin("x", request{Copy: true})
			c.run("1", request{Fresh: true}) // behind it
		}
	}
	c.write("go on", "")
	c.done(id)
	check(t, "the original", c.value("x"), "[1, 2]")
}

// Without a twin from before the run there is nothing else to copy.
func TestACopyWaitsForTheFirstRun(t *testing.T) {
	c := startTwins(t)
	id := c.begin("x = 2\n" + python.awaitFile.with("go on"))
	copied := c.begin("x", request{Copy: true})
	late := c.begin("x", request{Copy: true, TimeoutMS: short})
	check(t, "one that waits too long", c.done(late).Status+" "+c.done(late).errorName(), "timed_out CopyError")
	check(t, "it is kept", c.done(late).Copied, false)
	c.write("go on", "")
	c.done(id)
	check(t, "x", c.done(copied).result(), "2")
}

func TestACopyOfWhatIsFrozen(t *testing.T) {
	t.Parallel()
	o := options{dir: t.TempDir(), init: protocol.Init{FreezeBytes: 1 << 20, FreezeSeconds: 60}}
	c := start(t, python, o)
	c.completed("x = 1")
	c.send(request{Type: "stop"})
	c.awaitExit()
	c = start(t, python, o)
	original := slices.Min(offspring(c.pid()))
	check(t, "x in a copy", c.completed("x += 1; x", request{Copy: true}).result(), "2")
	_ = syscall.Kill(original, syscall.SIGKILL)
	c.await("kernel", 0)
	check(t, "x in another one's copy", c.completed("x += 1; x", request{Copy: true}).result(), "2")
	check(t, "x", c.value("x"), "1")
}

func TestATwinThatKeepsAFileOpenDoesNotFillTheWorkDirectory(t *testing.T) {
	t.Parallel()
	c := start(t, python, options{init: protocol.Init{Twins: 3, VolumeBytes: 5 << 20}})
	c.twinned("import os; f = open('big', 'w+b', 0); os.unlink('big'); f.write(bytes(4 << 20))")
	c.completed("f.close()")
	for range 4 { // each with a twin
		c.twinned(python.fill.with("big", 3))
	}
}

func TestATwinThatHasRunNothingYetIsFrozen(t *testing.T) {
	t.Parallel()
	o := options{dir: t.TempDir(), init: protocol.Init{Twins: 3, TwinBytes: 1 << 40, FreezeBytes: 1 << 20, FreezeSeconds: 60}}
	c := start(t, python, o)
	c.twinned("x = 1")
	check(t, "end", c.run("x = 2; "+python.die.with(9)).Kernel, "restored")
	c.send(request{Type: "stop"})
	c.awaitExit()
	c = start(t, python, o)
	d := c.completed("x")
	check(t, "x", d.result()+" "+d.Origin.From, "1 frozen")
}
