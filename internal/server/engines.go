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
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/doctor"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/selftest"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/podman"
)

// enginePodman is the engine of the core.
const enginePodman = "podman"

// EngineKind is an engine beside Podman. It makes containers on other machines, which see no folder of this one and pull images themselves.
type EngineKind struct {
	Name  string // as in --engine
	Setup string // the command that shows the engine's missing parts
	// Open returns the engine, which is looked for at its first use.
	Open func(log *slog.Logger) engine.Engine
	// Check refuses settings without effect on the engine.
	Check func(s *Settings) error
	// Place names the place of the containers: sessions of two places are apart.
	Place func() string
	Reach func(ctx context.Context, on engine.Engine) error
	Look  func(on engine.Engine) func(context.Context, doctor.Options) (checks []doctor.Check, answers bool)
	// Host returns the facts about the engine's machines that a self-test needs.
	Host func(ctx context.Context, s *Settings, on engine.Engine) (selftest.Host, error)
}

// engineNames returns the values of --engine.
func engineNames(kinds []*EngineKind) []string {
	names := []string{enginePodman}
	for _, k := range kinds {
		names = append(names, k.Name)
	}
	return names
}

// checkEngine refuses an unknown engine, and settings without effect on the named one.
func checkEngine(kinds []*EngineKind, s *Settings) error {
	var found Problems
	if names := engineNames(kinds); !slices.Contains(names, s.EngineName) {
		if s.EngineName == "kubernetes" {
			return fmt.Errorf("--engine kubernetes: this program runs code in Podman alone; %s runs it in a cluster", ServerProgram)
		}
		return fmt.Errorf("--engine %q is not %s", s.EngineName, strings.Join(names, " or "))
	}
	for _, k := range kinds {
		found = append(found, k.Check(s))
	}
	return errors.Join(found...)
}

// isOurs reports whether one of this program's recipes makes the image.
func isOurs(image string) bool {
	_, local := containers.RecipeOf(image)
	return local || containers.IsPublished(image)
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
