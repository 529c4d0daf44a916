// The commands sessions list and sessions show.

package cmd

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/docker/go-units"
	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/door"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/server"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/setting"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools"
)

// sessionFields is a session in JSON: the fields of the tools, and those that they leave out.
type sessionFields struct {
	Principal string `json:"principal,omitempty"` // the session's owner; empty: the user
	tools.SessionFields
	Named     bool                 `json:"named"`
	Kernels   []sandbox.KernelInfo `json:"kernels"`
	Created   time.Time            `json:"created"`
	SizeBytes *int64               `json:"size_bytes"` // null: only its server knows
}

func fieldsOf(info sandbox.SessionInfo) sessionFields {
	return sessionFields{"", tools.FieldsOf(context.Background(), info), info.Named, append([]sandbox.KernelInfo{}, info.Kernels...), info.Created.UTC(), info.SizeBytes}
}

// Since is the time since t, and 0 for a t that is yet to come.
func Since(t time.Time) time.Duration { return max(0, time.Since(t)) }

func listCommand(settings *server.Program, whose *owner) *cobra.Command {
	var asJSON, all bool
	cmd := &cobra.Command{
		Use: "list", Short: "List the sessions of this user's servers", Args: NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, keys := settings.SessionDir(), []string{whose.key()}
			if _, err := whose.dir(settings); err != nil {
				return Report(err)
			}
			if whose.name == "" {
				others := state.Tenants(dir)
				slices.SortFunc(others, func(a, b string) int { return cmp.Compare(nameOf(dir, a), nameOf(dir, b)) })
				keys = append(keys, others...)
			}
			servers, err := door.List(cmd.Context(), setting.StateFolder(settings.StateDir), true)
			if err != nil {
				return Report(err)
			}
			var sessions []listedSession
			for _, key := range keys {
				if err := withManager(cmd.Context(), settings, key, func(ctx context.Context, manager *sandbox.Manager) error {
					for _, known := range door.Join(manager.Sessions(ctx), door.Of(servers, dir, key)) {
						sessions = append(sessions, listedSession{known.SessionInfo, nameOf(dir, key)})
					}
					return nil
				}); err != nil {
					return err
				}
			}
			switch {
			case all:
				return writeUses(os.Stdout, sessions, asJSON)
			case asJSON:
				return writeSessions(os.Stdout, sessions)
			}
			return tabulate(os.Stdout, sessions)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the sessions as JSON")
	cmd.Flags().BoolVar(&all, "all", false, "print what each session may take and takes, of all principals")
	return cmd
}

// writeUses writes what sessions take.
func writeUses(w io.Writer, sessions []listedSession, asJSON bool) error {
	uses := []door.Use{}
	for i := range sessions {
		uses = append(uses, door.UseOf(sessions[i].owner, &sessions[i].SessionInfo))
	}
	if asJSON {
		return WriteJSON(w, map[string]any{"sessions": uses})
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "PRINCIPAL\tSESSION\tMEMORY LIMIT\tCPU LIMIT\tFILES\tRUNS NOW\tIN AN HOUR\tIDLE")
	for i, u := range uses {
		fmt.Fprintf(table, "%s\t%s\t%s\t%v\t%s\t%d\t%d\t%s\n", cmp.Or(Printable(u.Principal), "-"), u.SessionID, units.BytesSize(float64(u.Memory)), u.CPUs,
			sizeOf(sessions[i].SessionInfo, "-"), u.Going, u.LastHour, units.HumanDuration(Since(u.LastUsed)))
	}
	return table.Flush()
}

// listedSession is a session with its owner; empty: the user.
type listedSession struct {
	sandbox.SessionInfo
	owner string
}

func writeSessions(w io.Writer, sessions []listedSession) error {
	fields := []sessionFields{}
	for _, s := range sessions {
		f := fieldsOf(s.SessionInfo)
		f.Principal = s.owner
		fields = append(fields, f)
	}
	return WriteJSON(w, struct {
		Sessions []sessionFields `json:"sessions"`
	}{fields})
}

// tabulate adds a column of owners if some sessions are not the user's own.
func tabulate(w io.Writer, sessions []listedSession) error {
	if len(sessions) == 0 {
		_, err := fmt.Fprintln(w, "no sessions")
		return err
	}
	several := slices.ContainsFunc(sessions, func(s listedSession) bool { return s.owner != "" })
	whose := func(text string) string {
		if !several {
			return ""
		}
		return cmp.Or(Printable(text), "-") + "\t"
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, whose("PRINCIPAL")+"SESSION\tSTATE\tKERNELS\tAGE\tIDLE\tFILES\tKEPT")
	for _, s := range sessions {
		info := s.SessionInfo
		fmt.Fprintf(table, "%s%s\t%s\t%s\t%s\t%s\t%s\t%s\n", whose(s.owner), info.ID, info.State, kernelsOf(info),
			units.HumanDuration(Since(info.Created)), units.HumanDuration(Since(info.LastUsed)), sizeOf(info, "-"), keptOf(info))
	}
	return table.Flush()
}

// sizeOf returns the size of the session's files.
func sizeOf(info sandbox.SessionInfo, unknown string) string {
	if info.SizeBytes == nil {
		return unknown
	}
	return humanize.Bytes(uint64(max(0, *info.SizeBytes)))
}

// keptOf returns how long the session stays unused.
func keptOf(info sandbox.SessionInfo) string {
	switch {
	case info.Pinned:
		return "pinned"
	case info.KeptUntil.IsZero():
		return "with its server"
	}
	return "until " + info.KeptUntil.Local().Format(time.DateOnly)
}

func kernelsOf(info sandbox.SessionInfo) string {
	var kernels []string
	for _, k := range info.Kernels {
		if k.State == "not started" {
			continue
		}
		kernels = append(kernels, fmt.Sprintf("%s %s", k.Language, k.State))
	}
	if len(kernels) == 0 {
		return "-"
	}
	return strings.Join(kernels, ", ")
}

// shownRuns is how many of the last runs show prints.
const shownRuns = 10

const (
	shownNames = 2  // of the files that a run changed
	shownName  = 30 // characters of each
)

func showCommand(settings *server.Program, whose *owner) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "show NAME", Short: "Show a session and what ran in it last", Args: Takes(1, 1),
		RunE: onSessions(settings, whose, func(ctx context.Context, v *visit, args []string) error {
			info, err := v.find(ctx, args[0])
			var ran ranFields
			if err == nil {
				err = v.read(ctx, http.MethodGet, args[0], "/runs", url.Values{"limit": {strconv.Itoa(shownRuns)}}, &ran)
			}
			if err != nil {
				return err
			}
			slices.Reverse(ran.Runs)
			if asJSON {
				return WriteJSON(os.Stdout, struct {
					sessionFields
					Runs     int         `json:"runs"`
					LastRuns []runFields `json:"last_runs"`
				}{fieldsOf(info), ran.Total, ran.Runs})
			}
			return describe(os.Stdout, info, ran)
		}),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the session as JSON")
	return cmd
}

