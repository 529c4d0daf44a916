//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// web is the least a client over HTTP can be: a connection that is kept, and JSON for answers.
type web struct {
	process *exec.Cmd
	url     string
	headers http.Header
}

const benchToken = "a-token-for-measurements"

// startWeb starts a server over HTTP and begins a session.
func startWeb(ctx context.Context, server string) (*web, error) {
	dir, err := os.MkdirTemp("", "bench-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	token := filepath.Join(dir, "token")
	if err := os.WriteFile(token, []byte(benchToken), 0o600); err != nil {
		return nil, err
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	address := free.Addr().String()
	_ = free.Close()
	w := &web{
		process: exec.CommandContext(ctx, server, "--log-level=warn", "--http", address, "--http-token-file", token),
		url:     "http://" + address + "/mcp",
		headers: http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Authorization": {"Bearer " + benchToken}},
	}
	w.process.Stderr = os.Stderr
	if err := w.process.Start(); err != nil {
		return nil, err
	}
	for tries := 0; ; tries++ {
		_, err = w.request(ctx, "initialize", map[string]any{
			"protocolVersion": "2025-11-25", "capabilities": map[string]any{}, "clientInfo": map[string]any{"name": "bench", "version": "1"},
		})
		if err == nil || tries == 100 {
			return w, err
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (w *web) request(ctx context.Context, method string, params any) ([]byte, error) {
	text, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	r.Header = w.headers
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if session := response.Header.Get("Mcp-Session-Id"); session != "" {
		w.headers.Set("Mcp-Session-Id", session)
	}
	return io.ReadAll(response.Body)
}

// call runs code and gives the time from request to answer.
func (w *web) call(ctx context.Context, tool, code string) (time.Duration, error) {
	params := codeCall(tool, code, nil)
	began := time.Now()
	answer, err := w.request(ctx, "tools/call", params)
	took := time.Since(began)
	if err == nil && !bytes.Contains(answer, []byte(`"text":"completed`)) {
		err = fmt.Errorf("%s %q: %s", tool, code, answer)
	}
	return took, err
}

func (w *web) close() {
	_ = w.process.Process.Signal(syscall.SIGTERM)
	_ = w.process.Wait()
}

// overHTTP measures warm calls over stdio and over HTTP in turns, so that both find the machine the same.
func (b *bench) overHTTP(ctx context.Context, _ floors) error {
	pipe, err := start(ctx, b.server)
	if err != nil {
		return err
	}
	defer pipe.close()
	web, err := startWeb(ctx, b.server)
	if err != nil {
		return err
	}
	defer web.close()
	const tool, code = "run_python_code", "x = 1"
	var stdio, http series
	for i := range b.calls + 1 {
		d, err := pipe.call(tool, code, nil)
		if err != nil {
			return err
		}
		h, err := web.call(ctx, tool, code)
		if err != nil {
			return err
		}
		if i == 0 { // the session began
			time.Sleep(settle)
			continue
		}
		stdio, http = append(stdio, d), append(http, h)
	}
	b.row("warm call in Python by HTTP, in turns with stdio", http.String(), "0.6 ms over stdio", "stdio "+stdio.String())
	return nil
}
