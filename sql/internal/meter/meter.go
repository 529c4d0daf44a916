// Package meter bounds the bytes that are read from a database between two rows.
//
// Drivers read a value whole, however long it is; the meter stops a value of a gigabyte.
package meter

import (
	"errors"
	"math"
	"net"
	"sync/atomic"
)

// Meter counts down the bytes that may still be read. The zero Meter bounds nothing.
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

// Conn is a connection with metered reads.
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
