package channel

import (
	"encoding/binary"
	"io"
	"net"
	"sync"
)

// pipe is the multiplexer's connection: its writes go into stream frames, and incoming bytes wait here until it reads. Only the
// methods that a multiplexer uses do anything.
type pipe struct {
	sender *sender
	frame  []byte // of the writer, with room for the head; made at its first write
	// arriving is fill's buffer, made when the first stream frame comes.
	arriving []byte
	head     [muxHeadBytes]byte // of the arriving frame of the multiplexer
	headHas  int
	bodyLeft uint32 // bytes of a stream still to come behind it

	mu      sync.Mutex
	changed sync.Cond
	pending []byte
	taken   int // of pending
	closed  bool
}

func newPipe(s *sender) *pipe {
	p := &pipe{sender: s}
	p.changed.L = &p.mu
	return p
}

// fill takes n bytes of a stream frame, at most bulkBytes, as soon as there is room for them. It is for one goroutine.
func (p *pipe) fill(from io.Reader, n int) error {
	if p.arriving == nil {
		p.arriving = make([]byte, bulkBytes)
	}
	if _, err := io.ReadFull(from, p.arriving[:n]); err != nil {
		return cut(err)
	}
	if err := p.screen(p.arriving[:n]); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.pending)-p.taken+n > maxPending && !p.closed {
		p.changed.Wait()
	}
	switch {
	case p.closed && p.sender.isClosed():
		return net.ErrClosed
	case p.closed: // the multiplexer ended over these bytes
		return ErrBrokenStreams
	}
	if p.taken > len(p.pending)/2 {
		p.pending = p.pending[:copy(p.pending, p.pending[p.taken:])]
		p.taken = 0
	}
	p.pending = append(p.pending, p.arriving[:n]...)
	p.changed.Broadcast()
	return nil
}

// The multiplexer's frames: a header, and a stream's bytes behind it if it is of that type.
const (
	muxHeadBytes = 12
	muxData      = 0
	muxPing      = 2
)

// screen refuses the multiplexer's ping, which no end of ours sends: it answers each in a goroutine, which waits while the other
// end does not read, and there could be millions.
func (p *pipe) screen(b []byte) error {
	for len(b) > 0 {
		if n := min(int64(p.bodyLeft), int64(len(b))); n > 0 {
			p.bodyLeft -= uint32(n)
			b = b[n:]
			continue
		}
		n := copy(p.head[p.headHas:], b)
		p.headHas += n
		b = b[n:]
		if p.headHas < muxHeadBytes {
			return nil
		}
		p.headHas = 0
		switch p.head[1] {
		case muxData:
			p.bodyLeft = binary.BigEndian.Uint32(p.head[8:])
		case muxPing:
			return ErrUnknownFrame
		}
	}
	return nil
}

func (p *pipe) Read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.taken == len(p.pending) {
		if p.closed {
			return 0, io.EOF
		}
		p.changed.Wait()
	}
	n := copy(b, p.pending[p.taken:])
	p.taken += n
	p.changed.Broadcast()
	if p.taken == len(p.pending) {
		p.pending, p.taken = p.pending[:0], 0
		if cap(p.pending) > 256<<10 {
			p.pending = nil
		}
	}
	return n, nil
}

// Write is called by one goroutine at a time, with a header, and then with the bytes behind it: they go into one frame.
func (p *pipe) Write(b []byte) (int, error) {
	if p.frame == nil {
		p.frame = make([]byte, headBytes, writtenBytes)
	}
	if len(p.frame) == headBytes && len(b) == muxHeadBytes && b[1] == muxData && binary.BigEndian.Uint32(b[8:]) > 0 {
		p.frame = append(p.frame, b...)
		return len(b), nil
	}
	for done := 0; done < len(b); {
		n := min(len(b)-done, cap(p.frame)-len(p.frame))
		err := p.sender.bulk(append(p.frame, b[done:done+n]...))
		p.frame = p.frame[:headBytes]
		if err != nil {
			return done, err
		}
		done += n
	}
	return len(b), nil
}

func (p *pipe) Close() error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.changed.Broadcast()
	return nil
}
