package podman

import (
	"github.com/containers/podman/v5/pkg/specgen"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
)

// Weaken makes the engine's containers otherwise than they should be.
func (e *Engine) Weaken(change func(*specgen.SpecGenerator)) {
	e.shape = func(spec sandbox.Spec, host hostFacts) *specgen.SpecGenerator {
		s := containerSpec(spec, host)
		change(s)
		return s
	}
}
