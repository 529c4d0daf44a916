package cli

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/setup"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/podman"
)

func setupCommand(settings *Settings) *cobra.Command {
	var base string
	var rebuild bool
	cmd := &cobra.Command{
		Use: "setup", Short: "Make the Python and JavaScript images ready", Args: noArgs,
		Long: `setup makes the images ready that code runs in. It builds them from the recipes
in this program, on Debian's image from a registry or, where no registry answers,
on a base made from Debian's package mirror (which needs mmdebstrap). An image that
is named by --python-image or --js-image is pulled when it is not there.

What is ready already is left as it is, so a second call takes no time.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return settings.withEngine(cmd.Context(), func(ctx context.Context, engine *podman.Engine, _ *slog.Logger) error {
				return settings.makeImages(ctx, engine, setup.Options{Base: base, Rebuild: rebuild, Pull: make(map[string]string)})
			})
		},
	}
	cmd.Flags().StringVar(&base, "base", "", "`image` to build on, Debian 13 or newer")
	cmd.Flags().BoolVar(&rebuild, "rebuild", false, "build again what is there, without the build cache")
	return cmd
}

// makeImages makes the images of the languages that are on, and tells of each.
func (s *Settings) makeImages(ctx context.Context, engine *podman.Engine, options setup.Options) error {
	connection, err := engine.Connection(ctx)
	if err != nil {
		return err
	}
	for _, l := range sandbox.Languages {
		image, on := s.image(l.Language)
		if !on {
			continue
		}
		options.Languages = append(options.Languages, string(l.Language))
		if *s.LanguageImages[l.Language] != "" {
			options.Pull[string(l.Language)] = image
		}
	}
	if len(options.Languages) == 0 {
		return usageError{fmt.Errorf("both languages are switched off, so there is no image to make")}
	}
	results, err := setup.Images(connection, options, setup.NewReporter(os.Stderr))
	for _, r := range results {
		if err := engine.Prepare(ctx, r.Ref); err != nil {
			return err
		}
		how := "was ready"
		if r.Made {
			how = "is ready"
		}
		fmt.Printf("%-10s  %s %s\n", r.Language, r.Ref, how)
	}
	return err
}

// explain puts an engine's error into a reason and what mends it, one line each.
func explain(err error) error {
	if reason, fix, ok := sandbox.ExplainUnavailable(err); ok {
		return fmt.Errorf("%s\n  fix: %s", reason, fix)
	}
	return err
}
