package stdio

import (
	"strings"
	"testing"

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
		t.Run(name, func(t *testing.T) {
			drive(t, Options{}, func(d *driver) {
				d.send(test.line)
				d.expectError(test.id, test.code)
				d.ping()
			})
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
		t.Run(name, func(t *testing.T) {
			drive(t, Options{}, func(d *driver) {
				d.send(`{"jsonrpc":"2.0","id":1,"method":"` + test.method + `","params":` + test.params + `}`)
				should.Equal(t, d.expectError("1", test.code).Error.Message, test.want)
			})
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
		t.Run(name, func(t *testing.T) {
			drive(t, Options{}, func(d *driver) {
				d.send(line)
				d.ping()
			})
		})
	}
}

// The id comes back as it was written.
func TestIDsAreEchoed(t *testing.T) {
	for _, id := range []string{
		`1`, `0`, `-1`, `1.0`, `1.5`, `1e3`, `"1"`, `""`, `"a\u0000b"`, `"é"`, `"\ud800"`, `"</script>"`, hugeInt,
	} {
		t.Run(id, func(t *testing.T) {
			drive(t, Options{}, func(d *driver) {
				d.call(id, "echo", `{"text":"hello"}`)
				if r := d.expectID(id); r.text() != "hello" {
					t.Errorf("got %s", r.line)
				}
				d.send(`{"jsonrpc":"2.0","id":` + id + `,"method":"no/such"}`)
				d.expectError(id, mcp.METHOD_NOT_FOUND)
			})
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
		if err != nil || len(rest) != 1 || rest[0].text() != "hello" {
			t.Errorf("got %v, %v", rest, err)
		}
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
		t.Run(name, func(t *testing.T) {
			drive(t, Options{MaxLineBytes: 100_000}, func(d *driver) {
				d.send(test.line)
				d.expectError(test.id, mcp.INVALID_REQUEST)
				d.ping()
				d.send(test.line, test.line)
				d.expectError(test.id, mcp.INVALID_REQUEST)
				d.expectError(test.id, mcp.INVALID_REQUEST)
				d.ping()
			})
		})
	}
}

func TestLongLineAtTheEnd(t *testing.T) {
	drive(t, Options{MaxLineBytes: 1000}, func(d *driver) {
		must.OK(t, should.ErrOf(d.in.Write([]byte(`{"id":5,`+strings.Repeat(" ", 5000)))))
		rest, err := d.end()
		if err != nil || len(rest) != 1 || string(rest[0].ID) != "5" {
			t.Errorf("got %v, %v", rest, err)
		}
	})
}

// The limit is exact, and the newline is not counted.
func TestLineLimit(t *testing.T) {
	line := toolCall("1", "size", `{"content":"`+strings.Repeat("x", 70_000)+`"}`, "{}")
	drive(t, Options{MaxLineBytes: len(line)}, func(d *driver) {
		d.send(line)
		if r := d.expectID(`1`); r.text() != "70000" {
			t.Errorf("got %s", r.line)
		}
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
		t.Run(name, func(t *testing.T) {
			drive(t, Options{}, func(d *driver) {
				d.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":` + params + `}`)
				if r := d.expectID(`1`); r.text() != "262145" {
					t.Errorf("got %s", r.line)
				}
			})
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
			if r := d.expectError(`1`, mcp.INTERNAL_ERROR); strings.Contains(r.line, "secret") {
				t.Errorf("the panic's text is sent: %s", r.line)
			}
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
		if !r.Result.IsError || !strings.Contains(r.text(), "limit is 10000") || !strings.Contains(r.text(), "\nHint: ") {
			t.Errorf("got %s", r.line)
		}
		d.send(toolCall("3", "large", `{"n":20000}`, modernMeta))
		r = d.expectID(`3`)
		if r.Result.ResultType != "complete" || r.Result.Meta["io.modelcontextprotocol/serverInfo"] == nil {
			t.Errorf("got %s", r.line)
		}
	})
}

func TestOversizedListIsAnError(t *testing.T) {
	drive(t, Options{MaxMessageBytes: 500}, func(d *driver) {
		d.send(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
		d.expectError(`1`, mcp.INTERNAL_ERROR)
		d.ping()
	})
}
