//go:build unix

package e2e

import (
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

// oneClient is how many MB one client may have the server take at the most.
const oneClient = 150

// Whatever one client sends, and however much of it at once, the server takes bounded memory, and serves what is asked then.
func TestMemoryOfOneClient(t *testing.T) {
	const head, end = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"run_python_code","arguments":{"code":"1","more":`, `}}}`
	for name, test := range map[string]struct {
		bodies int
		more   string // of the arguments
		unsent int    // bytes of each that never come
	}{
		"values that take many times their length": {4, "[" + strings.Repeat("0,", 30<<20) + "0]", 0},
		"messages that do not end":                 {1000, `"` + strings.Repeat("x", 1_000_000) + `"`, 10},
	} {
		t.Run(name, func(t *testing.T) {
			s := startHTTPWith(t, setup{program: shipped})
			before := int(s.peakMemory() >> 20)
			s.post(t, "/mcp", head+test.more+end, test.bodies, test.unsent)
			if after := int(s.peakMemory() >> 20); after-before > oneClient {
				t.Errorf("the server took %d MB, and then %d", before, after)
			}
			should.OK(t, should.ErrOf(s.plain().request(t.Context(), "tools/list", nil)))
		})
	}
}

// post sends a body on so many connections at once, but for its end, and returns when they are answered; half of them, where no end comes.
func (s *httpServer) post(t *testing.T, path, body string, connections, unsent int) {
	host := strings.Split(s.url, "/")[2]
	head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: %d\r\n\r\n",
		path, host, s.token, len(body))
	answered := make(chan struct{}, connections)
	for range connections {
		conn, err := net.Dial("tcp", host)
		must.OK(t, err)
		defer conn.Close()
		go func() {
			_, _ = io.WriteString(conn, head)
			_, _ = io.WriteString(conn, body[:len(body)-unsent])
		}()
		go func() {
			_, _ = io.Copy(io.Discard, conn)
			answered <- struct{}{}
		}()
	}
	if unsent > 0 {
		connections /= 2
	}
	for range connections {
		<-answered
	}
}

var peak = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

// peakMemory is the most that the server has taken since it was last asked, in bytes.
func (s *server) peakMemory() int64 {
	s.t.Helper()
	proc := fmt.Sprintf("/proc/%d/", s.cmd.Process.Pid)
	status, err := os.ReadFile(proc + "status")
	must.OK(s.t, err)
	kilobytes, err := strconv.ParseInt(string(peak.FindSubmatch(status)[1]), 10, 64)
	must.OK(s.t, err)
	must.OK(s.t, os.WriteFile(proc+"clear_refs", []byte("5"), 0))
	return kilobytes << 10
}
