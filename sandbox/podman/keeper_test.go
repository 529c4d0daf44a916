//go:build unix

package podman

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/podman/service"
)

// intruder tries what may give code a way to the keeper, itself and as an orphan, and stays.
const intruder = `
import ctypes, os, signal, socket, subprocess, sys, time
program = "` + containers.ProgramsDir + `/supervisor"
def tries():
    for question in b"e", b"r", b"w":
        with socket.socket(socket.AF_UNIX) as s:
            s.connect("\0code-sandbox-mcp-keeper")
            try:
                s.send(question)
                yield s.recv(1)
            except OSError:
                yield b""
    for command in (["enter"], ["reset"], ["within", "true"]):
        yield subprocess.run([program, *command], stdin=subprocess.DEVNULL, capture_output=True).stdout
    for path in "/proc/1/mem", "/proc/1/fd/3", "/proc/1/environ":
        try:
            yield open(path, "rb").read(1)
        except OSError:
            yield b""
    yield ctypes.CDLL(None).ptrace(16, 1, None, None)
for number in set(signal.valid_signals()) - {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}:
    os.kill(1, number)
reads, writes = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        while os.getppid() != 1:
            time.sleep(.01)
        os.write(writes, repr(list(tries())).encode())
        time.sleep(100_000)
    os._exit(0)
os.wait()
open("/tmp/left", "w")
print([*tries()], os.read(reads, 1000).decode(), sep="\n", flush=True)
sys.stdin.read()
`

func TestCodeHasNoWayToAKeeper(t *testing.T) {
	const supervisor = containers.ProgramsDir + "/supervisor"
	spec := testSpec(t, supervisor, "pod", "--core", "0", "--", "python3", "-c", intruder)
	start(t, spec)
	in := func(want string, command ...string) io.ReadWriteCloser {
		t.Helper()
		p := execIn(t, spec.Name, append([]string{supervisor}, command...)...)
		got := make([]byte, len(want))
		_, err := io.ReadFull(p, got)
		must.Hold(t, err == nil && string(got) == want, "%s: got %q, want %q: %v%s", command, got, want, err, p.Stderr())
		return p
	}
	none := "[" + strings.Repeat("b'', ", 9) + "-1]"
	for range 2 {
		in("K"+none+"\n"+none+"\n", "enter")
		in("B", "enter")
		in("K1\n", "within", "sh", "-c", "ls /tmp | grep -c left")
		in("K", "reset")
		in("G", "within", "true")
		p := execIn(t, spec.Name, "sh", "-c", "ls -A /tmp; for p in /proc/[0-9]*; do cat $p/comm; done")
		left, err := io.ReadAll(p)
		fields := fmt.Sprint(strings.Fields(string(left)))
		should.Hold(t, fields == "[supervisor sh]" && err == nil, "what is left: %s %v", fields, err)
	}
	p := in("K"+none+"\n"+none+"\n", "enter")
	_ = p.Close() // the end of stdin is the command's
	for {         // what looks may be ended with the command
		p := execIn(t, spec.Name, "sh", "-c", "[ -e /tmp/left ] || echo gone")
		if got, _ := io.ReadAll(p); string(got) == "gone\n" {
			return
		}
		must.OK(t, t.Context().Err(), "the command's file stays")
	}
}

func reads(r io.Reader, into []byte) bool {
	_, err := io.ReadFull(r, into)
	return err == nil
}

// What forks as fast as it can leaves the keeper able to end it.
func TestAKeeperEndsWhatForks(t *testing.T) {
	const supervisor = containers.ProgramsDir + "/supervisor"
	for name, code := range map[string]string{
		"forks": "while True:\n    try:\n        os.fork()\n    except OSError:\n        pass",
		"kills": "os.kill(-1, signal.SIGKILL)",
		"stops": "os.kill(-1, signal.SIGSTOP)\nos.kill(os.getpid(), signal.SIGSTOP)",
	} {
		t.Run(name, func(t *testing.T) {
			spec := testSpec(t, supervisor, "pod", "--nproc", "30", "--", "python3", "-c", "import os, signal\nprint(1, flush=True)\ninput()\n"+code)
			start(t, spec)
			for range 2 {
				enter := execIn(t, spec.Name, supervisor, "enter")
				if got := make([]byte, 3); !reads(enter, got) || string(got) != "K1\n" {
					t.Fatalf("enter: got %q%s", got, enter.Stderr())
				}
				_, _ = io.WriteString(enter, "\n")                            // now that all of it has come
				for isReset := false; !isReset && t.Context().Err() == nil; { // the code may kill or stop this program once
					reset, err := testEngine.Exec(t.Context(), spec.Name, []string{supervisor, "reset"})
					if err != nil {
						continue
					}
					late := time.AfterFunc(10*time.Second, func() { _ = reset.Close() })
					got := make([]byte, 1)
					isReset = reads(reset, got) && got[0] == 'K'
					late.Stop()
					_ = reset.Close()
				}
			}
		})
	}
}

