package rpc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
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

// What is taken as a request means to mcp-go what it means here; what is refused is
// answered under a valid id.
func FuzzEnvelope(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		e, fault := Parse(data)
		if fault != nil {
			should.Hold(t, json.Valid(fault.ID.Raw), "refused under the id %q", fault.ID.Raw)
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

// The id of what is well formed is found, however it is cut into pieces, and nothing comes of the rest.
func FuzzEnds(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		var whole, pieces Ends
		whole.Write(data)
		for i := range data {
			pieces.Write(data[i : i+1])
		}
		if !bytes.Equal(whole.ID().Raw, pieces.ID().Raw) {
			t.Errorf("%q whole, %q in pieces", whole.ID().Raw, pieces.ID().Raw)
		}
		e, fault := Parse(data)
		if fault != nil || e.ID == nil || len(data) > endBytes {
			return
		}
		want, err := ParseID(e.ID)
		if err == nil && !bytes.Equal(whole.ID().Raw, want.Raw) {
			t.Errorf("%q: got %q, want %q", data, whole.ID().Raw, want.Raw)
		}
	})
}

func TestTheIDOfALongMessage(t *testing.T) {
	long := strings.Repeat("x", 3*endBytes)
	for message, want := range map[string]string{
		`{"jsonrpc":"2.0","id":"a","params":{"id":1,"x":"` + long + `"}}`:                   `"a"`,
		`{"params":{"id":1,"x":"` + long + `","id":2},"jsonrpc":"2.0","id" : 7 }` + "\n":    `7`,
		`{"params":{"x":"` + long + `"},"id":"b,}","method":"ping"}`:                        `"b,}"`,
		`{"params":{"x":"` + long + `","id":2}}`:                                            `null`,
		`{"params":"` + long + `,\"id\":2}"}`:                                               `null`,
		`{"x":"` + strings.Repeat("x", endBytes-len(`{"x":"","id":1`)) + `","id":12` + long: `null`,
	} {
		var e Ends
		e.Write([]byte(message))
		should.Equal(t, string(e.ID().Raw), want, "%.40s … %s", message, message[len(message)-40:])
	}
}

func TestASessionKeepsLittleOfWhatItsClientSays(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	s := NewSession("s", nil)
	s.SetClientInfo(mcp.Implementation{Name: long, Version: long, Title: long, Description: long, Icons: []mcp.Icon{{Src: long}}})
	if info := s.GetClientInfo(); len(info.Name) != maxName || len(info.Version) != maxName || info.Title+info.Description != "" || info.Icons != nil {
		t.Errorf("it keeps %d and %d bytes, and more", len(info.Name), len(info.Version))
	}
	short, asks := map[string]any{"an extension": map[string]any{}}, &mcp.ElicitationCapability{}
	s.SetClientCapabilities(mcp.ClientCapabilities{Experimental: short, Extensions: short, Elicitation: asks})
	can := s.GetClientCapabilities()
	should.Hold(t, can.Experimental == nil && len(can.Extensions) == 1 && can.Elicitation == asks, "it keeps %v", can)
	s.SetClientCapabilities(mcp.ClientCapabilities{Extensions: map[string]any{long: 1}, Elicitation: asks})
	can = s.GetClientCapabilities()
	should.Hold(t, can.Extensions == nil && can.Elicitation == asks, "it keeps long extensions")
}

func TestProgressOutsideOfACall(t *testing.T) {
	NotifyProgress(context.Background(), 1, 2, "nobody listens")
}

func TestProgressText(t *testing.T) {
	long := strings.Repeat("é", 3000)
	var lines []string
	ctx := WithCall(t.Context(), &Call{Token: []byte("1"), Notify: func(line []byte) { lines = append(lines, string(line)) }})
	NotifyProgress(ctx, 1, math.Inf(1), "<&>\xff\n")
	NotifyProgress(ctx, math.NaN(), 1, "dropped")
	NotifyProgress(ctx, 2, math.NaN(), long)
	want := []string{
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1,"message":"<&>�\n"}}` + "\n",
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":2,"message":"` + long[:maxProgressText] + `"}}` + "\n",
	}
	should.Hold(t, slices.Equal(lines, want), "got %q, want %q", lines, want)
}

