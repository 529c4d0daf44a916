//go:build unix

package podman

import (
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/podman/libpod"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/attacks"
)

// own is an engine with a service of its own, apart from the one that the tests share.
func own(t *testing.T, opts Options) *Engine {
	t.Helper()
	if opts.Sockets == nil {
		opts.Sockets = []string{}
	}
	e := Open(opts)
	t.Cleanup(func() { e.Close() })
	return e
}

func unavailable(t *testing.T, err error) *UnavailableError {
	t.Helper()
	var u *UnavailableError
	if !errors.As(err, &u) || !errors.Is(err, engine.ErrEngineUnavailable) {
		t.Fatalf("not an UnavailableError: %v", err)
	}
	if u.Reason == "" || u.Fix == "" {
		t.Errorf("it does not say why, or what to do: %+v", u)
	}
	return u
}

func TestPodmanMissing(t *testing.T) {
	e := own(t, Options{Program: filepath.Join(t.TempDir(), "podman")})
	_, err := e.Image(t.Context(), "x")
	if u := unavailable(t, err); !strings.Contains(u.Reason, "not installed") || !strings.Contains(u.Fix, "install") {
		t.Errorf("%+v", u)
	}
}

func TestServiceThatDoesNotStart(t *testing.T) {
	for words, reason := range map[string]string{
		"Error: no subuid ranges found":                                               "could not be started",
		`time="2026-11-26T22:59:08Z" level=fatal msg="Cgroups v1 not supported"`:      "cgroup version 1",
		"Error: a BoltDB database exists but is no longer being used. BoltDB support": "database of an older version",
	} {
		program := filepath.Join(t.TempDir(), "podman")
		script := "#!/bin/sh\necho '" + words + "' >&2\nexit 125\n"
		if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
		_, err := own(t, Options{Program: program}).Connection(t.Context())
		if u := unavailable(t, err); !strings.Contains(u.Reason, reason) {
			t.Errorf("of one that says %q: %+v", words, u)
		} else if !strings.Contains(u.Error(), words) {
			t.Errorf("the log does not have the service's own words: %v", u)
		}
	}
}

func TestNothingAtTheGivenAddress(t *testing.T) {
	for _, address := range []string{
		"unix://" + t.TempDir() + "/absent.sock", "tcp://127.0.0.1:1", "ftp://nowhere", "://", "unix://", "nonsense",
	} {
		_, err := own(t, Options{URL: address}).List(t.Context(), "x", "")
		unavailable(t, err)
	}
}

func TestPasswordInTheAddressIsNotShown(t *testing.T) {
	for _, address := range []string{"tcp://user:hunter2@127.0.0.1:1", "tcp://user:hunter2@%zz", "tcp://user:hunter2@host:x"} {
		_, err := own(t, Options{URL: address}).List(t.Context(), "x", "")
		if u := unavailable(t, err); strings.Contains(u.Reason+u.Fix+u.Error(), "hunter2") {
			t.Errorf("%v", u)
		}
	}
}

// silentSocket accepts connections and never answers.
func silentSocket(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { conn.Close() })
		}
	}()
	return path
}

func TestHungEngineIsUnavailableInTime(t *testing.T) {
	path := silentSocket(t)
	for name, opts := range map[string]Options{
		"at the given address": {URL: "unix://" + path},
		"at the user's socket": {Sockets: []string{path}},
		"at Docker's address":  {DockerHost: "unix://" + path},
	} {
		t.Run(name, func(t *testing.T) {
			opts.ConnectTimeout = 50 * time.Millisecond
			e := own(t, opts)
			e.runtime = runtimeChoice{}
			_, err := e.Image(t.Context(), "x")
			if u := unavailable(t, err); !strings.Contains(u.Reason, "did not answer") {
				t.Errorf("%+v", u)
			}
		})
	}
}

func TestCallersDeadlineAndCancellation(t *testing.T) {
	e := own(t, Options{URL: "unix://" + silentSocket(t), ConnectTimeout: time.Hour})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := e.Image(ctx, "x")
	unavailable(t, err)

	ctx, cancel = context.WithCancel(t.Context())
	cancel()
	if _, err := e.Image(ctx, "x"); !errors.Is(err, context.Canceled) || errors.Is(err, engine.ErrEngineUnavailable) {
		t.Errorf("a cancelled call gave %v", err)
	}
}

// Callers that wait while another connects each keep to their own time.
func TestWaitingForAnothersConnection(t *testing.T) {
	e := own(t, Options{URL: "unix://" + silentSocket(t), ConnectTimeout: 300 * time.Millisecond})
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			_, err := e.Image(ctx, "x")
			if !errors.Is(err, engine.ErrEngineUnavailable) {
				t.Error(err)
			}
		})
	}
	wait.Wait()
}

