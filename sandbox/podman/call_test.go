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
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/attacks"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/podman/service"
)

// own is an engine with a service of its own, apart from the one that the tests share.
func own(t *testing.T, opts service.Options) *Engine {
	t.Helper()
	if opts.Sockets == nil {
		opts.Sockets = []string{}
	}
	e := Open(opts)
	t.Cleanup(func() { e.Close() })
	return e
}

func linkOf(t *testing.T, e *Engine) *service.Link {
	t.Helper()
	l := must.Get(e.Connect(t.Context()))(t)
	return l
}

// signal sends a signal to an engine's own service, and returns its process and a function that waits for its end.
func signal(t *testing.T, e *Engine, s syscall.Signal) (pid int, wait func()) {
	t.Helper()
	folder := filepath.Dir(strings.TrimPrefix(linkOf(t, e).Address, "unix://"))
	pid, err := strconv.Atoi(readFile(t, filepath.Join(folder, "lock")))
	must.OK(t, errors.Join(err, syscall.Kill(-pid, s)))
	return pid, func() {
		for _, err := os.Stat(folder); err == nil; _, err = os.Stat(folder) {
			time.Sleep(time.Millisecond)
		}
	}
}

func unavailable(t *testing.T, err error) *service.UnavailableError {
	t.Helper()
	var u *service.UnavailableError
	must.Hold(t, errors.As(err, &u), "not an UnavailableError: %v", err)
	return u
}

// stuckEngine answers pings and nothing else.
func stuckEngine(t *testing.T) string {
	t.Helper()
	over := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/_ping") {
			w.Header().Set("Libpod-API-Version", "4.3.1")
			return
		}
		<-over
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(over) })
	return "tcp://" + server.Listener.Addr().String()
}

func TestCallThatHangsIsUnavailableInTime(t *testing.T) {
	e := own(t, service.Options{URL: stuckEngine(t)})
	e.patience.call = 50 * time.Millisecond
	spec := engine.Spec{Name: "csm-test-stuck", Volume: "csm-test-stuck", Image: "x", Command: []string{"x"}}
	for name, call := range map[string]func() error{
		"image":  func() error { _, err := e.Image(t.Context(), "x"); return err },
		"list":   func() error { _, err := e.List(t.Context(), "x", ""); return err },
		"info":   func() error { _, err := e.Info(t.Context()); return err },
		"remove": func() error { return e.Remove(t.Context(), []string{"x"}, nil) },
	} {
		should.Be(t, call(), engine.ErrEngineUnavailable, "%s", name)
	}
	// The clean-up of a start has time of its own.
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	should.Be(t, should.ErrOf(e.Start(ctx, spec)), engine.ErrEngineUnavailable, "start")
}

func TestServiceThatDiesIsReplaced(t *testing.T) {
	e := own(t, service.Options{})
	spec := python(t, "print(1)")
	for _, by := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		must.OK(t, should.ErrOf(e.Image(t.Context(), spec.Image)))
		before := linkOf(t, e)
		_, wait := signal(t, e, by)
		wait()
		startOn(t, e, spec)
		should.OK(t, e.Remove(t.Context(), []string{spec.Name}, nil))
		should.Hold(t, linkOf(t, e) != before, "the dead service is still in use")
	}
}

// One call that takes too long does not cost the others their service.
func TestSlowCallLeavesTheServiceAlone(t *testing.T) {
	e := own(t, service.Options{})
	startOn(t, e, python(t, echo))
	l := linkOf(t, e)
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	should.Be(t, should.ErrOf(e.Info(ctx)), engine.ErrEngineUnavailable, "a call of a millisecond")
	e.check(t.Context(), l)
	should.Equal(t, linkOf(t, e), l, "the service was given up")
}

// A service that stops answering is given up, and one of ours is ended.
func TestFrozenServiceIsReplaced(t *testing.T) {
	e := own(t, service.Options{})
	e.patience.ping = 100 * time.Millisecond
	pid, wait := signal(t, e, syscall.SIGSTOP)
	// Its threads stop one after the other, and on a busy machine one may still answer.
	must.OK(t, should.ErrOf(syscall.Wait4(pid, nil, syscall.WUNTRACED, nil)))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := e.Image(ctx, "x")
	unavailable(t, err)
	wait()
	should.OK(t, should.ErrOf(e.List(t.Context(), testLabel, testRun)))
}

// A running container's stdio ends with the service; the engine and the container do not.
func TestServiceThatDiesUnderAProcess(t *testing.T) {
	e := own(t, service.Options{})
	stillRunsAfter(t, e, func() { signal(t, e, syscall.SIGKILL) })
}

