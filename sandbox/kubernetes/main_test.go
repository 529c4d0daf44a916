//go:build !nokubernetes

package kubernetes

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/kube"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine/enginetest"
)

const testLabel = "code-sandbox-mcp.kubernetes-test"

var (
	testRun    = rand.Text()[:8]
	testEngine *Engine
)

// What needs a cluster runs where make test-kubernetes says which.
var (
	onCluster = os.Getenv("CODE_SANDBOX_KUBERNETES") != ""
	namespace = os.Getenv("CODE_SANDBOX_KUBERNETES_NAMESPACE")
	testImage = os.Getenv("CODE_SANDBOX_KUBERNETES_IMAGE") // any with Python
)

func needCluster(tb testing.TB) {
	tb.Helper()
	if !onCluster {
		tb.Skip("no cluster: make test-kubernetes runs this")
	}
}

func own(o Options) *Engine {
	o.Cluster.Namespace = namespace
	if o.ProgramsImage == "" {
		o.ProgramsImage = containers.ProgramsRef()
	}
	return Open(o)
}

// shut is a class of pods that have loopback alone.
var shut = Options{Cluster: kube.Options{}, StorageClass: "standard", RuntimeClass: "no-network"}

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	testEngine = own(shut)
	defer testEngine.Close()
	code := m.Run()
	if !onCluster {
		return code
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	left, err := testEngine.List(ctx, testLabel, testRun)
	if err != nil || len(left.Containers)+len(left.Volumes) > 0 {
		fmt.Fprintln(os.Stderr, "left behind:", left, err)
		return 1
	}
	return code
}

var testLimits = engine.Limits{MemoryBytes: 128 << 20, CPUs: 0.5, PIDs: 48, TmpBytes: 64 << 20, FileBytes: 32 << 20, OpenFiles: 128}

func testSpec(tb testing.TB, command ...string) engine.Spec {
	tb.Helper()
	name := "csm-test-" + strings.ToLower(rand.Text()[:12])
	tb.Cleanup(func() {
		if err := testEngine.Remove(context.Background(), []string{name}, []string{name}); err != nil {
			tb.Error(err)
		}
	})
	return engine.Spec{
		Name: name, Volume: name, Labels: map[string]string{testLabel: testRun}, Image: testImage, Command: command,
		Env: map[string]string{"GIVEN": "value"}, Limits: testLimits, Lasts: true, VolumeBytes: 64 << 20, Ends: time.Hour,
	}
}

func TestConformance(t *testing.T) {
	needCluster(t)
	enginetest.Run(t, enginetest.Target{
		Engine: testEngine, Spec: testSpec, Label: testLabel, Nodes: true,
		Open: func(testing.TB) engine.Engine {
			e := own(shut)
			t.Cleanup(func() { e.Close() })
			return e
		},
	})
}
