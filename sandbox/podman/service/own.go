//go:build unix

package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/containers/podman/v5/pkg/bindings"
	"golang.org/x/sys/unix"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/filelock"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/podman/libpod"
)

const (
	// serviceIdle ends an unused service: the safety net if its server was killed and the kernel does not signal that.
	serviceIdle = 10 * time.Minute

	serviceStopGrace = 300 * time.Millisecond
	socketPoll       = 3 * time.Millisecond
	serviceLogBytes  = 4 << 10

	// maxSocketPath is below every system's limit for sockaddr_un (104 on a Mac).
	maxSocketPath = 100

	serviceDirPattern = "code-sandbox-mcp-podman-"
)

// ownService is a `podman system service` that this process started for itself.
type ownService struct {
	address string
	dir     *serviceDir
	stderr  *engine.Tail
	started chan error    // one value: whether the process could be started
	done    chan struct{} // closed after the process was waited for
	cmd     *exec.Cmd
}

func (s *Service) dialOwn(ctx context.Context) (*Link, error) {
	program := s.podmanProgram()
	if program == "" {
		return nil, notInstalled()
	}
	go s.starting()
	own, err := startService(ctx, program, s.runtime.Name)
	if err != nil {
		if missing := s.runtimeMissing(err); missing != nil {
			return nil, missing
		}
		return nil, serviceFailed(ctx, s.opts.ConnectTimeout, err)
	}
	l, err := ping(ctx, bindings.Options{URI: own.address})
	if err != nil {
		own.stop()
		return nil, serviceFailed(ctx, s.opts.ConnectTimeout, err)
	}
	l.own, l.Runtime = own, s.runtime
	go own.stayAwake(context.WithoutCancel(ctx))
	return l, nil
}

func serviceFailed(ctx context.Context, limit time.Duration, err error) error {
	if ctx.Err() != nil {
		return Ended(ctx, limit)
	}
	for _, r := range refusals {
		if libpod.Says(err, r.words) {
			return &UnavailableError{Reason: r.reason, Fix: r.fix, Err: err}
		}
	}
	return orUnavailable(err, UnavailableError{
		Reason: "Podman's service could not be started",
		Fix:    "run `podman info` to see why, then code-sandbox-mcp doctor",
	})
}

// refusals are the last words of a service that ends at once, in small letters, and their meaning. Podman 6 supports neither
// cgroup version 1 nor Podman 4's database.
var refusals = []struct{ words, reason, fix string }{
	{
		"cgroups v1 not supported", "this Podman does not run where the host has cgroup version 1",
		"boot with systemd.unified_cgroup_hierarchy=1 on the kernel's command line, or install an older Podman",
	},
	{
		"boltdb", "Podman has a database of an older version, which it does not use as it is",
		"reboot, after which Podman converts it, or run `podman system migrate --migrate-db` while nothing else uses Podman",
	},
}

// startService starts the service and waits until its socket accepts.
func startService(ctx context.Context, program, ociRuntime string) (*ownService, error) {
	dir, err := makeServiceDir()
	if err != nil {
		return nil, err
	}
	socket := filepath.Join(dir.path, "s")
	s := &ownService{
		address: (&url.URL{Scheme: "unix", Path: socket}).String(),
		dir:     dir,
		stderr:  &engine.Tail{Limit: serviceLogBytes},
		started: make(chan error, 1),
		done:    make(chan struct{}),
		cmd:     serviceCommand(program, ociRuntime, socket),
	}
	s.cmd.Stderr = s.stderr
	go s.run()
	if err := s.accepts(ctx); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

func serviceCommand(program, ociRuntime, socket string) *exec.Cmd {
	var args []string
	if ociRuntime != "" {
		args = append(args, "--runtime", ociRuntime)
		args = append(args, runtimeFlags(ociRuntime, os.Getuid() != 0)...)
	}
	idle := fmt.Sprintf("--time=%d", int(serviceIdle.Seconds()))
	args = append(args, "system", "service", idle, "unix://"+socket)
	cmd := exec.Command(program, args...)
	cmd.Env = serviceEnv(os.Environ())
	// conmon was seen to leave files in the folder it was started from.
	cmd.Dir = filepath.Dir(socket)
	cmd.SysProcAttr = serviceAttr()
	cmd.WaitDelay = time.Second
	return cmd
}

// run owns the process from start to wait, on one thread of its own: the service receives the signal of our death when the thread
// that started it ends.
func (s *ownService) run() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(s.done)
	err := s.cmd.Start()
	if err == nil {
		_, _ = s.dir.lock.WriteString(strconv.Itoa(s.cmd.Process.Pid)) // for endService of another server
	}
	s.started <- err
	if err == nil {
		// Its stderr tells how it ended; done, that it ended.
		_ = s.cmd.Wait()
	}
	s.dir.remove()
}

