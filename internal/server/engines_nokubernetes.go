//go:build nokubernetes

// What stands for Kubernetes in a program that was built without it: no settings that name it pass their check, so none of this is called.

package server

import (
	"context"
	"log/slog"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/doctor"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/selftest"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
)

const hasKubernetes = false

func (s *Settings) openKubernetes(*slog.Logger) engine.Engine { panic("built without Kubernetes") }

func checkPodUsers(string) error { return nil }

func (k *KubernetesSettings) place() string { return "" }

func reachKubernetes(context.Context, engine.Engine) error { return nil }

func lookAtKubernetes(engine.Engine) func(context.Context, doctor.Options) ([]doctor.Check, bool) {
	return func(context.Context, doctor.Options) ([]doctor.Check, bool) { return nil, true }
}

// SandboxTemplate is not called.
func (s *Settings) SandboxTemplate(context.Context, engine.Engine, *slog.Logger) ([]byte, error) {
	panic("built without Kubernetes")
}

func (s *Settings) kubernetesHost(context.Context, engine.Engine, int) (selftest.Host, error) {
	return selftest.Host{}, nil
}
