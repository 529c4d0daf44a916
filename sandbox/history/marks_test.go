package history

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

// Many marks are summed up: what is undone now, and at each checkpoint, is the same.
func TestMarksAreBounded(t *testing.T) {
	folder := t.TempDir()
	write(t, folder, "run-1!", "run-2!", "run-3!")
	must.OK(t, AddMark(folder, Mark{By: "restore-0", Variables: map[string]bool{"run-1": true, "run-gone": true}, Files: map[string]bool{"run-1": true}}))
	for n := range 2 * mostMarks {
		must.OK(t, AddMark(folder, Mark{Kept: fmt.Sprint("name ", n%20)}))
		must.OK(t, AddMark(folder, Mark{By: fmt.Sprint("restore-", n+1), After: "run-3", Variables: map[string]bool{"run-2": n%2 == 0}}))
	}
	must.OK(t, AddMark(folder, Mark{By: "run-3", Variables: map[string]bool{"run-3": true}}))
	m := ReadMarks(folder)
	should.Hold(t, len(m) <= mostMarks, "%d marks", len(m))
	now := m.Now()
	should.Equal(t, fmt.Sprint(now.Variables, now.Files, now.Died), "map[run-1:true run-2:false run-3:true] map[run-1:true] map[run-1:false run-2:false run-3:true]", "now")
	for n := range 20 {
		should.Equal(t, m.Behind(fmt.Sprint("name ", n)).Variables["run-2"], n%2 == 1, "at checkpoint %d", n)
	}
	then, after, found := m.Before(fmt.Sprint("restore-", 2*mostMarks))
	should.Hold(t, found && after == "run-3" && then.Variables["run-2"], "before the last: %v", then)
}

// Marks of the form of before are read, and written in the new one.
func TestEarlierMarksAreRead(t *testing.T) {
	folder := t.TempDir()
	old := map[string]bool{
		"run-1": true, "files of run-1": true, "run-2": false, "restore-a undid run-1": true, "restore-a is behind run-2": true,
		`checkpoint "a \"b\" undid c" undid run-2`: true, `checkpoint "a \"b\" undid c" undid files of run-1`: false,
	}
	content, _ := json.Marshal(old)
	put(t, filepath.Join(folder, earlierFile), string(content))
	for range 2 {
		m := ReadMarks(folder)
		now, at := m.Now(), m.Behind(`a "b" undid c`)
		should.Equal(t, fmt.Sprint(now.Variables, now.Files), "map[run-1:true run-2:false] map[run-1:true]", "now")
		should.Equal(t, fmt.Sprint(at.Variables, at.Files), "map[run-1:false run-2:true] map[run-1:false]", "at the checkpoint")
		then, after, found := m.Before("restore-a")
		should.Hold(t, found && after == "run-2" && !then.Files["run-1"], "before the restore: %v", then)
		must.OK(t, AddMark(folder, Mark{By: "restore-b"}))
	}
	left, _ := filepath.Glob(filepath.Join(folder, "*.json*"))
	should.Equal(t, strings.Join(left, " "), filepath.Join(folder, marksFile), "files")
}

// What is known of the last runs stays as more follow.
func TestTheLastRunsAreKnown(t *testing.T) {
	folder := t.TempDir()
	w, _ := writing(t, folder)
	for n := range maxDid + 10 {
		id := fmt.Sprintf("run-%04d", n)
		w.Begin(begin(id))
		w.Did(map[string]Did{id: {Looked: true}})
		w.Did(map[string]Did{id: {Files: &Files{Added: n}}})
	}
	w.Flush()
	did := ReadDid(folder)
	should.Hold(t, len(did) <= maxDid && len(did) >= keepDid, "%d are known", len(did))
	last := did[fmt.Sprintf("run-%04d", maxDid+9)]
	should.Hold(t, last.Looked && last.Files != nil && last.Added == maxDid+9, "the last: %+v", last)
	mustClose(t, w)
}
