//go:build unix

package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers"
	testimage "github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/image"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/podman"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/podman/service"
)

// standIn plays an engine in which one thing is wrong.
type standIn struct {
	info              podman.Info
	versions          string // of the image
	infoErr, imageErr error
	startErr, gone    error
	preparing         int // starts that are answered with engine.ErrPreparing
	says              string
	hangs             bool
	removed           []string
}

func (e *standIn) Info(context.Context) (podman.Info, error) { return e.info, e.infoErr }

func (e *standIn) Image(context.Context, string) (engine.ImageInfo, error) {
	return engine.ImageInfo{ID: "x", Labels: map[string]string{containers.LabelVersions: e.versions}}, e.imageErr
}

func (e *standIn) Start(_ context.Context, spec engine.Spec) (engine.Started, error) {
	if e.preparing > 0 {
		e.preparing--
		return engine.Started{}, engine.ErrPreparing
	}
	if e.startErr != nil {
		return engine.Started{}, e.startErr
	}
	p := &process{Reader: strings.NewReader(e.says)}
	if e.hangs {
		p.closed = make(chan struct{})
	}
	return engine.Started{Process: p}, nil
}

func (e *standIn) Remove(_ context.Context, containers, volumes []string) error {
	e.removed = append(append(e.removed, containers...), volumes...)
	return e.gone
}

type process struct {
	io.Reader
	closed chan struct{} // not nil: Read waits for Close
}

func (p *process) Read(b []byte) (int, error) {
	if p.closed != nil {
		<-p.closed
		return 0, io.EOF
	}
	return p.Reader.Read(b)
}

func (p *process) Write(b []byte) (int, error) { return len(b), nil }
func (p *process) Stderr() string              { return "words on stderr" }

func (p *process) Close() error {
	if p.closed != nil {
		select {
		case <-p.closed:
		default:
			close(p.closed)
		}
	}
	return nil
}

// healthy is what Podman tells on a machine where nothing is amiss.
func healthy() podman.Info {
	return podman.Info{
		Address: "unix:///run/user/1000/podman/podman.sock", Version: "5.4.2", OCIRuntime: "crun", Isolation: service.HostKernel, Rootless: true, IDs: 65537,
		CgroupVersion: "v2", CgroupManager: "systemd", CgroupControllers: []string{"cpu", "memory", "pids"},
		StorageDriver: "overlay", Seccomp: true, OnHost: true,
	}
}

