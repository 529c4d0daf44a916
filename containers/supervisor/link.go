//go:build linux

package main

import (
	"encoding/json"
	"sync"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/channel"
)

// maxQueued is how many bytes may wait for a server that does not read; beyond it only answers are kept.
const maxQueued = 1 << 20

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

// server is the server of this moment: a later one may take its place.
type server struct{ *link }

func newLink(conn *channel.Conn) *link {
	l := &link{conn: conn}
	l.more.L = &l.mu
	go l.write()
	return l
}

// send queues a message; one that is droppable is left out where the server does not read.
func (l *link) send(message any, droppable bool) {
	if body, err := json.Marshal(message); err == nil {
		l.sendBody(body, droppable)
	}
}

// isFull reports whether droppable messages are left out.
func (l *link) isFull() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bytes > maxQueued
}

func (l *link) sendBody(body []byte, droppable bool) {
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

func (l *link) close() {
	l.mu.Lock()
	l.closed, l.queue = true, nil
	l.mu.Unlock()
	l.more.Broadcast()
	_ = l.conn.Close()
}

// flush waits until all messages are written, for so long.
func (l *link) flush(most time.Duration) {
	for until := time.Now().Add(most); time.Now().Before(until); time.Sleep(time.Millisecond) {
		l.mu.Lock()
		over := l.closed || l.unsent == 0
		l.mu.Unlock()
		if over {
			return
		}
	}
}
