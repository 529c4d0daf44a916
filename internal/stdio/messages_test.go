package stdio

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/rpc"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

const hugeInt = "12345678901234567890"

// Every refused line is answered as it should, and the server goes on.
func TestBadLines(t *testing.T) {
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	tests := map[string]struct {
		line string
		id   string
		code int
	}{
		"not JSON":                       {`hello`, `null`, mcp.PARSE_ERROR},
		"half a message":                 {`{"jsonrpc":"2.0","id":1,"method":"ping"`, `null`, mcp.PARSE_ERROR},
		"two messages on a line":         {`{"jsonrpc":"2.0","id":1,"method":"ping"}{}`, `null`, mcp.PARSE_ERROR},
		"an HTTP-like header":            {`Content-Length: 12`, `null`, mcp.PARSE_ERROR},
		"a raw control character":        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"pi\x01ng\"}", `null`, mcp.PARSE_ERROR},
		"a bad escape":                   {`{"jsonrpc":"2.0","id":1,"method":"\x41"}`, `null`, mcp.PARSE_ERROR},
		"a zero byte":                    {"\x00", `null`, mcp.PARSE_ERROR},
		"not UTF-8":                      {"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"ping\",\"params\":{\"a\":\"\xff\"}}", `7`, mcp.PARSE_ERROR},
		"an id that is not UTF-8":        {"{\"jsonrpc\":\"2.0\",\"id\":\"\xff\",\"method\":\"ping\"}", `null`, mcp.PARSE_ERROR},
		"an empty batch":                 {`[]`, `null`, mcp.INVALID_REQUEST},
		"a batch":                        {`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, `null`, mcp.INVALID_REQUEST},
		"half a batch":                   {`[{"jsonrpc":"2.0"`, `null`, mcp.PARSE_ERROR},
		"a number":                       {`5`, `null`, mcp.INVALID_REQUEST},
		"an empty object":                {`{}`, `null`, mcp.INVALID_REQUEST},
		"no version":                     {`{"id":1,"method":"ping"}`, `1`, mcp.INVALID_REQUEST},
		"another version":                {`{"jsonrpc":"1.0","id":1,"method":"ping"}`, `1`, mcp.INVALID_REQUEST},
		"no method":                      {`{"jsonrpc":"2.0","id":1}`, `1`, mcp.INVALID_REQUEST},
		"a method that is a number":      {`{"jsonrpc":"2.0","id":1,"method":1}`, `1`, mcp.INVALID_REQUEST},
		"an id that is null":             {`{"jsonrpc":"2.0","id":null,"method":"ping"}`, `null`, mcp.INVALID_REQUEST},
		"an id that is an object":        {`{"jsonrpc":"2.0","id":{},"method":"ping"}`, `null`, mcp.INVALID_REQUEST},
		"an id that is true":             {`{"jsonrpc":"2.0","id":true,"method":"ping"}`, `null`, mcp.INVALID_REQUEST},
		"an id beyond all numbers":       {`{"jsonrpc":"2.0","id":1e999,"method":"ping"}`, `null`, mcp.INVALID_REQUEST},
		"an id of 2 KB":                  {`{"jsonrpc":"2.0","id":"` + strings.Repeat("x", 2048) + `","method":"ping"}`, `null`, mcp.INVALID_REQUEST},
		"two ids":                        {`{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}`, `1`, mcp.INVALID_REQUEST},
		"two ids, one escaped":           {`{"jsonrpc":"2.0","id":1,"\u0069d":2,"method":"ping"}`, `1`, mcp.INVALID_REQUEST},
		"two methods":                    {`{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/list"}`, `1`, mcp.INVALID_REQUEST},
		"two arguments":                  {`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"arguments":{},"arguments":{}}}`, `1`, mcp.INVALID_REQUEST},
		"nested too deeply":              {`{"jsonrpc":"2.0","method":"ping","params":` + deep(300) + `,"id":"x"}`, `"x"`, mcp.INVALID_REQUEST},
		"nested too deeply by a million": {`{"jsonrpc":"2.0","id":3,"method":"ping","params":` + deep(1_000_000) + `}`, `3`, mcp.INVALID_REQUEST},
		"nested and never closed":        {strings.Repeat(`{"a":`, 1_000_000), `null`, mcp.INVALID_REQUEST},
		"too many values":                {`{"jsonrpc":"2.0","id":7,"method":"ping","params":{"x":[` + strings.Repeat("0,", 100_000) + `0]}}`, `7`, mcp.INVALID_REQUEST},
		"too many members":               {`{"jsonrpc":"2.0","method":"tools/call","params":{"arguments":{` + strings.Repeat(`"a":{},`, 100_000) + `"b":0}},"id":7}`, `7`, mcp.INVALID_REQUEST},
		"large without arguments":        {`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"` + strings.Repeat("x", 1<<20) + `"}}`, `1`, mcp.INVALID_REQUEST},
		"params that are a list":         {`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[1]}`, `1`, mcp.INVALID_REQUEST},
		"an unknown method":              {`{"jsonrpc":"2.0","id":1,"method":"no/such"}`, `1`, mcp.METHOD_NOT_FOUND},
		"an unknown tool":                {toolCall("1", "nope", "{}", "{}"), `1`, mcp.INVALID_PARAMS},
	}
	for name, test := range tests {
		driveOf(t, name, Options{}, func(t *testing.T, d *driver) {
			d.send(test.line)
			d.expectError(test.id, test.code)
			d.ping()
		})
	}
}

// What mcp-go refuses is told in words that need no knowledge of Go.
func TestRefusalsSayWhatToSend(t *testing.T) {
	const nextCursor = " was not given by this server; send the nextCursor of its last answer, or none for the beginning"
	for name, test := range map[string]struct {
		method, params string
		code           int
		want           string
	}{
		"params that are a list":    {"tools/call", `[1]`, mcp.INVALID_REQUEST, "Invalid Request: params is an array and must be an object"},
		"params that are a text":    {"tools/list", `"x"`, mcp.INVALID_REQUEST, "Invalid Request: params is a string and must be an object"},
		"a name that is a number":   {"tools/call", `{"name":7}`, mcp.INVALID_REQUEST, "Invalid Request: params.name is a number and must be a string"},
		"a _meta that is true":      {"tools/call", `{"name":"echo","_meta":true}`, mcp.INVALID_REQUEST, "Invalid Request: params._meta is true or false and must be an object"},
		"a cursor that is a number": {"tools/list", `{"cursor":7}`, mcp.INVALID_REQUEST, "Invalid Request: params.cursor is a number and must be a string"},
		"a cursor of nobody's":      {"tools/list", `{"cursor":"%%%"}`, mcp.INVALID_PARAMS, `Invalid params: cursor "%%%"` + nextCursor},
		"a long cursor":             {"resources/list", `{"cursor":"%` + strings.Repeat("é", 200) + `"}`, mcp.INVALID_PARAMS, `Invalid params: cursor "%` + strings.Repeat("é", 79) + `…"` + nextCursor},
		"an unknown tool":           {"tools/call", `{"name":"it's \"no\""}`, mcp.INVALID_PARAMS, `Unknown tool: "it's \"no\""; tools/list tells those that there are`},
		"no tool":                   {"tools/call", `{"arguments":{}}`, mcp.INVALID_PARAMS, "Invalid params: params.name is missing; send the name of one of the tools that tools/list tells"},
		"an unknown resource":       {"resources/read", `{"uri":"no://x"}`, mcp.RESOURCE_NOT_FOUND, `Unknown resource: "no://x"; resources/list and resources/templates/list tell those that there are`},
		"a setting of another type": {"logging/setLevel", `{"level":[]}`, mcp.INVALID_REQUEST, "Invalid Request: params.level is an array and must be a string"},
	} {
		driveOf(t, name, Options{}, func(t *testing.T, d *driver) {
			d.send(`{"jsonrpc":"2.0","id":1,"method":"` + test.method + `","params":` + test.params + `}`)
			should.Equal(t, d.expectError("1", test.code).Error.Message, test.want)
		})
	}
}

// Lines that ask for no answer get none.
func TestSilentLines(t *testing.T) {
	tests := map[string]string{
		"an empty line":                     "",
		"blanks":                            " \t \r",
		"a response":                        `{"jsonrpc":"2.0","id":1,"result":{}}`,
		"an error response":                 `{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"x"}}`,
		"an unknown notification":           `{"jsonrpc":"2.0","method":"notifications/no-such"}`,
		"a notification with odd params":    `{"jsonrpc":"2.0","method":"notifications/initialized","params":[1]}`,
		"a cancel of an unknown id":         `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":77}}`,
		"a cancel without an id":            `{"jsonrpc":"2.0","method":"notifications/cancelled"}`,
		"a cancel of an object":             `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":{}}}`,
		"a cancel with params that are odd": `{"jsonrpc":"2.0","method":"notifications/cancelled","params":[7]}`,
	}
	for name, line := range tests {
		driveOf(t, name, Options{}, func(t *testing.T, d *driver) {
			d.send(line)
			d.ping()
		})
	}
}

// The id comes back as it was written.
func TestIDsAreEchoed(t *testing.T) {
	for _, id := range []string{
		`1`, `0`, `-1`, `1.0`, `1.5`, `1e3`, `"1"`, `""`, `"a\u0000b"`, `"é"`, `"\ud800"`, `"</script>"`, hugeInt,
	} {
		driveOf(t, id, Options{}, func(t *testing.T, d *driver) {
			d.call(id, "echo", `{"text":"hello"}`)
			r := d.expectID(id)
			should.Hold(t, r.text() == "hello", "got %s", r.line)
			d.send(`{"jsonrpc":"2.0","id":` + id + `,"method":"no/such"}`)
			d.expectError(id, mcp.METHOD_NOT_FOUND)
		})
	}
}

func TestByteOrderMarkAndCarriageReturns(t *testing.T) {
	drive(t, Options{}, func(d *driver) {
		d.send("\ufeff"+`{"jsonrpc":"2.0","id":1,"method":"ping"}`+"\r", "\r")
		d.expectID(`1`)
		d.ping()
	})
}

func TestLastLineWithoutEnd(t *testing.T) {
	drive(t, Options{}, func(d *driver) {
		line := toolCall("1", "echo", `{"text":"hello"}`, "{}")
		must.OK(t, should.ErrOf(d.in.Write([]byte(line))))
		rest, err := d.end()
		should.Hold(t, err == nil && len(rest) == 1 && rest[0].text() == "hello", "got %v, %v", rest, err)
	})
}

func TestLongLines(t *testing.T) {
	long := strings.Repeat("x", 200_000)
	tests := map[string]struct{ line, id string }{
		"with the id in front":   {`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"a":"` + long + `"}}`, `7`},
		"with the id at the end": {`{"jsonrpc":"2.0","params":{"id":1,"a":"` + long + `"},"id":"x"}`, `"x"`},
		"with no id":             {`{"jsonrpc":"2.0","params":{"id":1,"a":"` + long + `"}}`, `null`},
		"that is no JSON":        {long, `null`},
		"with a long id":         {`{"id":"` + long + `"}`, `null`},
		"with an object for id":  {`{"id":{"id":2},"a":"` + long + `"}`, `null`},
	}
	for name, test := range tests {
		driveOf(t, name, Options{MaxLineBytes: 100_000}, func(t *testing.T, d *driver) {
			d.send(test.line)
			d.expectError(test.id, mcp.INVALID_REQUEST)
			d.ping()
			d.send(test.line, test.line)
			d.expectError(test.id, mcp.INVALID_REQUEST)
			d.expectError(test.id, mcp.INVALID_REQUEST)
			d.ping()
		})
	}
}

func TestLongLineAtTheEnd(t *testing.T) {
	drive(t, Options{MaxLineBytes: 1000}, func(d *driver) {
		must.OK(t, should.ErrOf(d.in.Write([]byte(`{"id":5,`+strings.Repeat(" ", 5000)))))
		rest, err := d.end()
		should.Hold(t, err == nil && len(rest) == 1 && string(rest[0].ID) == "5", "got %v, %v", rest, err)
	})
}

// The limit is exact, and the newline is not counted.
func TestLineLimit(t *testing.T) {
	line := toolCall("1", "size", `{"content":"`+strings.Repeat("x", 70_000)+`"}`, "{}")
	drive(t, Options{MaxLineBytes: len(line)}, func(d *driver) {
		d.send(line)
		r := d.expectID(`1`)
		should.Hold(t, r.text() == "70000", "got %s", r.line)
		d.send(line + " ")
		d.expectError(`1`, mcp.INVALID_REQUEST)
		d.ping()
	})
}

// Arguments that go round mcp-go arrive whole, wherever in the params they are.
func TestLargeArguments(t *testing.T) {
	content := strings.Repeat("y", rpc.InlineArguments+1)
	tests := map[string]string{
		"in front":      `{"arguments":{"content":"` + content + `"},"name":"size"}`,
		"at the end":    `{"name":"size", "arguments" : {"content":"` + content + `"} }`,
		"escaped names": `{"name":"size","\u0061rguments":{"content":"` + content + `"}}`,
	}
	for name, params := range tests {
		driveOf(t, name, Options{}, func(t *testing.T, d *driver) {
			d.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":` + params + `}`)
			r := d.expectID(`1`)
			should.Hold(t, r.text() == "262145", "got %s", r.line)
		})
	}
}

func TestOutputIsPlain(t *testing.T) {
	drive(t, Options{}, func(d *driver) {
		d.call(`1`, "echo", `{"text":"<b>&amp;\\u003c\u2028</b>\\\\u003e\ud800"}`)
		r := d.expectID(`1`)
		should.Contain(t, r.line, `"<b>&amp;\\u003c\u2028</b>\\\\u003e�"`, "in it")
	})
}

func TestHandlerFailures(t *testing.T) {
	drive(t, Options{}, func(d *driver) {
		for _, tool := range []string{"panic", "explosive"} {
			d.call(`1`, tool, `{}`)
			r := d.expectError(`1`, mcp.INTERNAL_ERROR)
			should.Hold(t, !strings.Contains(r.line, "secret"), "the panic's text is sent: %s", r.line)
		}
		d.call(`2`, "unencodable", `{}`)
		d.expectError(`2`, mcp.INTERNAL_ERROR)
		d.ping()
	})
}

func TestOversizedAnswers(t *testing.T) {
	drive(t, Options{MaxMessageBytes: 10_000}, func(d *driver) {
		d.call(`1`, "large", `{"n":9900}`)
		if r := d.expectID(`1`); r.Result.IsError {
			t.Errorf("got %s", r.line)
		}
		d.call(`2`, "large", `{"n":20000}`)
		r := d.expectID(`2`)
		should.Hold(t, r.Result.IsError && strings.Contains(r.text(), "limit is 10000") && strings.Contains(r.text(), "\nHint: "),
			"got %s", r.line)
		d.send(toolCall("3", "large", `{"n":20000}`, modernMeta))
		r = d.expectID(`3`)
		should.Hold(t, r.Result.ResultType == "complete" && r.Result.Meta["io.modelcontextprotocol/serverInfo"] != nil, "got %s", r.line)
	})
}

func TestOversizedListIsAnError(t *testing.T) {
	drive(t, Options{MaxMessageBytes: 500}, func(d *driver) {
		d.send(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
		d.expectError(`1`, mcp.INTERNAL_ERROR)
		d.ping()
	})
}

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
			line, _, err := l.next()
			must.Hold(t, errors.Is(err, io.EOF), "%q, %v after the last line", line, err)
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
			err := json.Unmarshal(line, &message)
			should.Hold(t, err == nil && message.JSONRPC == "2.0" && utf8.Valid(line), "%q went out: %v", line, err)
		}
	})
}

// An upload's line is kept once: what else is allocated on its way is the copy that the
// tool makes when it decodes its arguments, and small change.
func TestUploadIsHeldOnce(t *testing.T) {
	const size, limit = 16 << 20, 24 << 20
	inReader, in := io.Pipe()
	outReader, out := io.Pipe()
	finished := make(chan error, 1)
	go func() {
		finished <- Serve(t.Context(), newFixture().server, inReader, out, Options{MaxLineBytes: limit})
	}()
	line := []byte(toolCall("1", "size", `{"content":"`+strings.Repeat("x", size)+`"}`, "{}") + "\n")

	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	must.OK(t, should.ErrOf(in.Write(line)))
	answer, err := bufio.NewReader(outReader).ReadString('\n')
	must.Hold(t, err == nil && strings.Contains(answer, "16777216"), "%s, %v", answer, err)
	runtime.ReadMemStats(&after)
	// One buffer of the largest line (24 MiB), its smaller beginnings (9 MiB), the copy (16 MiB).
	got := after.TotalAlloc - before.TotalAlloc
	should.Hold(t, got <= 56<<20, "%d MiB were allocated for a line of %d MiB", got>>20, size>>20)
	_ = in.Close()
	should.OK(t, <-finished)
}
