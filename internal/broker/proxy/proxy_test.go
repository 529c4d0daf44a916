package proxy

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/caller"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/netlog"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/netguard"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/channel"
)

const (
	secretHost  = "api.example"
	publicHost  = "public.example"
	secretValue = `sk-T0p+Secret/Value&"1234`
)

var theSecret = Secret{Name: "API_KEY", Variable: "API_KEY", Hosts: hosts(secretHost), Value: secretValue}

func hosts(written ...string) []Host {
	all, err := ParseHosts(written)
	if err != nil {
		panic(err)
	}
	return all
}

// world is a proxy, and an internet in which every host below .example is one handler.
type world struct {
	t          testing.TB
	proxy      *Proxy
	log        *netlog.Log
	address    string // of the proxy
	internet   *Authority
	session    *Authority
	plain, tls *httptest.Server
}

func newWorld(t testing.TB, options Options, handler http.HandlerFunc) *world {
	t.Helper()
	w := &world{t: t, log: new(netlog.Log)}
	options.Log = w.log
	w.proxy = New(options)
	var err error
	if w.internet, err = NewAuthority([]string{"example"}); err != nil {
		t.Fatal(err)
	}
	w.plain = httptest.NewServer(handler)
	w.tls = httptest.NewUnstartedServer(handler)
	w.tls.EnableHTTP2 = true
	w.tls.Config.ErrorLog = quiet
	w.tls.TLS = &tls.Config{GetCertificate: func(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
		if h.ServerName == "wrong.example" {
			return w.internet.leaf("other.example")
		}
		return w.internet.leaf(h.ServerName)
	}}
	w.tls.StartTLS()
	w.proxy.roots = x509.NewCertPool()
	w.proxy.roots.AddCert(w.internet.certificate)
	w.proxy.dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		host, port, _ := net.SplitHostPort(address)
		to := w.plain
		switch {
		case host == "missing.example":
			return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
		case !strings.HasSuffix(host, ".example"):
			return netguard.Dial()(ctx, network, address)
		case port == "443":
			to = w.tls
		}
		return (&net.Dialer{}).DialContext(ctx, network, to.Listener.Addr().String())
	}
	if len(options.Secrets) > 0 {
		_, kept, err := w.proxy.Trust("s", nil)
		w.session = new(Authority)
		if err != nil || w.session.UnmarshalText(kept) != nil {
			t.Fatal(err)
		}
	}
	server := httptest.NewUnstartedServer(w.proxy)
	w.address = server.Listener.Addr().String()
	server.Listener = overChannel(t, server.Listener)
	server.Config.ErrorLog = quiet
	server.Config.BaseContext = func(net.Listener) context.Context {
		return caller.With(context.Background(), caller.Caller{Session: "s", Run: "r"})
	}
	server.Start()
	t.Cleanup(func() { server.CloseClientConnections(); server.Close(); w.plain.Close(); w.tls.Close() })
	return w
}

// overChannel returns a listener whose connections are those of another one, brought as a container brings them.
func overChannel(t testing.TB, from net.Listener) net.Listener {
	one, other := net.Pipe()
	server, supervisor := channel.New(one, channel.Options{}), channel.New(other, channel.Options{Supervisor: true})
	go func() { _, _ = server.Receive() }()
	go func() { _, _ = supervisor.Receive() }()
	t.Cleanup(func() { _, _ = server.Close(), supervisor.Close() })
	go func() {
		for {
			conn, err := from.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				stream, err := supervisor.Open()
				if err != nil {
					return
				}
				go func() {
					_, _ = io.Copy(stream, conn)
					_, _ = stream.Close(), conn.Close()
				}()
				_, _ = io.Copy(conn, stream)
				_ = stream.Close()
			}()
		}
	}()
	return channelListener{from, server}
}

type channelListener struct {
	net.Listener
	conn *channel.Conn
}

func (l channelListener) Accept() (net.Conn, error) { return l.conn.Accept() }

func (l channelListener) Close() error { return errors.Join(l.conn.Close(), l.Listener.Close()) }

