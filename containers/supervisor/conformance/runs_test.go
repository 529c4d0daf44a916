//go:build linux

package conformance

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
)

// How runs end, and what becomes of kernels and programs.

func TestStatuses(t *testing.T) {
	each(t, func(t *testing.T, l *language) {
		c := start(t, l, options{})
		c.completed(l.set.with(1))
		for _, one := range []struct {
			code string
			more request
			want string
		}{
			{"6 * 7", request{}, "completed 0 alive"},
			{l.fail.with("why"), request{}, "failed 1 alive"},
			{l.exit.with(0), request{}, "completed 0 alive"},
			{l.exit.with(3), request{}, "failed 3 alive"},
			{string(l.spin), request{TimeoutMS: short}, "timed_out 124 alive"},
		} {
			d := c.run(one.code, one.more)
			check(t, one.code, d.ended(), one.want)
			one.more.Fresh = true
			d = c.run(one.code, one.more)
			check(t, one.code, d.ended(), strings.Replace(one.want, "alive", "fresh", 1))
		}
		check(t, "x", c.value(string(l.get)), "1")
		d := c.run(l.fail.with("why"))
		check(t, "error", d.errorName()+" "+d.Error.Message, l.failure+" why")
		should.Contain(t, d.Error.Traceback, "why", "traceback")
	})
}

func TestDeaths(t *testing.T) {
	each(t, func(t *testing.T, l *language) {
		c := start(t, l, options{env: []string{"NODE_OPTIONS=--max-old-space-size=40"}})
		deaths := map[string]string{
			l.die.with(9):  "signal 9",
			l.die.with(15): "signal 15",
			code{python: "import os; os.abort()", javascript: "process.abort()"}[l]: "signal 6",
		}
		if l == python {
			deaths["import os; os._exit(7)"] = "exit 7"
			deaths["import ctypes; ctypes.string_at(0)"] = "signal 11"
			deaths["import os; os.execvp('sleep', ['sleep', '600'])"] = "signal 9"
		} else { // what V8 says of itself; the limit of a container's memory needs a container
			deaths["const all = []; for (;;) all.push(new Array(1000).fill({}))"] = "memory"
		}
		for code, cause := range deaths {
			c.completed(l.set.with(1))
			d := c.run(lines(l.print.with("last words\n"), code))
			check(t, code, d.ended(), "killed 137 dead "+cause)
			check(t, "output", strings.HasPrefix(d.Stdout.Head, "last words\n"), true)
			check(t, "x is there", c.value(string(l.has)), "0")
			d = c.run(code, request{Fresh: true})
			check(t, code, d.ended(), "killed 137 fresh "+cause)
		}
	})
}

func TestInterrupt(t *testing.T) {
	each(t, func(t *testing.T, l *language) {
		c := start(t, l, options{})
		c.completed(l.set.with(1))
		for _, fresh := range []bool{false, true} {
			id := c.begin(lines(l.print.with("begun"), l.write.with("running", ""), string(l.spin)), request{Fresh: fresh})
			c.awaitFile("running")
			c.interrupt(id, "cancelled")
			d := c.done(id)
			check(t, "end", d.ended(), map[bool]string{false: "cancelled 130 alive", true: "cancelled 130 fresh"}[fresh])
			check(t, "output", d.Stdout.Head, "begun")
			_ = os.Remove(c.path("running"))
		}
		check(t, "x", c.value(string(l.get)), "1")
	})
}

func TestAnInterruptRightBehindItsRun(t *testing.T) {
	each(t, func(t *testing.T, l *language) {
		c := start(t, l, options{})
		for i := range 20 {
			fresh := i%5 == 4 // in a kernel that only starts
			id := c.begin(string(l.spin), request{Fresh: fresh})
			c.interrupt(id, "timed_out")
			c.interrupt(id, "cancelled") // the first one stands
			check(t, "end", c.done(id).ended(), map[bool]string{false: "timed_out 124 alive", true: "timed_out 124 fresh"}[fresh])
		}
	})
}

