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
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
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

// authorized adds the token to a client's requests.
type authorized string

func (token authorized) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(token))
	return http.DefaultTransport.RoundTrip(r)
}

func (s *httpServer) transport() *mcp.StreamableClientTransport {
	return &mcp.StreamableClientTransport{Endpoint: s.url, HTTPClient: &http.Client{Transport: authorized(s.token)}}
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

// run runs Python and returns the answer's text and its session.
func (c *httpClient) run(t *testing.T, arguments object) (text, session string) {
	t.Helper()
	res, err := c.request(t.Context(), "tools/call", object{"name": python, "arguments": arguments})
	if err != nil {
		t.Fatal(err)
	}
	var result struct {
		Content []struct{ Text string }
		Meta    map[string]struct {
			SessionID string `json:"session_id"`
		} `json:"_meta"`
	}
	decode(t, res, &result)
	session = result.Meta["code-sandbox-mcp/result"].SessionID
	c.server.mu.Lock()
	c.server.sessions[session] = true
	c.server.mu.Unlock()
	for _, c := range result.Content {
		text += "\n" + c.Text
	}
	return strings.TrimPrefix(text, "\n"), session
}

func TestTypeScriptClientsOverHTTP(t *testing.T) {
	t.Parallel()
	for _, generation := range []string{"legacy", "modern"} {
		t.Run(generation, func(t *testing.T) {
			s := startHTTP(t)
			stdout, stderr, err := node(t, "typescript.mjs", s.url, s.token, generation)
			if err != nil || strings.TrimSpace(stdout) != "ok" {
				t.Errorf("%v\n%s\n%s", err, stdout, stderr)
			}
		})
	}
}

func TestGoClientOverHTTP(t *testing.T) {
	t.Parallel()
	s := startHTTP(t)
	for _, version := range []string{"2025-06-18", "2026-07-28", ""} {
		t.Run("revision "+version, func(t *testing.T) {
			transport := s.transport()
			if version != "2025-06-18" { // without a handshake its session has to have a name
				transport.Endpoint += "?session=e2e-go"
			}
			useGoClient(t, version, transport)
		})
	}
}

// Clients that name no session do not share one, and one that they name they do.
func TestClientsOverHTTPAreApart(t *testing.T) {
	t.Parallel()
	s := startHTTP(t)
	a, b := s.plain(), s.plain()
	for value, c := range map[string]*httpClient{"1": a, "2": b} {
		if err := c.initialize(t.Context()); err != nil {
			t.Fatal(err)
		}
		c.run(t, object{"code": "x = " + value})
	}
	text, first := a.run(t, object{"code": "x"})
	other, second := b.run(t, object{"code": "x"})
	if !strings.HasSuffix(text, "[result]\n1") || !strings.HasSuffix(other, "[result]\n2") || first == second {
		t.Errorf("%s has %s; %s has %s", first, text, second, other)
	}
	a.run(t, object{"code": "x = 3", "session_id": "shared"})
	if text, _ := b.run(t, object{"code": "x", "session_id": "shared"}); !strings.HasSuffix(text, "[result]\n3") {
		t.Errorf("of a session with a name: %s", text)
	}
	// A client's own session ends with it, and the others do not.
	r, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, s.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+s.token)
	r.Header.Set("Mcp-Session-Id", a.session)
	response, err := http.DefaultClient.Do(r)
	if err != nil || response.StatusCode != http.StatusNoContent {
		t.Fatalf("%v, %v", response, err)
	}
	response.Body.Close()
	wantNothingLeft(t, []string{first})
	if text, _ := b.run(t, object{"code": "x"}); !strings.HasSuffix(text, "[result]\n2") {
		t.Errorf("after another's end: %s", text)
	}
}

func TestHTTPServersEndInOrder(t *testing.T) {
	t.Parallel()
	s := startHTTP(t)
	c := s.plain()
	if err := c.initialize(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.run(t, object{"code": "x = 1"})
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = c.request(t.Context(), "tools/call", object{"name": python, "arguments": object{"code": "while True: pass"}})
	}()
	s.endBy("SIGTERM", func() { s.signal(syscall.SIGTERM) })
	<-done
}

// The log says where the token is, and never what it is.
func TestTokenIsNotInTheLog(t *testing.T) {
	t.Parallel()
	s := startHTTP(t)
	c := s.plain()
	if err := c.initialize(t.Context()); err != nil {
		t.Fatal(err)
	}
	wrong := &httpClient{server: &httpServer{url: s.url, token: "not-" + s.token}, client: http.DefaultClient}
	if status, _, _ := wrong.post(t.Context(), object{"jsonrpc": "2.0", "id": 1, "method": "ping"}, nil); status != http.StatusUnauthorized {
		t.Errorf("%d with another token", status)
	}
	if log := s.stderr.String(); strings.Contains(log, s.token) || !strings.Contains(log, filepath.Join(s.stateDir, "http-token")) {
		t.Errorf("log: %s", log)
	}
}

// Frameworks that start a server or begin anew for each call go on with a session that their configuration names.
func TestASessionByConfiguration(t *testing.T) {
	t.Parallel()
	t.Run("stdio", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		one := start(t, setup{stateDir: dir, args: []string{"--session", "e2e-configured"}})
		one.shared = true
		one.complete(python, object{"code": "x = 41"})
		two := start(t, setup{stateDir: dir, args: []string{"--session", "e2e-configured"}})
		if got := two.complete(python, object{"code": "x + 1"}).Meta.Run.value(); got != "42" {
			t.Errorf("another server has %s", got)
		}
		two.call("close_session", nil)
	})
	t.Run("HTTP", func(t *testing.T) {
		t.Parallel()
		s := startHTTP(t)
		call := func(query string, arguments object) string {
			c := &httpClient{server: &httpServer{server: s.server, url: s.url + query, token: s.token}, client: http.DefaultClient}
			text, _ := c.run(t, arguments)
			return text
		}
		call("?session=e2e-url", object{"code": "x = 41"})
		if got := call("?session=e2e-url", object{"code": "x + 1"}); !strings.HasSuffix(got, "42") {
			t.Errorf("the URL's session has %s", got)
		}
		alone := call("", object{"code": "x"})
		found := regexp.MustCompile(`session_id "(\S+)" goes on with it`).FindStringSubmatch(alone)
		if found == nil || !strings.Contains(alone, "NameError") {
			t.Fatalf("a program without a session has %s", alone)
		}
		if got := call("", object{"code": "x = 1; x", "session_id": found[1]}); !strings.HasSuffix(got, "\n1") {
			t.Errorf("the session that it was told has %s", got)
		}
	})
}
