//go:build unix

package e2e

import (
	"os/exec"
	"strings"
	"testing"
)

// clientState gives a state directory for a server that a client starts by itself, with little of an environment. What the
// server has in it must be gone when the test ends, and what it keeps ready for a later one when that is cleared up.
func clientState(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	t.Cleanup(func() {
		if left := lockedSessions(dir); len(left) > 0 && !t.Failed() {
			eventually(t, "gc removes what is kept ready", func() (bool, string) { // once the server has let go of it
				said, err := exec.Command(binary, "gc", "--state-dir", dir).CombinedOutput()
				if err != nil {
					t.Fatalf("gc: %v: %s", err, said)
				}
				return mustHold(t, left).empty(), string(said)
			})
		}
	})
	return dir
}

func TestTypeScriptClients(t *testing.T) {
	t.Parallel()
	for _, generation := range []string{"legacy", "modern"} {
		t.Run(generation, func(t *testing.T) {
			stdout, stderr, err := node(t, "typescript.mjs", binary, clientState(t), generation)
			if err != nil || strings.TrimSpace(stdout) != "ok" {
				t.Errorf("%v\n%s\n%s", err, stdout, stderr)
			}
		})
	}
}
