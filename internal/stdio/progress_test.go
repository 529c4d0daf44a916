package stdio

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/rpc"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

func TestProgressComesInOrderBeforeTheAnswer(t *testing.T) {
	for _, token := range []string{`"tok"`, `7`, `0`, `1.0`, `""`, hugeInt} {
		for era, meta := range eras {
			t.Run(era+" "+token, func(t *testing.T) {
				drive(t, Options{}, func(d *driver) {
					meta := strings.Replace(strings.Replace(meta, "{", `{"progressToken":`+token+`,`, 1), ",}", "}", 1)
					d.send(toolCall(`1`, "count", `{"n":500}`, meta))
					for i := 1; i <= 500; i++ {
						r := d.next()
						if r.Method != "notifications/progress" || r.Params.Progress != float64(i) ||
							r.Params.Total != 500 || string(r.Params.ProgressToken) != token {
							t.Fatalf("line %d is %s", i, r.line)
						}
					}
					d.expectID(`1`)
				})
			})
		}
	}
}

func TestNoProgressWithoutAToken(t *testing.T) {
	for _, meta := range []string{`{}`, `null`, `[]`, `{"progressToken":null}`, `{"progressToken":{}}`, `{"progressToken":true}`} {
		t.Run(meta, func(t *testing.T) {
			drive(t, Options{}, func(d *driver) {
				d.send(toolCall(`1`, "count", `{"n":5}`, meta))
				d.expectID(`1`)
			})
		})
	}
}

// mcp-go's own way of sending keeps the order too, and its cancels.
func TestServerNotificationsComeBeforeTheAnswer(t *testing.T) {
	for era, meta := range eras {
		t.Run(era, func(t *testing.T) {
			drive(t, Options{}, func(d *driver) {
				d.send(toolCall(`1`, "log", fmt.Sprintf(`{"n":%d}`, rpc.NotificationBuffer), meta))
				for i := 1; i <= rpc.NotificationBuffer; i++ {
					if r := d.next(); r.Params.Progress != float64(i) {
						t.Fatalf("line %d is %s", i, r.line)
					}
				}
				d.expectID(`1`)
			})
		})
	}
}

func TestOversizedNotificationsAreDropped(t *testing.T) {
	drive(t, Options{MaxMessageBytes: 1000}, func(d *driver) {
		d.call(`1`, "log", `{"n":2,"size":2000}`)
		d.expectID(`1`)
	})
}

func TestBroadcastsReachAnInitializedClient(t *testing.T) {
	drive(t, Options{}, func(d *driver) {
		d.fixture.server.SendNotificationToAllClients("notifications/message", nil)
		d.send(initialize)
		d.expectID(`0`)
		d.fixture.server.SendNotificationToAllClients("notifications/message", nil)
		if r := d.next(); r.Method != "notifications/message" {
			t.Errorf("got %s", r.line)
		}
		d.ping()
	})
}

func TestLogLevelHolds(t *testing.T) {
	drive(t, Options{}, func(d *driver) {
		logMessage := func(level mcp.LoggingLevel) {
			message := mcp.NewLoggingMessageNotification(level, "test", string(level))
			should.OK(t, d.fixture.server.SendLogMessageToSpecificClient(sessionID, message))
		}
		d.send(initialize)
		d.expectID(`0`)
		logMessage(mcp.LoggingLevelInfo) // under the level that a session begins with
		d.send(`{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"info"}}`)
		d.expectID(`1`)
		logMessage(mcp.LoggingLevelInfo)
		should.Contain(t, d.next().line, `"data":"info"`)
	})
}

// A client that does not read gets the newest progress of each call, in order, and then the
// answers; cancels work all the while.
func TestProgressOfAClientThatDoesNotRead(t *testing.T) {
	drive(t, Options{}, func(d *driver) {
		const sent = 50_000
		d.send(toolCall(`1`, "count", fmt.Sprintf(`{"n":%d}`, sent), `{"progressToken":1}`))
		d.call(`2`, "block", `{"name":"a"}`)
		d.settle()
		d.cancel(`2`)
		<-d.fixture.ended
		last, lines := 0.0, 0
		for {
			r := d.next()
			if r.Method == "" {
				break
			}
			if r.Params.Progress <= last {
				t.Fatalf("%v after %v", r.Params.Progress, last)
			}
			last = r.Params.Progress
			lines++
		}
		if last != sent || lines > maxQueuedProgress+1 {
			t.Errorf("%d lines, the last is %v", lines, last)
		}
	})
}

// Answers that nobody reads wait with their calls, and none is lost.
func TestAnswersOfAClientThatDoesNotRead(t *testing.T) {
	drive(t, Options{MaxMessageBytes: 10_000, MaxRunning: 1}, func(d *driver) {
		const sent = 100
		for id := range sent {
			d.call(fmt.Sprint(id), "large", `{"n":9000}`)
		}
		d.settle()
		d.send(`{"jsonrpc":"2.0","id":"ping","method":"ping"}`) // is still taken
		d.cancel(`0`)                                           // out already: ignored
		d.cancel(`50`)                                          // waits for its turn
		d.cancel(`3`)                                           // waits for room
		d.settle()
		answered := map[string]int{}
		for range sent - 2 + 1 {
			answered[string(d.next().ID)]++
		}
		d.ping()
		for id := range sent {
			want := 1
			if id == 50 || id == 3 {
				want = 0
			}
			if n := answered[fmt.Sprint(id)]; n != want {
				t.Errorf("%d answers to %d, want %d", n, id, want)
			}
		}
	})
}
