//go:build unix

package podman

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"regexp"
	"slices"
	"testing"

	"go.podman.io/storage/pkg/idtools"

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
	text := must.Get(json.MarshalIndent(spec, "", "  "))(t)
	golden(t, "testdata/spec.json", append(text, '\n'))
}

func TestSpecKeepsToTheHostsHardLimits(t *testing.T) {
	limits := engine.Limits{PIDs: 256, OpenFiles: 1024}
	got := make(map[string]uint64)
	for _, l := range rlimits(limits, hostFacts{maxOpenFiles: 512, maxProcesses: 300}) {
		should.Hold(t, l.Soft == l.Hard, "%s can be raised from %d to %d", l.Type, l.Soft, l.Hard)
		got[l.Type] = l.Hard
	}
	should.Hold(t, got["nofile"] == 512 && got["nproc"] == 300 && got["core"] == 0 && len(got) == 3, "got %v", got)
}

func TestZeroLimitsSetNone(t *testing.T) {
	r := cgroupLimits(engine.Limits{}, hostFacts{})
	should.Hold(t, r.Memory == nil && r.CPU == nil && r.Pids == nil, "got %+v", r)
	got := rlimits(engine.Limits{}, hostFacts{})
	should.Hold(t, len(got) == 1 && got[0].Type == "core", "got %+v", got)
	// Podman's default for open files may be more than its service can set.
	got = rlimits(engine.Limits{}, hostFacts{maxOpenFiles: 512, maxProcesses: 300})
	should.Hold(t, len(got) == 3 && got[1].Hard == 512, "got %+v", got)
}

// gVisor's process has several threads for a process of the code's.
func TestGVisorHasMoreTasks(t *testing.T) {
	r := cgroupLimits(engine.Limits{PIDs: 100}, hostFacts{gVisor: true})
	should.Hold(t, r.Pids != nil && r.Pids.Limit == 400, "got %+v", r.Pids)
}

func TestSpecIsPure(t *testing.T) {
	spec := engine.Spec{Name: "n", Image: "i", Limits: engine.Limits{MemoryBytes: 5, CPUs: 1}}
	first := must.Get(json.Marshal(containerSpec(spec, hostFacts{})))(t)
	second, err := json.Marshal(containerSpec(spec, hostFacts{}))
	should.Hold(t, err == nil && bytes.Equal(first, second), "the same input gave\n%s\n%s\n%v", first, second, err)
}

// Nodes of Kubernetes read profiles as the OCI has them, which name no architectures that others include.
func TestSeccompProfile(t *testing.T) {
	for name, isThere := range map[string]bool{`"subArchitectures": []`: true, `"subArchitectures": ["`: false} {
		should.Equal(t, bytes.Contains(SeccompProfile(), []byte(name)), isThere, "%s", name)
	}
	ofPodman := regexp.MustCompile(`(?s)"archMap": \[.*?\n  \]`)
	golden(t, "../../docs/deploy/kubernetes/seccomp.json", ofPodman.ReplaceAll(SeccompProfile(), []byte(`"architectures": ["SCMP_ARCH_X86_64", "SCMP_ARCH_AARCH64"]`)))
}

func TestGVisorsProfileFallsBackOnNothing(t *testing.T) {
	var profile seccompProfile
	must.OK(t, json.Unmarshal(gVisorProfile(), &profile))
	at := slices.IndexFunc(profile.Syscalls, func(r seccompRule) bool { return slices.Contains(r.Names, "clone3") })
	if r := profile.Syscalls[at]; r.Action != "SCMP_ACT_ALLOW" || r.ErrnoRet != nil || profile.DefaultErrnoRet != 38 || len(profile.ArchMap) != 2 {
		t.Errorf("clone3: %+v", r)
	}
}

