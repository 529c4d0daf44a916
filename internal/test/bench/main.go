//go:build unix

// Command bench measures what a user of the server waits for, through MCP over stdio and HTTP, beside the
// floor that the engine itself sets, and prints a table. It judges nothing: machines differ, so
// compare within one run.
//
//	go run ./internal/test/bench --server bin/code-sandbox-mcp
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"regexp"
	"time"
)

func main() {
	server := flag.String("server", "bin/code-sandbox-mcp", "the server's `program`")
	rounds := flag.Int("rounds", 5, "sessions that are started for a figure that takes a new one")
	calls := flag.Int("calls", 500, "calls for a figure of a warm kernel")
	only := flag.String("only", "", "`pattern` of the names of the measurements to make, such as files|upload")
	flag.Parse()
	pattern, err := regexp.Compile(*only)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench: --only:", err)
		os.Exit(2)
	}
	b := &bench{server: *server, rounds: *rounds, calls: *calls, only: pattern}
	if err := b.run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// bench runs the measurements one after the other, each with servers of its own.
type bench struct {
	server string
	rounds int
	calls  int
	only   *regexp.Regexp
}

func (b *bench) run(ctx context.Context) error {
	b.row("what", "measured", "to reach", "floor in this run")
	floor, err := measureFloor(ctx, b.rounds, b.calls)
	if err != nil {
		return fmt.Errorf("floor: %w", err)
	}
	for _, m := range []struct {
		name    string
		measure func(context.Context, floors) error
	}{
		{"initialize", b.initialize}, {"warm-python", b.warmPython}, {"warm-js", b.warmJS}, {"http", b.overHTTP}, {"first", b.firstCall},
		{"prewarm", b.prewarmed}, {"fresh", b.fresh}, {"imports", b.imports}, {"memory", b.memory}, {"parallel", b.parallel},
		{"files", b.manyFiles}, {"upload", b.upload}, {"links", b.links}, {"take-over", b.takeOver},
		{"interrupt", b.interrupt}, {"death", b.death}, {"flood", b.flood}, {"twenty", b.twenty}, {"sql", b.databases},
		{"packages", b.packages}, {"proxy", b.proxy}, {"crowd", b.crowd},
	} {
		if !b.only.MatchString(m.name) {
			continue
		}
		if err := m.measure(ctx, floor); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
	}
	return nil
}

// row is printed at once: the whole table takes minutes.
func (b *bench) row(what, measured, reach, floor string) {
	fmt.Printf("%-70s %-34s %-20s %s\n", what, measured, reach, floor)
}

func (b *bench) initialize(ctx context.Context, _ floors) error {
	var took series
	for range b.rounds {
		c, err := start(ctx, b.server)
		if err != nil {
			return err
		}
		took = append(took, c.initialized)
		c.close()
	}
	b.row("initialize answered after process start", took.String(), "50 ms", "")
	return nil
}

func (b *bench) warmPython(ctx context.Context, floor floors) error {
	return b.warm(ctx, floor, "run_python_code", "x = 1", "warm call in Python")
}

func (b *bench) warmJS(ctx context.Context, floor floors) error {
	return b.warm(ctx, floor, "run_js_code", "x = 1", "warm call in JavaScript")
}

// warm waits until the kernel has loaded what it loads ahead: that is what a call is warm after.
func (b *bench) warm(ctx context.Context, floor floors, tool, code, what string) error {
	c, err := start(ctx, b.server)
	if err != nil {
		return err
	}
	defer c.close()
	if _, err := c.call(tool, code, nil); err != nil {
		return err
	}
	time.Sleep(settle)
	took, err := calls(c, b.calls, 0, tool, code)
	if err != nil {
		return err
	}
	b.row(what, took.String(), "p50 1 ms, p95 3 ms", "attached round trip "+floor.roundTrip.String())
	if took, err = calls(c, max(1, b.calls/restedPart), rest, tool, code); err != nil {
		return err
	}
	b.row("the same, each after a pause of "+rest.String(), took.String(), "", "the same "+floor.rested.String())
	return nil
}

// calls makes a call several times, each after a pause.
func calls(c *client, times int, pause time.Duration, tool, code string) (series, error) {
	var took series
	for range times {
		time.Sleep(pause)
		d, err := c.call(tool, code, nil)
		if err != nil {
			return nil, err
		}
		took = append(took, d)
	}
	return took, nil
}

// A model pauses between its calls. What a call goes through is asleep then, and the processors' caches
// have forgotten it.
const (
	rest       = 300 * time.Millisecond
	restedPart = 10 // one call in so many is measured like that
)

// settle is how long a session is left alone for what it does when idle.
const settle = 5 * time.Second