func TestInterruptsNeverHitTheRunThatFollows(t *testing.T) {
	each(t, func(t *testing.T, l *language) {
		c := start(t, l, options{})
		for i := range 40 { // the run ends by itself at about the time at which it is interrupted
			id := c.begin(l.sleep.with(i / 4))
			c.interrupt(id, "cancelled")
			c.done(id)
			check(t, "the next", c.value(lines(l.sleep.with(2), "1")), "1")
		}
	})
}

func TestCodeThatIgnoresInterruptsIsKilled(t *testing.T) {
	each(t, func(t *testing.T, l *language) {
		c := start(t, l, options{})
		c.completed(l.set.with(1))
		id := c.begin(l.stubborn.with("running"), request{GraceMS: short})
		c.awaitFile("running")
		c.interrupt(id, "cancelled")
		check(t, "end", c.done(id).ended(), "cancelled 130 dead ignored_interrupt")
		check(t, "x is there", c.value(string(l.has)), "0")
		_, _ = os.Remove(c.path("fifo")), os.Remove(c.path("running"))

		c.completed(l.set.with(1))
		id = c.begin(l.stubborn.with("running"), request{GraceMS: short, Fresh: true})
		c.awaitFile("running")
		c.interrupt(id, "timed_out")
		check(t, "a fresh one", c.done(id).ended(), "timed_out 124 fresh ignored_interrupt")
		check(t, "x", c.value(string(l.get)), "1")

		d := c.run(l.die.with(int(syscall.SIGSTOP)), request{TimeoutMS: short, GraceMS: short})
		check(t, "one that has stopped itself", d.ended(), "timed_out 124 dead ignored_interrupt")
	})
}

func TestARunThatEndsAsItsKernelIsKilled(t *testing.T) {
	each(t, func(t *testing.T, l *language) {
		c := start(t, l, options{})
		code := code{
			python:     "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); time.sleep(%d / 1000); print('x' * 300_000)",
			javascript: "Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, %d); console.log('x'.repeat(300_000))",
		}[l]
		for i, pause, step, last := 0, 120, 1, "alive"; i < 20; i++ { // by and by the two meet
			d := c.run(fmt.Sprintf(code, pause), request{TimeoutMS: 20, GraceMS: 100})
			if step = max(1, step/2); d.Kernel == last {
				step *= 4
			}
			if last = d.Kernel; last != "alive" {
				step = -step
			}
			pause, step = max(0, pause+step), max(step, -step)
			check(t, "the next", c.completed(lines(l.set.with(i), string(l.get))).result(), fmt.Sprint(i))
		}
	})
}

// Programs -----------------------------------------------------------------------------

// threePrograms are one in the kernel's session, one in a session of its own, and one that has left its family.
const threePrograms = "sleep 600 & echo $! >> pids; setsid sleep 600 & echo $! >> pids; (setsid sh -c 'echo $$ >> pids; exec sleep 600' &) ; wait"

func (c *client) pids() []int {
	c.t.Helper()
	must.Soon(c.t, "the programs did not start", func() bool {
		text, _ := os.ReadFile(c.path("pids"))
		return strings.Count(string(text), "\n") >= 3
	})
	var pids []int
	for _, text := range strings.Fields(c.read("pids")) {
		pids = append(pids, number(text))
	}
	_ = os.Remove(c.path("pids"))
	return pids
}

func TestProgramsEndWithTheirKernel(t *testing.T) {
	each(t, func(t *testing.T, l *language) {
		c := start(t, l, options{})
		c.completed(l.spawn.with(threePrograms))
		pids := c.pids()
		c.run(l.die.with(9))
		for _, pid := range pids {
			awaitDeath(t, pid)
		}
	})
}