// slowEngine is a rootless service whose answer to the request for the first container waits for ready, and fails where
// that is closed before a value came. It counts containers made and removed.
type slowEngine struct {
	ready         chan struct{}
	asked         chan struct{} // has one for each of the first requests for a container
	made, removed atomic.Int64
	e             *Engine
}

func newSlowEngine(t *testing.T) *slowEngine {
	t.Helper()
	s := &slowEngine{ready: make(chan struct{}, 1), asked: make(chan struct{}, 9)}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Libpod-API-Version", "5.4.2")
		switch {
		case path.Base(r.URL.Path) == "info":
			const ids = `[{"container_id":0,"host_id":1000,"size":1},{"container_id":1,"host_id":100000,"size":65536}]`
			fmt.Fprintf(w, `{"host":{"security":{"rootless":true},"idMappings":{"uidmap":%s,"gidmap":%s}}}`, ids, ids)
		case strings.HasSuffix(r.URL.Path, "/containers/create"):
			select {
			case s.asked <- struct{}{}:
			default: // on a busy machine there are any number of tries
			}
			if s.made.Load() == 0 {
				if _, ok := <-s.ready; !ok {
					w.WriteHeader(http.StatusInternalServerError)
					fmt.Fprint(w, `{"message":"no space left on device","response":500}`)
					return
				}
			}
			w.WriteHeader(http.StatusCreated)
			fmt.Fprintf(w, `{"Id":"c%d"}`, s.made.Add(1))
		case r.Method == http.MethodDelete:
			s.removed.Add(1)
			fmt.Fprint(w, "[]")
		case strings.HasSuffix(r.URL.Path, "/images/other/json"): // waits for a lock
			<-r.Context().Done()
		}
	}))
	t.Cleanup(server.Close)
	s.e = own(t, service.Options{URL: "tcp://" + server.Listener.Addr().String()})
	s.e.firsts.patience = time.Millisecond
	return s
}

// A call that asks for the first container of an image hears that this takes long, all wait for the same one, and none is
// left.
func TestAnImageIsPreparedOnce(t *testing.T) {
	s := newSlowEngine(t)
	slow, done := make(chan struct{}, 9), make(chan error, 2)
	for range 2 {
		go func() { done <- s.e.Prepare(t.Context(), "large", func() { slow <- struct{}{} }) }()
	}
	<-slow
	<-slow
	if <-s.asked; len(s.asked) > 0 {
		t.Error("a container was asked for while the first one was being made")
	}
	s.ready <- struct{}{}
	for range 2 {
		should.OK(t, <-done)
	}
	if len(slow) > 0 || s.made.Load() != 3 || s.removed.Load() != 3 {
		t.Errorf("told %d times more; %d containers were made, %d removed", len(slow), s.made.Load(), s.removed.Load())
	}
	should.OK(t, s.e.Prepare(t.Context(), "large", func() { t.Error("it is said to take long again") }))
}

func TestWhoWaitsForAnImageMayLeave(t *testing.T) {
	s := newSlowEngine(t)
	ctx, cancel := context.WithCancel(t.Context())
	err := s.e.Prepare(ctx, "large", cancel)
	u := unavailable(t, err)
	should.Hold(t, errors.Is(err, engine.ErrPreparing) && strings.Contains(u.Reason, "once"), "%+v", u)
	s.ready <- struct{}{}
	// What nobody waited for is removed, and nothing is in the way of the next one.
	if err := s.e.Prepare(t.Context(), "large", func() {}); err != nil || s.made.Load() != s.removed.Load() {
		t.Errorf("%v; %d containers were made, %d removed", err, s.made.Load(), s.removed.Load())
	}
}

// What another request waits for then is told too.
func TestCallsWhileAnImageIsPrepared(t *testing.T) {
	s := newSlowEngine(t)
	ctx, cancel := context.WithCancel(t.Context())
	_ = s.e.Prepare(ctx, "large", cancel)
	limited, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := s.e.Image(limited, "other"); !errors.Is(err, engine.ErrPreparing) || !errors.Is(err, engine.ErrEngineUnavailable) {
		t.Errorf("while it is being prepared: %v", err)
	}
	s.ready <- struct{}{}
	should.OK(t, s.e.Prepare(t.Context(), "large", func() {}))
	limited, cancel = context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err := s.e.Image(limited, "other")
	should.Hold(t, !errors.Is(err, engine.ErrPreparing) && errors.Is(err, engine.ErrEngineUnavailable), "afterwards: %v", err)
}

func TestAnImageThatCannotBePrepared(t *testing.T) {
	s := newSlowEngine(t)
	err := s.e.Prepare(t.Context(), "large", func() { close(s.ready) })
	should.Hold(t, err != nil && !errors.Is(err, engine.ErrPreparing) && strings.Contains(err.Error(), "no space left"),
		"it failed with %v", err)
}
