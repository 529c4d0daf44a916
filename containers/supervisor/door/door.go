//go:build linux

// Package door is where servers come: the connection to one, the socket of later ones, and the way out to it.
package door

import (
	"cmp"
	"crypto/subtle"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
	"golang.org/x/sys/unix"
)

// Address is the abstract Unix socket where a later server comes. CODE_SANDBOX_SOCKET names another, for supervisors
// that are not alone in their network namespace.
var Address = &unix.SockaddrUnix{Name: cmp.Or(os.Getenv("CODE_SANDBOX_SOCKET"), "@code-sandbox-mcp")}

const (
	doorQueue    = 16 // connections beyond those; one that comes then waits
	doorWaiting  = 4  // connections that may be tried at the same time
	attachBytes  = 4096
	attachWithin = 5 * time.Second
	wrongWait    = time.Second
	attachHead   = 5 // of a control frame: its length and its kind
)

// Door accepts a later server with the session's token. The session's code can connect too: a wrong connection keeps its
// slot for a while, and there are four slots.
type Door struct {
	listener net.Listener // nil where it is not listened yet
	token    atomic.Pointer[string]
}

// TakePlace begins to listen before the first interpreter starts. Serve tries again if that fails.
func (d *Door) TakePlace() { d.listener, _ = Listen(Address) }

// Serve hands over each connection that shows the token in its first frame; with an empty token, none. A new token
// replaces the one before.
func (d *Door) Serve(token string, adopt func(conn net.Conn, filesOnly bool)) (err error) {
	before := d.token.Swap(&token)
	if token == "" {
		d.close()
	}
	if token == "" || before != nil && *before != "" {
		return nil
	}
	if d.listener == nil {
		if d.listener, err = Listen(Address); err != nil {
			return err
		}
	}
	go AcceptAll(d.listener, doorWaiting, wrongWait, func(conn net.Conn) {
		if m := readAttach(conn, *d.token.Load()); m != nil {
			adopt(conn, m.FilesOnly)
		} else {
			_ = conn.Close()
		}
	})
	return nil
}

// close stops listening.
func (d *Door) close() {
	if d.listener != nil {
		_ = d.listener.Close()
		d.listener = nil
	}
}

// AcceptAll serves the connections of a listener, so many at a time; the next ones wait. again is the time after which
// it is tried once more to accept one, where the connection is gone again or no descriptor is left.
func AcceptAll(listener net.Listener, most int, again time.Duration, serve func(net.Conn)) {
	semaphore := make(chan struct{}, most)
	for {
		semaphore <- struct{}{}
		conn, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(again)
			<-semaphore
			continue
		}
		go func() {
			serve(conn)
			<-semaphore
		}()
	}
}

// readAttach returns the first message of a connection that shows the token, else nil.
func readAttach(conn net.Conn, token string) *protocol.Attach {
	_ = conn.SetDeadline(time.Now().Add(attachWithin))
	var head [attachHead]byte
	if _, err := io.ReadFull(conn, head[:]); err != nil {
		return nil
	}
	n := binary.BigEndian.Uint32(head[:4])
	if n > attachBytes || head[4] != 'c' {
		return nil
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(conn, body); err != nil {
		return nil
	}
	m := &protocol.Attach{}
	if json.Unmarshal(body, m) != nil || m.Type != "attach" {
		return nil
	}
	if token == "" || subtle.ConstantTimeCompare([]byte(m.Token), []byte(token)) != 1 {
		time.Sleep(wrongWait)
		return nil
	}
	_ = conn.SetDeadline(time.Time{})
	return m
}

// Package net's own ways to listen and to dial would bring its resolver of names along.

// Listen listens on a Unix socket.
func Listen(address *unix.SockaddrUnix) (net.Listener, error) {
	return onSocket(unix.AF_UNIX, net.FileListener, func(fd int) error {
		return errors.Join(unix.Bind(fd, address), unix.Listen(fd, doorQueue))
	})
}

// Dial is the other side. It takes no answer from another container, which may share the network and then sees the same names.
func Dial(address *unix.SockaddrUnix) (net.Conn, error) {
	return onSocket(unix.AF_UNIX, net.FileConn, func(fd int) error {
		if err := unix.Connect(fd, address); err != nil {
			return err
		}
		peer, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
		if err == nil && peer.Pid == 0 {
			err = errors.New("what listens is not in this container")
		}
		return err
	})
}

func onSocket[T any](family int, become func(*os.File) (T, error), prepare func(fd int) error) (made T, err error) {
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return made, err
	}
	file := os.NewFile(uintptr(fd), "socket")
	defer func() { _ = file.Close() }()
	if err := prepare(fd); err != nil {
		return made, err
	}
	return become(file)
}

// Join is the other side of the door: it joins its own stdio to the supervisor's socket, for a server that
// started it in the container.
func Join() error {
	conn, err := Dial(Address)
	if err != nil {
		return errors.New("no supervisor listens: " + err.Error())
	}
	done := make(chan error, 2)
	go func() {
		_, err := io.Copy(conn, os.Stdin)
		done <- err
	}()
	go func() {
		_, err := io.Copy(os.Stdout, conn)
		done <- err
	}()
	return <-done
}
