//go:build unix

package podman_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containers/podman/v5/pkg/specgen"
	runtimespec "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/attacks"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/secrets"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/selftest"
	testimage "github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/image"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/podman"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/podman/service"
)

// sharedVolume is what the sessions of one case use in common.
var sharedVolume = "csm-test-" + strings.ToLower(rand.Text()[:12])

// edit takes a safeguard out of a source file.
type edit struct{ file, safeguard, instead string }

// canary is in this process's environment, and may not be in a container's.
const canary = "a-value-of-the-server"

// theToken is a value that a way out has for code.
var theToken = struct{ placeholder, value string }{"a-placeholder-of-TOKEN", "the-value-of-the-token"}

// A weakness is one line of the specification, or of another layer, that is not what it should be.
type weakness struct {
	name     string
	spec     func(*specgen.SpecGenerator)
	program  []edit // of the supervisor
	unmasked bool
	wayOut   http.HandlerFunc // what serves the way out; nil: there is none
	broken   []string         // the rows that must tell, and no other
	untried  []string         // those that cannot be tried then
}

// weaknesses are tried together where no two have the same row, or are in each other's way: a self-test takes a while.
var weaknesses = [][]weakness{
	{{name: "nothing"}},
	{
		{name: "no seccomp profile", broken: []string{"process_one", "seccomp", "setuid", "sockets"}, spec: func(s *specgen.SpecGenerator) { s.SeccompProfilePath = "unconfined" }},
		{name: "the host's name", broken: []string{"identity"}, spec: func(s *specgen.SpecGenerator) { s.UtsNS.NSMode, s.Hostname = specgen.Host, "" }},
		{name: "larger files", broken: []string{"files"}, spec: func(s *specgen.SpecGenerator) { setRlimit(s, "fsize", 1<<30) }},
		{name: "a larger tmpfs", broken: []string{"tmpfs"}, spec: func(s *specgen.SpecGenerator) {
			s.Mounts[0].Options = []string{"mode=1777", "rw", "nosuid", "nodev", "notmpcopyup", "size=64m"}
		}},
		{name: "answers that are not masked", broken: []string{"secrets"}, unmasked: true},
	},
	{
		{name: "a capability", broken: []string{"capabilities"}, spec: func(s *specgen.SpecGenerator) { s.CapAdd, s.CapDrop = []string{"CAP_NET_RAW"}, nil }},
		// Podman's own files in /etc can be written to then, too.
		{name: "a writable root", broken: []string{"mounts", "readonly"}, spec: func(s *specgen.SpecGenerator) { *s.ReadOnlyFilesystem = false }},
		{name: "no limit of processors", broken: []string{"cpu"}, spec: func(s *specgen.SpecGenerator) { s.ResourceLimits.CPU = nil }},
		{name: "a user that every session has", broken: []string{"own_user"}, spec: oneUser},
		{name: "a way out without a policy", broken: []string{"way_out"}, wayOut: tunnel},
	},
	{
		// Process 1 takes them from programs as well.
		{name: "new privileges", broken: []string{"setuid"}, spec: func(s *specgen.SpecGenerator) { *s.NoNewPrivileges = false }, program: []edit{
			{"confine/confine.go", "err := Forbid()", "var err error"},
		}},
		{name: "root's group", broken: []string{"user"}, spec: func(s *specgen.SpecGenerator) { s.User, _, _ = strings.Cut(s.User, ":"); s.User += ":0" }},
		{name: "core dumps", broken: []string{"core"}, spec: func(s *specgen.SpecGenerator) { setRlimit(s, "core", 1<<20) }},
		{name: "nothing masked", broken: []string{"kernel_files"}, spec: func(s *specgen.SpecGenerator) { s.Mask, s.Unmask = nil, []string{"ALL"} }},
		{name: "a way out that reveals secrets", broken: []string{"credentials"}, wayOut: func(w http.ResponseWriter, r *http.Request) {
			http.Error(w, strings.ReplaceAll(fmt.Sprint(r.Header), theToken.placeholder, theToken.value), http.StatusNotFound)
		}},
	},
	{
		// There is no mounting a /sys of one's own in a network namespace of others.
		{name: "the host's network", broken: append(ifRootless("mounts"), "network", "trespass"), spec: func(s *specgen.SpecGenerator) { s.NetNS.NSMode = specgen.Host }},
		{name: "more open files", broken: []string{"files"}, spec: func(s *specgen.SpecGenerator) { setRlimit(s, "nofile", 512) }},
		{name: "a variable of the server", broken: []string{"environment"}, spec: func(s *specgen.SpecGenerator) { s.Env = map[string]string{"INNOCENT": canary} }},
	},
	// Without an account a supervisor adds up what processes take, and stops many that were forked.
	{{name: "no limit of memory", broken: []string{"memory"}, untried: []string{"pids"}, spec: func(s *specgen.SpecGenerator) { s.ResourceLimits.Memory = nil }}},
	{
		{name: "no limit of processes", broken: []string{"pids"}, spec: func(s *specgen.SpecGenerator) { s.ResourceLimits.Pids = nil }},
		// An ordinary user's Podman cannot make a device: it mounts the host's.
		{name: "a device", broken: append([]string{"devices"}, ifRootless("mounts")...), spec: func(s *specgen.SpecGenerator) { s.Devices = []runtimespec.LinuxDevice{{Path: "/dev/kmsg"}} }},
		{name: "Podman's own user namespace", broken: ifRootless("own_user"), spec: func(s *specgen.SpecGenerator) { s.UserNS, s.IDMappings = specgen.Namespace{}, nil }},
	},
	{{name: "a volume that another session has", broken: []string{"frozen", "own_user", "trespass"}, spec: func(s *specgen.SpecGenerator) {
		oneUser(s)
		s.Volumes[0].Name, s.Volumes[1].Name = sharedVolume, sharedVolume+".state"
	}}},
	{
		{name: "a supervisor that can be read", broken: []string{"process_one"}, program: []edit{{"main.go", "	hide()\n", ""}}},
		{name: "a supervisor that reads a deadly file again", broken: []string{"frozen"}, program: []edit{
			{"kernels/frozen.go", "if k.ready && its {", "if k.ready && its && false {"},
		}},
		{name: "a supervisor that does not watch", broken: []string{"volume", "volume_files"}, program: []edit{
			{"bounds/bounds.go", "return s.VolumeBytes > 0 || s.VolumeFiles > 0", "return false"},
		}},
		{name: "a supervisor that believes its kernel", broken: []string{"frames"}, program: []edit{
			{"kernels/kernel.go", "if r == nil || r.Asked().ID != m.ID {", "if r == nil {"},
		}},
	},
}

