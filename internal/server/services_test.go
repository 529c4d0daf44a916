package server

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/principal"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

// begun is a server over HTTP that nobody uses yet.
func begun(t *testing.T, args ...string) *Running {
	t.Helper()
	s, err := loadSettings(t, append([]string{"--http", "127.0.0.1:0", "--state-dir", filepath.Join(t.TempDir(), "state")}, args...), nil)
	must.OK(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	r, err := s.Begin(ctx, nil, slog.New(slog.DiscardHandler))
	must.OK(t, err)
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
	if s, err = r.Program.For(principal.Principal{Name: "alice"}, s); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestPrincipalsShareNoValues(t *testing.T) {
	a, b := t.TempDir(), t.TempDir()
	r := begun(t, "--mount", t.TempDir()+":x", "--mount", t.TempDir()+":y", "--mount", t.TempDir()+":z")
	first := r.with(t, map[string]any{"mount": a + ":a", "variables-limit": "1m"})
	second := r.with(t, map[string]any{"mount": b + ":b"})
	if len(first.Mounts) != 1 || first.Mounts[0].Name != "a" || len(second.Mounts) != 1 || second.Mounts[0].Name != "b" || len(r.Program.Mounts) != 3 {
		t.Errorf("%v and %v, of %v", first.Mounts, second.Mounts, r.Program.Mounts)
	}
	should.Equal(t, first.sandboxConfig(nil, nil, r.Log).FreezeBytes, 1<<20)
}

// Nobody is told who is a principal here.
func TestLinksDoNotTellOfPrincipals(t *testing.T) {
	r := begun(t)
	alice, err := r.NewServices(principal.Principal{Name: "alice"}, r.with(t, nil))
	must.OK(t, err)
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
	if third := change("two.example"); third.box.egress == second.box.egress {
		t.Error("the egress is the same")
	}
}
