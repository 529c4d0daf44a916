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
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/httpserver"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/principal"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/principal/proxyheader"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/replicas"
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

// What the operator shows, and what a proxy that names persons does.
const (
	token       = "the-server's-own-token"
	proxySecret = "the-secret-of-a-proxy"
)

// served is a replica that serves HTTP, and says who it is.
type served struct {
	*one

	hands   *replicas.Hands
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
			_, _ = fmt.Fprintf(w, "%s serves %s %s from %s at %s: %s", name, principal.Of(r.Context()).Name, r.Host, r.Header.Get("X-Forwarded-For"), r.RemoteAddr, body)
		}),
		"GET /events": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = fmt.Fprintf(w, "%s begins\n", name)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}),
	}}
	site.Prepare()
	header, err := proxyheader.New(proxyheader.Options{Headers: []string{"X-User"}, Secret: proxySecret, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	s := httpserver.New(httpserver.Options{
		AllowOrigins: []string{"https://example.com"}, Token: token, Authenticate: principal.Chain{header, bearers{}}, Around: o.Receive,
		Site: *site, Logger: slog.New(slog.DiscardHandler),
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
	return &served{o, hands, l.Addr().String(), stop}
}

// ask sends a request of a principal's, and returns the answer.
func (s *served) ask(t *testing.T, who string, more ...string) string {
	t.Helper()
	status, body := s.send(t, who, more...)
	if status != http.StatusOK {
		t.Errorf("%d %s", status, body)
	}
	return body
}

func (s *served) send(t *testing.T, who string, more ...string) (status int, answered string) {
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
	if err != nil {
		t.Error(err)
	}
	return answer.StatusCode, string(body)
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
	local := regexp.MustCompile(` at 127\.0\.0\.1:[0-9]+`)
	for i := range 20 {
		who := fmt.Sprint("p", i)
		from := []string{"X-Forwarded-For", "192.0.2.1"}
		one, other := a.ask(t, who, from...), b.ask(t, who, from...)
		name, _, _ := strings.Cut(one, " ")
		by[name]++
		for at, said := range map[*served]string{a: one, b: other} {
			if want := name + " serves " + who + " " + at.address + " from 192.0.2.1: a body"; local.ReplaceAllString(said, "") != want {
				t.Errorf("%q, want %q", said, want)
			}
		}
		if name == "b" {
			atB = who
		}
	}
	if by["a"] == 0 || by["b"] == 0 {
		t.Fatalf("they serve %v", by)
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

// atAnother returns a principal whom another replica serves.
func (s *served) atAnother() (who string) {
	for i := 0; ; i++ {
		if who = fmt.Sprint("p", i); !s.IsPlaced(key(who)) {
			return who
		}
	}
}

// serveBoth returns two replicas that know each other, until the test ends.
func serveBoth(t *testing.T) (m *memory, a, b *served) {
	t.Helper()
	m = newMemory()
	a, b = serve(t, m, "a"), serve(t, m, "b")
	t.Cleanup(a.leave)
	t.Cleanup(b.leave)
	await(t, "both", func() bool { return a.IsPlaced(key("p")) != b.IsPlaced(key("p")) })
	return m, a, b
}

// What a replica says of a request that it hands on counts, and what a client says does not.
func TestOnlyAReplicaHandsOn(t *testing.T) {
	const header = "Code-Sandbox-Replica"
	m, a, _ := serveBoth(t)
	who := a.atAnother()
	isLocal := regexp.MustCompile(` at 127\.0\.0\.1:[0-9]+: `)
	for _, claims := range []string{"192.0.2.1:1", " " + key(who) + " 192.0.2.1:1", "key " + key(who) + " 192.0.2.1:1", m.keyOf("b") + " " + key(who) + " 192.0.2.1:1"} {
		if got := a.ask(t, who, header, claims); !strings.HasPrefix(got, "b serves") || !isLocal.MatchString(got) {
			t.Errorf("a client says %q: %s", claims, got)
		}
	}
	// It is not handed on again, and its client is who it was.
	if got := a.ask(t, who, header, m.keyOf("a")+" "+key(who)+" 192.0.2.1:1"); !strings.HasPrefix(got, "a serves "+who) || !strings.Contains(got, " at 192.0.2.1:1: ") {
		t.Error(got)
	}
}

// A person whom a proxy names stays who it is, also where the proxy shows the server's own token beside.
func TestWhatIsHandedOnKeepsItsPrincipal(t *testing.T) {
	_, a, _ := serveBoth(t)
	who := a.atAnother()
	named := []string{"X-User", who, proxyheader.SecretHeader, proxySecret}
	if got := a.ask(t, token, named...); !strings.HasPrefix(got, "b serves "+who+" ") {
		t.Error(got)
	}
	// The other replica does not see who it is, because the client had the name taken out on the way.
	if status, got := a.send(t, token, append(named, "Connection", "X-User")...); status != http.StatusServiceUnavailable {
		t.Errorf("%d %s", status, got)
	}
}

// Requests for a replica that lives and cannot be reached are refused.
func TestARequestThatCannotBeHandedOnIsRefused(t *testing.T) {
	_, a, b := serveBoth(t)
	b.stop()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/x", strings.NewReader("a body"))
	if a.hands.Serve(httptest.NewRecorder(), r, key(a.atAnother()), http.NotFoundHandler()) {
		t.Error("it was served")
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
	restore := b.view.cutOff()
	if got := a.ask(t, "p"); !strings.HasPrefix(got, "a serves p") || !strings.HasSuffix(got, ": a body") {
		t.Error(got)
	}
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
