package proxy

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/caller"
)

// connect answers CONNECT. It examines the tunnel's first bytes before it sends anything to the host: TLS for the host goes on as it is, or
// ends here if the host belongs to a secret or an index or its requests are restricted, and plain HTTP is read. All else is refused. If the
// host is denied, only plain HTTP is answered, and requests to an index.
func (p *Proxy) connect(w http.ResponseWriter, r *http.Request, x *exchange, t target, v verdict) *refusal {
	found := p.secretsOf(t)
	denied, endsHere := v.denied, len(found) > 0 || v.only != nil || v.isIndex
	if v.isIndex {
		denied = nil // the requests are told
	}
	var authority *Authority
	var upstream net.Conn
	switch {
	case denied != nil:
	case endsHere:
		authority = p.authority(x.session)
		if authority == nil || !authority.permits(t.name) { // the policy may have changed since
			return &refusal{status: http.StatusBadGateway, rule: "no_authority", words: "this session began without certificates for " + t.name + ", a host of a secret or of packages or with restricted requests; close the session and begin a new one"}
		}
	default:
		var err error
		if upstream, err = p.reach(x.ctx, t, v); err == nil {
			defer func() { _ = upstream.Close() }()
		} else if denied = x.failed(t, err); !isExplained(r, t) {
			return denied
		}
	}
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return &refusal{status: http.StatusHTTPVersionNotSupported, rule: "bad_request", words: "tunnels are for HTTP/1.1"}
	}
	_ = conn.SetDeadline(time.Time{})
	// Behind the bytes read ahead, the connection itself: the server's own reader would end the request's context with the first deadline.
	ahead, _ := buffered.Peek(buffered.Reader.Buffered())
	reader := bufio.NewReader(io.MultiReader(bytes.NewReader(bytes.Clone(ahead)), conn))
	client := caller.NewConn(conn, reader)
	defer func() { _ = client.Close() }()
	defer context.AfterFunc(x.ctx, func() { _ = client.Close() })()
	x.entry.Status = http.StatusOK
	if _, err := io.WriteString(conn, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return nil
	}
	first, err := reader.Peek(1)
	switch isTLS := err == nil && first[0] == recordHandshake; {
	case err != nil:
	case denied != nil && (isTLS || !isHTTP(first)):
		x.entry.Allowed, x.entry.Rule = false, denied.rule
	case isTLS && endsHere:
		rt := p.route(t, v, nil)
		rt.isSecure, rt.secrets = true, found
		p.serveInside(x, client, rt, authority)
	case isTLS:
		x.tunnel(client, upstream, t)
	case isHTTP(first):
		if !v.isIndex {
			v.denied = denied
		}
		rt := p.route(t, v, upstream)
		p.serveInside(x, client, rt, nil)
	default:
		x.entry.Allowed, x.entry.Rule = false, "not_tls"
	}
	return nil
}

// isHTTP reports whether a request may begin so.
func isHTTP(first []byte) bool { return 'A' <= first[0] && first[0] <= 'Z' }

// recordHandshake is the first byte of TLS.
const recordHandshake = 0x16

// tunnel passes TLS on, if it is for the host.
func (x *exchange) tunnel(client *caller.Conn, upstream net.Conn, t target) {
	defer context.AfterFunc(x.ctx, func() { _ = upstream.Close() })()
	hello, name, err := readHello(x.ctx, client)
	if err != nil {
		x.entry.Allowed, x.entry.Rule = false, "not_tls"
		return
	}
	if named, err := normalize(name); name != "" && (err != nil || named != t.name) {
		// A client reports little of an alert, but it reports it.
		_, _ = client.Write(alertUnrecognizedName)
		x.entry.Allowed, x.entry.Rule = false, "other_host"
		return
	}
	quiet := time.AfterFunc(quietWait, x.leave)
	defer quiet.Stop()
	passing := func(count func(int) error) func(int) error {
		return func(n int) error {
			if err := x.resume(x.ctx); err != nil {
				return err
			}
			quiet.Reset(quietWait)
			return count(n)
		}
	}
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		_ = x.copy(upstream, io.MultiReader(bytes.NewReader(hello), client), passing(x.send))
		_ = upstream.Close() // connections of code cannot be half closed
	}()
	_ = x.copy(client, upstream, passing(x.receive))
	_ = client.Close()
	<-sent
}

