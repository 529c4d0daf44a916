// The engines: the one that the settings name, and functions that commands need beyond engine.Engine.

package server

import (
	"context"
	"log/slog"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/doctor"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/selftest"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/setting"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/podman"
)

// EngineKind is an engine beside Podman. It makes containers on other machines, which see no folder of this one and pull images themselves.
type EngineKind struct {
	Name  string // as in --engine
	Setup string // the command that shows the engine's missing parts
	// Open returns the engine, which is looked for at its first use.
	Open func(log *slog.Logger) engine.Engine
	// Check refuses settings without effect on the engine.
	Check func(s *setting.Settings) error
	// Place names the place of the containers: sessions of two places are apart.
	Place func() string
	Reach func(ctx context.Context, on engine.Engine) error
	Look  func(on engine.Engine) func(context.Context, doctor.Options) (checks []doctor.Check, answers bool)
	// Host returns the facts about the engine's machines that a self-test needs.
	Host func(ctx context.Context, s *setting.Settings, on engine.Engine) (selftest.Host, error)
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
	return nil, nil
}
