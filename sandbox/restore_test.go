package sandbox

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/history"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/runs"
)

// keeping is a script of a supervisor that can go back before each run and to each copy. Runs change the file that their
// code names. A run "die" is killed without a copy to go back to, and one that is not over yet goes on.
func keeping(p peer) {
	var runs, copies, looked []string
	p.ready(nil)
	for {
		m, ok := p.next()
		switch {
		case !ok:
			return
		case m.Type == "run" && m.Code == "die":
			p.done(m.ID, map[string]any{"status": "killed", "exit_code": 137, "cause": "memory", "kernel": "dead"})
		case m.Type == "run" && m.Code == "fall back":
			p.done(m.ID, map[string]any{"status": "killed", "exit_code": 137, "cause": "memory", "kernel": "restored"})
		case m.Type == "run" && m.Code != "go on":
			if m.Copy {
				copies = append(copies, m.ID)
			} else if m.Language == "python" {
				runs = append(runs, m.ID)
			}
			if strings.HasPrefix(m.Code, "print") {
				looked = append(looked, m.ID)
			}
			p.done(m.ID, map[string]any{"artifacts": []map[string]any{{"path": m.Code, "size_bytes": 1}}, "artifacts_total": 1, "copied": m.Copy})
			p.say(map[string]any{"type": "twins", "runs": runs, "copies": copies, "why": "a thread of the code runs."})
		case m.Type == "settle":
			p.say(map[string]any{"type": "twins", "runs": runs, "copies": copies, "why": "a thread of the code runs.", "looked": looked})
			p.say(map[string]any{"type": "restored", "id": m.ID})
		case m.Type == "interrupt":
			p.done(m.ID, map[string]any{"status": "cancelled", "exit_code": 130})
		case m.Type == "restore":
			answer, went, stay := map[string]any{"type": "restored", "language": m.Language, "id": m.ID}, []string{}, []map[string]any{}
			for language, run := range m.Languages {
				switch at := slices.Index(runs, run); {
				case at >= 0:
					runs, went = runs[:at], append(went, language)
				case slices.Contains(copies, run):
					copies, went = nil, append(went, language)
				default:
					stay = append(stay, map[string]any{"name": language, "why": "it is too long ago"})
				}
			}
			if answer["went"], answer["stay"] = went, stay; len(went) == 0 {
				answer["error"] = "it is too long ago"
			}
			answer["runs"], answer["copies"] = append([]string{"../x"}, runs...), copies
			p.say(map[string]any{"type": "restored", "id": "forged"})
			p.say(answer)
		}
	}
}

// next returns the server's next message.
func (p peer) next() (m heard, ok bool) {
	body, err := p.Receive()
	return m, err == nil && json.Unmarshal(body, &m) == nil
}

func newKeeping(t *testing.T) (*Manager, Config) {
	t.Helper()
	e := newEngine(t)
	e.play(keeping)
	config := testConfig(t, e)
	config.Kernels[JavaScript] = config.Kernels[Python]
	return newTestManager(t, config), config
}

func restore(m *Manager, session, run string) (*Restoration, error) {
	return m.Restore(context.Background(), WayBack{SessionID: session, RunID: run, Parts: Parts{Variables: true}}, func() {})
}

// linesOf are the first lines of runs.
func linesOf(runs []*RunInfo) string {
	var lines []string
	for _, run := range runs {
		lines = append(lines, run.FirstLine)
	}
	return strings.Join(lines, " ")
}

func wantRestored(t *testing.T, r *Restoration, err error, undone, changed, before string) {
	t.Helper()
	must.OK(t, err)
	if linesOf(r.Undone) != undone || strings.Join(r.Changed, " ") != changed || linesOf(r.Before) != before {
		t.Errorf("undone %q, changed %q, before %q", linesOf(r.Undone), r.Changed, linesOf(r.Before))
	}
}

func TestRestoreUndoesARunAndThoseAfterIt(t *testing.T) {
	m, config := newKeeping(t)
	mustRun(t, m, RunOptions{Code: "a", SessionID: "mine"})
	second := mustRun(t, m, RunOptions{Code: "b", SessionID: "mine"})
	mustRun(t, m, RunOptions{Code: "js", SessionID: "mine", Language: JavaScript})
	mustRun(t, m, RunOptions{Code: "apart", SessionID: "mine", Fresh: true})
	third := mustRun(t, m, RunOptions{Code: "c", SessionID: "mine"})
	r, err := restore(m, "mine", third.RunID)
	wantRestored(t, r, err, "c", "c", "a b apart")
	mustRun(t, m, RunOptions{Code: "b", SessionID: "mine"})
	r, err = restore(m, "", second.RunID) // the session is known by the run
	wantRestored(t, r, err, "b b", "b", "a")
	should.Hold(t, r.SessionID == "mine" && !r.Copy && r.Run.RunID == second.RunID, "restored %+v", r)
	m.Close(t.Context())
	entries, err := runs.ReadHistory(config.StateDir, "mine")
	var undone []string
	for _, e := range entries {
		if e.Undone {
			undone = append(undone, e.Code)
		}
	}
	should.Hold(t, err == nil && slices.Equal(undone, []string{"b", "c", "b"}), "the history has %q as undone, %v", undone, err)
}