func check(t *testing.T, r Report, name string) Check {
	t.Helper()
	for _, c := range r.Checks {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("no check %q in %+v", name, r.Checks)
	return Check{}
}

func TestHealthyMachine(t *testing.T) {
	e := &standIn{info: healthy(), says: "ready\n"}
	r := Run(t.Context(), Options{Engine: e, Look: Podman(e), Images: []Image{{Language: sandbox.Python, Ref: "a"}, {Language: sandbox.JavaScript, Ref: "b"}}})
	for _, c := range r.Checks {
		if slices.ContainsFunc(hostChecks(thisHost()), func(h Check) bool { return h.Name == c.Name }) {
			continue // this machine's own
		}
		should.Hold(t, c.Status == OK && c.Why == "" && c.Fix == "" && c.Found != "", "%+v", c)
	}
	should.Len(t, e.removed, 4, "%d checks, removed", len(r.Checks))
}

// Each thing that is wrong shows in its own check, with a fix.
func TestWhatIsWrong(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*standIn)
		check  string
		want   Status
		says   string // in the check's fix
	}{
		{"root", func(e *standIn) { e.info.Rootless = false }, "rootless", Warn, "ordinary user"},
		{"cgroup version 1", func(e *standIn) { e.info.CgroupVersion = "v1" }, "cgroups", Warn, "unified_cgroup_hierarchy"},
		{"cgroup version 1", func(e *standIn) { e.info.CgroupVersion = "v1" }, "memory limit", Warn, "version 2"},
		{"no delegation", func(e *standIn) { e.info.CgroupControllers = []string{"memory", "pids"} }, "cpu limit", Warn, "Delegate="},
		{"no pids", func(e *standIn) { e.info.CgroupControllers = nil }, "pids limit", Warn, "Delegate="},
		{"vfs", func(e *standIn) { e.info.StorageDriver = "vfs" }, "storage", Warn, "storage.conf"},
		{"gVisor as an ordinary user", func(e *standIn) { e.info.Isolation = service.GVisor }, "memory limit", Warn, "as root"},
		{"an unknown runtime", func(e *standIn) { e.info.Isolation = service.Unknown }, "OCI runtime", Info, ""},
		{"no seccomp", func(e *standIn) { e.info.Seccomp = false }, "seccomp", Fail, "kernel"},
		{"no image", func(e *standIn) { e.imageErr = fmt.Errorf("%w: x", engine.ErrImageMissing) }, "python image", Fail, "setup"},
		{"an image without packages", func(e *standIn) { e.versions = `{"missing":["polars"],"why":"no index"}` }, "python image", Warn, "--rebuild"},
		{"image unknown", func(e *standIn) { e.imageErr = errors.New("broken store") }, "python image", Fail, "doctor"},
		{"no interpreter", func(e *standIn) { e.startErr = engine.ErrNoInterpreter }, "python container", Fail, "interpreter"},
		{"no start", func(e *standIn) { e.startErr = errors.New("OCI runtime error") }, "python container", Fail, "podman run"},
		{"wrong answer", func(e *standIn) { e.says = "what?" }, "python container", Fail, "podman run"},
		{"no removal", func(e *standIn) { e.gone = errors.New("busy") }, "python container", Fail, "podman run"},
		{"an image that is made ready first", func(e *standIn) { e.preparing = 2 }, "python container", OK, ""},
		{"no answer", func(e *standIn) { e.hangs = true }, "python container", Fail, "podman run"},
		{"engine lost", func(e *standIn) { e.startErr = &service.UnavailableError{Reason: "gone", Fix: "bring it back"} }, "python container", Fail, "bring it back"},
		{"no engine", func(e *standIn) { e.infoErr = &service.UnavailableError{Reason: "gone", Fix: "bring it back"} }, "Podman", Fail, "bring it back"},
		{"odd engine", func(e *standIn) { e.infoErr = errors.New("odd") }, "Podman", Fail, "podman info"},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := &standIn{info: healthy(), says: "ready\n"}
			test.change(e)
			r := Run(t.Context(), Options{Engine: e, Look: Podman(e), Images: []Image{{Language: sandbox.Python, Ref: "a", Setup: setupCommand}}, ProbeTimeout: 20 * time.Millisecond})
			c := check(t, r, test.check)
			should.Hold(t, c.Status == test.want && strings.Contains(c.Fix, test.says) && c.Found != "", "%+v", c)
			if r.OK() == (test.want == Fail) {
				t.Errorf("OK() is %v", r.OK())
			}
		})
	}
}

func TestHostChecks(t *testing.T) {
	found := func(string) (string, error) { return "/usr/bin/x", nil }
	for _, test := range []struct {
		name  string
		files map[string]string
		look  func(string) (string, error)
		bad   string // the check that is not OK; empty for none
	}{
		{"all there", map[string]string{"etc/subuid": "me:100000:65536", "etc/subgid": "1000:100000:65536\n"}, found, ""},
		{"two ranges", map[string]string{"etc/subuid": "me:1:32768\nme:100000:32768", "etc/subgid": "me:1:65536"}, found, ""},
		{"another's ids", map[string]string{"etc/subuid": "you:100000:65536", "etc/subgid": "me:1:65536"}, found, "subuid"},
		{"too few", map[string]string{"etc/subuid": "me:1:65536", "etc/subgid": "me:1:100"}, found, "subgid"},
		{"nonsense", map[string]string{"etc/subuid": "me:1:65536", "etc/subgid": "me:1:-5\nme:x:y\n::::\nme:1:99999999999999999999\n"}, found, "subgid"},
		{"no helper", map[string]string{"etc/subuid": "me:1:65536", "etc/subgid": "me:1:65536"}, func(string) (string, error) { return "", fs.ErrNotExist }, "newuidmap"},
		{"switched off", map[string]string{"etc/subuid": "me:1:65536", "etc/subgid": "me:1:65536", "proc/sys/kernel/unprivileged_userns_clone": "0\n"}, found, "user namespaces"},
	} {
		t.Run(test.name, func(t *testing.T) {
			root := fstest.MapFS{}
			for path, text := range test.files {
				root[path] = &fstest.MapFile{Data: []byte(text)}
			}
			for _, c := range hostChecks(host{root: root, uid: 1000, name: "me", lookPath: test.look, isLinux: true}) {
				should.Hold(t, (c.Status == OK) != (c.Name == test.bad), "%+v", c)
				should.Hold(t, c.Status == OK || c.Fix != "", "%s has no fix", c.Name)
			}
		})
	}
	got := hostChecks(host{root: fstest.MapFS{}, uid: 0, isLinux: true})
	should.Hold(t, got == nil, "root needs %+v", got)
}

