//go:build unix

package server

import (
	"net"
	"syscall"
)

// listenPrivately listens on a socket that has no other mode than 0600 at any time: changed after it is there, another user could
// have connected before. The umask is that of the whole process, which makes nothing for others meanwhile.
func listenPrivately(path string) (net.Listener, error) {
	defer syscall.Umask(syscall.Umask(0o177))
	return net.Listen("unix", path)
}