// client is one that uses the proxy as code does.
func (w *world) client() *http.Client {
	pool := x509.NewCertPool()
	pool.AddCert(w.internet.certificate)
	if w.session != nil {
		pool.AddCert(w.session.certificate)
	}
	transport := &http.Transport{
		Proxy:             http.ProxyURL(&url.URL{Scheme: "http", Host: w.address}),
		TLSClientConfig:   &tls.Config{RootCAs: pool},
		ForceAttemptHTTP2: true, DisableCompression: true,
	}
	w.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// get asks for an address, with headers, and returns the status line and the body.
func (w *world) get(address string, header ...string) (status, body string) {
	w.t.Helper()
	r, err := http.NewRequest(http.MethodGet, address, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return w.do(r)
}

func (w *world) do(r *http.Request) (status, body string) {
	w.t.Helper()
	response, err := w.client().Do(r)
	if err != nil {
		return err.Error(), ""
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return response.Status, string(text) + " " + err.Error()
	}
	return response.Status, string(text)
}

// newest returns the newest entry of the log once there is one more than before.
func (w *world) newest(before int) netlog.Entry {
	w.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if all, total := w.log.Of("s"); total > before {
			return all[len(all)-1]
		}
		if time.Now().After(deadline) {
			w.t.Fatal("nothing was recorded")
		}
	}
}

func hello(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }

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
			if got := status + " " + body; !strings.Contains(got, test.want) {
				t.Errorf("%s", got)
			}
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
	response, err := client.Get("https://public.example/path?query")
	if err != nil {
		t.Fatal(err)
	}
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
	conn, err := net.Dial("tcp", w.address)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(conn, connectPublic)
	response, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: http.MethodConnect})
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	go func() { _ = tls.Client(conn, &tls.Config{ServerName: publicHost}).Handshake() }()
	host := <-arrived
	if _, err := host.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, host) }()
	conn.Close()
	if e := w.newest(0); e.Host != publicHost {
		t.Errorf("recorded as %+v", e)
	}
}

// raw sends bytes to the proxy and returns all that comes back.
func (w *world) raw(sent string) string {
	w.t.Helper()
	conn, err := net.Dial("tcp", w.address)
	if err != nil {
		w.t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	fmt.Fprint(conn, sent)
	text, _ := io.ReadAll(conn)
	return string(text)
}

const connectPublic = "CONNECT public.example:443 HTTP/1.1\r\nHost: public.example:443\r\n\r\n"

func TestATunnelCarriesNothingButTLSForItsHost(t *testing.T) {
	w := newWorld(t, Options{Mode: Open, Hosts: hosts("public.example:22")}, hello)
	if got := w.raw(connectPublic + "\x00\x01"); !strings.HasPrefix(got, "HTTP/1.1 200 ") || strings.Count(got, "\n") != 2 {
		t.Errorf("bytes: %q", got)
	}
	if e := w.newest(0); e.Rule != "not_tls" || e.Allowed || e.SentBytes != 0 {
		t.Errorf("recorded as %+v", e)
	}
	if got := w.raw(connectPublic + "\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00"); !strings.HasPrefix(got, "HTTP/1.1 200 ") || strings.Count(got, "\n") != 2 {
		t.Errorf("what begins like TLS: %q", got)
	}
	if e := w.newest(1); e.Rule != "not_tls" || e.Allowed || e.SentBytes != 0 {
		t.Errorf("recorded as %+v", e)
	}
	for name, want := range map[string]string{"other.example": "other_host", "public.example": "", "": ""} {
		conn, err := net.Dial("tcp", w.address)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(conn, connectPublic)
		response, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: http.MethodConnect})
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		_, before := w.log.Of("s")
		inside := tls.Client(conn, &tls.Config{ServerName: name, InsecureSkipVerify: true})
		err = inside.Handshake()
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
	if !strings.HasSuffix(got, "public.example/a?b map[]") {
		t.Errorf("got %q", got)
	}
	if e := w.newest(0); e.Path != "/a" || e.Host != "public.example" || !e.Allowed || e.Status != 200 {
		t.Errorf("recorded as %+v", e)
	}
	got = w.raw(connect + "GET /a HTTP/1.1\r\nHost: other.example\r\nConnection: close\r\n\r\n")
	if !strings.Contains(got, "HTTP/1.1 421 other_host: this is a connection to public.example") {
		t.Errorf("got %q", got)
	}
}

