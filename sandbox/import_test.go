//go:build unix

package sandbox

import (
	"io"
	"os"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/history"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/runs"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

func TestAnImportThatFailsLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	m := importer(t, dir)
	for from, want := range map[io.Reader]error{strings.NewReader(strings.Repeat("{}\n", 40_000)): history.ErrBad, iotest.ErrReader(io.ErrUnexpectedEOF): io.ErrUnexpectedEOF} {
		should.Be(t, m.BeginImport("s", from), want)
		if left, _ := os.ReadDir(dir); len(left) != 0 {
			t.Errorf("left %v", left)
		}
	}
}

// importer is a manager with nothing on its engine.
func importer(t *testing.T, stateDir string) *Manager {
	config := testConfig(t, newEngine(t))
	config.StateDir = stateDir
	return newTestManager(t, config)
}

func TestTheHistoryOfASessionInUseIsNotReplaced(t *testing.T) {
	dir := t.TempDir()
	lock, err := state.Take(dir, "s")
	must.OK(t, err)
	m := importer(t, dir)
	if err := m.BeginImport("s", strings.NewReader("")); fault.From(err).Code != fault.SessionBusy {
		t.Errorf("open elsewhere: %v", err)
	}
	must.OK(t, lock.Keep())
	lock.Release()
	if err := m.BeginImport("s", strings.NewReader("")); fault.From(err).Code != fault.FileExists {
		t.Errorf("a kept session: %v", err)
	}
}

func TestAHistoryMovesToAnotherSession(t *testing.T) {
	dir := t.TempDir()
	config := testConfig(t, completingEngine(t))
	config.StateDir = dir
	config.Keep = time.Hour
	first := NewManager(config)
	mustRun(t, first, RunOptions{SessionID: "s", Code: "x"})
	if !first.Close(t.Context()) {
		t.Fatal("it did not close")
	}
	was, err := runs.ReadHistory(dir, "s")
	if err != nil || len(was) != 1 {
		t.Fatalf("got %+v, %v", was, err)
	}
	from, _, err := history.Export(state.Folder(dir, "s"))
	must.OK(t, err)
	defer from.Close()
	text, err := io.ReadAll(from)
	must.OK(t, err)
	// A session that is not ours may have lines that make no sense, or too much of it.
	other := t.TempDir()
	foreign := `{"begin":{"run_id":"../../x"}}` + "\n[]\n" + `{"end":{"run_id":"lost","result":{"status":"odd","displays":[{"path":"../x"}]}}}` + "\n" + string(text)
	m := importer(t, other)
	must.OK(t, m.BeginImport("s", strings.NewReader(foreign)))
	if entries, err := runs.ReadHistory(other, "s"); err != nil || len(entries) != 1 || !reflect.DeepEqual(entries[0].Result, was[0].Result) {
		t.Errorf("got %+v, %v", entries, err)
	}
	if state.IsKept(other, "s") {
		t.Error("half of an import would be taken for a session")
	}
	if _, err := m.CloseSession(t.Context(), "s", true); err != nil || !state.IsKept(other, "s") {
		t.Errorf("no Manager would find the session: %v", err)
	}
	must.OK(t, should.ErrOf(m.CloseSession(t.Context(), "s", false)))
	if left, _ := os.ReadDir(other); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}
