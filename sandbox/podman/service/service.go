// Package service reaches a Podman service: at the user's address, at a socket that listens, in Podman's virtual machine, or by
// starting one of this process's own. It chooses the OCI runtime, and tells why there is no service and what to do about it. It
// knows no container.
//
// Start with Open, which touches nothing. Connect finds or starts the service, at the first call and after it was lost.
package service

import (
	"context"
	"log/slog"
	"runtime"
	"sync"
	"time"
)

// Options locates the service. The zero value uses this machine's Podman.
type Options struct {
	// URL is the service's address: unix:///path, ssh://user@host/path or tcp://host:port. Empty: the user's own socket if one
	// listens, otherwise a service of this process's own.
	URL string
	// DockerHost is an address that may or may not be Podman's (DOCKER_HOST). It is tried before the user's own socket and passed
	// over if something else answers there. Ignored when URL is set.
	DockerHost string
	// OCIRuntime is the runtime's name or path, such as crun or runc. It means a service of this process's own, since a running
	// service's runtime cannot be changed. Empty: the service's default, or another that works if the default does not. Ignored
	// when URL is set.
	OCIRuntime string
	// Sockets are the unix sockets to try, in order, before starting a service. Nil: the usual places of rootless Podman and, for
	// root, the system's. An empty slice: none.
	Sockets []string
	// Program is the podman command that starts services. Empty: podman, from PATH or the usual directories.
	Program string
	// InMachine says that containers run in Podman's virtual machine, as they always do on a Mac and on Windows.
	InMachine bool
	// ConnectTimeout bounds finding or starting a service and its first answer. Zero: a minute.
	ConnectTimeout time.Duration
	// Logger receives debug messages. Nil: nothing is logged.
	Logger *slog.Logger
}

const defaultConnectTimeout = time.Minute

// Service is a Podman service, found or started at the first use. It is safe for use by several goroutines.
type Service struct {
	Log *slog.Logger // that of the options, or one that logs nothing

	opts     Options
	starting func()

	// closing ends when Close is called, and with it every attempt to connect.
	closing context.Context
	close   context.CancelFunc

	// connecting holds one token, which guards the fields below it. It is a channel, because a call that waits for it must be able
	// to end.
	connecting chan struct{}
	link       *Link

	runtime Runtime

	startMu      sync.Mutex
	machineStart *machineStart // nil: none is
}

// Open prepares the way to a service. It neither connects nor starts anything; the first call that needs Podman does. A service of
// this process's own calls starting while it starts.
func Open(opts Options, starting func()) *Service {
	if opts.ConnectTimeout == 0 {
		opts.ConnectTimeout = defaultConnectTimeout
	}
	if opts.Sockets == nil {
		opts.Sockets = userSockets()
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	opts.InMachine = opts.InMachine || runtime.GOOS == "darwin" || runtime.GOOS == "windows"
	s := &Service{Log: opts.Logger, opts: opts, starting: starting, connecting: make(chan struct{}, 1), runtime: chooseRuntime(opts)}
	s.closing, s.close = context.WithCancel(context.Background())
	return s
}

// Closing returns a context that ends when Close is called.
func (s *Service) Closing() context.Context { return s.closing }

// Close ends a service of this process's own, and every attempt to connect. Containers go on. Calls after it fail with
// ErrEngineUnavailable. It may be called more than once.
func (s *Service) Close() error {
	s.close()
	s.connecting <- struct{}{}
	defer func() { <-s.connecting }()
	s.dropLocked(s.link)
	return nil
}