func TestARefusalIsSaidInsideATunnelForPlainHTTP(t *testing.T) {
	w := newWorld(t, Options{Mode: Allowlist, Hosts: hosts(publicHost, "missing.example")}, hello)
	for host, want := range map[string]string{"other.example": "HTTP/1.1 403 host_denied: other.example is not", "missing.example": "HTTP/1.1 502 host_unreachable: missing.example:80"} {
		_, before := w.log.Of("s")
		connect := "CONNECT " + host + ":80 HTTP/1.1\r\nHost: " + host + "\r\n\r\n"
		if got := w.raw(connect + "GET / HTTP/1.1\r\nHost: " + host + "\r\n\r\n"); !strings.Contains(got, "\r\n\r\n"+want) {
			t.Errorf("got %q", got)
		}
		if e := w.newest(before); !strings.Contains(want, e.Rule) || e.Rule == "" || e.Host != host {
			t.Errorf("recorded as %+v", e)
		}
		if got := w.raw(connect + "\x16\x03\x01"); strings.Count(got, "\n") != 2 {
			t.Errorf("TLS: got %q", got)
		}
		if e := w.newest(before + 1); !strings.Contains(want, e.Rule) || e.Rule == "" || e.Allowed {
			t.Errorf("recorded as %+v", e)
		}
	}
}

func TestWhatIsNoRequestToAProxyIsRefused(t *testing.T) {
	w := newWorld(t, Options{Mode: Open}, hello)
	for _, request := range []string{
		"GET / HTTP/1.1\r\nHost: public.example\r\n\r\n", "GET https://public.example/ HTTP/1.1\r\nHost: public.example\r\n\r\n", "GET ftp://public.example/ HTTP/1.1\r\nHost: public.example\r\n\r\n",
		"CONNECT public.example:0 HTTP/1.1\r\nHost: x\r\n\r\n", "CONNECT public.example:99999 HTTP/1.1\r\nHost: x\r\n\r\n", "CONNECT [fe80::1%25eth0]:443 HTTP/1.1\r\nHost: x\r\n\r\n",
	} {
		if got := w.raw(request); !strings.HasPrefix(got, "HTTP/1.1 400 bad_request: ") {
			t.Errorf("%q: %q", request, got)
		}
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
	response, err := w.client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(response.Body)
	if want := `PUT public.example /a%2Fb?x;y&z=%zz map["Connection":["close"] "Content-Length":["8"] "User-Agent":["code"]] the body 8`; string(body) != want {
		t.Errorf("got %s", body)
	}
	if response.Trailer.Get("X-Sum") != "12" || !hinted {
		t.Errorf("the trailer is %v, hints came: %v", response.Trailer, hinted)
	}
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
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewReader(response.Body)
		for range 3 {
			line, err := lines.ReadString('\n')
			if err != nil || line != "data: event\n" {
				t.Errorf("%s: got %q (%v)", address, line, err)
			}
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
	for _, test := range []struct {
		name, address string
		limits        Limits
		handler       http.HandlerFunc
		rule          string
	}{
		{"an endless stream", "http://public.example/", Limits{RequestBytes: 1 << 20}, endless, "byte_limit"},
		{"an endless stream in a tunnel", "https://public.example/", Limits{RequestBytes: 1 << 20}, endless, "byte_limit"},
		{"an endless stream of a secret's host", "https://api.example/", Limits{RequestBytes: 1 << 20}, endless, "byte_limit"},
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
			if e.Rule != test.rule || test.rule == "byte_limit" && e.ReceivedBytes > 2<<20 {
				t.Errorf("%s %.100s, recorded as %+v", status, body, e)
			}
			if strings.HasPrefix(status, "200") && !strings.Contains(body, "EOF") && !strings.Contains(body, "stream error") && !strings.Contains(body, "reset") {
				t.Errorf("the end is not to be seen: %s, %d bytes, %s", status, len(body), body[max(0, len(body)-100):])
			}
			if test.limits.SessionBytes > 0 {
				if status, _ := w.get(test.address); !strings.Contains(status, "403 byte_limit: a session may send and receive 1.0 MiB each way; the server's user can set --network-byte-limit") {
					t.Errorf("the next request: %s", status)
				}
				w.proxy.Forget("s")
				if status, _ := w.get(test.address); status != "200 OK" {
					t.Errorf("after the session has ended: %s", status)
				}
			}
		})
	}
}

