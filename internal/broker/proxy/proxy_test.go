package proxy

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/netguard"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

func TestHostsThatAreAllowedAndRefused(t *testing.T) {
	for _, test := range []struct {
		name    string
		options Options
		address string
		want    string // in what the client says
		rule    string
	}{
		{"no network", Options{}, "https://public.example/", "no_network: no network; the server's user can allow hosts with --allow-domain", "no_network"},
		{"no network, plain", Options{}, "http://public.example/", "403 no_network: no network;", "no_network"},
		{"allowed", Options{Mode: Allowlist, Hosts: hosts("public.example", "*.deep.example")}, "https://public.example/", "200 OK hello", ""},
		{"allowed, plain", Options{Mode: Allowlist, Hosts: hosts("public.example", "*.deep.example")}, "http://public.example/", "200 OK hello", ""},
		{"below a name", Options{Mode: Allowlist, Hosts: hosts("*.deep.example")}, "http://a.b.deep.example/", "200 OK hello", ""},
		{"refused", Options{Mode: Allowlist, Hosts: hosts("public.example", "*.deep.example")}, "https://api.foo.com/", "host_denied: api.foo.com is not an allowed host; the server's user can allow it with --allow-domain api.foo.com", "host_denied"},
		{"refused, plain", Options{Mode: Allowlist, Hosts: hosts("public.example", "*.deep.example")}, "http://api.foo.com/", "403 host_denied: api.foo.com is not an allowed host; the server's user can allow it with --allow-domain api.foo.com", "host_denied"},
		{"another port", Options{Mode: Allowlist, Hosts: hosts("public.example", "*.deep.example")}, "https://public.example:22/", "host_denied: public.example:22 is not an allowed host; the server's user can allow it with --allow-domain public.example:22", "host_denied"},
		{"a port of its own", Options{Mode: Allowlist, Hosts: hosts("public.example:2222")}, "http://public.example:2222/", "200 OK hello", ""},
		{"open", Options{Mode: Open}, "https://public.example/", "200 OK hello", ""},
		{"open, another port", Options{Mode: Open}, "http://public.example:22/", "host_denied: public.example is not reached on the port 22; the ports are 80, 443, 8080, 8443,", "host_denied"},
		{"open, with a port", Options{Mode: Open, Hosts: hosts("public.example:22")}, "http://public.example:22/", "200 OK hello", ""},
		{"metadata", Options{Mode: Open}, "http://169.254.169.254/latest", "403 address_denied: 169.254.169.254 has an address that is private", "address_denied"},
		{"loopback in a tunnel", Options{Mode: Open}, "https://127.0.0.1/", "address_denied: 127.0.0.1 has an address", "address_denied"},
		{"an address of IPv6", Options{Mode: Open}, "http://[::ffff:10.0.0.1]/", "address_denied", "address_denied"},
		{"a name of this machine", Options{Mode: Open}, "http://localhost/", "address_denied", "address_denied"},
		{"an address in another form", Options{Mode: Open}, "http://0x7f.1/", "400 bad_request: the host of the request cannot be read: it ends in a number", "bad_request"},
		{"a name that is not there", Options{Mode: Open}, "http://missing.example/", "502 host_unreachable: missing.example:80 could not be reached: the host's name could not be found", "host_unreachable"},
		{"a name that is not there, in a tunnel", Options{Mode: Open}, "https://missing.example/", "host_unreachable: missing.example:443 could not be reached: the host's name could not be found", "host_unreachable"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, test.options, hello)
			status, body := w.get(test.address)
			should.Contain(t, status+" "+body, test.want)
			// A tunnel is recorded at its end.
			w.client().CloseIdleConnections()
			if strings.HasPrefix(test.address, "https:") && test.rule == "" {
				return
			}
			e := w.newest(0)
			if e.Rule != test.rule || e.Run != "r" || e.Kind != "proxy" || e.Allowed != (test.rule == "" || test.rule == "host_unreachable") || e.Host == "" {
				t.Errorf("recorded as %+v", e)
			}
		})
	}
}

