package stdio

import (
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/rpc"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

func TestEndOfInputWithNothingRunning(t *testing.T) {
	drive(t, Options{}, func(d *driver) {
		d.ping()
		begin := time.Now()
		rest, err := d.end()
		if err != nil || len(rest) != 0 || time.Since(begin) != 0 {
			t.Errorf("%v, %v after %v", rest, err, time.Since(begin))
		}
	})
}

func TestRunningCallAnswersInItsGraceTime(t *testing.T) {
	drive(t, Options{GraceTime: time.Second}, func(d *driver) {
		d.call(`1`, "block", `{"name":"a"}`)
		d.settle()
		time.AfterFunc(900*time.Millisecond, func() { close(d.fixture.release["a"]) })
		begin := time.Now()
		rest, err := d.end()
		if err != nil || len(rest) != 1 || rest[0].text() != "released a" {
			t.Errorf("%v, %v", rest, err)
		}
		should.Equal(t, time.Since(begin), 900*time.Millisecond)
	})
}

func TestRunningCallIsStoppedAfterItsGraceTime(t *testing.T) {
	drive(t, Options{GraceTime: time.Second, StopTime: time.Minute}, func(d *driver) {
		d.call(`1`, "block", `{"name":"a"}`)
		d.settle()
		begin := time.Now()
		rest, err := d.end()
		if err != nil || len(rest) != 1 || rest[0].text() != "ended a" {
			t.Errorf("%v, %v", rest, err)
		}
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
		if err != nil || len(rest) != 0 {
			t.Errorf("%v, %v", rest, err)
		}
		should.Equal(t, time.Since(begin), 2*time.Second)
	})
}

func TestQueuedCallsAreDropped(t *testing.T) {
	drive(t, Options{MaxRunning: 1}, func(d *driver) {
		d.call(`1`, "block", `{"name":"a"}`)
		d.call(`2`, "block", `{"name":"b"}`)
		d.settle()
		rest, err := d.end()
		if err != nil || len(rest) != 1 || rest[0].text() != "ended a" || len(d.fixture.started) != 1 {
			t.Errorf("%v, %v, %d started", rest, err, len(d.fixture.started))
		}
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
		if !errors.Is(err, signal) || len(rest) != 1 || rest[0].text() != "released a" {
			t.Errorf("%v, %v", rest, err)
		}
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
		if len(rest) != 1 || string(rest[0].ID) != "1" {
			t.Errorf("got %v", rest)
		}
	})
}

func TestClientClosesTheOutput(t *testing.T) {
	drive(t, Options{}, func(d *driver) {
		d.call(`1`, "block", `{"name":"a"}`)
		d.settle()
		_ = d.outPipe.CloseWithError(io.ErrClosedPipe)
		begin := time.Now()
		d.send(`{"jsonrpc":"2.0","id":2,"method":"ping"}`)
		if err := <-d.finished; !errors.Is(err, ErrClientGone) || !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("got %v", err)
		}
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
		if err := <-d.finished; err != nil || time.Since(begin) != 700*time.Millisecond {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
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
		if sent == 0 || sent > 1000 {
			t.Errorf("%d messages were taken", sent)
		}
		d.stop(nil)
		<-d.finished
	})
}

func TestOneServeAtATime(t *testing.T) {
	drive(t, Options{}, func(d *driver) {
		d.ping()
		if err := Serve(t.Context(), d.fixture.server, nil, nil, Options{}); err == nil {
			t.Error("a second one was let in")
		}
	})
}
