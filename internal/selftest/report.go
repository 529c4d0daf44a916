package selftest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// Report is the outcome of all attacks, in the order in which they were made.
type Report struct {
	Rows []Row
}

// OK reports whether every promise that this host can hold was held.
func (r Report) OK() bool {
	return !slices.ContainsFunc(r.Rows, func(row Row) bool { return row.Failed })
}

// WriteJSON writes one object: ok, and rows with the fields of Row.
func (r Report) WriteJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(struct {
		OK   bool  `json:"ok"`
		Rows []Row `json:"rows"`
	}{r.OK(), r.Rows})
}

// words are the statuses as a person reads them.
var words = map[Status]string{
	Proven: "proven", Unenforced: "not enforced here", Broken: "BROKEN", NotTried: "not tried",
}

// WriteTable writes a line for each row with the promise, under it what was tried and what came of it,
// and a last line that sums up.
func (r Report) WriteTable(w io.Writer) error {
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	for _, row := range r.Rows {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", words[row.Status], row.Name, row.Language, oneLine(row.Promise))
		for _, more := range []struct{ label, text string }{
			{"tried", row.Tried}, {"met", row.met()}, {"why", row.Why}, {"fix", row.Fix},
		} {
			if more.text != "" {
				fmt.Fprintf(table, "\t\t  %s\t%s\n", more.label, oneLine(more.text))
			}
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(&text, "\n%s\n", r.summary())
	_, err := io.WriteString(w, text.String())
	return err
}

// met tells what refused the attack, the most frequent first.
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

// oneLine keeps an error's words from breaking the table.
func oneLine(s string) string {
	return strings.Join(strings.Fields(s), " ")
}
