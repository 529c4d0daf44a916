package server

import "net"

// listenPrivately listens on a socket, whose folder says who reaches it.
func listenPrivately(path string) (net.Listener, error) { return net.Listen("unix", path) }
