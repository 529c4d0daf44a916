// The commands audit verify, audit show and audit head.

package team

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/audit"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/cmd"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/server"
)

func auditCommand(settings *auditSettings) *cobra.Command {
	command := &cobra.Command{
		Use: "audit", Short: "Check and read the audit log",
		Long: `audit reads the log of --audit-log. Each line has the hash of the one before, so that what was changed, removed, inserted or reordered is
found. Whoever can write the file can write all of it anew: keep what audit head
prints somewhere else, and give it to audit verify --head.`,
		Args: cmd.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return cmd.Usage(errors.New("say what to do: audit verify, show or head"))
		},
	}
	command.AddCommand(auditVerifyCommand(settings), auditShowCommand(settings), auditHeadCommand(settings))
	return command
}

// auditFile returns the path of the log for a command.
func auditFile(settings *auditSettings, args []string) (string, error) {
	switch {
	case len(args) > 1:
		return "", cmd.Usage(fmt.Errorf("%d files are given; name one", len(args)))
	case len(args) == 1:
		return args[0], nil
	case settings.File == "":
		return "", cmd.Usage(errors.New("name the file of the audit log, or set --audit-log as the server has it"))
	}
	return settings.File, nil
}

func auditVerifyCommand(settings *auditSettings) *cobra.Command {
	var head string
	var asJSON bool
	command := &cobra.Command{
		Use: "verify [FILE...]", Short: "Check that no line of the audit log was changed, removed or inserted",
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				path, err := auditFile(settings, nil)
				if err != nil {
					return err
				}
				args = []string{path}
			}
			if head != "" && (len(head) != 64 || strings.Trim(head, "0123456789abcdef") != "") {
				return cmd.Usage(fmt.Errorf("--head %q is not a hash as audit head prints it: 64 digits of 0-9 and a-f", head))
			}
			report, err := audit.Verify(args, head)
			if err != nil {
				return err
			}
			return cmd.PrintReport(auditVerdict{report}, asJSON)
		},
	}
	command.Flags().StringVar(&head, "head", "", "hash of a line that has to be there, as audit head printed it earlier")
	command.Flags().BoolVar(&asJSON, "json", false, "print the result as JSON")
	return command
}

// auditVerdict prints verify's report.
type auditVerdict struct{ *audit.Report }

func (v auditVerdict) WriteJSON(w io.Writer) error {
	return cmd.WriteJSON(w, struct {
		OK bool `json:"ok"`
		*audit.Report
	}{v.OK(), v.Report})
}

