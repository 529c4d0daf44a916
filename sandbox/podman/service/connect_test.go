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
	"slices"
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
	must.Hold(t, errors.As(err, &u) && errors.Is(err, engine.ErrEngineUnavailable), "not an UnavailableError: %v", err)
	should.Hold(t, u.Reason != "" && u.Fix != "", "it does not say why, or what to do: %+v", u)
	return u
}

func TestPodmanMissing(t *testing.T) {
	s := own(t, Options{Program: filepath.Join(t.TempDir(), "podman")})
	_, err := s.Connection(t.Context())
	u := unavailable(t, err)
	should.Hold(t, strings.Contains(u.Reason, "not installed") && strings.Contains(u.Fix, "install"), "%+v", u)
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
		u := unavailable(t, err)
		should.Hold(t, !strings.Contains(u.Reason+u.Fix+u.Error(), "hunter2"), "%v", u)
	}
}

// silentSocket accepts connections and never answers.
func silentSocket(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	l := must.Get(net.Listen("unix", path))(t)
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
			u := unavailable(t, err)
			should.Hold(t, strings.Contains(u.Reason, "did not answer"), "%+v", u)
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
	_, err = s.Connection(ctx)
	should.Hold(t, errors.Is(err, context.Canceled) && !errors.Is(err, engine.ErrEngineUnavailable), "a cancelled call gave %v", err)
}

// Callers that wait while another connects each keep to their own time.
func TestWaitingForAnothersConnection(t *testing.T) {
	s := own(t, Options{URL: "unix://" + silentSocket(t), ConnectTimeout: 300 * time.Millisecond})
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			should.Be(t, should.ErrOf(s.Connection(ctx)), engine.ErrEngineUnavailable)
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
		u := unavailable(t, err)
		should.Hold(t, strings.Contains(u.Reason, want), "of version %q: %+v", version, u)
	}
	should.OK(t, should.ErrOf(own(t, Options{URL: pinged(t, "4.3.1")}).Connection(t.Context())))
}

func TestSocketThatIsNotPodmansIsPassedOver(t *testing.T) {
	docker := httptest.NewServer(http.NotFoundHandler())
	defer docker.Close()
	stale := filepath.Join(t.TempDir(), "stale")
	l := must.Get(net.Listen("unix", stale))(t)
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
		l, err := s.Connect(t.Context())
		should.Hold(t, err == nil && !l.IsOwn() && l.Address == address && l.OnHost, "%+v: %+v, %v", opts, l, err)
	}
}

func TestConnectionLeavesTheCallersContextInPlace(t *testing.T) {
	type key struct{}
	ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
	s := own(t, Options{})
	conn := must.Get(s.Connection(ctx))(t)
	should.Equal(t, conn.Value(key{}), "value", "the caller's values are gone")
	should.OK(t, should.ErrOf(libpod.Info(conn)))
	cancel()
	should.Be(t, should.ErrOf(libpod.Info(conn)), context.Canceled, "the caller's end is not the connection's")
	should.Hold(t, s.link.answers(t.Context()), "one caller's end was everyone's")
}

func TestCloseEndsTheServiceAndTheEngine(t *testing.T) {
	s := started(t)
	service := s.link.own
	must.OK(t, errors.Join(s.Close(), s.Close()))
	should.Hold(t, service.ended() && !exists(service.dir.path), "the service or its folder is still there")
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

func TestServiceEnvPassesOnOnlyWhatPodmanNeeds(t *testing.T) {
	t.Setenv("PATH", "/mine")
	got := serviceEnv([]string{
		"HOME=/home/me", "XDG_RUNTIME_DIR=/run/mine", "https_proxy=http://proxy:1", "CONTAINERS_CONF=/c",
		"SANDBOX_SQL_MAIN=postgres://u:p@h/d", "CONTAINER_HOST=ssh://elsewhere", "LD_PRELOAD=/x", "DOCKER_HOST=y", "GEMINI_API_KEY=k",
	})
	for _, want := range []string{"HOME=/home/me", "XDG_RUNTIME_DIR=/run/mine", "https_proxy=http://proxy:1", "CONTAINERS_CONF=/c"} {
		should.Hold(t, slices.Contains(got, want), "%s is missing from %q", want, got)
	}
	for _, entry := range got {
		name, value, _ := strings.Cut(entry, "=")
		should.Hold(t, slices.Contains(append(passedOn, "PATH"), name), "%s was passed on", name)
		should.Hold(t, name != "PATH" || strings.HasPrefix(value, "/mine:") && strings.Contains(value, ":/usr/sbin:"),
			"PATH is %s", value)
	}
}

func TestServiceEnvOfAStrippedEnvironment(t *testing.T) {
	for _, name := range []string{"HOME", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS"} {
		t.Setenv(name, "")
	}
	t.Setenv("PATH", "")
	got := strings.Join(serviceEnv(nil), "\n")
	should.Hold(t, strings.Contains(got, "HOME=/") && strings.Contains(got, "/usr/bin"), "got %s", got)
}

func TestProgramsAreFoundWithoutPath(t *testing.T) {
	t.Setenv("PATH", "relative:.")
	got := lookProgram("sh")
	should.Hold(t, filepath.IsAbs(got), "sh is %q", got)
	should.Equal(t, lookProgram("no-such-program"), "")
	// A program in the current folder is not one in PATH.
	t.Chdir(t.TempDir())
	must.OK(t, os.WriteFile("podman-here", []byte("#!/bin/sh\n"), 0o700))
	should.Equal(t, lookProgram("podman-here"), "")
}

func TestInstallCommand(t *testing.T) {
	for release, want := range map[string]string{
		"ID=debian\n":                                       "apt-get",
		"ID=linuxmint\nID_LIKE=\"ubuntu\"\n":                "apt-get",
		"ID=fedora\n":                                       "dnf",
		"ID=\"rocky\"\nID_LIKE=\"rhel fedora\"":             "dnf",
		"ID=\"opensuse-leap\"\nID_LIKE=\"suse opensuse\"\n": "zypper",
		"ID=arch":   "pacman",
		"ID=alpine": "apk",
		"ID=nixos":  "https://",
		"":          "https://",
	} {
		should.Contain(t, installCommand(strings.NewReader(release)), want, "%q", release)
	}
}
