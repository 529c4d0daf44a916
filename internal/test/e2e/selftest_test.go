//go:build unix

package e2e

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

type selftestRow struct {
	Name, Status, Tried, Why, Fix string
	Failed                        bool
	Refusals                      map[string]int
}

// selftestCommand is a self-test in the environment that a client would give it.
func selftestCommand(stateDir string, args ...string) *exec.Cmd {
	cmd := exec.Command(binary, append([]string{"selftest", "--state-dir", stateDir}, args...)...)
	cmd.Env = append(slowly(), "HOME="+os.Getenv("HOME"), "PATH="+os.Getenv("PATH"), "API_KEY=a key of the user's own", "DATABASE_URL=postgres://user:secret@db/x")
	return cmd
}

// wantSwept fails where a server or a command with this state directory has left anything.
func wantSwept(t *testing.T, stateDir string) {
	t.Helper()
	out, err := exec.Command(binary, "gc", "--state-dir", stateDir).CombinedOutput()
	// Volumes that sessions share belong to no state directory: another test may leave one at this moment.
	should.Hold(t, err == nil && !strings.Contains(string(out), "of session"), "gc: %v: %s", err, out)
}

// The sandbox that users get must hold against everything, and the session of a server that runs
// beside the self-test must not notice.
func TestSelftest(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	s := start(t, setup{stateDir: state})
	s.py("beside = 41")
	const token = "tok-Secret/Value+1234567"
	var echoed atomic.Int32
	program, env := programOfNetwork(t, func(w http.ResponseWriter, r *http.Request) { // a host that repeats what it hears
		if strings.Contains(fmt.Sprint(r.Header), token) {
			echoed.Add(1)
		}
		w.Header().Set("X-Echo", r.Header.Get("X-Api-Key"))
		fmt.Fprintf(w, "%s %q %x %s", r.RequestURI, r.Header, r.Header.Get("X-Api-Key"), base64.StdEncoding.EncodeToString([]byte(r.Header.Get("X-Api-Key"))))
	}, nil)
	cmd := selftestCommand(state, "--json", "--pass-through-env", "API_KEY", "--mount", sharedFolder(t)+":shared", "--mount", sharedFolder(t)+":out,rw",
		"--secret", "TOKEN@api.example")
	cmd.Path = program
	cmd.Env = append(append(cmd.Env, env...), "TOKEN="+token, "BACKEND=podman") // a value that every container of Podman has
	var logged strings.Builder
	cmd.Stderr = &logged
	out, err := cmd.Output()
	should.OK(t, err, "%s", logged.String())
	var report struct {
		OK   bool
		Rows []selftestRow
	}
	must.OK(t, json.Unmarshal(out, &report), "%s", out)
	seen := make(map[string]int)
	for _, row := range report.Rows {
		seen[row.Name]++
		should.Hold(t, (row.Status == "proven" || row.Status == "not_enforced" && row.Fix != "") && !row.Failed && row.Tried != "",
			"%+v", row)
	}
	if seen["credentials"] != 1 || echoed.Load() == 0 {
		t.Errorf("the host of the secret has heard its value %d times: %d rows", echoed.Load(), seen["credentials"])
	}
	should.Hold(t, report.OK && len(report.Rows) >= 30, "ok is %v, with %d rows", report.OK, len(report.Rows))
	should.Hold(t, seen["folders"] == 1 && strings.Contains(string(out), "1 read-only, 1 writable"),
		"the folders of the host were not attacked")
	should.Hold(t, !strings.Contains(string(out)+logged.String(), "a key of the user's own"), "the report tells a secret")
	should.Equal(t, s.py("beside + 1").Meta.Run.value(), "42", "the session beside it")
	s.end()
	wantSwept(t, state)
}

// beginSelftest starts it, and returns the sessions that it has when one of them has a container.
func beginSelftest(t *testing.T, cmd *exec.Cmd, state string) []string {
	t.Helper()
	must.OK(t, cmd.Start())
	var ids []string
	eventually(t, "a session of the self-test", func() (bool, string) {
		locks := must.Get(filepath.Glob(filepath.Join(state, "sessions*", "*")))(t)
		ids = nil
		for _, lock := range locks {
			ids = append(ids, strings.TrimSuffix(filepath.Base(lock), filepath.Ext(lock)))
		}
		return len(ids) > 0 && len(mustHold(t, ids).Containers) > 0, strings.Join(locks, " ")
	})
	return ids
}

func TestSelftestCleansUpWhenItIsInterrupted(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	cmd := selftestCommand(state)
	beginSelftest(t, cmd, state)
	must.OK(t, cmd.Process.Signal(syscall.SIGINT))
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("it ended with %v", err)
	}
	wantSwept(t, state)
	bait, err := filepath.Glob(filepath.Join(state, "selftest-*"))
	should.Hold(t, err == nil && len(bait) == 0, "it left %q", bait)
}

// In a pipe nothing else shows that one of its programs was ended.
func TestAProgramThatTheMemoryLimitEndedIsTold(t *testing.T) {
	t.Parallel()
	// The program is by far the largest, and nothing else takes memory that the system could end next.
	s := start(t, setup{args: []string{"--memory-limit", "256m"}})
	id := s.complete("run_bash", object{"code": ":"}).Meta.Run.SessionID
	container := s.containerOf(id, "run_bash")
	process1 := inspectPID(t, container, "Pid")
	t.Cleanup(func() { _ = syscall.Kill(process1, syscall.SIGCONT) })
	within := func(file string) {
		for {
			if _, err := os.Stat(fmt.Sprintf("/proc/%d/root/mnt/data/%s", process1, file)); err == nil {
				return
			}
			must.OK(t, t.Context().Err(), "there is no file %s", file)
		}
	}
	// The guard of process 1 would be there first.
	running := s.beginCall("run_bash", object{"code": `touch begun; until grep -q 'State:.T' /proc/1/status; do sleep 0.02; done; tail /dev/zero | wc -c; touch over`})
	within("begun")
	_ = syscall.Kill(process1, syscall.SIGSTOP)
	within("over")
	_ = syscall.Kill(process1, syscall.SIGCONT)
	running.result().wantText(t, "note: programs that the memory limit ended during the run: ")
}
