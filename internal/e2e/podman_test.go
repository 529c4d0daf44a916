package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
)

// podmanTime bounds one podman command: it can wait for long behind others' on a busy machine.
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
	var containers []struct {
		Names  []string
		Labels map[string]string
	}
	if err := list(&containers, "ps", "--all"); err != nil {
		return h, err
	}
	for _, c := range containers {
		if slices.Contains(ids, c.Labels[sandbox.LabelSession]) {
			h.Containers = append(h.Containers, c.Names...)
		}
	}
	var volumes []struct {
		Name   string
		Labels map[string]string
	}
	if err := list(&volumes, "volume", "ls"); err != nil {
		return h, err
	}
	for _, v := range volumes {
		if slices.Contains(ids, v.Labels[sandbox.LabelSession]) {
			h.Volumes = append(h.Volumes, v.Name)
		}
	}
	return h, nil
}

// list asks podman for what carries a session's label, as JSON.
func list(into any, command ...string) error {
	command = append(command, "--filter", "label="+sandbox.LabelSession, "--format", "json")
	out, err := podman(command...)
	for range 20 {
		// Podman 4.3 fails when something that it lists is removed meanwhile.
		if err == nil || !strings.Contains(err.Error(), "no such") {
			break
		}
		out, err = podman(command...)
	}
	if err != nil {
		return err
	}
	if strings.TrimSpace(out) == "" {
		return nil
	}
	return json.Unmarshal([]byte(out), into)
}

func mustHold(t *testing.T, ids []string) holdings {
	t.Helper()
	h, err := held(ids)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// unnamed leaves out the sessions that are meant to outlive their server. Only generated names
// begin so.
func unnamed(ids []string) []string {
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return !strings.HasPrefix(id, "sbx-") })
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

// removeAll takes away what tests leave on purpose, and what failed ones leave.
func removeAll(t *testing.T, ids []string) {
	t.Helper()
	h, err := held(ids)
	if err == nil && len(h.Containers) > 0 {
		_, err = podman(append([]string{"rm", "--force", "--time", "0"}, h.Containers...)...)
	}
	if err == nil && len(h.Volumes) > 0 {
		_, err = podman(append([]string{"volume", "rm"}, h.Volumes...)...)
	}
	if err != nil {
		t.Error(err)
	}
}
