//go:build linux

package door

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
	"golang.org/x/sys/unix"
)

const (
	outQueue = 512 // connections that wait to be accepted
	// maxOut is how many connections are carried, or wait for the server to take them, which serves fewer at a time.
	maxOut = 160
	// Again is the time after which it is tried again to accept one, where there was no descriptor for it.
	Again = 100 * time.Millisecond
)

// WayOut carries connections of code to a port of loopback to the server, a stream for each. The server decides about their
// content.
type WayOut struct {
	listener net.Listener // nil where it is not listened yet
	server   *Server
}

// ListenPort listens on a port.
func ListenPort(family int, address unix.Sockaddr) (net.Listener, error) {
	return onSocket(family, net.FileListener, func(fd int) error {
		return errors.Join(
			unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1), unix.Bind(fd, address), unix.Listen(fd, outQueue))
	})
}

func listenOut(port int) (net.Listener, error) {
	return ListenPort(unix.AF_INET, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}})
}

// TakePlace begins to listen before the first interpreter starts. Serve tries again if that fails.
func (w *WayOut) TakePlace(server *Server) {
	w.server = server
	if port, err := strconv.Atoi(os.Getenv(protocol.WayOutVariable)); err == nil {
		w.listener, _ = listenOut(port)
	}
}

// Serve begins to carry connections.
func (w *WayOut) Serve(port int) (err error) {
	if w.listener == nil {
		if w.listener, err = listenOut(port); err != nil {
			return err
		}
	}
	go AcceptAll(w.listener, maxOut, Again, w.carry)
	return nil
}

// carry copies both ways until one end closes.
func (w *WayOut) carry(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	stream, err := w.server.Open()
	if err != nil {
		return // no server is there
	}
	go func() {
		_, _ = io.Copy(stream, conn)
		_ = stream.Close()
		_ = conn.Close()
	}()
	_, _ = io.Copy(conn, stream)
	_ = stream.Close()
}

// bundles are the places of a system's trusted certificates.
var bundles = []string{"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"}

// WriteTrust writes the certificates that TLS of the code trusts to the file named by its variables: the image's, and the
// session's own authority.
func WriteTrust(certificates string) error {
	var own []byte
	for _, name := range bundles {
		if text, err := os.ReadFile(name); err == nil {
			own = append(bytes.TrimRight(text, "\n"), '\n')
			break
		}
	}
	if err := os.MkdirAll(filepath.Dir(protocol.TrustFile), 0o700); err != nil {
		return err
	}
	return os.WriteFile(protocol.TrustFile, append(own, certificates...), 0o600) //nolint:gosec // a path of our own
}