// Without a run the last one that is not undone goes, so a chain of undos works to its end.
func TestTheLastRunsAreUndone(t *testing.T) {
	m, _ := newKeeping(t)
	undo := func(steps int) (*Restoration, error) {
		return m.Restore(t.Context(), WayBack{SessionID: "mine", Steps: steps, Parts: Parts{Variables: true}}, func() {})
	}
	for _, code := range []string{"a=1", "b=1", "c=1", "d=1", "e=1", "f=1"} {
		mustRun(t, m, RunOptions{Code: code, SessionID: "mine"})
	}
	mustRun(t, m, RunOptions{Code: "print(a)", SessionID: "mine"})
	mustRun(t, m, RunOptions{Code: "apart", SessionID: "mine", Fresh: true})
	mustRun(t, m, RunOptions{Code: "try", SessionID: "mine", Copy: true})
	for i, test := range []struct {
		steps  int
		undone string
	}{{0, "f=1 print(a)"}, {1, "e=1"}, {2, "c=1 d=1"}} {
		r, err := undo(test.steps)
		if must.OK(t, err); linesOf(r.Undone) != test.undone {
			t.Errorf("%d: it undid %q", i, linesOf(r.Undone))
		}
	}
	_, err := undo(3)
	f := must.Code(t, err, fault.InvalidArgument)
	should.Contain(t, f.Message, "has 2 runs to undo, not 3")
	_, err = m.Restore(t.Context(), WayBack{RunID: "run-none", Own: "mine"}, func() {})
	for _, f := range []*fault.Error{f, must.Code(t, err, fault.RunNotFound)} {
		for line, listed := range map[string]bool{": d=1": false, ": e=1": true, ": print(a)": true, ": apart": true, ": try": true} {
			should.Equal(t, strings.Contains(f.Hint, line), listed, "%s in %s", line, f.Hint)
		}
	}
}

// A run whose files alone were undone has its variables still. They go back with those of a run before it, here as far as its language can.
func TestVariablesOfARunWithoutItsFilesAreUndone(t *testing.T) {
	m, _ := newKeeping(t)
	mustRun(t, m, RunOptions{Code: "a=1", SessionID: "mine"})
	second := mustRun(t, m, RunOptions{Code: "b=1", SessionID: "mine", Language: JavaScript})
	m.all()[0].uses.Mark(history.Mark{Files: map[string]bool{second.RunID: true}})
	r, err := m.Restore(t.Context(), WayBack{SessionID: "mine", Parts: Parts{Variables: true}}, func() {})
	must.OK(t, err)
	should.Equal(t, r.Run.FirstLine, "a=1", "the run before which it is")
	should.Equal(t, r.Stay, "JavaScript: it is too long ago", "what stays")
}

// Two undos at once undo two runs, and a run that is queued behind them is none of theirs.
func TestUndosTakeTurns(t *testing.T) {
	m, config := newKeeping(t)
	for _, code := range []string{"a=1", "b=1", "c=1"} {
		mustRun(t, m, RunOptions{Code: code, SessionID: "mine"})
	}
	undone, queued := make(chan string, 2), make(chan struct{})
	for range 2 {
		go func() {
			r, err := m.Restore(t.Context(), WayBack{SessionID: "mine", Parts: Parts{Variables: true}}, func() { queued <- struct{}{} })
			should.OK(t, err)
			undone <- linesOf(r.Undone)
		}()
		<-queued
	}
	later := mustRun(t, m, RunOptions{Code: "d=1", SessionID: "mine", Language: JavaScript})
	should.Equal(t, <-undone+" "+<-undone, "c=1 b=1", "undone")
	should.Hold(t, !runs.Marks(config.StateDir, "mine").Now().Variables[later.RunID], "the run behind them is undone")
}

