package proxy

import (
	"cmp"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"sync/atomic"
	"time"
)

const (
	maxHeaderBytes = 32 << 10  // of a request inside a tunnel
	maxAnswerBytes = 256 << 10 // of an answer's headers
	// HTTP/2's memory for an unread body: a host's for each request, and code's, which holds more connections.
	hostWindow = 256 << 10
	codeWindow = 64 << 10 // clients send as much before they hear of a smaller one
	maxStreams = 16       // concurrent requests on one HTTP/2 connection
	tlsTimeout = 15 * time.Second
	keepIdle   = 30 * time.Second // a connection to a host, between two requests in one tunnel
)

// route is the target of requests and their treatment on the way.
type route struct {
	target
	verdict
	isSecure  bool     // over TLS
	secrets   []Secret // the secrets with placeholders to replace
	isSecrets bool     // the host belongs to a secret: its answers are masked
	asked     string   // the person's grant, as it is recorded
	transport *http.Transport
}

// route makes one to a target. The connection is used first, if it is not nil.
func (p *Proxy) route(t target, v verdict, upstream net.Conn) *route {
	rt := &route{target: t, verdict: v, isSecrets: len(p.secretsOf(t)) > 0}
	var first atomic.Pointer[net.Conn]
	if upstream != nil {
		first.Store(&upstream)
	}
	rt.transport = &http.Transport{
		Proxy: nil,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			if conn := first.Swap(nil); conn != nil {
				return *conn, nil
			}
			return p.reach(ctx, t, v)
		},
		TLSClientConfig:     &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: p.roots},
		TLSHandshakeTimeout: tlsTimeout, ExpectContinueTimeout: time.Second, IdleConnTimeout: keepIdle,
		MaxResponseHeaderBytes: maxAnswerBytes, ForceAttemptHTTP2: true,
		HTTP2: &http.HTTP2Config{
			MaxReceiveBufferPerStream: hostWindow, MaxReceiveBufferPerConnection: hostWindow * p.options.Limits.Connections,
		},
		DisableCompression: true,
	}
	return rt
}

// forward sends a request to its host, and the answer back. It gives no answer where it returns a refusal.
func (p *Proxy) forward(w http.ResponseWriter, r *http.Request, x *exchange, rt *route) *refusal {
	x.entry.Path = r.URL.EscapedPath()
	if r.Method == http.MethodConnect {
		return &refusal{status: http.StatusMethodNotAllowed, rule: "bad_request", words: "there is no tunnel within a tunnel"}
	}
	if problem := x.judgeRequest(r, rt); problem != nil {
		return problem
	}
	out := r.Clone(x.ctx)
	if rt.only != nil {
		restrict(out)
	}
	out.Body = &countedBody{r.Body, x}
	if r.ContentLength == 0 {
		out.Body = http.NoBody
	}
	if err := x.send(headerBytes(r.Header) + len(r.URL.RequestURI())); err != nil {
		return x.failed(rt.target, err)
	}
	// A bound ends the wait for a body, too.
	ended := make(chan struct{})
	stop := context.AfterFunc(x.ctx, func() {
		defer close(ended)
		_ = http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0))
	})
	problem := p.reveal(out, rt)
	if !stop() {
		<-ended // w may not be used after the handler's end
	}
	if problem != nil {
		return cmp.Or(x.limit(), problem)
	}
	a := &answer{ResponseWriter: w, x: x, isHead: r.Method == http.MethodHead}
	if rt.isSecrets {
		a.masks(p.mask)
		askPlainly(out.Header)
	}
	_ = http.NewResponseController(w).EnableFullDuplex()
	proxy := &httputil.ReverseProxy{
		Transport: rt.transport, FlushInterval: -1, ErrorLog: quiet,
		Rewrite: func(to *httputil.ProxyRequest) {
			to.Out.URL.Scheme, to.Out.URL.Host, to.Out.URL.User = "http", rt.authority(80), nil
			to.Out.Host = rt.authority(80)
			if rt.isSecure {
				to.Out.URL.Scheme, to.Out.URL.Host, to.Out.Host = "https", rt.authority(443), rt.authority(443)
			}
			to.Out.URL.RawQuery = to.In.URL.RawQuery // as it came, also where it is no proper one
		},
		ModifyResponse: a.begins,
		ErrorHandler: func(_ http.ResponseWriter, _ *http.Request, err error) {
			x.refuse(w, r, x.failed(rt.target, err))
		},
	}
	proxy.ServeHTTP(a, out)
	a.finish()
	return nil
}

// countedBody counts the bytes that a request sends.
type countedBody struct {
	io.ReadCloser
	x *exchange
}

func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 {
		if limit := b.x.send(n); limit != nil {
			return 0, limit
		}
	}
	return n, err
}

func headerBytes(h http.Header) (n int) {
	for name, values := range h {
		for _, value := range values {
			n += len(name) + len(value) + 4
		}
	}
	return n
}