func TestATunnelIsRecorded(t *testing.T) {
	w := newWorld(t, Options{Mode: Open}, hello)
	client := w.client()
	response := must.Get(client.Get("https://public.example/path?query"))(t)
	response.Body.Close()
	client.CloseIdleConnections()
	e := w.newest(0)
	if e.Method != http.MethodConnect || e.Host != "public.example" || !e.Allowed || e.Rule != "" || e.SentBytes < 500 || e.ReceivedBytes < 500 || e.Path != "" || e.Status != 200 {
		t.Errorf("recorded as %+v", e)
	}
}

// A host that keeps a connection open keeps no tunnel that code has given up.
func TestATunnelEndsWithItsClient(t *testing.T) {
	w := newWorld(t, Options{Mode: Open}, hello)
	arrived := make(chan net.Conn, 1)
	w.proxy.dial = func(context.Context, string, string) (net.Conn, error) {
		one, other := net.Pipe()
		arrived <- other
		return one, nil
	}
	conn := w.tunnel()
	go func() { _ = tls.Client(conn, &tls.Config{ServerName: publicHost}).Handshake() }()
	host := <-arrived
	must.OK(t, should.ErrOf(host.Read(make([]byte, 1))))
	go func() { _, _ = io.Copy(io.Discard, host) }()
	conn.Close()
	e := w.newest(0)
	should.Hold(t, e.Host == publicHost, "recorded as %+v", e)
}

func TestATunnelCarriesNothingButTLSForItsHost(t *testing.T) {
	w := newWorld(t, Options{Mode: Open, Hosts: hosts("public.example:22")}, hello)
	got := w.raw(connectPublic + "\x00\x01")
	should.Hold(t, strings.HasPrefix(got, "HTTP/1.1 200 ") && strings.Count(got, "\n") == 2, "bytes: %q", got)
	e := w.newest(0)
	should.Hold(t, e.Rule == "not_tls" && !e.Allowed && e.SentBytes == 0, "recorded as %+v", e)
	got = w.raw(connectPublic + "\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00")
	should.Hold(t, strings.HasPrefix(got, "HTTP/1.1 200 ") && strings.Count(got, "\n") == 2, "what begins like TLS: %q", got)
	e = w.newest(1)
	should.Hold(t, e.Rule == "not_tls" && !e.Allowed && e.SentBytes == 0, "recorded as %+v", e)
	for name, want := range map[string]string{"other.example": "other_host", "public.example": "", "": ""} {
		conn := w.tunnel()
		_, before := w.log.Of("s")
		inside := tls.Client(conn, &tls.Config{ServerName: name, InsecureSkipVerify: true})
		err := inside.Handshake()
		conn.Close()
		if e := w.newest(before); e.Rule != want || (want != "") != (err != nil && e.SentBytes == 0) && name != "" {
			t.Errorf("the name %q: %v, recorded as %+v", name, err, e)
		}
	}
}

func TestPlainHTTPInATunnelIsRead(t *testing.T) {
	w := newWorld(t, Options{Mode: Open}, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Host, r.URL, r.Header) })
	const connect = "CONNECT public.example:80 HTTP/1.1\r\nHost: public.example:80\r\n\r\n"
	got := w.raw(connect + "GET /a?b HTTP/1.1\r\nHost: public.example\r\nConnection: close\r\n\r\n")
	should.Hold(t, strings.HasSuffix(got, "public.example/a?b map[]"), "got %q", got)
	e := w.newest(0)
	should.Hold(t, e.Path == "/a" && e.Host == "public.example" && e.Allowed && e.Status == 200, "recorded as %+v", e)
	got = w.raw(connect + "GET /a HTTP/1.1\r\nHost: other.example\r\nConnection: close\r\n\r\n")
	should.Contain(t, got, "HTTP/1.1 421 other_host: this is a connection to public.example")
}