func TestProgramsOfAnInterruptedRunEndAndOthersDoNot(t *testing.T) {
	t.Parallel()
	c := start(t, python, options{})
	c.completed(python.spawn.with(threePrograms))
	earlier := c.pids()
	c.completed(python.sleep.with(50)) // what starts in the same tick of the clock may be of either run
	id := c.begin(lines(python.spawn.with("trap '' INT; "+threePrograms), python.write.with("running", ""), string(python.spin)))
	own := c.pids()
	c.awaitFile("running")
	c.interrupt(id, "cancelled")
	check(t, "end", c.done(id).ended(), "cancelled 130 alive")
	for _, pid := range own {
		awaitDeath(t, pid)
	}
	c.ping()
	for _, pid := range earlier {
		check(t, "an earlier program lives", lives(pid), true)
	}
}

func TestAForkBombDiesWithItsKernel(t *testing.T) {
	t.Parallel()
	c := start(t, python, options{})
	bomb := "f() { trap '' INT; ( f ) & sleep 0.01; }; for i in 1 2 3 4 5 6 7 8; do f & done; wait"
	d := c.run(lines(python.spawn.with(bomb), string(python.spin)), request{TimeoutMS: 500, GraceMS: short})
	check(t, "status", d.Status, "timed_out")
	c.run(python.die.with(9))
	must.Soon(t, "some are left", func() bool { return len(offspring(c.pid())) <= 1 })
	check(t, "result", c.value("1"), "1")
}

func TestADeathBetweenRuns(t *testing.T) {
	t.Parallel()
	c := start(t, python, options{})
	_ = syscall.Kill(number(c.completed(lines(python.set.with(1), string(python.pid))).result()), syscall.SIGKILL)
	k := c.await("kernel", 0).kernel
	check(t, "kernel", k.State+" "+k.Cause, "dead signal 9")
	check(t, "x is there", c.value(string(python.has)), "0")
}

func TestARunThatComesAsItsKernelDies(t *testing.T) {
	each(t, func(t *testing.T, l *language) {
		c := start(t, l, options{})
		for range 10 {
			pid := number(c.completed(lines(l.set.with(1), string(l.pid))).result())
			stop(t, c.pid()) // it hears of all at once
			_ = syscall.Kill(pid, syscall.SIGKILL)
			id := c.begin(string(l.has))
			_ = syscall.Kill(c.pid(), syscall.SIGCONT)
			d := c.done(id) // it was handed over already, or has the next kernel
			got := d.ended() + " " + d.result()
			should.Hold(t, got == "completed 0 alive 0" || got == "killed 137 dead signal 9 ", "it ended with %s", got)
		}
	})
}

func TestNoZombiesStay(t *testing.T) {
	t.Parallel()
	c := start(t, python, options{})
	c.completed(python.shell.with("for i in 1 2 3 4 5 6 7 8 9; do (true &) & done"))
	c.run(python.die.with(9))
	c.completed("1")
	must.Soon(t, "a zombie stays", func() bool {
		for _, pid := range children(c.pid()) {
			if state(pid) == "Z" {
				return false
			}
		}
		return true
	})
}

// Fresh runs ---------------------------------------------------------------------------

func TestFresh(t *testing.T) {
	each(t, func(t *testing.T, l *language) {
		c := start(t, l, options{})
		d := c.completed(lines(l.set.with(2), l.write.with("made", ""), "1"), request{Fresh: true}) // it may come first
		check(t, "end", d.ended(), "completed 0 fresh")
		check(t, "x is there", c.value(string(l.has)), "0")
		c.completed(l.set.with(1))
		check(t, "x is there", c.completed(string(l.has), request{Fresh: true}).result(), "0")
		c.completed(lines(l.awaitFile.with("made"), l.set.with(3)), request{Fresh: true})
		check(t, "x", c.value(string(l.get)), "1")
	})
}

