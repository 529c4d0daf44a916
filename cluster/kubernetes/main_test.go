//go:build unix

package kubernetes_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/cluster/kube"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/cluster/kubernetes"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/cluster"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/image"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine/enginetest"
)

const testLabel = "code-sandbox-mcp.kubernetes-test"

func TestMain(m *testing.M) {
	code := m.Run()
	if err := cluster.End(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// target is an engine on the cluster. It leaves nothing behind.
type target struct {
	*kubernetes.Engine
	cluster *cluster.Cluster
	options kubernetes.Options
	image   string
	mark    string // the value of testLabel on all that is its own
}

// onCluster returns an engine whose pods have loopback alone, and claims for volumes that last, unless it is changed.
func onCluster(tb testing.TB, change func(*kubernetes.Options)) *target {
	tb.Helper()
	c := cluster.Need(tb)
	t := &target{cluster: c, image: image.BarePython(tb), mark: rand.Text()[:8], options: kubernetes.Options{
		Cluster: kube.Options{Kubeconfig: c.Kubeconfig}, StorageClass: c.StorageClass, RuntimeClass: c.RuntimeClass,
		ProgramsImage: containers.ProgramsRef(),
	}}
	c.Load(tb, t.image)
	if change != nil {
		change(&t.options)
	}
	t.Engine = kubernetes.Open(t.options)
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		left, err := t.List(ctx, testLabel, t.mark)
		should.Hold(tb, len(left.Containers)+len(left.Volumes) <= 0 && err == nil, "left behind: %+v, %v", left, err)
		_ = t.Close()
	})
	return t
}

var testLimits = engine.Limits{MemoryBytes: 128 << 20, CPUs: 0.5, PIDs: 48, TmpBytes: 64 << 20, FileBytes: 32 << 20, OpenFiles: 128}

// spec is a container that goes with the test.
func (t *target) spec(tb testing.TB, command ...string) engine.Spec {
	tb.Helper()
	name := "csm-test-" + strings.ToLower(rand.Text()[:12])
	tb.Cleanup(func() {
		should.OK(tb, t.Remove(context.Background(), []string{name}, []string{name}))
	})
	return engine.Spec{
		Name: name, Volume: name, Labels: map[string]string{testLabel: t.mark}, Image: t.image, Command: command,
		Env: map[string]string{"GIVEN": "value"}, Limits: testLimits, Lasts: true, VolumeBytes: 64 << 20, Ends: time.Hour,
	}
}

// Claims for volumes, and volumes that are their pods'.
func TestConformance(t *testing.T) {
	for name, change := range map[string]func(*kubernetes.Options){"claims": nil, "pods": func(o *kubernetes.Options) { o.StorageClass = "" }} {
		t.Run(name, func(t *testing.T) {
			on := onCluster(t, change)
			enginetest.Run(t, enginetest.Target{
				Engine: on, Spec: on.spec, Label: testLabel, Nodes: true,
				Open: func(tb testing.TB) engine.Engine {
					e := kubernetes.Open(on.options)
					tb.Cleanup(func() { _ = e.Close() })
					return e
				},
			})
		})
	}
}
