//go:build unix

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// ends are the ways in which a client's server goes.
var ends = map[string]func(*server){
	"in order": (*server).end,
	"killed":   (*server).kill,
}

// The next server goes on with the variables, in both languages.
func TestVariablesOutliveTheServer(t *testing.T) {
	t.Parallel()
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			id := "e2e-lasting-" + strings.Fields(name)[0]
			first := start(t, setup{stateDir: dir})
			first.complete(python, object{"session_id": id, "code": "x = 41\nimport math\nopen('kept.txt', 'w').write('still here')"})
			first.complete(javascript, object{"session_id": id, "code": "const y = 5"})
			end(first)
			for n := range 2 { // once more, since a take-over must itself be taken over
				next := start(t, setup{stateDir: dir})
				res := next.complete(python, object{"session_id": id, "code": "x += 1; x, math.floor(2.5), open('kept.txt').read()"})
				if got, want := res.Meta.Run.value(), []string{"(42, 2, 'still here')", "(43, 2, 'still here')"}[n]; got != want {
					t.Errorf("Python has %s", res.text())
				}
				if res := next.complete(javascript, object{"session_id": id, "code": "y"}); res.Meta.Run.value() != "5" {
					t.Errorf("JavaScript has %s", res.text())
				}
				if n == 0 {
					end(next)
					continue
				}
				next.call("close_session", object{"session_id": id})
				if h := mustHold(t, []string{id}); !h.empty() {
					t.Errorf("a closed session still has %s", sprint(h))
				}
			}
		})
	}
}

// Where the container has ended meanwhile, the files are there and the answer says what is gone.
func TestFilesOutliveTheContainer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const id = "e2e-lasting-files"
	first := start(t, setup{stateDir: dir})
	first.complete(python, object{"session_id": id, "code": "x = 1\nopen('kept.txt', 'w').write('still here')"})
	first.end()
	h := mustHold(t, []string{id})
	if len(h.Volumes) != 1 || len(h.Containers) != 1 {
		t.Fatalf("kept of a named session: %s", sprint(h))
	}
	if _, err := podman("kill", h.Containers[0]); err != nil {
		t.Fatal(err)
	}
	second := start(t, setup{stateDir: dir})
	second.call("list_artifacts", object{"session_id": id}) // before any code runs
	res := second.complete(python, object{"session_id": id, "code": "'x' in globals(), open('kept.txt').read()"})
	if got := res.Meta.Run.value(); got != "(False, 'still here')" {
		t.Errorf("got %s", got)
	}
	res.wantText(t, "variables", "are gone")
	second.call("close_session", object{"session_id": id})
}

// A server with other limits does not go on with a container that was made with the old ones.
func TestOtherSettingsBeginAnew(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const id = "e2e-lasting-settings"
	first := start(t, setup{stateDir: dir})
	first.complete(python, object{"session_id": id, "code": "x = 1"})
	first.end()
	second := start(t, setup{stateDir: dir, args: []string{"--pass-through-env", "LASTING"}, env: []string{"LASTING=changed-value"}})
	res := second.complete(python, object{"session_id": id, "code": "import os; 'x' in globals(), len(os.environ['LASTING'])"})
	if got := res.Meta.Run.value(); got != "(False, 13)" {
		t.Errorf("got %s", got)
	}
	res.wantText(t, "settings or secrets have changed")
	second.call("close_session", object{"session_id": id})
}

func TestASessionIsOpenInOneServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const id = "e2e-lasting-busy"
	a, b := start(t, setup{stateDir: dir}), start(t, setup{stateDir: dir})
	a.complete(python, object{"session_id": id, "code": "x = 1"})
	for _, call := range []struct {
		tool string
		args object
	}{
		{python, object{"session_id": id, "code": "1"}},
		{"close_session", object{"session_id": id}},
	} {
		b.call(call.tool, call.args).wantCode(t, "session_busy")
	}
	if info := b.sessionInfo(id); info.Owner != "another server" {
		t.Errorf("another server's session: %s", sprint(info))
	}
	b.py("1")
	waiting := b.beginCall(python, object{"session_id": id, "code": "1"})
	b.py("2")
	if !waiting.pending() {
		t.Error("a run of another session has waited as well")
	}
	waiting.result().wantCode(t, "session_busy")
	a.end()
	if info := b.sessionInfo(id); info.Owner != "none" || len(info.Kernels) != 1 || info.Kernels[0].State != "kept" {
		t.Errorf("after the first server's end: %s", sprint(info))
	}
	a = start(t, setup{stateDir: dir})
	if got := a.complete(python, object{"session_id": id, "code": "x"}).Meta.Run.value(); got != "1" {
		t.Errorf("in a server beside the one that has looked at it: %s", got)
	}
	a.end()
	if got := b.complete(python, object{"session_id": id, "code": "x"}).Meta.Run.value(); got != "1" {
		t.Errorf("after the first server's end: %s", got)
	}
	b.call("close_session", object{"session_id": id})
}

// goesOn begins a run that does not end soon, waits until its code has said something, and gives its id.
// The server's soft wait must be short.
func (s *server) goesOn(tool string, arguments object) string {
	s.t.Helper()
	res := s.call(tool, arguments)
	eventually(s.t, "the code has begun", func() (bool, string) {
		if res.Meta.Run == nil || res.Meta.Run.Status != "running" {
			s.t.Fatalf("the run: %s", res.text())
		}
		if res.Meta.Run.Stdout != "" {
			return true, ""
		}
		res = s.call("wait_for_run", object{"run_id": res.Meta.Run.RunID, "timeout_seconds": 0.1})
		return false, res.text()
	})
	return res.Meta.Run.RunID
}

// Code that runs when the server is killed goes on, and the next server tells its result.
func TestARunOutlivesItsServer(t *testing.T) {
	t.Parallel()
	for tool, code := range map[string]string{
		python:     "import time, os\nprint('begun', flush=True)\nwhile not os.path.exists('go'): time.sleep(.02)\nprint('over')\nkept = 7\nkept * 6",
		javascript: "console.log('begun'); const fs = require('fs'); while (!fs.existsSync('go')) await new Promise(r => setTimeout(r, 20)); console.log('over'); var kept = 7; kept * 6",
	} {
		t.Run(tool, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			id := "e2e-lasting-run-" + tool[4:6]
			first := start(t, setup{stateDir: dir, args: []string{"--soft-wait", "1s"}})
			run := first.goesOn(tool, object{"session_id": id, "code": code, "timeout_seconds": 600})
			first.kill()
			second := start(t, setup{stateDir: dir, args: []string{"--soft-wait", "1s"}})
			if res := second.call("wait_for_run", object{"run_id": run}); res.Meta.Run == nil || res.Meta.Run.Status != "running" {
				t.Fatalf("in the next server: %s", res.text())
			}
			second.call(tool, object{"session_id": id, "code": "1", "timeout_seconds": 0.5}).wantText(t, "session_busy", run, "cancel: true")
			second.call("session_info", object{"session_id": id}).wantText(t, run)
			second.call("list_sessions", object{}).wantText(t, run)
			second.kill()
			third := start(t, setup{stateDir: dir})
			// The other language's kernel shares the files and lets the run go on.
			other := map[string]string{python: javascript, javascript: python}[tool]
			third.complete(other, object{"session_id": id, "code": map[string]string{
				python: "open('go', 'w').close()", javascript: "require('fs').writeFileSync('go', '')"}[other]})
			over := third.call("wait_for_run", object{"run_id": run})
			if over.Meta.Run == nil || over.Meta.Run.Status != "completed" || over.Meta.Run.Stdout != "begun\nover\n" || over.Meta.Run.value() != "42" {
				t.Errorf("its end: %s", over.text())
			}
			if got := third.complete(tool, object{"session_id": id, "code": "kept"}).Meta.Run.value(); got != "7" {
				t.Errorf("its variable is %s", got)
			}
			third.end()
			// A result stays readable, also for servers that never saw the run.
			fourth := start(t, setup{stateDir: dir})
			if again := fourth.call("wait_for_run", object{"run_id": run}); again.Meta.Run == nil || again.Meta.Run.value() != "42" {
				t.Errorf("its result later: %s", again.text())
			}
			fourth.call("close_session", object{"session_id": id})
			fourth.call("wait_for_run", object{"run_id": run}).wantCode(t, "run_not_found")
		})
	}
}

