package mssql

import (
	"encoding/binary"
	"io"
	"net"
)

// The types of packets.
const (
	packetBatch     = 1
	packetToken     = 8
	packetRPC       = 3
	packetReply     = 4
	packetAttention = 6
	packetManager   = 14
	packetLogin     = 16
	packetPrelogin  = 18
)

// packetSize is the driver's standard one.
const packetSize = 4096

// message is one or more packets.
type message struct {
	kind  byte
	reset bool
	body  []byte
}

// conn is one client.
type conn struct {
	server      *Server
	net         net.Conn
	number      int
	messages    chan message
	attention   chan struct{}
	transaction uint64
	begun       uint64
	late        *Login // whose token is to come
}

func serve(s *Server, c net.Conn, number int) {
	client := &conn{server: s, net: c, number: number, messages: make(chan message, 16), attention: make(chan struct{}, 16)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		client.read()
	}()
	client.answer()
	_ = c.Close()
	for range client.messages { // what comes after the end is of no interest
	}
	<-done
}

// read takes messages off the wire. An attention overtakes them, since it is for the one being answered.
func (c *conn) read() {
	defer close(c.messages)
	for {
		m, err := c.message()
		if err != nil {
			return
		}
		if m.kind == packetAttention {
			c.server.record(Request{Kind: Attention, Conn: c.number})
			c.attention <- struct{}{}
			continue
		}
		c.messages <- m
	}
}

func (c *conn) message() (message, error) {
	var m message
	for {
		var header [8]byte
		if _, err := io.ReadFull(c.net, header[:]); err != nil {
			return m, err
		}
		body := make([]byte, int(binary.BigEndian.Uint16(header[2:]))-len(header))
		if _, err := io.ReadFull(c.net, body); err != nil {
			return m, err
		}
		m.kind = header[0]
		m.reset = m.reset || header[1]&0x08 != 0
		m.body = append(m.body, body...)
		if header[1]&1 != 0 {
			return m, nil
		}
	}
}

// answer answers one message after the other, until the client or a reply ends it.
func (c *conn) answer() {
	for {
		select {
		case m, ok := <-c.messages:
			if !ok || !c.take(m) {
				return
			}
		case <-c.attention: // it came after the answer
			w := &writer{conn: c.net}
			w.done(tokenDone, doneAttention)
			if w.finish() != nil {
				return
			}
		}
	}
}

func (c *conn) take(m message) bool {
	w := &writer{conn: c.net}
	switch m.kind {
	case packetPrelogin:
		w.raw(preloginReply)
	case packetLogin:
		l, wanted := parseLogin(m.body)
		if wanted {
			w.wantToken()
			c.late = &l
		} else if !c.login(w, l) {
			_ = w.finish()
			return false
		}
	case packetToken:
		c.late.Token = fromUTF16(m.body[8 : 8+binary.LittleEndian.Uint32(m.body[4:])])
		if !c.login(w, *c.late) {
			_ = w.finish()
			return false
		}
	case packetManager:
		c.manage(w, m)
	case packetBatch, packetRPC:
		r := parseRequest(m)
		r.Conn = c.number
		c.server.record(r)
		if !c.reply(w, m.kind == packetRPC, c.server.handle(r)) {
			return false
		}
	}
	return w.finish() == nil
}

// preloginReply says: version 16, no encryption, tokens are taken and not asked for.
var preloginReply = []byte{
	0, 0, 16, 0, 6, // VERSION at 16, 6 bytes
	1, 0, 22, 0, 1, // ENCRYPTION at 22, 1 byte
	6, 0, 23, 0, 1, // FEDAUTHREQUIRED at 23, 1 byte
	0xff,
	16, 0, 0, 0, 0, 0,
	2, // not supported
	0,
}

func (c *conn) login(w *writer, l Login) bool {
	c.server.mu.Lock()
	c.server.logins = append(c.server.logins, l)
	refusal := c.server.refusal
	c.server.mu.Unlock()
	if refusal == nil && l.Token != Token && (l.User != User || l.Password != Password) {
		refusal = &Error{Number: 18456, State: 1, Class: 14, Message: "Login failed for user '" + l.User + "'.", Line: 1}
	}
	if refusal != nil {
		w.error(*refusal)
		w.done(tokenDone, doneError)
		return false
	}
	w.loginAck()
	w.done(tokenDone, 0)
	return true
}

// manage begins and ends transactions.
func (c *conn) manage(w *writer, m message) {
	body, transaction := headers(m.body)
	r := Request{Conn: c.number, Reset: m.reset, Transaction: transaction}
	switch binary.LittleEndian.Uint16(body) {
	case 5:
		r.Kind = Begin
		c.begun++
		c.transaction = uint64(c.number)<<32 | c.begun
		w.transaction(8, c.transaction)
	case 7:
		r.Kind = Commit
		w.transaction(9, c.transaction)
		c.transaction = 0
	case 8:
		r.Kind = Rollback
		w.transaction(10, c.transaction)
		c.transaction = 0
	}
	c.server.record(r)
	w.done(tokenDone, 0)
}

// reply writes an answer; false when the connection ends with it.
func (c *conn) reply(w *writer, rpc bool, r Reply) bool {
	if r.Drop {
		return false
	}
	if r.Hang {
		select {
		case <-c.attention:
		case <-c.gone():
			return false
		}
		w.done(tokenDone, doneAttention)
		return true
	}
	if len(r.Columns) > 0 {
		w.columns(r.Columns)
	}
	for _, row := range r.Rows {
		w.row(r.Columns, row)
	}
	for r.More != nil {
		select {
		case <-c.attention:
			w.done(tokenDone, doneAttention)
			return true
		default:
		}
		row, ok := r.More()
		if !ok {
			break
		}
		w.row(r.Columns, row)
		if w.err != nil {
			return false
		}
	}
	c.end(w, rpc, r)
	return true
}

// gone has something when the client leaves, since it sends nothing else while it waits.
func (c *conn) gone() <-chan message { return c.messages }

func (c *conn) end(w *writer, rpc bool, r Reply) {
	status := uint16(0)
	if r.Error != nil {
		w.error(*r.Error)
		status = doneError
		if r.Aborts {
			w.transaction(10, c.transaction)
			c.transaction = 0
		}
	}
	if !rpc {
		w.done(tokenDone, status)
		return
	}
	w.done(tokenDoneInProc, status|doneMore)
	w.raw([]byte{0x79, 0, 0, 0, 0})
	w.done(tokenDoneProc, status)
}
