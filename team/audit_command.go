// The commands audit verify and audit show.

package team

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/audit"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/cmd"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/setting"
)

func auditCommand(settings *auditSettings) *cobra.Command {
	command := &cobra.Command{
		Use: "audit", Short: "Check and read the audit log",
		Long: `audit reads the log of --audit-log. Each line has the hash of the one before, so that what was changed, removed, inserted or reordered is
found. Whoever can write the file can write all of it anew: the server's own log has the hash of the last line at each start, each hour and at
each end. Keep that log somewhere else, and give such a hash to audit verify --head.`,
		Args: cmd.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return cmd.Usage(errors.New("say what to do: audit verify or audit show"))
		},
	}
	command.AddCommand(auditVerifyCommand(settings), auditShowCommand(settings))
	return command
}

// openAudit opens the log for a command: its argument's file, stdin for -, or else the settings' one.
func openAudit(command *cobra.Command, settings *auditSettings, args []string) (io.ReadCloser, error) {
	switch {
	case len(args) > 1:
		return nil, cmd.Usage(fmt.Errorf("%d files are given; name one", len(args)))
	case len(args) == 1 && args[0] == "-":
		return io.NopCloser(command.InOrStdin()), nil
	case len(args) == 1:
		return os.Open(args[0])
	case settings.File == "":
		return nil, cmd.Usage(errors.New("name the file of the audit log, or set --audit-log as the server has it"))
	}
	return os.Open(settings.File)
}

func auditVerifyCommand(settings *auditSettings) *cobra.Command {
	var head string
	var asJSON bool
	command := &cobra.Command{
		Use: "verify [FILE|-]", Short: "Check that no line of the audit log was changed, removed or inserted",
		RunE: func(command *cobra.Command, args []string) error {
			if head != "" && (len(head) != 64 || strings.Trim(head, "0123456789abcdef") != "") {
				return cmd.Usage(fmt.Errorf("--head %q is not a hash as the server's log has it: 64 digits of 0-9 and a-f", head))
			}
			log, err := openAudit(command, settings, args)
			if err != nil {
				return err
			}
			defer func() { _ = log.Close() }()
			report, err := audit.Verify(log, head)
			if err != nil {
				return err
			}
			return cmd.PrintReport(auditVerdict{report}, asJSON)
		},
	}
	command.Flags().StringVar(&head, "head", "", "hash of a line that has to be there, as the server's own log has it")
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
		if p.Line > 0 {
			fmt.Fprintf(&b, "line %d: ", p.Line)
		}
		fmt.Fprintln(&b, p.What)
	}
	for _, at := range v.Torn {
		fmt.Fprintf(&b, "line %d: a torn line, as a killed server leaves it; the chain goes over it\n", at)
	}
	if v.Unfinished {
		b.WriteString("the last line is unfinished: it is being written, or its server was killed\n")
	}
	if v.Lost > 0 {
		fmt.Fprintf(&b, "%s events are not in the log: it could not be written when they came\n", humanize.Comma(v.Lost))
	}
	if v.KeptAt > 0 {
		fmt.Fprintf(&b, "the kept head is that of number %d, and the last one is %d\n", v.KeptAt, v.Last)
	}
	if v.Lines > 0 {
		fmt.Fprintf(&b, "lines: %s\nhead %s\n", humanize.Comma(int64(v.Lines)), v.Head)
	} else {
		b.WriteString("the log has no line\n")
	}
	if v.OK() {
		b.WriteString("the chain holds\n")
	} else {
		b.WriteString("THE CHAIN DOES NOT HOLD\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
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
	var ago time.Duration
	if f.since == "" {
		return nil
	} else if setting.Duration(&ago).Set(f.since) == nil {
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
	return (f.session == "" || l.Session == f.session) && (!f.byPrincipal || l.Principal == f.principal) && (f.kind == "" || l.Kind == f.kind) && !l.Time.Before(f.from)
}

func auditShowCommand(settings *auditSettings) *cobra.Command {
	var filter auditFilter
	var asJSON bool
	command := &cobra.Command{
		Use: "show [FILE|-]", Short: "Show what the audit log says",
		RunE: func(command *cobra.Command, args []string) error {
			filter.byPrincipal = command.Flags().Changed("principal")
			if err := filter.check(); err != nil {
				return err
			}
			log, err := openAudit(command, settings, args)
			if err != nil {
				return err
			}
			defer func() { _ = log.Close() }()
			return showAudit(command.OutOrStdout(), log, &filter, asJSON)
		},
	}
	command.Flags().StringVar(&filter.session, "session", "", "only what has to do with this session")
	command.Flags().StringVar(&filter.principal, "principal", "", "only what this principal did; empty: the user whose server it is")
	command.Flags().StringVar(&filter.kind, "kind", "", "only lines of this kind: "+strings.Join(audit.Kinds, ", "))
	command.Flags().StringVar(&filter.since, "since", "", "only lines since then: a duration before now, such as 1h, or a time")
	command.Flags().BoolVar(&asJSON, "json", false, "print the lines as they are in the file")
	return command
}

// alignedLines is how many table lines are held back for alignment.
const alignedLines = 1000

func showAudit(w io.Writer, log io.Reader, filter *auditFilter, asJSON bool) error {
	table, lines := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0), 0
	if !asJSON {
		fmt.Fprintln(table, "TIME\tWHO\tKIND\tWHAT\tSESSION\tRUN\tOUTCOME\tDETAILS")
	}
	err := audit.Read(log, func(raw []byte, l *audit.Line) error {
		switch {
		case !filter.takes(l):
			return nil
		case asJSON:
			_, err := fmt.Fprintf(w, "%s\n", raw)
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

// auditColumns returns a line's columns, without control characters for a terminal.
func auditColumns(l *audit.Line) []string {
	columns := []string{l.Time.Local().Format("2006-01-02 15:04:05.000"), l.Principal, l.Kind, strings.TrimSpace(l.Action + " " + l.Tool), l.Session, l.Run, l.Outcome}
	for i, text := range columns {
		columns[i] = cmp.Or(cmd.Printable(text), "-")
	}
	var details []string
	if l.Address != "" {
		details = append(details, "address="+l.Address)
	}
	if l.CodeHash != "" {
		details = append(details, "code_sha256="+l.CodeHash)
	}
	for _, name := range slices.Sorted(maps.Keys(l.Detail)) {
		value, isText := l.Detail[name].(string)
		if !isText {
			text, _ := json.Marshal(l.Detail[name])
			value = string(text)
		}
		details = append(details, name+"="+value)
	}
	return append(columns, cmp.Or(cmd.PrintableTo(strings.Join(details, " "), maxDetails), "-"))
}
