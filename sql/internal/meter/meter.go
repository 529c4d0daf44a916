// Package meter bounds what is read from a database between two rows.
//
// Drivers take a value whole, however long it is; this is where a value of a gigabyte is stopped.
package meter

import (
	"errors"
	"math"
	"net"
	"sync/atomic"
)

// Meter counts down what may still be read. The zero Meter bounds nothing.
type Meter struct {
	limited atomic.Bool
	left    atomic.Int64
	tripped atomic.Bool
}

// Allow lets so many more bytes in, from now on.
func (m *Meter) Allow(bytes int64) {
	m.left.Store(bytes)
	m.limited.Store(true)
}

// Open takes the bound away.
func (m *Meter) Open() {
	m.limited.Store(false)
	m.left.Store(math.MaxInt64)
}

// Tripped reports whether more came than was let in.
func (m *Meter) Tripped() bool { return m.tripped.Load() }

var errTooMuch = errors.New("more came than a row may have")

// Conn is a connection whose reads are metered.
type Conn struct {
	net.Conn
	Meter *Meter
}

// Read implements net.Conn.
func (c *Conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.Meter.limited.Load() && c.Meter.left.Add(-int64(n)) < 0 {
		c.Meter.tripped.Store(true)
		return 0, errTooMuch
	}
	return n, err
}