// together is one with all of several weaknesses.
func together(all []weakness) (w weakness) {
	var specs []func(*specgen.SpecGenerator)
	for i, one := range all {
		w.name += []string{"", ", "}[min(i, 1)] + one.name
		w.program, w.broken, w.untried = append(w.program, one.program...), append(w.broken, one.broken...), append(w.untried, one.untried...)
		w.unmasked = w.unmasked || one.unmasked
		if one.wayOut != nil {
			w.wayOut = one.wayOut
		}
		if one.spec != nil {
			specs = append(specs, one.spec)
		}
	}
	w.spec = func(s *specgen.SpecGenerator) {
		for _, spec := range specs {
			spec(s)
		}
	}
	slices.Sort(w.broken)
	return w
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
	for _, v := range s.Volumes[:2] { // files, and what is kept of them
		v.Options = append(v.Options, "U")
	}
}

func setRlimit(s *specgen.SpecGenerator, name string, value uint64) {
	for i := range s.Rlimits {
		if s.Rlimits[i].Type == name {
			s.Rlimits[i].Soft, s.Rlimits[i].Hard = value, value
		}
	}
}

// build makes the supervisor without these safeguards.
func build(t *testing.T, edits []edit) []byte {
	t.Helper()
	folder, replaced := t.TempDir(), make(map[string]string)
	for _, e := range edits {
		path := must.Get(filepath.Abs(filepath.Join("../../containers/supervisor", e.file)))(t)
		source, err := os.ReadFile(path)
		must.Hold(t, err == nil && strings.Count(string(source), e.safeguard) == 1,
			"the supervisor has no such safeguard any more: %v", err)
		must.Hold(t, replaced[path] == "", "two safeguards of %s", e.file)
		replaced[path] = filepath.Join(folder, filepath.Base(e.file))
		must.OK(t, os.WriteFile(replaced[path], []byte(strings.Replace(string(source), e.safeguard, e.instead, 1)), 0o600))
	}
	overlay, program := filepath.Join(folder, "overlay.json"), filepath.Join(folder, "supervisor")
	text, err := json.Marshal(map[string]any{"Replace": replaced})
	must.OK(t, errors.Join(err, os.WriteFile(overlay, text, 0o600)))
	build := exec.CommandContext(t.Context(), "go", "build", "-overlay", overlay, "-o", program, "../../containers/supervisor")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	made := must.Get(os.ReadFile(program))(t)
	return made
}

