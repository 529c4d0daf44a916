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
	"slices"
	"time"
)

func main() {
	server := flag.String("server", "bin/code-sandbox-mcp", "the server's `program`")
	rounds := flag.Int("rounds", 5, "sessions that are started for a figure that takes a new one")
	calls := flag.Int("calls", 500, "calls for a figure of a warm kernel")
	other := flag.String("beside", "", "another `program`, to be measured in turns with the server")
	part := flag.String("beside-only", "", "`part` of the names of the rows of these")
	only := flag.String("only", "", "`pattern` of the names of the measurements to make, such as upload|links")
	flag.Parse()
	pattern, err := regexp.Compile(*only)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench: --only:", err)
		os.Exit(2)
	}
	b := &bench{server: *server, other: *other, part: *part, rounds: *rounds, calls: *calls, only: pattern}
	if err := b.run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// bench runs the measurements one after the other, each with servers of its own.
type bench struct {
	server string
	other  string // the program beside it; empty: none
	part   string
	rounds int
	calls  int
	only   *regexp.Regexp
	floor  floors
}

func (b *bench) run(ctx context.Context) error {
	b.row("what", "measured", "to reach", "floor in this run")
	for _, m := range []struct {
		name    string
		measure func(context.Context)
	}{
		{"", b.measureFloor}, {"initialize", b.initialize}, {"warm-python", b.warmPython}, {"warm-js", b.warmJS}, {"http", b.overHTTP},
		{"first", b.firstCall}, {"prewarm", b.prewarmed}, {"fresh", b.fresh}, {"imports", b.imports}, {"memory", b.memory}, {"upload", b.upload},
		{"links", b.links}, {"interrupt", b.interrupt}, {"death", b.death}, {"twenty", b.twenty}, {"sql", b.databases},
		{"spares", b.spares}, {"copies", b.copies}, {"frozen", b.frozen}, {"many", b.many},
		{"proxy", b.proxy}, {"crowd", b.crowd},
		{"people", b.people}, {"neighbour", b.neighbour}, {"beside", b.beside},
		{"pod-starts", b.inCluster(b.podStarts)}, {"pod-calls", b.inCluster(b.podCalls)}, {"pod-crowd", b.inCluster(b.podCrowd)},
	} {
		if m.name != "" && !b.only.MatchString(m.name) {
			continue
		}
		if err := try(func() { m.measure(ctx) }); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
	}
	return nil
}

// A failure ends a measurement.
type failure struct{ error }

// check ends the measurement if there is an error.
func check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// must returns the value, or ends the measurement.
func must[T any](value T, err error) T {
	check(err)
	return value
}

// try returns the error that has ended what it calls.
func try(measure func()) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case failure:
			err = p.error
		default:
			panic(p)
		}
	}()
	measure()
	return nil
}

// row is printed at once: the whole table takes minutes.
func (b *bench) row(what, measured, reach, floor string) {
	fmt.Printf("%-70s %-34s %-20s %s\n", what, measured, reach, floor)
}

// newServers measures something of so many new servers.
func (b *bench) newServers(ctx context.Context, measure func(*client) time.Duration, args ...string) (took series) {
	for range b.rounds {
		c := b.start(ctx, args...)
		took = append(took, measure(c))
		c.close()
	}
	return took
}

func (b *bench) initialize(ctx context.Context) {
	took := b.newServers(ctx, func(c *client) time.Duration { return c.initialized })
	b.row("initialize answered after process start", took.String(), "50 ms", "")
}

func (b *bench) warmPython(ctx context.Context) {
	b.warm(ctx, "run_python_code", "warm call in Python")
}

func (b *bench) warmJS(ctx context.Context) { b.warm(ctx, "run_js_code", "warm call in JavaScript") }

// warm waits until the kernel has loaded what it loads ahead: that is what a call is warm after.
func (b *bench) warm(ctx context.Context, tool, what string) {
	c := b.start(ctx)
	defer c.close()
	c.call(tool, "x = 1", nil)
	time.Sleep(settle)
	b.row(what, calls(c, b.calls, 0, tool).String(), "p50 1 ms, p95 3 ms", "attached round trip "+b.floor.roundTrip.String())
	b.row("the same, each after a pause of "+rest.String(), calls(c, max(1, b.calls/restedPart), rest, tool).String(), "", "the same "+b.floor.rested.String())
}

