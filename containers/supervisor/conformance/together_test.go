//go:build linux

package conformance

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
)

// Several languages in one container.

// speech is what a test needs to say in every language, bash too. Values are what the code prints.
type speech struct {
	*language
	set, show string
	begin     string // makes the file of its name, and waits for the file go
	programs  string // starts threePrograms
	die       string
}

var speeches = []speech{
	{
		python, "x = 41", "print(x)", python.write.with("python", "") + "\n" + python.awaitFile.with("go"),
		python.spawn.with(threePrograms), python.die.with(9),
	},
	{
		javascript, "var x = 42", "console.log(x)", javascript.write.with("javascript", "") + javascript.awaitFile.with("go"),
		javascript.spawn.with(threePrograms), javascript.die.with(9),
	},
	{bash, "x=43", `echo "$x"`, ": > bash; until [ -e go ]; do sleep 0.01; done", "{ " + threePrograms + "; } &", "kill -9 $$"},
}

// together starts one supervisor for all languages, the first one first.
func together(t *testing.T, init protocol.Init, dir string) *client {
	t.Helper()
	init.OnEOF, init.Token = "wait", token
	return start(t, python, options{init: init, also: []*language{javascript, bash}, dir: dir})
}

func (c *connection) checkAll(t *testing.T, but *language) {
	t.Helper()
	for i, l := range speeches {
		if l.language != but {
			d := c.in(l.language).completed(l.show)
			check(t, l.name, d.Stdout.Head, strconv.Itoa(41+i)+"\n")
		}
	}
}

func (c *connection) setAll() {
	for _, l := range speeches {
		c.in(l.language).completed(l.set)
	}
}

// score is what the system's killer adds to a process.
func (c *client) score(pid int) int {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid))
	return number(string(text))
}

// beginAll begins a run in each language, and returns the ids.
func (c *client) beginAll() (ids []string) {
	for _, l := range speeches {
		ids = append(ids, c.in(l.language).begin(l.begin))
	}
	for _, l := range speeches {
		c.awaitFile(l.name)
	}
	return ids
}

func TestALanguageStartsWhenItIsAskedFor(t *testing.T) {
	t.Parallel()
	c := together(t, protocol.Init{}, "")
	check(t, "languages", c.ready.Languages, []protocol.Started{{Language: "python"}, {Language: "javascript"}, {Language: "bash"}})
	c.send(request{Type: "start", Language: "bash"})
	check(t, "ready", c.in(bash).greeted().Language, "bash")
	check(t, "an unknown one", c.run("1", request{Language: "cobol"}).errorName(), "NoSuchLanguage")
	check(t, "one language in another", c.completed(python.shell.with(`node -e 'console.log(1)'; bash -c 'echo 2'`)).Stdout.Head, "1\n2\n")
	check(t, "kernels that are ready", len(c.all("ready", "")), 2)
	check(t, "a kernel before it is asked for", c.in(javascript).greeted().Language, "javascript")
}

func TestKernelsAreStartedAheadWhenNoRunGoesOn(t *testing.T) {
	t.Parallel()
	c := start(t, bash, options{also: []*language{python, javascript}})
	check(t, "languages", c.ready.Languages, []protocol.Started{{Language: "bash"}, {Language: "python"}, {Language: "javascript"}})
	c.completed("echo 1")
	for _, l := range languages {
		c.in(l).greeted()
		check(t, "its first value", c.in(l).value("1 + 1"), "2")
	}
	check(t, "kernels that are ready", len(c.all("ready", "")), 3)
}

func TestKernelsThatAreWarm(t *testing.T) {
	t.Parallel()
	c := together(t, protocol.Init{Warm: []string{"javascript", "bash", "cobol"}, Spare: true}, "")
	check(t, "ready", c.in(javascript).greeted().Language, "javascript")
}

func TestALanguageThatIsMissing(t *testing.T) {
	for name, order := range map[string][]*language{"the first": {javascript, bash}, "another": {bash, javascript}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bin := t.TempDir()
			shell, err := exec.LookPath("bash")
			must.OK(t, errors.Join(err, os.Symlink(shell, bin+"/bash")))
			c := start(t, order[0], options{also: order[1:], env: []string{"PATH=" + bin}, noInit: true})
			c.send(c.init(protocol.Init{Warm: []string{"javascript"}}))
			missing := c.await("kernel", 0).kernel
			check(t, "kernel", missing.Language+" "+missing.State, "javascript missing")
			check(t, "the first message", c.find(0, func(*message) bool { return true }).Type, "attached")
			from := c.now()
			check(t, "its run", c.in(javascript).run("1").errorName(), "NoInterpreter")
			check(t, "again", c.await("kernel", from).kernel.State, "missing")
			check(t, "the other", c.in(bash).completed("echo 1").Stdout.Head, "1\n")
		})
	}
}

