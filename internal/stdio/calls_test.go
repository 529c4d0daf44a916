package stdio

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/rpc"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

const modernMeta = `{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"}}`

// The eras differ in each request's _meta.
var eras = map[string]string{"legacy": "{}", "modern": modernMeta}

func TestHandshakes(t *testing.T) {
	for asked, want := range map[string]string{
		"2024-11-05": "2024-11-05", "2025-03-26": "2025-03-26", "2025-06-18": "2025-06-18", "2025-11-25": "2025-11-25",
		"1999-01-01": "2025-11-25", "2026-07-28": "2025-11-25",
	} {
		drive(t, Options{}, func(d *driver) {
			d.send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"` + asked + `","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
			should.Contain(t, d.expectID(`1`).line, `"protocolVersion":"`+want+`"`)
			d.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
				`{"jsonrpc":"2.0","id":2,"method":"server/discover","params":{"_meta":`+modernMeta+`}}`)
			should.Contain(t, d.expectID(`2`).line, `"2026-07-28"`)
		})
	}
}

const initialize = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{"elicitation":{}},"clientInfo":{"name":"legacy","version":"1"}}}`

// What a stateless request says of its client is true for that request only.
func TestClientIdentity(t *testing.T) {
	drive(t, Options{}, func(d *driver) {
		steps := []struct{ meta, want string }{
			{modernMeta, `t, elicitation false, version "2026-07-28"`},
			{`{}`, `legacy, elicitation true, version "2025-06-18"`},
			{modernMeta, `t, elicitation false, version "2026-07-28"`},
			{`{}`, `legacy, elicitation true, version "2025-06-18"`},
		}
		d.send(initialize)
		d.expectID(`0`)
		for _, step := range steps {
			d.send(toolCall(`1`, "who", `{}`, step.meta))
			should.Equal(t, d.expectID(`1`).text(), step.want)
		}
	})
}

// While all turns are taken, control messages are answered and calls wait their turn.
func TestControlMessagesDoNotWait(t *testing.T) {
	for era, meta := range eras {
		t.Run(era, func(t *testing.T) {
			drive(t, Options{MaxRunning: 1}, func(d *driver) {
				d.send(toolCall(`1`, "block", `{"name":"a"}`, meta), toolCall(`2`, "block", `{"name":"b"}`, meta))
				for i, method := range []string{"tools/list", "resources/list", "resources/templates/list"} {
					id := fmt.Sprint(10 + i)
					d.send(`{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":{"_meta":` + meta + `}}`)
					d.expectID(id)
				}
				d.ping()
				d.settle()
				must.Equal(t, len(d.fixture.started), 1, "calls run")
				close(d.fixture.release["a"])
				d.expectID(`1`)
				close(d.fixture.release["b"])
				d.expectID(`2`)
			})
		})
	}
}

func TestQueueIsFirstComeFirstServed(t *testing.T) {
	drive(t, Options{MaxRunning: 1}, func(d *driver) {
		d.call(`0`, "block", `{"name":"a"}`)
		for id := 1; id <= 50; id++ {
			d.call(fmt.Sprint(id), "echo", `{}`)
		}
		close(d.fixture.release["a"])
		for id := 0; id <= 50; id++ {
			d.expectID(fmt.Sprint(id))
		}
	})
}

func TestFullQueueRefusesAtOnce(t *testing.T) {
	drive(t, Options{MaxRunning: 1, MaxQueued: 2}, func(d *driver) {
		d.call(`1`, "block", `{"name":"a"}`)
		d.call(`2`, "echo", `{}`)
		d.call(`3`, "echo", `{}`)
		d.call(`4`, "echo", `{}`)
		d.expectError(`4`, errBusyCode)
		d.ping()
		d.cancel(`2`) // makes room
		d.call(`5`, "echo", `{}`)
		close(d.fixture.release["a"])
		for _, id := range []string{`1`, `3`, `5`} {
			d.expectID(id)
		}
	})
}

func TestPendingBytesAreBounded(t *testing.T) {
	argument := `{"name":"a","content":"` + strings.Repeat("x", 400_000) + `"}`
	drive(t, Options{MaxRunning: 1, MaxPendingBytes: 1_000_000}, func(d *driver) {
		d.call(`1`, "size", argument) // done, and no longer counted
		d.expectID(`1`)
		d.call(`2`, "block", `{"name":"a"}`)
		d.call(`3`, "size", argument)
		d.call(`4`, "size", argument)
		d.call(`5`, "size", argument)
		d.expectError(`5`, errBusyCode)
		close(d.fixture.release["a"])
		for _, id := range []string{`2`, `3`, `4`} {
			d.expectID(id)
		}
	})
}

