package render

import (
	"context"
	"fmt"
	"sort"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
)

// maxAnswerBytes bounds what an answer has beside its images, as JSON: an answer of 1 MB, less what is around it.
// Only structured content comes near, or a supervisor that was replaced.
const maxAnswerBytes = 900_000

// Fit renders an answer with as many bytes of each of its texts, or as many things of each of its lists, as the
// client takes of an answer; most is all of them.
func (r *Renderer) Fit(ctx context.Context, most int, render func(each int) *Answer) *Answer {
	a := render(most)
	if !r.TooLong(ctx, a) {
		return a
	}
	return render(sort.Search(most, func(each int) bool { return r.TooLong(ctx, render(each+1)) }))
}

// TooLong reports whether an answer is longer than it may be, its images apart.
func (r *Renderer) TooLong(ctx context.Context, a *Answer) bool {
	var text string // nearly always there is one
	for _, c := range a.Content {
		if t, ok := c.(mcp.TextContent); ok {
			text += t.Text
		}
	}
	if most := r.Manager.Config().OutputBytes; most > 0 && len(text) > most {
		return true
	}
	if most := clientOf(ctx).answerBytes; most > 0 && jsonBytes(text)+jsonBytes(a.Meta()) > most {
		return true
	}
	if r.StructuredContent {
		return jsonBytes(text)+jsonBytes(a.Fields) > maxAnswerBytes
	}
	return len(text) > maxAnswerBytes/2 // of a quote, a line's end or a backslash JSON makes two bytes
}

// jsonBytes is how long a value is in an answer.
func jsonBytes(value any) int {
	text, _ := plainJSON(value) // what cannot be encoded is in no answer
	return len(text)
}

// firstLines returns so many bytes of a list of ours, in whole lines, and says how many are left out.
func firstLines(text string, most int) string {
	if len(text) <= most {
		return text
	}
	kept := text[:strings.LastIndexByte(text[:most], '\n')+1]
	return kept + fmt.Sprintf("… and %d more", strings.Count(text[len(kept):], "\n")+1)
}

// shortenedStream leaves more out of the middle, until at most so many bytes are left.
func shortenedStream(s sandbox.Stream, limit int) sandbox.Stream {
	if len(s.Head)+len(s.Tail) <= limit {
		return s
	}
	first, last := s.Head, s.Tail
	if !s.Truncated() {
		middle := text.Edge(s.Head, len(s.Head)/2)
		first, last = s.Head[:middle], s.Head[middle:]
	}
	kept, from := text.Edge(first, min(limit/2, len(first))), text.Edge(last, max(len(last)-limit/2, 0))
	left := first[kept:] + last[:from]
	s.Head, s.Tail = first[:kept], last[from:]
	s.OmittedBytes += int64(len(left))
	s.OmittedLines += int64(strings.Count(left, "\n"))
	return s
}