// A killed run that changed files is the last one that changed something; one that changed none is not.
func TestAKilledRunIsUndone(t *testing.T) {
	m, _ := newKeeping(t)
	mustRun(t, m, RunOptions{Code: "a=1", SessionID: "mine"})
	mustRun(t, m, RunOptions{Code: "b=1", SessionID: "mine"})
	killed := mustRun(t, m, RunOptions{Code: "fall back", SessionID: "mine"})
	s := m.all()[0]
	s.config.UndoBytes = 1 // the peer tells of no files
	changes := func(added int) string {
		s.uses.History.Did(map[string]history.Did{killed.RunID: {Files: &history.Files{Added: added}}})
		s.uses.History.Flush()
		t, err := s.lastChanges(1, Parts{Variables: true, Files: true})
		return fmt.Sprint(t.run.Code, t.languages, err)
	}
	should.Equal(t, changes(1), "fall backmap[] <nil>", "with a file")
	should.Hold(t, strings.HasPrefix(changes(0), "b=1map[python:"), "without")
}

func TestRestoreGoesToACopy(t *testing.T) {
	m, _ := newKeeping(t)
	mustRun(t, m, RunOptions{Code: "a"})
	apart := mustRun(t, m, RunOptions{Code: "try", Copy: true})
	wantNote(t, apart, "restore_session with run_id "+apart.RunID)
	should.Hold(t, apart.Copy && !apart.VariablesLost, "it came to %+v", apart)
	mustRun(t, m, RunOptions{Code: "b"})
	r, err := restore(m, "", apart.RunID)
	wantRestored(t, r, err, "b", "b", "a b")
	should.Hold(t, r.Copy && linesOf(r.Copies) == "", "restored %+v", r)
	again := mustRun(t, m, RunOptions{Code: "try again", Copy: true})
	mustRun(t, m, RunOptions{Code: "c"})
	r, err = restore(m, "", again.RunID)
	wantRestored(t, r, err, "c", "c", "a b c")
	should.Hold(t, r.Copy, "restored %+v", r)
}

func TestWhatCannotBeRestoredIsRefused(t *testing.T) {
	m, _ := newKeeping(t)
	a := mustRun(t, m, RunOptions{Code: "a"})
	old := mustRun(t, m, RunOptions{Code: "old", Fresh: true})
	if _, err := restore(m, "", old.RunID); err != nil {
		t.Fatal(err) // this supervisor can
	}
	mustRun(t, m, RunOptions{Code: "b", SessionID: "other"})
	for name, test := range map[string]struct {
		session, run string
		code         fault.Code
		says         string
	}{
		"no such run":           {"", "run-none", fault.RunNotFound, "run-none"},
		"no such session":       {"nobodys", a.RunID, fault.SessionNotFound, "nobodys"},
		"a run of another":      {"other", a.RunID, fault.RunNotFound, a.SessionID},
		"a run that is too old": {"", old.RunID, fault.InvalidArgument, "it is too long ago"},
	} {
		f := must.Code(t, should.ErrOf(restore(m, test.session, test.run)), test.code)
		should.Contain(t, f.Message, test.says, "%s", name)
		should.Hold(t, name != "a run that is too old" || strings.Contains(f.Hint, "before "+a.RunID), "%s: it says to %s", name, f.Hint)
	}
	for _, o := range []RunOptions{{Code: "1", Copy: true, Language: JavaScript}, {Code: "1", Copy: true, Fresh: true}} {
		must.Code(t, should.ErrOf(finish(m, o)), fault.InvalidArgument)
	}
}

func TestRestoreStartsNoContainer(t *testing.T) {
	e := newEngine(t)
	e.play(keeping)
	config := testConfig(t, e)
	first := NewManager(config)
	run := mustRun(t, first, RunOptions{Code: "a", SessionID: "mine"})
	first.Close(t.Context())
	e.Kill("csm-host-mine-python")
	_, err := restore(newTestManager(t, config), "", run.RunID)
	if must.Code(t, err, fault.InvalidArgument); len(e.specs()) != 1 {
		t.Errorf("%d containers were started", len(e.specs()))
	}
}

func TestRestoreWaitsItsTurn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m, _ := newKeeping(t)
		a := mustRun(t, m, RunOptions{Code: "a"})
		long, err := m.Run(RunOptions{Code: "go on", Language: Python, Timeout: time.Hour})
		must.OK(t, err)
		_, err = restore(m, "", a.RunID)
		should.Contain(t, must.Code(t, err, fault.SessionBusy).Message, long.ID)
		mustRun(t, m, RunOptions{Code: "try", Copy: true}) // which waits for none
		restored := make(chan error)
		queued := make(chan struct{})
		go func() {
			_, err := m.Restore(t.Context(), WayBack{RunID: a.RunID, Parts: Parts{Variables: true}}, func() { close(queued) })
			restored <- err
		}()
		<-queued
		later := must.Get(m.Run(RunOptions{Code: "b", Language: Python}))(t)
		long.Interrupt()
		should.OK(t, <-restored)
		<-later.Done()
	})
}

