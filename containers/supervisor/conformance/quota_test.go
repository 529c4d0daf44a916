//go:build linux

package conformance

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
)

// The limit of the files.

const (
	mebibyte  = 1 << 20
	limit     = 8 // MiB
	mostFiles = 300
)

// limited starts a supervisor whose work directory has a limit, and a kernel with a variable.
func limited(t *testing.T, l *language, o options) *client {
	t.Helper()
	if o.init.VolumeBytes == 0 && o.init.VolumeFiles == 0 {
		o.init.VolumeBytes, o.init.VolumeFiles = limit*mebibyte, mostFiles
	}
	c := start(t, l, o)
	c.completed(l.set.with(1))
	return c
}

// exceeds runs code that goes over the limit.
func (c *client) exceeds(code, kernel string, more ...request) *message {
	c.t.Helper()
	d := c.run(code, more...)
	if d.ended() != "failed 1 "+kernel+" quota" || d.errorName() != "QuotaExceeded" || d.Error.Traceback != "" || d.Result != nil {
		c.t.Fatalf("%s\nended with %s", code, d)
	}
	return d
}

// logged waits until the supervisor has warned of something.
func (c *client) logged(text string) {
	c.t.Helper()
	if c.find(0, func(m *message) bool {
		return m.Type == "log" && m.Level == "warn" && strings.Contains(m.Message, text)
	}) == nil {
		c.t.Fatal("the connection ended")
	}
}

const forEver = "; sleep 600"

// fills are ways over the limit, for a shell.
var fills = map[string]string{
	"a file that grows":       "while :; do head -c 65536 /dev/zero >> f; done",
	"a file at once":          "head -c 16M /dev/zero > f" + forEver,
	"sparse files":            "for i in 1 2 3; do truncate -s 1T f$i; done" + forEver,
	"sparse files at the end": "for i in 1 2 3; do truncate -s 4M f$i; done",
	"many files":              "for i in $(seq 400); do : > f$i; done" + forEver,
	"folders and links":       "for i in $(seq 200); do mkdir d$i; ln -s x l$i; done" + forEver,
	"hidden files":            "mkdir -p .h/node_modules; head -c 16M /dev/zero > .h/node_modules/f" + forEver,
	"names that are no text":  `head -c 16M /dev/zero > "$(printf '\377\376')"` + forEver,
	"deep files":              "for i in $(seq 150); do mkdir d; cd d; done; head -c 16M /dev/zero > f" + forEver,
	"a file without a name":   "exec 3> f; rm f; head -c 16M /dev/zero >&3" + forEver,
	"a file that is only mapped": inPython(`
import mmap, os, time
file = open("f", "w+b"); file.truncate(16 << 20)
kept = mmap.mmap(file.fileno(), 0)
file.close(); os.unlink("f")
for fd in map(int, os.listdir("/proc/self/fd")):  # a mapping keeps one of its own
    if os.path.islink("/proc/self/fd/%d" % fd) and "deleted" in os.readlink("/proc/self/fd/%d" % fd): os.close(fd)
time.sleep(600)`),
	"a program whose main thread has ended": inPython(`
import ctypes, os, platform, threading, time
def fill():
    with open("f", "wb") as f:
        os.remove("f")
        for _ in range(16): f.write(bytes(1 << 20)); f.flush(); time.sleep(.01)
        time.sleep(600)
threading.Thread(target=fill).start()
ctypes.CDLL(None).syscall(60 if platform.machine() == "x86_64" else 93, 0)`),
}

func inPython(code string) string { return "exec python3 -c '" + strings.TrimSpace(code) + "'" }

func TestARunThatGoesOverTheLimit(t *testing.T) {
	for name, fill := range fills {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := limited(t, python, options{})
			d := c.exceeds(python.shell.with(fill), "alive")
			should.Hold(t, strings.HasPrefix(d.Error.Message, "the work directory holds "), "message: %s", d.Error.Message)
			check(t, "x", c.value(string(python.get)), "1")
			// It may delete, and then all is as before.
			c.completed(lines(python.shell.with("sleep 0.3; rm -rf * .h; sleep 0.3"), python.sleep.with(1)))
			c.completed(python.fill.with("fits", limit-2))
			check(t, "x", c.value(string(python.get)), "1")
		})
	}
}