func TestRunsOfSeveralLanguagesGoOnAtOnce(t *testing.T) {
	t.Parallel()
	c := together(t, protocol.Init{}, "")
	c.setAll()
	pids := []int{number(c.value(string(python.pid))), number(c.in(javascript).value(string(javascript.pid))), number(c.in(bash).completed("echo $$").Stdout.Head)}
	idle := c.score(c.pid()) + 50
	must.Soon(t, "idle kernels are killed before others", func() bool {
		return !slices.ContainsFunc(pids, func(pid int) bool { return c.score(pid) > idle })
	})
	ids := c.beginAll()
	for _, l := range speeches {
		check(t, "another run", c.in(l.language).run("1").errorName(), "SessionBusy")
	}
	// A later server finds all of them.
	_ = c.conn.Close()
	later := c.later()
	attached := later.attach()
	slices.Sort(attached.Runs)
	want := slices.Sorted(slices.Values(ids))
	check(t, "runs", fmt.Sprint(attached.Runs), fmt.Sprint(want))
	for i, l := range speeches {
		check(t, "the run of "+l.name, later.in(l.language).greeted().Run, ids[i])
	}
	for _, pid := range pids {
		check(t, "a kernel with a run is killed before one that has nearly all of the memory", c.score(pid), 1000)
	}
	later.interrupt(ids[1], "cancelled")
	check(t, "the interrupted one", later.done(ids[1]).ended(), "cancelled 130 alive")
	c.write("go", "")
	check(t, "Python's", later.done(ids[0]).ended(), "completed 0 alive")
	check(t, "bash's", later.done(ids[2]).ended(), "completed 0 alive")
	later.checkAll(t, nil)
}

func TestTheDeathOfAKernelIsItsLanguagesAlone(t *testing.T) {
	for _, dying := range speeches {
		t.Run(dying.name, func(t *testing.T) {
			t.Parallel()
			c := together(t, protocol.Init{}, "")
			c.setAll()
			var own, others []int
			for _, l := range speeches {
				c.in(l.language).completed(l.programs)
				if l.name == dying.name {
					own = c.pids()
				} else {
					others = append(others, c.pids()...)
				}
			}
			check(t, "the run", c.in(dying.language).run(dying.die).ended(), "killed 137 dead signal 9")
			for _, pid := range own {
				awaitDeath(t, pid)
			}
			for _, pid := range others {
				check(t, "a program of another language lives", lives(pid), true)
			}
			c.checkAll(t, dying.language)
		})
	}
}

func TestTheVariablesOfAllLanguagesOutliveTheContainer(t *testing.T) {
	t.Parallel()
	init := protocol.Init{FreezeBytes: 64 * mebibyte, FreezeSeconds: 60 * slowness}
	c := together(t, init, "")
	c.setAll()
	id := c.begin(python.awaitFile.with("go"))
	check(t, "Python's", c.freeze("a").Error, "a run goes on")
	answer := c.in(bash).freeze("b")
	check(t, "bash's", answer.Language+answer.Error, "bash")
	c.stop() // which stops the run first
	check(t, "the run", c.done(id).Status, "cancelled")
	c = together(t, init, c.dir)
	for i, l := range speeches {
		d := c.in(l.language).completed(l.show)
		check(t, l.name, d.Stdout.Head, strconv.Itoa(41+i)+"\n")
		check(t, l.name+"'s come from", d.Origin != nil && d.Origin.From == "frozen", true)
	}
}

func TestTheKernelThatFillsTheMemoryIsAtFault(t *testing.T) {
	for _, fill := range []struct {
		speech
		code string
	}{
		{speeches[0], "kept = []\nwhile True: kept.append(b'x' * (1 << 16))"},
		{speeches[1], "kept = []; while (true) kept.push(Buffer.alloc(1 << 16, 1));"},
		{speeches[2], "tail /dev/zero"},
	} {
		t.Run(fill.name, func(t *testing.T) {
			t.Parallel()
			c := together(t, protocol.Init{MemoryBytes: memory * mebibyte}, "")
			c.setAll()
			d := c.in(fill.language).run(fill.code)
			check(t, "cause", d.Cause+" "+d.errorName(), "memory MemoryError")
			c.checkMemory(d)
			check(t, "at fault", d.Memory.Interpreter, fill.name)
			if fill.name != "bash" {
				should.Hold(t, len(d.Memory.Largest) != 0 && d.Memory.Largest[0].Name == "kept", "largest: %s", d)
			}
			c.checkAll(t, nil)
		})
	}
}

func TestAKernelWithoutARunKeepsItsVariablesWhereItTakesMost(t *testing.T) {
	t.Parallel()
	c := together(t, protocol.Init{MemoryBytes: memory * mebibyte}, "")
	c.completed("y = b'y' * (350 << 20)")
	d := c.in(javascript).run("kept = []; while (true) kept.push(Buffer.alloc(1 << 16, 1));")
	check(t, "the run", d.ended()+" "+d.errorName(), "failed 1 alive memory MemoryError")
	c.checkMemory(d)
	check(t, "what takes most", fmt.Sprint(d.Memory.Interpreter, d.Memory.Largest), "python[]")
	check(t, "y", c.value("len(y) >> 20"), "350")
}

func TestAKernelThatFillsTheDirectoryBetweenRunsIsEndedAndNoOther(t *testing.T) {
	t.Parallel()
	c := together(t, protocol.Init{VolumeBytes: limit * mebibyte}, "")
	c.setAll()
	c.in(javascript).completed(javascript.every.with(5, `require("fs").appendFileSync("f", Buffer.alloc(1 << 18))`))
	k := c.await("kernel", 0).kernel
	check(t, "kernel", k.Language+" "+k.State+" "+k.Cause, "javascript dead quota")
	c.in(bash).run("rm f")
	c.checkAll(t, javascript)
}
