//go:build unix

package podman

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	testimage "github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/image"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/podman/service"
)

// testLabel is on everything that these tests make, with a value of this process's own.
const testLabel = "code-sandbox-mcp.podman-test"

var (
	testRun    = rand.Text()[:8]
	testEngine *Engine
)

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

// run shares one engine among the tests, as a server does, and counts what they left.
func run(m *testing.M) int {
	testEngine = Open(service.Options{})
	defer testEngine.Close()
	code := m.Run()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	left, err := testEngine.List(ctx, testLabel, testRun)
	if err != nil || len(left.Containers)+len(left.Volumes) > 0 {
		fmt.Fprintln(os.Stderr, "left behind:", left, err)
		return 1
	}
	return code
}

// testLimits are small, so that what goes over them is as well.
var testLimits = engine.Limits{
	MemoryBytes: 128 << 20, CPUs: 0.5, PIDs: 48, TmpBytes: 64 << 20, FileBytes: 32 << 20, OpenFiles: 128,
}

// testSpec is a container that runs a command under the limits that the attacks expect.
// What it makes is removed when the test ends.
func testSpec(tb testing.TB, command ...string) engine.Spec {
	tb.Helper()
	name := "csm-test-" + strings.ToLower(rand.Text()[:12])
	tb.Cleanup(func() {
		should.OK(tb, testEngine.Remove(context.Background(), []string{name}, []string{name}))
	})
	return engine.Spec{
		Name:    name,
		Volume:  name,
		Labels:  map[string]string{testLabel: testRun},
		Image:   testimage.BarePython(tb),
		Command: command,
		Env:     map[string]string{"GIVEN": "value"},
		Limits:  testLimits,
	}
}

func start(tb testing.TB, spec engine.Spec) engine.Process {
	tb.Helper()
	return startOn(tb, testEngine, spec)
}

func startOn(tb testing.TB, e *Engine, spec engine.Spec) engine.Process {
	tb.Helper()
	p := must.Get(e.Start(tb.Context(), spec))(tb)
	tb.Cleanup(func() { p.Close() })
	return p
}

// output runs a container to its end and returns what it wrote to stdout.
func output(tb testing.TB, spec engine.Spec) string {
	tb.Helper()
	p := start(tb, spec)
	out := must.Get(io.ReadAll(p))(tb)
	if p.Stderr() != "" {
		tb.Logf("stderr: %s", p.Stderr())
	}
	return string(out)
}

func python(tb testing.TB, code string) engine.Spec {
	return testSpec(tb, "python3", "-c", code)
}

func readFile(tb testing.TB, path string) string {
	tb.Helper()
	text := must.Get(os.ReadFile(path))(tb)
	return string(text)
}
