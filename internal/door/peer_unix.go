//go:build linux || darwin

package door

import (
	"net"
	"syscall"
)

// errRefused is the error of a connection to a socket that nobody listens on.
const errRefused = syscall.ECONNREFUSED

// peerIs asks is about the socket of a connection.
func peerIs(conn net.Conn, is func(fd int) bool) (own bool) {
	raw, err := conn.(*net.UnixConn).SyscallConn()
	return err == nil && raw.Control(func(fd uintptr) { own = is(int(fd)) }) == nil && own
}