// giveProgram gives the engine's containers a weaker supervisor too.
func (w weakness) giveProgram(t *testing.T, engine *podman.Engine) {
	t.Helper()
	files := must.Get(containers.Programs(runtime.GOARCH))(t)
	files = slices.Clone(files)
	for i := range files {
		if files[i].Path == "supervisor" {
			files[i].Content = build(t, w.program)
			files[i].Mode = 0o755 // a program that cannot be read cannot be looked into as it runs
		}
	}
	volume := "csm-test-" + strings.ToLower(rand.Text()[:12])
	must.OK(t, engine.FillVolume(t.Context(), testimage.BarePython(t), volume, files))
	t.Cleanup(func() { _ = podman.Open(service.Options{}).Remove(context.Background(), nil, []string{volume}) })
	engine.Weaken(func(s *specgen.SpecGenerator) {
		w.spec(s)
		s.Volumes[2].Name = volume
	})
}

// The self-test must tell of a sandbox that is weaker than it says, and of nothing else.
func TestSelftestHasTeeth(t *testing.T) {
	for _, all := range weaknesses {
		w := together(all)
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			report := w.attack(t)
			var broken []string
			for _, row := range report.Rows {
				switch row.Status {
				case selftest.Broken:
					broken = append(broken, row.Name)
				case selftest.NotTried:
					should.Hold(t, slices.Contains(w.untried, row.Name), "%s was not tried: %s", row.Name, row.Why)
				case selftest.Unenforced:
					should.Hold(t, row.Name == "rootless" && row.Fix != "", "%s is not enforced: %s", row.Name, row.Why)
				}
			}
			slices.Sort(broken)
			if !slices.Equal(broken, w.broken) {
				var text strings.Builder
				_ = report.WriteTable(&text)
				t.Errorf("broken are %q, want %q\n%s", broken, w.broken, text.String())
			}
			should.Equal(t, report.OK(), len(w.broken) == 0, "OK")
		})
	}
}

// tunnel connects to whatever a request names.
func tunnel(w http.ResponseWriter, r *http.Request) {
	to, err := net.Dial("tcp", r.Host)
	if err != nil || r.Method != http.MethodConnect {
		http.Error(w, "no", http.StatusBadGateway)
		return
	}
	defer func() { _ = to.Close() }()
	w.WriteHeader(http.StatusOK)
	if from, _, err := http.NewResponseController(w).Hijack(); err == nil {
		defer func() { _ = from.Close() }()
		go func() { _, _ = io.Copy(to, from) }()
		_, _ = io.Copy(from, to)
	}
}

func (w weakness) attack(t *testing.T) selftest.Report {
	t.Helper()
	weak := podman.Open(service.Options{})
	defer weak.Close()
	t.Cleanup(func() { _ = podman.Open(service.Options{}).Remove(context.Background(), nil, []string{sharedVolume}) })
	weak.Weaken(w.spec)
	if w.program != nil {
		w.giveProgram(t, weak)
	}
	passed := map[string]string{"SECRET": "one that nobody may read", "TOKEN": theToken.placeholder}
	masker := secrets.New(passed)
	if w.unmasked {
		masker = nil
	}
	var wayOut sandbox.WayOut
	var reach attacks.Egress
	if w.wayOut != nil {
		careless := broker.New(broker.Options{Proxy: w.wayOut})
		defer func() { _ = careless.Close() }()
		wayOut, reach.Port = careless, sandbox.WayOutPort
		reach.Secrets = []attacks.Secret{attacks.NewSecret("TOKEN", theToken.value, "api.invalid")}
	}
	info, err := weak.Info(t.Context())
	must.OK(t, err)
	config := sandbox.DefaultConfig()
	config.Engine, config.Env, config.WayOut = weak, passed, wayOut
	config.Host, config.StateDir, config.Keep = strings.ToLower(rand.Text()), filepath.Join(t.TempDir(), "sessions"), time.Hour
	config.Limits = engine.Limits{MemoryBytes: 128 << 20, CPUs: 1, PIDs: 48, TmpBytes: 16 << 20, FileBytes: 8 << 20, OpenFiles: 128}
	config.VolumeBytes, config.VolumeFiles, config.SpoolBytes, config.FreezeBytes = 32<<20, 1000, 1<<20, 8<<20
	config.Kernels = map[sandbox.Language]sandbox.KernelConfig{sandbox.Python: {
		Image: testimage.BarePython(t), Interpreter: "python3", Join: containers.Join(),
	}}
	report, err := selftest.Run(t.Context(), selftest.Options{
		Egress: reach, Host: selftest.Podman(info),
		Engine: weak, Environ: append(os.Environ(), "CODE_SANDBOX_CANARY="+canary),
		Config: config,
		Server: func(m *sandbox.Manager) selftest.Answer {
			return func(_ context.Context, code string) (string, error) {
				r, err := m.Run(sandbox.RunOptions{Language: sandbox.Python, Code: code})
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
	must.OK(t, err)
	return report
}
