//go:build linux

package browser

import (
	"encoding/json"
	"net"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	mostQueued   = 16
	mostQuestion = 4 << 10         // bytes
	mostWait     = 2 * time.Second // for a program that asks
)

// listen opens the socket for programs of the session, such as libraries that save pictures, if there is a browser. net.Listen would bring
// the resolver of names along.
func (b *Browser) listen() {
	if !Exists() {
		return
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return
	}
	file := os.NewFile(uintptr(fd), "socket")
	defer func() { _ = file.Close() }()
	address := b.folder + ".sock"
	_ = os.MkdirAll(b.folder[:strings.LastIndex(b.folder, "/")], 0o700)
	_ = os.Remove(address) // of an earlier supervisor
	if unix.Bind(fd, &unix.SockaddrUnix{Name: address}) != nil || unix.Listen(fd, mostQueued) != nil {
		return
	}
	if listener, err := net.FileListener(file); err == nil {
		go b.serve(listener)
	}
}

// serve draws for one program after the other. It sends a Page as JSON, and gets the byte 0 and the result, or 1 and why there is none.
func (b *Browser) serve(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		_ = conn.SetDeadline(time.Now().Add(mostWait))
		line := make([]byte, mostQuestion)
		n, _ := conn.Read(line)
		page := Page{MostBytes: maxMessage}
		if json.Unmarshal(line[:n], &page) == nil {
			drawn, err := b.Draw(page)
			result := append([]byte{0}, drawn.Data...)
			if err != nil {
				result = append([]byte{1}, err.Error()...)
			}
			_ = conn.SetDeadline(time.Now().Add(mostWait))
			_, _ = conn.Write(result)
		}
		_ = conn.Close()
	}
}
