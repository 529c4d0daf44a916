//go:build linux

package conformance

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
)

// The limit of the memory: of processes, as no control group of the machine has this limit.

const memory = 600 // MiB

// hoards is a command for a shell whose programs take so many MiB, each no more than a process may alone.
func hoards(mebibytes int, then string) string {
	const each = 100
	return fmt.Sprintf(`for i in $(seq %d); do python3 -c 'import time; x = b"x" * (%d << 20); time.sleep(600)' & done; %s`, mebibytes/each, each, then)
}

func guarded(t *testing.T, l *language) *client {
	t.Helper()
	c := start(t, l, options{init: protocol.Init{MemoryBytes: memory * mebibyte, Warm: []string{l.name}}})
	c.completed(l.set.with(1))
	return c
}

func (c *client) checkMemory(d *message) {
	c.t.Helper()
	if m := d.Memory; m == nil || m.LimitBytes != memory*mebibyte || m.UsedBytes < m.LimitBytes*9/10 || m.Largest == nil {
		c.t.Errorf("memory: %s", d)
	}
}

func TestARunIsStoppedBeforeTheMemoryIsFull(t *testing.T) {
	each(t, func(t *testing.T, l *language) {
		c := guarded(t, l)
		must.Soon(t, "nothing is kept ready", func() bool { return len(offspring(c.pid())) == 2 })
		ready := slices.DeleteFunc(offspring(c.pid()), func(pid int) bool { return fmt.Sprint(pid) == c.value(string(l.pid)) })
		d := c.run(l.shell.with(hoards(memory, "wait")))
		awaitDeath(t, ready[0]) // which is let go first
		check(t, "the run", d.ended()+" "+d.errorName(), "failed 1 alive memory MemoryError")
		c.checkMemory(d)
		check(t, "x", c.value(string(l.get)), "1")
		check(t, "what is told of memory", c.completed("1").Memory == nil, true)
	})
}

func TestARunThatIgnoresThatTheMemoryIsFull(t *testing.T) {
	each(t, func(t *testing.T, l *language) {
		c := guarded(t, l)
		d := c.run(lines(l.spawn.with(hoards(memory, "trap '' INT; wait")), l.stubborn.with("stubborn")), request{GraceMS: short})
		if ended := d.ended(); ended != "killed 137 dead memory" && !strings.HasPrefix(ended, "failed 1 alive") {
			t.Errorf("the run: %s", d)
		}
		c.checkMemory(d)
	})
}

func TestTheRunThatTakesMostIsStopped(t *testing.T) {
	each(t, func(t *testing.T, l *language) {
		c := guarded(t, l)
		id := c.begin(lines(l.awaitFile.with("go"), "2"))
		d := c.run(l.shell.with(hoards(memory, "wait")), request{Fresh: true})
		check(t, "the one", d.ended()+" "+d.errorName(), "failed 1 fresh memory MemoryError")
		c.write("go", "")
		check(t, "the other", c.done(id).result(), "2")
	})
}

func TestARunThatBeginsNearTheLimitMayGiveBack(t *testing.T) {
	each(t, func(t *testing.T, l *language) {
		c := guarded(t, l)
		c.completed(l.spawn.with(hoards(memory, ": > there; wait")))
		c.awaitFile("there")
		d := c.completed(lines(l.shell.with("sleep 0.5; pkill -P "+fmt.Sprint(c.value("p.pid"))+"; :"), "1"))
		check(t, "result", d.result(), "1")
	})
}

func TestCodeThatTakesMoreAndMore(t *testing.T) {
	each(t, func(t *testing.T, l *language) {
		c := guarded(t, l)
		more := code{python: "while True: kept.append(b'x' * (1 << 16))", javascript: "while (true) kept.push(Buffer.alloc(1 << 16, 1));"}[l]
		d := c.run("kept = []\n" + more)
		check(t, "the run", d.ended()+" "+d.errorName(), "failed 1 alive memory MemoryError")
		c.checkMemory(d)
		if len(d.Memory.Largest) == 0 || d.Memory.Largest[0].Name != "kept" {
			t.Errorf("largest: %s", d)
		}
		check(t, "x", c.value(string(l.get)), "1")
		c.completed("kept = " + code{python: "None", javascript: "null"}[l])
	})
}

func TestAnAllocationThatIsTooLarge(t *testing.T) {
	t.Parallel()
	c := guarded(t, python)
	d := c.run("y = bytearray(1 << 30)")
	check(t, "the run", d.ended()+" "+d.errorName(), "failed 1 alive MemoryError")
	if d.Memory == nil {
		t.Errorf("answer: %s", d)
	}
	check(t, "x", c.value("x"), "1")
}

func TestVariablesThatHaveNoRoomBesideAnotherRunAreKept(t *testing.T) {
	t.Parallel()
	init := protocol.Init{FreezeBytes: memory * mebibyte, FreezeSeconds: 60 * slowness}
	c := start(t, python, options{init: init})
	c.completed("x = [bytearray(50 << 20) for _ in range(7)]")
	c.stop()
	init.MemoryBytes = memory * mebibyte
	c = start(t, python, options{init: init, dir: c.dir})
	id := c.begin("y = b'y' * (200 << 20); open('there', 'w').close(); "+python.awaitFile.with("go"), request{Fresh: true})
	c.awaitFile("there")
	c.run("1") // which may end with its kernel
	c.write("go", "")
	c.done(id)
	check(t, "x", c.value("len(x)"), "7")
}

// A run that was cancelled and goes on makes nobody wait who guards the memory.
func TestMemoryBesideACancelledRun(t *testing.T) {
	t.Parallel()
	c := start(t, python, options{init: protocol.Init{MemoryBytes: 400 << 20}})
	ignoring := c.begin("import time\nopen('begun', 'w').close()\nwhile True:\n    try: time.sleep(1)\n    except BaseException: pass", request{GraceMS: 600_000})
	c.awaitFile("begun")
	c.interrupt(ignoring, "cancelled")
	c.ping()
	d := c.run("import time\nfull = bytes([120]) * (380 << 20)\ntime.sleep(60)", request{Fresh: true})
	check(t, "the run that fills it", d.errorName(), "MemoryError")
}
