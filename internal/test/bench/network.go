//go:build unix

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"time"
)

// requests makes requests one after the other, each by a connection of its own, and prints how long each took.
const requests = `
import json, time, urllib.request
def ask(url, times):
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        urllib.request.urlopen(url).read()
        taken.append(time.perf_counter() - began)
    return json.dumps(taken)
`

// proxy asks a server of its own through the broker, in turn with the same Python on the host. The program that it starts
// is one that takes every name below .example for that server: another would refuse an address that is not public.
func (b *bench) proxy(ctx context.Context) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 1000)) }))
	defer server.Close()
	dir := must(os.MkdirTemp("", "bench-proxy-"))
	defer func() { _ = os.RemoveAll(dir) }()
	program := filepath.Join(dir, "code-sandbox-mcp")
	build := exec.CommandContext(ctx, "go", "build", "-tags=fetchtest,remote,containers_image_openpgp,exclude_graphdriver_btrfs", "-o", program, ".")
	if out, err := build.CombinedOutput(); err != nil {
		check(fmt.Errorf("build: %w\n%s", err, out))
	}
	check(os.Setenv("CODE_SANDBOX_FETCHTEST", server.Listener.Addr().String()))
	c := start(ctx, program, "--allow-domain", "bench.example")
	defer c.close()
	c.call("run_python_code", requests, nil)
	var inside, outside series
	for range b.rounds {
		a := c.request("tools/call", codeCall("run_python_code", fmt.Sprintf("print(ask('http://bench.example/', %d))", b.calls/b.rounds), nil))
		inside = append(inside, times(string(a.result))...)
		python := exec.CommandContext(ctx, "python3", "-c", requests+fmt.Sprintf("print(ask(%q, %d))", server.URL, b.calls/b.rounds))
		python.Env = append(os.Environ(), "no_proxy=*")
		outside = append(outside, times(string(must(python.Output())))...)
	}
	b.row("an HTTP request of code to an allowed host, Python's urllib", inside.String(), "3 ms more", "the same from the host "+outside.String())
}

var list = regexp.MustCompile(`\[[-0-9.e, ]+\]`)

// times returns the times, in seconds, of the list in a text.
func times(text string) (took series) {
	var taken []float64
	check(json.Unmarshal([]byte(list.FindString(text)), &taken))
	for _, t := range taken {
		took = append(took, time.Duration(t*float64(time.Second)))
	}
	return took
}