func TestFreshRunsGoOnBesideOthers(t *testing.T) {
	each(t, func(t *testing.T, l *language) {
		c := start(t, l, options{})
		main := c.begin(lines(l.print.with("main"), l.awaitFile.with("go"), l.write.with("mine", ""), "1"))
		var ids []string
		for range 3 {
			ids = append(ids, c.begin(lines(l.print.with("fresh"), l.write.with("theirs", ""), l.awaitFile.with("on")), request{Fresh: true}))
		}
		c.awaitFile("theirs")
		c.write("on", "")
		for _, id := range ids {
			d := c.done(id)
			check(t, "fresh", d.ended()+" "+d.Stdout.Head, "completed 0 fresh fresh")
		}
		c.write("go", "")
		d := c.done(main)
		check(t, "main", d.ended()+" "+d.result()+d.Stdout.Head, "completed 0 alive 1main")
		check(t, "its files", strings.Contains(d.paths(), "mine"), true)
	})
}

func TestNoMoreThanSomeFreshRuns(t *testing.T) {
	c := start(t, python, options{})
	var ids []string
	busy := 0
	for range 20 {
		ids = append(ids, c.begin(python.awaitFile.with("go"), request{Fresh: true}))
	}
	c.ping()
	c.write("go", "")
	for _, id := range ids {
		if d := c.done(id); d.errorName() == "SessionBusy" {
			busy++
		} else {
			check(t, "end", d.ended(), "completed 0 fresh")
		}
	}
	check(t, "refused", busy > 0 && busy <= 4, true)
}

func TestAFreshRunTakesItsProgramsAlongAndNoOthers(t *testing.T) {
	t.Parallel()
	c := start(t, python, options{})
	c.completed(python.spawn.with(threePrograms))
	kept := c.pids()
	id := c.begin(lines(python.spawn.with(threePrograms), python.awaitFile.with("go")), request{Fresh: true})
	own := c.pids()
	c.write("go", "")
	c.done(id)
	for _, pid := range own {
		awaitDeath(t, pid)
	}
	for _, pid := range kept {
		check(t, "an earlier program lives", lives(pid), true)
	}
}

func TestTheMainKernelMayDieUnderAFreshRun(t *testing.T) {
	each(t, func(t *testing.T, l *language) {
		c := start(t, l, options{})
		pid := number(c.value(string(l.pid)))
		id := c.begin(lines(l.write.with("running", ""), l.awaitFile.with("go"), "1"), request{Fresh: true})
		c.awaitFile("running")
		_ = syscall.Kill(pid, syscall.SIGKILL)
		check(t, "kernel", c.await("kernel", 0).kernel.Cause, "signal 9")
		check(t, "the next", c.value("2"), "2")
		c.write("go", "")
		d := c.done(id)
		check(t, "fresh", d.ended()+" "+d.result(), "completed 0 fresh 1")
	})
}

// What is kept ready -------------------------------------------------------------------

// reserved starts a supervisor, and waits until a kernel stands by, which it returns.
func reserved(t *testing.T, l *language) (*client, int) {
	c := start(t, l, options{init: protocol.Init{Warm: []string{l.name}}})
	return c, c.standby(l)
}

// standby is the kernel that stands by: a child of the supervisor, or of the zygote.
func (c *client) standby(l *language) (pid int) {
	c.t.Helper()
	main := number(c.value(string(l.pid)))
	must.Soon(c.t, "no kernel stands by", func() bool {
		for _, child := range offspring(c.pid()) {
			if child == main {
				continue
			}
			if l == python {
				for _, child = range offspring(child) {
					pid = child
				}
			} else {
				pid = child
			}
		}
		return pid != 0
	})
	c.completed("1") // the supervisor knows of it by now
	return pid
}