func (v auditVerdict) WriteTable(w io.Writer) error {
	var b strings.Builder
	for _, p := range v.Problems {
		fmt.Fprintf(&b, "%s: %s\n", p.Place, p.What)
	}
	for _, at := range v.Torn {
		fmt.Fprintf(&b, "%s: a torn line, as a killed server leaves it; the chain goes over it\n", at)
	}
	if v.Unfinished {
		b.WriteString("the last line is unfinished: it is being written, or its server was killed\n")
	}
	if v.Lost > 0 {
		fmt.Fprintf(&b, "%s events are not in the log: it could not be written when they came\n", humanize.Comma(v.Lost))
	}
	if v.KeptAt > 0 {
		fmt.Fprintf(&b, "the kept head is that of number %d; %s came after it\n", v.KeptAt, lineCount(v.Last-v.KeptAt))
	}
	if v.Lines == 0 {
		b.WriteString("the log has no line\n")
	} else {
		fmt.Fprintf(&b, "%s in %d files, numbers %d to %d\nhead %s\n", lineCount(int64(v.Lines)), v.Files, v.First, v.Last, v.Head)
	}
	if v.OK() {
		b.WriteString("the chain holds\n")
	} else {
		b.WriteString("THE CHAIN DOES NOT HOLD\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func lineCount(n int64) string {
	if n == 1 {
		return "1 line"
	}
	return humanize.Comma(n) + " lines"
}

func auditHeadCommand(settings *auditSettings) *cobra.Command {
	return &cobra.Command{
		Use: "head [FILE]", Short: "Print the hash of the audit log's last line, to be kept elsewhere",
		RunE: func(command *cobra.Command, args []string) error {
			path, err := auditFile(settings, args)
			if err != nil {
				return err
			}
			head, err := audit.ReadHead(path)
			if err != nil {
				return err
			}
			if head.Hash == "" {
				return fmt.Errorf("the audit log %s has no line", path)
			}
			_, err = fmt.Fprintln(command.OutOrStdout(), head.Hash)
			return err
		},
	}
}

// auditFilter selects the lines to show.
type auditFilter struct {
	session, principal, kind, since string
	from                            time.Time
	byPrincipal                     bool
}

func (f *auditFilter) check() error {
	if f.kind != "" && !slices.Contains(audit.Kinds, f.kind) {
		return cmd.Usage(fmt.Errorf("--kind: there is no kind %q; there are %s", f.kind, strings.Join(audit.Kinds, ", ")))
	}
	if f.since == "" {
		return nil
	}
	var ago time.Duration
	if server.Duration(&ago).Set(f.since) == nil {
		f.from = time.Now().Add(-ago)
		return nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", time.DateTime, "2006-01-02 15:04", time.DateOnly} {
		if at, err := time.ParseInLocation(layout, f.since, time.Local); err == nil {
			f.from = at
			return nil
		}
	}
	return cmd.Usage(fmt.Errorf("--since %q is neither a duration such as 1h or 7d nor a time such as 2026-01-31 or 2026-01-31T12:00:00Z", f.since))
}

func (f *auditFilter) takes(l *audit.Line) bool {
	return (f.session == "" || l.Session() == f.session) && (!f.byPrincipal || l.Actor.User.Name == f.principal) &&
		(f.kind == "" || l.Kind() == f.kind) && !l.When().Before(f.from)
}

func auditShowCommand(settings *auditSettings) *cobra.Command {
	var filter auditFilter
	var follow, asJSON bool
	command := &cobra.Command{
		Use: "show [FILE]", Short: "Show what the audit log says",
		RunE: func(command *cobra.Command, args []string) error {
			path, err := auditFile(settings, args)
			if err != nil {
				return err
			}
			filter.byPrincipal = command.Flags().Changed("principal")
			if err := filter.check(); err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(command.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			if err = showAudit(ctx, command.OutOrStdout(), path, &filter, follow, asJSON); errors.Is(err, context.Canceled) {
				return nil
			}
			return err
		},
	}
	command.Flags().StringVar(&filter.session, "session", "", "only what has to do with this session")
	command.Flags().StringVar(&filter.principal, "principal", "", "only what this principal did; empty: the user whose server it is")
	command.Flags().StringVar(&filter.kind, "kind", "", "only lines of this kind: "+strings.Join(audit.Kinds, ", "))
	command.Flags().StringVar(&filter.since, "since", "", "only lines since then: a duration before now, such as 1h, or a time")
	command.Flags().BoolVar(&follow, "follow", false, "go on with the lines that come")
	command.Flags().BoolVar(&asJSON, "json", false, "print the lines as they are in the file")
	return command
}

// alignedLines is how many lines of a table are held back for alignment.
const alignedLines = 1000

func showAudit(ctx context.Context, w io.Writer, path string, filter *auditFilter, follow, asJSON bool) error {
	table, lines := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0), 0
	if !asJSON && !follow {
		fmt.Fprintln(table, "TIME\tWHO\tKIND\tWHAT\tSESSION\tRUN\tOUTCOME\tDETAILS")
	}
	err := audit.Read(ctx, path, follow, func(raw []byte, l *audit.Line) error {
		switch {
		case !filter.takes(l):
			return nil
		case asJSON:
			_, err := fmt.Fprintf(w, "%s\n", raw)
			return err
		case follow:
			_, err := fmt.Fprintln(w, strings.Join(auditColumns(l), "  "))
			return err
		}
		if lines++; lines%alignedLines == 0 {
			if err := table.Flush(); err != nil {
				return err
			}
		}
		_, err := fmt.Fprintln(table, strings.Join(auditColumns(l), "\t"))
		return err
	})
	return errors.Join(err, table.Flush())
}

// maxDetails bounds the shown characters of a line's details.
const maxDetails = 300

// auditColumns returns the columns of a line, without control characters for a terminal.
func auditColumns(l *audit.Line) []string {
	orDash := func(s string) string {
		if s == "" {
			return "-"
		}
		return cmd.Printable(s)
	}
	what, outcome := strings.TrimSuffix(l.Activity+" "+l.API.Operation, " "), cmp.Or(l.StatusCode, l.Status)
	var details []string
	add := func(before, said string) {
		if said != "" {
			details = append(details, before+said)
		}
	}
	add("from ", l.Source.IP)
	add("", l.Destination.Hostname)
	add("", l.Request.Method)
	add("", l.Request.URL.Path)
	if l.Response.Code != 0 {
		details = append(details, fmt.Sprintf("status %d", l.Response.Code))
	}
	if l.Traffic != nil {
		details = append(details, fmt.Sprintf("%d bytes out, %d in", l.Traffic.Out, l.Traffic.In))
	}
	add("", l.File.Path)
	if l.File.Size != nil {
		details = append(details, fmt.Sprintf("(%d bytes)", *l.File.Size))
	}
	add("SHA-256 ", l.Process.File.Hashes[0].Value)
	if l.Duration != nil {
		details = append(details, fmt.Sprintf("%d ms", *l.Duration))
	}
	for _, name := range slices.Sorted(maps.Keys(l.Unmapped)) {
		if name != "kind" {
			value, _ := json.Marshal(l.Unmapped[name])
			details = append(details, name+"="+string(value))
		}
	}
	return []string{
		l.When().Local().Format("2006-01-02 15:04:05.000"), orDash(l.Actor.User.Name), orDash(l.Kind()), orDash(what), orDash(l.Session()), orDash(l.Process.UID), orDash(outcome),
		cmp.Or(cmd.PrintableTo(strings.Join(details, " "), maxDetails), "-"),
	}
}
