//go:build linux

package main

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
	maxOut = 256
	// outAgain is the time after which it is tried again to accept one, where there was no descriptor for it.
	outAgain = 100 * time.Millisecond
)

// listenOut listens on a port of loopback.
func listenOut(port int) (net.Listener, error) {
	return onSocket(unix.AF_INET, net.FileListener, func(fd int) error {
		return errors.Join(
			unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1),
			unix.Bind(fd, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}), unix.Listen(fd, outQueue))
	})
}

// takePlaces begins to listen before the first interpreter starts. What cannot be had now is tried for again when init
// asks for it.
func (s *Supervisor) takePlaces() {
	s.door, _ = listen()
	if port, err := strconv.Atoi(os.Getenv(protocol.WayOutVariable)); err == nil {
		s.out, _ = listenOut(port)
	}
}

// openOut carries what code sends to a port of loopback to the server, a stream for each connection. What is
// said there, and what may leave, is not decided here.
func (s *Supervisor) openOut(port int) (err error) {
	if s.out == nil {
		if s.out, err = listenOut(port); err != nil {
			return err
		}
	}
	go acceptAll(s.out, maxOut, outAgain, s.carryOut)
	return nil
}

// carryOut copies both ways until one end closes.
func (s *Supervisor) carryOut(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	links := make(chan *link, 1)
	s.post(func() { links <- s.server })
	stream, err := (<-links).conn.Open()
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

// bundles are where systems have the certificates that they trust.
var bundles = []string{"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"}

// writeTrust writes what TLS in this container trusts, where the variables of the code say: what the image does, and
// the session's own authority.
func writeTrust(certificates string) error {
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
