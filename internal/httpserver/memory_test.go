package httpserver

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/room"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/web"
)

// A client that sends beginnings of messages waits for itself alone, and its share comes back.
func TestMemoryIsSharedByClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := serveInBubble(t, Options{})
		const begun = 100
		head := "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n"
		answers := make(chan string, begun)
		for range begun {
			conn := f.conn(t)
			go func() { _, _ = io.WriteString(conn, head+"{") }()
			go func() {
				got, _ := io.ReadAll(conn)
				answers <- string(got[:min(len(got), len("HTTP/1.1 503"))])
			}()
		}
		synctest.Wait()
		share := messageBounds.memory(1_000_000)
		other := f.server.memory.Share("another")
		if !other.Resize(t.Context(), room.Each) {
			t.Error("another client waits")
		}
		other.GiveBack()
		counts := make(map[string]int64)
		for range begun {
			counts[<-answers]++
		}
		if want := map[string]int64{"HTTP/1.1 503": begun - room.Each/share, "HTTP/1.1 408": room.Each / share}; fmt.Sprint(counts) != fmt.Sprint(want) {
			t.Errorf("got %v, want %v", counts, want)
		}
		if a := f.post(ping, nil); a.status != http.StatusOK {
			t.Errorf("afterwards: %+v", a)
		}
		synctest.Wait()
		if !f.server.memory.IsFree() {
			t.Error("not all memory was given back")
		}
		time.Sleep(web.IdleTime)
	})
}

// Answers that their client does not read take of its share, and those that find no room are not kept for it.
func TestMemoryOfAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := serveInBubble(t, Options{})
		const asked, fit = 20, room.Each / largeAnswer
		body := call(1, "large", "")
		var conns []net.Conn
		for range asked {
			conn := f.conn(t)
			conns = append(conns, conn)
			go func() {
				_, _ = fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
			}()
		}
		time.Sleep(slotTime + time.Second)
		whole, refused := 0, 0
		for _, conn := range conns {
			switch got, _ := io.ReadAll(conn); {
			case len(got) > largeAnswer:
				whole++
			case strings.Contains(string(got), "was carried out, but there is no room"):
				refused++
			}
		}
		if whole < fit-1 || whole > fit || whole+refused != asked {
			t.Errorf("%d are whole, and %d refused", whole, refused)
		}
		synctest.Wait()
		if !f.server.memory.IsFree() {
			t.Error("not all memory was given back")
		}
	})
}

// A message in chunks takes what it has once it is whole, and waits for room where it is long.
func TestMemoryOfChunks(t *testing.T) {
	f := serve(t, Options{})
	for _, length := range []int{10, firstRoom - len(call(1, "size", `,"arguments":{"text":""}`)), firstRoom, 5 * firstRoom} {
		body := call(1, "size", `,"arguments":{"text":"`+strings.Repeat("x", length)+`"}`)
		r := f.request(http.MethodPost, Path, "", nil)
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), -1
		if a := f.do(r); a.status != http.StatusOK {
			t.Errorf("%d bytes: %+v", length, a)
		}
	}
}
