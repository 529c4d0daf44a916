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

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/pypi"
)

// packages installs a small wheel from an index of its own, and then again in other sessions.
func (b *bench) packages(ctx context.Context) {
	index, stop := pypi.New()
	defer stop()
	dir := must(os.MkdirTemp("", "bench-state-"))
	defer func() { _ = os.RemoveAll(dir) }()
	c := b.start(ctx, "--pypi-index-url", index.URL, "--state-dir", dir)
	defer c.close()
	var first, again series
	for round := range b.rounds {
		name := fmt.Sprintf("small%d", round)
		index.Add(pypi.Package{Name: name, Version: "1.0", Padding: 50_000})
		for times, took := range []*series{&first, &again} {
			session := fmt.Sprintf("bench-%s-%d", name, times)
			c.call("run_python_code", "1", object{"session_id": session})
			*took = append(*took, c.tool("install_packages", object{"language": "python", "packages": []string{name}, "session_id": session}))
			c.closeSession(session)
		}
	}
	b.row("install_packages of a small wheel, from an index on this machine", first.String(), "2.5 s", "")
	b.row("the same in another session, from the cache", again.String(), "1.5 s", "")
}

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
