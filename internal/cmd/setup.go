// The command setup: images and their sources.

package cmd

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/docker/go-units"
	"github.com/klauspost/compress/zstd"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/install"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/server"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/setup"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/kernel"
)

// registryName is a host, which cannot be taken for a part of a path, and a path.
var registryName = regexp.MustCompile(`^(localhost|[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+|[A-Za-z0-9.-]+:\d+|localhost:\d+)(/[a-z0-9]+([._-]+[a-z0-9]+)*)*$`)

func setupCommand(settings *server.Program) *cobra.Command {
	var base, registry, save, from string
	var build, quick, rebuild, yes bool
	cmd := &cobra.Command{
		Use: "setup", Short: "Make everything ready that code runs in", Args: NoArgs,
		Long: `setup makes everything ready that code runs in, and says how the server gets
into the clients that are found on this machine.

On a Mac and on Windows it has Podman's virtual machine run: it starts the one
there is, or makes one. It asks before that, or does it with --yes.

It pulls the images that were published with this program, by their digests.
Where there are none, or they cannot be had, it builds them from the recipes in
this program, on Debian's image from a registry or, where no registry answers,
on a base made from Debian's package mirror (which needs mmdebstrap). An image
that is named by --python-image or --js-image is pulled when it is not there;
"full" names the one of ours that has compilers, LibreOffice, tesseract and
ffmpeg. The standard image has all languages and takes 2.2 GB, a download of
0.7 GB; --slim makes one for Python and one for JavaScript in its place. Code
runs in an image that is built as soon as only its browser is missing.

What is ready already is left as it is: a call after one that was interrupted
goes on where that was, and one after one that succeeded takes no time. On
stdout there is a line for each image, for scripts. --save also writes the
images of the languages into a file, under the names that a cluster asks for:
packed if its name ends in .zst. With --from such a file and this program, a
machine with Podman is made ready without a network.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if registry != "" && !registryName.MatchString(registry) {
				return Usage(fmt.Errorf("--registry %q is not a registry's name such as registry.example.com/team or localhost:5000", registry))
			}
			return WithEngine(cmd.Context(), settings, func(ctx context.Context, on engine.Engine, _ *slog.Logger) error {
				options := setup.Options{Base: base, Quick: quick && save == "", Rebuild: rebuild} // a file that is saved needs the whole image
				if !build && !rebuild && base == "" {
					options.Published = containers.PublishedImages()
					options.Published.Registry = cmp.Or(registry, options.Published.Registry)
				}
				report := setup.NewReporter(os.Stderr)
				consent := func(what string) error { return consentTo(ctx, what, yes, os.Stdin, os.Stderr) }
				if machines, has := on.(setup.Engine); has {
					if err := setup.Machine(ctx, machines, consent, report); err != nil {
						return err
					}
				}
				if from != "" {
					if err := loadImages(ctx, on, from); err != nil {
						return err
					}
				}
				if err := printImages(ctx, settings, on, options, report); err != nil {
					return err
				}
				if save != "" {
					return saveImages(ctx, settings, on, registry, save)
				}
				return PrintReady(cmd)
			})
		},
	}
	cmd.Flags().StringVar(&registry, "registry", "", "`registry` that has copies of the published images, such as registry.example.com/team (default: where they are published)")
	cmd.Flags().StringVar(&save, "save", "", "write the images into this `file` too, under the names that a cluster asks for, for kind load image-archive or ctr images import")
	cmd.Flags().StringVar(&from, "from", "", "load the images from this `file`, which --save has written")
	cmd.Flags().BoolVar(&quick, "quick", false, "end as soon as code can run: what is built further, as the browser, is left to the next setup")
	cmd.Flags().BoolVar(&build, "build", false, "build the images here, and pull none that is published; so do --base and --rebuild")
	cmd.Flags().StringVar(&base, "base", "", "`image` to build on, Debian 13 or newer")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "make and start Podman's virtual machine without a question")
	cmd.Flags().BoolVar(&rebuild, "rebuild", false, "build again what is there, without the build cache")
	return cmd
}

// saveImages writes the images of the languages that are on into a file, and prints their names after loading.
func saveImages(ctx context.Context, s *server.Program, on engine.Engine, registry, file string) error {
	published := containers.PublishedImages()
	published.Registry = cmp.Or(registry, published.Registry)
	names := make(map[string]string)
	for _, l := range kernel.Languages {
		if image, on := s.Image(l.Language); on {
			names[image] = image
			if recipe, ours := containers.RecipeOf(image); ours {
				names[image] = published.Tagged(recipe)
			}
		}
	}
	err := writeWhole(file, true, func(archive io.Writer) error {
		closing := func() error { return nil }
		if strings.HasSuffix(file, ".zst") {
			packed, err := zstd.NewWriter(archive, zstd.WithEncoderLevel(zstd.SpeedBetterCompression))
			if err != nil {
				return err
			}
			archive, closing = packed, packed.Close
		}
		return cmp.Or(server.WithImages(ctx, on, func(connection context.Context) error { return setup.Save(connection, names, archive) }), closing())
	})
	if err != nil {
		return Report(err)
	}
	for _, name := range slices.Sorted(maps.Values(names)) {
		fmt.Fprintln(os.Stderr, "saved as "+name)
	}
	return nil
}

// loadImages loads the images of a file that saveImages has written.
func loadImages(ctx context.Context, on engine.Engine, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	return server.WithImages(ctx, on, func(connection context.Context) error {
		refs, err := setup.Load(connection, f)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		fmt.Fprintln(os.Stderr, "loaded: "+strings.Join(refs, ", "))
		return nil
	})
}

// printImages makes the images of the languages that are on, and prints the result of each.
func printImages(ctx context.Context, s *server.Program, on engine.Engine, options setup.Options, report setup.Reporter) error {
	for _, l := range kernel.Languages {
		if image, on := s.Image(l.Language); on && !slices.Contains(options.Images, image) {
			options.Images = append(options.Images, image)
		}
	}
	if len(options.Images) == 0 {
		return Usage(fmt.Errorf("all languages are switched off, so there is no image to make"))
	}
	results, err := server.MakeImages(ctx, on, options, report)
	for _, r := range results {
		how := "was ready"
		switch {
		case r.Pulled:
			how = "was pulled"
		case r.Made:
			how = "was built"
		}
		if r.Fetched > 0 {
			how += " in " + units.HumanSize(float64(r.Fetched))
		}
		fmt.Printf("%-13s  %s %s, %s unpacked\n", r.Name, r.Ref, how, units.HumanSize(float64(r.Bytes)))
		if r.Without != "" {
			fmt.Fprintf(os.Stderr, "The %s image is %s. When a package index answers, run: code-sandbox-mcp setup --rebuild\n", r.Name, r.Without)
		}
	}
	return err
}

// consentTo asks on a terminal for leave to change something outside of this program; yes: leave is given.
func consentTo(ctx context.Context, what string, yes bool, in, out *os.File) error {
	if yes {
		return nil
	}
	if !term.IsTerminal(int(in.Fd())) || !term.IsTerminal(int(out.Fd())) {
		return fmt.Errorf("setup would %s.\n  fix: %s setup --yes does it; without a terminal it does not ask", what, server.OwnCommand())
	}
	fmt.Fprintf(out, "setup will %s.\nGo on? [Y/n] ", what)
	answered := make(chan string, 1)
	go func() {
		line, err := bufio.NewReader(in).ReadString('\n')
		if err != nil {
			line = "no"
		}
		answered <- line
	}()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case line := <-answered:
		if answer := strings.ToLower(strings.TrimSpace(line)); answer != "" && answer != "y" && answer != "yes" {
			return errors.New("nothing was done; without the virtual machine no code runs here")
		}
		return nil
	}
}

// PrintReady prints the end of a setup: how to put the server into the clients of this machine.
func PrintReady(cmd *cobra.Command) error {
	return printReady(os.Stderr, changedFlags(cmd.InheritedFlags(), masked))
}

// printReady reports that all is ready, and how to put the server into the clients of this machine, with the flags of this setup.
func printReady(w io.Writer, flags []string) error {
	options, err := (&installFlags{scope: string(install.User), name: defaultName}).options(nil)
	if err != nil {
		return err
	}
	var without, with []string
	for _, name := range install.Names() {
		c, err := install.Find(name)
		if err != nil {
			return err
		}
		if targets := options.Found(c); len(targets) > 0 {
			if has := options.State(c, targets[0]); strings.HasPrefix(has, "yes") {
				with = append(with, c.Title)
			} else {
				without = append(without, c.Name)
			}
		}
	}
	fmt.Fprintln(w, "\nReady.")
	if len(with) > 0 {
		fmt.Fprintf(w, "%s: the server is installed there.\n", strings.Join(with, ", "))
	}
	switch {
	case len(without) > 0:
		fmt.Fprintf(w, "Found here without the server: %[1]s. Install it there with\n  %[2]s install --client %[3]s\n",
			strings.Join(without, ", "), server.OwnCommand(), strings.Join(append([]string{strings.Join(without, ",")}, flags...), " "))
	case len(with) == 0:
		fmt.Fprintf(w, "No client is found on this machine; `%s install --help` has the names of those that are known.\n", server.OwnCommand())
	}
	return nil
}