// alertUnrecognizedName ends TLS for a server name that the host does not have.
var alertUnrecognizedName = []byte{0x15, 3, 3, 0, 2, 2, 112}

// copy passes bytes on and counts them. It returns nil at their end.
func (x *exchange) copy(to io.Writer, from io.Reader, count func(int) error) error {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			if err := count(n); err != nil {
				return err
			}
			if _, err := to.Write(buffer[:n]); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// readHello reads TLS's beginning, and returns it with the host that it names, if it names one.
func readHello(ctx context.Context, from net.Conn) (hello []byte, name string, err error) {
	var read bytes.Buffer
	isHello := false
	server := tls.Server(helloConn{from, io.TeeReader(from, &read)}, &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
			isHello, name = true, h.ServerName
			return nil, errors.New("that is all")
		},
	})
	if err = server.HandshakeContext(ctx); !isHello {
		return nil, "", fmt.Errorf("no TLS: %w", err)
	}
	return read.Bytes(), name, nil
}

// helloConn is a connection that is only read.
type helloConn struct {
	net.Conn
	reader io.Reader
}

func (c helloConn) Read(p []byte) (int, error)       { return c.reader.Read(p) }
func (c helloConn) Write(p []byte) (int, error)      { return len(p), nil }
func (c helloConn) Close() error                     { return nil }
func (c helloConn) SetDeadline(time.Time) error      { return nil }
func (c helloConn) SetReadDeadline(time.Time) error  { return nil }
func (c helloConn) SetWriteDeadline(time.Time) error { return nil }

// serveInside reads the requests that come through a tunnel, in TLS if there is an authority.
func (p *Proxy) serveInside(x *exchange, client *caller.Conn, rt *route, authority *Authority) {
	defer rt.transport.CloseIdleConnections()
	rt.asked = x.asked
	x.idle.Stop() // each request runs its own timer, and is one of the session's connections
	x.leave()
	server := &http.Server{
		BaseContext:    func(net.Listener) context.Context { return x.ctx },
		MaxHeaderBytes: maxHeaderBytes, ErrorLog: quiet,
		ReadHeaderTimeout: p.options.Limits.Idle, IdleTimeout: p.options.Limits.Idle,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: maxStreams, MaxReadFrameSize: codeWindow / 4,
			MaxReceiveBufferPerStream: codeWindow, MaxReceiveBufferPerConnection: 4 * codeWindow,
		},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			x.silent.Store(true)
			p.serveRequest(w, r, rt)
		}),
	}
	if authority == nil {
		_ = server.Serve(client)
		return
	}
	server.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
		if name, err := normalize(h.ServerName); h.ServerName != "" && (err != nil || name != rt.name) {
			return nil, errors.New("the certificate of another host")
		}
		return authority.leaf(rt.name)
	}}
	x.entry.Rule = "tls_failed" // recorded if no request comes
	_ = server.ServeTLS(client, "", "")
}

// serveRequest serves a request that came through a tunnel.
func (p *Proxy) serveRequest(w http.ResponseWriter, r *http.Request, rt *route) {
	x := p.begin(r)
	defer x.end()
	x.asked = rt.asked
	usual := uint16(80)
	if rt.isSecure {
		usual = 443
	}
	x.entry.Host = rt.authority(usual)
	if rt.denied != nil && !rt.isIndex {
		x.refuse(w, r, rt.denied)
		return
	}
	t, err := parseTarget(r.Host, usual)
	if err != nil || t.name != rt.name || t.port != rt.port && t.port != usual {
		x.refuse(w, r, &refusal{status: http.StatusMisdirectedRequest, rule: "other_host", words: "this is a connection to " + rt.name + ", and the request names another host"})
		return
	}
	if problem := x.enter(); problem != nil {
		x.refuse(w, r, problem)
		return
	}
	problem := rt.denied
	if x.answered(w, r, rt) {
		return
	}
	if problem == nil {
		problem = p.forward(w, r, x, rt)
	}
	if problem != nil {
		x.refuse(w, r, problem)
	}
}
