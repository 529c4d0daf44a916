package proxyheader

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/principal"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

const secret = "between-the-proxy-and-us"

func authenticator(t testing.TB, o Options) *Authenticator {
	t.Helper()
	if o.Headers == nil {
		o.Headers = []string{"X-Forwarded-User"}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	a := must.Get(New(o))(t)
	return a
}

// request is one from an address to another one; the headers are name and value in turn.
func request(from, to string, headers ...string) *http.Request {
	r := &http.Request{RemoteAddr: from, Header: make(http.Header)}
	for pair := range slices.Chunk(headers, 2) {
		r.Header.Add(pair[0], pair[1])
	}
	if to == "" {
		return r
	}
	tcp, err := net.ResolveTCPAddr("tcp", to)
	if err != nil {
		panic(err)
	}
	return r.WithContext(context.WithValue(context.Background(), http.LocalAddrContextKey, net.Addr(tcp)))
}

func TestWhoseHeaderCounts(t *testing.T) {
	const here = "10.0.0.5:8000"
	byAddress := Options{Proxies: []string{"10.0.0.7", "192.168.1.0/24", "fd00::7", "127.0.0.1"}}
	bySecret := Options{Secret: secret}
	byBoth := Options{Proxies: byAddress.Proxies, Secret: secret}
	network := Options{Proxies: []string{"10.0.0.0/24", "unix"}}
	alice := []string{"X-Forwarded-User", "alice"}
	with := func(more ...string) []string { return append(slices.Clone(alice), more...) }
	for name, test := range map[string]struct {
		options Options
		from    string
		headers []string
		counts  bool
	}{
		"a proxy":                                {byAddress, "10.0.0.7:4711", alice, true},
		"one of a network":                       {byAddress, "192.168.1.200:1", alice, true},
		"one by IPv6":                            {byAddress, "[fd00::7]:1", alice, true},
		"one by IPv6, with a zone":               {byAddress, "[fd00::7%eth0]:1", alice, true},
		"IPv4 in IPv6":                           {byAddress, "[::ffff:10.0.0.7]:1", alice, true},
		"loopback":                               {byAddress, "127.0.0.1:1", alice, true},
		"another address":                        {byAddress, "10.0.0.8:4711", alice, false},
		"another address of loopback":            {byAddress, "127.0.0.2:1", alice, false},
		"an address that begins alike":           {byAddress, "10.0.0.70:1", alice, false},
		"no address":                             {byAddress, "", alice, false},
		"no address, as sockets have":            {byAddress, "@", alice, false},
		"nonsense":                               {byAddress, "10.0.0.7", alice, false},
		"this machine, by an address of its own": {network, "10.0.0.5:1", alice, false},
		"another of that network":                {network, "10.0.0.6:1", alice, true},
		"X-Forwarded-For of a proxy":             {byAddress, "10.0.0.8:1", with("X-Forwarded-For", "10.0.0.7"), false},
		"X-Real-IP of a proxy":                   {byAddress, "10.0.0.8:1", with("X-Real-IP", "10.0.0.7"), false},
		"Forwarded of a proxy":                   {byAddress, "10.0.0.8:1", with("Forwarded", "for=10.0.0.7"), false},
		"a proxy that tells of a client":         {byAddress, "10.0.0.7:1", with("X-Forwarded-For", "203.0.113.9"), true},
		"the secret":                             {bySecret, "203.0.113.9:1", with(secretHeader, secret), true},
		"no secret":                              {bySecret, "10.0.0.7:1", alice, false},
		"an empty secret":                        {bySecret, "10.0.0.7:1", with(secretHeader, ""), false},
		"another secret":                         {bySecret, "10.0.0.7:1", with(secretHeader, secret+"x"), false},
		"a part of the secret":                   {bySecret, "10.0.0.7:1", with(secretHeader, secret[:20]), false},
		"two secrets":                            {bySecret, "10.0.0.7:1", with(secretHeader, secret, secretHeader, "x"), false},
		"both":                                   {byBoth, "10.0.0.7:1", with(secretHeader, secret), true},
		"the address alone":                      {byBoth, "10.0.0.7:1", alice, false},
		"the secret alone":                       {byBoth, "10.0.0.8:1", with(secretHeader, secret), false},
	} {
		p, err := authenticator(t, test.options).Authenticate(request(test.from, here, test.headers...))
		if test.counts && (err != nil || p.Name != "alice" || p.Source != "header") || !test.counts && (!errors.Is(err, principal.ErrUnproven) || p.Name != "") {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
	}
}

func TestWhatTheHeadersSay(t *testing.T) {
	o := Options{Headers: []string{"X-OpenWebUI-User-Email", "x-librechat-user-id"}, Proxies: []string{"10.0.0.7"}}
	for name, test := range map[string]struct {
		headers []string
		want    string // empty: it is refused
		groups  []string
	}{
		"the first":              {[]string{"X-OpenWebUI-User-Email", "a@example.com"}, "a@example.com", nil},
		"the second":             {[]string{"X-LibreChat-User-Id", "64f0"}, "64f0", nil},
		"both":                   {[]string{"X-LibreChat-User-Id", "64f0", "X-OpenWebUI-User-Email", "a@example.com"}, "a@example.com", nil},
		"blanks around it":       {[]string{"X-LibreChat-User-Id", " 64f0 "}, "64f0", nil},
		"groups":                 {[]string{"X-LibreChat-User-Id", "64f0", "X-Forwarded-Groups", "a, b,,c d"}, "64f0", []string{"a", "b", "c d"}},
		"no groups":              {[]string{"X-LibreChat-User-Id", "64f0", "X-Forwarded-Groups", ""}, "64f0", nil},
		"two values":             {[]string{"X-LibreChat-User-Id", "64f0", "X-LibreChat-User-Id", "64f1"}, "", nil},
		"twice the same":         {[]string{"X-LibreChat-User-Id", "64f0", "X-LibreChat-User-Id", "64f0"}, "", nil},
		"two lists of groups":    {[]string{"X-LibreChat-User-Id", "64f0", "X-Forwarded-Groups", "a", "X-Forwarded-Groups", "b"}, "", nil},
		"nothing":                {[]string{"X-LibreChat-User-Id", ""}, "", nil},
		"nothing, and a second":  {[]string{"X-OpenWebUI-User-Email", "", "X-LibreChat-User-Id", "64f0"}, "", nil},
		"blanks":                 {[]string{"X-LibreChat-User-Id", "  "}, "", nil},
		"a placeholder":          {[]string{"X-LibreChat-User-Id", "{{LIBRECHAT_USER_ID}}"}, "", nil},
		"a variable":             {[]string{"X-LibreChat-User-Id", "${USER}"}, "", nil},
		"bytes that are no text": {[]string{"X-LibreChat-User-Id", "\xff"}, "", nil},
		"a tab":                  {[]string{"X-LibreChat-User-Id", "a\tb"}, "", nil},
		"a long name":            {[]string{"X-LibreChat-User-Id", strings.Repeat("a", 201)}, "", nil},
		"a bad group":            {[]string{"X-LibreChat-User-Id", "64f0", "X-Forwarded-Groups", "a,\x01"}, "", nil},
		"many groups":            {[]string{"X-LibreChat-User-Id", "64f0", "X-Forwarded-Groups", strings.Repeat("g,", maxGroups+1)}, "", nil},
	} {
		p, err := authenticator(t, o).Authenticate(request("10.0.0.7:1", "", test.headers...))
		if p.Name != test.want || !slices.Equal(p.Groups, test.groups) || (err == nil) != (test.want != "") || errors.Is(err, principal.ErrNone) {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
	}
	p, err := authenticator(t, o).Authenticate(request("10.0.0.7:1", "", "X-Forwarded-User", "alice"))
	should.Hold(t, errors.Is(err, principal.ErrNone), "a header that was not named: %+v, %v", p, err)
}

// Over real connections, whose addresses the server of net/http tells.
func TestConnections(t *testing.T) {
	serve := func(l net.Listener, o Options) *httptest.Server {
		a := authenticator(t, o)
		s := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			p, _ := a.Authenticate(r)
			_, _ = w.Write([]byte(p.Name))
		})}}
		s.Start()
		t.Cleanup(s.Close)
		return s
	}
	ask := func(network, address string) string {
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, address)
		}}}
		r, _ := http.NewRequest(http.MethodGet, "http://localhost/", nil)
		r.Header.Set("X-Forwarded-User", "alice")
		answer := must.Get(client.Do(r))(t)
		defer answer.Body.Close()
		var text bytes.Buffer
		_, _ = text.ReadFrom(answer.Body)
		return text.String()
	}
	listen := func(network, address string) net.Listener {
		l := must.Get(net.Listen(network, address))(t)
		return l
	}
	for proxy, want := range map[string]string{"127.0.0.1": "alice", "unix": ""} {
		s := serve(listen("tcp", "127.0.0.1:0"), Options{Proxies: []string{proxy}})
		should.Equal(t, ask("tcp", s.Listener.Addr().String()), want, "by TCP, %s is a proxy", proxy)
	}
	if runtime.GOOS == "windows" {
		return
	}
	for proxy, want := range map[string]string{"127.0.0.1": "", "unix": "alice"} {
		s := serve(listen("unix", filepath.Join(t.TempDir(), "s")), Options{Proxies: []string{proxy}})
		should.Equal(t, ask("unix", s.Listener.Addr().String()), want, "by a socket, %s is a proxy", proxy)
	}
}