func TestWhatComesInAnotherWayCountsForItsSession(t *testing.T) {
	w := newWorld(t, Options{Mode: Open, Limits: Limits{SessionBytes: 1 << 20}}, func(http.ResponseWriter, *http.Request) {})
	if err := w.proxy.Receive("s", 1<<20); err != nil {
		t.Error(err)
	}
	if err := w.proxy.Receive("s", 1); err == nil || err.Error() != "byte_limit: a session may send and receive 1.0 MiB each way; the server's user can set --network-byte-limit" {
		t.Errorf("got %v", err)
	}
	if err := w.proxy.Receive("other", 1); err != nil {
		t.Error(err)
	}
	if status, _ := w.get("http://public.example/"); !strings.HasPrefix(status, "403 byte_limit") {
		t.Error(status)
	}
}

func TestABodyThatIsTooLongIsCut(t *testing.T) {
	w := newWorld(t, Options{Mode: Open, Limits: Limits{RequestBytes: 1 << 20}}, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
	response, err := w.client().Post("http://public.example/", "text/plain", io.LimitReader(endlessReader{}, 20<<20))
	if err == nil {
		response.Body.Close()
		if response.StatusCode != http.StatusForbidden {
			t.Error(response.Status)
		}
	}
	if e := w.newest(0); e.Rule != "byte_limit" || e.SentBytes > 2<<20 {
		t.Errorf("recorded as %+v", e)
	}
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
				if status, _ := w.get(address); status != "200 OK" {
					t.Error(address, status)
				}
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
				response, err := client.Get(address)
				if err != nil {
					t.Fatalf("%s: %v", address, err)
				}
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
	if err != nil {
		t.Fatal(err)
	}
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
		if status, _ := w.get("https://public.example/?to=" + to); !strings.HasPrefix(status, want) {
			t.Errorf("to %s: %s", to, status)
		}
	}
}

// echo answers with all that it was sent.
func echo(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	for _, name := range []string{"X-Api-Key", "Authorization"} {
		if value := r.Header.Get(name); value != "" {
			w.Header().Set("Echo-"+name, value)
		}
	}
	fmt.Fprintf(w, "%s %s %d %q %q %s", r.Method, r.RequestURI, r.ContentLength, r.Header["X-Api-Key"], r.Header["Authorization"], body)
}

// seen keeps what a host was really sent.
type seen struct {
	mu  sync.Mutex
	all []string
}

func (s *seen) echo(w http.ResponseWriter, r *http.Request) {
	text, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(text))
	s.mu.Lock()
	s.all = append(s.all, fmt.Sprint(r.Host, " ", r.RequestURI, " ", r.Header, " ", r.ContentLength, " ", string(text)))
	s.mu.Unlock()
	echo(w, r)
}

func (s *seen) last() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all) == 0 {
		return ""
	}
	return s.all[len(s.all)-1]
}

