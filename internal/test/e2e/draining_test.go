//go:build unix

package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
)

// closeAll closes the sessions that servers of a state folder have left, of all principals.
func closeAll(t *testing.T, stateDir string) {
	t.Helper()
	for _, s := range leftSessions(t, stateDir) {
		mustShell(t, stateDir, "sessions", "close", "--principal", s.Principal, s.SessionID)
	}
}

func leftSessions(t *testing.T, stateDir string) []shellSession {
	t.Helper()
	var list struct{ Sessions []shellSession }
	decode(t, []byte(mustShell(t, stateDir, "sessions", "list", "--json")), &list)
	return list.Sessions
}

// While one server takes the place of another, clients use their sessions all the time: no call is refused, and no variable lost.
func TestARollingRestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const clients = 3
	t.Cleanup(func() { closeAll(t, dir) })
	first := startHTTPWith(t, setup{stateDir: dir})
	alice := first.as("alice").token
	var now atomic.Pointer[httpServer] // where a load balancer would send requests
	now.Store(first)
	type answer struct {
		RunID, Status, Result string
		Code, Message         string
	}
	run := func(s *httpServer, session, code string, wait int) (a answer, status string) {
		body, status := s.curl(fmt.Sprintf("/v1/sessions/%s/runs?wait_seconds=%d", session, wait), post(object{"code": code})...)
		var fields struct {
			RunID                         string `json:"run_id"`
			Status, Result, Code, Message string
		}
		decode(t, body, &fields)
		return answer{fields.RunID, fields.Status, fields.Result, fields.Code, fields.Message}, status
	}
	var counts [clients]atomic.Int64
	var wrong sync.Map
	stop := make(chan struct{})
	var calling sync.WaitGroup
	for i := range clients {
		calling.Go(func() {
			session, code := fmt.Sprint("e2e-rolling-", i), "x = 1\nx"
			for n := int64(1); ; n++ {
				s := *now.Load()
				if i == 0 {
					s.token = alice
				}
				a, status := run(&s, session, code, 120)
				if status != "200" || a.Result != fmt.Sprint(n) {
					wrong.Store(i, fmt.Sprintf("call %d: %s %+v", n, status, a))
					return
				}
				counts[i].Store(n)
				code = "x += 1\nx"
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	further := func(calls int64) {
		t.Helper()
		var from [clients]int64
		for i := range from {
			from[i] = counts[i].Load()
		}
		eventually(t, "clients go on", func() (bool, string) {
			for i := range from {
				if text, failed := wrong.Load(i); failed {
					t.Fatal(text)
				}
				if counts[i].Load() < from[i]+calls {
					return false, fmt.Sprint(counts[i].Load())
				}
			}
			return true, ""
		})
	}
	further(3)
	long, status := run(first, "e2e-rolling-long", "import os, time\nwhile not os.path.exists('go'): time.sleep(.05)\ny = 42\n'over'", 0)
	if status != "202" {
		t.Fatalf("%s %+v", status, long)
	}
	next := startHTTPWith(t, setup{stateDir: dir})
	refused := shell(t, dir, "drain")
	refused.wantFault(t, "invalid_argument")
	address := strings.TrimSuffix(strings.TrimPrefix(first.url, "http://"), "/mcp")
	mustShell(t, dir, "drain", address)
	if status, body := first.look(t, "/readyz", ""); status != http.StatusServiceUnavailable || body != "draining\n" {
		t.Errorf("the server that drains: %d %q", status, body)
	}
	if a, status := run(first, "e2e-rolling-new", "1", 60); status != "503" || a.Code != "server_draining" {
		t.Errorf("a new session: %s %+v", status, a)
	}
	further(2) // there
	now.Store(next)
	further(3)
	waited := shell(t, dir, "drain", address, "--wait", "--timeout", "1s")
	waited.stdout = ""
	waited.wantFault(t, "session_busy")
	var asked sync.WaitGroup
	asked.Go(func() {
		var res struct{ Status, Result string }
		if next.ask(&res, "/v1/runs/"+long.RunID+"?wait_seconds=120"); res.Status != "completed" || res.Result != "'over'" {
			t.Errorf("the run that was begun before: %+v", res)
		}
	})
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, status := first.curl("/v1/sessions/e2e-rolling-long/files/go?overwrite=true", "-T", filepath.Join(dir, "go")); status != "200" && status != "201" {
		t.Errorf("the file that it waits for: %s", status)
	}
	mustShell(t, dir, "drain", address, "--wait")
	first.signal(syscall.SIGTERM)
	if !first.endsIn(endTime) {
		t.Fatal("the server does not end")
	}
	asked.Wait()
	further(3)
	close(stop)
	calling.Wait()
	if a, status := run(next, "e2e-rolling-long", "y", 60); status != "200" || a.Result != "42" {
		t.Errorf("its variable: %s %+v", status, a)
	}
	for i := range clients {
		if text, failed := wrong.Load(i); failed {
			t.Error(text)
		}
	}
	mustShell(t, dir, "drain")
	mustShell(t, dir, "drain", "--undo")
	eventually(t, "it is ready again", func() (bool, string) {
		status, body := next.look(t, "/readyz", "")
		return status == http.StatusOK, body
	})
}