// Where only fresh runs come, nothing else has the zygote started.
func TestAKernelStandsByForFreshRunsAlone(t *testing.T) {
	t.Parallel()
	c := start(t, python, options{})
	c.done(c.begin("1", request{Fresh: true}))
	must.Soon(t, "no kernel stands by", func() bool {
		return slices.ContainsFunc(offspring(c.pid()), func(child int) bool { return len(offspring(child)) > 0 })
	})
}

func TestAKernelThatStandsByIsKilledAsARunComes(t *testing.T) {
	each(t, func(t *testing.T, l *language) {
		c, pid := reserved(t, l)
		stop(t, c.pid())
		id := c.begin("1 + 1", request{Fresh: true})
		_ = syscall.Kill(pid, syscall.SIGKILL)
		_ = syscall.Kill(c.pid(), syscall.SIGCONT)
		d := c.done(id)
		check(t, "end", d.ended()+" "+d.result(), "completed 0 fresh 2")
	})
}

func TestAKernelThatStandsByIsStopped(t *testing.T) {
	each(t, func(t *testing.T, l *language) {
		c, pid := reserved(t, l)
		_ = syscall.Kill(pid, syscall.SIGSTOP)
		check(t, "result", c.completed("1 + 1", request{Fresh: true}).result(), "2")
	})
}

func TestARunThatHasBegunIsNotBegunAgain(t *testing.T) {
	each(t, func(t *testing.T, l *language) {
		for _, fresh := range []bool{false, true} {
			c, _ := reserved(t, l)
			c.run(l.die.with(9))
			d := c.run(lines(l.shell.with("echo x >> begun"), l.die.with(9)), request{Fresh: fresh})
			check(t, "status", d.Status+" "+d.Cause, "killed signal 9")
			check(t, "it has begun", c.read("begun"), "x\n")
		}
	})
}

func TestCodeMayKillAllThatIsThere(t *testing.T) {
	each(t, func(t *testing.T, l *language) {
		for _, signal := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL} {
			c, _ := reserved(t, l)
			main := number(c.completed(lines(l.set.with(1), string(l.pid))).result())
			for range 5 {
				for _, child := range offspring(c.pid()) {
					if child != main {
						_ = syscall.Kill(child, signal)
						for _, below := range offspring(child) {
							_ = syscall.Kill(below, signal)
						}
					}
				}
			}
			check(t, "x", c.value(string(l.get)), "1")
			check(t, "a fresh run", c.completed("2", request{Fresh: true}).result(), "2")
			c.run(l.die.with(9))
			check(t, "a new kernel", c.value("3"), "3")
		}
	})
}

func TestAFreshRunEndsNoProgramOfAnother(t *testing.T) {
	t.Parallel()
	c := start(t, bash, options{})
	first := c.begin("touch begun; until [ -e go ]; do sleep .05; done", request{Fresh: true})
	c.awaitFile("begun")
	second := c.begin("(setsid sleep 600 & echo $! > daemon); touch up; until [ -e look ]; do sleep .05; done; kill -0 $(cat daemon) && echo lives", request{Fresh: true})
	c.awaitFile("up")
	c.write("go", "")
	c.done(first)
	c.ping()
	c.write("look", "")
	check(t, "the other's program", c.done(second).Stdout.Head, "lives\n")
}

func TestEveryRunHasItsEndBeforeTheContainers(t *testing.T) {
	t.Parallel()
	c := start(t, bash, options{init: protocol.Init{FreezeBytes: 1 << 20, FreezeSeconds: 2}})
	var ids []string
	for i, more := range []request{{Fresh: true}, {GraceMS: 200}} {
		ids = append(ids, c.begin(fmt.Sprintf("trap '' INT; echo hello; touch begun%d; while :; do sleep 600; done", i), more))
		c.awaitFile(fmt.Sprint("begun", i))
	}
	c.send(request{Type: "stop"})
	for _, id := range ids {
		d := c.done(id)
		check(t, "a run's end", d.Status+" "+d.Stdout.Head, "cancelled hello\n")
	}
}
