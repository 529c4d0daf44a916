package runcmd

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/secrets"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
)

// whole is a stream that was not cut, as so many lines were written.
func whole(text string, lines int64) sandbox.Stream {
	return sandbox.Stream{Head: text, Bytes: int64(len(text)), Lines: lines}
}

// cut is a stream whose file has it.
func cut(bytes int64) sandbox.Stream {
	return sandbox.Stream{Head: "head\n", Tail: "tail\n", Bytes: bytes, OmittedBytes: bytes - 10, Path: "file"}
}

func TestAStreamIsPrintedOnceAndAsItComes(t *testing.T) {
	type step struct {
		stream  sandbox.Stream
		file    string // empty: it cannot be opened
		over    bool
		printed string // in all
		missing int64
	}
	for name, test := range map[string]struct {
		secret string
		steps  []step
	}{
		"whole lines": {"", []step{
			{whole("", 0), "", false, "", 0},
			{whole("a", 1), "", false, "", 0},
			{whole("a\nb", 2), "", false, "a\n", 0},
			{whole("a\nb\n", 2), "", false, "a\nb\n", 0},
			{whole("", 0), "", false, "a\nb\n", 0}, // not known
			{whole("a\nb\nc", 3), "", true, "a\nb\nc", 0},
		}},
		"the last state of what overwrites itself": {"", []step{
			{whole("10%", 1), "", false, "", 0},
			{whole("start\n20%\n", 3), "", false, "", 0}, // the cursor has moved up a line
			{whole("start\n100%\ndone", 4), "", true, "start\n100%\ndone", 0},
		}},
		"what was cleared": {"", []step{
			{whole("a\nb\n", 2), "", false, "a\nb\n", 0},
			{whole("c", 3), "", true, "a\nb\nc", 0},
		}},
		"a long one goes on in the file": {"", []step{
			{whole("a\nb\nhal", 3), "", false, "a\nb\n", 0},
			{cut(30), "a\nb\nhalf\nnex", false, "a\nb\nhalf\nnex", 0},
			{cut(30), "a\nb\nhalf\nnext\n\x00\xff", true, "a\nb\nhalf\nnext\n\x00\xff", 14},
		}},
		"a file that lags behind": {"", []step{
			{whole("a\nb\n", 2), "", false, "a\nb\n", 0},
			{cut(30), "a\n", false, "a\nb\n", 0},
			{cut(30), "a\nb\nc\nd", true, "a\nb\nc\nd", 23},
		}},
		"there is no file": {"", []step{
			{cut(30), "", false, "", 0},
			{cut(30), "", true, "head\n\n…\ntail\n", 20},
		}},
		"secrets are masked, and waited for": {"line-one\nline-two-of-it", []step{
			{cut(40), "a line-one\nline", false, "", 0},
			{cut(35), "a line-one\nline-two-of-it b\n", true, "a *********************** b\n", 7},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var printed strings.Builder
			var file string
			p := &printer{to: &printed, mask: secrets.New(map[string]string{"S": test.secret}), open: func(_ string, offset int64) (io.ReadCloser, error) {
				if file == "" {
					return nil, errors.New("no such file")
				}
				return io.NopCloser(strings.NewReader(file[min(int(offset), len(file)):])), nil
			}}
			for i, s := range test.steps {
				file = s.file
				var missing int64
				if s.over {
					missing = p.rest(s.stream)
				} else {
					p.soFar(s.stream)
				}
				if printed.String() != s.printed || missing != s.missing {
					t.Fatalf("step %d: printed %q, %d missing; want %q, %d", i, printed.String(), missing, s.printed, s.missing)
				}
			}
		})
	}
}
