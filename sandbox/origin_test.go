package sandbox

import (
	"context"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/runs"
)

func TestWhereVariablesCameFromIsTold(t *testing.T) {
	noon := time.Date(2026, 11, 24, 12, 5, 0, 0, time.Local).UnixMilli()
	lost := []any{map[string]any{"name": "f", "why": "an open file"}, map[string]any{"name": "gen", "why": "a generator"}}
	var many []any
	for range 500 {
		many = append(many, map[string]any{"name": strings.Repeat("x", 5000) + "\x1b", "why": "a\nlock"})
	}
	for name, test := range map[string]struct {
		done map[string]any
		want string
	}{
		"the file": {map[string]any{"origin": map[string]any{"from": "frozen", "variables": 12, "at_ms": noon}},
			"12 variables are back as they were on 24 November 2026 at 12:05."},
		"without some": {map[string]any{"origin": map[string]any{"from": "frozen", "variables": 1, "at_ms": noon, "lost": lost, "lost_total": 5}},
			"1 variable is back as it was on 24 November 2026 at 12:05 (not kept: f, an open file; gen, a generator; and 3 more)."},
		"by reason": {map[string]any{"origin": map[string]any{"from": "frozen", "variables": 2, "at_ms": noon,
			"lost": []any{lost[0], lost[1], map[string]any{"name": "g", "why": "an open file"}}, "doubtful": []any{map[string]any{"name": "df", "why": "pandas was 2.3, and is 3.1"}}}},
			"2 variables are back as they were on 24 November 2026 at 12:05 (not kept: f and g, an open file; gen, a generator)." +
				" Look before you rely on what other versions have made: df, pandas was 2.3, and is 3.1."},
		"a file that cannot be read": {map[string]any{"origin": map[string]any{"from": "frozen", "at_ms": noon, "error": "it is cut short"}},
			"The variables as they were on 24 November 2026 at 12:05 could not be read: it is cut short. They are gone, the files are there."},
		"a file of which nothing is known": {map[string]any{"origin": map[string]any{"from": "frozen", "error": "it is cut short"}},
			"The variables that were written could not be read: it is cut short. They are gone, the files are there."},
		"a copy": {map[string]any{"kernel": "restored", "status": "killed", "origin": map[string]any{"from": "twin", "run": "run-abc", "lost": lost[:1]}},
			"The variables are as they were after run-abc, not as the runs between have left them (not kept: f, an open file)."},
		"a copy, between runs": {map[string]any{"origin": map[string]any{"from": "twin", "run": "run-abc"}},
			"The kernel had ended since the last run; the variables are as they were after run-abc."},
		"memory": {map[string]any{"memory": map[string]any{"used_bytes": 930 << 20, "limit_bytes": 1 << 30,
			"largest": []any{map[string]any{"name": "df", "size_bytes": 600 << 20}}}},
			"The session had 930 of 1024 MiB in use; the largest variables: df 600 MiB."},
		"forged": {map[string]any{"origin": map[string]any{"from": "\x1b", "variables": -1, "at_ms": 1 << 62, "lost": many, "lost_total": -1, "doubtful": many}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEngine(t)
			e.play(hostileTo(func(p peer, run heard) {
				p.done(run.ID, test.done)
				p.stay()
			}))
			res := mustRun(t, newTestManager(t, testConfig(t, e)), RunOptions{Code: "1"})
			should.Hold(t, (test.want == "" || slices.Equal(res.Notes, []string{test.want})) && !res.VariablesLost, "told %q", res.Notes)
			said := res.Notes[0]
			should.Hold(t, len(said) <= 4000 && !strings.ContainsAny(said, "\x1b\n"), "told %d bytes", len(said))
		})
	}
}

// A twin may be older than the run before: an answer must not say then that nothing but this run is undone.
func TestBetween(t *testing.T) {
	twin, run := &Run{ID: "run-a", Language: Python}, &Run{ID: "run-d", Language: Python}
	beside := &Run{ID: "run-b", Language: Python, Options: RunOptions{Fresh: true}}
	for name, test := range map[string]struct {
		runs []*Run
		want int
	}{
		"the run before":     {[]*Run{twin, beside, {Language: JavaScript}, run}, 0},
		"one that is older":  {[]*Run{twin, {ID: "run-c", Language: Python}, run}, 1},
		"one that is forgot": {[]*Run{beside, run}, 1},
	} {
		should.Equal(t, (&runs.Usage{Runs: test.runs}).Between("run-a", run), test.want, "%s", name)
	}
}