func TestARefusalIsSaidInsideATunnelForPlainHTTP(t *testing.T) {
	w := newWorld(t, Options{Mode: Allowlist, Hosts: hosts(publicHost, "missing.example")}, hello)
	for host, want := range map[string]string{"other.example": "HTTP/1.1 403 host_denied: other.example is not", "missing.example": "HTTP/1.1 502 host_unreachable: missing.example:80"} {
		_, before := w.log.Of("s")
		connect := "CONNECT " + host + ":80 HTTP/1.1\r\nHost: " + host + "\r\n\r\n"
		should.Contain(t, w.raw(connect+"GET / HTTP/1.1\r\nHost: "+host+"\r\n\r\n"), "\r\n\r\n"+want)
		e := w.newest(before)
		should.Hold(t, strings.Contains(want, e.Rule) && e.Rule != "" && e.Host == host, "recorded as %+v", e)
		got := w.raw(connect + "\x16\x03\x01")
		should.Hold(t, strings.Count(got, "\n") == 2, "TLS: got %q", got)
		e = w.newest(before + 1)
		should.Hold(t, strings.Contains(want, e.Rule) && e.Rule != "" && !e.Allowed, "recorded as %+v", e)
	}
}

func TestWhatIsNoRequestToAProxyIsRefused(t *testing.T) {
	w := newWorld(t, Options{Mode: Open}, hello)
	for _, request := range []string{
		"GET / HTTP/1.1\r\nHost: public.example\r\n\r\n", "GET https://public.example/ HTTP/1.1\r\nHost: public.example\r\n\r\n", "GET ftp://public.example/ HTTP/1.1\r\nHost: public.example\r\n\r\n",
		"CONNECT public.example:0 HTTP/1.1\r\nHost: x\r\n\r\n", "CONNECT public.example:99999 HTTP/1.1\r\nHost: x\r\n\r\n", "CONNECT [fe80::1%25eth0]:443 HTTP/1.1\r\nHost: x\r\n\r\n",
	} {
		got := w.raw(request)
		should.Hold(t, strings.HasPrefix(got, "HTTP/1.1 400 bad_request: "), "%q: %q", request, got)
	}
}

func TestRequestsGoOnAsTheyAre(t *testing.T) {
	w := newWorld(t, Options{Mode: Open}, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Link", "</style.css>")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Set("Trailer", "X-Sum")
		fmt.Fprintf(w, "%s %s %s %q %s %d", r.Method, r.Host, r.RequestURI, r.Header, body, r.ContentLength)
		w.Header().Set("X-Sum", "12")
	})
	r, _ := http.NewRequest(http.MethodPut, "http://PUBLIC.example/a%2Fb?x;y&z=%zz", strings.NewReader("the body"))
	r.Header = http.Header{"Proxy-Authorization": {"x"}, "Connection": {"X-Hop"}, "X-Hop": {"1"}, "X-Forwarded-For": {"1.2.3.4"}, "User-Agent": {"code"}}
	hinted := false
	r = r.WithContext(httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
		hinted = code == http.StatusEarlyHints && h.Get("Link") != ""
		return nil
	}}))
	response := must.Get(w.client().Do(r))(t)
	defer response.Body.Close()
	body, _ := io.ReadAll(response.Body)
	should.Equal(t, string(body), `PUT public.example /a%2Fb?x;y&z=%zz map["Connection":["close"] "Content-Length":["8"] "User-Agent":["code"]] the body 8`)
	should.Hold(t, response.Trailer.Get("X-Sum") == "12" && hinted, "the trailer is %v, hints came: %v", response.Trailer, hinted)
}

func TestAnswersComeAsTheyAreSent(t *testing.T) {
	for _, address := range []string{"http://public.example/", "https://api.example/"} {
		next := make(chan bool)
		w := newWorld(t, Options{Mode: Open, Secrets: []Secret{theSecret}}, func(w http.ResponseWriter, r *http.Request) {
			for range 3 {
				fmt.Fprint(w, "data: event\n\n")
				_ = http.NewResponseController(w).Flush()
				select {
				case <-next:
				case <-r.Context().Done():
				}
			}
		})
		response, err := w.client().Get(address)
		must.OK(t, err)
		lines := bufio.NewReader(response.Body)
		for range 3 {
			line, err := lines.ReadString('\n')
			should.Hold(t, err == nil && line == "data: event\n", "%s: got %q (%v)", address, line, err)
			_, _ = lines.ReadString('\n')
			next <- true
		}
		response.Body.Close()
	}
}

