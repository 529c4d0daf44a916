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
)

var fuzzSeeds = []string{
	`{"jsonrpc":"2.0","id":1,"method":"ping"}`,
	`{"jsonrpc":"2.0","id":"a\u0062\\","method":"tools/call","params":{"name":"echo","arguments":{"text":"x"},"_meta":{"progressToken":1.0}}}`,
	`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":-0,"reason":"why"}}`,
	`{"params":{"id":3,"a":[{"id":4}]},"id":5}`,
	`{"jsonrpc":"2.0","id":1,"ID":2,"method":"ping","Method":"tools/list"}`,
	`{"jsonrpc":"2.0","id":1e5,"result":{}}`,
	`{"a":"\\\"","b":"{\"id\":1}","id":"\"}"}`,
	`[{"id":1}]`, `{}`, `{"id":}`, `{"id":1,}`, `"id"`, `-`, `1.`, `01`, `1e`, `nul`, `tru`, `{"":{}}`,
	"{\"id\":\"\xff\"}", "\ufeff{}", "{\"id\":1}\n\n\r\n{\"id\":2}", "\x00", `{"id" : 7 , "x" : [ ] }`,
	`{"params":{"id":3,"a":[{"id":5}`, `{"\u0069d":8}`, `{"id":[1],"id":2}`, strings.Repeat("[", 300), strings.Repeat(`{"a":`, 300),
}

func addSeeds(f *testing.F) {
	for _, seed := range fuzzSeeds {
		f.Add([]byte(seed))
	}
}

// The scanner takes exactly what encoding/json takes, up to its depth.
func FuzzScanner(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		s := scanner{data: data}
		s.space()
		err := s.value(1)
		if errors.Is(err, errDepth) {
			return
		}
		s.space()
		if got, want := err == nil && s.pos == len(data), json.Valid(data); got != want {
			t.Errorf("%q: valid is %v, want %v (%v)", data, got, want, err)
		}
	})
}

// What is taken as a request means to mcp-go what it means here; what is refused is
// answered under a valid id.
func FuzzEnvelope(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		e, fault := parseEnvelope(data)
		if fault != nil {
			if !json.Valid(fault.id.raw) {
				t.Errorf("refused under the id %q", fault.id.raw)
			}
			return
		}
		if e.isResponse() {
			return
		}
		var message struct {
			JSONRPC, Method string
			ID              json.RawMessage
		}
		if err := json.Unmarshal(e.message(), &message); err != nil {
			t.Fatalf("%q: %v", e.message(), err)
		}
		if message.JSONRPC != "2.0" || message.Method != e.name() || !bytes.Equal(message.ID, e.id) {
			t.Errorf("%q became %q", data, e.message())
		}
	})
}

// The sniffer finds the id of what is well formed, however it is cut into pieces, and
// survives the rest.
func FuzzSniffer(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		var whole, pieces idSniffer
		whole.write(data)
		for i := range data {
			pieces.write(data[i : i+1])
		}
		if !bytes.Equal(whole.id().raw, pieces.id().raw) {
			t.Errorf("%q whole, %q in pieces", whole.id().raw, pieces.id().raw)
		}
		e, fault := parseEnvelope(data)
		if fault != nil || e.id == nil || bytes.Contains(data, []byte(`\u00`)) {
			return
		}
		want, err := parseRequestID(e.id)
		if err == nil && !bytes.Equal(whole.id().raw, want.raw) {
			t.Errorf("%q: got %q, want %q", data, whole.id().raw, want.raw)
		}
	})
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
		if err := Serve(t.Context(), newFixture().server, bytes.NewReader(data), &out, Options{MaxLineBytes: 2000}); err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(out.Bytes()) {
			var message struct{ JSONRPC string }
			if err := json.Unmarshal(line, &message); err != nil || message.JSONRPC != "2.0" || !utf8.Valid(line) {
				t.Errorf("%q went out: %v", line, err)
			}
		}
	})
}
