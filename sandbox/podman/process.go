package podman

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/containers/podman/v5/pkg/bindings"
	"github.com/containers/podman/v5/version"
)

const (
	stderrBytes    = 4 << 10
	attachBuffer   = 64 << 10
	muxHeaderBytes = 8
	muxStdout      = 1
	muxStderr      = 2
)

// process is the attached stdio of a container or of a program in one: one connection, taken over from HTTP. It carries frames,
// each a stream's number, three zeros, a length and the bytes.
//
// The bindings offer an Attach, but it exchanges the transport of the connection that it is given, under the feet of every other
// call on it, and leaves a goroutine behind.
type process struct {
	conn   net.Conn
	stderr engine.Tail

	reading sync.Mutex
	from    *bufio.Reader
	left    uint32 // of the frame being read
}

// attach takes over the stdio of a container before its start. The empty detach keys matter: by default two bytes of binary input
// would detach the container.
func attach(ctx context.Context, id string) (*process, error) {
	return hijack(ctx, "/containers/"+id+"/attach", "stream=true&stdin=true&stdout=true&stderr=true&logs=false&detachKeys=", "")
}

// hijack posts a request whose connection becomes a program's stdio.
func hijack(ctx context.Context, path, query, body string) (*process, error) {
	client, err := bindings.GetClient(ctx)
	if err != nil {
		return nil, err
	}
	conn, err := client.GetDialer(ctx)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	from, err := upgrade(conn, hijackRequest(ctx, client.URI, path, query, body))
	if err == nil && !stop() {
		err = ctx.Err()
	}
	if err != nil {
		stop()
		_ = conn.Close()
		return nil, err
	}
	return &process{conn: conn, stderr: engine.Tail{Limit: stderrBytes}, from: from}, nil
}

func hijackRequest(ctx context.Context, base *url.URL, path, query, body string) *http.Request {
	oldest := version.APIVersion[version.Libpod][version.MinimalAPI]
	target := &url.URL{
		Scheme:   "http",
		Host:     "d",
		Path:     fmt.Sprintf("/v%d.%d.%d/libpod%s", oldest.Major, oldest.Minor, oldest.Patch, path),
		RawQuery: query,
	}
	if base.Scheme == "tcp" {
		target.Host, target.Path = base.Host, base.Path+target.Path
	}
	header := http.Header{"Connection": {"Upgrade"}, "Upgrade": {"tcp"}}
	request := &http.Request{Method: http.MethodPost, URL: target, Host: target.Host, Header: header}
	if body != "" {
		header.Set("Content-Type", "application/json")
		request.Body, request.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
	}
	return request.WithContext(ctx)
}

// upgrade sends the request and returns a reader of the stream that follows the answer.
func upgrade(conn net.Conn, request *http.Request) (*bufio.Reader, error) {
	if err := request.Write(conn); err != nil {
		return nil, err
	}
	from := bufio.NewReaderSize(conn, attachBuffer)
	answer, err := http.ReadResponse(from, request)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode == http.StatusSwitchingProtocols {
		return from, nil
	}
	defer func() { _ = answer.Body.Close() }()
	return nil, (&bindings.APIResponse{Response: answer, Request: request}).Process(nil)
}

// Read returns the program's stdout, and sets its stderr aside on the way.
func (p *process) Read(buffer []byte) (int, error) {
	p.reading.Lock()
	defer p.reading.Unlock()
	for p.left == 0 {
		if err := p.nextStdout(); err != nil {
			return 0, over(err)
		}
	}
	if uint32(min(len(buffer), 1<<30)) > p.left {
		buffer = buffer[:p.left]
	}
	n, err := p.from.Read(buffer)
	p.left -= uint32(n)
	return n, over(err)
}

// nextStdout reads up to the next non-empty frame of stdout.
func (p *process) nextStdout() error {
	var header [muxHeaderBytes]byte
	if _, err := io.ReadFull(p.from, header[:]); err != nil {
		return err
	}
	size := binary.BigEndian.Uint32(header[4:])
	switch header[0] {
	case muxStdout:
		p.left = size
		return nil
	case muxStderr:
		_, err := io.CopyN(&p.stderr, p.from, int64(size))
		return err
	}
	// The service's own words about a failed stream, or a mistake.
	return fmt.Errorf("unexpected stream %d from the engine", header[0])
}

// over turns every kind of a connection's end into io.EOF, which readers expect.
func over(err error) error {
	if err != nil {
		return io.EOF
	}
	return nil
}

// Write implements engine.Process.
func (p *process) Write(b []byte) (int, error) { return p.conn.Write(b) }

// Close implements engine.Process. It may be called more than once.
func (p *process) Close() error {
	if err := p.conn.Close(); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// Stderr implements engine.Process.
func (p *process) Stderr() string { return p.stderr.String() }
