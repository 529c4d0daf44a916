package server

import "net"

// listenPrivately listens on a socket. Its folder restricts who reaches it.
func listenPrivately(path string) (net.Listener, error) { return net.Listen("unix", path) }
