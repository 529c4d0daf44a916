//go:build linux

package door

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/bounds"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/loop"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/channel"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
)

const (
	maxQueued = 1 << 20 // bytes that may wait for a server that does not read; beyond it only answers are kept
	mostLogs  = 100     // until a run ends
)

// link is the connection to a server. Nothing that is sent waits for it.
type link struct {
	conn *channel.Conn

	mu     sync.Mutex
	more   sync.Cond
	queue  [][]byte
	bytes  int
	closed bool
	unsent int // messages that are queued or being written
}

// Server is the server of this moment: a later one may take its place. The loop owns it.
type Server struct {
	*link
	loop     loop.Loop
	settings *bounds.Settings
	handler  Handler
	logs     int // since LogAnew
}

// Handler takes what a server sends, and its end, on the loop; and its streams, beside it.
type Handler struct {
	Frame   func(body []byte)
	End     func()
	Streams func(conn *channel.Conn)
}

// NewServer has no connection yet.
func NewServer(l loop.Loop, settings *bounds.Settings, handler Handler) *Server {
	return &Server{loop: l, settings: settings, handler: handler}
}

// Attach begins to listen to a server, in place of the one before.
func (s *Server) Attach(raw io.ReadWriteCloser) {
	if s.link != nil {
		s.Close()
	}
	l := newLink(open(raw))
	s.link = l
	go func() {
		for {
			body, err := l.conn.Receive()
			s.loop.Post(func() {
				switch {
				case l != s.link:
				case err != nil:
					s.end(err)
				default:
					s.handler.Frame(body)
				}
			})
			if err != nil {
				return
			}
		}
	}()
	go s.handler.Streams(l.conn)
}

// end is called when a server is gone, or broke the protocol.
func (s *Server) end(err error) {
	if !errors.Is(err, io.EOF) {
		s.Log("error", "the connection ended: "+err.Error())
	}
	s.handler.End()
	s.Close()
}

func open(raw io.ReadWriteCloser) *channel.Conn {
	return channel.New(raw, channel.Options{Supervisor: true, MaxControl: protocol.MaxToSupervisor})
}

// Visit serves the streams of one that is no server of this container, and wants files alone.
func Visit(raw io.ReadWriteCloser, streams func(conn *channel.Conn)) {
	conn := open(raw)
	go streams(conn)
	for {
		if _, err := conn.Receive(); err != nil {
			_ = conn.Close()
			return
		}
	}
}

// Open opens a stream to the server of this moment. Other goroutines call it.
func (s *Server) Open() (net.Conn, error) {
	links := make(chan *link, 1)
	s.loop.Post(func() { links <- s.link })
	return (<-links).conn.Open()
}

// Log sends a line for the server's log, unless there were many since a run ended.
func (s *Server) Log(level, message string) {
	if s.logs++; s.logs <= mostLogs && s.settings.AreKnown() {
		s.Send(protocol.Log{Type: "log", Level: level, Message: bounds.Clean(message, 2000)}, true)
	}
}

// LogAnew is called when a run ends.
func (s *Server) LogAnew() { s.logs = 0 }

func newLink(conn *channel.Conn) *link {
	l := &link{conn: conn}
	l.more.L = &l.mu
	go l.write()
	return l
}

// Send queues a message; one that is droppable is left out where the server does not read.
func (l *link) Send(message any, droppable bool) {
	if body, err := json.Marshal(message); err == nil {
		l.SendBody(body, droppable)
	}
}

// IsFull reports whether droppable messages are left out.
func (l *link) IsFull() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bytes > maxQueued
}

// SendBody is Send of an encoded message.
func (l *link) SendBody(body []byte, droppable bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || droppable && l.bytes > maxQueued {
		return
	}
	l.queue = append(l.queue, body)
	l.bytes += len(body)
	l.unsent++
	l.more.Signal()
}

func (l *link) write() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		for len(l.queue) == 0 && !l.closed {
			l.more.Wait()
		}
		if l.closed {
			return
		}
		body := l.queue[0]
		l.queue[0] = nil
		l.queue = l.queue[1:]
		l.bytes -= len(body)
		l.mu.Unlock()
		err := l.conn.Send(body)
		l.mu.Lock()
		l.unsent--
		if err != nil { // the reader sees the end as well
			l.closed, l.queue = true, nil
		}
	}
}

// Close drops what is queued.
func (l *link) Close() {
	l.mu.Lock()
	l.closed, l.queue = true, nil
	l.mu.Unlock()
	l.more.Broadcast()
	_ = l.conn.Close()
}

// Flush waits until all messages are written, for so long.
func (l *link) Flush(most time.Duration) {
	for until := time.Now().Add(most); time.Now().Before(until); time.Sleep(time.Millisecond) {
		l.mu.Lock()
		over := l.closed || l.unsent == 0
		l.mu.Unlock()
		if over {
			return
		}
	}
}
