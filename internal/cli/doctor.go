package cli

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/doctor"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/secrets"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/podman"
)

func doctorCommand(settings *Settings) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "doctor", Short: "Check what this machine has and can enforce, and how to mend what is missing", Args: noArgs,
		Long: `doctor looks for Podman, its service, the OCI runtime, the limits that the machine
can hold and the images, starts one container of each language, and says of
everything that is missing what it costs and what mends it.

Exit status: 0 all that is needed is there, 1 something needed is missing.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return settings.withEngine(cmd.Context(), func(ctx context.Context, engine *podman.Engine, log *slog.Logger) error {
				return settings.examine(ctx, engine, log, asJSON)
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the checks as JSON")
	return cmd
}

// examine prints what a doctor finds.
func (s *Settings) examine(ctx context.Context, engine *podman.Engine, log *slog.Logger, asJSON bool) error {
	config := s.sandboxConfig(engine, nil, log)
	options := doctor.Options{
		Engine: engine, Limits: config.Limits,
		Labels: map[string]string{sandbox.LabelHost: config.Host, sandbox.LabelNamed: "false"},
	}
	for _, l := range sandbox.Languages {
		if kernel, on := config.Kernels[l.Language]; on {
			options.Images = append(options.Images, doctor.Image{Language: l.Language, Ref: kernel.Image, Setup: kernel.Setup})
		}
	}
	report := doctor.Run(ctx, options)
	report.Checks = append(report.Checks, s.passThroughChecks(os.LookupEnv)...)
	report.Checks = append(report.Checks, s.databaseChecks(ctx)...)
	return printReport(report, asJSON)
}

// passThroughChecks tell of variables that cannot be passed through, or not masked.
func (s *Settings) passThroughChecks(lookup func(string) (string, bool)) []doctor.Check {
	var checks []doctor.Check
	for _, name := range s.PassThroughEnv {
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