func TestCodeThatGoesOverTheLimitItself(t *testing.T) {
	each(t, func(t *testing.T, l *language) {
		c := limited(t, l, options{})
		for _, code := range []string{l.fill.with("f", 16), l.sparse.with("f", 16), l.many.with("f", 400)} {
			c.exceeds(lines(code, l.sleep.with(600_000)), "alive")
			c.completed(l.shell.with("rm -f f*"))
			c.exceeds(code, "alive") // as it ends
			c.completed(l.shell.with("rm -f f*"))
		}
		c.exceeds(lines(l.fill.with("f", 16), string(l.spin)), "fresh", request{Fresh: true})
		check(t, "x", c.value(string(l.get)), "1")
		id := c.begin(lines(l.spawn.with("while [ ! -e stubborn ]; do sleep 0.01; done; exec head -c 16M /dev/zero > more"), l.stubborn.with("stubborn")), request{GraceMS: short})
		check(t, "what is not interrupted", c.done(id).ended(), "failed 1 dead quota")
	})
}

func TestTheFirstRunGoesOverTheLimit(t *testing.T) {
	t.Parallel()
	c := start(t, python, options{init: protocol.Init{VolumeBytes: limit * mebibyte}})
	c.exceeds(lines(python.sparse.with("f", 16), python.sleep.with(600_000)), "alive")
}

func TestACancelThatComesBeforeTheLimitStands(t *testing.T) {
	t.Parallel()
	c := limited(t, python, options{})
	id := c.begin(python.shell.with("trap 'head -c 16M /dev/zero > f; sleep 0.5; exit' INT; : > running; while :; do sleep 0.1; done"))
	c.awaitFile("running")
	c.interrupt(id, "cancelled")
	check(t, "status", c.done(id).Status, "cancelled")
}

func TestWhatStaysBelowTheLimitIsLeftAlone(t *testing.T) {
	t.Parallel()
	c := limited(t, python, options{})
	c.completed(python.shell.with("for i in $(seq 20); do head -c 6M /dev/zero > same; sleep 0.05; done"))
	c.completed(python.shell.with("for i in $(seq 200); do ln same link$i; done; sleep 0.5")) // one file
	c.completed(python.shell.with("rm link*; exec 3> gone; rm gone; head -c 1M /dev/zero >&3; sleep 1"))
}

func TestARunThatBeginsOverTheLimit(t *testing.T) {
	t.Parallel()
	c := limited(t, python, options{})
	c.exceeds(lines(python.fill.with("big", 16), python.sleep.with(600_000)), "alive")
	c.completed(python.shell.with("echo note > note; sleep 0.5")) // may add a little
	c.completed(python.shell.with("truncate -s 9M big; sleep 0.5"))
	c.exceeds(lines(python.sleep.with(300), python.fill.with("more", 3), python.sleep.with(600_000)), "alive")
	c.exceeds(lines(python.sleep.with(300), python.many.with("f", 100), python.sleep.with(600_000)), "alive")
	later := start(t, python, options{dir: c.dir, init: protocol.Init{VolumeBytes: limit * mebibyte}})
	later.completed(lines(python.sleep.with(300), python.shell.with("rm -f big more f*"), python.sleep.with(300)))
	c.completed(lines(python.fill.with("small", 4), python.sleep.with(300)))
	check(t, "x", c.value(string(python.get)), "1")
}

func TestWithoutALimit(t *testing.T) {
	t.Parallel()
	c := start(t, python, options{})
	c.completed(python.shell.with("truncate -s 1T f; for i in $(seq 400); do : > f$i; done; sleep 0.5"))
	c = limited(t, python, options{init: protocol.Init{VolumeFiles: mostFiles}})
	c.completed(python.shell.with("truncate -s 1T f; sleep 0.5"))
	c.exceeds(python.shell.with(fills["many files"]), "alive")
}

func TestFoldersThatAreLocked(t *testing.T) {
	t.Parallel()
	c := limited(t, python, options{asNobody: true})
	c.exceeds(python.shell.with("chmod 300 .; head -c 16M /dev/zero > f"+forEver), "alive")
	c.completed(python.shell.with("rm f; mkdir d; head -c 1M /dev/zero > d/f; chmod 0 d; sleep 0.5"))
	c.exceeds(python.shell.with("chmod 700 d; head -c 16M /dev/zero > d/f; chmod 0 d"+forEver), "alive")
	c.completed(python.shell.with("chmod 700 d; rm -r d; chmod 300 ."))
	later := limited(t, python, options{dir: c.dir, asNobody: true})
	later.exceeds(lines(python.fill.with("f", 16), python.sleep.with(600_000)), "alive")
}

