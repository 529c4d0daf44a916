//go:build unix

package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/cookiejar"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

// shellResult is what a command said and how it ended.
type shellResult struct {
	stdout, stderr string
	code           int
}

// shell runs the program as a person does.
func shell(t *testing.T, stateDir string, args ...string) shellResult {
	t.Helper()
	cmd := exec.Command(programFor(args), append(args, "--state-dir", stateDir)...)
	cmd.Env = []string{"HOME=" + os.Getenv("HOME"), "PATH=" + os.Getenv("PATH")}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	_ = cmd.Run()
	return shellResult{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

func mustShell(t *testing.T, stateDir string, args ...string) string {
	t.Helper()
	r := shell(t, stateDir, args...)
	must.Hold(t, r.code == 0, "%s: exit status %d\n%s%s", strings.Join(args, " "), r.code, r.stdout, r.stderr)
	return r.stdout
}

// wantFault holds a failed command against the form in which it says why.
func (r shellResult) wantFault(t *testing.T, code string) {
	t.Helper()
	if form := regexp.MustCompile(`(?m)^` + code + `: .+\nHint: .+\n`); r.code != 1 || !form.MatchString(r.stderr) || r.stdout != "" {
		t.Errorf("exit status %d, want %s:\n%s%s", r.code, code, r.stdout, r.stderr)
	}
}

// shellSession is a session as sessions list and show tell of it.
type shellSession struct {
	SessionID string `json:"session_id"`
	Principal string
	State     string
	Owner     string
	Named     bool
	Kernels   []struct{ Language, State string }
	Age       *int   `json:"age_seconds"`
	Size      *int64 `json:"size_bytes"`
	Runs      int
	LastRuns  []struct{ Status, Code, Language string } `json:"last_runs"`
}

func shellSessions(t *testing.T, stateDir string) map[string]shellSession {
	t.Helper()
	var list struct{ Sessions []shellSession }
	decode(t, json.RawMessage(mustShell(t, stateDir, "sessions", "list", "--json")), &list)
	found := make(map[string]shellSession)
	for _, s := range list.Sessions {
		found[s.SessionID] = s
	}
	return found
}

func TestSessionsFromAShell(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const id = "e2e-shell"
	s := start(t, setup{stateDir: dir})
	s.complete(python, object{"session_id": id, "code": "x = 41"})
	s.run(python, object{"session_id": id, "code": "1/0"}, "failed")
	unnamed := s.py("1").Meta.Run.SessionID

	found := shellSessions(t, dir)
	if f := found[id]; len(found) != 2 || f.Owner != "another server" || !f.Named || f.Age == nil || found[unnamed].Named {
		t.Errorf("list: %s", sprint(found))
	}
	var shown shellSession
	eventually(t, "the history has both runs", func() (bool, string) {
		text := mustShell(t, dir, "sessions", "show", id, "--json")
		decode(t, json.RawMessage(text), &shown)
		return shown.Runs == 2 && shown.LastRuns[1].Status == "failed", text
	})
	if shown.LastRuns[0].Code != "x = 41" || shown.LastRuns[0].Status != "completed" || shown.LastRuns[1].Code != "1/0" {
		t.Errorf("show: %s", sprint(shown))
	}
	if k := found[id].Kernels; len(k) == 0 || k[0].Language != "python" || k[0].State != "idle" || found[id].Size == nil {
		t.Errorf("what its server says: %s", sprint(found[id]))
	}
	// The live session goes on.
	should.Contain(t, mustShell(t, dir, "sessions", "export", id, filepath.Join(t.TempDir(), "x.tar.zst")), "exported "+id, "export")
	should.Equal(t, s.complete(python, object{"session_id": id, "code": "x + 1"}).Meta.Run.value(), "42", "the live session")
	s.complete(python, object{"session_id": "e2e-shell-closed", "code": "x = 41"})
	mustShell(t, dir, "sessions", "close", "e2e-shell-closed")
	s.call("session_info", object{"session_id": "e2e-shell-closed"}).wantCode(t, "session_not_found")
	s.end()
	f := shellSessions(t, dir)[id]
	should.Hold(t, f.Owner == "none" && len(f.Kernels) == 1 && f.Kernels[0].State == "kept", "afterwards: %s", sprint(f))
	should.Contain(t, mustShell(t, dir, "sessions", "close", id, "--keep-files"), "kept", "close")
	h := mustHold(t, []string{id})
	should.Hold(t, len(h.Containers) == 0 && len(h.Volumes) == 1, "with --keep-files: %s", sprint(h))
	mustShell(t, dir, "sessions", "close", id)
	if h := mustHold(t, []string{id}); !h.empty() {
		t.Errorf("a closed session still has %s", sprint(h))
	}
	shell(t, dir, "sessions", "show", id).wantFault(t, "session_not_found")
}

// Files go in and out while a server has the session open, while its kernels wait for one, and while it sleeps.
func TestFilesFromAShell(t *testing.T) {
	t.Parallel()
	dir, here := t.TempDir(), t.TempDir()
	const id = "e2e-files"
	s := start(t, setup{stateDir: dir})
	s.complete(python, object{"session_id": id, "code": "x = 41; open('output/report 1.txt', 'w').write('yesterday')"})
	mine, folder := filepath.Join(here, "größe.csv"), filepath.Join(here, "to")
	must.OK(t, errors.Join(os.WriteFile(mine, []byte("a,b\n"), 0o600), os.Mkdir(folder, 0o700)))
	use := func(when string) {
		t.Helper()
		should.Contain(t, mustShell(t, dir, "sessions", "put", id, mine, "--force"), "input/größe.csv", when+": put")
		shell(t, dir, "sessions", "put", id, mine).wantFault(t, "file_exists")
		var list struct{ Files []struct{ Path string } }
		decode(t, json.RawMessage(mustShell(t, dir, "sessions", "files", id, "--json")), &list)
		if len(list.Files) != 2 || list.Files[0].Path != "input/größe.csv" || list.Files[1].Path != "output/report 1.txt" {
			t.Errorf("%s: files: %s", when, sprint(list))
		}
		mustShell(t, dir, "sessions", "get", id, "output/report 1.txt", "input/größe.csv", folder, "--force")
		for name, want := range map[string]string{"report 1.txt": "yesterday", "größe.csv": "a,b\n"} {
			if got, err := os.ReadFile(filepath.Join(folder, name)); err != nil || string(got) != want {
				t.Errorf("%s: %s has %q, %v", when, name, got, err)
			}
			must.OK(t, os.Remove(filepath.Join(folder, name)))
		}
		shell(t, dir, "sessions", "get", id, "nope", folder).wantFault(t, "not_found")
		if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
			t.Errorf("%s: left: %v, %v", when, left, err)
		}
	}
	use("open")
	s.end()
	use("kept")
	if f := shellSessions(t, dir)[id]; len(f.Kernels) != 1 || f.Kernels[0].State != "kept" {
		t.Errorf("the kernel does not wait any more: %s", sprint(f))
	}
	mustShell(t, dir, "sessions", "close", id, "--keep-files")
	use("asleep")
	if f := shellSessions(t, dir)[id]; f.State != "asleep" {
		t.Errorf("afterwards: %s", sprint(f))
	}
	for _, args := range [][]string{{"put", id, here}, {"get", id, "x", filepath.Join(here, "none") + "/"}} {
		shell(t, dir, append([]string{"sessions"}, args...)...).wantFault(t, "invalid_argument")
	}
	shell(t, dir, "sessions", "put", id, filepath.Join(here, "none")).wantFault(t, "not_found")
	shell(t, dir, "sessions", "put", "e2e-nobody", mine).wantFault(t, "session_not_found")
	shell(t, dir, "sessions", "files", id+"\n").wantFault(t, "invalid_session_id")
	mustShell(t, dir, "sessions", "close", id)
}

// ui shows the sessions of a server beside it with all that the server knows, and those that no server has. It ends with its signal.
func TestThePageBesideAServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, setup{stateDir: dir})
	const session = "e2e-page"
	s.complete(python, object{"session_id": session, "code": "x = 41; open('output/report.txt', 'w').write('yesterday')"})
	cmd := exec.Command(binary, "ui", "--no-browser", "--state-dir", dir)
	cmd.Env = []string{"HOME=" + os.Getenv("HOME"), "PATH=" + os.Getenv("PATH")}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	must.OK(t, err)
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	lines := bufio.NewScanner(out)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "http://127.0.0.1:") {
	}
	jar, _ := cookiejar.New(nil)
	browser := &http.Client{Jar: jar}
	page, _, _ := strings.Cut(lines.Text(), "ui/enter?")
	get := func(address string) (http.Header, *bufio.Scanner) {
		answer, err := browser.Get(address)
		must.OK(t, err)
		t.Cleanup(func() { _ = answer.Body.Close() })
		return answer.Header, bufio.NewScanner(answer.Body)
	}
	get(lines.Text())
	_, said := get(page + "ui/v1/events?session_id=" + session)
	heard := func(what ...string) {
		t.Helper()
		for !slices.ContainsFunc(what, func(s string) bool { return strings.Contains(said.Text(), s) }) {
			if !said.Scan() {
				t.Fatalf("the page does not tell of %q", what)
			}
		}
	}
	order := func(method, address string) int {
		r := must.Get(http.NewRequest(method, page+address, nil))(t)
		r.Header.Set("X-Sandbox-Page", "1")
		answer := must.Get(browser.Do(r))(t)
		_ = answer.Body.Close()
		return answer.StatusCode
	}
	report := func(when string) {
		t.Helper()
		header, text := get(page + "ui/v1/sessions/" + session + "/files/output/report.txt")
		if !text.Scan() || text.Text() != "yesterday" || len(header.Values("Content-Security-Policy")) != 1 {
			t.Errorf("%s: %q %v", when, text.Text(), header)
		}
	}
	heard(`"owner":"another server","state":"open","here":true`)
	report("open")
	going := s.beginCall(python, object{"session_id": session, "code": "import time\nprint('so', 'far', flush=True)\ntime.sleep(600)"})
	heard("so far")
	run := regexp.MustCompile(`"(run-[a-z0-9]+)":\{`).FindStringSubmatch(said.Text())
	must.Hold(t, run != nil, "no run in %s", said.Text())
	if status := order(http.MethodPost, "ui/v1/runs/"+run[1]+"/cancel?wait_seconds=0&session_id="+session); status >= http.StatusBadRequest {
		t.Errorf("cancel: %d", status)
	}
	should.Contain(t, going.result().text(), "cancelled", "the run")
	s.end()
	heard(`"owner":"none"`)
	report("without a server")
	next := start(t, setup{stateDir: dir})
	should.Equal(t, next.complete(python, object{"session_id": session, "code": "x"}).Meta.Run.value(), "41", "a server that wants the session")
	heard(`"owner":"another server"`)
	if status := order(http.MethodDelete, "ui/v1/sessions/"+session); status != http.StatusOK {
		t.Errorf("close: %d", status)
	}
	_ = cmd.Process.Signal(syscall.SIGINT)
	should.OK(t, cmd.Wait(), "it ended with")
}
