//go:build unix

// Package replicas has two servers on a real cluster be one, and ends each in every way.
package replicas

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/cluster"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/image"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/locked"
)

var folder, binary string

func TestMain(m *testing.M) {
	code := 1
	defer func() { os.Exit(code) }()
	var err error
	if folder, err = os.MkdirTemp("", "code-sandbox-mcp-replicas-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	code = m.Run()
	if err := errors.Join(cluster.End(), os.RemoveAll(folder)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
}

var build = sync.OnceValue(func() error {
	binary = filepath.Join(folder, "code-sandbox-mcp")
	out, err := exec.Command("go", "build", "-o", binary, "github.com/code-sandbox-mcp/code-sandbox-mcp").CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
})

const token = "the-token-of-all-replicas"

// replica is a server, as a pod of a Deployment would be one.
type replica struct {
	name, url string
	cmd       *exec.Cmd
	log       locked.Buffer
	ended     chan error
}

var listens = regexp.MustCompile(`url=(http://[0-9.:]+)/mcp`)

// start starts a replica, with a folder of its own.
func start(t *testing.T, name string, more ...string) *replica {
	t.Helper()
	c, python := cluster.Need(t), image.BarePython(t)
	c.Load(t, python)
	if err := build(); err != nil {
		t.Fatal(err)
	}
	r := &replica{name: name, ended: make(chan error, 1)}
	r.cmd = exec.Command(binary, append([]string{
		"serve", "--http", "127.0.0.1:0", "--engine", "kubernetes", "--kubeconfig", c.Kubeconfig, "--runtime-class", c.RuntimeClass,
		"--replicas", t.Name(), "--state-dir", filepath.Join(t.TempDir(), "state"), "--python-image", python, "--js-image", "off", "--spares", "0",
	}, more...)...)
	r.cmd.Env = append(os.Environ(), "POD_NAME="+name, "POD_IP=127.0.0.1", "SANDBOX_HTTP_TOKEN="+token)
	r.cmd.Stderr = &r.log
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { r.ended <- r.cmd.Wait() }()
	t.Cleanup(func() {
		_ = r.cmd.Process.Signal(syscall.SIGCONT)
		_ = r.cmd.Process.Signal(syscall.SIGTERM)
		<-r.ended
		if t.Failed() {
			t.Logf("replica %s:\n%s", name, r.log.String())
		}
	})
	for began := time.Now(); r.url == ""; time.Sleep(20 * time.Millisecond) {
		if found := listens.FindStringSubmatch(r.log.String()); found != nil {
			r.url = found[1]
		}
		if time.Since(began) > 20*time.Second {
			t.Fatal("it does not listen")
		}
	}
	return r
}

func (r *replica) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := r.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// run runs code in a session, and returns the value of its last line.
func (r *replica) run(t *testing.T, session, code string) string {
	t.Helper()
	body, _ := json.Marshal(map[string]any{"code": code})
	status, answer := r.ask(t, http.MethodPost, "/v1/sessions/"+session+"/runs?wait_seconds=40", body)
	var said struct{ Status, Result string }
	if err := json.Unmarshal(answer, &said); status != http.StatusOK || err != nil || said.Status != "completed" {
		t.Fatalf("%s answers %d %s", r.name, status, answer)
	}
	return said.Result
}

func (r *replica) ask(t *testing.T, method, path string, body []byte) (status int, answer []byte) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, method, r.url+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Authorization", "Bearer "+token)
	q.Header.Set("Content-Type", "application/json")
	a, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = a.Body.Close() }()
	answer, err = io.ReadAll(a.Body)
	if err != nil {
		t.Fatal(err)
	}
	return a.StatusCode, answer
}