// accepts waits for the socket, for the service's end or for ctx, whichever is first.
func (s *ownService) accepts(ctx context.Context) error {
	if err := <-s.started; err != nil {
		return fmt.Errorf("start %s: %w", s.cmd.Path, err)
	}
	poll := time.Tick(socketPoll)
	for !listens(ctx, s.address) {
		select {
		case <-poll:
		case <-s.done:
			return fmt.Errorf("podman system service ended: %s", strings.TrimSpace(s.stderr.String()))
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// stayAwake keeps the service from going to sleep while this process lives: a request that meets it on its way down can hang.
func (s *ownService) stayAwake(ctx context.Context) {
	nudge := time.Tick(serviceIdle / 3)
	for {
		select {
		case <-nudge:
			listens(ctx, s.address)
		case <-s.done:
			return
		}
	}
}

func (s *ownService) ended() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// stop ends the service and waits for it, a moment politely and then not. Rootless Podman is two processes, so the whole group
// gets the signal.
func (s *ownService) stop() {
	s.signal(syscall.SIGTERM)
	select {
	case <-s.done:
	case <-time.After(serviceStopGrace):
		s.signal(syscall.SIGKILL)
		<-s.done
	}
}

func (s *ownService) signal(sig syscall.Signal) {
	if s.cmd.Process != nil && !s.ended() {
		_ = syscall.Kill(-s.cmd.Process.Pid, sig)
	}
}

// serviceDir is a private directory for one service's socket. A lock on a file in it, which contains the service's process group,
// shows other servers that it is in use, and goes with the process that held it.
type serviceDir struct {
	path string
	lock *os.File
}

func makeServiceDir() (*serviceDir, error) {
	var tried error
	for _, parent := range []string{userRuntimeDir(), os.TempDir(), "/tmp"} {
		if parent == "" || len(parent)+len(serviceDirPattern)+16 > maxSocketPath {
			continue
		}
		sweepServiceDirs(parent)
		path, err := os.MkdirTemp(parent, serviceDirPattern)
		if err != nil {
			tried = errors.Join(tried, err)
			continue
		}
		lock, err := lockFile(filepath.Join(path, "lock"))
		if err != nil {
			tried = errors.Join(tried, err, os.RemoveAll(path))
			continue
		}
		return &serviceDir{path, lock}, nil
	}
	return nil, fmt.Errorf("no directory for the service's socket: %w", tried)
}

func (d *serviceDir) remove() {
	_ = os.RemoveAll(d.path)
	_ = d.lock.Close()
}

// endService ends the service of a killed server. A signal to one that starts a container was seen to hang it with the lock of
// that, and every other Podman with it, so it is not left to end by itself.
func (d *serviceDir) endService() {
	text, _ := io.ReadAll(d.lock)
	group, err := strconv.Atoi(string(text))
	if err != nil || group <= 1 || !d.isServedBy(group) {
		return
	}
	_ = syscall.Kill(-group, syscall.SIGTERM)
	for deadline := time.Now().Add(serviceStopGrace); syscall.Kill(-group, 0) == nil; time.Sleep(socketPoll) {
		if time.Now().After(deadline) {
			_ = syscall.Kill(-group, syscall.SIGKILL)
			return
		}
	}
}

// serviceDirAge is the minimum age of a directory without a service for a sweep: another server may be about to lock a younger
// one.
const serviceDirAge = time.Minute

// sweepServiceDirs removes killed servers' directories, and ends the services.
func sweepServiceDirs(parent string) {
	left, err := filepath.Glob(filepath.Join(parent, serviceDirPattern+"*"))
	if err != nil {
		return
	}
	for _, path := range left {
		if lock, err := lockLeft(path); err == nil {
			left := &serviceDir{path, lock}
			left.endService()
			left.remove()
		}
	}
}

var errNotLeft = errors.New("not a folder that a killed server of this user left")

// lockLeft locks a folder that a sweep found. In /tmp anybody can make one of that name, so it must be a real folder that is this
// user's and nobody else's: nobody else can put another in its place, or anything into it. The checks apply to the opened folder.
func lockLeft(path string) (*os.File, error) {
	dir, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(dir) }()
	var info unix.Stat_t
	if err := unix.Fstat(dir, &info); err != nil {
		return nil, err
	}
	if int(info.Uid) != os.Geteuid() || info.Mode&0o777 != 0o700 {
		return nil, errNotLeft
	}
	// O_NONBLOCK is for something that is no file, such as a pipe.
	fd, err := unix.Openat(dir, "lock", unix.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	lock := os.NewFile(uintptr(fd), filepath.Join(path, "lock"))
	found, err := lock.Stat()
	if err == nil && (!found.Mode().IsRegular() || found.Size() == 0 && time.Since(found.ModTime()) < serviceDirAge) {
		err = errNotLeft
	}
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return flock(lock)
}

func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	return flock(f)
}

// flock locks the file, and closes it at once if another process holds it.
func flock(f *os.File) (*os.File, error) {
	if err := filelock.Try(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
