//go:build unix

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// team is a server for several principals.
type team struct {
	*web
	b   *bench
	dir string
}

// serverProgram is the program that has principals, beside the other.
func (b *bench) serverProgram() string {
	return filepath.Join(filepath.Dir(b.server), "code-sandbox-server")
}

// startTeam starts a server with a state folder of its own.
func (b *bench) startTeam(ctx context.Context, args ...string) *team {
	dir := must(os.MkdirTemp("", "bench-team-"))
	return &team{b.startWebOf(ctx, b.serverProgram(), append([]string{"--state-dir=" + dir, "--preload="}, args...)...), b, dir}
}

func (t *team) close() {
	t.web.close()
	_ = os.RemoveAll(t.dir)
}

// token makes a token for a principal.
func (t *team) token(ctx context.Context, name string) string {
	out := must(exec.CommandContext(ctx, t.b.serverProgram(), "tokens", "add", name, "--json", "--state-dir", t.dir).Output())
	var made struct{ Token string }
	check(json.Unmarshal(out, &made))
	return made.Token
}

// client begins a session of the protocol with a token.
func (t *team) client(ctx context.Context, token string) *web {
	c := &web{url: t.url, token: token}
	c.begin(ctx)
	return c
}

// ping returns the time of a request that does nothing.
func (w *web) ping(ctx context.Context) time.Duration {
	began := time.Now()
	w.request(ctx, "ping", object{})
	return time.Since(began)
}

const (
	people         = 50
	sessionsOfEach = 4
	peoplesRate    = 20 // calls a second, of all of them
	peoplesCalls   = 1200
	startsAtOnce   = 8
)

// people measures calls of many principals, each with several sessions, at a steady rate.
func (b *bench) people(ctx context.Context) {
	what := fmt.Sprintf("%d people with %d sessions each, %d calls a second", people, sessionsOfEach, peoplesRate)
	if most := kilobytes("/proc/meminfo", "MemAvailable:") / sessionMemory; most < people*sessionsOfEach {
		b.row(what, fmt.Sprintf("not measured: memory for %d sessions", most), "", "")
		return
	}
	t := b.startTeam(ctx, fmt.Sprintf("--max-sessions=%d", sessionsOfEach))
	defer t.close()
	clients := make([]*web, people*sessionsOfEach)
	var beginning errgroup.Group
	beginning.SetLimit(startsAtOnce)
	began := time.Now()
	for person := range people {
		token := t.token(ctx, fmt.Sprintf("person%d@example.com", person))
		for i := range sessionsOfEach {
			beginning.Go(func() error {
				return try(func() {
					c := t.client(ctx, token)
					c.call(ctx)
					clients[person*sessionsOfEach+i] = c
				})
			})
		}
	}
	check(beginning.Wait())
	b.row(fmt.Sprintf("%d people with %d sessions each have begun", people, sessionsOfEach), short(time.Since(began)), "", "")
	time.Sleep(settle)
	took := make(series, peoplesCalls)
	var calls errgroup.Group
	tick := time.NewTicker(time.Second / peoplesRate)
	defer tick.Stop()
	for i := range took {
		<-tick.C
		calls.Go(func() error {
			return try(func() { took[i] = clients[i*7%len(clients)].call(ctx) }) // in no order of their starts
		})
	}
	check(calls.Wait())
	b.row(what, fmt.Sprintf("%v, p99 %s", took, short(took.at(99))), "p99 60 ms", fmt.Sprintf("server RSS %s", inMB(kilobytes(fmt.Sprintf("/proc/%d/status", t.process.Process.Pid), "VmRSS:"))))
}

// floods are what a neighbour does all the time in a session of its own, by what it takes.
var floods = map[string]string{
	"memory": "while True:\n    try:\n        blocks = []\n        while True: blocks.append(bytearray(1 << 24))\n    except MemoryError: pass",
	"disk":   "import os\nwhile True:\n    with open('flood', 'wb') as f:\n        for _ in range(64): f.write(os.urandom(1 << 20))\n    os.remove('flood')",
	"output": "line = 'x' * 99 + '\\n'\nwhile True: print(line * 1000, end='')",
}

const (
	// neighboursConnections is how many connections the neighbour begins sessions of the protocol on, one after the other.
	neighboursConnections = 64
	neighboursCalls       = 200
	neighboursPause       = 50 * time.Millisecond
)

// neighbour measures the calls of one principal while another takes all that it can get.
func (b *bench) neighbour(ctx context.Context) {
	t := b.startTeam(ctx)
	defer t.close()
	quiet := t.client(ctx, t.token(ctx, "quiet"))
	quiet.call(ctx)
	time.Sleep(settle)
	measure := func() (took series) {
		for range neighboursCalls {
			time.Sleep(neighboursPause)
			took = append(took, quiet.call(ctx))
		}
		return took
	}
	token := t.token(ctx, "noisy")
	for _, taken := range [][]string{{"memory"}, {"disk"}, {"output"}, {"connections"}, {"memory", "disk", "output", "connections"}} {
		alone := measure()
		flooding, stop := context.WithCancel(ctx)
		var going sync.WaitGroup
		repeat := func(what func(c *web)) {
			going.Go(func() {
				for flooding.Err() == nil {
					_ = try(func() { what(t.client(flooding, token)) }) // what is refused is asked for again
				}
			})
		}
		for _, what := range taken {
			if code, is := floods[what]; is {
				repeat(func(c *web) {
					c.request(flooding, "tools/call", codeCall("run_python_code", code, object{"session_id": "flood-" + what}))
				})
				continue
			}
			for range neighboursConnections {
				repeat(func(c *web) { c.ping(flooding) })
			}
		}
		time.Sleep(settle)
		beside := measure()
		stop()
		going.Wait()
		last := t.client(ctx, token) // what it has begun goes on without its client
		for _, what := range taken {
			last.request(ctx, "tools/call", object{"name": "close_session", "arguments": object{"session_id": "flood-" + what}})
		}
		b.row("calls of a principal while another floods: "+strings.Join(taken, ", "), beside.String(), "p95 1.5 times", "alone before "+alone.String())
	}
}
