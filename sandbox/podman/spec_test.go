//go:build unix

package podman

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		must.OK(t, os.WriteFile(path, got, 0o644))
	}
	should.Equal(t, string(got), readFile(t, path), "%s differs from what the source makes; look at every line of the difference, then go test -update", path)
}

func TestContainerSpec(t *testing.T) {
	spec := containerSpec(engine.Spec{
		Name:    "name",
		Volume:  "volume",
		Labels:  map[string]string{"key": "value"},
		Image:   "localhost/image:tag",
		Command: []string{"python3", "-c", "source"},
		Env:     map[string]string{"NAME": "value"},
		Limits: engine.Limits{
			MemoryBytes: 1 << 30, CPUs: 1.5, PIDs: 256, TmpBytes: 256 << 20, FileBytes: 1 << 31, OpenFiles: 1024,
		},
		Mounts: []engine.Mount{{Folder: "/srv/data", Name: "data"}, {Folder: "/srv/results", Name: "out", Writable: true}},
	}, hostFacts{seccompPath: "/state/seccomp.json", programs: "programs", ids: idSpace{rootless: true, count: MinIDs}, user: 12345})
	text, err := json.MarshalIndent(spec, "", "  ")
	must.OK(t, err)
	golden(t, "testdata/spec.json", append(text, '\n'))
}

func TestSpecKeepsToTheHostsHardLimits(t *testing.T) {
	limits := engine.Limits{PIDs: 256, OpenFiles: 1024}
	got := make(map[string]uint64)
	for _, l := range rlimits(limits, hostFacts{maxOpenFiles: 512, maxProcesses: 300}) {
		if l.Soft != l.Hard {
			t.Errorf("%s can be raised from %d to %d", l.Type, l.Soft, l.Hard)
		}
		got[l.Type] = l.Hard
	}
	if got["nofile"] != 512 || got["nproc"] != 300 || got["core"] != 0 || len(got) != 3 {
		t.Errorf("got %v", got)
	}
}

func TestZeroLimitsSetNone(t *testing.T) {
	r := cgroupLimits(engine.Limits{}, hostFacts{})
	if r.Memory != nil || r.CPU != nil || r.Pids != nil {
		t.Errorf("got %+v", r)
	}
	if got := rlimits(engine.Limits{}, hostFacts{}); len(got) != 1 || got[0].Type != "core" {
		t.Errorf("got %+v", got)
	}
	// Podman's default for open files may be more than its service can set.
	if got := rlimits(engine.Limits{}, hostFacts{maxOpenFiles: 512, maxProcesses: 300}); len(got) != 3 || got[1].Hard != 512 {
		t.Errorf("got %+v", got)
	}
}

// gVisor's process has several threads for a process of the code's.
func TestGVisorHasMoreTasks(t *testing.T) {
	r := cgroupLimits(engine.Limits{PIDs: 100}, hostFacts{gVisor: true})
	if r.Pids == nil || r.Pids.Limit != 400 {
		t.Errorf("got %+v", r.Pids)
	}
}

func TestSpecIsPure(t *testing.T) {
	spec := engine.Spec{Name: "n", Image: "i", Limits: engine.Limits{MemoryBytes: 5, CPUs: 1}}
	first, err := json.Marshal(containerSpec(spec, hostFacts{}))
	must.OK(t, err)
	second, err := json.Marshal(containerSpec(spec, hostFacts{}))
	if err != nil || !bytes.Equal(first, second) {
		t.Errorf("the same input gave\n%s\n%s\n%v", first, second, err)
	}
}