func TestLimits(t *testing.T) {
	endless := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/large" {
			w.Header().Set("Content-Length", "5000000")
		}
		for piece := bytes.Repeat([]byte("x"), 10_000); r.Context().Err() == nil; {
			if _, err := w.Write(piece); err != nil {
				return
			}
		}
	}
	hints := func(w http.ResponseWriter, r *http.Request) {
		for w.Header().Set("Link", strings.Repeat("x", 10_000)); r.Context().Err() == nil; {
			w.WriteHeader(http.StatusEarlyHints)
		}
	}
	for _, test := range []struct {
		name, address string
		limits        Limits
		handler       http.HandlerFunc
		rule          string
	}{
		{"an endless stream", "http://public.example/", Limits{RequestBytes: 1 << 20}, endless, "byte_limit"},
		{"an endless stream in a tunnel", "https://public.example/", Limits{RequestBytes: 1 << 20}, endless, "byte_limit"},
		{"an endless stream of a secret's host", "https://api.example/", Limits{RequestBytes: 1 << 20}, endless, "byte_limit"},
		{"hints without end", "http://public.example/", Limits{RequestBytes: 1 << 20}, hints, "byte_limit"},
		{"an announced size", "http://public.example/large", Limits{RequestBytes: 1 << 20}, endless, "byte_limit"},
		{"the session's bytes", "http://public.example/", Limits{SessionBytes: 1 << 20}, endless, "byte_limit"},
		{"time", "http://public.example/", Limits{Total: 100 * time.Millisecond}, endless, "time_limit"},
		{"time of a tunnel", "https://public.example/", Limits{Total: 300 * time.Millisecond}, endless, "time_limit"},
		{"silence", "http://public.example/", Limits{Idle: 100 * time.Millisecond}, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "idle_limit"},
		{"silence in a tunnel", "https://public.example/", Limits{Idle: 300 * time.Millisecond}, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "idle_limit"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, Options{Mode: Open, Limits: test.limits, Secrets: []Secret{theSecret}}, test.handler)
			status, body := w.get(test.address)
			e := w.newest(0)
			should.Hold(t, e.Rule == test.rule && (test.rule != "byte_limit" || e.ReceivedBytes <= 2<<20),
				"%s %.100s, recorded as %+v", status, body, e)
			if strings.HasPrefix(status, "200") && !strings.Contains(body, "EOF") && !strings.Contains(body, "stream error") && !strings.Contains(body, "reset") {
				t.Errorf("the end is not to be seen: %s, %d bytes, %s", status, len(body), body[max(0, len(body)-100):])
			}
			if test.limits.SessionBytes > 0 {
				if status, _ := w.get(test.address); !strings.Contains(status, "403 byte_limit: a session may send and receive 1.0 MiB each way") {
					t.Errorf("the next request: %s", status)
				}
				w.proxy.Forget("s")
				status, _ := w.get(test.address)
				should.Hold(t, status == "200 OK", "after the session has ended: %s", status)
			}
		})
	}
}

func TestABodyThatDoesNotComeIsNotWaitedFor(t *testing.T) {
	w := newWorld(t, Options{Mode: Open, Limits: Limits{Idle: 100 * time.Millisecond}}, hello)
	should.Contain(t, w.raw("POST http://public.example/ HTTP/1.1\r\nHost: public.example\r\nContent-Length: 10\r\n\r\n"), "504 idle_limit")
}

