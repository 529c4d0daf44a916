package history

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

var then = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func begin(id string) Begin {
	return Begin{RunID: id, Language: "python", Fresh: true, TimeoutMS: 5, Started: then, Code: "1 < 2 " + id}
}

func end(id string) End {
	return End{RunID: id, Ended: then, Result: []byte(`{"head":"<` + id + `>"}`)}
}

// writing is an open writer, and what earlier ones have left without an end.
func writing(t *testing.T, folder string) (*Writer, []string) {
	t.Helper()
	w := NewWriter(0)
	unfinished := must.Get(w.Open(folder))(t)
	return w, ids(unfinished)
}

func mustClose(t *testing.T, w *Writer) {
	t.Helper()
	must.OK(t, w.Close())
}

// write has a writer of its own begin some runs, and end those whose id has a mark behind it.
func write(t *testing.T, folder string, runs ...string) {
	t.Helper()
	w, _ := writing(t, folder)
	for _, run := range runs {
		id, over := strings.CutSuffix(run, "!")
		w.Begin(begin(id))
		if over {
			w.End(0, func(bool) (End, error) { return end(id), nil })
		}
	}
	mustClose(t, w)
}

func ids(runs []Run) []string {
	var list []string
	for _, run := range runs {
		id := run.RunID
		if run.End != nil {
			id += "!"
		}
		list = append(list, id)
	}
	return list
}

func wantRuns(t *testing.T, folder string, want ...string) {
	t.Helper()
	runs, err := Select(folder, func(string, bool, int64) bool { return true })
	got := ids(runs)
	should.Hold(t, err == nil && slices.Equal(got, want), "the runs are %q, not %q: %v", got, want, err)
}

func names(t *testing.T, folder string) []string {
	t.Helper()
	entries := must.Get(os.ReadDir(filepath.Join(folder, runsFolder)))(t)
	var list []string
	for _, entry := range entries {
		list = append(list, entry.Name())
	}
	return list
}

func put(t *testing.T, path, content string) {
	t.Helper()
	must.OK(t, os.WriteFile(path, []byte(content), 0o600))
}

func TestARunIsOneFile(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "s")
	write(t, folder, "run-1!", "run-2", "run-3!")
	wantRuns(t, folder, "run-1!", "run-2", "run-3!")
	should.EqualSlice(t, names(t, folder), []string{"00000000-run-1.over", "00000001-run-2.begun", "00000002-run-3.over"}, "the files")
	want := end("run-1")
	run, err := Find(folder, "run-1")
	should.Hold(t, err == nil && reflect.DeepEqual(run, &Run{begin("run-1"), &want}), "found %+v, %v", run, err)
	run, err = Find(folder, "run")
	should.Hold(t, run == nil && err == nil, "found %+v, %v", run, err)
	for path, want := range map[string]os.FileMode{"": 0o700 | os.ModeDir, runsFolder: 0o700 | os.ModeDir, runsFolder + "/00000000-run-1.over": 0o600} {
		if info, err := os.Stat(filepath.Join(folder, path)); err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
}

func TestWhereThereIsNoHistory(t *testing.T) {
	wantRuns(t, t.TempDir())
	run, err := Find(t.TempDir(), "run-1")
	should.Hold(t, run == nil && err == nil, "found %+v, %v", run, err)
	from, size, err := Export(t.TempDir())
	must.Hold(t, err == nil && size == 0, "exported %d bytes, %v", size, err)
	text, err := io.ReadAll(from)
	should.Hold(t, len(text) == 0 && err == nil, "exported %q, %v", text, err)
}

func TestALaterWriterGoesOn(t *testing.T) {
	folder := t.TempDir()
	write(t, folder, "run-1!", "run-2", "run-3")
	w, unfinished := writing(t, folder)
	should.EqualSlice(t, unfinished, []string{"run-2", "run-3"}, "unfinished")
	w.Begin(begin("run-4"))
	for _, id := range []string{"run-3", "run-9"} { // of one that it does not know, too
		w.End(0, func(bool) (End, error) { return end(id), nil })
	}
	mustClose(t, w)
	wantRuns(t, folder, "run-1!", "run-2", "run-3!", "run-4")
}