func TestASecretIsReplacedForItsHostAndMaskedInAnswers(t *testing.T) {
	inQuery, inBody := theSecret, theSecret
	inQuery.Query, inBody.Body = true, true
	key := theSecret.Placeholder()
	long := strings.Repeat("a", 300<<10)
	for _, test := range []struct {
		name    string
		secret  Secret
		query   string
		header  []string
		body    string
		arrives string
	}{
		{"in a header", theSecret, "", []string{"X-Api-Key", key}, "", "X-Api-Key:[" + secretValue + "]"},
		{"within a header", theSecret, "", []string{"Authorization", "Bearer " + key}, "", "Authorization:[Bearer " + secretValue + "]"},
		{"as a password", theSecret, "", []string{"Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte("me:"+key))}, "", base64.StdEncoding.EncodeToString([]byte("me:" + secretValue))},
		{"in a query", inQuery, "?key=" + key + "&x=1", nil, "", "?key=" + url.QueryEscape(secretValue) + "&x=1"},
		{"in a body", inBody, "", nil, "plain " + key + " text", fmt.Sprintf("%d plain %s text", len("plain  text")+len(secretValue), secretValue)},
		{"in a form", inBody, "", []string{"Content-Type", "application/x-www-form-urlencoded"}, "key=" + key + "&x=1", "key=" + url.QueryEscape(secretValue) + "&x=1"},
		{"in JSON", inBody, "", []string{"Content-Type", "application/json; charset=utf-8"}, `{"key": "` + key + `"}`, `{"key": "` + strings.ReplaceAll(secretValue, `"`, `\"`) + `"}`},
		{"in a long body", inBody, "", nil, long + key + long + key, "-1 " + long + secretValue + long + secretValue},
	} {
		t.Run(test.name, func(t *testing.T) {
			var s seen
			w := newWorld(t, Options{Mode: Allowlist, Secrets: []Secret{test.secret}}, s.echo)
			r, _ := http.NewRequest(http.MethodPost, "https://api.example/v1"+test.query, strings.NewReader(test.body))
			for i := 0; i < len(test.header); i += 2 {
				r.Header.Set(test.header[i], test.header[i+1])
			}
			response, err := w.client().Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			body, _ := io.ReadAll(response.Body)
			if response.StatusCode != http.StatusOK || !strings.Contains(s.last(), test.arrives) || strings.Contains(s.last(), key) {
				t.Errorf("%s: the host has seen %.500q", response.Status, s.last())
			}
			answer := fmt.Sprint(response.Header, string(body))
			if w.proxy.mask.In([]byte(answer)) || !strings.Contains(answer, "[masked: API_KEY]") || strings.Contains(answer, "Secret") {
				t.Errorf("the answer is %.500q", answer)
			}
			if len(test.header) > 0 && test.header[0] != "Content-Type" && !strings.Contains(fmt.Sprint(response.Header), "[masked") {
				t.Errorf("the headers are %v", response.Header)
			}
			if e := w.newest(0); e.Method != http.MethodPost || e.Host != secretHost || e.Path != "/v1" || !e.Allowed || e.Status != 200 || e.SentBytes == 0 || e.ReceivedBytes == 0 {
				t.Errorf("recorded as %+v", e)
			}
		})
	}
}

func TestAPlaceholderThatMayNotBeThereIsNotSent(t *testing.T) {
	other := Secret{Name: "OTHER", Variable: "OTHER", Hosts: hosts("other.example"), Query: true, Body: true, Value: "another-Secret-9876"}
	key, otherKey := theSecret.Placeholder(), other.Placeholder()
	var s seen
	w := newWorld(t, Options{Mode: Open, Secrets: []Secret{theSecret, other}}, s.echo)
	for _, test := range []struct {
		name, address, header, body, words string
	}{
		{"plain HTTP to its host", "http://api.example/", key, "", "in a header of a request to api.example:80, which was not sent: the value goes out by https:// alone"},
		{"plain HTTP to another host", "http://public.example/", key, "", "the value goes to api.example alone"},
		{"the password of another host", "http://public.example/", "Basic " + base64.StdEncoding.EncodeToString([]byte("me:"+key)), "", "the value goes to api.example alone"},
		{"an address of another host", "http://public.example/?x=" + key, "", "", "in the query of an address of a request to public.example:80"},
		{"a path", "https://api.example/" + key + "/x", "", "", "in an address of a request to api.example:443, which was not sent: put it into a header"},
		{"a query that was not asked for", "https://api.example/?key=" + key, "", "", "put it into a header, or the server's user can add ,query to --secret API_KEY@api.example"},
		{"a body that was not asked for", "https://api.example/", "", "key=" + key, "put it into a header, or the server's user can add ,body to --secret API_KEY@api.example"},
		{"a body of another host", "http://public.example/", "", "key=" + key, "the value goes to api.example alone"},
		{"another secret's host", "https://other.example/", key, "", "the value goes to api.example alone"},
		{"both", "https://api.example/", key + otherKey, "", "the placeholder of OTHER is in a header of a request to api.example:443, which was not sent: the value goes to other.example alone"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r, _ := http.NewRequest(http.MethodPost, test.address, strings.NewReader(test.body))
			if test.header != "" {
				r.Header.Set("Authorization", test.header)
			}
			status, body := w.do(r)
			if !strings.HasPrefix(status, "403") || !strings.Contains(body, test.words) || !strings.HasPrefix(body, "placeholder_denied: ") {
				t.Errorf("%s %s", status, body)
			}
			if s.last() != "" {
				t.Errorf("the host has seen %s", s.last())
			}
		})
	}
}

func TestARedirectToAnotherHostDoesNotCarryASecret(t *testing.T) {
	var s seen
	w := newWorld(t, Options{Mode: Open, Secrets: []Secret{theSecret}}, func(w http.ResponseWriter, r *http.Request) {
		if r.Host == secretHost {
			http.Redirect(w, r, "https://public.example/?stolen="+url.QueryEscape(r.Header.Get("X-Api-Key")), http.StatusTemporaryRedirect)
			return
		}
		s.echo(w, r)
	})
	status, _ := w.get("https://api.example/", "X-Api-Key", theSecret.Placeholder())
	if got := s.last(); !strings.Contains(got, "X-Api-Key:["+theSecret.Placeholder()+"]") || w.proxy.mask.In([]byte(got)) || !strings.Contains(got, "masked") {
		t.Errorf("%s: the other host has seen %s", status, got)
	}
}

func TestATunnelOfASecretIsForItsHostAlone(t *testing.T) {
	var s seen
	w := newWorld(t, Options{Mode: Open, Secrets: []Secret{theSecret}}, s.echo)
	r, _ := http.NewRequest(http.MethodGet, "https://api.example/", nil)
	r.Host = "public.example"
	r.Header.Set("X-Api-Key", theSecret.Placeholder())
	if status, body := w.do(r); !strings.HasPrefix(status, "421") || !strings.Contains(body, "other_host: this is a connection to api.example") || s.last() != "" {
		t.Errorf("%s %s %s", status, body, s.last())
	}
}

func TestAHostThatCannotBeVerifiedGetsNoSecret(t *testing.T) {
	var s seen
	wrong := theSecret
	wrong.Hosts = hosts("wrong.example")
	w := newWorld(t, Options{Mode: Allowlist, Secrets: []Secret{wrong}}, s.echo)
	status, body := w.get("https://wrong.example/", "X-Api-Key", wrong.Placeholder())
	if !strings.HasPrefix(status, "502") || body != "host_unreachable: wrong.example:443 could not be reached: its TLS certificate is not valid\n" || s.last() != "" {
		t.Errorf("%s %s %s", status, body, s.last())
	}
}

func TestASessionWithoutAnAuthority(t *testing.T) {
	w := newWorld(t, Options{Mode: Allowlist, Secrets: []Secret{theSecret}}, hello)
	w.proxy.Forget("s")
	if status, _ := w.get("https://api.example/"); !strings.Contains(status, "no_authority: this session began without certificates for api.example") {
		t.Error(status)
	}
}

func TestTheAuthorityOfASessionIsKept(t *testing.T) {
	other := theSecret
	other.Hosts = hosts("other.example")
	with := func(s ...Secret) *Proxy { return New(Options{Mode: Allowlist, Secrets: s}) }
	if certificate, kept, err := New(Options{}).Trust("s", []byte("x")); certificate != "" || kept != nil || err != nil {
		t.Errorf("without secrets: %q %q %v", certificate, kept, err)
	}
	first, kept, err := with(theSecret).Trust("s", nil)
	if err != nil || !strings.HasPrefix(first, "-----BEGIN CERTIFICATE-----") || strings.Contains(first, "PRIVATE") {
		t.Fatalf("%s %v", first, err)
	}
	for _, test := range []struct {
		name string
		p    *Proxy
		kept []byte
		same bool
	}{
		{"the same hosts", with(theSecret), kept, true}, {"other hosts", with(other), kept, false}, {"nothing", with(theSecret), nil, false}, {"garbage", with(theSecret), []byte("x"), false},
	} {
		if again, _, err := test.p.Trust("s", test.kept); err != nil || (again == first) != test.same {
			t.Errorf("%s: the same is %v (%v)", test.name, again == first, err)
		}
	}
}

func gzipped(text string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	fmt.Fprint(z, text)
	_ = z.Close()
	return b.String()
}

func TestAnswersAreMaskedWhateverTheirEncodingsOrRefused(t *testing.T) {
	const masked, refused = "it is [masked: API_KEY]", "encoding: the host "
	for _, test := range []struct {
		name      string
		status    int
		encodings []string // of headers
		times     int      // that the body is encoded
		want      string
	}{
		{"none", 200, nil, 0, masked},
		{"one that is none", 200, []string{"Identity", " "}, 0, masked},
		{"the one that was asked for", 200, []string{"gzip"}, 1, masked},
		{"its older name", 200, []string{" X-GZip "}, 1, masked},
		{"behind one that is none", 200, []string{"identity", "gzip"}, 1, masked},
		{"in one header with one that is none", 200, []string{"identity, gzip,"}, 1, masked},
		{"twice", 200, []string{"gzip", "gzip"}, 2, refused},
		{"twice in one header", 200, []string{"gzip, x-gzip"}, 2, refused},
		{"one that was not asked for", 200, []string{"br"}, 0, refused},
		{"within the one that was asked for", 200, []string{"gzip", "br"}, 1, refused},
		{"a part", 206, nil, 0, refused},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, Options{Mode: Allowlist, Secrets: []Secret{theSecret}}, func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Range") != "" || r.Header.Get("Accept-Encoding") != "gzip" {
					t.Errorf("the headers are %v", r.Header)
				}
				body := "it is " + r.Header.Get("X-Api-Key")
				for range test.times {
					body = gzipped(body)
				}
				w.Header()["Content-Encoding"] = test.encodings
				w.WriteHeader(test.status)
				fmt.Fprint(w, body)
			})
			for _, accept := range []string{"gzip, br", "br", "identity"} {
				status, body := w.get("https://api.example/", "X-Api-Key", theSecret.Placeholder(), "Accept-Encoding", accept, "Range", "bytes=1-2")
				if !strings.HasPrefix(body, test.want) || (test.want == masked) != (status == "200 OK") {
					t.Errorf("%s: %s %q", accept, status, body)
				}
			}
		})
	}
}

