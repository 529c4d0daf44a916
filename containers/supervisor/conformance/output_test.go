//go:build linux

package conformance

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
)

// Output, artifacts and displays.

func TestOutputThatFitsIsWhole(t *testing.T) {
	each(t, func(t *testing.T, l *language) {
		c := start(t, l, options{init: protocol.Init{OutputBytes: 1000}})
		d := c.completed(lines(l.print.with(strings.Repeat("x", 999)+"\n"), l.eprint.with("e\nf")))
		check(t, "stdout", d.Stdout, protocol.Stream{Head: strings.Repeat("x", 999) + "\n", Bytes: 1000, Lines: 1})
		check(t, "stderr", d.Stderr, protocol.Stream{Head: "e\nf", Bytes: 3, Lines: 2})
		check(t, "there is a file", c.exists(".runs"), false)
	})
}

func TestOutputThatIsTooLongHasAFile(t *testing.T) {
	t.Parallel()
	c := start(t, python, options{init: protocol.Init{OutputBytes: 1000, SpoolBytes: 20_000}})
	var whole strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&whole, "line %d\n", i)
	}
	text := whole.String()
	d := c.completed(lines(python.print.with(text), python.eprint.with("short")))
	check(t, "stdout", d.Stdout, protocol.Stream{
		Head: text[:500], Tail: text[len(text)-500:], Bytes: int64(len(text)), Lines: 1000, OmittedBytes: int64(len(text) - 1000),
		OmittedLines: int64(strings.Count(text[500:len(text)-500], "\n")), Path: ".runs/" + d.ID + ".stdout.txt",
	})
	check(t, "the file", c.read(d.Stdout.Path), text)
	check(t, "stderr", d.Stderr.Head+d.Stderr.Path, "short")
	d = c.completed(python.print.with(strings.Repeat("y", 50_000)), request{ID: "../../escape/.."})
	check(t, "its folder", filepath.Dir(d.Stdout.Path), ".runs")
	check(t, "its limit", len(c.read(d.Stdout.Path)), 20_000)
}

func TestLongTextsNeverMakeAFrameTooLong(t *testing.T) {
	each(t, func(t *testing.T, l *language) {
		c := start(t, l, options{init: protocol.Init{OutputBytes: 1 << 20, MaxArtifacts: 5000}})
		zeros := map[*language]string{python: "'\\0' * (1 << 20)", javascript: `"\0".repeat(1 << 20)`}[l]
		fill := func(p phrase) string { return strings.Replace(p.with("ZEROS"), `"ZEROS"`, zeros, 1) }
		d := c.run(lines(fill(l.print), fill(l.eprint), fill(l.fail)))
		check(t, "end", d.ended(), "failed 1 alive")
		check(t, "bytes", d.Stdout.Bytes, int64(1<<20))
	})
}

func TestAFloodOfOutput(t *testing.T) {
	t.Parallel()
	c := start(t, python, options{})
	c.completed("1")
	before := statusOf(t, c.pid(), "VmRSS")
	id := c.begin(python.shell.with("exec cat /dev/zero"))
	for range 20 {
		c.ping()
	}
	c.find(0, func(m *message) bool { return m.Type == "progress" && m.StdoutBytes > 4<<20 })
	c.interrupt(id, "cancelled")
	d := c.done(id)
	check(t, "end", d.ended(), "cancelled 130 alive")
	grown := statusOf(t, c.pid(), "VmRSS") - before
	should.Hold(t, grown <= 16<<10, "it grew by %d KiB", grown)
}

func TestPeekAndProgress(t *testing.T) {
	each(t, func(t *testing.T, l *language) {
		c := start(t, l, options{})
		id := c.begin(lines(l.print.with("first\nlatest line  "), l.eprint.with("warn\n"), l.awaitFile.with("go")))
		var peek protocol.Peek
		must.Soon(t, "the output is not there", func() bool {
			from := c.now()
			c.send(request{Type: "peek", ID: id})
			peek = c.await("peek", from).peek
			return peek.Stderr.Bytes > 0
		})
		check(t, "peek", peek.ID+peek.Stdout.Head+peek.Stderr.Head, id+"first\nlatest line  warn\n")
		progress := c.find(0, func(m *message) bool { return m.Type == "progress" && m.StderrBytes > 0 })
		check(t, "progress", fmt.Sprint(progress.ID, progress.StdoutBytes, progress.StderrBytes), fmt.Sprint(id, 19, 5))
		check(t, "elapsed", progress.ElapsedMS > 0, true)
		quiet := c.find(c.now(), func(m *message) bool { return m.Type == "progress" }) // comes without output too
		check(t, "the next", quiet.ElapsedMS > progress.ElapsedMS, true)
		c.write("go", "")
		c.done(id)
		lines := c.begin(lines(l.print.with("step 1  \rstep 2\n"), l.awaitFile.with("on")))
		check(t, "the last line", c.find(0, func(m *message) bool { return m.Type == "progress" && m.ID == lines }).LastLine, "step 2")
		c.write("on", "")
		c.done(lines)
	})
}

