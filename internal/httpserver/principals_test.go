package httpserver

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mark3labs/mcp-go/server"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/principal"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

// named are principals by what they show.
type named struct{ sync.Map }

func (n *named) Authenticate(r *http.Request) (principal.Principal, error) {
	name, known := n.Load(principal.Bearer(r))
	if !known {
		return principal.Principal{}, principal.ErrNone
	}
	return principal.Principal{Name: name.(string)}, nil
}

// aliceAndBob have a token each, and so has somebody without a name.
func aliceAndBob() *named {
	who := new(named)
	for shown, name := range map[string]string{"token-of-alice": "alice", "token-of-bob": "bob", "token-of-nobody": ""} {
		who.Store(shown, name)
	}
	return who
}

// servePrincipals serves alice and bob, each a Site that says whose it is.
func servePrincipals(t *testing.T, who *named) *fixture {
	sites := make(map[string]*Site)
	for _, name := range []string{"alice", "bob"} {
		site := &Site{MCP: server.NewMCPServer(name, "1"), Routes: map[string]http.Handler{
			"/v1/": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = w.Write([]byte(name + " is " + principal.Of(r.Context()).Name))
			}),
		}}
		site.Prepare()
		sites[name] = site
	}
	own := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("the user's")) })
	return serveInBubble(t, Options{
		Token: token, Authenticate: who, Site: Site{Routes: map[string]http.Handler{"/v1/": own, "GET /metrics": own}},
		Of: func(p principal.Principal) (*Site, error) { return sites[p.Name], nil },
	})
}

func TestEachIsServedByTheirSite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := servePrincipals(t, aliceAndBob())
		for shown, want := range map[string]string{
			token: "the user's", "token-of-alice": "alice is alice", "token-of-bob": "bob is bob",
			"token-of-nobody": "send the header", "token-of-eve": "send the header", "": "send the header",
		} {
			a := f.do(f.request(http.MethodGet, "/v1/x", "", headers{"Authorization": "Bearer " + shown}))
			if !strings.HasPrefix(a.body, want) || (a.status == http.StatusOK) != strings.Contains(want, "is ") && want != "the user's" {
				t.Errorf("%q: %d %s", shown, a.status, a.body)
			}
		}
		a := f.do(f.request(http.MethodGet, "/metrics", "", headers{"Authorization": "Bearer token-of-alice"}))
		should.Hold(t, a.status == http.StatusNotFound, "what is the user's alone: %+v", a)
	})
}

