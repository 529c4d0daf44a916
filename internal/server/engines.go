// The engines: the one that the settings name, and functions that commands need beyond engine.Engine.

package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/netlog"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/doctor"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/selftest"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/podman"
)

// enginePodman is the engine of the core.
const enginePodman = "podman"

// engineKind returns the kind of the engine in the settings; nil: Podman.
func (s *Settings) engineKind() *EngineKind {
	for _, f := range s.features {
		if f.Engine != nil && f.Engine.Name == s.EngineName {
			return f.Engine
		}
	}
	return nil
}

// engineNames returns the values of --engine.
func (s *Settings) engineNames() []string {
	names := []string{enginePodman}
	for _, f := range s.features {
		if f.Engine != nil {
			names = append(names, f.Engine.Name)
		}
	}
	return names
}

// checkEngine refuses an unknown engine, and settings without effect on the named one.
func (s *Settings) checkEngine() error {
	var found Problems
	if names := s.engineNames(); !slices.Contains(names, s.EngineName) {
		if s.EngineName == "kubernetes" {
			return fmt.Errorf("--engine kubernetes: this program runs code in Podman alone; %s runs it in a cluster", ServerProgram)
		}
		return fmt.Errorf("--engine %q is not %s", s.EngineName, strings.Join(names, " or "))
	}
	for _, f := range s.features {
		if f.Engine != nil {
			found = append(found, f.Engine.Check(s))
		}
	}
	return errors.Join(found...)
}

// Engine returns the engine of the settings. It is looked for at its first use.
func (s *Settings) Engine(log *slog.Logger) engine.Engine {
	if kind := s.engineKind(); kind != nil {
		return kind.Open(s, log)
	}
	return podman.Open(podman.Options{
		URL: s.EngineURL, DockerHost: s.DockerHost, OCIRuntime: s.OCIRuntime,
		ConnectTimeout: s.Sandbox.StartTimeout, Logger: log,
	})
}

// kernel returns the configuration of a language's containers on the engine.
func (s *Settings) kernel(language sandbox.Language, image string) sandbox.KernelConfig {
	kernel := podman.Kernel(language, image)
	if kind := s.engineKind(); kind != nil {
		kernel.Setup = kind.Setup
	}
	return kernel
}

// isOurs reports whether one of this program's recipes makes the image.
func isOurs(image string) bool {
	_, local := containers.RecipeOf(image)
	return local || containers.IsPublished(image)
}

// Reach fails if no engine answers, before any other request. wake starts the engine's machine if it was stopped.
func (s *Settings) Reach(ctx context.Context, on engine.Engine, wake bool) error {
	p, is := on.(*podman.Engine)
	switch {
	case is && wake:
		return p.Awaken(ctx)
	case is:
		_, err := p.Connection(ctx)
		return err
	}
	return s.engineKind().Reach(ctx, on)
}

// Tidy removes leftovers of earlier versions and runs of this program from an engine, and returns their names.
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

// look returns doctor's checks of an engine itself.
func (s *Settings) look(on engine.Engine) func(context.Context, doctor.Options) (checks []doctor.Check, answers bool) {
	if p, is := on.(*podman.Engine); is {
		return doctor.Podman(p)
	}
	return s.engineKind().Look(on)
}

// engineHost returns the facts about the containers' host that a self-test needs.
func (s *Settings) engineHost(ctx context.Context, on engine.Engine) (selftest.Host, error) {
	p, is := on.(*podman.Engine)
	if !is {
		return s.engineKind().Host(ctx, s, on)
	}
	info, err := p.Info(ctx)
	return selftest.Podman(info), err
}

// Spec returns the container of a session with these settings, for an engine's template.
func (s *Settings) Spec(on engine.Engine, log *slog.Logger) (engine.Spec, error) {
	config := s.sandboxConfig(on, s.passThrough(log), log)
	way, err := s.wayOut(nil, &netlog.Log{}, nil, log)
	if err != nil {
		return engine.Spec{}, err
	}
	defer func() { _ = way.Close() }()
	config.WayOut = way
	return sandbox.Spec(&config)
}