// What earlier runs print ------------------------------------------------------------------

func TestBackgroundOutput(t *testing.T) {
	each(t, func(t *testing.T, l *language) {
		c := start(t, l, options{})
		d := c.completed(lines(l.print.with("own\n"), l.spawn.with("while [ ! -e go ]; do sleep 0.01; done; echo late; echo error >&2; : > said")))
		check(t, "stdout", d.Stdout.Head, "own\n")
		next := c.completed(lines(l.write.with("go", ""), l.awaitFile.with("said"), l.print.with("next\n")))
		check(t, "the next one's", next.Stdout.Head+next.Stderr.Head, "next\n")
		told := slices.Clone(next.Background)
		for len(told) < 2 {
			told = append(told, c.completed("1").Background...)
		}
		slices.SortFunc(told, func(a, b protocol.Background) int { return strings.Compare(b.Path, a.Path) })
		check(t, "told", told, []protocol.Background{
			{Path: ".runs/" + d.ID + ".stdout.txt", Text: "late\n"}, {Path: ".runs/" + d.ID + ".stderr.txt", Text: "error\n"},
		})
		check(t, "the file", c.read(told[0].Path), "own\nlate\n")
		check(t, "told again", len(c.completed("1").Background), 0)
	})
}

func TestWhatEndsAboutWhenItsRunDoes(t *testing.T) {
	t.Parallel()
	c := start(t, python, options{})
	for i := range 30 {
		c.completed(python.spawn.with(fmt.Sprintf("sleep 0.00%d; echo late", i%10)))
		check(t, "the next", c.completed(python.print.with("next\n")).Stdout.Head, "next\n")
	}
}

func TestABackgroundFlood(t *testing.T) {
	t.Parallel()
	c := start(t, python, options{})
	c.completed(python.spawn.with("exec yes"))
	pid := number(c.value("p.pid"))
	check(t, "the next", c.completed(python.print.with("x")).Stdout.Head, "x")
	check(t, "it is neither blocked nor killed", lives(pid), true)
	c.completed(python.shell.with("kill -9 " + fmt.Sprint(pid)))
	c.completed(python.spawn.with("head -c 3000000 /dev/zero; : > wrote"))
	c.awaitFile("wrote")
}

func TestDescriptors(t *testing.T) {
	each(t, func(t *testing.T, l *language) {
		c := start(t, l, options{openFiles: 128})
		for i := range 60 { // programs that hold their pipes
			c.completed(l.spawn.with("exec sleep 600"))
			c.completed(l.print.with(strings.Repeat("x", 50_000)), request{Fresh: i%3 == 0})
		}
		check(t, "stdout", c.completed(l.print.with("ok")).Stdout.Head, "ok")
		d := c.completed(l.shell.with("ls -v /proc/self/fd | grep -v '...'")) // what the tests inherit is beyond those
		check(t, "programs inherit", strings.Join(strings.Fields(d.Stdout.Head), " "), "0 1 2 3")
	})
}

// Artifacts --------------------------------------------------------------------------------

