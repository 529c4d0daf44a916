package rpc

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
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

// The scanner takes exactly what encoding/json takes, up to its bounds.
func FuzzScanner(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		s := scanner{data: data}
		s.space()
		err := s.value(1)
		if errors.Is(err, errDepth) || errors.Is(err, errValues) {
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
		e, fault := Parse(data)
		if fault != nil {
			if !json.Valid(fault.ID.Raw) {
				t.Errorf("refused under the id %q", fault.ID.Raw)
			}
			return
		}
		if e.IsResponse() {
			return
		}
		var message struct {
			JSONRPC, Method string
			ID              json.RawMessage
		}
		if err := json.Unmarshal(e.Message(), &message); err != nil {
			t.Fatalf("%q: %v", e.Message(), err)
		}
		if message.JSONRPC != "2.0" || message.Method != e.Method() || !bytes.Equal(message.ID, e.ID) {
			t.Errorf("%q became %q", data, e.Message())
		}
	})
}

// The sniffer finds the id of what is well formed, however it is cut into pieces, and
// survives the rest.
func FuzzSniffer(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		var whole, pieces Sniffer
		whole.Write(data)
		for i := range data {
			pieces.Write(data[i : i+1])
		}
		if !bytes.Equal(whole.ID().Raw, pieces.ID().Raw) {
			t.Errorf("%q whole, %q in pieces", whole.ID().Raw, pieces.ID().Raw)
		}
		e, fault := Parse(data)
		if fault != nil || e.ID == nil || bytes.Contains(data, []byte(`\u00`)) {
			return
		}
		want, err := ParseID(e.ID)
		if err == nil && !bytes.Equal(whole.ID().Raw, want.Raw) {
			t.Errorf("%q: got %q, want %q", data, whole.ID().Raw, want.Raw)
		}
	})
}
