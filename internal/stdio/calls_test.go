package stdio

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
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
		driveOf(t, era, Options{MaxRunning: 1}, func(t *testing.T, d *driver) {
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
		driveOf(t, name, Options{}, func(t *testing.T, d *driver) {
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
	}
}

func TestCancelRunning(t *testing.T) {
	for era, meta := range eras {
		driveOf(t, era, Options{}, func(t *testing.T, d *driver) {
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
	}
}

func TestCancelQueued(t *testing.T) {
	for era, meta := range eras {
		driveOf(t, era, Options{MaxRunning: 1}, func(t *testing.T, d *driver) {
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

// A call learns whether its answer was written, and of a client that gives up, also when that crosses the answer.
func TestACallLearnsWhatBecomesOfItsAnswer(t *testing.T) {
	const gaveUp = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"timed out after 2s"}}`
	drive(t, Options{}, func(d *driver) {
		told := make(chan error, 10)
		next := func(want bool) { // that the answer is lost
			t.Helper()
			d.settle()
			var limit *rpc.GaveUpError
			select {
			case lost := <-told:
				should.Equal(t, errors.As(lost, &limit), want, "lost by %v", lost)
			default:
				t.Error("nothing is told")
			}
		}
		d.fixture.tool("ask", func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			rpc.OnAnswered(ctx, func(lost error) { told <- lost })
			return mcp.NewToolResultText("asked"), nil
		})
		d.call(`1`, "ask", "{}") // its answer is being written, unread
		d.settle()
		should.Equal(t, len(told), 0)
		d.expectID(`1`)
		next(false)
		time.Sleep(3 * time.Second)
		d.cancel(`1`) // for another reason
		d.call(`1`, "ask", "{}")
		d.settle()
		d.send(gaveUp)
		next(true)
		d.expectID(`1`)
		d.settle()
		should.Equal(t, len(told), 0)
		d.send(`{"jsonrpc":"2.0","id":"first","method":"ping"}`)
		d.settle()
		d.call(`1`, "ask", "{}") // its answer waits
		d.settle()
		d.send(gaveUp)
		next(true)
		d.expectID(`"first"`)
		d.call(`1`, "ask", "{}")
		d.expectID(`1`)
		next(false)
		d.send(gaveUp, gaveUp)
		next(true)
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
		r := d.expectID(`1`)
		should.Hold(t, r.text() == "released a", "got %s", r.line)
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
		cause := <-d.fixture.ended
		should.Hold(t, errors.As(cause, &gaveUp) && gaveUp.After == 7*time.Second, "cause is %v", cause)
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
		r := d.next()
		should.Hold(t, r.Method == "notifications/subscriptions/acknowledged", "got %s", r.line)
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

// Calls that say when they have taken their place start in the order in which they came, and run
// at once all the same.
func TestCallsSettleInOrder(t *testing.T) {
	drive(t, Options{InOrder: true}, func(d *driver) {
		for range 20 {
			names := []string{"a", "b", "c", "d"}
			for i, name := range names {
				d.call(fmt.Sprint(i), "place", `{"name":"`+name+`"}`)
			}
			for _, name := range names {
				must.Equal(t, <-d.fixture.started, name)
			}
			for i := range names {
				d.cancel(fmt.Sprint(i))
			}
			d.settle()
			for range names {
				<-d.fixture.ended
			}
		}
	})
}

// A call that says nothing holds the next one up until it is over, and one that is cancelled while
// it waits does not let the next one overtake.
func TestOrderSurvivesCancels(t *testing.T) {
	drive(t, Options{InOrder: true}, func(d *driver) {
		d.call(`1`, "block", `{"name":"a"}`)
		d.call(`2`, "block", `{"name":"b"}`)
		d.call(`3`, "place", `{"name":"c"}`)
		d.settle()
		d.cancel(`2`)
		d.settle()
		got := <-d.fixture.started
		must.Hold(t, got == "a" && len(d.fixture.started) == 0, "%s started, and %d more", got, len(d.fixture.started))
		close(d.fixture.release["a"])
		d.expectID(`1`)
		d.settle()
		should.Equal(t, <-d.fixture.started, "c")
		close(d.fixture.release["c"])
		d.expectID(`3`)
	})
}

func TestProgressComesInOrderBeforeTheAnswer(t *testing.T) {
	for _, token := range []string{`"tok"`, `7`, `0`, `1.0`, `""`, hugeInt} {
		for era, meta := range eras {
			driveOf(t, era+" "+token, Options{}, func(t *testing.T, d *driver) {
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
		}
	}
}

func TestNoProgressWithoutAToken(t *testing.T) {
	for _, meta := range []string{`{}`, `null`, `[]`, `{"progressToken":null}`, `{"progressToken":{}}`, `{"progressToken":true}`} {
		driveOf(t, meta, Options{}, func(t *testing.T, d *driver) {
			d.send(toolCall(`1`, "count", `{"n":5}`, meta))
			d.expectID(`1`)
		})
	}
}

// mcp-go's own way of sending keeps the order too, and its cancels.
func TestServerNotificationsComeBeforeTheAnswer(t *testing.T) {
	for era, meta := range eras {
		driveOf(t, era, Options{}, func(t *testing.T, d *driver) {
			d.send(toolCall(`1`, "log", fmt.Sprintf(`{"n":%d}`, rpc.NotificationBuffer), meta))
			for i := 1; i <= rpc.NotificationBuffer; i++ {
				r := d.next()
				must.Hold(t, r.Params.Progress == float64(i), "line %d is %s", i, r.line)
			}
			d.expectID(`1`)
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
		r := d.next()
		should.Hold(t, r.Method == "notifications/message", "got %s", r.line)
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
			must.Hold(t, !(r.Params.Progress <= last), "%v after %v", r.Params.Progress, last)
			last = r.Params.Progress
			lines++
		}
		should.Hold(t, last == sent && lines <= maxQueuedProgress+1, "%d lines, the last is %v", lines, last)
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
			should.Equal(t, answered[fmt.Sprint(id)], want, "answers to %d", id)
		}
	})
}

func TestEndOfInputWithNothingRunning(t *testing.T) {
	drive(t, Options{}, func(d *driver) {
		d.ping()
		begin := time.Now()
		rest, err := d.end()
		should.Hold(t, err == nil && len(rest) == 0 && time.Since(begin) == 0, "%v, %v after %v", rest, err, time.Since(begin))
	})
}

func TestRunningCallAnswersInItsGraceTime(t *testing.T) {
	drive(t, Options{GraceTime: time.Second}, func(d *driver) {
		d.call(`1`, "block", `{"name":"a"}`)
		d.settle()
		time.AfterFunc(900*time.Millisecond, func() { close(d.fixture.release["a"]) })
		begin := time.Now()
		rest, err := d.end()
		should.Hold(t, err == nil && len(rest) == 1 && rest[0].text() == "released a", "%v, %v", rest, err)
		should.Equal(t, time.Since(begin), 900*time.Millisecond)
	})
}

func TestRunningCallIsStoppedAfterItsGraceTime(t *testing.T) {
	drive(t, Options{GraceTime: time.Second, StopTime: time.Minute}, func(d *driver) {
		d.call(`1`, "block", `{"name":"a"}`)
		d.settle()
		begin := time.Now()
		rest, err := d.end()
		should.Hold(t, err == nil && len(rest) == 1 && rest[0].text() == "ended a", "%v, %v", rest, err)
		should.Equal(t, time.Since(begin), time.Second)
		should.Be(t, <-d.fixture.ended, rpc.ErrShutdown, "cause")
	})
}

func TestStubbornCallIsLeftBehind(t *testing.T) {
	drive(t, Options{GraceTime: time.Second, StopTime: time.Second}, func(d *driver) {
		d.call(`1`, "stubborn", `{"name":"a"}`)
		d.settle()
		begin := time.Now()
		rest, err := d.end()
		should.Hold(t, err == nil && len(rest) == 0, "%v, %v", rest, err)
		should.Equal(t, time.Since(begin), 2*time.Second)
	})
}

func TestQueuedCallsAreDropped(t *testing.T) {
	drive(t, Options{MaxRunning: 1}, func(d *driver) {
		d.call(`1`, "block", `{"name":"a"}`)
		d.call(`2`, "block", `{"name":"b"}`)
		d.settle()
		rest, err := d.end()
		should.Hold(t, err == nil && len(rest) == 1 && rest[0].text() == "ended a" && len(d.fixture.started) == 1,
			"%v, %v, %d started", rest, err, len(d.fixture.started))
	})
}

func TestContextEnds(t *testing.T) {
	signal := errors.New("signal")
	drive(t, Options{}, func(d *driver) {
		d.call(`1`, "block", `{"name":"a"}`)
		d.settle()
		d.stop(signal)
		d.settle()
		select {
		case cause := <-d.fixture.ended:
			t.Errorf("ended without a grace time, by %v", cause)
		default:
		}
		close(d.fixture.release["a"])
		rest, err := d.rest()
		should.Hold(t, errors.Is(err, signal) && len(rest) == 1 && rest[0].text() == "released a", "%v, %v", rest, err)
	})
}

// No message is taken after the end, though the reader may still sit in its Read.
func TestMessagesAfterTheContextEnds(t *testing.T) {
	drive(t, Options{GraceTime: time.Second}, func(d *driver) {
		d.call(`1`, "block", `{"name":"a"}`)
		d.settle()
		d.stop(nil)
		d.settle()
		d.call(`2`, "echo", `{}`)
		d.settle()
		rest, _ := d.rest()
		should.Hold(t, len(rest) == 1 && string(rest[0].ID) == "1", "got %v", rest)
	})
}

func TestClientClosesTheOutput(t *testing.T) {
	drive(t, Options{}, func(d *driver) {
		d.call(`1`, "block", `{"name":"a"}`)
		d.settle()
		_ = d.outPipe.CloseWithError(io.ErrClosedPipe)
		begin := time.Now()
		d.send(`{"jsonrpc":"2.0","id":2,"method":"ping"}`)
		err := <-d.finished
		should.Hold(t, errors.Is(err, ErrClientGone) && errors.Is(err, io.ErrClosedPipe), "got %v", err)
		should.Equal(t, time.Since(begin), 0, "nobody is left to wait for")
		should.Be(t, <-d.fixture.ended, rpc.ErrShutdown, "cause")
	})
}

func TestInputFails(t *testing.T) {
	drive(t, Options{}, func(d *driver) {
		broken := errors.New("broken")
		_ = d.in.CloseWithError(broken)
		should.Be(t, should.ErrOf(d.rest()), broken)
	})
}

// A client that neither reads nor goes away cannot hold the server back, however much is
// left to say and whoever waits for it.
func TestEndWithAClientThatDoesNotRead(t *testing.T) {
	drive(t, Options{MaxMessageBytes: 10_000}, func(d *driver) {
		for id := range 50 {
			d.call(fmt.Sprint(id), "large", `{"n":9000}`)
		}
		d.settle()
		_ = d.in.Close()
		begin := time.Now()
		time.Sleep(700 * time.Millisecond) // the default grace time, and twice the stop time
		synctest.Wait()
		// Serve has returned, and its last Write fails now that the pipe is closed.
		err := <-d.finished
		should.Hold(t, err == nil && time.Since(begin) == 700*time.Millisecond, "%v after %v", err, time.Since(begin))
	})
}

// A flood of requests whose answers nobody reads makes the reader wait, not memory grow;
// and the server still ends.
func TestFloodWithoutReading(t *testing.T) {
	drive(t, Options{MaxMessageBytes: 1000}, func(d *driver) {
		sent := 0
		go func() {
			for {
				if _, err := io.WriteString(d.in, `{"jsonrpc":"2.0","id":1,"method":"ping"}`+"\n"); err != nil {
					return
				}
				sent++
			}
		}()
		d.settle()
		should.Hold(t, sent != 0 && sent <= 1000, "%d messages were taken", sent)
		d.stop(nil)
		<-d.finished
	})
}

func TestOneServeAtATime(t *testing.T) {
	drive(t, Options{}, func(d *driver) {
		d.ping()
		err := Serve(t.Context(), d.fixture.server, nil, nil, Options{})
		should.Hold(t, err != nil, "a second one was let in")
	})
}