func TestArtifacts(t *testing.T) {
	each(t, func(t *testing.T, l *language) {
		c := start(t, l, options{init: protocol.Init{MaxArtifacts: 5}})
		d := c.completed(lines(l.write.with("a.txt", "12345"), l.shell.with("mkdir -p deep/er; : > deep/er/b")))
		check(t, "made", d.paths(), "a.txt deep/er/b")
		info := must.Get(os.Stat(c.path("a.txt")))(t)
		at := slices.IndexFunc(d.Artifacts, func(a protocol.Artifact) bool { return a.Path == "a.txt" })
		check(t, "artifact", d.Artifacts[at], protocol.Artifact{Path: "a.txt", SizeBytes: 5, ModifiedMS: info.ModTime().UnixMilli()})
		for _, step := range []struct{ code, want string }{
			{"cat a.txt", ""},
			{"echo 2 >> a.txt; : > b.txt", "a.txt b.txt"},
			{"t=$(stat -c %y b.txt); echo x > c; touch -d \"$t\" c; mv c b.txt", "b.txt"}, // its size and its time say nothing
			{"mv a.txt renamed.txt", "renamed.txt"},
			{"rm renamed.txt", ""},
			{"mkdir -p .hidden node_modules __pycache__ sub/.git sub/input; for d in input .hidden node_modules __pycache__ sub/.git sub/input output; do : > $d/f; done; : > .e", "output/f sub/input/f"},
			{"ln -s /etc/passwd link; ln -s /etc dirlink; ln -s . loop; mkfifo fifo; : > real", "real"},
			{"top=$PWD; for i in $(seq 300); do mkdir d; cd d; done; : > deep; cd $top; : > flat", "flat"},
		} {
			check(t, step.code, c.completed(l.shell.with(step.code)).paths(), step.want)
		}
		d = c.completed(l.shell.with(`: > "$(printf 'bad\377')"; : > "$(printf 'new\nline')"; : > "$(printf 'tab\t')"; : > plain`))
		check(t, "names that are counted alone", d.paths()+fmt.Sprint(d.ArtifactsTotal), "plain4")
		check(t, "of a failed run", c.run(lines(l.write.with("failed", ""), l.fail.with("why"))).paths(), "failed")
		check(t, "of a fresh run", c.run(l.write.with("fresh", ""), request{Fresh: true}).paths(), "fresh")
		check(t, "of one that timed out", c.run(lines(l.write.with("slow", ""), string(l.spin)), request{TimeoutMS: short}).paths(), "slow")
		d = c.completed(l.shell.with("for i in $(seq 50); do : > f$i; touch -d @$i f$i; done"))
		check(t, "the newest of many", d.paths()+fmt.Sprint(d.ArtifactsTotal), "f46 f47 f48 f49 f5050")
	})
}

func TestArtifactsOfOneRunAfterTheOther(t *testing.T) {
	t.Parallel()
	c := start(t, python, options{})
	for i := range 20 {
		check(t, "changed", c.completed(python.write.with("quick", fmt.Sprint(i%10))).paths(), "quick")
		check(t, "of the next", c.completed("1").paths(), "")
	}
	c.write("theirs", "x") // between runs
	c.completed(python.sleep.with(300))
	check(t, "of the next", c.completed("1").paths(), "")
}

// Displays ---------------------------------------------------------------------------------

func TestWhatIsShownIsReplacedAndTakenBack(t *testing.T) {
	t.Parallel()
	c := waiting(t, python, protocol.Init{MaxDisplays: 3})
	c.completed(python.forge)
	send := func(header string) string { return "send(" + quote(header) + ", 1)" }
	ended := map[string]string{}
	for steps, want := range map[string]string{ // a key, and a text behind it; - takes all back
		"a1 2 a3":             "3 2, 2 in all",
		"a1 2 3 b4 b5 b6 a7 ": "7 2 3, 4 in all",
		"a1 2 - a3 4 5":       "3 4 5, 3 in all",
		"1 2 3 4 - 5":         "5, 1 in all",
		"a1 -":                ", 0 in all",
	} {
		id := fmt.Sprintf("x%d", len(ended))
		var code []string
		shown := map[string]bool{}
		for _, step := range strings.Fields(steps) {
			key := strings.TrimRight(step, "0123456789")
			if step == "-" {
				clear(shown)
				code = append(code, send(`{"type": "clear", "id": "`+id+`"}`))
				continue
			}
			code = append(code, send(fmt.Sprintf(`{"type": "display", "id": %q, "mime": "text/html", "alt": %q, "key": %q, "again": %v}`, id, step[len(key):], key, shown[key])))
			shown[key] = key != ""
		}
		d := c.completed(lines(append(code, "1")...), request{ID: id})
		check(t, steps, fmt.Sprintf("%s, %d in all", c.shown(id), d.DisplaysTotal), want)
		ended[id] = c.shown(id)
	}
	_ = c.conn.Close()
	later, _ := c.taken()
	later.ping()
	for id, want := range ended {
		check(t, "to a later server", later.shown(id), want)
	}
}

func TestDisplays(t *testing.T) {
	each(t, func(t *testing.T, l *language) {
		c := start(t, l, options{init: protocol.Init{MaxDisplays: 3, ImageBytes: 1000}})
		var show []string
		for i := range 5 {
			show = append(show, l.display.with(fmt.Sprint(i)))
		}
		d := c.completed(lines(show...))
		check(t, "displays", d.DisplaysTotal, 5)
		for i, m := range c.all("display", d.ID) {
			check(t, "data", m.Data, protocol.Data{"text/html": fmt.Sprint(i)})
		}
		check(t, "sent", len(c.all("display", d.ID)), 3)
		id := c.begin(lines(l.display.with("early"), l.awaitFile.with("go"))) // they come while the run goes on
		c.find(0, func(m *message) bool { return m.Type == "display" && m.ID == id })
		c.write("go", "")
		c.done(id)
		large := c.completed(l.display.with(strings.Repeat("<p>", 2000)))
		check(t, "what is too large", len(c.all("display", large.ID)[0].Data), 0)
	})
}
