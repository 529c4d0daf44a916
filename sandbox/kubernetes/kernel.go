//go:build !nokubernetes

package kubernetes

import (
	"maps"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
)

// Kernel returns how the containers of a language are made on this engine, for sandbox.Config.Kernels.
func Kernel(language sandbox.Language, image string) sandbox.KernelConfig {
	kernel := sandbox.KernelConfig{
		Image: image, Interpreter: language.Info().Interpreter,
		Command: containers.Program(string(language)), Join: containers.Join(), Install: containers.Install(string(language)),
		Setup: "code-sandbox-mcp doctor --engine kubernetes",
	}
	if language == sandbox.Python {
		kernel.Document = containers.Document()
	}
	return kernel
}

// withLanguage returns the labels of a pod as its container has them.
func withLanguage(labels map[string]string, container string) map[string]string {
	own := maps.Clone(labels)
	if _, known := sandbox.LanguageCalled(container); known {
		own[sandbox.LabelLanguage] = container
	}
	return own
}
