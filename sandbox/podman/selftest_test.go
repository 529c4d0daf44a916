package podman_test

import (
	"context"
	"crypto/rand"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containers/podman/v5/pkg/specgen"
	runtimespec "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/selftest"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/testimage"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/podman"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/tools"
)

// sharedVolume is what the sessions of one case use in common.
var sharedVolume = "csm-test-" + strings.ToLower(rand.Text()[:12])

// canary is in this process's environment, and may not be in a container's.
const canary = "a-value-of-the-server"

// A weakness is one line of the specification, or of another layer, that is not what it should be.
type weakness struct {
	name     string
	spec     func(*specgen.SpecGenerator)
	program  func(supervisor string) string
	unmasked bool
	broken   []string // the rows that must tell, and no other
}

var weaknesses = []weakness{
	{name: "nothing"},
	{name: "no seccomp profile", broken: []string{"process_one", "seccomp", "sockets"}, spec: func(s *specgen.SpecGenerator) { s.SeccompProfilePath = "unconfined" }},
	{name: "a capability", broken: []string{"capabilities"}, spec: func(s *specgen.SpecGenerator) { s.CapAdd, s.CapDrop = []string{"CAP_NET_RAW"}, nil }},
	{name: "new privileges", broken: []string{"setuid"}, spec: func(s *specgen.SpecGenerator) { *s.NoNewPrivileges = false }},
	{name: "root's group", broken: []string{"user"}, spec: func(s *specgen.SpecGenerator) { s.User, _, _ = strings.Cut(s.User, ":"); s.User += ":0" }},
	{name: "a user that every session has", broken: []string{"own_user"}, spec: oneUser},
	// Podman's own files in /etc can be written to then, too.
	{name: "a writable root", broken: []string{"mounts", "readonly"}, spec: func(s *specgen.SpecGenerator) { *s.ReadOnlyFilesystem = false }},
	// There is no mounting a /sys of one's own in a network namespace of others.
	{name: "the host's network", broken: append(ifRootless("mounts"), "network", "trespass"), spec: func(s *specgen.SpecGenerator) { s.NetNS.NSMode = specgen.Host }},
	{name: "the host's name", broken: []string{"identity"}, spec: func(s *specgen.SpecGenerator) { s.UtsNS.NSMode, s.Hostname = specgen.Host, "" }},
	// An ordinary user's Podman cannot make a device: it mounts the host's.
	{name: "a device", broken: append([]string{"devices"}, ifRootless("mounts")...), spec: func(s *specgen.SpecGenerator) { s.Devices = []runtimespec.LinuxDevice{{Path: "/dev/kmsg"}} }},
	{name: "nothing masked", broken: []string{"kernel_files"}, spec: func(s *specgen.SpecGenerator) { s.Mask, s.Unmask = nil, []string{"ALL"} }},
	{name: "no limit of memory", broken: []string{"memory"}, spec: func(s *specgen.SpecGenerator) { s.ResourceLimits.Memory = nil }},
	{name: "no limit of processors", broken: []string{"cpu"}, spec: func(s *specgen.SpecGenerator) { s.ResourceLimits.CPU = nil }},
	{name: "no limit of processes", broken: []string{"pids"}, spec: func(s *specgen.SpecGenerator) { s.ResourceLimits.Pids = nil }},
	{name: "larger files", broken: []string{"files"}, spec: func(s *specgen.SpecGenerator) { setRlimit(s, "fsize", 1<<30) }},
	{name: "more open files", broken: []string{"files"}, spec: func(s *specgen.SpecGenerator) { setRlimit(s, "nofile", 512) }},
	{name: "core dumps", broken: []string{"core"}, spec: func(s *specgen.SpecGenerator) { setRlimit(s, "core", 1<<20) }},
	{name: "a larger tmpfs", broken: []string{"tmpfs"}, spec: func(s *specgen.SpecGenerator) {
		s.Mounts[0].Options = []string{"mode=1777", "rw", "nosuid", "nodev", "notmpcopyup", "size=64m"}
	}},
	{name: "Podman's own user namespace", broken: ifRootless("own_user"), spec: func(s *specgen.SpecGenerator) { s.UserNS, s.IDMappings = specgen.Namespace{}, nil }},
	{name: "a volume that another session has", broken: []string{"own_user", "trespass"}, spec: func(s *specgen.SpecGenerator) {
		oneUser(s)
		s.Volumes[0].Name = sharedVolume
	}},
	{name: "a variable of the server", broken: []string{"environment"}, spec: func(s *specgen.SpecGenerator) { s.Env = map[string]string{"INNOCENT": canary} }},
	{name: "answers that are not masked", broken: []string{"secrets"}, unmasked: true},
	{name: "a supervisor that can be read", broken: []string{"process_one"}, program: without("    hide()\n    prctl(PR_SET_CHILD")},
	{name: "a supervisor that does not watch", broken: []string{"volume", "volume_files"}, program: without("self.volume_bytes > 0 or self.volume_files > 0")},
	{name: "a supervisor that believes its kernel", broken: []string{"frames"}, program: without(`header.get("id") != run.id`)},
}

