package cmd

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/notebook"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/server"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/runs"
)

// notebookCommand returns the command `sessions notebook`.
func notebookCommand(settings *server.Program, whose *owner) *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use: "notebook NAME FILE.ipynb|-", Short: "Write what ran in a session as a Jupyter notebook", Args: Takes(2, 2),
		Long: `notebook writes a session's runs with their outputs as a notebook that opens in
Jupyter, or to stdout for -. It only reads the history, so a running server may
have the session open. The language with more runs is the notebook's; runs of
the other become text with code in it.`,
		RunE: func(_ *cobra.Command, args []string) error {
			return Report(writeNotebook(settings, whose, args[0], args[1], force))
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "replace the file where it exists")
	return cmd
}

func writeNotebook(s *server.Program, whose *owner, id, path string, force bool) error {
	dir, err := whose.dir(s)
	if err != nil {
		return err
	}
	runs, err := runs.ReadHistory(dir, id)
	if err != nil {
		return err
	}
	if len(runs) == 0 {
		return noSession(id)
	}
	if path == "-" {
		return notebook.Write(os.Stdout, runs)
	}
	if err := writeWhole(path, force, func(to io.Writer) error { return notebook.Write(to, runs) }); err != nil {
		return err
	}
	fmt.Printf("wrote %d runs of %s to %s\n", len(runs), id, path)
	return nil
}
