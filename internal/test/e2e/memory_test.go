//go:build unix

package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// oneClient is how many MB one client may have the server take at the most.
const oneClient = 150

// calling is a call with an argument more, written in JSON.
func calling(tool, name, value string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":{"filename":"f","code":"1",%q:%s}}}`, tool, name, value)
}

// manyNumbers and manyMembers are JSON whose values take many times its own length.
func manyNumbers(length int) string { return "[" + strings.Repeat("0,", length/2) + "0]" }

func manyMembers(length int) string {
	var b strings.Builder
	b.Grow(length + 100)
	b.WriteString(`{"a":0`)
	for i := 0; b.Len() < length; i++ {
		fmt.Fprintf(&b, `,"%x":0`, i)
	}
	b.WriteByte('}')
	return b.String()
}

// Whatever one client sends to whatever door, and however much of it at once, the server takes bounded memory, and serves what is asked
// then.
func TestMemoryOfOneClient(t *testing.T) {
	long := strings.Repeat("x", 60<<20)
	for name, test := range map[string]struct {
		path   string
		bodies int
		body   func() string
		unsent int // bytes of each that never come
	}{
		"numbers in a message":      {path: "/mcp", bodies: 4, body: func() string { return calling("run_python_code", "more", manyNumbers(60<<20)) }},
		"numbers in small messages": {path: "/mcp", bodies: 200, body: func() string { return calling("run_python_code", "timeout_seconds", manyNumbers(190_000)) }},
		"long files":                {path: "/mcp", bodies: 4, body: func() string { return calling("upload_file", "text", `"`+long[:49_000_000]+`"`) }},
		"messages that do not end":  {path: "/mcp", bodies: 1000, body: func() string { return calling("run_python_code", "more", `"`+long[:1_000_000]+`"`) }, unsent: 10},
		"long files by REST":        {path: "/v1/sessions/a/files", bodies: 4, body: func() string { return `{"filename":"f","text":"` + long[:15<<20] + `"}` }},
	} {
		t.Run(name, func(t *testing.T) {
			s := startHTTP(t)
			body := test.body()
			before := int(s.peakMemory() >> 20)
			s.post(t, test.path, body, test.bodies, test.unsent)
			s.tookLittle(t, before)
			if _, err := (&httpClient{server: &httpServer{url: s.url, token: s.token}, client: http.DefaultClient}).request(t.Context(), "tools/list", nil); err != nil {
				t.Error(err)
			}
		})
	}
	t.Run("over stdio", func(t *testing.T) {
		s := start(t, setup{})
		before := int(s.peakMemory() >> 20)
		messages := []string{calling("run_python_code", "more", manyNumbers(60<<20)), calling("run_python_code", "more", manyMembers(24<<20)), calling("run_python_code", "code", `"`+long+`"`)}
		for range 100 {
			messages = append(messages, calling("run_python_code", "timeout_seconds", manyNumbers(190_000)))
		}
		var requests []*request
		for i, message := range messages {
			requests = append(requests, s.expect(strconv.Itoa(1000+i), "tools/call"))
			s.line(strings.Replace(message, `"id":1`, fmt.Sprintf(`"id":%d`, 1000+i), 1))
		}
		for _, r := range requests {
			r.wait()
		}
		s.ping()
		s.tookLittle(t, before)
	})
}

func (s *server) tookLittle(t *testing.T, before int) {
	t.Helper()
	after := int(s.peakMemory() >> 20)
	t.Logf("%d MB before, %d MB at the most", before, after)
	if after-before > oneClient && !raceDetector {
		t.Errorf("the server took %d MB more", after-before)
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
		if err != nil {
			t.Fatal(err)
		}
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
