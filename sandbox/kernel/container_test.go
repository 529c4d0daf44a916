package kernel

import (
	"encoding/binary"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/heap"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/channel"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine/enginetest"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/protocol"
)

func TestAMessageThatIsTooLargeIsNotSent(t *testing.T) {
	should.Be(t, should.ErrOf(Encode(strings.Repeat("x", protocol.MaxToSupervisor))), errFrameTooLarge)
	text, err := Encode(map[string]string{"code": "line\nbreak \x00 \"quoted\" é"})
	should.Hold(t, err == nil && string(text) == `{"code":"line\nbreak \u0000 \"quoted\" é"}`, "got %s, %v", text, err)
}

// played is a run that nobody waits for.
type played struct {
	id    string
	fresh bool
}

func (p played) Request() protocol.Request { return protocol.Request{ID: p.id, Fresh: p.fresh} }
func (played) Timeout() time.Duration      { return time.Minute }
func (played) Stop() <-chan struct{}       { return nil }
func (played) Over() <-chan struct{}       { return nil }
func (played) Follow(*Kernel)              {}
func (played) Advance(protocol.Progress)   {}
func (played) Show(protocol.Display, int)  {}
func (played) Clear()                      {}

func newPlayed() *Container {
	return NewContainer(enginetest.Play(func(io.ReadWriteCloser) {}), []Language{Python, Bash}, Options{Logger: slog.New(slog.DiscardHandler)})
}

// What code sends out is reported with the run that sends it.
func TestTheCurrentRunIsTheLastThatKeepsVariables(t *testing.T) {
	c := newPlayed()
	defer c.Close()
	for _, step := range []struct {
		language Language
		run      played
		want     string
	}{
		{Python, played{"fresh", true}, "fresh"}, {Python, played{"python", false}, "python"}, {Python, played{"later", true}, "python"},
		{Bash, played{"bash", false}, "bash"},
	} {
		c.Kernel(step.language).Follow(step.run)
		for range 20 {
			must.Equal(t, c.current(), step.want, "after %s", step.run.id)
		}
	}
}

// FuzzTake feeds a kernel whatever a taken-over supervisor could send.
func FuzzTake(f *testing.F) {
	for _, seed := range []string{
		`{"type":"ready","language":"python","version":"3"}`, `{"type":"attached","languages":[{"language":"python","started":true}],"runs":["r"]}`, `{"type":"done","id":"r","status":"completed","artifacts":[{"path":"x"}]}`,
		`{"type":"display","id":"r","data":{"image/png":"AAAA","text/html":"<b>"}}`, `{"type":"progress","id":"r","last_line":"\ud800"}`,
		`{"type":"peek","id":"r","stdout":{"head":"x","bytes":-1}}`, `{"type":"kernel","language":"python","cause":"memory"}`, `{"type":"kernel","language":"python","state":"missing"}`,
		`{"type":"twins","language":"python","runs":["../x","r"]}`, `{"type":"versions","runs":[""],"not_kept":[{}]}`, `[`, `{"type":1}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		c := newPlayed()
		defer c.Close()
		k := c.Kernel(Python)
		k.Follow(played{id: "r"})
		for range 2 {
			_ = c.take(body)
		}
		if twins := k.Twins(); twins != nil && len(twins.Runs) > maxWaysBack {
			t.Errorf("not bounded: %d runs", len(twins.Runs))
		}
		if v := c.Versions(); v != nil && len(v.NotKept) > MaxNotKept {
			t.Errorf("not bounded: %d files", len(v.NotKept))
		}
		if len(c.GoesOn()) > MaxRuns {
			t.Errorf("not bounded: %d runs go on", len(c.GoesOn()))
		}
	})
}

// Runs of two languages may be under one connection, and only one of them hears of the next connection's end.
func TestAConnectionFollowsAllBeforeIt(t *testing.T) {
	first, second, third, other := newPlayed(), newPlayed(), newPlayed(), newPlayed()
	second.Succeed(first)
	third.Succeed(second)
	for name, want := range map[string]struct{ got, want bool }{
		"the next": {second.Follows(first), true}, "the one after": {third.Follows(first), true}, "itself": {third.Follows(third), false},
		"another container's": {other.Follows(first), false},
	} {
		should.Equal(t, want.got, want.want, "%s", name)
	}
	for _, c := range []*Container{first, second, third, other} {
		c.Close()
	}
}

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
		conn := must.Get(supervisor.Open())(t)
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