func TestTheLogTellsOnceInAWhile(t *testing.T) {
	var log bytes.Buffer
	a := authenticator(t, Options{Secret: secret, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	now := time.Now()
	a.now = func() time.Time { return now }
	for range 100 {
		_, _ = a.Authenticate(request("10.0.0.9:1", "", "X-Forwarded-User", "alice", secretHeader, "guess-of-a-secret"))
	}
	if n := strings.Count(log.String(), "\n"); n != 1 || !strings.Contains(log.String(), "10.0.0.9") || strings.Contains(log.String(), "guess") {
		t.Errorf("the log has %s", log.String())
	}
	now = now.Add(tellEvery)
	_, _ = a.Authenticate(request("10.0.0.9:1", "", "X-Forwarded-User", "alice"))
	n := strings.Count(log.String(), "\n")
	should.Hold(t, n == 2 && strings.Contains(log.String(), "requests=100"), "the log has %s", log.String())
}

func TestOptionsByWhichAnybodyIsAnybody(t *testing.T) {
	for name, o := range map[string]Options{
		"no guard":               {Headers: []string{"X-Forwarded-User"}},
		"every address":          {Headers: []string{"X-Forwarded-User"}, Proxies: []string{"0.0.0.0/0"}},
		"every address of IPv6":  {Headers: []string{"X-Forwarded-User"}, Proxies: []string{"::/0"}},
		"all of IPv4 in IPv6":    {Headers: []string{"X-Forwarded-User"}, Proxies: []string{"::ffff:0:0/96"}},
		"a name":                 {Headers: []string{"X-Forwarded-User"}, Proxies: []string{"nginx"}},
		"no address":             {Headers: []string{"X-Forwarded-User"}, Proxies: []string{""}},
		"a zone":                 {Headers: []string{"X-Forwarded-User"}, Proxies: []string{"fe80::1%eth0"}},
		"a short secret":         {Headers: []string{"X-Forwarded-User"}, Secret: "short"},
		"a secret of two words":  {Headers: []string{"X-Forwarded-User"}, Secret: secret + " x"},
		"no header":              {Headers: []string{""}, Secret: secret},
		"nonsense":               {Headers: []string{"X User"}, Secret: secret},
		"what says another":      {Headers: []string{"authorization"}, Secret: secret},
		"the secret's":           {Headers: []string{"x-sandbox-proxy-secret"}, Secret: secret},
		"a groups header's name": {Headers: []string{"X-Forwarded-User"}, GroupsHeader: "x:y", Secret: secret},
	} {
		if a, err := New(o); err == nil {
			t.Errorf("%s: %+v", name, a)
		} else if o.Secret != "" && strings.Contains(err.Error(), o.Secret) {
			t.Errorf("%s: the error has the secret", name)
		}
	}
}
