package podman

import (
	"cmp"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
)

// Kernel returns the configuration of a language's containers on this engine, for sandbox.Config.Kernels: of the image, which
// needs only the language's interpreter, or for "" of the image that `code-sandbox-mcp setup` makes.
func Kernel(language sandbox.Language, image string) sandbox.KernelConfig {
	kernel := sandbox.KernelConfig{
		Image: cmp.Or(image, containers.ImageRef(string(language))), Interpreter: language.Info().Interpreter,
		Join: containers.Join(), Install: containers.Install(string(language)), Setup: fault.Program + " setup",
	}
	if language == sandbox.Python {
		kernel.Document, kernel.Picture = containers.Document(), containers.Picture()
	}
	return kernel
}