// A supervisor that is older than restore, or was replaced, holds nothing up for good.
func TestARestoreThatIsNotAnsweredEnds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := newEngine(t)
		e.play(completing)
		m := newTestManager(t, testConfig(t, e))
		run := mustRun(t, m, RunOptions{Code: "a"})
		must.Code(t, should.ErrOf(restore(m, "", run.RunID)), fault.ExecutionFailed)
		wantValue(t, mustRun(t, m, RunOptions{Code: "b"}), "b")
	})
}

func TestWhatCanBeGoneBackToIsTold(t *testing.T) {
	m, config := newKeeping(t)
	mustRun(t, m, RunOptions{Code: "a", SessionID: "mine"})
	mustRun(t, m, RunOptions{Code: "try", SessionID: "mine", Copy: true})
	const why = "a thread of the code runs"
	told := func() (k KernelInfo) {
		return m.Known()[0].Kernels[0] // a played supervisor counts no files
	}
	must.Soon(t, "it is told", func() bool { return len(told().Copies) > 0 })
	k := told()
	should.Hold(t, linesOf(k.Before) == "a" && linesOf(k.Copies) == "try" && k.NoTwin == why+".", "the kernel is %+v", k)
	beside := must.Get(m.Run(RunOptions{Code: "go on", SessionID: "mine", Language: Python, Copy: true}))(t)
	k = told()
	should.Hold(t, len(k.Beside) == 1 && k.Beside[0].RunID == beside.ID, "beside the kernel is %v", k.Beside)
	beside.Interrupt()
	if res := endOf(t, beside); slices.ContainsFunc(res.Notes, func(n string) bool { return strings.Contains(n, "ran in a copy") }) {
		t.Errorf("a copy that is not kept has %q", res.Notes)
	}
	wantNote(t, mustRun(t, m, RunOptions{Code: "die", SessionID: "mine"}), why)
	back := mustRun(t, m, RunOptions{Code: "fall back", SessionID: "mine"})
	wantNote(t, back, "No newer copy of them was kept: "+why)
	undone := runs.Marks(config.StateDir, "mine").Now()
	should.Hold(t, undone.Variables[back.RunID] && undone.Died[back.RunID], "undone: %v", undone)
}

func endOf(t *testing.T, run *Run) *Result {
	t.Helper()
	<-run.Done()
	res := must.Get(run.Result())(t)
	return res
}

// A restore of files is undone by its own id: then nothing but the runs behind it has gone, and what it took back is there again.
func TestARestoreIsUndone(t *testing.T) {
	e := newEngine(t)
	e.play(func(p peer) {
		p.ready(nil)
		var order []string
		for {
			m, ok := p.next()
			if !ok {
				return
			}
			if m.Type != "run" && m.Type != "restore" {
				continue
			}
			order = append(order, m.ID)
			p.say(map[string]any{"type": "versions", "runs": order})
			if m.Type == "run" {
				p.done(m.ID, nil)
			} else {
				p.say(map[string]any{"type": "restored", "id": m.ID, "run": m.Run, "files": map[string]any{"restored": 1}})
			}
		}
	})
	config := testConfig(t, e)
	config.UndoBytes = 1 << 20
	m := newTestManager(t, config)
	ids := make(map[string]string)
	run := func(code string) { ids[code] = mustRun(t, m, RunOptions{Code: code, SessionID: "mine"}).RunID }
	back := func(id, undone, marked string) string {
		t.Helper()
		r, err := m.Restore(t.Context(), WayBack{SessionID: "mine", RunID: id, Parts: Parts{Files: true}}, func() {})
		must.OK(t, err)
		should.Equal(t, linesOf(r.Undone), undone, "runs")
		marks, found := runs.Marks(config.StateDir, "mine").Now(), ""
		for _, code := range []string{"a", "b", "c", "d"} {
			if marks.Files[ids[code]] {
				found += code
			}
		}
		should.Equal(t, found, marked, "marks")
		return r.Files.RestoreID
	}
	for _, code := range []string{"a", "b", "c"} {
		run(code)
	}
	first := back(ids["b"], "b c", "bc")
	second := back(first, "", "")
	run("d")
	third := back(second, "b c d", "bcd")
	back(third, "", "")
	back(first, "d", "d") // again, whatever came since
}
