package kernel

import (
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/heap"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/channel"
)

// opening is what a forged supervisor sends for a stream with a full window of bytes: frames of the channel with what its
// multiplexer sends.
func opening(stream uint32) []byte {
	const window, bulk, synFlag = 256 << 10, 32 << 10, 1
	muxed := binary.BigEndian.AppendUint16([]byte{0, 0}, synFlag)
	muxed = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(muxed, stream), window)
	muxed = append(muxed, make([]byte, window)...)
	var frames []byte
	for len(muxed) > 0 {
		n := min(len(muxed), bulk)
		frames = append(append(binary.BigEndian.AppendUint32(frames, uint32(n)), 's'), muxed[:n]...)
		muxed = muxed[n:]
	}
	return frames
}

// What the containers of a session send, and the server has not read, is bounded for both together.
func TestUnreadConnectionsOfASessionAreBoundedInMemory(t *testing.T) {
	heap.Bound(t, func() {
		out, ended := NewConns(), make(chan struct{})
		var sending sync.WaitGroup
		for range 2 {
			one, other := net.Pipe()
			k := &Container{conn: channel.New(one, channel.Options{}), with: Options{Out: Out{Conns: out, Serve: func(_ string, conn net.Conn) {
				<-ended
				_ = conn.Close()
			}}}}
			defer k.Close()
			go k.acceptOut()
			go func() { _, _ = k.conn.Receive() }()
			go func() { _, _ = io.Copy(io.Discard, other) }()
			sending.Go(func() {
				for i := range uint32(200) {
					if _, err := other.Write(opening(2*i + 2)); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		sending.Wait()
		close(ended)
	})
}
