package selftest

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/report"
)

// Report is the outcome of all attacks, in the order in which they were made.
type Report struct {
	Rows []Row
	// Unclosed reports that the engine did not remove all of the sessions in time. A sweep removes the rest.
	Unclosed bool
}

// OK reports whether every promise that this host can hold was held.
func (r Report) OK() bool {
	return !slices.ContainsFunc(r.Rows, func(row Row) bool { return row.Failed })
}

// WriteJSON writes one object: ok, and rows with the fields of Row.
func (r Report) WriteJSON(w io.Writer) error {
	return report.WriteJSON(w, struct {
		OK   bool  `json:"ok"`
		Rows []Row `json:"rows"`
	}{r.OK(), r.Rows})
}

// words are the statuses as a person reads them.
var words = map[Status]string{
	Proven: "proven", Unenforced: "not enforced here", Broken: "BROKEN", NotTried: "not tried",
}

// WriteTable writes a line for each row with the promise, under it the attempt and its outcome, and a last line that sums up.
func (r Report) WriteTable(w io.Writer) error {
	rows := make([]report.Row, 0, len(r.Rows))
	for _, row := range r.Rows {
		rows = append(rows, report.Row{
			Cells: []string{words[row.Status], row.Name, row.Promise},
			Details: []report.Detail{
				{Label: "tried", Text: row.Tried}, {Label: "met", Text: row.met()},
				{Label: "why", Text: row.Why}, {Label: "fix", Text: row.Fix},
			},
		})
	}
	return report.WriteTable(w, rows, r.summary())
}

// met returns the refusals that the attack met, the most frequent first.
func (r Row) met() string {
	names := slices.SortedFunc(maps.Keys(r.Refusals), func(a, b string) int {
		return cmp.Or(cmp.Compare(r.Refusals[b], r.Refusals[a]), cmp.Compare(a, b))
	})
	parts := make([]string, 0, len(names)+len(r.Notes))
	for _, name := range names {
		parts = append(parts, fmt.Sprintf("%s ×%d", name, r.Refusals[name]))
	}
	return strings.Join(append(parts, r.Notes...), ", ")
}

func (r Report) summary() string {
	counts := make(map[Status]int)
	for _, row := range r.Rows {
		counts[row.Status]++
	}
	parts := []string{fmt.Sprintf("%d proven", counts[Proven])}
	for _, status := range []Status{Unenforced, NotTried, Broken} {
		if counts[status] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", counts[status], words[status]))
		}
	}
	return strings.Join(parts, ", ") + "."
}
