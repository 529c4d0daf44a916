package channel

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"golang.org/x/net/nettest"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

// streams are both ends of one.
func streams(t testing.TB) (one, other net.Conn) {
	server, supervisor := pair(t)
	receiving(server)
	receiving(supervisor)
	one, err := supervisor.Open()
	must.OK(t, err)
	if other, err = server.Accept(); err != nil {
		t.Fatal(err)
	}
	return one, other
}

func TestAStreamIsANetConn(t *testing.T) {
	nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) {
		one, other := streams(t)
		return one, other, func() { _, _ = one.Close(), other.Close() }, nil
	})
}

// Package net/http ends reads by deadlines and reads on later, by TLS as well, which takes most errors for the end.
func TestADeadlineIsNotTheEndOfTLS(t *testing.T) {
	one, other := streams(t)
	web := httptest.NewUnstartedServer(nil)
	web.StartTLS()
	defer web.Close()
	server := tls.Server(one, web.TLS)
	trusting := web.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	trusting.ServerName = "example.com"
	client := tls.Client(other, trusting)
	go func() { _ = client.Handshake() }()
	must.OK(t, server.Handshake())
	read := make(chan error)
	go func() {
		_, err := server.Read(make([]byte, 1))
		read <- err
	}()
	_ = server.SetReadDeadline(longAgo)
	should.Be(t, <-read, os.ErrDeadlineExceeded, "it was read")
	_ = server.SetReadDeadline(time.Time{})
	go func() { _, _ = client.Write([]byte("hello")) }()
	text := make([]byte, 5)
	if _, err := io.ReadFull(server, text); err != nil || string(text) != "hello" {
		t.Errorf("%q came, %v", text, err)
	}
}

// What writes to an end that reads no more ends when that end closes, whether its window is full or not.
func TestAStreamIsOverWhenEitherEndCloses(t *testing.T) {
	one, other := streams(t)
	ended := make(chan error)
	go func() {
		_, err := other.Write(make([]byte, 64<<20))
		ended <- err
	}()
	must.OK(t, should.ErrOf(io.ReadFull(one, make([]byte, 100_000))))
	_ = one.Close()
	if n, err := other.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("read: %d, %v", n, err)
	}
	should.Be(t, <-ended, net.ErrClosed, "write")
	if n, err := other.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("read once more: %d, %v", n, err)
	}
}
