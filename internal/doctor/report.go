package doctor

import (
	"fmt"
	"io"
	"slices"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/report"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
)

// Report is the outcome of all checks, in the order to read them.
type Report struct {
	Checks []Check
}

// OK reports whether sandboxes work: nothing failed, whatever was warned of.
func (r Report) OK() bool { return r.count(Fail) == 0 }

// Fixes returns the commands that mend the failures, each once, in the order to run them.
func (r Report) Fixes() []string {
	var fixes []string
	for _, c := range r.Checks {
		if c.FixRuns && !slices.Contains(fixes, c.Fix) {
			fixes = append(fixes, c.Fix)
		}
	}
	return fixes
}

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
	return report.WriteJSON(w, struct {
		OK     bool    `json:"ok"`
		Checks []Check `json:"checks"`
	}{r.OK(), r.Checks})
}

// WriteTable writes a line for each check, under it why and the fix if there is
// something to mend, and a last line that sums up.
func (r Report) WriteTable(w io.Writer) error {
	rows := make([]report.Row, 0, len(r.Checks))
	for _, c := range r.Checks {
		rows = append(rows, report.Row{
			Cells:   []string{string(c.Status), c.Name, c.Found},
			Details: []report.Detail{{Label: "why", Text: c.Why}, {Label: "fix", Text: c.Fix}},
		})
	}
	return report.WriteTable(w, rows, r.summary())
}

func (r Report) summary() string {
	failed, warned := r.count(Fail), r.count(Warn)
	switch {
	case failed > 0:
		return fmt.Sprintf("%s to mend before sandboxes work, %s.", text.Count(failed, "thing"), text.Count(warned, "warning"))
	case warned > 0:
		return fmt.Sprintf("Sandboxes work, with %s.", text.Count(warned, "warning"))
	}
	return "Sandboxes work."
}