// stuckEngine answers pings and nothing else.
func stuckEngine(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/_ping") {
			w.Header().Set("Libpod-API-Version", "4.3.1")
			return
		}
		<-over
	}))
	server.Listener.Close()
	server.Listener = l
	server.Start()
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(over) })
	return path
}

func TestCallThatHangsIsUnavailableInTime(t *testing.T) {
	e := own(t, Options{URL: "unix://" + stuckEngine(t), CallTimeout: 50 * time.Millisecond})
	spec := engine.Spec{Name: "csm-test-stuck", Volume: "csm-test-stuck", Image: "x", Command: []string{"x"}}
	for name, call := range map[string]func() error{
		"image":  func() error { _, err := e.Image(t.Context(), "x"); return err },
		"list":   func() error { _, err := e.List(t.Context(), "x", ""); return err },
		"info":   func() error { _, err := e.Info(t.Context()); return err },
		"remove": func() error { return e.Remove(t.Context(), []string{"x"}, nil) },
	} {
		if err := call(); !errors.Is(err, engine.ErrEngineUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// The clean-up of a start has time of its own.
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := e.Start(ctx, spec); !errors.Is(err, engine.ErrEngineUnavailable) {
		t.Errorf("start: %v", err)
	}
}

// pinged is the address of a service that tells nothing but its version, if it has one.
func pinged(t *testing.T, version string) string {
	t.Helper()
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if version != "" {
			w.Header().Set("Libpod-API-Version", version)
		}
	}))
	t.Cleanup(service.Close)
	return "tcp://" + service.Listener.Addr().String()
}