func TestAProgramThatHidesWhatItHasOpen(t *testing.T) {
	t.Parallel()
	const hide = "cp /bin/sleep hider; chmod 111 hider; exec ./hider 600" // what may be run and not be read
	c := limited(t, python, options{asNobody: true})
	d := c.exceeds(python.shell.with(hide), "alive")
	check(t, "it is told", strings.Contains(d.Error.Message, "hides its open files"), true)
	c.run(python.spawn.with("sleep 1; rm -f hider; " + hide))
	c.logged("hides its open files")
	awaitDeath(t, number(c.value("p.pid")))
	check(t, "x", c.value(string(python.get)), "1")
}

// Far over the limit ---------------------------------------------------------------------

// These tests take much of the disk or its files: they are not parallel to any other.

// ownDisk mounts a disk for what is found out by what the disk has lost: others give some of theirs back meanwhile.
func ownDisk(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=2g,mode=0700"); err != nil {
		t.Logf("a disk cannot be mounted, so others may write to the same one: %v", err)
		return dir
	}
	t.Cleanup(func() {
		should.OK(t, unix.Unmount(dir, unix.MNT_DETACH))
	})
	return dir
}

// Twice the limit and 512 MiB is far over it.
const farOver = "900M"

// hidden are ways to have much of the disk that no count sees.
var hidden = map[string]string{
	"a file whose number changes": inPython(`
import fcntl, os
fd, n = os.open("f", os.O_CREAT | os.O_RDWR), 0
os.unlink("f"); os.posix_fallocate(fd, 0, 900 << 20)
while True:
    n = (n - 1) % 100
    fd, before = fcntl.fcntl(fd, fcntl.F_DUPFD, 20 + n), fd
    os.close(before)`),
	"a file on its way through a socket": inPython(`
import array, os, socket, time
ends = socket.socketpair()
fd = os.open("f", os.O_CREAT | os.O_RDWR)
os.unlink("f"); os.posix_fallocate(fd, 0, 900 << 20)
ends[0].sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))])
os.close(fd); time.sleep(600)`),
}

func TestFarOverTheLimit(t *testing.T) {
	ways := map[string]string{
		"bytes":                 "fallocate -l " + farOver + " f" + forEver,
		"files":                 "mv ",
		"a file without a name": "exec 3> f; rm f; fallocate -l " + farOver + " /proc/self/fd/3" + forEver,
	}
	for name, way := range hidden {
		ways[name] = way
	}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			way := way
			// As the limit itself stops what it sees, it is only for the disk that this code cannot be interrupted.
			o := options{}
			if hidden[name] != "" {
				o.dir = ownDisk(t)
			}
			c := limited(t, python, o)
			if name == "files" {
				way += largeTree(t, 2*mostFiles+11_000) + " f" + forEver
			}
			d := c.run(python.shell.with("trap '' INT; "+way), request{GraceMS: patience.Milliseconds()})
			check(t, "error", d.errorName(), "QuotaExceeded")
			must.Soon(t, "programs are left", func() bool { return len(offspring(c.pid())) <= 2 })
			if !c.exists("f") {
				must.Soon(t, "nothing is run any more", func() bool { return c.run("2").result() == "2" }) // it is gone with the programs
				return
			}
			for _, fresh := range []bool{false, true} {
				d := c.run(python.write.with("ran", ""), request{Fresh: fresh})
				check(t, "the next", d.Status+" "+d.Cause+" "+d.errorName(), "failed full QuotaExceeded")
			}
			check(t, "it has run", c.exists("ran"), false)
			must.OK(t, os.RemoveAll(c.path("f")))
			check(t, "when it was deleted", c.value("2"), "2")
		})
	}
}

// largeTree makes a folder with so many links: they count as files, and are made fastest.
func largeTree(t *testing.T, count int) string {
	t.Helper()
	dir := t.TempDir()
	for i := range count {
		folder := filepath.Join(dir, fmt.Sprint("d", i/500))
		if i%500 == 0 {
			_ = os.Mkdir(folder, 0o755)
		}
		must.OK(t, os.Symlink("none", filepath.Join(folder, fmt.Sprint("f", i))))
	}
	return dir
}

func TestAKernelThatHoldsItAllIsEnded(t *testing.T) {
	inTurn(t, func(t *testing.T, l *language) {
		c := limited(t, l, options{})
		hold := code{
			python:     "import os; held = os.open('f', os.O_CREAT | os.O_RDWR); os.unlink('f'); os.posix_fallocate(held, 0, 900 << 20)",
			javascript: `var held = require("fs").openSync("f", "w"); require("fs").unlinkSync("f"); require("child_process").execSync("fallocate -l 900M /proc/self/fd/3", { stdio: ["ignore", "ignore", "ignore", held] })`,
		}[l]
		d := c.run(lines(hold, l.sleep.with(600_000)), request{GraceMS: short})
		check(t, "error", d.errorName(), "QuotaExceeded")
		if d.Kernel == "alive" { // it was interrupted first, and still holds it
			check(t, "kernel", c.await("kernel", 0).kernel.Cause, "quota")
		}
		check(t, "x is there", c.value(string(l.has)), "0")
	})
}