// A session of the protocol is its principal's, whoever learns its name.
func TestAnothersSessionIsNotThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := servePrincipals(t, aliceAndBob())
		begin := func(shown string) answer {
			return f.do(f.request(http.MethodPost, Path, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`,
				headers{"Authorization": "Bearer " + shown}))
		}
		begun := begin("token-of-alice")
		session := begun.header.Get(headerSession)
		must.Hold(t, session != "" && strings.Contains(begun.body, `"name":"alice"`), "got %+v", begun)
		for _, shown := range []string{"token-of-bob", token} {
			for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
				a := f.do(f.request(method, Path, ping, headers{"Authorization": "Bearer " + shown, headerSession: session, "Accept": "text/event-stream, application/json"}))
				should.Equal(t, a.status, http.StatusNotFound, "%s with %s: %+v", method, shown, a)
			}
		}
		a := f.do(f.request(http.MethodPost, Path, ping, headers{"Authorization": "Bearer token-of-alice", headerSession: session}))
		should.Hold(t, a.status == http.StatusOK, "its own: %+v", a)
	})
}

// The short messages of one principal wait for each other, and nobody else's do.
func TestAFloodOfMessagesWaitsForItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := servePrincipals(t, aliceAndBob())
		ask := func(shown string) *answer {
			var a answer
			go func() { a = f.do(f.request(http.MethodPost, Path, ping, headers{"Authorization": "Bearer " + shown})) }()
			synctest.Wait()
			return &a
		}
		var leave []func()
		for range f.server.turns.Each() {
			leave = append(leave, must.Get(f.server.turns.Take(t.Context(), principal.Principal{Name: "alice"}.Key()))(t))
		}
		alices := ask("token-of-alice")
		should.Equal(t, alices.status, 0, "alice's has an answer")
		should.Equal(t, ask("token-of-bob").status, http.StatusOK, "bob's")
		should.Equal(t, ask(token).status, http.StatusOK, "the owner's")
		for _, leave := range leave {
			leave()
		}
		synctest.Wait()
		should.Equal(t, alices.status, http.StatusOK, "alice's, later")
	})
}

// A principal that takes all it can get leaves places for others.
func TestAPrincipalLeavesPlacesForOthers(t *testing.T) {
	p := newPlaces(8)
	of := func(name string) *http.Request {
		r := httptest.NewRequest(http.MethodPost, Path, nil)
		return enter(r, principal.Principal{Name: name}, &Site{})
	}
	var back []func()
	for range 100 {
		if giveBack := p.take(t.Context(), of("alice")); giveBack != nil {
			back = append(back, giveBack)
		}
	}
	bob := p.take(t.Context(), of("bob"))
	should.Hold(t, len(back) == 2 && bob != nil, "alice has %d of 8 places, and bob one: %v", len(back), bob != nil)
	back[0]()
	should.Hold(t, p.take(t.Context(), of("alice")) != nil, "what alice has given back she does not get again")
	for range 8 {
		p.try(of(""))
	}
	bob()
	should.Hold(t, p.try(of("")) != nil && p.try(of("")) == nil, "there are more places than eight, or fewer")
}

// Who is not known any more loses the streams that are open.
func TestStreamsEndWithWhatWasShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		who := aliceAndBob()
		f := servePrincipals(t, who)
		a := f.do(f.request(http.MethodPost, Path, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`,
			headers{"Authorization": "Bearer token-of-alice"}))
		ended := make(chan answer, 1)
		go func() {
			ended <- f.do(f.request(http.MethodGet, Path, "", headers{"Authorization": "Bearer token-of-alice", headerSession: a.header.Get(headerSession), "Accept": "text/event-stream"}))
		}()
		time.Sleep(2 * knownEvery)
		select {
		case a := <-ended:
			t.Fatalf("it has ended: %+v", a)
		default:
		}
		who.Delete("token-of-alice")
		time.Sleep(2 * knownEvery)
		synctest.Wait()
		select {
		case <-ended:
		default:
			t.Error("it goes on")
		}
	})
}

// A POST may be a stream too, by its headers; an ordinary one is answered.
func TestPOSTsThatEndWithWhatWasShown(t *testing.T) {
	for kind, ends := range map[string]bool{"application/connect+json": true, "application/json": false} {
		synctest.Test(t, func(t *testing.T) {
			g := guard{others: authenticate(func(*http.Request) (principal.Principal, error) { return principal.Principal{}, principal.ErrNone })}
			r := httptest.NewRequest(http.MethodPost, Path, nil)
			r.Header.Set("Content-Type", kind)
			r, stop := g.whileKnown(enter(r, principal.Principal{Name: "alice"}, &Site{}))
			defer stop()
			time.Sleep(2 * knownEvery)
			should.Equal(t, r.Context().Err() != nil, ends, "%s: ended", kind)
		})
	}
}

// authenticate is an Authenticator.
type authenticate func(r *http.Request) (principal.Principal, error)

func (a authenticate) Authenticate(r *http.Request) (principal.Principal, error) { return a(r) }