// stillRunsAfter holds that a container whose stdio something ends goes on, and is there for the engine's next call.
func stillRunsAfter(t *testing.T, e *Engine, end func()) {
	t.Helper()
	spec := python(t, "import time; time.sleep(600)")
	p := startOn(t, e, spec)
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
	shared := own(t, service.Options{})
	socket := strings.TrimPrefix(linkOf(t, shared).Address, "unix://")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	t.Cleanup(func() { l.Close() })
	conns := make(chan net.Conn, 100)
	go func() {
		for client, err := l.Accept(); err == nil; client, err = l.Accept() {
			if service, err := net.Dial("unix", socket); err == nil {
				conns <- client
				go func() { _, _ = io.Copy(service, client) }()
				go func() { _, _ = io.Copy(client, service) }()
			}
		}
	}()
	e := own(t, service.Options{URL: "tcp://" + l.Addr().String()})
	stillRunsAfter(t, e, func() {
		for len(conns) > 0 {
			_ = (<-conns).(*net.TCPConn).CloseWrite() // of some the client has closed its side
		}
	})
}

func TestRuntimeThatCannotStartContainersIsReplaced(t *testing.T) {
	// With cgroup version 2 crun works, so only that the default is kept can be checked.
	_, works := os.Stat("/sys/fs/cgroup/cgroup.controllers")
	e := own(t, service.Options{DockerHost: "unix:///no/such"}) // it begins with the default
	startOn(t, e, python(t, "print(1)"))
	info, err := e.Info(t.Context())
	should.Hold(t, err == nil && (works != nil || info.RuntimeReason == "") && (works == nil || info.OCIRuntime == "runc"),
		"the runtime is %q (%s); %v", info.OCIRuntime, info.RuntimeReason, err)
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
			e := own(t, service.Options{OCIRuntime: test.runtime})
			p, err := e.Start(t.Context(), python(t, "print(1)"))
			if err == nil {
				p.Close()
				t.Fatal("another runtime was used than the one asked for")
			}
			u := unavailable(t, err)
			should.Hold(t, strings.Contains(u.Reason, test.reason) && strings.Contains(u.Fix, test.fix), "%#v", err)
		})
	}
}

// The first container asks for its image; only that starts a machine.
func TestOnlyAnImageStartsAMachine(t *testing.T) {
	program := filepath.Join(t.TempDir(), "podman")
	script := "#!/bin/sh\ncase \"$*\" in\n*list*) echo '[{\"Name\":\"m\"}]' ;;\n*) exit 125 ;;\nesac\n"
	must.OK(t, os.WriteFile(program, []byte(script), 0o700))
	e := own(t, service.Options{Program: program, InMachine: true})
	_, list := e.List(t.Context(), "x", "")
	_, image := e.Image(t.Context(), "x")
	u := unavailable(t, list)
	should.Hold(t, strings.HasSuffix(u.Reason, "is not running"), "a list: %+v", u)
	u = unavailable(t, image)
	should.Hold(t, strings.HasSuffix(u.Reason, "does not start"), "an image: %+v", u)
}

// The profile is in the volume of the programs, also where the service does not see this machine's files.
func TestProfileReachesTheEngine(t *testing.T) {
	for name, onHost := range map[string]bool{"here": true, "elsewhere": false} {
		t.Run(name, func(t *testing.T) { profileReaches(t, onHost) })
	}
}

func profileReaches(t *testing.T, onHost bool) {
	t.Helper()
	e := own(t, service.Options{})
	linkOf(t, e).OnHost = onHost
	e.volumes.prefix = testVolume(t, "csm-test-") + "-"
	attack := must.Get(attacks.Container("seccomp"))(t)
	program := must.Get(attack.Program(testFacts(t)))(t)
	spec := testSpec(t, "python3", "-c", program)
	start := func() attacks.Outcome {
		t.Helper()
		answer := must.Get(io.ReadAll(startOn(t, e, spec)))(t)
		verdict := must.Get(attacks.ParseVerdict(string(answer)))(t)
		return verdict.Outcome
	}
	should.Equal(t, start(), attacks.Held)
	at := slices.Collect(maps.Values(e.volumes.ready))[0]
	// Someone spoils volumes.
	must.OK(t, os.Remove(filepath.Join(at.Mountpoint, profileName)))
	must.OK(t, e.Remove(t.Context(), []string{spec.Name}, nil))
	should.Equal(t, start(), attacks.Held)
	should.OK(t, e.Remove(t.Context(), []string{spec.Name}, []string{at.Name}))
}
