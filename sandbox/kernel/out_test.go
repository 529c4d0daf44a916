package kernel

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/channel"
)

const most = 8 // connections of a session in these tests

// wayOut is a container's way out, and opens connections as code does. What is served is asked for by single bytes.
func wayOut(t *testing.T) (open func() net.Conn, heard <-chan bool) {
	one, other := net.Pipe()
	hear := make(chan bool)
	k := &Container{conn: channel.New(one, channel.Options{}), with: Options{Out: Out{Conns: newConns(most, 50*time.Millisecond), Serve: func(_ string, conn net.Conn) {
		defer conn.Close()
		for asked := make([]byte, 1); readFull(conn, asked) == nil; {
			switch asked[0] {
			case 'w': // what takes its time
				hear <- true
			case 'a': // an answer
				_, _ = conn.Write(asked)
			case 'd': // a download without end
				go func() {
					for {
						if _, err := conn.Write(make([]byte, 64<<10)); err != nil {
							return
						}
					}
				}()
			}
		}
	}}}}
	supervisor := channel.New(other, channel.Options{Supervisor: true})
	t.Cleanup(func() { _, _ = supervisor.Close(), k.conn.Close() })
	go func() { _, _ = k.conn.Receive() }()
	go func() { _, _ = supervisor.Receive() }()
	go k.acceptOut()
	return func() net.Conn {
		conn, err := supervisor.Open()
		must.OK(t, err)
		return conn
	}, hear
}

func readFull(conn net.Conn, into []byte) error {
	_, err := io.ReadFull(conn, into)
	return err
}

// ask asks for something of which the first byte comes.
func ask(t *testing.T, conn net.Conn, what string) {
	t.Helper()
	must.OK(t, should.ErrOf(conn.Write([]byte(what))))
	must.OK(t, readFull(conn, make([]byte, 1)), "no answer")
}

// Clients keep connections that they have made, as Node does with those of a Promise.all.
func TestConnectionsThatAreIdleMakeRoomForMore(t *testing.T) {
	open, heard := wayOut(t)
	waiting, downloading := open(), open()
	must.OK(t, should.ErrOf(waiting.Write([]byte("w"))))
	<-heard
	ask(t, downloading, "d")
	for range most + 2 {
		ask(t, open(), "a")
	}
	ask(t, waiting, "a")
	should.OK(t, readFull(downloading, make([]byte, 1<<20)), "the download ended")
}

// What code has given up leaves its place, even where nothing that was sent to it was read.
func TestConnectionsThatAreGivenUpLeaveTheirPlaces(t *testing.T) {
	open, _ := wayOut(t)
	for range 3 * most {
		conn := open()
		ask(t, conn, "d")
		_ = conn.Close()
	}
	ask(t, open(), "a")
}