type runFields struct {
	sandbox.HistoryFields
	Code string `json:"code"`
}

// ranFields are the last runs of a session, and how many there are.
type ranFields struct {
	Runs  []runFields `json:"runs"`
	Total int         `json:"total"`
}

func describe(w io.Writer, info sandbox.SessionInfo, ran ranFields) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, line := range [][2]string{
		{"session", info.ID}, {"state", info.State}, {"open in", info.Owner}, {"kernels", kernelsOf(info)},
		{"created", info.Created.Local().Format(time.DateTime)}, {"idle for", units.HumanDuration(Since(info.LastUsed))},
		{"files", sizeOf(info, "not known here")}, {"kept", keptOf(info)}, {"runs", humanize.Comma(int64(ran.Total))}, {"place", info.Place.String()},
	} {
		if line[1] == "" {
			continue
		}
		fmt.Fprintf(table, "%s\t%s\n", line[0], line[1])
	}
	if err := table.Flush(); err != nil || ran.Total == 0 {
		return err
	}
	fmt.Fprintln(w)
	table = tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "RUN\tSTARTED\tLANGUAGE\tSTATUS\tFILES\tCODE")
	for _, r := range ran.Runs {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", r.RunID, r.Started.Local().Format(time.DateTime), Printable(string(r.Language)), Printable(r.Status), filesOf(r.Files), Printable(r.Code))
	}
	return table.Flush()
}

// filesOf sums up what a run did to files: how many it added, changed and removed, and the first names.
func filesOf(did *sandbox.FilesDid) string {
	if did == nil {
		return "?"
	}
	var parts []string
	for at, n := range []int{did.Added, did.Changed, did.Removed} {
		if n > 0 {
			parts = append(parts, "+~-"[at:at+1]+strconv.Itoa(n))
		}
	}
	var names []string
	for _, t := range did.Paths[:min(len(did.Paths), shownNames)] {
		names = append(names, PrintableTo(t.Path, shownName))
	}
	if more := did.Added + did.Changed + did.Removed - len(names); more > 0 && len(names) > 0 {
		names = append(names, "…")
	}
	return cmp.Or(strings.TrimSpace(strings.Join(parts, " ")+" "+strings.Join(names, ", ")), "-")
}

// PrintableTo is Printable, cut to so many characters.
func PrintableTo(text string, most int) string {
	var b strings.Builder
	for i, r := range []rune(strings.Join(strings.Fields(text), " ")) {
		if i == most {
			b.WriteRune('…')
			break
		}
		if !unicode.IsPrint(r) {
			r = '·'
		}
		b.WriteRune(r)
	}
	return b.String()
}
