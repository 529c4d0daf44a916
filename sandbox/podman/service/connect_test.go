//go:build unix

package service

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/podman/libpod"
)

// own is the way to a service of its own.
func own(t *testing.T, opts Options) *Service {
	t.Helper()
	if opts.Sockets == nil {
		opts.Sockets = []string{}
	}
	s := Open(opts, func() {})
	t.Cleanup(func() { s.Close() })
	return s
}

// started has started its service.
func started(t *testing.T) *Service {
	t.Helper()
	s := own(t, Options{})
	must.OK(t, should.ErrOf(s.Connect(t.Context())))
	return s
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
	s := own(t, Options{Program: filepath.Join(t.TempDir(), "podman")})
	_, err := s.Connection(t.Context())
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
		must.OK(t, os.WriteFile(program, []byte(script), 0o700))
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
		_, err := own(t, Options{URL: address}).Connection(t.Context())
		unavailable(t, err)
	}
}

func TestPasswordInTheAddressIsNotShown(t *testing.T) {
	for _, address := range []string{"tcp://user:hunter2@127.0.0.1:1", "tcp://user:hunter2@%zz", "tcp://user:hunter2@host:x"} {
		_, err := own(t, Options{URL: address}).Connection(t.Context())
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
	must.OK(t, err)
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
			s := own(t, opts)
			s.runtime = Runtime{}
			_, err := s.Connection(t.Context())
			if u := unavailable(t, err); !strings.Contains(u.Reason, "did not answer") {
				t.Errorf("%+v", u)
			}
		})
	}
}

func TestCallersDeadlineAndCancellation(t *testing.T) {
	s := own(t, Options{URL: "unix://" + silentSocket(t), ConnectTimeout: time.Hour})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := s.Connection(ctx)
	unavailable(t, err)

	ctx, cancel = context.WithCancel(t.Context())
	cancel()
	if _, err := s.Connection(ctx); !errors.Is(err, context.Canceled) || errors.Is(err, engine.ErrEngineUnavailable) {
		t.Errorf("a cancelled call gave %v", err)
	}
}

// Callers that wait while another connects each keep to their own time.
func TestWaitingForAnothersConnection(t *testing.T) {
	s := own(t, Options{URL: "unix://" + silentSocket(t), ConnectTimeout: 300 * time.Millisecond})
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			_, err := s.Connection(ctx)
			should.Be(t, err, engine.ErrEngineUnavailable)
		})
	}
	wait.Wait()
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
	should.OK(t, should.ErrOf(own(t, Options{URL: pinged(t, "4.3.1")}).Connection(t.Context())))
}

func TestSocketThatIsNotPodmansIsPassedOver(t *testing.T) {
	docker := httptest.NewServer(http.NotFoundHandler())
	defer docker.Close()
	stale := filepath.Join(t.TempDir(), "stale")
	l, err := net.Listen("unix", stale)
	must.OK(t, err)
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	l.Close()
	s := own(t, Options{DockerHost: "tcp://" + docker.Listener.Addr().String(), Sockets: []string{stale, "/no/such"}})
	if l, err := s.Connect(t.Context()); err != nil || !l.IsOwn() {
		t.Errorf("%+v, %v", l, err)
	}
}

func TestListeningSocketIsUsed(t *testing.T) {
	address := started(t).link.Address
	for _, opts := range []Options{{URL: address}, {DockerHost: address}, {Sockets: []string{strings.TrimPrefix(address, "unix://")}}} {
		s := own(t, opts)
		s.runtime = Runtime{}
		if l, err := s.Connect(t.Context()); err != nil || l.IsOwn() || l.Address != address || !l.OnHost {
			t.Errorf("%+v: %+v, %v", opts, l, err)
		}
	}
}

func TestConnectionLeavesTheCallersContextInPlace(t *testing.T) {
	type key struct{}
	ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
	s := own(t, Options{})
	conn, err := s.Connection(ctx)
	must.OK(t, err)
	should.Equal(t, conn.Value(key{}), "value", "the caller's values are gone")
	should.OK(t, should.ErrOf(libpod.Info(conn)))
	cancel()
	should.Be(t, should.ErrOf(libpod.Info(conn)), context.Canceled, "the caller's end is not the connection's")
	if !s.link.answers(t.Context()) {
		t.Error("one caller's end was everyone's")
	}
}

// Nothing that isolates more is replaced by something that isolates less.
func TestRuntimeThatIsNotReplaced(t *testing.T) {
	for _, name := range []string{"runsc", "unknown", ""} {
		should.Equal(t, own(t, Options{Program: "/bin/false"}).untriedRuntime(t.Context(), &Link{conn: t.Context(), Runtime: Runtime{Name: name}}), "", "%q is replaced by", name)
	}
}

func TestCloseEndsTheServiceAndTheEngine(t *testing.T) {
	s := started(t)
	service := s.link.own
	must.OK(t, errors.Join(s.Close(), s.Close()))
	if !service.ended() || exists(service.dir.path) {
		t.Error("the service or its folder is still there")
	}
	_, err := s.Connection(t.Context())
	unavailable(t, err)
}

func TestCloseDoesNotWaitForAConnection(t *testing.T) {
	s := own(t, Options{URL: "unix://" + silentSocket(t), ConnectTimeout: time.Hour})
	failed := make(chan error, 1)
	go func() {
		_, err := s.Connection(t.Context())
		failed <- err
	}()
	for len(s.connecting) == 0 {
		runtime.Gosched()
	}
	should.OK(t, s.Close())
	unavailable(t, <-failed)
}

func TestOpenTouchesNothing(t *testing.T) {
	s := own(t, Options{Program: "/no/such", URL: "unix:///no/such"})
	should.Equal(t, s.link, nil, "it is connected")
	should.OK(t, s.Close())
}
