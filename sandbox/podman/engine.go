// Package podman is the engine.Engine over Podman's REST API: it turns an engine.Spec into a hardened container, and connects to
// process 1's stdio. Package service finds or starts the service.
//
// Start with Open, which touches nothing, and hand the Engine to a sandbox.Manager. Connection lends the shared connection to code
// that needs more of Podman's API, such as building images. spec.go and seccomp.json list the permissions of a container, one line a
// promise.
package podman

import (
	"cmp"
	"runtime"
	"time"

	"github.com/containers/podman/v5/pkg/specgen"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/podman/service"
)

const (
	// callPatience bounds a call without a deadline.
	callPatience = 60 * time.Second
	// pingPatience is a service's time to show that it lives after a failed call.
	pingPatience = 10 * time.Second
	// machinePatience is how long a call waits for the start of a virtual machine, before it answers that it starts.
	machinePatience = 10 * time.Second
)

// Engine is an engine.Engine. It is safe for use by several goroutines.
type Engine struct {
	*service.Service

	ociRuntime string // of the options

	patience struct{ call, ping time.Duration } // callPatience and pingPatience, but in tests
	// shape is containerSpec, but in tests that weaken it.
	shape func(engine.Spec, hostFacts) *specgen.SpecGenerator

	unpacked chan []containers.File // of this machine's processor, while the service starts; nothing behind that

	ids     ids
	volumes filledVolumes
	firsts  firsts
}

var _ engine.Engine = (*Engine)(nil)

// Open prepares an engine. It neither connects nor starts anything; the first call that needs Podman does.
func Open(opts service.Options) *Engine {
	e := &Engine{ociRuntime: opts.OCIRuntime, shape: containerSpec, unpacked: make(chan []containers.File, 1)}
	// The first container wants them as soon as the service is up.
	e.Service = service.Open(opts, func() {
		if files, err := containers.Programs(runtime.GOARCH); err == nil {
			select {
			case e.unpacked <- files:
			default:
			}
		}
	})
	e.patience.call, e.patience.ping = callPatience, pingPatience
	e.volumes.prefix = programsVolume
	e.firsts = firsts{patience: firstPatience, made: make(map[string]bool), going: make(map[string]chan struct{})}
	return e
}

// Abilities implements engine.Engine.
func (e *Engine) Abilities() engine.Abilities { return engine.Abilities{Name: "Podman"} }

// Shape implements engine.Engine. A processor without programs of ours starts nothing.
func (e *Engine) Shape(spec engine.Spec) string {
	programs, _ := programsHash(cmp.Or(spec.Arch, runtime.GOARCH), e.AsksForGVisor(), false)
	return engine.Key(programs, e.ociRuntime, spec.Alike())
}