// No server speaks to it, so the container ends by itself; its files stay for the next server's idle
// time and are then removed by any server.
func TestAContainerThatNobodyUsesEnds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const id = "e2e-lasting-idle"
	first := start(t, setup{stateDir: dir, args: []string{"--idle-timeout", "3s"}})
	first.complete(python, object{"session_id": id, "code": "x = 1"})
	first.kill()
	eventually(t, "the container ends by itself", func() (bool, string) {
		out, err := podman("ps", "--filter", "label=code-sandbox-mcp.session="+id, "--format", "{{.Names}}")
		return err == nil && strings.TrimSpace(out) == "", out
	})
	second := start(t, setup{stateDir: dir, args: []string{"--idle-timeout", "3s"}})
	second.py("1")
	eventually(t, "the next server removes the files", func() (bool, string) {
		h := mustHold(t, []string{id})
		return h.empty(), sprint(h)
	})
}

// A server that is killed in the middle of an upload leaves nothing half, and no part of it.
func TestAKilledUploadLeavesNothing(t *testing.T) {
	t.Parallel()
	dir, files := t.TempDir(), t.TempDir()
	const id = "e2e-lasting-upload"
	large := filepath.Join(files, "large.bin")
	write(t, large, nil)
	if err := os.Truncate(large, 1<<30); err != nil {
		t.Fatal(err)
	}
	args := []string{"--allow-host-dir", files, "--download-limit", "2GiB"}
	first := start(t, setup{stateDir: dir, args: args})
	first.complete(python, object{"session_id": id, "code": "x = 1"})
	first.beginTracked("upload_file", object{"session_id": id, "filename": "large.bin", "host_path": large}, "upload")
	first.waitFor("the upload has begun", func(all []message) bool { return len(progressOf(all, "upload")) > 0 })
	first.kill()
	second := start(t, setup{stateDir: dir, args: args})
	eventually(t, "nothing of it is left", func() (bool, string) {
		res := second.complete(python, object{"session_id": id, "code": "import os; x, [os.path.join(d, f) for d, _, fs in os.walk('/mnt/data') for f in fs]"})
		return res.Meta.Run.value() == "(1, [])", res.text()
	})
	second.call("close_session", object{"session_id": id})
}

// The idle end of a container does not come while code runs, however long that takes and though no server listens.
func TestCodeThatNobodyListensToIsNotIdle(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const id = "e2e-lasting-long"
	args := []string{"--idle-timeout", "2s", "--soft-wait", "1s"}
	first := start(t, setup{stateDir: dir, args: args})
	run := first.goesOn(python, object{"session_id": id, "timeout_seconds": 600, "code": `import os, time
print('begun', flush=True)
time.sleep(6)
open('later', 'w').close()
while not os.path.exists('go'): time.sleep(.02)
'done'`})
	first.kill()
	container := mustHold(t, []string{id}).Containers[0]
	eventually(t, "the code goes on past its server's idle time", func() (bool, string) {
		out, err := podman("exec", "--workdir", "/mnt/data", container, "ls")
		return err == nil && strings.Contains(out, "later"), fmt.Sprint(out, err)
	})
	second := start(t, setup{stateDir: dir, args: args})
	if res := second.call("wait_for_run", object{"run_id": run}); res.Meta.Run == nil || res.Meta.Run.Status != "running" {
		t.Fatalf("in the next server: %s", res.text())
	}
	if out, err := podman("exec", "--workdir", "/mnt/data", container, "touch", "go"); err != nil {
		t.Fatal(out, err)
	}
	eventually(t, "the run is over", func() (bool, string) {
		res := second.call("wait_for_run", object{"run_id": run})
		return res.Meta.Run.value() == "'done'", res.text()
	})
	second.call("close_session", object{"session_id": id})
}
