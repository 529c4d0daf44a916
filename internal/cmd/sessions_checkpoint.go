// The commands sessions export, notebook and import.

package cmd

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/docker/go-units"
	"github.com/spf13/cobra"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/checkpoint"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/rest"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/server"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/setting"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/history"
)

// maxBytesFlag bounds a checkpoint's files; 0: as much as a session may hold.
func maxBytesFlag(cmd *cobra.Command) *int64 {
	var size int64
	cmd.Flags().Var(setting.Size(&size), "max-bytes", "most that the files may take together (default: --volume-limit)")
	cmd.Flags().Lookup("max-bytes").DefValue = "" // a default of 0 would say nothing
	return &size
}

func checkpointLimits(s *server.Program, maxBytes int64) checkpoint.Limits {
	limits := checkpoint.Limits{Bytes: s.Sandbox.VolumeBytes, Entries: s.Sandbox.VolumeFiles}
	if maxBytes > 0 {
		limits.Bytes = maxBytes
	}
	return limits
}

func exportCommand(settings *server.Program, whose *owner) *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use: "export NAME FILE.tar.zst", Short: "Write a session's files and history to a file", Args: Takes(2, 2),
		Long: `export writes a session's files, variables and history to one file that import
takes on another machine. The session stays as it is; a running server may have
it open. The files are written as they are: what code has put into them is in
the export, secrets too. Variables are files below .state, which kernels that
wait for a server write anew for it.

Such kernels go on with their variables, and code that runs goes on.`,
	}
	maxBytes := maxBytesFlag(cmd)
	cmd.RunE = onSessions(settings, whose, func(ctx context.Context, v *visit, args []string) error {
		told, err := v.export(ctx, args[0], args[1], force, url.Values{"max_bytes": {strconv.FormatInt(*maxBytes, 10)}})
		if err == nil {
			fmt.Printf("exported %s to %s: %s\n", args[0], args[1], counted(told.Summary))
			warnOf(told)
		}
		return err
	})
	cmd.Flags().BoolVar(&force, "force", false, "replace the file where it exists")
	return cmd
}

func notebookCommand(settings *server.Program, whose *owner) *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use: "notebook NAME FILE.ipynb|-", Short: "Write what ran in a session as a Jupyter notebook", Args: Takes(2, 2),
		Long: `notebook writes a session's runs with their outputs as a notebook that opens in
Jupyter, or to stdout for -. It only reads the history, so a running server may
have the session open. The language with more runs is the notebook's; runs of
the other become text with code in it.`,
		RunE: onSessions(settings, whose, func(ctx context.Context, v *visit, args []string) error {
			told, err := v.export(ctx, args[0], args[1], force, url.Values{"as": {server.AsNotebook}})
			if err == nil && args[1] != "-" {
				fmt.Printf("wrote %d runs of %s to %s\n", told.Runs, args[0], args[1])
			}
			return err
		}),
	}
	cmd.Flags().BoolVar(&force, "force", false, "replace the file where it exists")
	return cmd
}

// export has the session written to a file, or to stdout for -.
func (v *visit) export(ctx context.Context, id, path string, force bool, query url.Values) (told server.Exported, err error) {
	write := func(to io.Writer) error {
		answer, err := v.ask(ctx, http.MethodGet, id, "/export", query, nil)
		if err != nil {
			return err
		}
		defer func() { _ = answer.Body.Close() }()
		if _, err := io.Copy(to, answer.Body); err != nil {
			return err
		}
		decode := func(into any) error { return json.Unmarshal([]byte(answer.Trailer.Get(rest.ReportTrailer)), into) }
		if err := readFault(decode); err != nil {
			return err
		}
		return decode(&told)
	}
	if path == "-" {
		return told, write(os.Stdout)
	}
	return told, writeWhole(path, force, write)
}

func counted(s checkpoint.Summary) string {
	text := fmt.Sprintf("%d files, %s", s.Files, units.BytesSize(float64(s.Bytes)))
	if s.Links > 0 {
		text += fmt.Sprintf(", %d links", s.Links)
	}
	return text
}

// warnOf reports the parts that the export lacks or changes.
func warnOf(told server.Exported) {
	for _, problem := range told.Problems {
		fmt.Fprintln(os.Stderr, "warning:", problem)
	}
	for _, w := range []struct {
		count int64
		text  string
	}{
		{told.Skipped, "with names that no other machine would take are left out"},
		{told.Gone, "were removed meanwhile"},
		{told.Changed, "were changed while they were read"},
	} {
		if w.count > 0 {
			fmt.Fprintf(os.Stderr, "warning: %d files %s\n", w.count, w.text)
		}
	}
}

func importCommand(settings *server.Program, whose *owner) *cobra.Command {
	cmd := &cobra.Command{
		Use: "import FILE.tar.zst [NAME]", Short: "Make a session from an exported file", Args: Takes(1, 2),
		Long: `import makes a named session from a file that export wrote, under its old name
or under NAME, which must not exist yet. A server that opens it finds the files,
and its first run the variables, which are read inside the sandbox only. The
file may come from anybody: what is damaged or unsound in it is refused, and
nothing is left.`,
	}
	maxBytes := maxBytesFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		file, err := os.Open(args[0])
		if err != nil {
			return Report(fault.New(fault.NotFound, "Name a file that export wrote.", "The file %q cannot be read: %v.", args[0], errors.Unwrap(err)))
		}
		defer func() { _ = file.Close() }()
		if _, err := whose.dir(settings); err != nil {
			return Report(err)
		}
		return withManager(cmd.Context(), settings, whose.key(), func(ctx context.Context, manager *sandbox.Manager) error {
			id, told, err := importSession(ctx, manager, strings.Join(args[1:], ""), file, checkpointLimits(settings, *maxBytes))
			if err == nil {
				fmt.Printf("imported %s: %s\n", id, counted(told))
			}
			return err
		})
	}
	return cmd
}

// importSession makes a session of the files and the history, under the checkpoint's name for an empty id, if nothing of the name exists. It
// releases the session, and removes it after a failure.
func importSession(ctx context.Context, manager *sandbox.Manager, id string, from io.Reader, limits checkpoint.Limits) (string, checkpoint.Summary, error) {
	begun := false
	told, err := checkpoint.Import(ctx, from, limits, func(m checkpoint.Manifest, ran io.Reader, next checkpoint.Next) error {
		id = cmp.Or(id, m.SessionID)
		if slices.ContainsFunc(manager.Sessions(ctx), func(info sandbox.SessionInfo) bool { return info.ID == id }) {
			return fault.New(fault.FileExists, "Give it another name: code-sandbox-mcp sessions import FILE NAME.", "There is a session %q already.", id)
		}
		err := manager.BeginImport(id, ran)
		if errors.Is(err, history.ErrBad) {
			return fault.New(fault.InvalidContent, "Use a file that `code-sandbox-mcp sessions export` wrote.", "The history in the file makes no sense.").Because(err)
		}
		if err != nil {
			return err
		}
		begun = true
		return manager.ImportFiles(ctx, id, next)
	})
	if err == nil {
		_, err = manager.CloseSession(ctx, id, true)
	}
	if err != nil && begun {
		_, undone := manager.CloseSession(ctx, id, false)
		err = errors.Join(err, undone)
	}
	return id, told, err
}
