//go:build unix

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/podman"
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

func measureFloor(ctx context.Context, rounds, calls int) (floors, error) {
	var f floors
	engine := podman.Open(podman.Options{})
	defer func() { _ = engine.Close() }()
	if _, err := engine.Connection(ctx); err != nil {
		return f, err
	}
	for i := range rounds {
		if err := f.round(ctx, engine, i, calls/rounds); err != nil {
			return f, err
		}
	}
	return f, nil
}

func (f *floors) round(ctx context.Context, on *podman.Engine, i, calls int) error {
	name := fmt.Sprintf("csm-bench-%d-%d", time.Now().UnixNano(), i)
	defer func() { _ = on.Remove(ctx, []string{name}, []string{name}) }()
	began := time.Now()
	p, err := on.Start(ctx, engine.Spec{
		Name: name, Volume: name, Image: containers.ImageRef("python"), Command: []string{"python3", "-Sc", echo},
		Limits: engine.Limits{MemoryBytes: 1 << 30, CPUs: 2, PIDs: 64, TmpBytes: 64 << 20, FileBytes: 1 << 30, OpenFiles: 256},
	})
	if err != nil {
		return err
	}
	defer func() { _ = p.Close() }()
	lines := bufio.NewReader(p)
	if _, err := lines.ReadString('\n'); err != nil {
		return err
	}
	f.containerUp = append(f.containerUp, time.Since(began))
	for range calls {
		took, err := trip(p, lines)
		if err != nil {
			return err
		}
		f.roundTrip = append(f.roundTrip, took)
	}
	for range max(1, calls/restedPart) {
		time.Sleep(rest)
		took, err := trip(p, lines)
		if err != nil {
			return err
		}
		f.rested = append(f.rested, took)
	}
	began = time.Now()
	if _, err := fmt.Fprintln(p, pourBytes); err != nil {
		return err
	}
	_, err = io.CopyN(io.Discard, lines, pourBytes)
	f.pour = append(f.pour, time.Since(began))
	return err
}

// trip measures a line's way there and back.
func trip(w io.Writer, lines *bufio.Reader) (time.Duration, error) {
	began := time.Now()
	if _, err := w.Write([]byte("x\n")); err != nil {
		return 0, err
	}
	_, err := lines.ReadString('\n')
	return time.Since(began), err
}