func (b *bench) firstCall(ctx context.Context, floor floors) error {
	for tool, code := range map[string]string{"run_python_code": "print(1)", "run_js_code": "console.log(1)"} {
		var took series
		for range b.rounds {
			c, err := start(ctx, b.server)
			if err != nil {
				return err
			}
			d, err := c.call(tool, code, nil)
			if err != nil {
				return err
			}
			took = append(took, d)
			c.close()
		}
		b.row("first call of a new server and session, "+tool, took.String(), "400 ms", "container up "+floor.containerUp.String())
	}
	c, err := start(ctx, b.server)
	if err != nil {
		return err
	}
	defer c.close()
	var took series
	for i := range b.rounds {
		d, err := c.call("run_python_code", "print(1)", map[string]any{"session_id": fmt.Sprintf("bench-%d", i)})
		if err != nil {
			return err
		}
		took = append(took, d)
		if err := c.request("tools/call", map[string]any{"name": "close_session", "arguments": map[string]any{"session_id": fmt.Sprintf("bench-%d", i)}}); err != nil {
			return err
		}
	}
	b.row("first call of a further session, run_python_code", took.String(), "400 ms", "container up "+floor.containerUp.String())
	return nil
}

func (b *bench) prewarmed(ctx context.Context, _ floors) error {
	var took series
	for range b.rounds {
		c, err := start(ctx, b.server, "--prewarm=python")
		if err != nil {
			return err
		}
		time.Sleep(3 * time.Second)
		d, err := c.call("run_python_code", "print(1)", nil)
		if err != nil {
			return err
		}
		took = append(took, d)
		c.close()
	}
	b.row("first call with --prewarm, 3 s after start", took.String(), "15 ms", "")
	return nil
}

func (b *bench) fresh(ctx context.Context, _ floors) error {
	for tool, code := range map[string]string{"run_python_code": "print(1)", "run_js_code": "console.log(1)"} {
		c, err := start(ctx, b.server)
		if err != nil {
			return err
		}
		if _, err := c.call(tool, code, nil); err != nil {
			return err
		}
		time.Sleep(2 * settle)
		var took series
		for range b.rounds {
			d, err := c.call(tool, code, map[string]any{"fresh": true})
			if err != nil {
				return err
			}
			took = append(took, d)
			time.Sleep(time.Second) // a person's or a model's pause: the next interpreter is made ready in it
		}
		c.close()
		b.row("fresh run, "+tool, took.String(), "25 ms", "")
	}
	return nil
}

func (b *bench) imports(ctx context.Context, _ floors) error {
	var took series
	for range b.rounds {
		c, err := start(ctx, b.server)
		if err != nil {
			return err
		}
		if _, err := c.call("run_python_code", "print(1)", nil); err != nil {
			return err
		}
		time.Sleep(settle)
		d, err := c.call("run_python_code", "import numpy, pandas, matplotlib.pyplot", nil)
		if err != nil {
			return err
		}
		took = append(took, d)
		c.close()
	}
	b.row("import numpy, pandas, matplotlib.pyplot, 5 s after the session began", took.String(), "10 ms", "")
	return nil
}

func (b *bench) memory(ctx context.Context, _ floors) error {
	c, err := start(ctx, b.server, "--max-sessions=10")
	if err != nil {
		return err
	}
	defer c.close()
	time.Sleep(time.Second)
	b.row("server RSS, idle", c.rss(), "40 MB", "")
	for i := range 10 {
		if _, err := c.call("run_python_code", "print(1)", map[string]any{"session_id": fmt.Sprintf("bench-%d", i)}); err != nil {
			return err
		}
	}
	b.row("server RSS, with 10 sessions", c.rss(), "80 MB", "")
	for i := range 10 {
		if err := c.request("tools/call", map[string]any{"name": "close_session", "arguments": map[string]any{"session_id": fmt.Sprintf("bench-%d", i)}}); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) parallel(ctx context.Context, _ floors) error {
	c, err := start(ctx, b.server)
	if err != nil {
		return err
	}
	defer c.close()
	for _, id := range []string{"bench-a", "bench-b"} {
		if _, err := c.call("run_python_code", "import time", map[string]any{"session_id": id}); err != nil {
			return err
		}
	}
	began := time.Now()
	answers := []chan answer{
		c.send("tools/call", codeCall("run_python_code", "time.sleep(2)", map[string]any{"session_id": "bench-a"})),
		c.send("tools/call", codeCall("run_python_code", "time.sleep(2)", map[string]any{"session_id": "bench-b"})),
	}
	for _, a := range answers {
		if got := <-a; got.err != nil {
			return got.err
		}
	}
	b.row("two sessions, each 2 s of sleep, at once", time.Since(began).Round(time.Millisecond).String(), "2.5 s", "2 s")
	for _, id := range []string{"bench-a", "bench-b"} {
		if err := c.request("tools/call", map[string]any{"name": "close_session", "arguments": map[string]any{"session_id": id}}); err != nil {
			return err
		}
	}
	return nil
}