// A call in two lists would do what the library that reads the profile makes of it.
func TestEveryCallIsDecidedOnce(t *testing.T) {
	var profile seccompProfile
	must.OK(t, json.Unmarshal(SeccompProfile(), &profile))
	decided, compared := make(map[string]bool), make(map[string]bool)
	for _, rule := range profile.Syscalls {
		for _, name := range rule.Names {
			if len(rule.Args) > 0 {
				compared[name] = true
				continue
			}
			should.Hold(t, !decided[name], "%s is decided twice", name)
			decided[name] = true
		}
		should.Hold(t, rule.Comment != "" && slices.IsSorted(rule.Names), "%v have no reason, or are not sorted", rule.Names)
	}
	for name := range compared {
		should.Hold(t, !decided[name], "%s is decided both with and without its arguments", name)
	}
}

func TestUsersOfSessions(t *testing.T) {
	for _, test := range []struct {
		name        string
		space       idSpace
		first, last int64
		namespace   bool
	}{
		{"root's Podman", idSpace{}, 1_900_000_000, 1_999_999_999, false},
		{"an ordinary user's", idSpace{rootless: true, count: 65537}, 10_000, 59_999, true},
		{"just enough ids", idSpace{rootless: true, count: 65536}, 10_000, 59_999, true},
		{"too few ids", idSpace{rootless: true, count: 65535}, 1000, 1000, false},
		{"one id", idSpace{rootless: true, count: 1}, 1000, 1000, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			var seen []int64
			for _, volume := range []string{"", "csm-abcdef-one", "csm-abcdef-two", "csm-abcdef-three"} {
				user := test.space.userOf(volume)
				should.Hold(t, user >= test.first && user <= test.last, "%q is for user %d", volume, user)
				should.Equal(t, test.space.userOf(volume), user, "%q is for %d, and then for", volume, user)
				seen = append(seen, user)
			}
			slices.Sort(seen)
			should.Hold(t, len(slices.Compact(seen)) >= 4 || test.first == test.last, "two of four sessions share a user")
			ns, mappings := test.space.userNamespace(false)
			should.Equal(t, ns.IsPrivate() && mappings != nil, test.namespace, "a user namespace")
			if test.namespace && test.last >= int64(mappings.UIDMap[0].Size) {
				t.Errorf("users up to %d are outside of a namespace of %d", test.last, mappings.UIDMap[0].Size)
			}
		})
	}
}

func TestMappingsLoseNoID(t *testing.T) {
	space := idSpace{rootless: true, count: MinIDs}
	_, own := space.userNamespace(true)
	for name, test := range map[string]struct {
		list     []idtools.IDMap
		all      int
		from, to int
	}{
		"root's folder":     {exchanged(0, 1_950_000_000), 1<<32 - 1, 0, 1_950_000_000},
		"a person's":        {exchanged(1001, 1_950_000_000), 1<<32 - 1, 1001, 1_950_000_000},
		"the same":          {exchanged(1001, 1001), 1<<32 - 1, 1001, 1001},
		"beside":            {exchanged(1001, 1002), 1<<32 - 1, 1002, 1001},
		"a rootless engine": {own.UIDMap, MinIDs, plainUser, 0},
	} {
		seen, to := map[int]int{}, 0
		for _, r := range test.list {
			should.Equal(t, r.ContainerID, to, name)
			to += r.Size
			seen[r.HostID] += r.Size
			if r.ContainerID == test.from {
				should.Equal(t, r.HostID, test.to, name)
			}
		}
		should.Equal(t, to, test.all, name)
		at := 0
		for at < test.all && seen[at] > 0 {
			at += seen[at]
		}
		should.Equal(t, at, test.all, "%s: ids outside, without a gap and twice", name)
	}
}

func TestSubordinateIDs(t *testing.T) {
	for _, test := range []struct {
		text string
		want int
	}{
		{"", 0},
		{"me:100000:65536", 65536},
		{"1000:100000:65536\n", 65536},
		{"you:1:5\nme:1:32768\n  me:100000:32768  \nme:1:2:3\nme:1:-5\nme:1:many\n#me:1:7", 65536},
		{"me2:1:5\n10001:1:5", 0},
	} {
		should.Equal(t, Subordinate(test.text, "me", 1000), test.want, "%q", test.text)
	}
}
