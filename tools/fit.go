package tools

import (
	"context"
	"fmt"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
)

// maxAnswerBytes bounds what an answer has beside its images, as JSON: an answer of 1 MB, less what is around it.
// Only structured content comes near, or a supervisor that was replaced.
const maxAnswerBytes = 900_000

// fitted renders an answer with as many bytes of each of its texts, or as many things of each of its lists, as the
// client takes of an answer; most is all of them.
func (d *Deps) fitted(ctx context.Context, most int, render func(each int) *answer) *answer {
	a := render(most)
	if !d.isTooLong(ctx, a) {
		return a
	}
	return render(sort.Search(most, func(each int) bool { return d.isTooLong(ctx, render(each+1)) }))
}

// isTooLong reports whether an answer is longer than it may be, its images apart.
func (d *Deps) isTooLong(ctx context.Context, a *answer) bool {
	var text string // nearly always there is one
	for _, c := range a.content {
		if t, ok := c.(mcp.TextContent); ok {
			text += t.Text
		}
	}
	if most := d.Manager.Config().OutputBytes; most > 0 && len(text) > most {
		return true
	}
	if most := clientOf(ctx).answerBytes; most > 0 && jsonBytes(text)+jsonBytes(a.meta()) > most {
		return true
	}
	if d.StructuredContent {
		return jsonBytes(text)+jsonBytes(a.fields) > maxAnswerBytes
	}
	return len(text) > maxAnswerBytes/2 // of a quote, a line's end or a backslash JSON makes two bytes
}

// jsonBytes is how long a value is in an answer.
func jsonBytes(value any) int {
	text, _ := plainJSON(value) // what cannot be encoded is in no answer
	return len(text)
}

// firstLines gives so many bytes of a list of ours, in whole lines, and says how many are left out.
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
		middle := runeStart(s.Head, len(s.Head)/2)
		first, last = s.Head[:middle], s.Head[middle:]
	}
	kept, from := runeStart(first, min(limit/2, len(first))), runeStart(last, max(len(last)-limit/2, 0))
	left := first[kept:] + last[:from]
	s.Head, s.Tail = first[:kept], last[from:]
	s.OmittedBytes += int64(len(left))
	s.OmittedLines += int64(strings.Count(left, "\n"))
	return s
}

// runeStart is the last place, at or before at, where a character begins.
func runeStart(text string, at int) int {
	for at > 0 && at < len(text) && !utf8.RuneStart(text[at]) {
		at--
	}
	return at
}