// ifRootless are rows that hold nothing where Podman runs as root.
func ifRootless(rows ...string) []string {
	if os.Geteuid() == 0 {
		return nil
	}
	return rows
}

// oneUser is the same for every session, and has its volume.
func oneUser(s *specgen.SpecGenerator) {
	s.User = "1000:1000"
	s.Volumes[0].Options = append(s.Volumes[0].Options, "U")
}

func setRlimit(s *specgen.SpecGenerator, name string, value uint64) {
	for i := range s.Rlimits {
		if s.Rlimits[i].Type == name {
			s.Rlimits[i].Soft, s.Rlimits[i].Hard = value, value
		}
	}
}

// without takes a safeguard out of the supervisor.
func without(safeguard string) func(string) string {
	return func(supervisor string) string {
		instead := "False"
		if rest, ends := strings.CutPrefix(safeguard, "    hide()\n"); ends {
			instead = rest
		}
		return strings.Replace(supervisor, safeguard, instead, 1)
	}
}

// The self-test must tell of a sandbox that is weaker than it says, and of nothing else.
func TestSelftestHasTeeth(t *testing.T) {
	for _, w := range weaknesses {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			report := w.attack(t)
			var broken []string
			for _, row := range report.Rows {
				switch row.Status {
				case selftest.Broken:
					broken = append(broken, row.Name)
				case selftest.NotTried:
					t.Errorf("%s was not tried: %s", row.Name, row.Why)
				case selftest.Unenforced:
					if row.Name != "rootless" || row.Fix == "" {
						t.Errorf("%s is not enforced: %s", row.Name, row.Why)
					}
				}
			}
			slices.Sort(broken)
			if !slices.Equal(broken, w.broken) {
				var text strings.Builder
				_ = report.WriteTable(&text)
				t.Errorf("broken are %q, want %q\n%s", broken, w.broken, text.String())
			}
			if report.OK() != (len(w.broken) == 0) {
				t.Errorf("OK is %v", report.OK())
			}
		})
	}
}

func (w weakness) attack(t *testing.T) selftest.Report {
	t.Helper()
	engine := podman.Open(podman.Options{StateDir: t.TempDir()})
	defer engine.Close()
	t.Cleanup(func() { _ = podman.Open(podman.Options{}).Remove(context.Background(), nil, []string{sharedVolume}) })
	if w.spec != nil {
		engine.Weaken(w.spec)
	}
	supervisor := containers.PythonSupervisor()
	if w.program != nil {
		weak := w.program(supervisor)
		if weak == supervisor {
			t.Fatal("the supervisor has no such safeguard any more")
		}
		supervisor = weak
	}
	secrets := map[string]string{"SECRET": "one that nobody may read"}
	masker := tools.NewMasker(secrets)
	if w.unmasked {
		masker = nil
	}
	report, err := selftest.Run(t.Context(), selftest.Options{
		Engine: engine, Environ: append(os.Environ(), "CODE_SANDBOX_CANARY="+canary),
		Config: sandbox.Config{
			Engine: engine, Env: secrets, Host: strings.ToLower(rand.Text()), StateDir: filepath.Join(t.TempDir(), "sessions"),
			Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), StartTimeout: time.Minute,
			Limits:      sandbox.Limits{MemoryBytes: 128 << 20, CPUs: 1, PIDs: 48, TmpBytes: 16 << 20, FileBytes: 8 << 20, OpenFiles: 128},
			VolumeBytes: 32 << 20, VolumeFiles: 1000, SpoolBytes: 1 << 20,
			Kernels: map[sandbox.Language]sandbox.KernelConfig{sandbox.Python: {
				Image: testimage.BarePython(t), Interpreter: "python3", Flags: []string{"-c"}, Boot: containers.PythonBoot(), Supervisor: supervisor,
				Program: []string{"-I", "-c"}, Files: containers.PythonFiles(), Relay: containers.PythonRelay(),
			}},
		},
		Server: func(m *sandbox.Manager) selftest.Answer {
			return func(_ context.Context, language sandbox.Language, code string) (string, error) {
				r, err := m.Run(sandbox.RunOptions{Language: language, Code: code})
				if err != nil {
					return "", err
				}
				<-r.Done()
				res, err := r.Result()
				if err != nil {
					return "", err
				}
				return masker.Mask(res.Stdout.Head + res.Stderr.Head), nil
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return report
}
