package upstream

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
)

const (
	// usualLength is the length up to which a message is read without checking the bytes held already.
	usualLength = 1 << 20
	// maxGreeting limits a message before the server named itself, in bytes.
	maxGreeting = 1 << 20
)

// bound limits a server's messages.
type bound struct {
	gate    *semaphore.Weighted // of heldBytes
	most    int                 // bytes per message
	greeted *atomic.Bool        // whether it named itself
}

// incoming is all that a server sends, with a limit on a message's bytes. A long message is read on when there is room for it.
type incoming struct {
	io.ReadCloser
	bound
	lines   bool            // each line is a message; else all is one
	until   context.Context // that ends when nobody reads any more
	refuse  func(error)     // ends the exchange with a reason
	read    int             // bytes of the message
	release func()          // gives the room for a long message back
	isRead  bool            // the library has the long message
}

func (in *incoming) Read(p []byte) (int, error) {
	if in.isRead {
		in.release()
		in.isRead = false
	}
	n, err := in.ReadCloser.Read(p)
	for part := range bytes.Lines(p[:n]) {
		if err := in.add(part); err != nil {
			if in.refuse(err); in.lines {
				return 0, io.EOF // the library would log another one
			}
			return 0, err
		}
	}
	if err != nil && in.lines {
		in.refuse(errEnded)
	}
	return n, err
}

// add counts a message part. The error is that it is too much.
func (in *incoming) add(part []byte) error {
	most := in.most
	if !in.greeted.Load() {
		most = min(most, maxGreeting)
	}
	before := in.read
	if in.read += len(part); in.read > most {
		return &misbehavedError{fmt.Sprintf("it sent a message of more than %d bytes", most)}
	}
	if before <= usualLength && in.read > usualLength { // no more is known of its length than the limit
		share := min(int64(in.most), heldBytes)
		in.release = func() {}
		if in.gate.Acquire(in.until, share) == nil {
			in.release = sync.OnceFunc(func() { in.gate.Release(share) })
		}
	}
	if in.lines && part[len(part)-1] == '\n' {
		in.isRead, in.read = in.read > usualLength, 0
	}
	return nil
}

// Close implements io.Closer.
func (in *incoming) Close() error {
	if in.release != nil {
		in.release()
	}
	return in.ReadCloser.Close()
}
