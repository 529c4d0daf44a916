package tools

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/secrets"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools/internal/render"
)

// readText reads a part of a text the way that the files program gives it, and returns the answer.
func readText(d *Deps, text string, r reading, most int64) (string, readFields) {
	file := sandbox.File{Path: "output/a.txt", SizeBytes: int64(len(text)), Modified: time.Unix(0, 0)}
	r.d = d
	fields := readFields{Path: file.Path, SizeBytes: file.SizeBytes, MIMEType: "text/plain"}
	var a *render.Answer
	if r.unit == "bytes" {
		whole := piece{file: file, data: []byte(text), end: sandbox.ReadEnd{Complete: true}}
		r, part := r.letters(whole, r.from(), r.amount(most, most))
		a = r.renderBytes(fields, part)
	} else {
		limit := int64(-1)
		if r.limit != nil {
			limit = *r.limit
		}
		a = r.renderPart(fields, cutLines(piece{file: file}, []byte(text), r.from(), limit, most))
	}
	return a.Content[0].(mcp.TextContent).Text, a.Fields.(readFields)
}

func number(n int64) *int64 { return &n }

func TestTextIsReadInParts(t *testing.T) {
	long := "one\ntwo\nthree\nfour\n"
	for name, test := range map[string]struct {
		text string
		r    reading
		most int64
		want string
		next int64 // 0: none
	}{
		"whole":             {long, reading{}, 100, "[output/a.txt, 19 B, text/plain]\n" + long, 0},
		"empty":             {"", reading{}, 100, "[output/a.txt, 0 B, text/plain]", 0},
		"no last newline":   {"one\ntwo", reading{}, 100, "[output/a.txt, 7 B, text/plain]\none\ntwo", 0},
		"some lines":        {long, reading{offset: number(1), limit: number(2)}, 100, "[output/a.txt, 19 B, text/plain, lines 2 to 3; go on with offset 3]\ntwo\nthree\n", 3},
		"the last lines":    {long, reading{offset: number(2)}, 100, "[output/a.txt, 19 B, text/plain, lines 3 to 4]\nthree\nfour\n", 0},
		"behind the end":    {long, reading{offset: number(9)}, 100, "[output/a.txt, 19 B, text/plain, no lines behind 9]", 0},
		"as many as fit":    {long, reading{}, 10, "[output/a.txt, 19 B, text/plain, lines 1 to 2; go on with offset 2]\none\ntwo\n", 2},
		"one that is large": {long, reading{offset: number(2)}, 3, "[output/a.txt, 19 B, text/plain, lines 3 to 3; go on with offset 3; this line is longer and is cut here, unit: bytes with offset 11 reads it on]\nthr", 3},
		"bytes":             {long, reading{unit: "bytes", offset: number(4), limit: number(3)}, 100, "[output/a.txt, 19 B, text/plain, bytes 4 to 7; go on with offset 7]\ntwo", 7},
		"all bytes":         {long, reading{unit: "bytes"}, 100, "[output/a.txt, 19 B, text/plain]\n" + long, 0},
		"whole characters":  {"aéb", reading{unit: "bytes", limit: number(2)}, 100, "[output/a.txt, 4 B, text/plain, bytes 0 to 1; go on with offset 1]\na", 1},
		"one at least":      {"€x", reading{unit: "bytes", limit: number(1)}, 100, "[output/a.txt, 4 B, text/plain, bytes 0 to 3; go on with offset 3]\n€", 3},
		"from within one":   {"a日本語", reading{unit: "bytes", offset: number(6), limit: number(4)}, 100, "[output/a.txt, 10 B, text/plain, bytes 4 to 10]\n本語", 0},
		"bytes behind it":   {long, reading{unit: "bytes", offset: number(40)}, 100, "[output/a.txt, 19 B, text/plain, bytes 40 to 40]", 0},
		"a byte order mark": {"\xef\xbb\xbfone\n", reading{}, 100, "[output/a.txt, 7 B, text/plain]\none\n", 0},
		"Latin-1":           {"caf\xe9\n", reading{}, 100, "[output/a.txt, 5 B, text/plain; not UTF-8, what cannot be read is \ufffd]\ncaf\ufffd\n", 0},
	} {
		t.Run(name, func(t *testing.T) {
			got, fields := readText(&Deps{}, test.text, test.r, test.most)
			next := int64(0)
			if fields.NextOffset != nil {
				next = *fields.NextOffset
			}
			if got != test.want || next != test.next {
				t.Errorf("got %q, next %d", got, next)
			}
		})
	}
}

// What the answers say to go on with leads through the whole text, with nothing left out or twice.
func TestReadingOnReadsEverything(t *testing.T) {
	var b strings.Builder
	for i := range 500 {
		fmt.Fprintf(&b, "line %d %s\n", i, strings.Repeat("é", i%40))
	}
	for _, unit := range []string{"", "bytes"} {
		var whole strings.Builder
		r := reading{unit: unit}
		for steps := 0; ; steps++ {
			text, fields := readText(&Deps{}, b.String(), r, 101)
			_, text, _ = strings.Cut(text, "]\n")
			whole.WriteString(text)
			if fields.NextOffset == nil {
				break
			}
			if *fields.NextOffset <= r.from() || steps > 1000 {
				t.Fatalf("stuck at %d", r.from())
			}
			r.offset = fields.NextOffset
		}
		if whole.String() != b.String() {
			t.Errorf("unit %q: %d bytes of %d", unit, whole.Len(), b.Len())
		}
	}
}

func TestSecretsAreMaskedInFilesThatAreRead(t *testing.T) {
	d := &Deps{Secrets: secrets.New(map[string]string{"KEY": "hunter22"})}
	text := "password=hunter22\n"
	for name, r := range map[string]reading{
		"whole":         {},
		"cut behind it": {unit: "bytes", limit: number(15)},
		"cut before it": {unit: "bytes", offset: number(11)},
	} {
		got, _ := readText(d, text, r, 100)
		for n := 3; n <= len("hunter22"); n++ {
			if part := "hunter22"[:n]; strings.Contains(got, part) {
				t.Errorf("%s: %q", name, got)
			}
			if part := "hunter22"[len("hunter22")-n:]; strings.Contains(got, part) {
				t.Errorf("%s: %q", name, got)
			}
		}
	}
}
