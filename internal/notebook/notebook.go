// Package notebook writes the runs of a session as a Jupyter notebook (nbformat 4.5). Start with Write.
//
// A notebook uses one kernel, and a session may use several languages. The language with the most runs is
// the notebook's, and its runs are code cells with their outputs. A run of another is a Markdown cell
// with its code and its output in fences, and its images as attachments: a code cell would be run by the
// wrong kernel. The texts come from hostile code; nothing marks the notebook as trusted, so Jupyter
// shows no active content of it before its reader says so.
package notebook

import (
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/kernel"
)

// Write writes the runs as a notebook, in their order.
func Write(w io.Writer, runs []sandbox.HistoryEntry) error {
	language := majority(runs)
	book := document{
		Cells: []any{}, Format: 4, FormatMinor: 5,
		Metadata: bookMetadata{
			Kernel:   kernelSpec{Name: language.Jupyter, DisplayName: language.JupyterName, Language: string(language.Language)},
			Language: languageInfo{Name: string(language.Language), Extension: language.Extensions[0], MIMEType: language.MIMEType},
		},
	}
	ids := make(map[string]bool)
	for i := range runs {
		id := cellID(runs[i].RunID, i, ids)
		if runs[i].Language == language.Language {
			book.Cells = append(book.Cells, codeOf(&runs[i], id, &book.executed))
		} else {
			book.Cells = append(book.Cells, markdownOf(&runs[i], id))
		}
	}
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ") // as Jupyter does
	if err := encoder.Encode(book); err != nil {
		return fmt.Errorf("write notebook: %w", err)
	}
	return nil
}

// majority returns the language with the most runs, the first of the table in a tie.
func majority(runs []sandbox.HistoryEntry) kernel.LanguageInfo {
	counts := make(map[sandbox.Language]int)
	for _, r := range runs {
		counts[r.Language]++
	}
	return slices.MaxFunc(kernel.Languages, func(a, b kernel.LanguageInfo) int { return counts[a.Language] - counts[b.Language] })
}

// The fields below are nbformat's own.

type document struct {
	Cells       []any        `json:"cells"`
	Metadata    bookMetadata `json:"metadata"`
	Format      int          `json:"nbformat"`
	FormatMinor int          `json:"nbformat_minor"`

	executed int // code cells so far that ran
}

type bookMetadata struct {
	Kernel   kernelSpec   `json:"kernelspec"`
	Language languageInfo `json:"language_info"`
}

type kernelSpec struct {
	DisplayName string `json:"display_name"`
	Language    string `json:"language"`
	Name        string `json:"name"`
}

type languageInfo struct {
	Extension string `json:"file_extension"`
	MIMEType  string `json:"mimetype"`
	Name      string `json:"name"`
}

type codeCell struct {
	Type     string   `json:"cell_type"`
	Count    *int     `json:"execution_count"`
	ID       string   `json:"id"`
	Metadata metadata `json:"metadata"`
	Outputs  []any    `json:"outputs"`
	Source   lines    `json:"source"`
}

type markdownCell struct {
	Type        string            `json:"cell_type"`
	ID          string            `json:"id"`
	Attachments map[string]bundle `json:"attachments,omitempty"`
	Metadata    metadata          `json:"metadata"`
	Source      lines             `json:"source"`
}

type metadata struct {
	Run  runMetadata `json:"code-sandbox-mcp"`
	Tags []string    `json:"tags,omitempty"`
}

type runMetadata struct {
	RunID      string           `json:"run_id"`
	Language   sandbox.Language `json:"language"`
	Status     sandbox.Status   `json:"status,omitempty"` // empty: it was not over
	Started    time.Time        `json:"started"`
	DurationMS float64          `json:"duration_ms,omitempty"`
}

func metadataOf(run *sandbox.HistoryEntry) metadata {
	m := metadata{Run: runMetadata{RunID: run.RunID, Language: run.Language, Started: run.Started.UTC()}}
	if res := run.Result; res != nil {
		m.Run.Status = res.Status
		m.Run.DurationMS = res.Milliseconds()
	}
	for tag, has := range map[string]bool{"fresh": run.Fresh, "copy": run.Copy, "undone": run.Undone && !run.Copy} {
		if has { // it did not change the variables
			m.Tags = append(m.Tags, tag)
		}
	}
	return m
}

// lines is a text as Jupyter keeps it: a line each, with its end.
type lines string

// MarshalJSON writes an array.
func (l lines) MarshalJSON() ([]byte, error) {
	parts := []string{}
	for line := range strings.Lines(string(l)) {
		parts = append(parts, line)
	}
	return marshal(parts)
}

// marshal writes JSON without making six bytes of each angle bracket.
func marshal(value any) ([]byte, error) {
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return []byte(b.String()), err
}

var validCellID = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// cellID returns the run's id, which may come from anybody, or one made for the index in the notebook.
func cellID(runID string, place int, taken map[string]bool) string {
	id := runID
	for n := place; !validCellID.MatchString(id) || taken[id]; n++ {
		id = fmt.Sprintf("cell-%d", n)
	}
	taken[id] = true
	return id
}
