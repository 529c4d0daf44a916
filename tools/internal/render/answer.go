// Package render makes the answers of tools: a run as a terminal would show it, images and lists, within the length that the client takes.
package render

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/secrets"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/internal/hint"
)

// Answer is a handler's result: text and images for the model, fields for programs.
type Answer struct {
	Content []mcp.Content
	Fields  any
	IsError bool
	Fault   *fault.Error // a coded error beside the fields; IsError is true then
	each    int          // the bytes of each of its texts, if it was fitted
}

// Text is an answer of one text, and of the fields that go with it.
func Text(text string, fields any) *Answer {
	return &Answer{Content: []mcp.Content{mcp.NewTextContent(text)}, Fields: fields}
}

// slim is implemented by fields that put only a part into _meta: ids, status, counts and paths. Several clients pass the model the whole
// result, and the text holds the rest.
type slim interface{ Meta() any }

// Meta returns the part of the fields that goes into the result's _meta.
func (a *Answer) Meta() any {
	if fields, ok := a.Fields.(slim); ok {
		return fields.Meta()
	}
	return a.Fields
}

// Noting puts a note behind the answer, if there is an answer and a note.
func (a *Answer) Noting(note string) *Answer {
	if a != nil && note != "" {
		a.Content = append(a.Content, mcp.NewTextContent(note))
	}
	return a
}

// AppendText adds to the first text of the answer.
func (a *Answer) AppendText(more string) {
	for i, c := range a.Content {
		if t, is := c.(mcp.TextContent); is {
			t.Text += more
			a.Content[i] = t
			return
		}
	}
	a.Noting(strings.TrimPrefix(more, "\n"))
}

// JSON is an answer of data as compact JSON.
func JSON(fields any) (*Answer, error) {
	text, err := plainJSON(fields)
	if err != nil {
		return nil, err
	}
	return Text(text, fields), nil
}

// plainJSON encodes compact JSON that leaves < and > unescaped: a model reads it, no browser.
func plainJSON(value any) (string, error) {
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return strings.TrimSuffix(text.String(), "\n"), err
}

// FaultText returns a fault as text for a model.
func FaultText(f *fault.Error) string {
	text := string(f.Code) + ": " + f.Message
	if f.Hint != "" {
		text += "\nHint: " + f.Hint
	}
	return text
}

// OneLine keeps a text of the code's from looking like lines of ours.
func OneLine(text string) string {
	return strings.Map(func(r rune) rune {
		switch r {
		case '\n', '\r', '\u0085', '\u2028', '\u2029':
			return ' '
		}
		return r
	}, text)
}

// Count writes a number of things.
func Count(n int64, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return humanize.Comma(n) + " " + thing + "s"
}

// Renderer makes answers under a server's settings.
type Renderer struct {
	Manager           *sandbox.Manager
	Secrets           *secrets.Masker
	Can               hint.Capabilities
	HostPath          func(ctx context.Context, path string) string // Can's; nil: it has none
	Images            string                                        // the form of images; empty: the form that suits the client
	StructuredContent bool
	StoreLinks        map[string]string // addresses of files in the store, by their paths
	Logger            *slog.Logger
	// Link returns a download link of a file, or nothing. Nil: there are none.
	Link func(session, path string) string
}

func (r *Renderer) link(session, path string) string {
	if r.Link == nil {
		return ""
	}
	return r.Link(session, path)
}