func TestDuplicateIDInFlight(t *testing.T) {
	tests := map[string]struct {
		first, second string
		same          bool
	}{
		"the same number":       {`1`, `1`, true},
		"the same string":       {`"a"`, `"\u0061"`, true},
		"one number, two ways":  {`1`, `1.0`, true},
		"zero and minus zero":   {`0`, `-0`, true},
		"a number and a string": {`1`, `"1"`, false},
		"two large numbers":     {hugeInt, hugeInt[:19] + "1", false},
		"fractions":             {`1.5`, `1.25`, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			drive(t, Options{}, func(d *driver) {
				d.call(test.first, "block", `{"name":"a"}`)
				d.call(test.second, "echo", `{}`)
				if test.same {
					d.expectError(test.second, mcp.INVALID_REQUEST)
				} else {
					d.expectID(test.second)
				}
				close(d.fixture.release["a"])
				d.expectID(test.first)
				d.call(test.first, "echo", `{}`) // answered: free again
				d.expectID(test.first)
			})
		})
	}
}

func TestCancelRunning(t *testing.T) {
	for era, meta := range eras {
		t.Run(era, func(t *testing.T) {
			drive(t, Options{}, func(d *driver) {
				withToken := strings.Replace(meta, "{", `{"progressToken":"p",`, 1)
				withToken = strings.Replace(withToken, ",}", "}", 1)
				d.send(toolCall(`1`, "block", `{"name":"a"}`, withToken))
				d.settle()
				d.cancel(`1`)
				should.Be(t, <-d.fixture.ended, rpc.ErrCancelledByClient, "cause")
				d.settle()
				d.ping() // neither an answer nor progress comes first
				d.call(`1`, "echo", `{}`)
				d.expectID(`1`)
			})
		})
	}
}

func TestCancelQueued(t *testing.T) {
	for era, meta := range eras {
		t.Run(era, func(t *testing.T) {
			drive(t, Options{MaxRunning: 1}, func(d *driver) {
				d.send(toolCall(`1`, "block", `{"name":"a"}`, meta),
					toolCall(`"q"`, "block", `{"name":"b"}`, meta),
					toolCall(`3`, "echo", `{}`, meta))
				d.cancel(`"q"`)
				close(d.fixture.release["a"])
				d.expectID(`1`)
				d.expectID(`3`)
				d.settle()
				should.Equal(t, len(d.fixture.started), 1, "calls were started")
			})
		})
	}
}

func TestCancelOfAQueuedAnswer(t *testing.T) {
	drive(t, Options{}, func(d *driver) {
		d.send(`{"jsonrpc":"2.0","id":"first","method":"ping"}`) // being written, unread
		d.settle()
		d.send(toolCall(`1`, "count", `{"n":3}`, `{"progressToken":1}`))
		d.settle()
		d.cancel(`1`)
		d.expectID(`"first"`)
		d.ping()
	})
}

func TestCancelKnowsStringsFromNumbers(t *testing.T) {
	drive(t, Options{}, func(d *driver) {
		d.call(`1`, "block", `{"name":"a"}`)
		d.call(`"1"`, "block", `{"name":"b"}`)
		d.settle()
		d.cancel(`"1"`)
		<-d.fixture.ended
		close(d.fixture.release["a"])
		if r := d.expectID(`1`); r.text() != "released a" {
			t.Errorf("got %s", r.line)
		}
		d.ping()
	})
}

func TestCancelReachesResources(t *testing.T) {
	drive(t, Options{}, func(d *driver) {
		d.send(`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"test://block"}}`)
		d.settle()
		d.ping()
		d.cancel(`1`)
		should.Be(t, <-d.fixture.ended, rpc.ErrCancelledByClient, "cause")
		d.ping()
	})
}

func TestACancelTellsThatItsClientGaveUp(t *testing.T) {
	drive(t, Options{}, func(d *driver) {
		d.send(toolCall(`1`, "block", `{"name":"a"}`, "{}"))
		time.Sleep(7 * time.Second)
		d.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"Request timed out"}}`)
		var gaveUp *rpc.GaveUpError
		if cause := <-d.fixture.ended; !errors.As(cause, &gaveUp) || gaveUp.After != 7*time.Second {
			t.Errorf("cause is %v", cause)
		}
		d.ping()
	})
}

func TestCancelOfACallThatIgnoresIt(t *testing.T) {
	drive(t, Options{}, func(d *driver) {
		d.call(`1`, "stubborn", `{"name":"a"}`)
		d.settle()
		d.cancel(`1`)
		close(d.fixture.release["a"])
		<-d.fixture.ended
		d.settle()
		d.ping()
	})
}

// A stream that the server cannot fill ends at once; nothing waits for it.
func TestListen(t *testing.T) {
	drive(t, Options{}, func(d *driver) {
		d.send(`{"jsonrpc":"2.0","id":"s","method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},"_meta":` + modernMeta + `}}`)
		if r := d.next(); r.Method != "notifications/subscriptions/acknowledged" {
			t.Errorf("got %s", r.line)
		}
		d.expectID(`"s"`)
	})
}

func TestAHandlerNamesItsErrorsCode(t *testing.T) {
	drive(t, Options{}, func(d *driver) {
		d.send(`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"test://gone"}}`)
		should.Contain(t, d.expectError(`1`, mcp.RESOURCE_NOT_FOUND).line, "it has gone")
		d.ping()
	})
}
