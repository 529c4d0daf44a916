//go:build unix

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
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

// beginService starts a Podman service, which may not listen yet. Its runtime works on every host.
func beginService(socket string) (*exec.Cmd, error) {
	cmd := exec.Command("podman", "--runtime", "runc", "system", "service", "--time=0", "unix://"+socket)
	cmd.Dir = filepath.Dir(socket)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd, cmd.Start()
}

// servePodman starts that service with its socket in dir, and gives what ends it.
func servePodman(dir string) (stop func(), err error) {
	socket := filepath.Join(dir, "podman")
	podmanURL = "unix://" + socket
	cmd, err := beginService(socket)
	if err != nil {
		return nil, err
	}
	stop = func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	}
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
	h := must.Get(held(ids))(t)
	files := slices.Clone(h.Volumes) // beside each is the one with what is kept of it
	h.Volumes = slices.DeleteFunc(h.Volumes, func(name string) bool {
		of, is := strings.CutSuffix(name, ".state")
		return is && slices.Contains(files, of)
	})
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

// A hostProcess is one as this machine sees it.
type hostProcess struct {
	pid, parent int
	args        []string
	namespace   string // of its process numbers
}

func (p hostProcess) line() string { return strings.Join(p.args, " ") }

// processes lists those that live, but for this kernel's own and those that only wait to be reaped.
func processes() (list []hostProcess) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		pid, _ := strconv.Atoi(filepath.Base(dir))
		line, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		stat, err := os.ReadFile(filepath.Join(dir, "stat"))
		if err != nil || len(line) == 0 {
			continue
		}
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		parent, _ := strconv.Atoi(string(fields[1]))
		namespace, _ := os.Readlink(filepath.Join(dir, "ns/pid"))
		args := strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")
		list = append(list, hostProcess{pid, parent, args, namespace})
	}
	return list
}

// containerOf names the session's container of a tool: with one image there is one for all.
func (s *server) containerOf(id, tool string) string {
	s.t.Helper()
	language := map[string]string{python: "python", javascript: "javascript"}[tool]
	held := mustHold(s.t, []string{id}).Containers
	for _, name := range held {
		if len(held) == 1 || strings.HasSuffix(name, "-"+language) {
			return name
		}
	}
	s.t.Fatalf("session %s has no %s container", id, language)
	return ""
}

// inspect asks for one fact of a container.
func inspect(t *testing.T, container, format string) string {
	t.Helper()
	out := must.Get(podman("inspect", "--format", format, container))(t)
	return strings.TrimSpace(out)
}

func inspectPID(t *testing.T, container, field string) int {
	t.Helper()
	pid, err := strconv.Atoi(inspect(t, container, "{{.State."+field+"}}"))
	must.Hold(t, err == nil && pid > 1, "%s of %s: %d, %v", field, container, pid, err)
	return pid
}