// A kernel that was killed has written nothing of its last runs.
func TestThatVariablesAreOldIsTold(t *testing.T) {
	e := newEngine(t)
	old := time.Now().Add(-time.Minute).UnixMilli()
	e.play(func(p peer) {
		p.ready(nil)
		for run, ok := p.hear("run"); ok; run, ok = p.hear("run") {
			p.done(run.ID, map[string]any{"origin": map[string]any{"from": "frozen", "variables": 2, "at_ms": old}})
		}
	})
	config := testConfig(t, e)
	m := newTestManager(t, config)
	for i, want := range []string{"", "before it could write what later runs have changed.", "before it could write what later runs have changed."} {
		if i == 2 { // which only the history knows of
			m.Close(context.Background())
			m = newTestManager(t, config)
		}
		res := mustRun(t, m, RunOptions{Code: "1", SessionID: "mine"})
		if len(res.Notes) != 1 || want != "" && !strings.HasSuffix(res.Notes[0], want) || want == "" && strings.Contains(res.Notes[0], "later runs") {
			t.Errorf("run %d told %q", i+1, res.Notes)
		}
	}
}

func TestPathsOfVersions(t *testing.T) {
	for path, want := range map[string][2]string{
		"f@run-abc": {"f", "run-abc"}, "a@b/f.x@restore-abc": {"a@b/f.x", "restore-abc"}, "f@run-a@run-b": {"f@run-a", "run-b"},
		"f": {"f", ""}, "f@": {"f@", ""}, "@run-abc": {"@run-abc", ""}, "f@example.com": {"f@example.com", ""}, "f@run-a/g": {"f@run-a/g", ""},
	} {
		name, run := splitVersion(path)
		should.Hold(t, name == want[0] && run == want[1], "%q is %q and %q", path, name, run)
	}
}

func TestTheFileThatIsMeant(t *testing.T) {
	files := []string{"output/report.csv", "input/sales.csv", "input/2024/Sales.csv", "input/2025/sales.csv", "input/Zu\u0308rich.csv", "presales.csv"}
	for asked, want := range map[string]string{
		"sales.csv":                        "input/sales.csv",
		"/mnt/data/sales.csv":              "input/sales.csv",
		"/mnt/user-data/uploads/sales.csv": "input/sales.csv",
		"./data/2025/sales.csv":            "input/2025/sales.csv",
		"2024/sales.csv":                   "input/2024/Sales.csv",
		`C:\Users\me\REPORT.CSV`:           "output/report.csv",
		"z\u00fcrich.csv":                  "input/Zu\u0308rich.csv",
		"les.csv":                          "",
		"input":                            "",
		"":                                 "",
	} {
		var found string
		most := 0
		for _, file := range files {
			if n := likeness(file, asked); n > most {
				found, most = file, n
			}
		}
		should.Hold(t, found == want, "%q: got %q, want %q", asked, found, want)
	}
}

// said is a program that answers with a text, whatever it is asked.
type said struct {
	engine.Process
	io.Reader
}

func (s said) Read(p []byte) (int, error)  { return s.Reader.Read(p) }
func (s said) Write(p []byte) (int, error) { return len(p), nil }

func TestAnswersOfTheDocumentProgram(t *testing.T) {
	for text, want := range map[string]fault.Code{
		"WARNING: odd\n{}":  fault.InvalidContent,
		`{"text": 1}`:       fault.InvalidContent,
		"":                  fault.ArtifactTooLarge, // it was killed
		`{"error": "more"}`: fault.ArtifactTooLarge,
	} {
		a, _ := askDocument(said{Reader: strings.NewReader(text)}, "a.xls", "x/y", 10)
		got := a.fault(File{Path: "a.xls"}, "x/y")
		should.Hold(t, got.Code == want, "%q: %v", text, got)
	}
}

func TestWatchTellsOfSessions(t *testing.T) {
	config := testConfig(t, newEngine(t))
	config.Prewarm = []Language{Python}
	m := newTestManager(t, config)
	heard := make(chan struct{}, 16)
	m.Watch(func() { heard <- struct{}{} })
	m.Prewarm() // is nothing to hear of
	should.Len(t, m.Known(), 0, "known")
	mustRun(t, m, RunOptions{Code: "1", SessionID: "watched"})
	<-heard
	known := m.Known()
	should.Hold(t, len(known) == 1 && known[0].ID == "watched" && known[0].SizeBytes == nil, "known: %+v", known)
	must.OK(t, should.ErrOf(m.CloseSession(t.Context(), "watched", false)))
	<-heard
	should.Len(t, m.Known(), 0, "known")
}
