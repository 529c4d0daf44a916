//go:build unix

package runs

import (
	"bytes"
	"context"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/secrets"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/history"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

func testRun(id, code string) *Run {
	return NewRun(context.Background(), &Rules{}, id, "s", RunOptions{Language: Python, Code: code, Timeout: time.Minute})
}

// recording is an open history of the session "s".
func recording(t *testing.T, stateDir string) *history.Writer {
	t.Helper()
	w := history.NewWriter(0)
	must.OK(t, should.ErrOf(w.Open(state.Folder(stateDir, "s"))))
	return w
}

func mustClose(t *testing.T, w *history.Writer) {
	t.Helper()
	must.OK(t, w.Close())
}

func mustRead(t *testing.T, stateDir string) []HistoryEntry {
	t.Helper()
	entries := must.Get(ReadHistory(stateDir, "s"))(t)
	return entries
}

func codes(entries []HistoryEntry) string {
	var all []string
	for _, e := range entries {
		all = append(all, e.Code)
	}
	return strings.Join(all, " ")
}

// fullResult has something in every field.
func fullResult(run string) *Result {
	value := "42"
	return &Result{
		SessionID: "s", RunID: run, Language: Python, Status: Failed, ExitCode: 1,
		Stdout: Stream{Head: "one\n", Tail: "last\n", Bytes: 5000, Lines: 90, OmittedBytes: 4991, OmittedLines: 88, Path: ".runs/r.stdout.txt"},
		Stderr: Stream{Head: "careful <b>\n", Bytes: 12, Lines: 1}, Value: &value,
		Error:     &RunError{Name: "ValueError", Message: "bad", Traceback: "Traceback…\nValueError: bad"},
		Artifacts: []Artifact{{Path: "output/a.csv", SizeBytes: 7, ModifiedMS: 1700000000123}}, ArtifactsTotal: 3,
		Displays: []Display{
			{Data: map[string][]byte{"image/png": {0, 1, 0xff}}, Path: "output/figure-1.png", SizeBytes: 3, Alt: "a figure"},
			{Data: map[string][]byte{"image/svg+xml": []byte("<svg/>")}},
		}, DisplaysTotal: 5,
		Duration: 1500 * time.Millisecond, VariablesLost: true, Fresh: true, Cause: "memory", Notes: []string{"Something."},
	}
}

func TestAHistoryTellsWhatRan(t *testing.T) {
	dir := t.TempDir()
	w := recording(t, dir)
	first, second, third := testRun("run-1", "1 < 2"), testRun("run-2", "two"), testRun("run-3", "three")
	recordBegin(w, first)
	recordBegin(w, second)
	recordEnd(w, second.ID, nil, fault.New(fault.SessionBusy, "Wait.", "Still %d.", 5))
	recordEnd(w, first.ID, fullResult("run-1"), nil)
	recordBegin(w, third)
	mustClose(t, w)
	entries := mustRead(t, dir)
	must.Equal(t, codes(entries), "1 < 2 two three", "%+v", entries)
	e := entries[0]
	if !reflect.DeepEqual(e.Result, fullResult("run-1")) || e.Ended.IsZero() || !e.Started.Equal(first.Created) || e.Timeout != time.Minute || e.Language != Python {
		t.Errorf("the first is %+v\nwith %+v", e, e.Result)
	}
	d := decodeDisplay(displayOf(fullResult("run-1").Displays[0], false))
	should.Hold(t, d.Path != "" && len(d.Data) == 0, "where there is no room for images: %+v", d)
	if e := entries[1]; e.Result != nil || e.Error == nil || e.Error.Code != fault.SessionBusy || e.Error.Message != "Still 5." || e.Error.Hint != "Wait." {
		t.Errorf("the second is %+v", e)
	}
	if e := entries[2]; e.Result != nil || e.Error != nil || !e.Ended.IsZero() {
		t.Errorf("the third is %+v", e)
	}
}

func TestASessionWithoutAHistoryHasAnEmptyOne(t *testing.T) {
	entries, err := ReadHistory(t.TempDir(), "s")
	should.Hold(t, len(entries) == 0 && err == nil, "got %v, %v", entries, err)
	if _, err := ReadHistory(t.TempDir(), "../s"); fault.From(err).Code != fault.InvalidSessionID {
		t.Errorf("got %v", err)
	}
}

func TestASecretIsNeverOnTheDisk(t *testing.T) {
	const s = "hunter22"
	config := &Rules{OutputBytes: 1000, Mask: secrets.New(map[string]string{"KEY": s})}
	dir := t.TempDir()
	w := recording(t, dir)
	over := func(run *Run, res *Result, err error) {
		run.Finish(res, err, func(res *Result, err error) { recordEnd(w, run.ID, res, err) })
	}
	run := NewRun(t.Context(), config, "run-1", "s", RunOptions{Language: Python, Code: "print('" + s + "')"})
	recordBegin(w, run)
	long := strings.Repeat("x", 2000) + s[:4]
	res := fullResult("run-1")
	res.Stdout = Stream{Head: "a " + s + " b" + s[:4], Tail: s[4:] + " c", OmittedBytes: 9, Path: s}
	res.Stderr.Head, res.Cause, res.Value = s, s, &long
	res.Error = &RunError{Name: s, Message: s, Traceback: s[:4] + "…"}
	res.Artifacts[0].Path, res.Notes = "output/"+s, []string{s}
	run.show(Display{Path: s, Alt: s, Data: map[string][]byte{"text/html": []byte("<b>" + s)}}, 1)
	over(run, res, nil)
	other := NewRun(t.Context(), config, "run-2", "s", RunOptions{Language: Python, Code: "x"})
	recordBegin(w, other)
	over(other, nil, fault.New(fault.EngineError, s, "%s", s))
	mustClose(t, w)
	from, _, err := history.Export(state.Folder(dir, "s"))
	must.OK(t, err)
	text := must.Get(io.ReadAll(from))(t)
	for _, part := range []string{s, s[:4], s[4:]} {
		should.Hold(t, !bytes.Contains(text, []byte(part)), "%q is in %s", part, text)
	}
	entries := mustRead(t, dir)
	should.Hold(t, len(entries) == 2 && string(entries[0].Result.Displays[0].Data["text/html"]) == "<b>[masked: KEY]", "got %+v", entries)
}

// Whoever has a run's result may let the server end at once.
func TestARunIsRecordedBeforeAnybodyHasItsResult(t *testing.T) {
	run := testRun("r", "1")
	records := 0
	run.Finish(fullResult("r"), nil, func(*Result, error) {
		records++
		should.Hold(t, !run.Over(), "it is over before it is recorded")
	})
	run.Finish(fullResult("r"), nil, func(*Result, error) { records++ })
	if !run.Over() || records != 1 {
		t.Errorf("over: %v, recorded %d times", run.Over(), records)
	}
}