func TestWhatComesInAnotherWayCountsForItsSession(t *testing.T) {
	w := newWorld(t, Options{Mode: Open, Limits: Limits{SessionBytes: 1 << 20}}, func(http.ResponseWriter, *http.Request) {})
	should.OK(t, w.proxy.Receive("s", 1<<20))
	err := w.proxy.Receive("s", 1)
	should.Hold(t, err != nil && err.Error() == "byte_limit: a session may send and receive 1.0 MiB each way", "got %v", err)
	should.OK(t, w.proxy.Receive("other", 1))
	status, _ := w.get("http://public.example/")
	should.Hold(t, strings.HasPrefix(status, "403 byte_limit"), "%v", status)
}

func TestABodyThatIsTooLongIsCut(t *testing.T) {
	w := newWorld(t, Options{Mode: Open, Limits: Limits{RequestBytes: 1 << 20}}, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
	response, err := w.client().Post("http://public.example/", "text/plain", io.LimitReader(endlessReader{}, 20<<20))
	if err == nil {
		response.Body.Close()
		should.Equal(t, response.StatusCode, http.StatusForbidden, "%v", response.Status)
	}
	e := w.newest(0)
	should.Hold(t, e.Rule == "byte_limit" && e.SentBytes <= 2<<20, "recorded as %+v", e)
}

type endlessReader struct{}

func (endlessReader) Read(p []byte) (int, error) { return len(p), nil }

func TestConnectionsOfASession(t *testing.T) {
	release := make(chan bool)
	var most, now atomic.Int32
	w := newWorld(t, Options{Mode: Open, Limits: Limits{Connections: 2}, Secrets: []Secret{theSecret}}, func(http.ResponseWriter, *http.Request) {
		for n := now.Add(1); ; {
			if old := most.Load(); n <= old || most.CompareAndSwap(old, n) {
				break
			}
		}
		<-release
		now.Add(-1)
	})
	var all sync.WaitGroup
	for range 4 {
		for _, address := range []string{"http://public.example/", "https://api.example/"} {
			all.Go(func() {
				status, _ := w.get(address)
				should.Hold(t, status == "200 OK", "%v %v", address, status)
			})
		}
	}
	for range 8 {
		release <- true
	}
	all.Wait()
	if most.Load() > 2 {
		t.Errorf("there were %d at a time", most.Load())
	}
}

// A tunnel that a client keeps for later is none of the session's connections until it uses it again.
func TestIdleTunnelsTakeNoConnection(t *testing.T) {
	w := newWorld(t, Options{Mode: Open, Limits: Limits{Connections: 2}, Secrets: []Secret{theSecret}}, hello)
	for _, address := range []string{"https://public.example/", "https://api.example/"} {
		var clients []*http.Client
		for range 6 {
			clients = append(clients, w.client())
		}
		for range 2 {
			for _, client := range clients {
				response := must.Get(client.Get(address))(t, "%s", address)
				_, _ = io.Copy(io.Discard, response.Body)
				response.Body.Close()
			}
		}
	}
}

// A name server that gives another address each time: the one that is checked is the one that is connected to.
func TestANameThatRebindsIsNotFollowed(t *testing.T) {
	var asked atomic.Int32
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	must.OK(t, err)
	defer server.Close()
	go func() {
		buffer := make([]byte, 1500)
		for {
			n, from, err := server.ReadFrom(buffer)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(buffer[:n]) != nil || len(m.Questions) == 0 {
				continue
			}
			m.Response = true
			if q := m.Questions[0]; q.Type == dnsmessage.TypeA {
				address := [4]byte{192, 0, 2, 1} // reserved for documentation
				if asked.Add(1) > 1 {
					address = [4]byte{127, 0, 0, 1}
				}
				m.Answers = []dnsmessage.Resource{{Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class}, Body: &dnsmessage.AResource{A: address}}}
			}
			m.Additionals = nil
			if answer, err := m.Pack(); err == nil {
				_, _ = server.WriteTo(answer, from)
			}
		}
	}()
	dialer := netguard.Dialer()
	dialer.Resolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", server.LocalAddr().String())
	}}
	w := newWorld(t, Options{Mode: Open}, hello)
	w.proxy.dial = dialer.DialContext
	for range 3 {
		for _, address := range []string{"http://rebinding.test/", "https://rebinding.test/"} {
			if status, body := w.get(address); !strings.Contains(status, "address_denied: rebinding.test has an address that is private, local or reserved") {
				t.Errorf("%s: %s %s", address, status, body)
			}
		}
	}
	if asked.Load() < 2 {
		t.Errorf("the name was asked for %d times", asked.Load())
	}
}

