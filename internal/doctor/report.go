package doctor

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Report is the outcome of all checks, in the order to read them.
type Report struct {
	Checks []Check
}

// OK reports whether sandboxes work: nothing failed, whatever was warned of.
func (r Report) OK() bool { return r.count(Fail) == 0 }

func (r Report) count(status Status) int {
	n := 0
	for _, c := range r.Checks {
		if c.Status == status {
			n++
		}
	}
	return n
}

// WriteJSON writes one object: ok, and checks with the fields of Check.
func (r Report) WriteJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(struct {
		OK     bool    `json:"ok"`
		Checks []Check `json:"checks"`
	}{r.OK(), r.Checks})
}

// WriteTable writes a line for each check, under it why and the fix where there is
// something to mend, and a last line that sums up.
func (r Report) WriteTable(w io.Writer) error {
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	for _, c := range r.Checks {
		fmt.Fprintf(table, "%s\t%s\t%s\n", c.Status, c.Name, oneLine(c.Found))
		for _, more := range []struct{ label, text string }{{"why", c.Why}, {"fix", c.Fix}} {
			if more.text != "" {
				fmt.Fprintf(table, "\t  %s\t%s\n", more.label, oneLine(more.text))
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

func (r Report) summary() string {
	failed, warned := r.count(Fail), r.count(Warn)
	switch {
	case failed > 0:
		return fmt.Sprintf("%s to mend before sandboxes work, %s.", plural(failed, "thing"), plural(warned, "warning"))
	case warned > 0:
		return fmt.Sprintf("Sandboxes work, with %s.", plural(warned, "warning"))
	}
	return "Sandboxes work."
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// oneLine keeps an engine's words from breaking the table.
func oneLine(s string) string {
	return strings.Join(strings.Fields(s), " ")
}