func TestHintsTrailersAndNamesAreMasked(t *testing.T) {
	w := newWorld(t, Options{Mode: Allowlist, Secrets: []Secret{theSecret}}, func(w http.ResponseWriter, r *http.Request) {
		key := r.Header.Get("X-Api-Key")
		w.Header().Set("Link", key)
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Set("Trailer", "X-Echo")
		fmt.Fprint(w, key[:10])
		_ = http.NewResponseController(w).Flush()
		fmt.Fprint(w, key[10:])
		w.Header().Set("X-Echo", key)
		w.Header().Set(http.TrailerPrefix+"X-Late", key)
	})
	r, _ := http.NewRequest(http.MethodGet, "https://api.example/", nil)
	r.Header.Set("X-Api-Key", theSecret.Placeholder())
	var hint string
	r = r.WithContext(httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(_ int, h textproto.MIMEHeader) error {
		hint = h.Get("Link")
		return nil
	}}))
	response, err := w.client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(response.Body)
	const want = "[masked: API_KEY]"
	if hint != want || string(body) != want || response.Header.Get("Link") != want || response.Trailer.Get("X-Echo") != want || response.Trailer.Get("X-Late") != want {
		t.Errorf("hint %q, body %q, header %v, trailer %v", hint, body, response.Header, response.Trailer)
	}
}