func TestARedirectIsJudgedAnew(t *testing.T) {
	w := newWorld(t, Options{Mode: Allowlist, Hosts: hosts(publicHost)}, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://"+r.URL.Query().Get("to")+"/", http.StatusFound)
	})
	for to, want := range map[string]string{"169.254.169.254": "403 address_denied: ", "other.example": "403 host_denied: other.example is not an allowed host"} {
		status, _ := w.get("https://public.example/?to=" + to)
		should.Hold(t, strings.HasPrefix(status, want), "to %s: %s", to, status)
	}
}

func TestWhatAllSessionsSendHasALimit(t *testing.T) {
	const most = 256 << 10
	for name, address := range map[string]string{"plain": "http://public.example/", "in a tunnel": "https://public.example/"} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, Options{Mode: Open, Limits: Limits{HourBytes: most}}, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
			post := func(size int) string {
				r := must.Get(http.NewRequest(http.MethodPost, address, strings.NewReader(strings.Repeat("x", size))))(t)
				status, body := w.do(r)
				return status + " " + body
			}
			if got := post(most / 2); !strings.HasPrefix(got, "200") {
				t.Errorf("within it: %s", got)
			}
			if got := post(most); strings.HasPrefix(got, "200") {
				t.Errorf("beyond it: %s", got)
			}
			w.proxy.Forget("s") // and another session has none either
			next := func() string {
				for w.proxy.out.Take(1) == 0 {
				}
				return post(1)
			}
			got := next()
			// A byte comes back each few milliseconds: a tunnel that begins with one ends in its handshake, where there is no place for words.
			for tries := 0; tries < 50 && strings.Contains(got, "EOF"); tries++ {
				got = next()
			}
			const want = "byte_limit: all sessions together may send 256 KiB in an hour, and have; more can be sent in 1 s; the server's user can set --bytes-out-limit"
			should.Contain(t, got, want, "the next request")
			again := New(Options{Mode: Open, Limits: Limits{HourBytes: 2 * most}}) // under another policy
			again.TakeOver(w.proxy)
			should.Hold(t, again.out.Take(most) != 0, "what was sent is forgotten")
		})
	}
}

// mostMemory is what a session may make the server hold. The hosts and the clients of this test are in it, about a third,
// and garbage is not, as it depends on what else runs.
const mostMemory = 120 << 20

// inTLS makes a connection of HTTP/2 to the host of a secret.
func (w *world) inTLS(t *testing.T) *tls.Conn {
	conn := must.Get(net.Dial("tcp", w.address))(t)
	t.Cleanup(func() { conn.Close() })
	fmt.Fprint(conn, "CONNECT api.example:443 HTTP/1.1\r\nHost: api.example\r\n\r\n")
	response := must.Get(http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: http.MethodConnect}))(t)
	response.Body.Close()
	pool := x509.NewCertPool()
	pool.AddCert(w.session.certificate)
	inside := tls.Client(conn, &tls.Config{ServerName: secretHost, RootCAs: pool, NextProtos: []string{"h2"}})
	must.OK(t, should.ErrOf(inside.Write([]byte(http2.ClientPreface))))
	return inside
}

