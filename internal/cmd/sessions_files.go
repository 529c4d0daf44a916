// The commands sessions files, get and put.

package cmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/server"
)

// sessionFile is a file of a session.
type sessionFile struct {
	Path      string    `json:"path"`
	SizeBytes int64     `json:"size_bytes"`
	Modified  time.Time `json:"modified"`
}

// fileList is the newest files of a session, and how many there are.
type fileList struct {
	Files []sessionFile `json:"files"`
	Total int           `json:"total"`
}

// files lists the files that match a glob; all without one.
func (v *visit) files(ctx context.Context, id, glob string) (list fileList, err error) {
	list.Files = []sessionFile{}
	globs := []string{glob}
	if glob == "" {
		globs = []string{"", "input/**"} // the list without a glob has those of input/ only where there are no others
	}
	for _, glob := range globs {
		var part struct {
			Artifacts []sessionFile
			Total     int
		}
		if err := v.read(ctx, http.MethodGet, id, "/files", url.Values{"glob": {glob}}, &part); err != nil {
			return list, err
		}
		if len(part.Artifacts) > 0 && !slices.Contains(list.Files, part.Artifacts[0]) {
			list.Files, list.Total = append(list.Files, part.Artifacts...), list.Total+part.Total
		}
	}
	slices.SortFunc(list.Files, func(a, b sessionFile) int { return cmp.Or(b.Modified.Compare(a.Modified), cmp.Compare(a.Path, b.Path)) })
	return list, nil
}

func filesCommand(settings *server.Program, whose *owner) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "files NAME [GLOB]", Short: "List the files of a session, the newest first", Args: Takes(1, 2),
		Long: `files lists the files of a session, or those that GLOB matches: *.csv in any
folder, output/*.png in one. A running server may have the session open; one
that sleeps wakes for a moment.`,
		RunE: onSessions(settings, whose, func(ctx context.Context, v *visit, args []string) error {
			list, err := v.files(ctx, args[0], strings.Join(args[1:], ""))
			if err != nil {
				return err
			}
			if asJSON {
				return WriteJSON(os.Stdout, list)
			}
			table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
			for _, f := range list.Files {
				fmt.Fprintf(table, "%s\t%s\t%s\n", PrintableTo(f.Path, 300), humanize.Bytes(uint64(max(0, f.SizeBytes))), f.Modified.Local().Format(time.DateTime))
			}
			if more := list.Total - len(list.Files); more > 0 {
				fmt.Fprintf(table, "… and %d older\n", more)
			}
			return table.Flush()
		}),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the files as JSON")
	return cmd
}

func getCommand(settings *server.Program, whose *owner) *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use: "get NAME PATH... [DIR]", Short: "Copy files of a session to this machine", Args: Takes(2, 1000),
		Long: `get copies files of a session into DIR, or into this folder. The last argument
is DIR where it is a folder of this machine or ends with a slash. PATH is as
files lists it; PATH@RUN_ID is the file as it was before that run. A running
server may have the session open; one that sleeps wakes for a moment.`,
		RunE: onSessions(settings, whose, func(ctx context.Context, v *visit, args []string) error {
			id, paths, dir := args[0], args[1:], "."
			if last := paths[len(paths)-1]; len(paths) > 1 {
				info, err := os.Stat(last)
				if err == nil && info.IsDir() || strings.HasSuffix(last, "/") || strings.HasSuffix(last, string(filepath.Separator)) {
					paths, dir = paths[:len(paths)-1], last
				}
			}
			for _, p := range paths {
				to := filepath.Join(dir, path.Base(filepath.ToSlash(p)))
				err := writeWhole(to, force, func(w io.Writer) error {
					answer, err := v.ask(ctx, http.MethodGet, id, "/files/"+p, nil, nil)
					if f := new(fault.Error); errors.As(err, &f) && f.Code == fault.NotFound {
						err = fault.New(fault.NotFound, "`code-sandbox-mcp sessions files` lists those that there are.", "The session has no file %q.", p)
					}
					if err != nil {
						return err
					}
					defer func() { _ = answer.Body.Close() }()
					_, err = io.Copy(w, answer.Body)
					return err
				})
				if err != nil {
					return err
				}
				fmt.Println(PrintableTo(to, 300))
			}
			return nil
		}),
	}
	cmd.Flags().BoolVar(&force, "force", false, "replace files that exist")
	return cmd
}

func putCommand(settings *server.Program, whose *owner) *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use: "put NAME FILE...", Short: "Copy files of this machine into a session", Args: Takes(2, 1000),
		Long: `put copies files into input/ of a session, where code finds them. A running
server may have the session open; one that sleeps wakes for a moment.`,
		RunE: onSessions(settings, whose, func(ctx context.Context, v *visit, args []string) error {
			for _, name := range args[1:] {
				to, err := v.put(ctx, args[0], name, force)
				if err != nil {
					return err
				}
				fmt.Println(PrintableTo(to, 300))
			}
			return nil
		}),
	}
	cmd.Flags().BoolVar(&force, "force", false, "replace files that exist")
	return cmd
}

// put copies a file of this machine into a session, and returns its path there.
func (v *visit) put(ctx context.Context, id, name string, force bool) (string, error) {
	info, err := os.Stat(name)
	if err == nil && !info.Mode().IsRegular() {
		return "", fault.New(fault.InvalidArgument, "Name files; a folder's can be packed into one first.", "%q is no file.", name)
	}
	var file *os.File
	if err == nil {
		file, err = os.Open(name)
	}
	if err != nil {
		return "", fault.New(fault.NotFound, "Name a file that there is.", "The file %q cannot be read: %v.", name, errors.Unwrap(err))
	}
	defer func() { _ = file.Close() }()
	to := "input/" + filepath.Base(name)
	answer, err := v.ask(ctx, http.MethodPut, id, "/files/"+to, url.Values{"overwrite": {strconv.FormatBool(force)}}, file)
	if f := new(fault.Error); errors.As(err, &f) && f.Code == fault.FileExists {
		err = fault.New(fault.FileExists, "Pass --force to replace it, or rename yours.", "The session has %s already.", to)
	}
	if err != nil {
		return "", err
	}
	return to, answer.Body.Close()
}