// A client keeps its connection to a host, and nothing that happens between two requests ends it.
func TestConnectionsAreKeptAlive(t *testing.T) {
	w := newWorld(t, Options{Mode: Open, Secrets: []Secret{theSecret}}, hello)
	for _, address := range []string{"http://public.example/", "https://public.example/", "https://api.example/"} {
		client := w.client()
		client.Transport.(*http.Transport).ForceAttemptHTTP2 = false
		made := 0
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) {
			if !c.Reused {
				made++
			}
		}})
		for range 40 {
			r, _ := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader("body"))
			response, err := client.Do(r)
			if err != nil {
				t.Fatalf("%s: %v", address, err)
			}
			_, _ = io.Copy(io.Discard, response.Body)
			response.Body.Close()
		}
		if made != 1 {
			t.Errorf("%s: 40 requests took %d connections", address, made)
		}
	}
}

func TestWebsockets(t *testing.T) {
	w := newWorld(t, Options{Mode: Open, Secrets: []Secret{theSecret}}, func(w http.ResponseWriter, r *http.Request) {
		conn, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nX-Echo: %s\r\n\r\n", r.Header.Get("X-Api-Key"))
		for {
			line, err := buffered.ReadString('\n')
			if err != nil {
				return
			}
			fmt.Fprintf(conn, "%s %s s", strings.TrimSpace(line), r.Header.Get("X-Api-Key"))
		}
	})
	for _, address := range []string{"http://public.example/", "https://api.example/"} {
		r, _ := http.NewRequest(http.MethodGet, address, nil)
		r.Header.Set("Connection", "Upgrade")
		r.Header.Set("Upgrade", "websocket")
		key, want := "", "hello  s"
		if strings.HasPrefix(address, "https:") {
			key, want = theSecret.Placeholder(), "hello "+strings.Repeat("*", len(secretValue))+" s"
		}
		r.Header.Set("X-Api-Key", key)
		response, err := w.client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if response.StatusCode != http.StatusSwitchingProtocols || strings.Contains(response.Header.Get("X-Echo"), "Secret") {
			t.Fatalf("%s %v", response.Status, response.Header)
		}
		defer response.Body.Close()
		conn := response.Body.(io.ReadWriteCloser)
		for range 2 {
			fmt.Fprint(conn, "hello\n")
			got := make([]byte, len(want))
			if _, err := io.ReadFull(conn, got); err != nil || string(got) != want {
				t.Errorf("%s: %q (%v)", address, got, err)
			}
		}
	}
}