func TestWhyACallEnds(t *testing.T) {
	const gone = 5100 * time.Millisecond
	for name, test := range map[string]struct {
		reason string
		ago    time.Duration
		want   time.Duration // zero: its client cancels it
	}{
		"the SDK for Python":       {`"timed out after 5s"`, gone, 5 * time.Second},
		"with a part of a second":  {`"Timed out after 2.5 s"`, gone, 2500 * time.Millisecond},
		"without a time":           {`"McpError: MCP error -32001: Request timed out"`, gone, gone},
		"with more than there was": {`"timed out after 3600s"`, gone, gone},
		"no number":                {`"timed out after ..s"`, gone, gone},
		"a user":                   {`"caller cancelled"`, gone, 0},
		"no reason":                {``, gone, 0},
		"no text":                  {`{"timed out":1}`, gone, 0},
	} {
		c := &outcome{came: time.Now().Add(-test.ago)}
		var gaveUp *GaveUpError
		err := c.CancelCause([]byte(test.reason))
		if !errors.Is(err, ErrCancelledByClient) || errors.As(err, &gaveUp) != (test.want > 0) || gaveUp != nil && gaveUp.After.Round(100*time.Millisecond) < test.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAConnectionThatEndsAtALimit(t *testing.T) {
	for after, want := range map[time.Duration]time.Duration{
		time.Second: 0, 4500 * time.Millisecond: 0, 4900 * time.Millisecond: 5 * time.Second, 5100 * time.Millisecond: 5 * time.Second,
		5300 * time.Millisecond: 0, 22 * time.Second: 0, 60 * time.Second: 60 * time.Second, time.Hour: 0,
	} {
		var gaveUp *GaveUpError
		should.Hold(t, errors.As(hangUpCause(after), &gaveUp) == (want > 0) && (gaveUp == nil || gaveUp.After == want),
			"after %v: %v, want %v", after, gaveUp, want)
	}
	for most, want := range map[time.Duration]time.Duration{
		4 * time.Second: 0, 4900 * time.Millisecond: 5 * time.Second, 9 * time.Second: 5 * time.Second, 31 * time.Second: 30 * time.Second, time.Hour: 300 * time.Second,
	} {
		should.Equal(t, UsualLimit(most), want, "UsualLimit(%v)", most)
	}
}

// sent is a request that the client got.
type sent struct {
	ID     string
	Method string
	Params map[string]any
}

func TestRequestsToTheClient(t *testing.T) {
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(ErrCancelledByClient)
	settled := make(chan struct{})
	close(settled)
	for name, test := range map[string]struct {
		ctx    context.Context
		until  <-chan struct{}
		answer string // with ID in the place of the request's id
		want   string
		err    error
	}{
		"a result":             {t.Context(), nil, `{"jsonrpc":"2.0","id":"ID","result":{"action":"accept"}}`, `{"action":"accept"}`, nil},
		"an error":             {t.Context(), nil, `{"jsonrpc":"2.0","id":"ID","error":{"code":-32601,"message":"no"}}`, "", errNoClientAnswer},
		"answered elsewhere":   {t.Context(), settled, "", "", errNoClientAnswer},
		"cancelled":            {ended, nil, "", "", ErrCancelledByClient},
		"one of another":       {t.Context(), settled, `{"jsonrpc":"2.0","id":"another","result":{}}`, "", errNoClientAnswer},
		"an id of no text":     {t.Context(), settled, `{"jsonrpc":"2.0","id":1,"result":{}}`, "", errNoClientAnswer},
		"one that is too long": {t.Context(), settled, `{"jsonrpc":"2.0","id":"ID","result":"` + strings.Repeat("x", maxClientAnswer) + `"}`, "", errNoClientAnswer},
	} {
		var r Requests
		var got []sent
		result, err := r.Do(test.ctx, test.until, func(line []byte) {
			var s sent
			should.OK(t, json.Unmarshal(line, &s), "%s", name)
			got = append(got, s)
			if s.Method == "elicitation/create" {
				r.Answered([]byte(strings.ReplaceAll(test.answer, "ID", s.ID)))
				r.Answered([]byte(strings.ReplaceAll(test.answer, "ID", s.ID))) // again
			}
		}, "elicitation/create", map[string]any{"message": "?"})
		should.Hold(t, string(result) == test.want && errors.Is(err, test.err), "%s: %s, %v", name, result, err)
		should.Hold(t, got[0].Params["message"] == "?" && got[0].ID != "", "%s: sent %+v", name, got)
		isCancelled := len(got) == 2 && got[1].Method == "notifications/cancelled" && got[1].Params["requestId"] == got[0].ID && got[1].ID == ""
		should.Equal(t, isCancelled, test.answer == "" || test.until != nil, "%s: sent %+v", name, got)
		should.Equal(t, len(r.waiting), 0, "%s: one waits still", name)
	}
}
