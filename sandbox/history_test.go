package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/secrets"
)

func testRun(id, code string) *Run {
	return newRun(context.Background(), &Config{}, id, "s", RunOptions{Language: Python, Code: code, Timeout: time.Minute})
}

func mustOpenJournal(t *testing.T, stateDir string) *journal {
	t.Helper()
	j, err := openJournal(sessionFolder(stateDir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func mustClose(t *testing.T, j *journal) {
	t.Helper()
	if err := j.close(); err != nil {
		t.Errorf("close the journal: %v", err)
	}
}

func mustRead(t *testing.T, stateDir string) []HistoryEntry {
	t.Helper()
	entries, err := ReadHistory(stateDir, "s")
	if err != nil {
		t.Fatal(err)
	}
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
		Artifacts: []Artifact{{Path: "output/a.csv", SizeBytes: 7, Modified: time.UnixMilli(1700000000123)}}, ArtifactsTotal: 3,
		Displays: []Display{
			{Data: map[string][]byte{"image/png": {0, 1, 0xff}}, Path: "output/figure-1.png", SizeBytes: 3, Alt: "a figure"},
			{Data: map[string][]byte{"image/svg+xml": []byte("<svg/>")}},
		}, DisplaysTotal: 5,
		Duration: 1500 * time.Millisecond, VariablesLost: true, Fresh: true, Cause: "memory", Notes: []string{"Something."},
	}
}

func TestAHistoryTellsWhatRan(t *testing.T) {
	dir := t.TempDir()
	j := mustOpenJournal(t, dir)
	first, second, third := testRun("run-1", "1 < 2"), testRun("run-2", "two"), testRun("run-3", "three")
	j.begin(first)
	j.begin(second)
	j.end(second, nil, fault.New(fault.SessionBusy, "Wait.", "Still %d.", 5))
	j.end(first, fullResult("run-1"), nil)
	j.begin(third)
	mustClose(t, j)
	entries := mustRead(t, dir)
	if codes(entries) != "1 < 2 two three" {
		t.Fatalf("got %+v", entries)
	}
	e := entries[0]
	if !reflect.DeepEqual(e.Result, fullResult("run-1")) || e.Ended.IsZero() || !e.Started.Equal(first.created) || e.Timeout != time.Minute || e.Language != Python {
		t.Errorf("the first is %+v\nwith %+v", e, e.Result)
	}
	if e := entries[1]; e.Result != nil || e.Error == nil || e.Error.Code != fault.SessionBusy || e.Error.Message != "Still 5." || e.Error.Hint != "Wait." {
		t.Errorf("the second is %+v", e)
	}
	if e := entries[2]; e.Result != nil || e.Error != nil || !e.Ended.IsZero() {
		t.Errorf("the third is %+v", e)
	}
	found, err := FindHistory(dir, "s", "run-2")
	if err != nil || found == nil || found.Code != "two" || found.Error == nil {
		t.Errorf("found %+v, %v", found, err)
	}
	if found, err := FindHistory(dir, "s", "run-9"); found != nil || err != nil {
		t.Errorf("found %+v, %v", found, err)
	}
}

func TestAHistoryIsNobodyElsesToRead(t *testing.T) {
	dir := t.TempDir()
	mustClose(t, mustOpenJournal(t, dir))
	for path, want := range map[string]os.FileMode{sessionFolder(dir, "s"): 0o700 | os.ModeDir, historyPath(dir, "s"): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
}

func TestASessionWithoutAHistoryHasAnEmptyOne(t *testing.T) {
	if entries, err := ReadHistory(t.TempDir(), "s"); len(entries) != 0 || err != nil {
		t.Errorf("got %v, %v", entries, err)
	}
	if _, err := ReadHistory(t.TempDir(), "../s"); fault.From(err).Code != fault.InvalidSessionID {
		t.Errorf("got %v", err)
	}
}

func TestALaterServerGoesOnWithAHistory(t *testing.T) {
	dir := t.TempDir()
	j := mustOpenJournal(t, dir)
	run := testRun("run-1", "first")
	j.begin(run)
	mustClose(t, j)
	// Its writer was killed in the middle of a line.
	file, err := os.OpenFile(historyPath(dir, "s"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(file, `{"end":{"run_id":"run-1","result":{"sta`)
	file.Close()
	if entries := mustRead(t, dir); codes(entries) != "first" || entries[0].Result != nil {
		t.Errorf("with half a line: %+v", entries)
	}
	j = mustOpenJournal(t, dir)
	j.end(run, &Result{Status: Completed}, nil)
	j.begin(testRun("run-2", "second"))
	mustClose(t, j)
	if entries := mustRead(t, dir); codes(entries) != "first second" || entries[0].Result == nil || entries[0].Result.Status != Completed {
		t.Errorf("afterwards: %+v", entries)
	}
}

func TestTheOldestRunsGo(t *testing.T) {
	dir := t.TempDir()
	j := mustOpenJournal(t, dir)
	j.begin(testRun("run-old", "old"))
	mustClose(t, j)
	var more bytes.Buffer
	for i := range historyRuns - 2 {
		fmt.Fprintf(&more, `{"begin":{"run_id":"run-%d","code":"%d"}}`+"\n", i, i)
	}
	appendTo(t, historyPath(dir, "s"), more.Bytes())
	j = mustOpenJournal(t, dir)
	j.begin(testRun("run-last", "last"))
	mustClose(t, j)
	if entries := mustRead(t, dir); len(entries) != historyRuns || entries[0].Code != "old" {
		t.Errorf("at the limit: %d, the first %+v", len(entries), entries[0])
	}
	j = mustOpenJournal(t, dir)
	one := testRun("run-more", "more")
	j.begin(one)
	j.end(one, &Result{Status: Completed}, nil)
	mustClose(t, j)
	entries := mustRead(t, dir)
	if len(entries) != historyKeepRuns || entries[0].Code == "old" || entries[len(entries)-2].Code != "last" || entries[len(entries)-1].Result == nil {
		t.Errorf("beyond it: %d, from %+v to %+v", len(entries), entries[0], entries[len(entries)-1])
	}
}

func appendTo(t *testing.T, path string, text []byte) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = file.Write(text)
	}
	if err := errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestALargeHistoryKeepsNoImagesAndThenLosesItsOldestRuns(t *testing.T) {
	dir := t.TempDir()
	mustClose(t, mustOpenJournal(t, dir))
	filler := bytes.Repeat([]byte("x"), 1<<20)
	fill := func(mebibytes int) {
		for i := range mebibytes {
			appendTo(t, historyPath(dir, "s"), fmt.Appendf(nil, `{"begin":{"run_id":"filler-%d-%d","code":"%s"}}`+"\n", mebibytes, i, filler))
		}
	}
	record := func(id string) *HistoryEntry {
		j := mustOpenJournal(t, dir)
		run := testRun(id, id)
		j.begin(run)
		j.end(run, fullResult(id), nil)
		mustClose(t, j)
		found, err := FindHistory(dir, "s", id)
		if err != nil || found == nil || found.Result == nil {
			t.Fatalf("%s: %+v, %v", id, found, err)
		}
		return found
	}
	if d := record("small").Result.Displays[0]; len(d.Data["image/png"]) != 3 {
		t.Errorf("while it is small: %+v", d)
	}
	fill(64)
	if d := record("large").Result.Displays; len(d[0].Data) != 0 || d[0].Path == "" || len(d[1].Data) != 1 {
		t.Errorf("when it is large: %+v", d)
	}
	fill(65)
	record("too-large")
	info, err := os.Stat(historyPath(dir, "s"))
	if err != nil || info.Size() > historyKeep+1<<20 {
		t.Errorf("size %d, %v", info.Size(), err)
	}
	if d := record("again").Result.Displays[0]; len(d.Data) != 1 {
		t.Errorf("afterwards: %+v", d)
	}
	if gone, err := FindHistory(dir, "s", "large"); gone != nil || err != nil {
		t.Errorf("an old run: %+v, %v", gone, err)
	}
}

func TestASecretIsNeverOnTheDisk(t *testing.T) {
	const s = "hunter22"
	config := &Config{OutputBytes: 1000, Mask: secrets.New(map[string]string{"KEY": s})}
	dir := t.TempDir()
	j := mustOpenJournal(t, dir)
	over := func(run *Run, res *Result, err error) {
		run.finish(res, err, func(res *Result, err error) { j.end(run, res, err) })
	}
	run := newRun(t.Context(), config, "run-1", "s", RunOptions{Language: Python, Code: "print('" + s + "')"})
	j.begin(run)
	long := strings.Repeat("x", 2000) + s[:4]
	res := fullResult("run-1")
	res.Stdout = Stream{Head: "a " + s + " b" + s[:4], Tail: s[4:] + " c", OmittedBytes: 9, Path: s}
	res.Stderr.Head, res.Cause, res.Value = s, s, &long
	res.Error = &RunError{Name: s, Message: s, Traceback: s[:4] + "…"}
	res.Artifacts[0].Path, res.Notes = "output/"+s, []string{s}
	run.show(Display{Path: s, Alt: s, Data: map[string][]byte{"text/html": []byte("<b>" + s)}}, 1)
	over(run, res, nil)
	other := newRun(t.Context(), config, "run-2", "s", RunOptions{Language: Python, Code: "x"})
	j.begin(other)
	over(other, nil, fault.New(fault.EngineError, s, "%s", s))
	mustClose(t, j)
	text, err := os.ReadFile(historyPath(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{s, s[:4], s[4:]} {
		if bytes.Contains(text, []byte(part)) {
			t.Errorf("%q is in %s", part, text)
		}
	}
	entries := mustRead(t, dir)
	if len(entries) != 2 || string(entries[0].Result.Displays[0].Data["text/html"]) != "<b>[masked: KEY]" {
		t.Errorf("got %+v", entries)
	}
}

func TestRunsThatComeTooFastAreLeftOut(t *testing.T) {
	dir := t.TempDir()
	j := mustOpenJournal(t, dir)
	large := &Result{Status: Completed, Stdout: Stream{Head: strings.Repeat("x", journalQueueBytes+1)}}
	run := testRun("run-1", "x")
	j.begin(run)
	j.end(run, large, nil)
	if err := j.close(); !errors.Is(err, errJournalFull) {
		t.Errorf("got %v", err)
	}
	if entries := mustRead(t, dir); codes(entries) != "x" || entries[0].Result != nil {
		t.Errorf("got %+v", entries)
	}
	j.begin(testRun("run-2", "after the end"))
	if entries := mustRead(t, dir); len(entries) != 1 {
		t.Errorf("after the end: %+v", entries)
	}
}

func TestAHistoryMovesToAnotherSession(t *testing.T) {
	dir := t.TempDir()
	j := mustOpenJournal(t, dir)
	run := testRun("run-1", "x")
	j.begin(run)
	j.end(run, fullResult("run-1"), nil)
	mustClose(t, j)
	from, size, err := OpenHistory(dir, "s")
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	text, err := io.ReadAll(from)
	if err != nil || int64(len(text)) != size {
		t.Fatalf("%d bytes of %d, %v", len(text), size, err)
	}
	// A session that is not ours may have lines that make no sense, or too much of it.
	other := t.TempDir()
	foreign := `{"begin":{"run_id":"../../x"}}` + "\n[]\n" + `{"end":{"run_id":"lost","result":{"status":"odd","displays":[{"path":"../x"}]}}}` + "\n" + string(text)
	m := importer(t, other)
	if err := m.BeginImport("s", strings.NewReader(foreign)); err != nil {
		t.Fatal(err)
	}
	if entries := mustRead(t, other); len(entries) != 1 || !reflect.DeepEqual(entries[0].Result, fullResult("run-1")) {
		t.Errorf("got %+v", entries)
	}
	if keptOnDisk(other, "s") {
		t.Error("half of an import would be taken for a session")
	}
	if _, err := m.CloseSession(t.Context(), "s", true); err != nil || !keptOnDisk(other, "s") {
		t.Errorf("no Manager would find the session: %v", err)
	}
	if _, err := m.CloseSession(t.Context(), "s", false); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(other); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	if _, size, err := OpenHistory(t.TempDir(), "s"); size != 0 || err != nil {
		t.Errorf("where there is none: %d, %v", size, err)
	}
}

func TestAHistoryThatIsTooLargeIsNotImported(t *testing.T) {
	dir := t.TempDir()
	for name, from := range map[string]io.Reader{
		"a line":  endless(strings.Repeat("x", 1<<20)),
		"lines":   endless(strings.Repeat("{}\n", 1000)),
		"in all":  endless("[\"" + strings.Repeat("x", 1<<20) + "\"]\n"),
		"nothing": broken{},
	} {
		if err := importer(t, dir).BeginImport("s", from); err == nil {
			t.Errorf("%s: imported", name)
		} else if name != "nothing" && !errors.Is(err, ErrBadHistory) {
			t.Errorf("%s: %v", name, err)
		}
		if left, _ := os.ReadDir(dir); len(left) != 0 {
			t.Errorf("%s: left %v", name, left)
		}
	}
}

// importer is a manager with nothing on its engine.
func importer(t *testing.T, stateDir string) *Manager {
	config := testConfig(t, newEngine(t))
	config.StateDir = stateDir
	return newTestManager(t, config)
}

// endless repeats itself for ever.
func endless(text string) io.Reader { return &repeated{text, 0} }

type repeated struct {
	text string
	at   int
}

func (r *repeated) Read(p []byte) (int, error) {
	n := copy(p, r.text[r.at:])
	r.at = (r.at + n) % len(r.text)
	return n, nil
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("gone") }

func TestTheHistoryOfASessionInUseIsNotReplaced(t *testing.T) {
	dir := t.TempDir()
	lock, err := takeLock(dir, "s")
	if err != nil {
		t.Fatal(err)
	}
	m := importer(t, dir)
	if err := m.BeginImport("s", strings.NewReader("")); fault.From(err).Code != fault.SessionBusy {
		t.Errorf("open elsewhere: %v", err)
	}
	lock.keep()
	lock.release()
	if err := m.BeginImport("s", strings.NewReader("")); fault.From(err).Code != fault.FileExists {
		t.Errorf("a kept session: %v", err)
	}
}

// Whoever has a run's result may let the server end at once.
func TestARunIsRecordedBeforeAnybodyHasItsResult(t *testing.T) {
	run := testRun("r", "1")
	records := 0
	run.finish(fullResult("r"), nil, func(*Result, error) {
		records++
		if run.over() {
			t.Error("it is over before it is recorded")
		}
	})
	run.finish(fullResult("r"), nil, func(*Result, error) { records++ })
	if !run.over() || records != 1 {
		t.Errorf("over: %v, recorded %d times", run.over(), records)
	}
}
