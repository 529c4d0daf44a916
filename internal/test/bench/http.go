//go:build unix

package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

// web is the least a client over HTTP can be: a connection that is kept, and JSON for answers.
type web struct {
	process *exec.Cmd
	url     string
	token   string // empty: benchToken
	headers http.Header
	last    atomic.Int64 // id of a request; they may overlap
}

const benchToken = "a-token-for-measurements"

// startWeb starts a server over HTTP and begins a session.
func (b *bench) startWeb(ctx context.Context, args ...string) *web {
	return b.startWebOf(ctx, b.server, args...)
}

func (b *bench) startWebOf(ctx context.Context, program string, args ...string) *web {
	dir := must(os.MkdirTemp("", "bench-"))
	defer func() { _ = os.RemoveAll(dir) }()
	token := filepath.Join(dir, "token")
	check(os.WriteFile(token, []byte(benchToken), 0o600))
	free := must(net.Listen("tcp", "127.0.0.1:0"))
	address := free.Addr().String()
	_ = free.Close()
	args = append([]string{"--log-level=warn", "--spares=0", "--http", address, "--http-token-file", token}, args...)
	w := &web{process: exec.CommandContext(ctx, program, args...), url: "http://" + address + "/mcp"}
	w.process.Stderr = os.Stderr
	check(w.process.Start())
	for tries := 0; ; tries++ {
		if err := try(func() { w.begin(ctx) }); err == nil {
			return w
		} else if tries == 100 {
			check(err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// begin begins a session.
func (w *web) begin(ctx context.Context) {
	w.headers = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Authorization": {"Bearer " + cmp.Or(w.token, benchToken)}}
	w.request(ctx, "initialize", hello)
}

func (w *web) request(ctx context.Context, method string, params any) []byte {
	text := must(json.Marshal(object{"jsonrpc": "2.0", "id": w.last.Add(1), "method": method, "params": params}))
	r := must(http.NewRequestWithContext(ctx, http.MethodPost, w.url, bytes.NewReader(text)))
	r.Header = w.headers
	response, err := http.DefaultClient.Do(r)
	check(err)
	defer func() { _ = response.Body.Close() }()
	if session := response.Header.Get("Mcp-Session-Id"); session != "" {
		w.headers.Set("Mcp-Session-Id", session)
	}
	return must(io.ReadAll(response.Body))
}

// call sets a variable in Python and returns the time from request to answer.
func (w *web) call(ctx context.Context) time.Duration {
	params := codeCall("run_python_code", "x = 1", nil)
	began := time.Now()
	answer := w.request(ctx, "tools/call", params)
	took := time.Since(began)
	if !bytes.Contains(answer, []byte(`"text":"completed`)) {
		check(fmt.Errorf("%s", answer))
	}
	return took
}

func (w *web) close() {
	_ = w.process.Process.Signal(syscall.SIGTERM)
	_ = w.process.Wait()
}

// overHTTP measures warm calls over stdio and over HTTP in turns, so that both find the machine the same.
func (b *bench) overHTTP(ctx context.Context) {
	pipe := b.start(ctx)
	defer pipe.close()
	web := b.startWeb(ctx)
	defer web.close()
	pipe.call("run_python_code", "x = 1", nil)
	web.call(ctx)
	time.Sleep(settle) // the sessions have begun
	var stdio, http series
	for range b.calls {
		stdio, http = append(stdio, pipe.call("run_python_code", "x = 1", nil)), append(http, web.call(ctx))
	}
	b.row("warm call in Python by HTTP, in turns with stdio", http.String(), "0.6 ms over stdio", "stdio "+stdio.String())
}

const (
	manyClients   = 200
	manyRate      = 10 // calls a second, of all of them
	manyCalls     = 400
	sessionMemory = 100 << 10 // KiB that a session takes at the most, without what is preloaded
)

// crowd measures calls of many clients, each with a session of its own, at a steady rate.
func (b *bench) crowd(ctx context.Context) {
	if most := kilobytes("/proc/meminfo", "MemAvailable:") / sessionMemory; most < manyClients {
		b.row(fmt.Sprintf("%d clients, a session each", manyClients), fmt.Sprintf("not measured: memory for %d", most), "", "")
		return
	}
	w := b.startWeb(ctx, "--preload=", fmt.Sprintf("--max-sessions=%d", manyClients))
	defer w.close()
	var clients []*web
	for range manyClients {
		c := &web{url: w.url}
		c.begin(ctx)
		c.call(ctx)
		clients = append(clients, c)
	}
	time.Sleep(settle)
	took := make(series, manyCalls)
	var calls errgroup.Group
	tick := time.NewTicker(time.Second / manyRate)
	defer tick.Stop()
	for i := range took {
		<-tick.C
		calls.Go(func() error {
			return try(func() { took[i] = clients[i*7%manyClients].call(ctx) }) // in no order of their starts
		})
	}
	check(calls.Wait())
	b.row(fmt.Sprintf("%d clients, a session each, %d calls a second", manyClients, manyRate), fmt.Sprintf("%v, p99 %s", took, short(took.at(99))), "p99 50 ms", "")
}
