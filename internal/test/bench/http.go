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

	"golang.org/x/sync/errgroup"
)

// web is the least a client over HTTP can be: a connection that is kept, and JSON for answers.
type web struct {
	process *exec.Cmd
	url     string
	headers http.Header
}

const benchToken = "a-token-for-measurements"

// startWeb starts a server over HTTP and begins a session.
func startWeb(ctx context.Context, server string, args ...string) (*web, error) {
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
	args = append([]string{"--log-level=warn", "--http", address, "--http-token-file", token}, args...)
	w := &web{process: exec.CommandContext(ctx, server, args...), url: "http://" + address + "/mcp"}
	w.process.Stderr = os.Stderr
	if err := w.process.Start(); err != nil {
		return nil, err
	}
	for tries := 0; ; tries++ {
		if err := w.begin(ctx); err == nil || tries == 100 {
			return w, err
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// begin begins a session.
func (w *web) begin(ctx context.Context) error {
	w.headers = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Authorization": {"Bearer " + benchToken}}
	_, err := w.request(ctx, "initialize", map[string]any{
		"protocolVersion": "2025-11-25", "capabilities": map[string]any{}, "clientInfo": map[string]any{"name": "bench", "version": "1"},
	})
	return err
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

const (
	manyClients   = 200
	manyRate      = 10 // calls a second, of all of them
	manyCalls     = 400
	sessionMemory = 100 << 10 // KiB that a session takes at the most, without what is preloaded
)

// crowd measures calls of many clients, each with a session of its own, at a steady rate.
func (b *bench) crowd(ctx context.Context, _ floors) error {
	most := freeMemory() / sessionMemory
	if most < manyClients {
		b.row(fmt.Sprintf("%d clients, a session each", manyClients), fmt.Sprintf("not measured: memory for %d", most), "", "")
		return nil
	}
	w, err := startWeb(ctx, b.server, "--preload=", fmt.Sprintf("--max-sessions=%d", manyClients))
	if err != nil {
		return err
	}
	defer w.close()
	var clients []*web
	const tool, code = "run_python_code", "x = 1"
	for range manyClients {
		c := &web{url: w.url}
		if err := c.begin(ctx); err != nil {
			return err
		}
		if _, err := c.call(ctx, tool, code); err != nil {
			return err
		}
		clients = append(clients, c)
	}
	time.Sleep(settle)
	took := make(series, manyCalls)
	var calls errgroup.Group
	tick := time.NewTicker(time.Second / manyRate)
	defer tick.Stop()
	for i := range took {
		<-tick.C
		calls.Go(func() (err error) {
			took[i], err = clients[i*7%manyClients].call(ctx, tool, code) // in no order of their starts
			return err
		})
	}
	if err := calls.Wait(); err != nil {
		return err
	}
	b.row(fmt.Sprintf("%d clients, a session each, %d calls a second", manyClients, manyRate), fmt.Sprintf("%v, p99 %s", took, short(took.at(99))), "p99 50 ms", "")
	return nil
}

// freeMemory is what the machine has to give, in KiB; 0 where it does not say.
func freeMemory() int {
	info, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	return kilobytes(info, "MemAvailable:")
}
