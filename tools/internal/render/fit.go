package render

import (
	"context"
	"encoding/base64"
	"fmt"
	"sort"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/rpc"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/internal/content"
)

// maxAnswerBytes bounds an answer as JSON, without its images: 1 MB, less the envelope. Only structured content comes near, or a replaced
// supervisor's answer.
const maxAnswerBytes = 900_000

// streamBytes bounds a whole answer as JSON in an event of a stream: clients refuse events over 1 MiB, and the model then gets nothing of
// the run.
const streamBytes = 700_000

// FileBytes is the most that an answer holds of a file that is no text, before base64, where it may hold most.
func FileBytes(ctx context.Context, most int64) int64 {
	const beside = 16 << 10 // the answer's text beside the file
	if rpc.Streams(ctx) {
		return min(most, int64(base64.StdEncoding.DecodedLen(streamBytes-beside)))
	}
	return most
}

// Finish fits an answer to its client: without images if it takes none, and no longer than an event of a stream may be. The text stays, the
// first images as they are; images that do not fit are made smaller or left out.
func (r *Renderer) Finish(ctx context.Context, a *Answer) *Answer {
	a = r.withoutImages(ctx, a)
	if !rpc.Streams(ctx) {
		return a
	}
	left := streamBytes - jsonBytes(a.Meta())
	if r.StructuredContent {
		left -= jsonBytes(a.Fields)
	}
	for _, c := range a.Content {
		if encoded(c) == "" {
			left -= jsonBytes(c)
		}
	}
	out := 0
	var kept []mcp.Content
	for _, c := range a.Content {
		if size := len(encoded(c)); size > 0 && size > left {
			c = r.smaller(ctx, c, left)
		}
		if c == nil {
			out++
			continue
		}
		left -= len(encoded(c))
		kept = append(kept, c)
	}
	a.Content = kept
	if out > 0 {
		a.Noting(fmt.Sprintf("Note: %s not attached, as the answer would be longer than clients take; read_artifact shows one by its path.", Count(int64(out), "image")))
	}
	return a
}

// encoded returns the base64 in a part of an answer; empty: it is text.
func encoded(c mcp.Content) string {
	switch c := c.(type) {
	case mcp.ImageContent:
		return c.Data
	case mcp.AudioContent:
		return c.Data
	case mcp.EmbeddedResource:
		if blob, is := c.Resource.(mcp.BlobResourceContents); is {
			return blob.Blob
		}
	}
	return ""
}

// smaller returns an image with at most so many bytes of base64; nil: there is none.
func (r *Renderer) smaller(ctx context.Context, c mcp.Content, most int) mcp.Content {
	img, is := c.(mcp.ImageContent)
	if !is || most < chartBytes {
		return nil
	}
	data, err := base64.StdEncoding.DecodeString(img.Data)
	if err != nil {
		return nil
	}
	fitted, err := content.FitImage(ctx, img.MIMEType, data, r.Secrets.In(data), most/4*3)
	if err != nil {
		return nil
	}
	return mcp.NewImageContent(base64.StdEncoding.EncodeToString(fitted.Data), fitted.MIME)
}

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
	text, _ := plainJSON(value) // a value that cannot be encoded is in no answer
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
	half := min(limit/2, len(last))
	kept, from := text.Edge(first, min(limit-half, len(first))), text.Edge(last, len(last)-half)
	left := first[kept:] + last[:from]
	s.Head, s.Tail = first[:kept], last[from:]
	s.OmittedBytes += int64(len(left))
	s.OmittedLines += int64(strings.Count(left, "\n"))
	return s
}
