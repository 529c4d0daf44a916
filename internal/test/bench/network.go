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
func (b *bench) packages(ctx context.Context, _ floors) error {
	index, stop := pypi.New()
	defer stop()
	dir, err := os.MkdirTemp("", "bench-state-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	c, err := start(ctx, b.server, "--pypi-index-url", index.URL, "--state-dir", dir)
	if err != nil {
		return err
	}
	defer c.close()
	var first, again series
	for round := range b.rounds {
		name := fmt.Sprintf("small%d", round)
		index.Add(pypi.Package{Name: name, Version: "1.0", Padding: 50_000})
		for _, times := range []*series{&first, &again} {
			session := fmt.Sprintf("bench-%s-%d", name, len(*times))
			if times == &again {
				session += "-again"
			}
			if _, err := c.call("run_python_code", "1", map[string]any{"session_id": session}); err != nil {
				return err
			}
			d, err := c.tool("install_packages", map[string]any{"language": "python", "packages": []string{name}, "session_id": session})
			if err != nil {
				return err
			}
			*times = append(*times, d)
			if _, err := c.tool("close_session", map[string]any{"session_id": session}); err != nil {
				return err
			}
		}
	}
	b.row("install_packages of a small wheel, from an index on this machine", first.String(), "2.5 s", "")
	b.row("the same in another session, from the cache", again.String(), "1.5 s", "")
	return nil
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
func (b *bench) proxy(ctx context.Context, _ floors) error {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 1000)) }))
	defer server.Close()
	dir, err := os.MkdirTemp("", "bench-proxy-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	program := filepath.Join(dir, "code-sandbox-mcp")
	build := exec.CommandContext(ctx, "go", "build", "-tags=fetchtest,remote,containers_image_openpgp,exclude_graphdriver_btrfs", "-o", program, ".")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build: %w\n%s", err, out)
	}
	if err := os.Setenv("CODE_SANDBOX_FETCHTEST", server.Listener.Addr().String()); err != nil {
		return err
	}
	c, err := start(ctx, program, "--allow-domain", "bench.example")
	if err != nil {
		return err
	}
	defer c.close()
	if _, err := c.call("run_python_code", requests, nil); err != nil {
		return err
	}
	var inside, outside series
	for range b.rounds {
		a := <-c.send("tools/call", codeCall("run_python_code", fmt.Sprintf("print(ask('http://bench.example/', %d))", b.calls/b.rounds), nil))
		if a.err != nil {
			return a.err
		}
		if err := inside.add(string(a.result)); err != nil {
			return err
		}
		python := exec.CommandContext(ctx, "python3", "-c", requests+fmt.Sprintf("print(ask(%q, %d))", server.URL, b.calls/b.rounds))
		python.Env = append(os.Environ(), "no_proxy=*")
		out, err := python.Output()
		if err != nil {
			return err
		}
		if err := outside.add(string(out)); err != nil {
			return err
		}
	}
	b.row("an HTTP request of code to an allowed host, Python's urllib", inside.String(), "3 ms more", "the same from the host "+outside.String())
	return nil
}

var list = regexp.MustCompile(`\[[-0-9.e, ]+\]`)

// add takes the times, in seconds, of the list in a text.
func (s *series) add(text string) error {
	var taken []float64
	if err := json.Unmarshal([]byte(list.FindString(text)), &taken); err != nil {
		return fmt.Errorf("no times in %.300s", text)
	}
	for _, t := range taken {
		*s = append(*s, time.Duration(t*float64(time.Second)))
	}
	return nil
}
