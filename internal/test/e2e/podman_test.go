//go:build unix

package e2e

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containers/podman/v5/pkg/bindings"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/podman/libpod"
)

// podmanTime bounds one podman command or question: it can wait for long behind others' on a busy machine.
const podmanTime = 60 * time.Second

// podman runs the command and returns its stdout.
func podman(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), podmanTime)
	defer cancel()
	out, err := exec.CommandContext(ctx, "podman", args...).Output()
	if err != nil {
		if exit, ok := err.(*exec.ExitError); ok { //nolint:errorlint // Output returns it unwrapped
			return "", fmt.Errorf("podman %s: %w: %s", strings.Join(args, " "), err, exit.Stderr)
		}
		return "", fmt.Errorf("podman %s: %w", strings.Join(args, " "), err)
	}
	return string(out), nil
}

// podmanAPI is the connection to a Podman service of the tests' own, which what they look at often is asked of:
// a podman command takes a busy machine seconds to begin.
var podmanAPI context.Context

// podmanURL is where that service is.
var podmanURL string

// servePodman starts that service with its socket in dir, and gives what ends it.
func servePodman(dir string) (stop func(), err error) {
	socket := filepath.Join(dir, "podman")
	podmanURL = "unix://" + socket
	cmd, err := beginService(socket)
	if err != nil {
		return nil, err
	}
	stop = func() { endService(cmd) }
	for deadline := time.Now().Add(podmanTime); ; time.Sleep(20 * time.Millisecond) {
		if podmanAPI, err = bindings.NewConnection(context.Background(), podmanURL); err == nil {
			return stop, nil
		}
		if time.Now().After(deadline) {
			stop()
			return nil, fmt.Errorf("podman's service: %w", err)
		}
	}
}

// holdings is what Podman has of some sessions.
type holdings struct {
	Containers []string
	Volumes    []string
}

func (h holdings) empty() bool { return len(h.Containers) == 0 && len(h.Volumes) == 0 }

// held lists the containers and volumes that carry one of the sessions' labels. Others on the same
// engine are not looked at.
func held(ids []string) (holdings, error) {
	var h holdings
	if len(ids) == 0 {
		return h, nil
	}
	labelled := map[string][]string{"label": {sandbox.LabelSession}}
	found, err := steadily(func(ctx context.Context) ([]libpod.Container, error) {
		return libpod.ListContainers(ctx, labelled, false)
	})
	if err != nil {
		return h, err
	}
	for _, c := range found {
		if slices.Contains(ids, idOf(c.Labels)) {
			h.Containers = append(h.Containers, c.Names...)
		}
	}
	kept, err := steadily(func(ctx context.Context) ([]libpod.Volume, error) {
		return libpod.ListVolumes(ctx, labelled)
	})
	if err != nil {
		return h, err
	}
	for _, v := range kept {
		if slices.Contains(ids, idOf(v.Labels)) {
			h.Volumes = append(h.Volumes, v.Name)
		}
	}
	return h, nil
}

// idOf returns what something on the engine goes by: the label of what was kept ready is no session's name.
func idOf(labels map[string]string) string {
	return strings.TrimPrefix(labels[sandbox.LabelSession], "_")
}

// steadily lists again where something that is listed is removed meanwhile: Podman 4.3 fails then.
func steadily[T any](list func(context.Context) ([]T, error)) (found []T, err error) {
	for range 20 {
		ctx, cancel := context.WithTimeout(podmanAPI, podmanTime)
		found, err = list(ctx)
		cancel()
		if err == nil || !strings.Contains(err.Error(), "no such") {
			break
		}
	}
	return found, err
}

func mustHold(t *testing.T, ids []string) holdings {
	t.Helper()
	h, err := held(ids)
	must.OK(t, err)
	return h
}

// unnamed leaves out the sessions that are meant to outlive their server. Only generated names begin so, and what was kept
// ready.
func unnamed(ids []string) []string {
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return !strings.HasPrefix(id, "sbx-") && !strings.HasPrefix(id, "spare-") })
}

// wantNothingLeft waits until the sessions without a name of a server that has ended have neither
// container nor volume any more. Where Podman is too slow for the time that a server has for
// its end, a process that it leaves behind does the rest.
func wantNothingLeft(t *testing.T, ids []string) {
	t.Helper()
	eventually(t, "nothing is left behind", func() (bool, string) {
		temporary := mustHold(t, unnamed(ids))
		return temporary.empty(), sprint(temporary)
	})
}

// removeAll takes away what tests leave on purpose, and what failed ones leave. Something else may be at it too: what
// sweeps after a killed server, so what is gone meanwhile is looked at again.
func removeAll(t *testing.T, ids []string) {
	t.Helper()
	var err error
	for range 20 {
		var h holdings
		if h, err = held(ids); err == nil && len(h.Containers) > 0 {
			_, err = podman(append([]string{"rm", "--force", "--time", "0"}, h.Containers...)...)
		}
		if err == nil && len(h.Volumes) > 0 {
			_, err = podman(append([]string{"volume", "rm"}, h.Volumes...)...)
		}
		if err == nil || !strings.Contains(err.Error(), "no such") && !strings.Contains(err.Error(), "no volume with name") {
			break
		}
	}
	should.OK(t, err)
}
