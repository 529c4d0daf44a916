//go:build unix

package e2e

import (
	"regexp"
	"strings"
	"testing"
)

// Files go back to before a run of another language, and the undoing is undone.
func TestFilesAreUndone(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	const id = "e2e-undo"
	s.complete(python, object{"session_id": id, "code": "kept = 7\nopen('results.csv', 'w').write('gold')"})
	run := s.call("run_bash", object{"session_id": id, "code": "rm results.csv; mkdir made"}).Meta.Run.RunID
	eventually(t, "the files from before are known", func() (bool, string) {
		info := s.call("session_info", object{"session_id": id}).text()
		_, versions, _ := strings.Cut(info, `"versions"`)
		return strings.Contains(versions, run), info
	})
	s.call("read_artifact", object{"session_id": id, "path": "results.csv@" + run}).wantText(t, "gold")
	s.call("read_artifact", object{"session_id": id, "path": "other.csv@" + run}).wantText(t, "not_found", `There was no file "other.csv" before `+run)
	back := s.call("restore_session", object{"run_id": run, "variables": false})
	back.wantText(t, "files of session "+id+" are as before "+run, "1 files restored, 0 removed")
	s.call("run_bash", object{"session_id": id, "code": "cat results.csv; ls -d made"}).wantText(t, "gold", "cannot access 'made'")
	again := regexp.MustCompile(`restore-\w+`).FindString(back.text())
	s.call("restore_session", object{"run_id": again}).wantText(t, "0 files restored, 1 removed")
	s.call("restore_session", object{"run_id": run, "files": false, "variables": false}).wantText(t, "invalid_argument", "nothing is restored")
}