func TestWhatIsWrittenBeforeAWriterIsOpenIsKept(t *testing.T) {
	folder := t.TempDir()
	write(t, folder, "run-1")
	w := NewWriter(0)
	w.Begin(begin("run-2"))
	w.End(0, func(bool) (End, error) { return end("run-2"), nil })
	if unfinished, err := w.Open(folder); err != nil || !slices.Equal(ids(unfinished), []string{"run-1"}) {
		t.Errorf("unfinished: %q, %v", ids(unfinished), err)
	}
	mustClose(t, w)
	wantRuns(t, folder, "run-1", "run-2!")
	w = NewWriter(0)
	w.Begin(begin("run-3"))
	mustClose(t, w) // one that was never opened
}

func TestAKilledWriterAndABrokenFileCostNoOtherRun(t *testing.T) {
	folder := t.TempDir()
	dir := filepath.Join(folder, runsFolder)
	write(t, folder, "run-1!", "run-2!", "run-3!", "run-4", "run-5!")
	for name, content := range map[string]string{
		"00000000-run-1.over":       "",                                                        // the machine lost power
		"00000001-run-2.over":       `{"begin":{"run_id":"run-2"}}` + "\n" + `{"end":{"run_id`, // likewise
		"00000002-run-3.over":       `{"begin":{"run_id":"run-0"}}`,
		"00000004-run-5.begun":      `{"begin":{"run_id":"run-5"}}`, // killed before it was removed
		"00000003-run-4.over.new":   `{"begin":{"run_`,              // killed before it was renamed
		"what is not ours":          "",
		"99-run-6.begun":            "",
		"00000007-run-7-and-a-half": "",
	} {
		put(t, filepath.Join(dir, name), content)
	}
	wantRuns(t, folder, "run-4", "run-5!")
	w, unfinished := writing(t, folder)
	should.EqualSlice(t, unfinished, []string{"run-4"}, "unfinished")
	w.Begin(begin("run-8"))
	w.End(0, func(bool) (End, error) { return end("run-4"), nil })
	mustClose(t, w)
	wantRuns(t, folder, "run-4!", "run-5!", "run-8")
	left := names(t, folder)
	should.Hold(t, !slices.ContainsFunc(left, func(name string) bool { return strings.HasSuffix(name, ".new") }), "left: %q", left)
}

func TestTheOldestRunsGo(t *testing.T) {
	folder := t.TempDir()
	write(t, folder, "run-old!", "run-older")
	for i := range maxRuns - 2 {
		put(t, filepath.Join(folder, runsFolder, file{number: i + 2, runID: fmt.Sprint("run-", i)}.name()), "x")
	}
	w, _ := writing(t, folder)
	w.Begin(begin("run-last"))
	w.End(0, func(bool) (End, error) { return end("run-last"), nil })
	w.End(0, func(bool) (End, error) { return end("run-older"), nil }) // gone by then
	mustClose(t, w)
	if got := names(t, folder); len(got) != keepRuns || got[0] != "00002501-run-2499.begun" || got[len(got)-1] != "00010000-run-last.over" {
		t.Errorf("%d files, from %s to %s", len(got), got[0], got[len(got)-1])
	}
}

func TestALargeHistoryKeepsNoImagesAndThenLosesItsOldestRuns(t *testing.T) {
	folder := t.TempDir()
	write(t, folder)
	sparse := func(number int, size int64) {
		path := filepath.Join(folder, runsFolder, file{number: number, runID: "run-filler", over: true}.name())
		put(t, path, "")
		must.OK(t, os.Truncate(path, size))
	}
	var wanted []bool
	record := func(id string) {
		w, _ := writing(t, folder)
		w.Begin(begin(id))
		w.End(0, func(images bool) (End, error) {
			wanted = append(wanted, images)
			return end(id), nil
		})
		mustClose(t, w)
	}
	record("run-small")
	sparse(10, imageBytes(maxBytes))
	record("run-large")
	sparse(20, maxBytes-imageBytes(maxBytes))
	record("run-too-large")
	record("run-again")
	should.Hold(t, slices.Equal(wanted, []bool{true, false, true, true}), "images were wanted: %v", wanted)
	wantRuns(t, folder, "run-too-large!", "run-again!")
}

