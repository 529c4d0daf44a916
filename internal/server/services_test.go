package server

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/principal"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/telemetry"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
)

// begun is a server over HTTP that nobody uses yet.
func begun(t *testing.T, args ...string) *Running {
	t.Helper()
	s, err := loadSettings(t, append([]string{"--http", "127.0.0.1:0", "--state-dir", filepath.Join(t.TempDir(), "state")}, args...), nil)
	must.OK(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	r := must.Get(s.Begin(ctx, nil, slog.New(slog.DiscardHandler)))(t)
	t.Cleanup(func() {
		cancel()
		_ = r.Web.Listener.Close()
		r.End(context.Background())
	})
	return r
}

// one is a server with one principal beside the owner.
type one struct{ *Services }

func (o one) Get(principal.Principal) (*Services, error) { return o.Services, nil }
func (o one) All() []*Services                           { return []*Services{o.Services} }
func (o one) ByKey(key string) *Services {
	if key == o.of.Key() {
		return o.Services
	}
	return nil
}

// with returns the services of alice under other settings.
func (r *Running) with(t *testing.T, values map[string]any) *Program {
	t.Helper()
	s, err := r.Program.With(values, func(string) bool { return true })
	must.OK(t, err)
	s, err = r.Program.For(principal.Principal{Name: "alice"}, s)
	must.Hold(t, err == nil, "%v", err)
	return s
}

func TestPrincipalsShareNoValues(t *testing.T) {
	a, b := t.TempDir(), t.TempDir()
	r := begun(t, "--mount", t.TempDir()+":x", "--mount", t.TempDir()+":y", "--mount", t.TempDir()+":z")
	first := r.with(t, map[string]any{"mount": a + ":a", "volume-limit": "4m"})
	second := r.with(t, map[string]any{"mount": b + ":b"})
	if len(first.Mounts) != 1 || first.Mounts[0].Name != "a" || len(second.Mounts) != 1 || second.Mounts[0].Name != "b" || len(r.Program.Mounts) != 3 {
		t.Errorf("%v and %v, of %v", first.Mounts, second.Mounts, r.Program.Mounts)
	}
	should.Equal(t, first.sandboxConfig(nil, nil, r.Log).FreezeBytes, 1<<20)
}

// An overloaded server refuses new sessions of everybody, and doctor has the reason.
func TestOverloadIsTold(t *testing.T) {
	r := begun(t)
	r.state = telemetry.NewNow(telemetry.NowOptions{StartWait: func() time.Duration { return time.Minute }, StateDir: t.TempDir(), Logger: r.Log})
	alice := must.Get(r.NewServices(principal.Principal{Name: "alice"}, r.with(t, nil)))(t)
	for _, services := range []*Services{r.own, alice} {
		must.Code(t, should.ErrOf(services.manager.Run(sandbox.RunOptions{Code: "1", SessionID: "new", Language: sandbox.Python})), fault.ServerBusy)
	}
	go r.entrance.serve(r.Ending)
	must.Soon(t, "doctor has the reason", func() bool {
		checks := r.Program.loadChecks(t.Context())
		return len(checks) == 1 && checks[0].Found == "overloaded: a container has waited 1m0s for its turn to be started"
	})
}

// Nobody is told who is a principal here.
func TestLinksDoNotTellOfPrincipals(t *testing.T) {
	r := begun(t)
	alice := must.Get(r.NewServices(principal.Principal{Name: "alice"}, r.with(t, nil)))(t)
	r.principals = one{alice}
	var said []string
	for _, name := range []string{"alice", "nobody"} {
		w := httptest.NewRecorder()
		r.serveLink(w, httptest.NewRequest(http.MethodGet, linksPrefix+principal.Principal{Name: name}.Key()+"/files/x/y", nil))
		said = append(said, fmt.Sprint(w.Code, w.Body))
	}
	if said[0] != said[1] {
		t.Errorf("of alice it is said %q, of nobody %q", said[0], said[1])
	}
}

// A change of other settings does not cut what code uses.
func TestAChangeThatReachesTheSameCutsNothing(t *testing.T) {
	r := begun(t)
	alice, err := r.NewServices(principal.Principal{Name: "alice"}, r.with(t, map[string]any{"allow-domain": "one.example", "max-sessions": 3}))
	must.OK(t, err)
	r.principals = one{alice}
	first := alice.now.Load()
	change := func(domain string) *front {
		t.Helper()
		must.OK(t, alice.Change(r.with(t, map[string]any{"allow-domain": domain, "max-sessions": 4})))
		return alice.now.Load()
	}
	second := change("one.example")
	if second == first || second.box.egress != first.box.egress || second.box.connections != first.box.connections || second.deps.Manager.Config().MaxSessions != 4 {
		t.Error("the egress is another one")
	}
	third := change("two.example")
	should.Hold(t, third.box.egress != second.box.egress, "the egress is the same")
}

// labelled is an engine that has one image, of which nothing is known but a label.
type labelled struct {
	engine.Engine

	versions string
}

func (e labelled) Image(context.Context, string) (engine.ImageInfo, error) {
	return engine.ImageInfo{Labels: map[string]string{containers.LabelVersions: e.versions}}, nil
}

func TestWhatAnImageSaysOfItselfIsBounded(t *testing.T) {
	long := `{"language": "Python", "version": "` + strings.Repeat("1", containers.MaxVersions) + `"}`
	for name, test := range map[string]struct {
		label, version string
		packages       map[string]string
		problem        bool
	}{
		"as it should be":     {label: `{"language": "Python", "version": "3.13.5", "packages": [{"name": "numpy", "version": "2.2"}]}`, version: "3.13.5", packages: map[string]string{"numpy": "2.2"}},
		"one language of two": {label: `[{"language": "JavaScript", "version": "24"}, {"language": "Python", "version": "3", "packages": [{"name": "typer"}]}]`, version: "3", packages: map[string]string{"typer": ""}},
		"another language":    {label: `{"language": "JavaScript", "version": "24"}`, problem: true},
		"aids of others":      {label: `{"language": "Python", "version": "3", "packages": [{"name": "types-six"}, {"name": "pandas-stubs"}, {"name": "@types/node"}, {"name": "h5py._serial"}, {"name": "typer"}]}`, version: "3", packages: map[string]string{"typer": ""}},
		"control characters":  {label: `{"language": "Python", "version": "3\u001b[2J", "packages": [{"name": "a\u0000", "version": "\u007f"}]}`, version: "3␛[2J", packages: map[string]string{"a␀": "␡"}},
		"too long":            {label: long, problem: true},
		"no JSON":             {label: "[", problem: true},
		"nothing":             {problem: true},
	} {
		t.Run(name, func(t *testing.T) {
			config := sandbox.DefaultConfig()
			config.Kernels = map[sandbox.Language]sandbox.KernelConfig{sandbox.Python: {}}
			got := environments(config, labelled{versions: test.label})(t.Context())
			if len(got) != 1 || got[0].Version != test.version || !maps.Equal(got[0].Packages, test.packages) || (got[0].Problem != "") != test.problem {
				t.Errorf("got %+v", got)
			}
		})
	}
}