func TestRuntimeIsNamedWithWhatItIsolatesBy(t *testing.T) {
	e := &standIn{info: healthy()}
	e.info.Isolation, e.info.RuntimeVersion, e.info.RuntimeReason = service.GVisor, "runsc version 1", "asked for"
	c := check(t, Run(t.Context(), Options{Engine: e, Look: Podman(e)}), "OCI runtime")
	should.Hold(t, c.Found == "runsc version 1 (asked for); isolates by "+string(service.GVisor), "%+v", c)
}

func TestTable(t *testing.T) {
	r := Report{[]Check{
		{Name: "Podman", Status: OK, Found: "version 5"},
		{Name: "storage", Status: Warn, Found: "vfs", Why: "slow", Fix: "another"},
		{Name: "python image", Status: Fail, Found: "not\nthere\t", Fix: "setup"},
	}}
	var text strings.Builder
	must.OK(t, r.WriteTable(&text))
	want := `ok    Podman        version 5
warn  storage       vfs
        why         slow
        fix         another
fail  python image  not there
        fix         setup

1 thing to mend before sandboxes work, 1 warning.
`
	should.Hold(t, text.String() == want, "got\n%swant\n%s", text.String(), want)
}

func TestSummary(t *testing.T) {
	for want, statuses := range map[string][]Status{
		"Sandboxes work.":                                     {OK, Info},
		"Sandboxes work, with 2 warnings.":                    {Warn, Warn},
		"2 things to mend before sandboxes work, 0 warnings.": {Fail, OK, Fail},
	} {
		var r Report
		for _, s := range statuses {
			r.Checks = append(r.Checks, Check{Status: s})
		}
		should.Equal(t, r.summary(), want)
	}
}

func TestJSON(t *testing.T) {
	var out bytes.Buffer
	r := Report{[]Check{{Name: "storage", Status: Warn, Found: "vfs", Why: "slow", Fix: "a > b && c"}}}
	must.OK(t, r.WriteJSON(&out))
	want := `{"ok":true,"checks":[{"name":"storage","status":"warn","found":"vfs","why":"slow","fix":"a > b && c"}]}`
	var compact bytes.Buffer
	err := json.Compact(&compact, out.Bytes())
	should.Hold(t, err == nil && compact.String() == want, "got %s, %v", compact.String(), err)
}

// A real engine and a real container, under the environment that clients start servers in.
func TestRealMachine(t *testing.T) {
	image := testimage.BarePython(t)
	for _, entry := range os.Environ() {
		if name, _, _ := strings.Cut(entry, "="); name != "HOME" {
			t.Setenv(name, "")
			os.Unsetenv(name)
		}
	}
	t.Setenv("PATH", "/usr/bin:/bin")
	e := podman.Open(service.Options{})
	defer e.Close()
	r := Run(t.Context(), Options{Engine: e, Look: Podman(e), Images: []Image{
		{Language: sandbox.Python, Ref: image}, {Language: sandbox.JavaScript, Ref: image},
		{Language: sandbox.Python, Ref: "localhost/no-such-image:1", Setup: "make it so"},
	}})
	var text strings.Builder
	must.OK(t, r.WriteTable(&text))
	t.Log("\n" + text.String())
	c := check(t, r, "python container")
	should.Hold(t, c.Status == OK, "%+v", c)
	c = check(t, r, "javascript container")
	should.Hold(t, c.Status == Fail && strings.Contains(c.Fix, "interpreter"), "there is no node in this image, but %+v", c)
	last := r.Checks[len(r.Checks)-1]
	should.Hold(t, last.Status == Fail && last.Fix == "make it so", "%+v", last)
}

func TestNoPodman(t *testing.T) {
	e := podman.Open(service.Options{Sockets: []string{}, Program: "/no/such/podman"})
	defer e.Close()
	r := Run(t.Context(), Options{Engine: e, Look: Podman(e), Images: []Image{{Language: sandbox.Python, Ref: "x"}}})
	c := check(t, r, "Podman")
	should.Hold(t, !r.OK() && c.Status == Fail && strings.Contains(c.Fix, "install"), "%+v", c)
}
