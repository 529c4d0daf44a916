package tools

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/caller"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/netlog"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/heap"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sql"
)

// sleeping is a database whose statements take until they are cancelled, where they are no other.
type sleeping struct {
	sql.Database
	began chan string
}

func (d *sleeping) Query(ctx context.Context, q sql.Query) (sql.Rows, error) {
	d.began <- q.Text
	switch q.Text {
	case "sleep":
		<-ctx.Done()
	case "endless":
		return endlessRows{}, nil
	case "wide":
		return wideRows{}, nil
	}
	return nil, errors.New("there are no rows")
}

// endlessRows are rows without an end.
type endlessRows struct{ sql.Rows }

func (endlessRows) Columns() []sql.Column { return []sql.Column{{Name: "x"}} }
func (endlessRows) Next() bool            { return true }
func (endlessRows) Values() [][]byte      { return [][]byte{[]byte("x")} }
func (endlessRows) Close()                {}

// wideRows have one column more than may be.
type wideRows struct{ endlessRows }

func (wideRows) Columns() []sql.Column { return make([]sql.Column, maxColumns+1) }

func (d *sleeping) queries(log *netlog.Log) http.Handler {
	connections := sql.NewConnections([]sql.Source{{Name: "main"}}, func(sql.Source) (sql.Database, error) { return d, nil })
	return (&Databases{Connections: connections, Timeout: time.Minute, MaxRows: 1 << 40, MaxBytes: 1 << 40}).Queries(log)
}

// sends makes a query of a session, and returns the end of the answer.
func sends(ctx context.Context, h http.Handler, by caller.Caller, body string) (end queryEnd) {
	recorder := httptest.NewRecorder()
	h.ServeHTTP(recorder, httptest.NewRequestWithContext(caller.With(ctx, by), http.MethodPost, "/sql", strings.NewReader(body)))
	answer := recorder.Body.Bytes()
	for len(answer) >= 4 && binary.BigEndian.Uint32(answer) > 0 {
		answer = answer[4+binary.BigEndian.Uint32(answer):]
	}
	_ = json.Unmarshal(bytes.TrimPrefix(answer, make([]byte, 4)), &end)
	return end
}

func TestAQueryHasABoundOfValues(t *testing.T) {
	body := `{"query":"none","params":[` + strings.Repeat("0,", queryBytes/2-100) + `0]}`
	h := (&sleeping{}).queries(&netlog.Log{})
	by := caller.Caller{Session: "s", Memory: caller.NewBudget()}
	heap.Bound(t, func() {
		var clients sync.WaitGroup
		for range 24 {
			clients.Go(func() {
				end := sends(t.Context(), h, by, body)
				if end.Error == nil || end.Error.Code != fault.InvalidArgument || !strings.Contains(end.Error.Message, "too many JSON values: 4194") {
					t.Errorf("got %+v", end.Error)
				}
			})
		}
		clients.Wait()
	})
}

func TestAQueryOfCodeIsCheckedLikeOneOfTheTool(t *testing.T) {
	h := (&sleeping{began: make(chan string, 1)}).queries(&netlog.Log{})
	for body, want := range map[string]string{
		`{"query":"wide"}`:                 "The result has 2,001 columns, and 2,000 are the most.",
		`{"query":"quick","max_rows":1.5}`: "The max_rows of the query cannot be a number 1.5.",
	} {
		end := sends(t.Context(), h, caller.Caller{Session: "s"}, body)
		should.Hold(t, end.Error != nil && end.Error.Message == want, "%s: %+v", body, end.Error)
	}
}

// What is within the bounds waits until there is room for it.
func TestQueriesOfASessionShareItsMemory(t *testing.T) {
	body := `{"query":"sleep","params":["` + strings.Repeat("x", queryBytes-100) + `"]}`
	d := &sleeping{began: make(chan string, 24)}
	h := d.queries(&netlog.Log{})
	by := caller.Caller{Session: "s", Memory: caller.NewBudget()}
	ctx, cancel := context.WithCancel(t.Context())
	heap.Bound(t, func() {
		var clients sync.WaitGroup
		for range 24 {
			clients.Go(func() { sends(ctx, h, by, body) })
		}
		<-d.began
		cancel()
		clients.Wait()
	})
}

func TestTheLogHasNoLongNameOfAConnection(t *testing.T) {
	log := &netlog.Log{}
	sends(t.Context(), (&sleeping{}).queries(log), caller.Caller{Session: "s"}, `{"query":"none","connection":"`+strings.Repeat("x", 100_000)+`"}`)
	newest, _ := log.Of("s")
	should.Hold(t, len(newest) == 1 && !newest[0].Allowed && len(newest[0].Host) <= 210, "got %.1000v", newest)
}

func TestCodeOfOneSessionLeavesStatementsToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &sleeping{began: make(chan string, 20)}
		h := d.queries(&netlog.Log{})
		ctx, cancel := context.WithCancel(t.Context())
		for range 8 {
			go sends(ctx, h, caller.Caller{Session: "busy"}, `{"query":"sleep"}`)
		}
		synctest.Wait()
		n := len(d.began)
		should.Hold(t, n < sql.PoolSize-1, "one session has %d statements", n)
		for len(d.began) > 0 {
			<-d.began
		}
		if end := sends(t.Context(), h, caller.Caller{Session: "other"}, `{"query":"quick"}`); <-d.began != "quick" {
			t.Errorf("got %+v", end)
		}
		go sends(ctx, h, caller.Caller{Session: "other"}, `{"query":"sleep"}`)
		synctest.Wait()
		<-d.began
		impatient, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		end := sends(impatient, h, caller.Caller{Session: "third"}, `{"query":"quick"}`)
		if end.Error == nil || !strings.HasPrefix(end.Error.Message, "As many queries of code run on this connection as there may be: 2 of one session, 3 in all.") {
			t.Errorf("got %+v", end.Error)
		}
		cancel()
		synctest.Wait()
	})
}

func TestAQueryWhoseAnswerIsNotReadLeavesItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &sleeping{began: make(chan string, 20)}
		log := &netlog.Log{}
		b := broker.New(broker.Options{SQL: d.queries(log)})
		defer b.Close()
		for range sql.PoolSize {
			server, client := net.Pipe()
			defer client.Close()
			go b.Serve(t.Context(), "s", "", server)
			const body = `{"query":"endless","format":"csv"}`
			must.OK(t, should.ErrOf(fmt.Fprintf(client, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", broker.SQL, len(body), body)))
		}
		time.Sleep(time.Hour)
		_, total := log.Of("s")
		should.Hold(t, total == sql.PoolSize, "%d queries have ended", total)
	})
}
