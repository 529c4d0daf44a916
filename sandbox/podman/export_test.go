//go:build unix

package podman

import (
	"context"

	"github.com/containers/podman/v5/pkg/specgen"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
)

// Weaken makes the engine's containers otherwise than they should be.
func (e *Engine) Weaken(change func(*specgen.SpecGenerator)) {
	e.shape = func(spec engine.Spec, host hostFacts) *specgen.SpecGenerator {
		s := containerSpec(spec, host)
		change(s)
		return s
	}
}

// FillVolume puts files into a volume.
func (e *Engine) FillVolume(ctx context.Context, image, name string, files []containers.File) error {
	conn, err := e.Connection(ctx)
	if err == nil {
		_, _, err = fill(conn, true, image, name, files)
	}
	return err
}
