package proxy

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

// mostMemory is what a session may make the server hold. The hosts and the clients of this test are in it, about a third,
// and garbage is not, as it depends on what else runs.
const mostMemory = 120 << 20

// inTLS makes a connection of HTTP/2 to the host of a secret.
func (w *world) inTLS(t *testing.T) *tls.Conn {
	conn, err := net.Dial("tcp", w.address)
	must.OK(t, err)
	t.Cleanup(func() { conn.Close() })
	fmt.Fprint(conn, "CONNECT api.example:443 HTTP/1.1\r\nHost: api.example\r\n\r\n")
	response, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: http.MethodConnect})
	must.OK(t, err)
	response.Body.Close()
	pool := x509.NewCertPool()
	pool.AddCert(w.session.certificate)
	inside := tls.Client(conn, &tls.Config{ServerName: secretHost, RootCAs: pool, NextProtos: []string{"h2"}})
	must.OK(t, should.ErrOf(inside.Write([]byte(http2.ClientPreface))))
	return inside
}

// stubborn sends requests, and reads none of the answers.
func stubborn(conn *tls.Conn, requests int, header string, body []byte) {
	framer := http2.NewFramer(conn, nil)
	_ = framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1<<31 - 1})
	_ = framer.WriteWindowUpdate(0, 1<<30)
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for i := range requests {
		block.Reset()
		for _, f := range [][2]string{{":method", "POST"}, {":scheme", "https"}, {":authority", secretHost}, {":path", "/"}, {"x-long", header}} {
			_ = encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1], Sensitive: true})
		}
		id := uint32(2*i + 1)
		rest := block.Bytes()
		first := min(len(rest), 16000)
		_ = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: rest[:first], EndHeaders: first == len(rest), EndStream: len(body) == 0})
		for rest = rest[first:]; len(rest) > 0; rest = rest[first:] {
			first = min(len(rest), 16000)
			_ = framer.WriteContinuation(id, first == len(rest), rest[:first])
		}
		if len(body) > 0 {
			_ = framer.WriteData(id, false, body)
		}
	}
}

func TestOneSessionTakesABoundedPartOfMemory(t *testing.T) {
	const connections, streams = 32, 32
	for _, test := range []struct {
		name   string
		header string
		body   []byte
	}{
		{"answers that are not read", "", nil},
		{"long headers", strings.Repeat("x", 30_000), nil},
		{"bodies that the host does not read", "", make([]byte, 1000)},
	} {
		t.Run(test.name, func(t *testing.T) {
			var sent, asked atomic.Int64
			chunk := make([]byte, 32<<10)
			w := newWorld(t, Options{Mode: Allowlist, Secrets: []Secret{theSecret}}, func(w http.ResponseWriter, r *http.Request) {
				asked.Add(1)
				for r.Context().Err() == nil {
					if _, err := w.Write(chunk); err != nil {
						return
					}
					sent.Add(1)
				}
			})
			before, most := memory(), int64(0)
			var made []*tls.Conn
			for range connections {
				made = append(made, w.inTLS(t))
			}
			var all sync.WaitGroup
			for _, conn := range made {
				all.Go(func() { stubborn(conn, streams, test.header, test.body) })
			}
			all.Wait()
			for still, last := 0, int64(-1); still < 20 || asked.Load() == 0; time.Sleep(20 * time.Millisecond) {
				most = max(most, memory()-before)
				if now := sent.Load() + asked.Load(); now == last {
					still++
				} else {
					still, last = 0, now
				}
			}
			t.Logf("%d MB, of %d requests", most>>20, asked.Load())
			if most > mostMemory {
				t.Errorf("it took %d MB", most>>20)
			}
		})
	}
}

func memory() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