func TestServicesThatAreNotNewPodman(t *testing.T) {
	for version, want := range map[string]string{
		"":      "does not answer at the address",
		"3.4.4": "Podman 3.4.4 is too old",
		"4.2.0": "Podman 4.2.0 is too old",
		"new":   "does not answer at the address",
	} {
		_, err := own(t, Options{URL: pinged(t, version)}).Connection(t.Context())
		if u := unavailable(t, err); !strings.Contains(u.Reason, want) {
			t.Errorf("of version %q: %+v", version, u)
		}
	}
	if _, err := own(t, Options{URL: pinged(t, "4.3.1")}).Connection(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestSocketThatIsNotPodmansIsPassedOver(t *testing.T) {
	docker := httptest.NewServer(http.NotFoundHandler())
	defer docker.Close()
	stale := filepath.Join(t.TempDir(), "stale")
	l, err := net.Listen("unix", stale)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	l.Close()
	e := own(t, Options{DockerHost: "tcp://" + docker.Listener.Addr().String(), Sockets: []string{stale, "/no/such"}})
	info, err := e.Info(t.Context())
	if err != nil || !info.OwnService {
		t.Errorf("%+v, %v", info, err)
	}
}

func TestListeningSocketIsUsed(t *testing.T) {
	shared := own(t, Options{})
	if _, err := shared.Connection(t.Context()); err != nil {
		t.Fatal(err)
	}
	address := shared.link.address
	given := own(t, Options{URL: address})
	info, err := given.Info(t.Context())
	if err != nil || info.OwnService || info.Address != address || !info.OnHost {
		t.Errorf("%+v, %v", info, err)
	}
	docker := own(t, Options{DockerHost: address})
	if info, err := docker.Info(t.Context()); err != nil || info.OwnService {
		t.Errorf("%+v, %v", info, err)
	}
}

func TestConnectionLeavesTheCallersContextInPlace(t *testing.T) {
	type key struct{}
	ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
	conn, err := testEngine.Connection(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if conn.Value(key{}) != "value" {
		t.Error("the caller's values are gone")
	}
	if _, err := libpod.Info(conn); err != nil {
		t.Error(err)
	}
	cancel()
	if _, err := libpod.Info(conn); !errors.Is(err, context.Canceled) {
		t.Errorf("the caller's end is not the connection's: %v", err)
	}
	if _, err := testEngine.Image(t.Context(), "x"); errors.Is(err, engine.ErrEngineUnavailable) {
		t.Error("one caller's end was everyone's")
	}
}

func TestServiceThatDiesIsReplaced(t *testing.T) {
	e := own(t, Options{})
	spec := python(t, "print(1)")
	for _, signal := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		if _, err := e.Image(t.Context(), spec.Image); err != nil {
			t.Fatal(err)
		}
		before := e.link.service
		before.signal(signal)
		<-before.done
		p, err := e.Start(t.Context(), spec)
		if err != nil {
			t.Fatalf("after %v: %v", signal, err)
		}
		p.Close()
		if err := e.Remove(t.Context(), []string{spec.Name}, nil); err != nil {
			t.Error(err)
		}
		if e.link.service == before {
			t.Error("the dead service is still in use")
		}
	}
}

// One call that takes too long does not cost the others their service.
func TestSlowCallLeavesTheServiceAlone(t *testing.T) {
	e := own(t, Options{})
	p, err := e.Start(t.Context(), python(t, echo))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	l := e.link
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := e.Info(ctx); !errors.Is(err, engine.ErrEngineUnavailable) {
		t.Errorf("a call of a millisecond gave %v", err)
	}
	e.check(t.Context(), l)
	if e.link != l || !l.alive() {
		t.Error("the service was given up")
	}
}

// A service that stops answering is given up, and one of ours is ended.
func TestFrozenServiceIsReplaced(t *testing.T) {
	e := own(t, Options{})
	e.patience = 100 * time.Millisecond
	if _, err := e.Connection(t.Context()); err != nil {
		t.Fatal(err)
	}
	frozen := e.link
	frozen.service.signal(syscall.SIGSTOP)
	// Its threads stop one after the other, and on a busy machine one may still answer.
	if _, err := syscall.Wait4(frozen.service.cmd.Process.Pid, nil, syscall.WUNTRACED, nil); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := e.Image(ctx, "x")
	unavailable(t, err)
	<-frozen.service.done
	if _, err := e.List(t.Context(), testLabel, testRun); err != nil {
		t.Error(err)
	}
}

// A running container's stdio ends with the service; the engine and the container do not.
func TestServiceThatDiesUnderAProcess(t *testing.T) {
	e := own(t, Options{})
	stillRunsAfter(t, e, func() { e.link.service.signal(syscall.SIGKILL) })
}

// stillRunsAfter holds that a container whose stdio something ends goes on, and is there for the engine's next call.
func stillRunsAfter(t *testing.T, e *Engine, end func()) {
	t.Helper()
	spec := python(t, "import time; time.sleep(600)")
	p, err := e.Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	end()
	if _, err := p.Read(make([]byte, 1)); err == nil {
		t.Error("Read gave something")
	}
	list, err := e.List(t.Context(), testLabel, testRun)
	if err != nil || !slices.ContainsFunc(list.Containers, func(c engine.Container) bool { return c.Name == spec.Name && c.Running }) {
		t.Errorf("the container is gone: %+v, %v", list, err)
	}
}

// So does the stdio of one whose engine is far away, where the other side of a connection closes it for writing.
func TestHalfClosedConnectionUnderAProcess(t *testing.T) {
	shared := own(t, Options{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if _, fails := shared.Connection(t.Context()); err != nil || fails != nil {
		t.Fatal(err, fails)
	}
	t.Cleanup(func() { l.Close() })
	conns := make(chan net.Conn, 100)
	go func() {
		for client, err := l.Accept(); err == nil; client, err = l.Accept() {
			if service, err := net.Dial("unix", strings.TrimPrefix(shared.link.address, "unix://")); err == nil {
				conns <- client
				go func() { _, _ = io.Copy(service, client) }()
				go func() { _, _ = io.Copy(client, service) }()
			}
		}
	}()
	e := own(t, Options{URL: "tcp://" + l.Addr().String()})
	stillRunsAfter(t, e, func() {
		for len(conns) > 0 {
			_ = (<-conns).(*net.TCPConn).CloseWrite() // of some the client has closed its side
		}
	})
}

func TestRuntimeThatCannotStartContainersIsReplaced(t *testing.T) {
	if unifiedCgroups() {
		t.Log("crun works on this host, so only what was asked for can be checked")
	}
	e := own(t, Options{})
	e.runtime = runtimeChoice{"crun", "the test"}
	p, err := e.Start(t.Context(), python(t, "print(1)"))
	if err != nil {
		t.Fatal(err)
	}
	p.Close()
	info, err := e.Info(t.Context())
	if want := map[bool]string{true: "crun", false: "runc"}[unifiedCgroups()]; err != nil || info.OCIRuntime != want {
		t.Errorf("the runtime is %q (%s), want %q; %v", info.OCIRuntime, info.RuntimeReason, want, err)
	}
}

// What has started a container fails for other reasons, and what isolates more is not replaced by what isolates less.
func TestRuntimeThatIsNotReplaced(t *testing.T) {
	for _, name := range []string{"runsc", "unknown", ""} {
		if next := own(t, Options{Program: "/bin/false"}).untriedRuntime(t.Context(), &link{conn: t.Context(), runtime: runtimeChoice{name: name}}); next != "" {
			t.Errorf("%q is replaced by %q", name, next)
		}
	}
	e := own(t, Options{})
	p, err := e.Start(t.Context(), python(t, "print(1)"))
	if err != nil {
		t.Fatal(err)
	}
	p.Close()
	if before := e.link; e.nextRuntime(t.Context(), before) || e.link != before {
		t.Errorf("it is replaced by %+v", e.runtime)
	}
}

// Another runtime than the one asked for is never used, and the error says what to do.
func TestRuntimeThatWasAskedForIsKept(t *testing.T) {
	for _, test := range []struct{ runtime, reason, fix string }{
		{"no-such-runtime", `"no-such-runtime" that --oci-runtime names is not installed`, "containers.conf"},
		{"runsc-no-such", "not installed", "apt-get install -y runsc"},
		{"/no/such/runtime", "not installed", "path of an OCI runtime"},
		{"/bin/false", "cannot start a container", "path of an OCI runtime"},
	} {
		t.Run(test.runtime, func(t *testing.T) {
			e := own(t, Options{OCIRuntime: test.runtime})
			p, err := e.Start(t.Context(), python(t, "print(1)"))
			if err == nil {
				p.Close()
				t.Fatal("another runtime was used than the one asked for")
			}
			var unavailable *UnavailableError
			if !errors.As(err, &unavailable) || !strings.Contains(unavailable.Reason, test.reason) || !strings.Contains(unavailable.Fix, test.fix) {
				t.Errorf("%#v", err)
			}
		})
	}
}

func TestCloseEndsTheServiceAndTheEngine(t *testing.T) {
	e := own(t, Options{})
	if _, err := e.Connection(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := e.link.service
	if err := errors.Join(e.Close(), e.Close()); err != nil {
		t.Fatal(err)
	}
	if !s.ended() || exists(s.dir.path) {
		t.Error("the service or its folder is still there")
	}
	_, err := e.Image(t.Context(), "x")
	unavailable(t, err)
}

func TestCloseDoesNotWaitForAConnection(t *testing.T) {
	e := own(t, Options{URL: "unix://" + silentSocket(t), ConnectTimeout: time.Hour})
	failed := make(chan error, 1)
	go func() {
		_, err := e.Connection(t.Context())
		failed <- err
	}()
	for len(e.connecting) == 0 {
		runtime.Gosched()
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	unavailable(t, <-failed)
}

func TestOpenTouchesNothing(t *testing.T) {
	e := own(t, Options{Program: "/no/such", URL: "unix:///no/such"})
	if e.link != nil {
		t.Error("it is connected")
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

// The profile is in the volume of the programs, also where the service does not see this machine's files.
func TestProfileReachesTheEngine(t *testing.T) {
	for name, onHost := range map[string]bool{"here": true, "elsewhere": false} {
		t.Run(name, func(t *testing.T) { profileReaches(t, onHost) })
	}
}

func profileReaches(t *testing.T, onHost bool) {
	t.Helper()
	e := own(t, Options{})
	if _, err := e.Connection(t.Context()); err != nil {
		t.Fatal(err)
	}
	e.link.onHost = onHost
	e.volumes.prefix = testVolume(t, "csm-test-") + "-"
	attack, err := attacks.Container("seccomp")
	if err != nil {
		t.Fatal(err)
	}
	program, err := attack.Program(testFacts(t))
	if err != nil {
		t.Fatal(err)
	}
	spec := testSpec(t, "python3", "-c", program)
	start := func() attacks.Outcome {
		t.Helper()
		p, err := e.Start(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		answer, err := io.ReadAll(p)
		if err != nil {
			t.Fatal(err)
		}
		verdict, err := attacks.ParseVerdict(string(answer))
		if err != nil {
			t.Fatal(err)
		}
		return verdict.Outcome
	}
	if got := start(); got != attacks.Held {
		t.Error(got)
	}
	at := slices.Collect(maps.Values(e.volumes.ready))[0]
	// Someone spoils volumes.
	if err := os.Remove(filepath.Join(at.Mountpoint, profileName)); err != nil {
		t.Fatal(err)
	}
	if err := e.Remove(t.Context(), []string{spec.Name}, nil); err != nil {
		t.Fatal(err)
	}
	if got := start(); got != attacks.Held {
		t.Error(got)
	}
	if err := e.Remove(t.Context(), []string{spec.Name}, []string{at.Name}); err != nil {
		t.Error(err)
	}
}