func TestRunsThatComeTooFastAreLeftOut(t *testing.T) {
	folder := t.TempDir()
	w, _ := writing(t, folder)
	w.Begin(begin("run-1"))
	w.End(queueBytes+1, func(bool) (End, error) { return end("run-1"), nil })
	should.Be(t, w.Close(), errFull)
	w.Begin(begin("run-2")) // after the end
	wantRuns(t, folder, "run-1")
	w = NewWriter(0)
	for range queueLength + 1 {
		w.Begin(begin("run-3"))
	}
	should.Be(t, w.Close(), errFull)
}

func TestAHistoryMovesToAnotherSession(t *testing.T) {
	folder, other := t.TempDir(), t.TempDir()
	write(t, folder, "run-1!", "run-2")
	from, size, err := Export(folder)
	must.OK(t, err)
	w, _ := writing(t, folder) // its end comes meanwhile
	w.End(0, func(bool) (End, error) { return end("run-2"), nil })
	mustClose(t, w)
	text, err := io.ReadAll(from)
	must.Hold(t, err == nil && int64(len(text)) == size, "%d bytes of %d, %v", len(text), size, err)
	foreign := `{"begin":{"run_id":"../../x"}}` + "\n[]\n" + `{"end":{"run_id":"lost","result":{}}}` + "\n" + string(text) + string(text)
	must.OK(t, Import(other, strings.NewReader(foreign)))
	wantRuns(t, other, "run-1!", "run-2")
}

// endless repeats a text for ever.
type endless struct {
	text string
	at   int
}

func (r *endless) Read(p []byte) (int, error) {
	n := copy(p, r.text[r.at:])
	r.at = (r.at + n) % len(r.text)
	return n, nil
}

func TestAHistoryThatIsTooLargeIsNotImported(t *testing.T) {
	for name, text := range map[string]string{
		"a line": strings.Repeat("x", 1<<20), "lines": strings.Repeat("{}\n", 1000), "in all": "[\"" + strings.Repeat("x", 1<<20) + "\"]\n",
	} {
		should.Be(t, Import(t.TempDir(), &endless{text, 0}), ErrBad, "%s", name)
	}
}

// FuzzImport imports a history that anybody could have written. What was read is the same when it is exported and
// imported again.
func FuzzImport(f *testing.F) {
	for _, seed := range []string{
		`{"begin":{"run_id":"run-1","language":"python","fresh":true,"timeout_ms":5,"started":"2026-01-02T03:04:05Z","code":"1 < 2"}}` + "\n[]\n" + `{"end":{"run_id":"run-1","result":{"hea`, `{"end":{"run_id":"r","fault":{"code":"x","message":"y","hint":"z"}}}`, `{"begin":{"run_id":"../x"}}`,
		`{"begin":{"run_id":"r"},"end":{"run_id":"r"}}`, `{"begin":{"run_id":"r","started":"x"}}`, "{\"begin\":{\"run_id\":\"r\"\n\n{}",
		`{"begin":{"run_id":"r"}}` + "\n" + `{"end":{"run_id":"r","result":{"a":[1,"\u2028"]}}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		first, second := t.TempDir(), t.TempDir()
		if Import(first, bytes.NewReader(text)) != nil {
			return
		}
		from, _, err := Export(first)
		must.OK(t, err)
		must.OK(t, Import(second, from))
		a, err1 := Select(first, func(string, bool, int64) bool { return true })
		b, err2 := Select(second, func(string, bool, int64) bool { return true })
		err = errors.Join(err1, err2)
		should.Hold(t, err == nil && reflect.DeepEqual(a, b), "%v: what was imported is\n%+v\nand again\n%+v", err, a, b)
		files := names(t, first)
		should.Hold(t, len(files) == len(a), "%d runs are in %q", len(a), files)
	})
}
