// Package podman is the engine.Engine over Podman's REST API: it finds or starts the service, turns an engine.Spec into a hardened
// container, and connects to process 1's stdio.
//
// Start with Open, which touches nothing, and hand the Engine to a sandbox.Manager. Connection lends the shared connection to code
// that needs more of Podman's API, such as building images. spec.go and seccomp.go list the permissions of a container, one line a
// promise.
package podman

import (
	"cmp"
	"context"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/containers/podman/v5/pkg/specgen"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
)

// Options locates the engine. The zero value uses this machine's Podman.
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
	// ConnectTimeout bounds finding or starting a service and its first answer. Zero: 15 s.
	ConnectTimeout time.Duration
	// CallTimeout bounds a call without a deadline. Zero: 60 s.
	CallTimeout time.Duration
	// Logger receives debug messages. Nil: nothing is logged.
	Logger *slog.Logger
}

const (
	defaultConnectTimeout = time.Minute
	defaultCallTimeout    = 60 * time.Second

	// pingPatience is a service's time to show that it lives after a failed call.
	pingPatience = 10 * time.Second
)

// Engine is an engine.Engine. It is safe for use by several goroutines.
type Engine struct {
	opts Options
	log  *slog.Logger

	patience time.Duration // pingPatience, but in tests
	// shape is containerSpec, but in tests that weaken it.
	shape func(engine.Spec, hostFacts) *specgen.SpecGenerator

	// closing ends when Close is called, and with it every attempt to connect.
	closing context.Context
	close   context.CancelFunc

	// connecting holds one token, which guards the fields below it. It is a channel, because a call that waits for it must be able
	// to end.
	connecting chan struct{}
	link       *link

	runtime        runtimeChoice
	failedRuntimes []string
	runtimeWorks   atomic.Bool // a container started

	volumes filledVolumes
	firsts  firsts

	inMachine bool // its containers run in a virtual machine of Podman's
	startMu   sync.Mutex
	starting  *machineStart // nil: none is
}

var _ engine.Engine = (*Engine)(nil)

// Open prepares an engine. It neither connects nor starts anything; the first call that needs Podman does.
func Open(opts Options) *Engine {
	if opts.ConnectTimeout == 0 {
		opts.ConnectTimeout = defaultConnectTimeout
	}
	if opts.CallTimeout == 0 {
		opts.CallTimeout = defaultCallTimeout
	}
	if opts.Sockets == nil {
		opts.Sockets = userSockets()
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	e := &Engine{opts: opts, log: opts.Logger, patience: pingPatience, shape: containerSpec, connecting: make(chan struct{}, 1)}
	e.volumes.prefix = programsVolume
	e.firsts = firsts{patience: firstPatience, made: make(map[string]bool), going: make(map[string]chan struct{})}
	e.inMachine = runtime.GOOS == "darwin" || runtime.GOOS == "windows"
	e.closing, e.close = context.WithCancel(context.Background())
	e.runtime = chooseRuntime(opts)
	return e
}

// Abilities implements engine.Engine.
func (e *Engine) Abilities() engine.Abilities { return engine.Abilities{Name: "Podman"} }

// Shape implements engine.Engine. A processor without programs of ours starts nothing.
func (e *Engine) Shape(spec engine.Spec) string {
	programs, _ := programsHash(cmp.Or(spec.Arch, runtime.GOARCH), e.asksForGVisor())
	return engine.Key(programs, e.opts.OCIRuntime, spec.Alike())
}

// Close implements engine.Engine. Containers go on; stopping them is Remove's. Calls
// after it fail with ErrEngineUnavailable. It may be called more than once.
func (e *Engine) Close() error {
	e.close()
	e.connecting <- struct{}{}
	defer func() { <-e.connecting }()
	e.dropLocked(e.link)
	return nil
}