// Principals that open all the connections they can, with requests that last, keep out neither probes, nor the user, nor another.
func TestPrincipalsLeaveConnectionsForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		site := Site{Routes: map[string]http.Handler{"GET /v1/x": http.NotFoundHandler(), "GET /v1/wait": http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-release:
			case <-r.Context().Done():
			}
		})}}
		fine := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
		f := serveInBubble(t, Options{
			Token: token, Site: site, Open: map[string]http.Handler{"GET /healthz": fine, "GET /readyz": fine},
			Authenticate: authenticate(func(r *http.Request) (principal.Principal, error) {
				name, is := strings.CutPrefix(principal.Bearer(r), "token-of-")
				if !is {
					return principal.Principal{}, principal.ErrNone
				}
				return principal.Principal{Name: name}, nil
			}),
			Of: func(principal.Principal) (*Site, error) { return &site, nil },
		})
		begin := func(path, shown string) net.Conn {
			conn := f.conn(t)
			go func() {
				_, _ = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nConnection: close\r\n\r\n", path, shown)
			}()
			return conn
		}
		status := func(conn net.Conn) string {
			got, _ := io.ReadAll(conn)
			return string(got[:min(len(got), len("HTTP/1.1 200"))])
		}
		for _, name := range []string{"bob", "carol", "dave", "eve"} {
			for range maxConnections/4 + 50 {
				begin("/v1/wait", "token-of-"+name)
			}
			synctest.Wait()
		}
		own := begin("/v1/wait", token)
		synctest.Wait()
		for range maxConnections {
			begin("/v1/wait", "token-of-bob")
		}
		synctest.Wait()
		for _, test := range []struct{ path, shown, want string }{
			{"/healthz", "", "HTTP/1.1 200"}, {"/readyz", "", "HTTP/1.1 200"}, {"/v1/x", token, "HTTP/1.1 404"}, {"/v1/x", "token-of-alice", "HTTP/1.1 404"},
		} {
			should.Equal(t, status(begin(test.path, test.shown)), test.want, "%s with %q", test.path, test.shown)
		}
		close(release)
		should.Equal(t, status(own), "HTTP/1.1 200", "what the user has begun")
	})
}

// The server's own token is the user's, whatever other tokens look like. A proxy may show it for a person.
func TestTheOwnTokenIsLookedAtByNobodyElse(t *testing.T) {
	const own = "csm_that-nobody-guesses"
	var got principal.Principal
	g := newGuard(&Options{
		Token: own, Logger: slog.New(slog.DiscardHandler), Of: func(principal.Principal) (*Site, error) { return &Site{}, nil },
		Authenticate: authenticate(func(r *http.Request) (principal.Principal, error) {
			switch name := r.Header.Get("X-User"); {
			case name == "bad":
				return principal.Principal{}, errors.New("no name")
			case name == "unproven":
				return principal.Principal{}, principal.ErrUnproven
			case name != "":
				return principal.Principal{Name: name}, nil
			case strings.HasPrefix(principal.Bearer(r), "csm_"):
				return principal.Principal{}, errors.New("not known")
			}
			return principal.Principal{}, principal.ErrNone
		}),
	}, func(w http.ResponseWriter, _ *http.Request, status int, _, _ string) { w.WriteHeader(status) })
	h := g.authenticated(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = principal.Of(r.Context()) }))
	for _, test := range []struct {
		shown, user string
		status      int
	}{
		{own, "", 200}, {own, "alice", 200}, {own, "bad", 401}, {own, "unproven", 401}, {"csm_of-another", "", 401},
	} {
		r, w := httptest.NewRequest(http.MethodGet, "/", nil), httptest.NewRecorder()
		r.Header.Set("Authorization", "Bearer "+test.shown)
		if test.user != "" {
			r.Header.Set("X-User", test.user)
		}
		if h.ServeHTTP(w, r); w.Code != test.status || w.Code == http.StatusOK && got.Name != test.user {
			t.Errorf("%q for %q: %d, as %q", test.shown, test.user, w.Code, got.Name)
		}
	}
}

// The end of a client is told to what serves its principal now, which may be another than when it came.
func TestAClientEndsWhereItIsServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ended := newClients(), make(chan string, 10)
		before, now := anyRequest(func(string) { ended <- "before" }), anyRequest(func(string) { ended <- "now" })
		session := c.begin(before)
		c.enter(now, session.name)
		alone := c.stateless(before, "alone")
		c.stateless(now, "alone")
		for _, n := range []*client{session, alone} {
			c.remove(n)
			should.Equal(t, <-ended, "now", "%s has ended where it was served", n.name)
		}
	})
}
