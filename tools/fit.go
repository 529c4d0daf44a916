package tools

import (
	"strings"
	"unicode/utf8"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
)

const (
	// maxRunBytes bounds what a run's answer has beside its images, as JSON: an answer of 1 MB, less what is
	// around it. Only a large --output-limit comes near, or a supervisor that was replaced.
	maxRunBytes = 900_000
	// minPart is what every text of a run may have in any case.
	minPart = 1000
	// escaped is how many bytes JSON makes of one at most: of a quote, a line's end or a backslash. Those of which
	// it would make six the sandbox has taken out.
	escaped = 2
)

// fit renders a run, and again with shorter texts until the answer is no longer than it may be.
func (d *Deps) fit(res *sandbox.Result, render func(*sandbox.Result) *answer) *answer {
	a := render(res)
	for limit := longest(res); limit > minPart && d.isTooLong(a, res); {
		limit = max(limit/2, minPart)
		res = shortened(res, limit)
		a = render(res)
	}
	for len(res.Artifacts) > listedFiles && d.isTooLong(a, res) {
		fewer := *res
		fewer.Artifacts, fewer.ArtifactsTotal = res.Artifacts[:len(res.Artifacts)/2], max(res.ArtifactsTotal, len(res.Artifacts))
		res = &fewer
		a = render(res)
	}
	return a
}

// isTooLong encodes only what may be too long, which no usual answer is.
func (d *Deps) isTooLong(a *answer, res *sandbox.Result) bool {
	text, times := a.content[0].(mcp.TextContent).Text, 1
	if d.StructuredContent {
		times = 2
	}
	fields := len(text) // nearly all that they have is in the text as well
	if e := a.fields.(runFields).Error; e != nil {
		fields += len(e.Message)
	}
	for _, artifact := range res.Artifacts {
		fields += 2*len(artifact.Path) + 100
	}
	return escaped*(len(text)+times*fields) > maxRunBytes && jsonBytes(text)+times*jsonBytes(a.fields) > maxRunBytes
}

// jsonBytes is how long a value is in an answer.
func jsonBytes(value any) int {
	text, _ := plainJSON(value) // what cannot be encoded is in no answer
	return len(text)
}

// longest is the length of a run's longest text.
func longest(res *sandbox.Result) int {
	most := max(len(res.Stdout.Head)+len(res.Stdout.Tail), len(res.Stderr.Head)+len(res.Stderr.Tail))
	if res.Value != nil {
		most = max(most, len(*res.Value))
	}
	if res.Error != nil {
		most = max(most, len(res.Error.Message), len(res.Error.Traceback))
	}
	return most
}

// shortened gives a copy of a result none of whose texts is longer than the limit.
func shortened(res *sandbox.Result, limit int) *sandbox.Result {
	cut := *res
	cut.Stdout, cut.Stderr = shortenedStream(res.Stdout, limit), shortenedStream(res.Stderr, limit)
	if res.Value != nil {
		value := head(*res.Value, limit)
		cut.Value = &value
	}
	if res.Error != nil {
		cut.Error = &sandbox.RunError{Name: res.Error.Name, Message: head(res.Error.Message, limit), Traceback: head(res.Error.Traceback, limit)}
	}
	return &cut
}

// head gives the beginning of a text, marked as the sandbox marks what it cuts, so that it is masked alike.
func head(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return text[:runeStart(text, limit)] + "…"
}

// shortenedStream leaves more out of the middle.
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
