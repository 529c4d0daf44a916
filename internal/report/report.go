// Package report writes what a command found out: WriteTable for people, and WriteJSON for programs.
package report

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Row is a table row with its details.
type Row struct {
	Cells   []string
	Details []Detail
}

// Detail stands under the last two cells of its row; one without a text is left out.
type Detail struct{ Label, Text string }

// WriteTable writes the rows in columns, an empty line, and the summary. Texts may have any whitespace,
// which becomes one space, and so does not break the table.
func WriteTable(w io.Writer, rows []Row, summary string) error {
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		writeLine(table, row.Cells)
		for _, d := range row.Details {
			if d.Text != "" {
				fmt.Fprint(table, strings.Repeat("\t", len(row.Cells)-2), "  ")
				writeLine(table, []string{d.Label, d.Text})
			}
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(&text, "\n%s\n", summary)
	_, err := io.WriteString(w, text.String())
	return err
}

func writeLine(w io.Writer, cells []string) {
	for i, cell := range cells {
		if i > 0 {
			fmt.Fprint(w, "\t")
		}
		fmt.Fprint(w, strings.Join(strings.Fields(cell), " "))
	}
	fmt.Fprintln(w)
}

// WriteJSON writes a value as JSON that people can read too.
func WriteJSON(w io.Writer, v any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(v)
}
