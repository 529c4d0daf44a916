//go:build unix

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

// httpServer is a server that is reached over HTTP.
type httpServer struct {
	*server
	url   string
	token string // empty: none is asked for
}

var servedAt = regexp.MustCompile(`url=(http\S+)`)

// startHTTP starts a server at an address of its own, which ends with the test.
func startHTTP(t *testing.T, args ...string) *httpServer {
	t.Helper()
	return startHTTPWith(t, setup{args: args})
}

func startHTTPWith(t *testing.T, o setup) *httpServer {
	t.Helper()
	o.silent, o.args = true, append([]string{"--http", "127.0.0.1:0"}, o.args...)
	s := &httpServer{server: start(t, o)}
	t.Cleanup(func() { _ = s.cmd.Process.Signal(syscall.SIGTERM) })
	eventually(t, "it says where it is", func() (bool, string) {
		found := servedAt.FindStringSubmatch(s.stderr.String())
		if found != nil {
			s.url = found[1]
		}
		return found != nil, s.stderr.String()
	})
	if token, err := os.ReadFile(filepath.Join(s.stateDir, "http-token")); err == nil {
		s.token = strings.TrimSpace(string(token))
	}
	return s
}

// httpClient is a client of the older era that knows no more than it has to: a message for each POST, and JSON for answers.
type httpClient struct {
	server  *httpServer
	session string
	client  *http.Client
}

func (s *httpServer) plain() *httpClient { return &httpClient{server: s, client: http.DefaultClient} }

// post sends a message and returns the status and the answer's result.
func (c *httpClient) post(ctx context.Context, message object, more http.Header) (int, json.RawMessage, error) {
	text, err := json.Marshal(message)
	if err != nil {
		return 0, nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.server.url, bytes.NewReader(text))
	if err != nil {
		return 0, nil, err
	}
	r.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json"}, "Authorization": {"Bearer " + c.server.token}}
	if c.session != "" {
		r.Header.Set("Mcp-Session-Id", c.session)
	}
	for name, values := range more {
		r.Header[name] = values
	}
	response, err := c.client.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	if session := response.Header.Get("Mcp-Session-Id"); session != "" {
		c.session = session
	}
	body, err := io.ReadAll(response.Body)
	if err != nil || len(body) == 0 {
		return response.StatusCode, nil, err
	}
	var answer struct {
		Result json.RawMessage
		Error  json.RawMessage
	}
	if err := json.Unmarshal(body, &answer); err != nil || answer.Error != nil {
		return response.StatusCode, nil, fmt.Errorf("%d: %s", response.StatusCode, body)
	}
	return response.StatusCode, answer.Result, nil
}

func (c *httpClient) request(ctx context.Context, method string, params object) (json.RawMessage, error) {
	_, res, err := c.post(ctx, object{"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, nil)
	return res, err
}

func (c *httpClient) initialize(ctx context.Context) error {
	_, err := c.request(ctx, "initialize", object{
		"protocolVersion": "2025-06-18", "capabilities": object{}, "clientInfo": object{"name": "plain", "version": "1"},
	})
	if err == nil {
		_, _, err = c.post(ctx, object{"jsonrpc": "2.0", "method": "notifications/initialized"}, nil)
	}
	return err
}

// run calls a tool and returns the answer's text and its session.
func (c *httpClient) run(t *testing.T, tool string, arguments object) (text, session string) {
	t.Helper()
	res := must.Get(c.request(t.Context(), "tools/call", object{"name": tool, "arguments": arguments}))(t)
	var result struct {
		Content []struct{ Text string }
		Meta    map[string]struct {
			SessionID string `json:"session_id"`
		} `json:"_meta"`
	}
	decode(t, res, &result)
	if session = result.Meta["code-sandbox-mcp/result"].SessionID; session != "" {
		c.server.mu.Lock()
		c.server.sessions[session] = true
		c.server.mu.Unlock()
	}
	for _, c := range result.Content {
		text += "\n" + c.Text
	}
	return strings.TrimPrefix(text, "\n"), session
}

// call is run where the text is enough.
func (c *httpClient) call(t *testing.T, tool string, arguments object) string {
	t.Helper()
	text, _ := c.run(t, tool, arguments)
	return text
}

func TestTypeScriptClientsOverHTTP(t *testing.T) {
	t.Parallel()
	for _, generation := range []string{"legacy", "modern"} {
		t.Run(generation, func(t *testing.T) {
			s := startHTTP(t)
			stdout, stderr, err := node(t, "typescript.mjs", s.url, s.token, generation)
			should.Hold(t, err == nil && strings.TrimSpace(stdout) == "ok", "%v\n%s\n%s", err, stdout, stderr)
		})
	}
}

// curl asks a server for something below its address, as a person would, and returns the body and the status.
func (s *httpServer) curl(path string, args ...string) (body []byte, status string) {
	s.t.Helper()
	all := append([]string{"-sS", "-m", "300", "-w", "\n%{http_code}", "-H", "Authorization: Bearer " + s.token}, args...)
	out, err := exec.CommandContext(s.t.Context(), "curl", append(all, strings.TrimSuffix(s.url, "/mcp")+path)...).Output()
	must.Hold(s.t, err == nil, "curl %s: %v", path, err)
	i := strings.LastIndex(string(out), "\n")
	return out[:i], string(out[i+1:])
}

// ask is curl for what has to be done, and is answered with an object.
func (s *httpServer) ask(into any, path string, args ...string) {
	s.t.Helper()
	body, status := s.curl(path, args...)
	must.Hold(s.t, strings.HasPrefix(status, "2"), "%s: %s %s", path, status, body)
	decode(s.t, body, into)
}

func post(value any) []string {
	text, _ := json.Marshal(value)
	return []string{"-H", "Content-Type: application/json", "-d", string(text)}
}
