//go:build unix

package podman

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/attacks"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/podman/service"
)

// testFacts tell attacks of the limits that testSpec sets, and of this host.
func testFacts(t *testing.T) attacks.Facts {
	t.Helper()
	limits := testLimits
	facts := attacks.Facts{Namespaces: make(map[string]string), Limits: attacks.Limits{
		MemoryBytes: limits.MemoryBytes, CPUs: limits.CPUs, PIDs: limits.PIDs,
		TmpBytes: limits.TmpBytes, FileBytes: limits.FileBytes, OpenFiles: limits.OpenFiles,
	}}
	for _, kind := range []string{"net", "pid", "mnt", "uts", "ipc", "cgroup"} {
		own, err := os.Readlink("/proc/self/ns/" + kind)
		must.OK(t, err)
		facts.Namespaces[kind] = own
	}
	file := filepath.Join(t.TempDir(), "secret")
	must.OK(t, os.WriteFile(file, []byte("secret"), 0o644))
	facts.Files = []string{file}
	return facts
}

// A memory bomb in process 1 itself costs the container, and nothing else. Where the host cannot hold the limit, the test fails
// at once: the bomb would take the host down.
func TestMemoryBombInProcessOneEndsTheContainer(t *testing.T) {
	info, err := testEngine.Info(t.Context())
	if err != nil || !info.Enforces(LimitMemory) {
		t.Fatalf("this host cannot limit memory: rootless Podman needs cgroup version 2 with the controller delegated: %v", err)
	}
	spec := python(t, "x = []\nwhile True: x.append(bytearray(1 << 24))")
	should.Equal(t, output(t, spec), "")
}

func TestEnvironmentHoldsOnlyWhatIsGiven(t *testing.T) {
	for _, name := range []string{"http_proxy", "HTTPS_PROXY", "SANDBOX_SQL_SECRET"} {
		t.Setenv(name, "http://user:secret@proxy.invalid:1")
	}
	// A service of its own, started under this environment.
	e := own(t, service.Options{})
	spec := python(t, "import os, json; print(json.dumps(dict(os.environ)))")
	var got map[string]string
	must.OK(t, json.NewDecoder(startOn(t, e, spec)).Decode(&got))
	// Podman's own, and what Python adds.
	podmans := []string{"PATH", "TERM", "HOME", "HOSTNAME", "container", "LC_CTYPE", "PWD"}
	for name, value := range got {
		if name != "GIVEN" && !slices.Contains(podmans, name) || strings.Contains(value, "secret") {
			t.Errorf("%s=%s is in the container", name, value)
		}
	}
	if got["GIVEN"] != "value" {
		t.Errorf("GIVEN=%q, want what the spec says", got["GIVEN"])
	}
}
