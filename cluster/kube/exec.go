package kube

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"

	core "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/streaming/pkg/httpstream"
)

// Stream is a program's stdio in a pod. Close ends the connection, and with it the program's stdin.
type Stream struct {
	in     *io.PipeWriter
	out    output
	cancel context.CancelFunc

	ended chan struct{} // closed when err is set
	err   error
}

// Exec starts a program in a pod's container, over a WebSocket, or over SPDY if something on the way refuses that. It returns
// at once: a failed start shows as the error when reading ends. stderr receives the program's stderr.
func (c *Client) Exec(pod, container string, command []string, stderr io.Writer) (*Stream, error) {
	address := c.on(&core.Pod{}, http.MethodPost).Name(pod).SubResource("exec").VersionedParams(&core.PodExecOptions{
		Container: container, Command: command, Stdin: true, Stdout: true, Stderr: true,
	}, parameters()).URL()
	socket, err := remotecommand.NewWebSocketExecutor(c.config, http.MethodGet, address.String())
	if err != nil {
		return nil, err
	}
	spdy, err := remotecommand.NewSPDYExecutor(c.config, http.MethodPost, address)
	if err != nil {
		return nil, err
	}
	executor, err := remotecommand.NewFallbackExecutor(socket, spdy, func(err error) bool {
		return (httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)) && !strings.Contains(err.Error(), "not found")
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	stdin, in := io.Pipe()
	s := &Stream{in: in, out: output{there: make(chan struct{}), over: make(chan struct{})}, cancel: cancel, ended: make(chan struct{})}
	go func() {
		s.err = executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: stdin, Stdout: &s.out, Stderr: stderr})
		_ = stdin.CloseWithError(io.ErrClosedPipe)
		cancel()
		close(s.ended)
	}()
	return s, nil
}

// output lets the caller read a program's stdout directly: client-go would copy it, through a buffer and its own goroutine.
type output struct {
	from  io.Reader
	there chan struct{} // closed when from is set
	end   sync.Once
	over  chan struct{} // closed when reading is over
}

// ReadFrom implements io.ReaderFrom, for client-go's io.Copy.
func (o *output) ReadFrom(r io.Reader) (int64, error) {
	o.from = r
	close(o.there)
	<-o.over
	return 0, nil
}

// Write is never called: io.Copy prefers ReadFrom.
func (*output) Write([]byte) (int, error) { return 0, errors.ErrUnsupported }

func (o *output) close() { o.end.Do(func() { close(o.over) }) }

// Read ends with io.EOF when the program or the connection ended.
func (s *Stream) Read(b []byte) (int, error) {
	select {
	case <-s.out.over:
		return 0, io.EOF
	case <-s.ended: // before there was an output
		return 0, io.EOF
	case <-s.out.there:
	}
	n, err := s.out.from.Read(b)
	if err != nil {
		s.out.close()
		err = io.EOF
	}
	return n, err
}

// Write writes to the program's stdin.
func (s *Stream) Write(b []byte) (int, error) { return s.in.Write(b) }

// Close ends the connection.
func (s *Stream) Close() error {
	s.cancel()
	s.out.close()
	return s.in.Close()
}

// Err waits until the program or the connection ended, and returns why: nil if the program ended with status 0.
func (s *Stream) Err() error {
	<-s.ended
	return s.err
}

var _ io.ReadWriteCloser = (*Stream)(nil)
