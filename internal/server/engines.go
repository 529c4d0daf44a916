// The engines: which one the settings name, and what commands need of it beyond engine.Engine.

package server

import (
	"context"
	"log/slog"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/doctor"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/selftest"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/podman"
)

// The engines that --engine names.
const (
	enginePodman     = "podman"
	engineKubernetes = "kubernetes"
)

// Engine returns the engine that the settings name, which is looked for when it is needed.
func (s *Settings) Engine(log *slog.Logger) engine.Engine {
	if s.OnKubernetes() {
		return s.openKubernetes(log)
	}
	return podman.Open(podman.Options{
		URL: s.EngineURL, DockerHost: s.DockerHost, OCIRuntime: s.OCIRuntime,
		ConnectTimeout: s.Sandbox.StartTimeout, Logger: log,
	})
}

// OnKubernetes reports whether pods of a cluster are what code runs in. There no image is made on this machine, and no folder of it is seen.
func (s *Settings) OnKubernetes() bool { return s.EngineName == engineKubernetes }

// kernel returns how the containers of a language are made on the engine.
func (s *Settings) kernel(language sandbox.Language, image string) sandbox.KernelConfig {
	kernel := podman.Kernel(language, image)
	if s.OnKubernetes() {
		kernel.Setup = "code-sandbox-mcp doctor --engine kubernetes"
	}
	return kernel
}

// isOurs reports whether an image is made of a recipe of this program's.
func isOurs(image string) bool {
	_, local := containers.RecipeOf(image)
	return local || containers.IsPublished(image)
}

// Reach fails where no engine answers, before anything is asked of it. wake starts what it runs in, if that was stopped.
func Reach(ctx context.Context, on engine.Engine, wake bool) error {
	p, is := on.(*podman.Engine)
	switch {
	case is && wake:
		return p.Awaken(ctx)
	case is:
		_, err := p.Connection(ctx)
		return err
	}
	return reachKubernetes(ctx, on)
}

// Tidy removes what earlier versions and runs of this program made on an engine for themselves, and returns the names of it.
func Tidy(ctx context.Context, on engine.Engine) ([]string, error) {
	if p, is := on.(*podman.Engine); is {
		return p.RemoveOldVolumes(ctx)
	}
	if k, is := on.(interface {
		RemoveEnded(context.Context) ([]string, error)
	}); is {
		return k.RemoveEnded(ctx)
	}
	return nil, nil
}

// look makes doctor's checks of an engine itself.
func look(on engine.Engine) func(context.Context, doctor.Options) (checks []doctor.Check, answers bool) {
	if p, is := on.(*podman.Engine); is {
		return doctor.Podman(p)
	}
	return lookAtKubernetes(on)
}

// engineHost returns what a self-test has to know of what an engine's containers run on.
func (s *Settings) engineHost(ctx context.Context, on engine.Engine, languages int) (selftest.Host, error) {
	p, is := on.(*podman.Engine)
	if !is {
		return s.kubernetesHost(ctx, on, languages)
	}
	info, err := p.Info(ctx)
	return selftest.Podman(info), err
}
