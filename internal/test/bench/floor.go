//go:build unix

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/podman"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/podman/service"
)

// floors is what the engine alone takes, with the least program in the same image.
type floors struct {
	containerUp series // from the request to make a container to its program's first line
	roundTrip   series // one line there and back over the attached stdio
	rested      series // the same, each after a pause
	pour        series // pourBytes from the attached stdio
}

// pourBytes is how much a program writes at once in the measurement of what the engine carries.
const pourBytes = 100_000_000

// echo answers every line with itself, and a number with so many bytes; it says first that it is there.
const echo = `import sys
print("up", flush=True)
for line in sys.stdin:
    if line == "x\n": print(line, end="", flush=True)
    else:
        for left in range(int(line), 0, -32768): sys.stdout.buffer.write(bytes(min(left, 32768)))
        sys.stdout.flush()`

func (b *bench) measureFloor(ctx context.Context) {
	on := podman.Open(service.Options{})
	defer func() { _ = on.Close() }()
	must(on.Connection(ctx))
	for i := range b.rounds {
		b.floor.round(ctx, on, i, b.calls/b.rounds)
	}
}

// ownTogether is how long the engine takes for so many containers at once.
func ownTogether(ctx context.Context, n int) time.Duration {
	on := podman.Open(service.Options{})
	defer func() { _ = on.Close() }()
	must(on.Connection(ctx))
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("csm-bench-%d-%d", time.Now().UnixNano(), i))
	}
	defer func() { _ = on.Remove(ctx, names, names) }()
	began := time.Now()
	failed := make(chan error)
	for _, name := range names {
		go func() {
			failed <- try(func() {
				p := must(on.Start(ctx, least(name)))
				defer func() { _ = p.Close() }()
				must(bufio.NewReader(p).ReadString('\n'))
			})
		}()
	}
	var errs []error
	for range names {
		errs = append(errs, <-failed)
	}
	took := time.Since(began).Round(time.Millisecond)
	check(errors.Join(errs...))
	return took
}

// least is a container with the least program.
func least(name string) engine.Spec {
	return engine.Spec{
		Name: name, Volume: name, Image: containers.ImageRef("python"), Command: []string{"python3", "-Sc", echo},
		Limits: engine.Limits{MemoryBytes: 1 << 30, CPUs: 2, PIDs: 64, TmpBytes: 64 << 20, FileBytes: 1 << 30, OpenFiles: 256},
	}
}

func (f *floors) round(ctx context.Context, on *podman.Engine, i, calls int) {
	name := fmt.Sprintf("csm-bench-%d-%d", time.Now().UnixNano(), i)
	defer func() { _ = on.Remove(ctx, []string{name}, []string{name}) }()
	began := time.Now()
	p := must(on.Start(ctx, least(name)))
	defer func() { _ = p.Close() }()
	lines := bufio.NewReader(p)
	must(lines.ReadString('\n'))
	f.containerUp = append(f.containerUp, time.Since(began))
	trip := func() time.Duration {
		began := time.Now()
		must(io.WriteString(p, "x\n"))
		must(lines.ReadString('\n'))
		return time.Since(began)
	}
	for range calls {
		f.roundTrip = append(f.roundTrip, trip())
	}
	for range max(1, calls/restedPart) {
		time.Sleep(rest)
		f.rested = append(f.rested, trip())
	}
	began = time.Now()
	must(fmt.Fprintln(p, pourBytes))
	must(io.CopyN(io.Discard, lines, pourBytes))
	f.pour = append(f.pour, time.Since(began))
}
