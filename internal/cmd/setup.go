// The command setup: which images, and from where.

package cmd

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"regexp"

	"github.com/spf13/cobra"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/server"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/setup"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/podman"
)

// registryName is a host, which cannot be taken for a part of a path, and a path.
var registryName = regexp.MustCompile(`^(localhost|[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+|[A-Za-z0-9.-]+:\d+|localhost:\d+)(/[a-z0-9]+([._-]+[a-z0-9]+)*)*$`)

func setupCommand(settings *server.Settings) *cobra.Command {
	var base, registry string
	var build, rebuild bool
	cmd := &cobra.Command{
		Use: "setup", Short: "Make the Python and JavaScript images ready", Args: noArgs,
		Long: `setup makes the images ready that code runs in. It pulls those that were
published with this program, by their digests. Where there are none, or they
cannot be had, it builds them from the recipes in this program, on Debian's
image from a registry or, where no registry answers, on a base made from
Debian's package mirror (which needs mmdebstrap). An image that is named by
--python-image or --js-image is pulled when it is not there; "full" names the
one of ours that has a compiler.

What is ready already is left as it is, so a second call takes no time.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if registry != "" && !registryName.MatchString(registry) {
				return usage(fmt.Errorf("--registry %q is not a registry's name such as registry.example.com/team or localhost:5000", registry))
			}
			return withEngine(cmd.Context(), settings, func(ctx context.Context, engine *podman.Engine, _ *slog.Logger) error {
				options := setup.Options{Base: base, Rebuild: rebuild}
				if !build && !rebuild && base == "" {
					options.Published = containers.PublishedImages()
					options.Published.Registry = cmp.Or(registry, options.Published.Registry)
				}
				return printImages(ctx, settings, engine, options)
			})
		},
	}
	cmd.Flags().StringVar(&registry, "registry", "", "`registry` that has copies of the published images, such as registry.example.com/team (default: where they are published)")
	cmd.Flags().BoolVar(&build, "build", false, "build the images here, and pull none that is published; so do --base and --rebuild")
	cmd.Flags().StringVar(&base, "base", "", "`image` to build on, Debian 13 or newer")
	cmd.Flags().BoolVar(&rebuild, "rebuild", false, "build again what is there, without the build cache")
	return cmd
}

// printImages makes the images of the languages that are on, and prints what became of each.
func printImages(ctx context.Context, s *server.Settings, engine *podman.Engine, options setup.Options) error {
	options.Pull = make(map[string]string)
	for _, l := range sandbox.Languages {
		image, on := s.Image(l.Language)
		if !on {
			continue
		}
		options.Languages = append(options.Languages, string(l.Language))
		if recipe, ours := containers.RecipeOf(image); !ours {
			options.Pull[string(l.Language)] = image
		} else if recipe.Full {
			options.Full = append(options.Full, string(l.Language))
		}
	}
	if len(options.Languages) == 0 {
		return usage(fmt.Errorf("both languages are switched off, so there is no image to make"))
	}
	results, err := server.MakeImages(ctx, engine, options, setup.NewReporter(os.Stderr))
	for _, r := range results {
		how := "was ready"
		switch {
		case r.Pulled:
			how = "was pulled"
		case r.Made:
			how = "was built"
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
