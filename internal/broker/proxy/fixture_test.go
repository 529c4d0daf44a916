package proxy

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/caller"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/netlog"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/netguard"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/channel"
)

const (
	secretHost  = "api.example"
	publicHost  = "public.example"
	insideHost  = "gitlab.corp"
	anInside    = "10.201.77.3" // its address
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

func insides(written ...string) []Host {
	all, err := ParseInsides(written)
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
	names      resolver // of hosts inside
}

// resolver has what names lead to, and what was connected to inside.
type resolver struct {
	mu      sync.Mutex
	led     map[string][]string
	lookups int
	dialled []string
}

// lead has a name lead to addresses from now on.
func (n *resolver) lead(name string, to ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.led == nil {
		n.led = make(map[string][]string)
	}
	n.led[name] = to
}

func (n *resolver) lookup(_ context.Context, host string) (found []netip.Addr, err error) {
	if address, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{address}, nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lookups++
	for _, address := range n.led[host] {
		found = append(found, netip.MustParseAddr(address))
	}
	if found == nil {
		err = &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	return found, err
}

// taken returns what was connected to inside since the last time.
func (n *resolver) taken() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := strings.Join(n.dialled, " ")
	n.dialled = nil
	return all
}

func newWorld(t testing.TB, options Options, handler http.HandlerFunc) *world {
	t.Helper()
	w := &world{t: t, log: new(netlog.Log)}
	options.Log = w.log
	w.proxy = New(options)
	var err error
	w.internet, err = newAuthority([]string{"example", "corp", "10.0.0.0/8"})
	must.OK(t, err)
	w.plain = httptest.NewServer(handler)
	w.tls = httptest.NewUnstartedServer(handler)
	w.tls.EnableHTTP2 = true
	w.tls.Config.ErrorLog = quiet
	unnamed, err := w.internet.leaf(anInside)
	must.OK(t, err)
	w.tls.TLS = &tls.Config{Certificates: []tls.Certificate{*unnamed}, GetCertificate: func(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
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
	w.proxy.lookup = w.names.lookup
	w.proxy.dialInside = func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
		if !netguard.IsInside(to.Addr()) {
			return netguard.DialInside(ctx, to)
		}
		w.names.mu.Lock()
		w.names.dialled = append(w.names.dialled, to.String())
		w.names.mu.Unlock()
		host := w.plain
		if to.Port() == 443 {
			host = w.tls
		}
		return (&net.Dialer{}).DialContext(ctx, "tcp", host.Listener.Addr().String())
	}
	if len(w.proxy.endedHosts()) > 0 {
		_, kept, err := w.proxy.Trust("s", nil)
		w.session = new(Authority)
		must.Hold(t, err == nil && w.session.UnmarshalText(kept) == nil, "%v", err)
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
	r := must.Get(http.NewRequest(http.MethodGet, address, nil))(w.t)
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
		must.Hold(w.t, !time.Now().After(deadline), "nothing was recorded")
	}
}

func hello(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }

// raw sends bytes to the proxy and returns all that comes back.
func (w *world) raw(sent string) string {
	w.t.Helper()
	conn := must.Get(net.Dial("tcp", w.address))(w.t)
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	fmt.Fprint(conn, sent)
	text, _ := io.ReadAll(conn)
	return string(text)
}

const connectPublic = "CONNECT public.example:443 HTTP/1.1\r\nHost: public.example:443\r\n\r\n"

// tunnel returns a connection that the proxy has opened to the public host.
func (w *world) tunnel() net.Conn {
	w.t.Helper()
	conn := must.Get(net.Dial("tcp", w.address))(w.t)
	fmt.Fprint(conn, connectPublic)
	response := must.Get(http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: http.MethodConnect}))(w.t)
	response.Body.Close()
	return conn
}
