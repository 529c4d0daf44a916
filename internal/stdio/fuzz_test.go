package stdio

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
)

// fuzzSeeds are about lines; package rpc has those of a message.
var fuzzSeeds = []string{
	`{"jsonrpc":"2.0","id":1,"method":"ping"}`,
	`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`,
	`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo","arguments":{"text":"x"},"_meta":{"progressToken":1.0}}}`,
	"{\"id\":1}\n\n\r\n{\"id\":2}", "\ufeff{}", "\x00", `[{"id":1}]`, `{"id":}`, strings.Repeat(`{"a":`, 300),
}

func addSeeds(f *testing.F) {
	for _, seed := range fuzzSeeds {
		f.Add([]byte(seed))
	}
}

// The reader cuts as bytes.Split would, but for the lines that are too long.
func FuzzLines(f *testing.F) {
	for _, seed := range fuzzSeeds {
		f.Add([]byte(seed), 10)
	}
	f.Add([]byte(strings.Repeat("x", 100)+"\n"+strings.Repeat("y", 40)+"\n"), 40)
	f.Fuzz(func(t *testing.T, data []byte, limit int) {
		limit = max(limit%100, 0) + 1
		want := bytes.Split(data, []byte("\n"))
		if len(want[len(want)-1]) == 0 {
			want = want[:len(want)-1]
		}
		l := &lineReader{r: bufio.NewReaderSize(iotest.HalfReader(bytes.NewReader(data)), 16), max: limit}
		for i, w := range want {
			line, overlong, err := l.next()
			switch {
			case err != nil:
				t.Fatalf("line %d: %v", i, err)
			case (overlong != nil) != (len(w) > limit):
				t.Fatalf("line %d of %d bytes: too long is %v", i, len(w), overlong != nil)
			case overlong == nil && !bytes.Equal(bytes.TrimSuffix(line, []byte("\n")), w):
				t.Fatalf("line %d is %q, want %q", i, line, w)
			}
		}
		for range 2 {
			if line, _, err := l.next(); !errors.Is(err, io.EOF) {
				t.Fatalf("%q, %v after the last line", line, err)
			}
		}
	})
}

// Whatever comes in, only JSON-RPC goes out, one message a line, and the end is clean.
func FuzzServe(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		if bytes.Contains(data, []byte("block")) || bytes.Contains(data, []byte("stubborn")) {
			return // they are meant to hang
		}
		var out bytes.Buffer
		must.OK(t, Serve(t.Context(), newFixture().server, bytes.NewReader(data), &out, Options{MaxLineBytes: 2000}))
		for line := range bytes.Lines(out.Bytes()) {
			var message struct{ JSONRPC string }
			if err := json.Unmarshal(line, &message); err != nil || message.JSONRPC != "2.0" || !utf8.Valid(line) {
				t.Errorf("%q went out: %v", line, err)
			}
		}
	})
}
