//go:build unix

package server

import (
	"net"
	"syscall"
)

// listenPrivately listens on a socket of mode 0600 from the beginning: if the mode changed later, another user could connect before. The
// umask is the whole process's, which makes nothing for others meanwhile.
func listenPrivately(path string) (net.Listener, error) {
	defer syscall.Umask(syscall.Umask(0o177))
	return net.Listen("unix", path)
}
