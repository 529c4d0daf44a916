//go:build linux

package conformance

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

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
	from := c.now()
	d := c.completed(code)
	c.awaitTwin(from)
	return d.Done.ID
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
	c.send(request{Type: "restore", ID: "restore", Run: run})
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
		from := c.now()
		d := c.run(lines("print('said')", code))
		check(t, code, d.Status+" "+d.Kernel, "killed restored")
		check(t, "output", d.Stdout.Head, "said\n")
		check(t, "origin", d.Origin.From+" "+d.Origin.Run, "twin "+behind)
		check(t, "x", c.value("x, folder == os.getcwd()"), "([1], True)")
		if next := c.completed("pass"); next.Origin != nil {
			t.Errorf("told once more: %v", next)
		}
		c.awaitTwin(from)
		behind = c.twinned("pass")
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
	pid := number(c.value("os.getpid()"))
	_ = syscall.Kill(pid, syscall.SIGKILL)
	c.await("kernel", 0)
	d := c.completed("x")
	check(t, "x", d.result()+" "+d.Kernel+" "+d.Origin.Run, "1 alive "+behind)
}

func TestRestore(t *testing.T) {
	c := startTwins(t)
	c.twinned("x = 0")
	var ids []string
	for i := 1; i <= 4; i++ {
		ids = append(ids, c.twinned("x = "+strconv.Itoa(i)))
	}
	check(t, "runs", c.twins().Runs, ids[2:]) // the third twin is behind the last
	program := number(c.value(python.spawn.with("exec sleep 600") + "; p.pid"))
	r := c.restore(ids[2])
	check(t, "restored", r, protocol.Restored{Type: "restored", ID: "restore", Run: ids[2], Runs: []string{}, Copies: []string{}})
	awaitDeath(t, program)
	check(t, "x", c.value("x"), "2")
	check(t, "a second one", c.restore(ids[2]).Error, "no copy of the variables from before this run is kept")
}