func TestALargeTree(t *testing.T) {
	dir := largeTree(t, 5000)
	c := limited(t, python, options{dir: dir, init: protocol.Init{VolumeBytes: 200 * mebibyte, VolumeFiles: 1_000_000}})
	id := c.begin(python.shell.with("exec 3> gone; rm gone; truncate -s 400M /proc/self/fd/3" + forEver))
	must.Soon(t, "it goes on", func() bool {
		c.ping() // while it is counted
		return len(c.all("done", id)) > 0
	})
	check(t, "end", c.done(id).ended()+" "+c.done(id).errorName(), "failed 1 alive quota QuotaExceeded")
	check(t, "x", c.value(string(python.get)), "1")
}

// Between runs ---------------------------------------------------------------------------

func TestAProgramThatWritesOnIsEndedAndTheKernelIsNot(t *testing.T) {
	t.Parallel()
	for _, wait := range []string{"", "sleep 2; "} {
		c := limited(t, python, options{})
		c.completed(python.spawn.with(wait + "exec setsid sh -c 'while :; do head -c 262144 /dev/zero >> f; sleep 0.02; done'"))
		pid := number(c.value("p.pid"))
		c.logged("programs that write between runs are ended")
		awaitDeath(t, pid)
		check(t, "x", c.value(string(python.get)), "1")
	}
}

func TestAProgramThatHidesBetweenRunsIsEnded(t *testing.T) {
	for name, way := range hidden {
		t.Run(name, func(t *testing.T) {
			c := limited(t, python, options{dir: ownDisk(t)})
			c.completed(python.spawn.with("sleep 1; " + way))
			awaitDeath(t, number(c.value("p.pid"))) // a count may have seen a part of the file before it was hidden
			must.Soon(t, "nothing is run any more", func() bool { return c.run("2").result() == "2" })
		})
	}
}

func TestAKernelThatWritesOnIsEnded(t *testing.T) {
	each(t, func(t *testing.T, l *language) {
		for _, statement := range []string{
			code{python: "open('f', 'ab').write(bytes(1 << 18))", javascript: `require("fs").appendFileSync("f", Buffer.alloc(1 << 18))`}[l],
			code{python: "import time; open('f%d' % time.time_ns(), 'w').close()", javascript: `require("fs").writeFileSync("f" + performance.now(), "")`}[l],
		} {
			c := limited(t, l, options{})
			c.completed(l.every.with(5, statement))
			k := c.await("kernel", 0).kernel
			check(t, "kernel", k.State+" "+k.Cause, "dead quota")
			check(t, "x is there", c.value(string(l.has)), "0")
		}
	})
}

func TestAnIdleKernelIsLeftAloneWhileAnotherContainerFillsTheDirectory(t *testing.T) {
	t.Parallel()
	c := limited(t, python, options{})
	c.completed(python.spawn.with("exec sleep 600")) // which may be taken for what writes
	c.completed(python.sleep.with(1000))
	other := exec.Command("sh", "-c", "while :; do head -c 262144 /dev/zero >> theirs; sleep 0.02; done")
	other.Dir = c.dir
	must.OK(t, other.Start())
	t.Cleanup(func() { _ = other.Wait() })
	t.Cleanup(func() { _ = other.Process.Kill() })
	must.Soon(t, "it does not grow", func() bool {
		info, _ := os.Stat(c.path("theirs"))
		return info != nil && info.Size() > 3*limit*mebibyte
	})
	_ = other.Process.Kill()
	check(t, "kernels that died", len(c.all("kernel", "")), 0)
	check(t, "x", c.value(lines(python.shell.with("rm theirs"), string(python.get))), "1")
}

func TestAnIdleSupervisorIsNotWoken(t *testing.T) {
	t.Parallel()
	c := limited(t, python, options{})
	c.completed(python.write.with("f", "x"))
	switches := func() (sum int) {
		tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", c.pid()))
		for _, task := range tasks {
			text, _ := os.ReadFile(task)
			if _, rest, ok := strings.Cut(string(text), "\nvoluntary_ctxt_switches:"); ok {
				sum += number(strings.Fields(rest)[0])
			}
		}
		return sum
	}
	must.Soon(t, "it does not rest", func() bool {
		before := switches()
		time.Sleep(time.Second)
		return switches()-before < 10
	})
}
