package door

import (
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// isOwn reports whether a process of this user is at the other end.
func isOwn(conn net.Conn) bool {
	return peerIs(conn, func(fd int) bool {
		peer, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
		return err == nil && int(peer.Uid) == os.Geteuid()
	})
}
