// The part of `setup` for code in a cluster.

package cluster

import (
	"bufio"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/cmd"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/server"
)

// commands adds to `setup` its flags for clusters, and its work with --engine kubernetes.
func (k *settings) commands(root *cobra.Command, s *server.Program) {
	setup, _, err := root.Find([]string{"setup"})
	if err != nil {
		panic(err) // the core adds it
	}
	var programs string
	setup.Flags().StringVar(&programs, "programs-archive", "", "write the programs image for Kubernetes to this `file`, for podman load, ctr images import or kind load image-archive")
	setup.Long += `

With --engine kubernetes there is nothing to build: the nodes of the cluster
pull the images. setup then says which ones, and makes doctor's checks. With
--programs-archive it writes the image of this program's parts that run in pods,
for clusters that do not reach the registry that it is published in, and does
nothing else.`
	podman := setup.RunE
	setup.RunE = func(command *cobra.Command, args []string) error {
		switch {
		case programs != "":
			return writePrograms(programs)
		case s.EngineName == engineName:
			return k.setUp(command, s)
		}
		return podman(command, args)
	}
}

// setUp makes no images: it checks that everything is there, and lists the addresses that the cluster's nodes must reach.
func (k *settings) setUp(command *cobra.Command, s *server.Program) error {
	for _, name := range []string{"build", "base", "rebuild", "registry", "save"} {
		if command.Flags().Changed(name) {
			return cmd.Usage(fmt.Errorf("--%s has no effect with --engine kubernetes, whose nodes pull the images that --python-image and --js-image name, or the published ones", name))
		}
	}
	fmt.Fprintln(os.Stderr, "There is nothing to build: the nodes of the cluster pull these images.")
	for _, ref := range k.images(s) {
		fmt.Println(ref)
	}
	report, err := cmd.Examine(command.Context(), s)
	if err != nil {
		return err
	}
	if err := report.WriteTable(os.Stderr); err != nil {
		return err
	}
	if !report.OK() {
		return server.ErrReported
	}
	return cmd.PrintReady(command)
}

// writePrograms writes the programs image into a file, and prints its name at the place where it is loaded.
func writePrograms(name string) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	ref := containers.ProgramsRef()
	if err := errors.Join(containers.ProgramsImage(w, ref), w.Flush(), f.Close()); err != nil {
		return fmt.Errorf("write the programs image: %w", err)
	}
	fmt.Println(ref)
	return nil
}