// calls makes a call several times, each after a pause.
func calls(c *client, times int, pause time.Duration, tool string) (took series) {
	for range times {
		time.Sleep(pause)
		took = append(took, c.call(tool, "x = 1", nil))
	}
	return took
}

// A model pauses between its calls. What a call goes through is asleep then, and the processors' caches
// have forgotten it.
const (
	rest       = 300 * time.Millisecond
	restedPart = 10 // one call in so many is measured like that
)

// settle is how long a session is left alone for what it does when idle.
const settle = 5 * time.Second

// printOne is the least code that prints, by the tool that runs it.
var printOne = map[string]string{"run_python_code": "print(1)", "run_js_code": "console.log(1)"}

func (b *bench) firstCall(ctx context.Context) {
	up := "container up " + b.floor.containerUp.String()
	for tool, code := range printOne {
		took := b.newServers(ctx, func(c *client) time.Duration { return c.call(tool, code, nil) })
		b.row("first call of a new server and session, "+tool, took.String(), "400 ms", up)
	}
	c := b.start(ctx)
	defer c.close()
	var took series
	for _, id := range names(b.rounds) {
		took = append(took, c.call("run_python_code", "print(1)", object{"session_id": id}))
		c.closeSession(id)
	}
	b.row("first call of a further session, run_python_code", took.String(), "400 ms", up)
}

func (b *bench) prewarmed(ctx context.Context) {
	took := b.newServers(ctx, func(c *client) time.Duration {
		time.Sleep(3 * time.Second)
		return c.call("run_python_code", "print(1)", nil)
	}, "--prewarm=python")
	b.row("first call with --prewarm, 3 s after start", took.String(), "15 ms", "")
}

func (b *bench) fresh(ctx context.Context) {
	for tool, code := range printOne {
		c := b.start(ctx)
		c.call(tool, "x = 1", nil)
		time.Sleep(2 * settle)
		var took series
		for range b.rounds {
			took = append(took, c.call(tool, code, object{"fresh": true}))
			time.Sleep(time.Second) // a person's or a model's pause: the next interpreter is made ready in it
		}
		c.close()
		b.row("fresh run, "+tool, took.String(), "25 ms", "")
	}
}

func (b *bench) imports(ctx context.Context) {
	took := b.newServers(ctx, func(c *client) time.Duration {
		c.call("run_python_code", "print(1)", nil)
		time.Sleep(settle)
		return c.call("run_python_code", "import numpy, pandas, matplotlib.pyplot", nil)
	})
	b.row("import numpy, pandas, matplotlib.pyplot, 5 s after the session began", took.String(), "10 ms", "")
}

func (b *bench) memory(ctx context.Context) {
	c := b.start(ctx, "--max-sessions=10")
	defer c.close()
	time.Sleep(time.Second)
	b.row("server RSS, idle", c.rss(), "40 MB", "")
	for _, id := range names(10) {
		c.call("run_python_code", "print(1)", object{"session_id": id})
	}
	b.row("server RSS, with 10 sessions", c.rss(), "80 MB", "")
	for _, id := range names(10) {
		c.closeSession(id)
	}
}

// series is the times of one measurement.
type series []time.Duration

func (s series) at(percent int) time.Duration {
	sorted := slices.Sorted(slices.Values(s))
	return sorted[min(len(sorted)-1, len(sorted)*percent/100)]
}

func (s series) String() string {
	if len(s) == 0 {
		return "nothing"
	}
	if len(s) < 20 {
		return fmt.Sprintf("%s (of %d: %s to %s)", short(s.at(50)), len(s), short(slices.Min(s)), short(slices.Max(s)))
	}
	return fmt.Sprintf("p50 %s, p95 %s", short(s.at(50)), short(s.at(95)))
}

func short(d time.Duration) string {
	if d < 10*time.Millisecond {
		return fmt.Sprintf("%.2f ms", float64(d.Microseconds())/1000)
	}
	return fmt.Sprintf("%.0f ms", float64(d.Microseconds())/1000)
}
