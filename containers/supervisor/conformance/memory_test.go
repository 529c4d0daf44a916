//go:build linux

package conformance

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/filewire"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/programwire"
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
	m := d.Memory
	should.Hold(c.t, m != nil && m.LimitBytes == memory*mebibyte && m.UsedBytes >= m.LimitBytes*8/10 && m.Largest != nil, "memory: %s", d)
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
		ended := d.ended()
		should.Hold(t, ended == "killed 137 dead memory" || strings.HasPrefix(ended, "failed 1 alive"), "the run: %s", d)
		c.checkMemory(d)
	})
}

func TestTheRunThatTakesMostIsStopped(t *testing.T) {
	t.Parallel()
	c := guarded(t, python)
	id := c.begin(lines(python.awaitFile.with("go"), "2"))
	d := c.run(python.shell.with(hoards(memory, "wait")), request{Fresh: true})
	check(t, "the one", d.ended()+" "+d.errorName(), "failed 1 fresh memory MemoryError")
	c.write("go", "")
	check(t, "the other", c.done(id).result(), "2")
}

func TestARunThatBeginsNearTheLimitMayGiveBack(t *testing.T) {
	t.Parallel()
	c := guarded(t, python)
	c.completed(python.spawn.with(hoards(memory, ": > there; wait")))
	c.awaitFile("there")
	d := c.completed(lines(python.shell.with("sleep 0.5; pkill -P "+fmt.Sprint(c.value("p.pid"))+"; :"), "1"))
	check(t, "result", d.result(), "1")
}

func TestCodeThatTakesMoreAndMore(t *testing.T) {
	each(t, func(t *testing.T, l *language) {
		c := guarded(t, l)
		more := code{python: "while True: kept.append(b'x' * (1 << 16))", javascript: "while (true) kept.push(Buffer.alloc(1 << 16, 1));"}[l]
		d := c.run("kept = []\n" + more)
		// Python's own limit and process 1's are near each other.
		check(t, "the run", strings.Replace(d.ended(), " memory", "", 1)+" "+d.errorName(), "failed 1 alive MemoryError")
		c.checkMemory(d)
		should.Hold(t, len(d.Memory.Largest) != 0 && d.Memory.Largest[0].Name == "kept", "largest: %s", d)
		check(t, "x", c.value(string(l.get)), "1")
		c.completed("kept = " + code{python: "None", javascript: "null"}[l])
	})
}

func TestAnAllocationThatIsTooLarge(t *testing.T) {
	t.Parallel()
	c := guarded(t, python)
	d := c.run("y = bytearray(1 << 30)")
	check(t, "the run", d.ended()+" "+d.errorName(), "failed 1 alive MemoryError")
	should.Hold(t, d.Memory != nil, "answer: %s", d)
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

// Programs of a server beside runs.

type serverProgram struct {
	t      *testing.T
	stream net.Conn
}

// program starts one, whose command is a shell's.
func (c *client) program(t *testing.T, command string, start programwire.Start) serverProgram {
	t.Helper()
	stream := must.Get(c.conn.Open())(t)
	t.Cleanup(func() { _ = stream.Close() })
	start.Op, start.Argv = programwire.Op, []string{"bash", "-c", command}
	must.OK(t, filewire.Write(stream, start))
	return serverProgram{t, stream}
}

func (p serverProgram) next() (out programwire.Output, err error) {
	text, err := filewire.ReadText(p.stream, programwire.MaxMessage)
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	return out, err
}

func (p serverProgram) begun() serverProgram {
	p.t.Helper()
	out, err := p.next()
	must.Hold(p.t, err == nil && out.PID != 0, "the program did not start: %+v, %v", out, err)
	return p
}

// exit waits for its end.
func (p serverProgram) exit() (programwire.Exit, error) {
	for {
		if out, err := p.next(); err != nil || out.Exit != nil {
			if err == nil {
				return *out.Exit, nil
			}
			return programwire.Exit{}, err
		}
	}
}

func (p serverProgram) ended() programwire.Exit {
	p.t.Helper()
	exit := must.Get(p.exit())(p.t)
	return exit
}

// What a program writes between two runs is not theirs. No file goes back under one that may change some.
func TestFilesOfPrograms(t *testing.T) {
	t.Parallel()
	c := start(t, bash, options{init: protocol.Init{UndoBytes: 64 << 20, VolumeBytes: 1 << 30}})
	first := c.completed("echo one > first").Done.ID
	c.awaitVersion(first)
	check(t, "the program", c.program(t, "echo own > own", programwire.Start{}).begun().ended(), programwire.Exit{})
	second := c.completed("echo two > second").Done.ID
	c.awaitVersion(second)

	reading := c.program(t, "read; exit 3", programwire.Start{NoGrowth: true, NoChange: true}).begun()
	writing := c.program(t, "read; echo later > later", programwire.Start{}).begun()
	r := c.undo(request{ID: "restore-1", Run: second, Files: true}, false)
	check(t, "during a program", r.Files.Code, "busy")
	check(t, "nothing has changed", c.exists("second"), true)
	must.OK(t, filewire.Write(writing.stream, programwire.Input{Close: true}))
	check(t, "it", writing.ended(), programwire.Exit{})

	var files protocol.RestoredFiles
	must.Soon(t, "its end is known", func() bool {
		files = *c.undo(request{ID: "restore-2", Run: second, Files: true}, false).Files
		return files.Code != "busy"
	})
	check(t, "the second run is undone", fmt.Sprint(files.Error, c.exists("second")), "false")
	check(t, "programs' files", c.read("own")+c.read("later"), "own\nlater\n")
	r = c.undo(request{ID: "restore-3", Run: first, Files: true}, false)
	check(t, "the first run is undone", fmt.Sprint(r.Files.Error, c.exists("first")), "false")
	check(t, "programs' files", c.read("own")+c.read("later"), "own\nlater\n")
	must.OK(t, filewire.Write(reading.stream, programwire.Input{Close: true}))
	check(t, "one that only reads", reading.ended(), programwire.Exit{Code: 3})
}

// Programs are stopped for memory, and not the kernel with its variables, idle or with a run that takes less.
func TestProgramsThatTakeTheMemory(t *testing.T) {
	for name, goesOn := range map[string]bool{"beside an idle kernel": false, "beside a run": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := start(t, python, options{init: protocol.Init{MemoryBytes: memory * mebibyte}})
			c.completed("x = b'x' * (300 << 20)")
			id := ""
			if goesOn {
				id = c.begin(lines("open('begun', 'w').close()", python.awaitFile.with("go"), "len(x) >> 20"))
				c.awaitFile("begun")
			}
			exits := make(chan programwire.Exit, 10)
			for range cap(exits) {
				p := c.program(t, `exec python3 -c 'import time; x = b"x" * (60 << 20); open("taken", "a").write("x"); time.sleep(600)'`, programwire.Start{}).begun()
				go func() {
					if exit, err := p.exit(); err == nil {
						exits <- exit
					}
				}()
			}
			check(t, "the first that ends", <-exits, programwire.Exit{Code: 137, Signal: 9, Cause: programwire.CauseMemory})
			must.Soon(t, "all have taken theirs or ended", func() bool {
				taken, _ := os.ReadFile(c.path("taken"))
				return len(taken)+len(exits)+1 >= cap(exits)
			})
			if goesOn {
				c.write("go", "")
				check(t, "the run", c.done(id).result(), "300")
			}
			check(t, "x", c.value("len(x) >> 20"), "300")
		})
	}
}