func want(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// pair starts two replicas, and returns the one that has the session first, in which x is 41.
func pair(t *testing.T) (has, other *replica) {
	t.Helper()
	a, b := start(t, "a"), start(t, "b")
	t.Cleanup(func() {
		for _, r := range []*replica{a, b} {
			if r.cmd.ProcessState == nil { // it lives
				_, _ = r.ask(t, http.MethodDelete, "/v1/sessions/mine", nil)
				return
			}
		}
	})
	want(t, "at one", a.run(t, "mine", "x = 41\nx"), "41")
	want(t, "at the other", b.run(t, "mine", "x"), "41")
	if strings.Contains(a.log.String(), "session=mine") {
		return a, b
	}
	return b, a
}

// The other one goes on with the variables of a replica that is killed.
func TestAKilledReplicaIsFollowed(t *testing.T) {
	has, other := pair(t)
	has.signal(t, syscall.SIGKILL)
	died := time.Now()
	has.ended <- <-has.ended // what it had accepted by then is lost, as nobody knows what became of it
	want(t, "afterwards", other.run(t, "mine", "x + 1"), "42")
	took := time.Since(died)
	t.Logf("answered after %v", took)
	if took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
}

// One that is paused does nothing afterwards, not even what it was in the middle of.
func TestAPausedReplicaWritesNothingAfterwards(t *testing.T) {
	has, other := pair(t)
	has.signal(t, syscall.SIGSTOP)
	paused := time.Now()
	late := make(chan struct{})
	go func() { // it waits in the paused process
		defer close(late)
		body := strings.NewReader(`{"code": "x = 'of the paused one'"}`)
		q, _ := http.NewRequest(http.MethodPost, has.url+"/v1/sessions/mine/runs?wait_seconds=30", body)
		q.Header.Set("Authorization", "Bearer "+token)
		if a, err := http.DefaultClient.Do(q); err == nil {
			_ = a.Body.Close()
		}
	}()
	// What was sent to it is answered when it is known that it is dead, and not done again.
	if status, answer := other.ask(t, http.MethodGet, "/v1/sessions", nil); status != http.StatusBadGateway {
		t.Errorf("what was sent to it: %d %s", status, answer)
	}
	want(t, "meanwhile", other.run(t, "mine", "x += 1\nx"), "42")
	t.Logf("answered after %v", time.Since(paused))
	time.Sleep(time.Until(paused.Add(10 * time.Second)))
	has.signal(t, syscall.SIGCONT)
	select {
	case err := <-has.ended:
		has.ended <- err
		if err == nil {
			t.Error("it ended as if it were asked to")
		}
	case <-time.After(5 * time.Second):
		t.Error("it goes on")
	}
	<-late
	if !strings.Contains(has.log.String(), "other replicas have taken over") {
		t.Error("it does not say why it ended")
	}
	want(t, "afterwards", other.run(t, "mine", "x"), "42")
}

// One that ends in order lets go of what it has, which another has at once.
func TestAReplicaThatEndsIsFollowedAtOnce(t *testing.T) {
	has, other := pair(t)
	has.signal(t, syscall.SIGTERM)
	ended := time.Now()
	want(t, "meanwhile", other.run(t, "mine", "x + 1"), "42")
	has.ended <- <-has.ended
	want(t, "afterwards", other.run(t, "mine", "x + 2"), "43")
	took := time.Since(ended)
	t.Logf("answered after %v", took)
	if took > 4*time.Second {
		t.Errorf("it took %v", took)
	}
	// A session that has ended is gone in all, and one of its name has nothing of it.
	if status, answer := other.ask(t, http.MethodDelete, "/v1/sessions/mine", nil); status/100 != 2 {
		t.Errorf("close: %d %s", status, answer)
	}
	third := start(t, "c")
	want(t, "a new one", third.run(t, "mine", "'x' in globals()"), "False")
	left := cluster.Need(t).Kubectl(t, "get", "leases", "-o", `jsonpath={range .items[*]}{.metadata.annotations.code-sandbox-mcp\.group} {.metadata.annotations.code-sandbox-mcp\.session}{"\n"}{end}`)
	if n := strings.Count(left, t.Name()+" mine\n"); n != 1 || strings.Count(left, t.Name()+" ") != 3 { // and one of each replica
		t.Errorf("there are Leases of\n%s", left)
	}
	_, _ = third.ask(t, http.MethodDelete, "/v1/sessions/mine", nil)
}
