// Checks of the settings that doctor shows: databases, variables, folders.

package server

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/doctor"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/secrets"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/kernel"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/podman"
)

// Examine reports the abilities of this machine, and the settings without effect on it.
func (p *Program) Examine(ctx context.Context, on engine.Engine, log *slog.Logger) doctor.Report {
	skills := skillChecks(p.skillLoader(slog.New(slog.DiscardHandler))) // first, so that the log does not say it too
	config := p.sandboxConfig(on, nil, log)
	var look func(context.Context, doctor.Options) ([]doctor.Check, bool)
	if local, is := on.(*podman.Engine); is {
		look = doctor.Podman(local)
	} else {
		look = p.engineKind().Look(on)
	}
	options := doctor.Options{
		Engine: on, Look: look, Limits: config.Limits, Mounts: config.Mounts,
		Labels: map[string]string{sandbox.LabelHost: config.Host, sandbox.LabelNamed: "false"},
	}
	for _, l := range kernel.Languages {
		if kernel, on := config.Kernels[l.Language]; on {
			options.Images = append(options.Images, doctor.Image{
				Language: l.Language, Ref: kernel.Image, Setup: kernel.Setup, SetupRuns: p.EngineURL == "" && os.Getenv(CommandVariable) == "",
			})
		}
	}
	report := doctor.Run(ctx, options)
	report.Checks = append(report.Checks, passThroughChecks(p.PassThroughEnv, p.env.lookup)...)
	report.Checks = append(report.Checks, p.Network.secretChecks(p.env.lookup)...)
	report.Checks = append(report.Checks, mountChecks(config.Mounts)...)
	report.Checks = append(report.Checks, skills...)
	report.Checks = append(report.Checks, p.SQL.checks(ctx, p.env.environ())...)
	report.Checks = append(report.Checks, p.ToolServers.checks(ctx, p.env.lookup, log)...)
	for _, f := range p.features {
		if f.Doctor != nil {
			report.Checks = append(report.Checks, f.Doctor(ctx, p)...)
		}
	}
	return report
}

// passThroughChecks report variables that cannot be passed through or masked.
func passThroughChecks(names []string, lookup func(string) (string, bool)) []doctor.Check {
	var checks []doctor.Check
	for _, name := range names {
		check := doctor.Check{Name: "variable " + name, Status: doctor.OK, Found: "set, masked in answers"}
		switch value, ok := lookup(name); {
		case !ok:
			check.Status, check.Found = doctor.Warn, "not set"
			check.Why, check.Fix = "the code will not have it", "set it in the client's env for this server"
		case len(value) < secrets.Shortest:
			check.Status, check.Found = doctor.Warn, fmt.Sprintf("set, shorter than %d characters", secrets.Shortest)
			check.Why, check.Fix = "so short a value is not masked in answers", "use a longer secret"
		case !secrets.Maskable(value):
			check.Status, check.Found = doctor.Warn, "set, to something that is no secret"
			check.Why = "so common a value is not masked: answers have it by chance"
			check.Fix = "use another value where it is to be a secret; what is none can be written into the code"
		}
		checks = append(checks, check)
	}
	return checks
}