func TestAWebsocketThatIsCompressedIsRefused(t *testing.T) {
	w := newWorld(t, Options{Mode: Allowlist, Secrets: []Secret{theSecret}}, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Sec-Websocket-Extensions") != "" {
			t.Errorf("the headers are %v", r.Header)
		}
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Extensions: permessage-deflate\r\n\r\n")
	})
	status, body := w.get("https://api.example/", "Connection", "Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Extensions", "permessage-deflate")
	if !strings.HasPrefix(status, "502") || !strings.HasPrefix(body, "encoding: the host compresses the messages of a websocket") {
		t.Errorf("%s %q", status, body)
	}
}

func TestAuthoritiesAreKept(t *testing.T) {
	a, err := NewAuthority([]string{"b.example", "a.example"})
	if err != nil {
		t.Fatal(err)
	}
	text, err := a.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	b := new(Authority)
	if err := b.UnmarshalText(text); err != nil {
		t.Fatal(err)
	}
	if !b.Covers([]string{"a.example", "b.example"}) || b.Covers([]string{"a.example", "c.example"}) || !bytes.Equal(a.CertificatePEM(), b.CertificatePEM()) {
		t.Errorf("it is another one: %v", b.certificate.PermittedDNSDomains)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(a.CertificatePEM())
	for host, want := range map[string]bool{"a.example": true, "c.example": false, "example": false} {
		leaf, err := b.leaf(host)
		if err != nil {
			t.Fatal(err)
		}
		if again, _ := b.leaf(host); again != leaf {
			t.Error("a certificate is not kept")
		}
		if _, err := leaf.Leaf.Verify(x509.VerifyOptions{DNSName: host, Roots: pool}); (err == nil) != want {
			t.Errorf("%s: %v", host, err)
		}
	}
	for _, broken := range []string{"", "x", string(a.CertificatePEM())} {
		if new(Authority).UnmarshalText([]byte(broken)) == nil {
			t.Errorf("%q is taken for an authority", broken)
		}
	}
	if _, err := NewAuthority(nil); err == nil {
		t.Error("an authority for every host")
	}
}

func TestWordsForAModel(t *testing.T) {
	for want, options := range map[string]Options{
		"": {},
		"only api.github.com, *.example.com by HTTP(S)":             {Mode: Allowlist, Hosts: hosts("api.github.com", "*.example.com")},
		"public hosts by HTTP(S), on the ports 80, 443, 8080, 8443": {Mode: Open},
		"only api.example by HTTP(S); API_KEY has a placeholder, which is replaced by the value in headers of requests to https://api.example": {Mode: Allowlist, Secrets: []Secret{theSecret}},
	} {
		if got := New(options).Summary(); got != want {
			t.Errorf("%s", got)
		}
	}
	p := New(Options{Mode: Allowlist, Secrets: []Secret{theSecret}})
	if env := p.Environment(); len(env) != 1 || env["API_KEY"] != theSecret.Placeholder() {
		t.Errorf("%v", env)
	}
}
