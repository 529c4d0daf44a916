//go:build unix

package kubernetes_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/cluster/kubernetes"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

// Policies that come a moment after their pod are waited for, and others are not.
func TestLatePolicies(t *testing.T) {
	open := fmt.Errorf("look: %w", kubernetes.ErrReaches)
	other := errors.New("another")
	for name, test := range map[string]struct {
		found []error // by the looks; the last, by all after it
		most  time.Duration
		looks int // 0: some
		want  error
	}{
		"at once":      {[]error{nil}, time.Minute, 1, nil},
		"late":         {[]error{open, open, nil}, time.Minute, 3, nil},
		"never":        {[]error{open}, time.Second, 0, kubernetes.ErrReaches},
		"another":      {[]error{other}, time.Minute, 1, other},
		"late another": {[]error{open, other}, time.Minute, 2, other},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			looks := 0
			err := kubernetes.WhenShut(t.Context(), test.most, func() error {
				looks++
				return test.found[min(looks, len(test.found))-1]
			})
			if !errors.Is(err, test.want) || test.looks > 0 && looks != test.looks || looks < 1 {
				t.Errorf("%v after %d looks", err, looks)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	should.Be(t, kubernetes.WhenShut(ctx, time.Minute, func() error { return open }), kubernetes.ErrReaches, "the error")
}

func TestNameServers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "resolv.conf")
	text := "search a.svc.cluster.local\nnameserver 10.96.0.10\n# nameserver 10.0.0.1\nnameserver fd00::a\nnameserver\noptions ndots:5\n"
	must.OK(t, os.WriteFile(path, []byte(text), 0o600))
	should.EqualSlice(t, kubernetes.NameServers(path), []string{"10.96.0.10", "fd00::a"})
	if got := kubernetes.NameServers(path + "none"); len(got) > 0 {
		t.Error(got)
	}
}

// Each engine has a canary of its own, which is replaced where it goes, and removed by its engine or once it has ended.
func TestCanaries(t *testing.T) {
	on := onCluster(t, func(o *kubernetes.Options) { o.RuntimeClass = "" })
	other := kubernetes.Open(on.options)
	t.Cleanup(func() { other.Close() })
	canary := func(e *kubernetes.Engine) string {
		t.Helper()
		name, at, err := e.Canary(t.Context(), on.image)
		if err != nil || len(at) == 0 {
			t.Fatal(at, err)
		}
		return name
	}
	left := func() string {
		t.Helper()
		return on.cluster.Kubectl(t, "get", "pods", "--selector", "app.kubernetes.io/component=canary", "-o",
			`go-template={{range .items}}{{if not .metadata.deletionTimestamp}}{{.metadata.name}} {{end}}{{end}}`)
	}
	first, second := canary(on.Engine), canary(other)
	if first == second || canary(on.Engine) != first {
		t.Errorf("the canaries are %s, %s", first, second)
	}
	on.cluster.Kubectl(t, "delete", "pod", first, "--grace-period=1")
	third := canary(on.Engine)
	if third == first {
		t.Error("one that is gone is relied on")
	}
	options := on.options
	on.Close()
	on.Engine = kubernetes.Open(options) // for what looks whether anything is left
	if got := left(); strings.Contains(got, third) || !strings.Contains(got, second) {
		t.Errorf("after one engine was closed there are %s", got)
	}
	on.cluster.Kubectl(t, "patch", "pod", second, "--patch", `{"spec":{"activeDeadlineSeconds":1}}`)
	on.cluster.Kubectl(t, "wait", "pod", second, "--for=jsonpath={.status.phase}=Failed", "--timeout=60s")
	if removed, err := on.RemoveEnded(t.Context()); err != nil || !slices.Contains(removed, second) {
		t.Errorf("removed are %v, %v", removed, err)
	}
	if got := left(); strings.Contains(got, second) {
		t.Errorf("left is %s", got)
	}
	on.cluster.Kubectl(t, "get", "networkpolicy", "code-sandbox-mcp-sandboxes", "code-sandbox-mcp-canary")
}