// stubborn sends requests, and reads none of the answers.
func stubborn(conn *tls.Conn, requests int, header string, body []byte) {
	framer := http2.NewFramer(conn, nil)
	_ = framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1<<31 - 1})
	_ = framer.WriteWindowUpdate(0, 1<<30)
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for i := range requests {
		block.Reset()
		for _, f := range [][2]string{{":method", "POST"}, {":scheme", "https"}, {":authority", secretHost}, {":path", "/"}, {"x-long", header}} {
			_ = encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1], Sensitive: true})
		}
		id := uint32(2*i + 1)
		rest := block.Bytes()
		first := min(len(rest), 16000)
		_ = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: rest[:first], EndHeaders: first == len(rest), EndStream: len(body) == 0})
		for rest = rest[first:]; len(rest) > 0; rest = rest[first:] {
			first = min(len(rest), 16000)
			_ = framer.WriteContinuation(id, first == len(rest), rest[:first])
		}
		if len(body) > 0 {
			_ = framer.WriteData(id, false, body)
		}
	}
}

func TestOneSessionTakesABoundedPartOfMemory(t *testing.T) {
	const connections, streams = 32, 32
	for _, test := range []struct {
		name   string
		header string
		body   []byte
	}{
		{"answers that are not read", "", nil},
		{"long headers", strings.Repeat("x", 30_000), nil},
		{"bodies that the host does not read", "", make([]byte, 1000)},
	} {
		t.Run(test.name, func(t *testing.T) {
			var sent, asked atomic.Int64
			chunk := make([]byte, 32<<10)
			w := newWorld(t, Options{Mode: Allowlist, Secrets: []Secret{theSecret}}, func(w http.ResponseWriter, r *http.Request) {
				asked.Add(1)
				for r.Context().Err() == nil {
					if _, err := w.Write(chunk); err != nil {
						return
					}
					sent.Add(1)
				}
			})
			before, most := memory(), int64(0)
			var made []*tls.Conn
			for range connections {
				made = append(made, w.inTLS(t))
			}
			var all sync.WaitGroup
			for _, conn := range made {
				all.Go(func() { stubborn(conn, streams, test.header, test.body) })
			}
			all.Wait()
			for still, last := 0, int64(-1); still < 20 || asked.Load() == 0; time.Sleep(20 * time.Millisecond) {
				most = max(most, memory()-before)
				if now := sent.Load() + asked.Load(); now == last {
					still++
				} else {
					still, last = 0, now
				}
			}
			t.Logf("%d MB, of %d requests", most>>20, asked.Load())
			should.Hold(t, most <= mostMemory, "it took %d MB", most>>20)
		})
	}
}

func memory() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// anIndex is one at index.example, with packages below /simple/.
type anIndex struct{}

func (anIndex) Hosts() []string         { return []string{"index.example"} }
func (anIndex) Serves(host string) bool { return strings.HasPrefix(host, "index.example:") }

func (anIndex) Answer(w http.ResponseWriter, r *http.Request) bool {
	if strings.HasPrefix(r.URL.Path, "/simple/") {
		fmt.Fprint(w, "a package of ", r.URL.Host)
		return true
	}
	return false
}

func TestIndexesAnswerForPackagesAndTheModeForTheRest(t *testing.T) {
	for mode, rest := range map[Mode]string{None: "403 no_network:", Allowlist: "403 host_denied: index.example is not an allowed host", Open: "200 OK"} {
		t.Run(string(mode), func(t *testing.T) {
			w := newWorld(t, Options{Mode: mode, Indexes: anIndex{}}, hello)
			for _, address := range []string{"http://index.example", "https://index.example"} {
				status, body := w.get(address + "/simple/demo/")
				should.Equal(t, status, "200 OK")
				should.Contain(t, body, "a package of index.example:")
				should.Contain(t, statusAndBody(w.get(address+"/other")), rest)
			}
			should.Equal(t, w.proxy.EndsForCode(), mode == Open)
			r, _ := http.NewRequest(http.MethodGet, "https://index.example/simple/", nil)
			r.Host = "other.example"
			should.Contain(t, statusAndBody(w.do(r)), "other_host")
		})
	}
}

// statusAndBody joins both, as a refusal by HTTP/2 has its words in the body alone.
func statusAndBody(status, body string) string {
	if code, _, _ := strings.Cut(status, " "); !strings.Contains(status, ":") && body != "" && code != "200" {
		return code + " " + body
	}
	return status
}
