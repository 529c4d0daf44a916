package replicas_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/httpserver"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/principal"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/replicas"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/web"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

// bearers are principals whose tokens are their names.
type bearers struct{}

func (bearers) Authenticate(r *http.Request) (principal.Principal, error) {
	name := principal.Bearer(r)
	if name == "" {
		return principal.Principal{}, principal.ErrNone
	}
	return principal.Principal{Name: name}, nil
}

// served is a replica that serves HTTP, and says who it is.
type served struct {
	*one

	address string
	stop    func()
}

func serve(t *testing.T, m *memory, name string) *served {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o := &one{dir: t.TempDir() + "/sessions", view: &view{memory: m}}
	o.Replicas, err = replicas.Join(t.Context(), replicas.Options{
		Leases: o.view, Group: "group", Name: name, Address: l.Addr().String(), StateDir: o.dir, Logger: slog.New(slog.DiscardHandler),
		Lost: func() { t.Error(name, "has lost what it had") },
	})
	if err != nil {
		t.Fatal(err)
	}
	hands := o.NewHands(nil)
	site := &httpserver.Site{Routes: map[string]http.Handler{
		"/v1/": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			_, _ = fmt.Fprintf(w, "%s serves %s %s from %s: %s", name, principal.Of(r.Context()).Name, r.Host, r.Header.Get("X-Forwarded-For"), body)
		}),
		"GET /events": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = fmt.Fprintf(w, "%s begins\n", name)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}),
	}}
	site.Prepare()
	s := httpserver.New(httpserver.Options{
		AllowOrigins: []string{"https://example.com"}, Token: "the server's own token, which is long", Authenticate: bearers{}, Site: *site, Logger: slog.New(slog.DiscardHandler),
		Of: func(principal.Principal) (*httpserver.Site, error) { return site, nil },
		Place: func(w http.ResponseWriter, r *http.Request, p principal.Principal, here http.Handler) bool {
			return hands.Serve(w, r, p.Key(), here)
		},
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, l) }()
	stop := func() {
		cancel()
		<-ended
		ended <- nil
	}
	t.Cleanup(stop)
	return &served{o, l.Addr().String(), stop}
}

// ask sends a request of a principal's, and returns the answer.
func (s *served) ask(t *testing.T, who string, more ...string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+s.address+"/v1/x", strings.NewReader("a body"))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+who)
	r.Header.Set("Origin", "https://example.com")
	for i := 0; i < len(more); i += 2 {
		r.Header.Set(more[i], more[i+1])
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	for name, values := range answer.Header {
		if len(values) > 1 {
			t.Errorf("the header %s is there twice: %q", name, values)
		}
	}
	body, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Errorf("%d %s, %v", answer.StatusCode, body, err)
	}
	return string(body)
}

func key(who string) string { return principal.Principal{Name: who}.Key() }

// await waits until a replica has seen what another has done.
func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	for began := time.Now(); !is(); time.Sleep(time.Millisecond) {
		if time.Since(began) > 10*time.Second {
			t.Fatal("not seen: " + what)
		}
	}
}

func TestAPrincipalIsServedByOneReplica(t *testing.T) {
	m := newMemory()
	a, b := serve(t, m, "a"), serve(t, m, "b")
	defer a.leave()
	await(t, "both", func() bool { return a.IsPlaced(key("p")) != b.IsPlaced(key("p")) })
	by := make(map[string]int)
	var atB string // whom b serves
	for i := range 20 {
		who := fmt.Sprint("p", i)
		one, other := a.ask(t, who, "X-Forwarded-For", "192.0.2.1"), b.ask(t, who, "X-Forwarded-For", "192.0.2.1")
		name, said, _ := strings.Cut(one, " ")
		by[name]++
		if _, others, _ := strings.Cut(other, " "); !strings.HasPrefix(other, name) ||
			said != "serves "+who+" "+a.address+" from 192.0.2.1: a body" || strings.Replace(others, b.address, a.address, 1) != said {
			t.Errorf("asked at one: %s; at the other: %s", one, other)
		}
		if name == "b" {
			atB = who
		}
	}
	if by["a"] == 0 || by["b"] == 0 {
		t.Fatalf("they serve %v", by)
	}
	// What is handed on is not handed on again.
	if got := a.ask(t, atB, web.HandedOn, "192.0.2.1:1"); !strings.HasPrefix(got, "a serves") {
		t.Error(got)
	}
	// Who has sessions stays with them.
	lock, err := state.Take(state.TenantDir(a.dir, key(atB)), "mine")
	if err != nil {
		t.Fatal(err)
	}
	await(t, "the session", func() bool { return !b.IsPlaced(key(atB)) })
	if got := b.ask(t, atB); !strings.HasPrefix(got, "a serves") {
		t.Error(got)
	}
	lock.Release()
	await(t, "its end", func() bool { return b.IsPlaced(key(atB)) })

	// A stream comes as it is written, and ends with its replica; one that has left serves nobody.
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+a.address+"/events", http.NoBody)
	r.Header.Set("Authorization", "Bearer "+atB)
	stream, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stream.Body.Close() }()
	lines := bufio.NewReader(stream.Body)
	if line, err := lines.ReadString('\n'); err != nil || line != "b begins\n" {
		t.Errorf("%q, %v", line, err)
	}
	b.Withdraw()
	b.stop()
	b.leave()
	if _, err := lines.ReadString('\n'); err == nil {
		t.Error("the stream goes on")
	}
	if got := a.ask(t, atB); !strings.HasPrefix(got, "a serves") {
		t.Error(got)
	}
}

// A request that comes while a replica is dead and nobody knows waits, and is answered once.
func TestARequestWaitsForWhoFollowsADeadReplica(t *testing.T) {
	m := newMemory()
	a, b := serve(t, m, "a"), serve(t, m, "b")
	defer a.leave()
	lock, err := state.Take(state.TenantDir(b.dir, key("p")), "mine")
	if err != nil {
		t.Fatal(err)
	}
	if err := lock.Keep(); err != nil {
		t.Fatal(err)
	}
	await(t, "the session", func() bool { return !a.IsPlaced(key("p")) })
	b.stop() // as if it were killed
	restore, died := b.view.cutOff(), time.Now()
	got := a.ask(t, "p")
	took := time.Since(died)
	if !strings.HasPrefix(got, "a serves p") || !strings.HasSuffix(got, ": a body") || took > 5*time.Second {
		t.Errorf("after %v: %s", took, got)
	}
	t.Logf("answered after %v", took)
	next, err := state.Take(state.TenantDir(a.dir, key("p")), "mine")
	if err != nil || !next.Kept() {
		t.Errorf("it has not the session: %v", err)
	}
	b.Leave(canceled())
	restore()
	if err := lock.Drop(); !errors.Is(err, replicas.ErrChanged) && !errors.Is(err, context.Canceled) {
		t.Errorf("the dead one wrote: %v", err)
	}
}
