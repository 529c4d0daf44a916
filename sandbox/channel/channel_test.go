package channel

import (
	"bytes"
	"crypto/rand"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/nettest"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

const maxControl = 1 << 20

// ends is one end of a pair of pipes.
type ends struct {
	io.Reader
	io.Writer
	close func() error
}

func (e ends) Close() error { return e.close() }

// pipes are both ends. Nothing is buffered between them.
func pipes() (one, other ends) {
	r1, w1 := io.Pipe()
	r2, w2 := io.Pipe()
	one = ends{r1, w2, func() error { return errors.Join(r1.Close(), w2.Close()) }}
	other = ends{r2, w1, func() error { return errors.Join(r2.Close(), w1.Close()) }}
	return one, other
}

// pair is a server's end and a supervisor's.
func pair(t testing.TB) (server, supervisor *Conn) {
	one, other := pipes()
	server, supervisor = New(one, Options{MaxControl: maxControl}), New(other, Options{Supervisor: true, MaxControl: maxControl})
	t.Cleanup(func() { _ = errors.Join(server.Close(), supervisor.Close()) })
	return server, supervisor
}

// against is a server's end whose other end writes what it likes.
func against(t testing.TB) (server *Conn, hostile ends) {
	one, other := pipes()
	server = New(one, Options{MaxControl: maxControl})
	t.Cleanup(func() { _ = errors.Join(server.Close(), other.Close()) })
	return server, other
}

// receiving keeps what an end receives, and closes it when nothing more can be believed.
func receiving(c *Conn) (messages <-chan string, ended <-chan error) {
	got, end := make(chan string, 1000), make(chan error, 1)
	go func() {
		for {
			body, err := c.Receive()
			if err != nil {
				end <- err
				_ = c.Close()
				return
			}
			got <- string(body)
		}
	}()
	return got, end
}

func frame(kind byte, body []byte) []byte {
	return append(append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), kind), body...)
}

// Types and flags of a multiplexer's frames.
const (
	typeData, typeWindow, typePing, typeGoAway = 0, 1, 2, 3
	flagSYN, flagRST                           = 1, 8
)

func muxFrame(kind byte, flags uint16, stream, length uint32) []byte {
	head := binary.BigEndian.AppendUint16([]byte{0, kind}, flags)
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(head, stream), length)
}

func random(size int) []byte {
	b := make([]byte, size)
	_, _ = rand.Read(b)
	return b
}

func TestControlMessagesSurviveTheWay(t *testing.T) {
	server, supervisor := pair(t)
	got, _ := receiving(supervisor)
	sent := []string{"", "{}", "line\nbreak \x00 \xff é", string(random(maxControl))}
	for _, message := range sent {
		must.OK(t, server.Send([]byte(message)))
		should.Equal(t, <-got, message)
	}
	// Those of many senders stay whole, also beside streams.
	back, _ := receiving(server)
	var senders sync.WaitGroup
	for i := range 20 {
		senders.Go(func() {
			for range 20 {
				_ = supervisor.Send(bytes.Repeat([]byte{byte('a' + i)}, 1000+i))
			}
		})
	}
	for range 400 {
		m := <-back
		must.Hold(t, strings.Trim(m, m[:1]) == "" && len(m) == 1000+int(m[0]-'a'), "a message came as %.20q, %d bytes", m, len(m))
	}
	senders.Wait()
}

func TestStreamsOfBothEndsCarryEveryByte(t *testing.T) {
	server, supervisor := pair(t)
	receiving(server)
	receiving(supervisor)
	for name, c := range map[string][2]*Conn{"the server's": {server, supervisor}, "the supervisor's": {supervisor, server}} {
		var wait sync.WaitGroup
		for i := range 8 {
			wait.Go(func() {
				stream, err := c[0].Open()
				if err != nil {
					t.Error(err)
					return
				}
				defer stream.Close()
				sent := random(1<<20 + i)
				go func() { _, _ = stream.Write(sent) }()
				got := make([]byte, len(sent))
				_, err = io.ReadFull(stream, got)
				should.Hold(t, err == nil && bytes.Equal(got, sent), "%s: what came back is not what was sent: %v", name, err)
			})
			echo := must.Get(c[1].Accept())(t)
			go func() {
				_, _ = io.Copy(echo, echo)
				_ = echo.Close()
			}()
		}
		wait.Wait()
	}
}

// A frame that is not what an end sends ends the connection, and costs no more than what has come of it.
func TestFramesThatAreRefused(t *testing.T) {
	huge := func(kind byte, n uint32) []byte { return append(binary.BigEndian.AppendUint32(nil, n), kind) }
	ping := muxFrame(typePing, flagSYN, 0, 7)
	for name, test := range map[string]struct {
		sent [][]byte
		want error
	}{
		"nothing":                       {nil, io.EOF},
		"half a head":                   {[][]byte{{0, 0, 0}}, io.ErrUnexpectedEOF},
		"half a control message":        {[][]byte{frame('c', []byte("{}"))[:6]}, io.ErrUnexpectedEOF},
		"half of a large one":           {[][]byte{huge('c', maxControl), make([]byte, 100_000)}, io.ErrUnexpectedEOF},
		"half a stream frame":           {[][]byte{frame('s', ping)[:8]}, io.ErrUnexpectedEOF},
		"a control message too large":   {[][]byte{huge('c', maxControl+1)}, ErrFrameTooLarge},
		"the largest length":            {[][]byte{huge('c', 1<<32-1)}, ErrFrameTooLarge},
		"a stream frame too large":      {[][]byte{huge('s', bulkBytes+1)}, ErrFrameTooLarge},
		"another kind":                  {[][]byte{frame('x', nil)}, ErrUnknownFrame},
		"the kind of the old protocol":  {[][]byte{[]byte("\x00\x00\x00\x10{\"type\":\"ready\"}")}, ErrUnknownFrame},
		"a question of the multiplexer": {[][]byte{frame('s', ping)}, ErrUnknownFrame},
		"one in parts": {[][]byte{
			frame('s', append(muxFrame(typeData, flagSYN, 2, 5), "hello"...)), frame('s', ping[:1]), frame('s', ping[1:]),
		}, ErrUnknownFrame},
		"the bytes of a stream that look like one": {[][]byte{
			frame('s', append(muxFrame(typeData, flagSYN, 2, 24), ping...)), frame('s', ping), frame('c', []byte("{}")),
		}, io.EOF},
	} {
		t.Run(name, func(t *testing.T) {
			server, hostile := against(t)
			go func() { _, _ = io.Copy(io.Discard, hostile.Reader) }()
			_, ended := receiving(server)
			for _, b := range test.sent {
				_, err := hostile.Write(b)
				should.Hold(t, err == nil || !errors.Is(test.want, io.EOF), "%v", err)
			}
			_ = hostile.Close()
			should.Be(t, <-ended, test.want, "it ended with")
		})
	}
}

func TestALengthThatIsForgedCostsNothing(t *testing.T) {
	forged := append(binary.BigEndian.AppendUint32(nil, maxControl), "c{"...)
	if used := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			c := New(ends{bytes.NewReader(forged), io.Discard, func() error { return nil }}, Options{MaxControl: maxControl})
			_, _ = c.Receive()
			_ = c.Close()
		}
	}).AllocedBytesPerOp(); used > maxControl/2 {
		t.Errorf("it cost %d bytes", used)
	}
}

// heap is what is in use now.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// What a hostile supervisor opens and sends is bounded, whether it reads the answers or not, and control messages go on
// where it keeps to the rules of frames.
func TestFloodsAreBounded(t *testing.T) {
	const most = 40 << 20
	chunk := make([]byte, bulkBytes-muxHeadBytes)
	const goes, ends, waits, either = "goes on", "ends", "waits", "" // either, as the multiplexer is quick to drop what comes
	for name, test := range map[string]struct {
		reads   bool
		then    string
		frames  int
		forging func(i uint32) []byte
	}{
		"ten thousand streams":               {true, goes, 10_000, func(i uint32) []byte { return muxFrame(typeWindow, flagSYN, 2*i+2, 0) }},
		"ten thousand, and it does not read": {false, goes, 10_000, func(i uint32) []byte { return muxFrame(typeWindow, flagSYN, 2*i+2, 0) }},
		"a million, and it does not read":    {false, waits, 1_000_000, func(i uint32) []byte { return muxFrame(typeWindow, flagSYN, 2*i+2, 0) }},
		"ten thousand with something in them": {true, either, 10_000, func(i uint32) []byte {
			return append(muxFrame(typeData, flagSYN, 2*i+2, uint32(len(chunk))), chunk...)
		}},
		"streams opened and reset": {true, goes, 10_000, func(i uint32) []byte {
			return append(muxFrame(typeWindow, flagSYN, 2*i+2, 0), muxFrame(typeWindow, flagRST, 2*i+2, 0)...)
		}},
		"a stream that nobody reads": {true, ends, 1000, func(i uint32) []byte {
			if i == 0 {
				return muxFrame(typeWindow, flagSYN, 2, 0)
			}
			return append(muxFrame(typeData, 0, 2, uint32(len(chunk))), chunk...)
		}},
		"streams that were never opened": {true, either, 1000, func(i uint32) []byte {
			return append(muxFrame(typeData, 0, 2*i+2, uint32(len(chunk))), chunk...)
		}},
		"what is none of the multiplexer's": {true, ends, 1000, func(uint32) []byte { return bytes.Repeat([]byte{0xff}, bulkBytes) }},
		"the end of the multiplexer":        {true, goes, 2, func(uint32) []byte { return muxFrame(typeGoAway, 0, 0, 1) }},
		"questions, and it does not read":   {false, ends, 1_000_000, func(i uint32) []byte { return muxFrame(typePing, flagSYN, 0, i) }},
	} {
		t.Run(name, func(t *testing.T) {
			server, hostile := against(t)
			got, ended := receiving(server)
			if test.reads {
				go func() { _, _ = io.Copy(io.Discard, hostile.Reader) }()
			}
			before := heap()
			if test.then == waits { // until the server closes
				go func() {
					server.pipe.waitsForRoom()
					used := heap() - before
					should.Hold(t, used <= most, "it takes %d MiB", used>>20)
					_ = server.Close()
				}()
			}
			batch := make([]byte, 0, bulkBytes)
			var err error
			for i := range test.frames {
				one := test.forging(uint32(i))
				if len(batch)+len(one) > bulkBytes {
					if _, err = hostile.Write(frame('s', batch)); err != nil {
						break
					}
					batch = batch[:0]
				}
				batch = append(batch, one...)
			}
			if err == nil {
				_, err = hostile.Write(frame('s', batch))
			}
			if err == nil {
				_, _ = hostile.Write(frame('c', []byte("after"))) // who has ended the connection does not take it
			}
			used := heap() - before
			should.Hold(t, used <= most, "it takes %d MiB", used>>20)
			select {
			case m := <-got:
				should.Hold(t, m == "after" && test.then != ends, "the connection goes on with %q", m)
			case err := <-ended:
				if test.then == waits && errors.Is(err, net.ErrClosed) {
					return
				}
				if test.then == goes || test.then == waits || !errors.Is(err, ErrBrokenStreams) && !errors.Is(err, ErrUnknownFrame) {
					t.Errorf("it ended with %v", err)
				}
			}
		})
	}
}

// A supervisor that never closes what the server has closed would have it keep all of that.
func TestStreamsThatTheServerAloneHasClosedAreBounded(t *testing.T) {
	server, hostile := against(t)
	go func() { _, _ = io.Copy(io.Discard, hostile.Reader) }()
	_, ended := receiving(server)
	for i := range uint32(maxStreams) {
		must.OK(t, should.ErrOf(hostile.Write(frame('s', muxFrame(typeWindow, flagSYN, 2*i+2, 0)))))
		stream := must.Get(server.Accept())(t, "stream %d", i)
		_ = stream.Close()
	}
	must.OK(t, should.ErrOf(hostile.Write(frame('s', muxFrame(typeWindow, flagSYN, 2*maxStreams+2, 0)))))
	should.Be(t, should.ErrOf(server.Accept()), ErrBrokenStreams, "one more")
	should.Be(t, <-ended, ErrBrokenStreams, "the connection ended with")
}

// Many streams that are opened at once wait for one another, and none is reset.
func TestStreamsThatAreNotAcceptedYetWait(t *testing.T) {
	server, supervisor := pair(t)
	receiving(server)
	receiving(supervisor)
	var all sync.WaitGroup
	for range 5 * maxBacklog {
		all.Go(func() {
			stream, err := supervisor.Open()
			if err != nil {
				t.Error(err)
				return
			}
			defer stream.Close()
			should.OK(t, should.ErrOf(stream.Write([]byte("x"))))
			got, err := io.ReadAll(stream)
			should.Hold(t, err == nil && string(got) == "x", "%q came, %v", got, err)
		})
	}
	for range 5 * maxBacklog {
		stream := must.Get(server.Accept())(t)
		all.Go(func() {
			_, _ = io.CopyN(stream, stream, 1)
			_ = stream.Close()
		})
	}
	all.Wait()
}

// waitsForRoom returns when more has come than there is room for.
func (p *pipe) waitsForRoom() {
	for full := false; !full; time.Sleep(time.Millisecond) {
		p.mu.Lock()
		full = len(p.pending)-p.taken > maxPending-bulkBytes
		p.mu.Unlock()
	}
}

// What windows allow all streams together is more than what waits for the multiplexer, which may be late on a busy machine.
func TestStreamDataWaitsForAMultiplexerThatIsLate(t *testing.T) {
	p := newPipe(&sender{})
	sent := append(muxFrame(typeData, 0, 2, 16<<20), random(16<<20)...)
	filled := make(chan error, 1)
	go func() {
		from := bytes.NewReader(sent)
		for from.Len() > 0 {
			if err := p.fill(from, min(from.Len(), bulkBytes)); err != nil {
				filled <- err
				break
			}
		}
		_ = p.Close()
	}()
	p.waitsForRoom()
	got, err := io.ReadAll(p)
	should.Hold(t, len(filled) == 0 && err == nil && bytes.Equal(got, sent), "%d bytes of %d came, %v", len(got), len(sent), err)
}

// noting tells what is being written to it.
type noting struct {
	ends
	kind atomic.Uint32
}

func (n *noting) Write(b []byte) (int, error) {
	n.kind.Store(uint32(b[4]))
	return n.ends.Write(b)
}

func (s *sender) hasWaiting() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiting > 0
}

// A control message waits for no more than 64 KiB of streams' bytes, however many there are.
func TestAControlMessageDoesNotWaitForBulk(t *testing.T) {
	one, other := pipes()
	raw := &noting{ends: one}
	c := New(raw, Options{Supervisor: true, MaxControl: maxControl})
	defer other.Close()
	defer c.Close()
	for range 8 {
		go func() {
			if stream, err := c.Open(); err == nil {
				_, _ = stream.Write(make([]byte, 200<<10)) // less than its window
			}
		}()
	}
	next := func() (kind byte, body []byte) {
		head := make([]byte, headBytes)
		_, err := io.ReadFull(other, head)
		body = make([]byte, binary.BigEndian.Uint32(head))
		_, err2 := io.ReadFull(other, body)
		must.Hold(t, errors.Join(err, err2) == nil, "%v %v", err, err2)
		return head[4], body
	}
	for large := 0; large < 4; { // until all have been opened, and send
		if _, body := next(); len(body) > 10_000 {
			large++
		}
	}
	most := 0
	for i := 0; i < 5 || most < 10_000 && i < 20_000; i++ { // a busy machine may not have come to the streams yet
		message := fmt.Sprint("message ", i)
		raw.kind.Store(0)
		go func() { _ = c.Send([]byte(message)) }()
		for !c.sender.hasWaiting() && raw.kind.Load() != kindControl { // for an end that does not read, as the streams do
			runtime.Gosched()
		}
		bulk := 0
		kind, body := next()
		for ; kind != kindControl; kind, body = next() {
			bulk += len(body)
		}
		most = max(most, bulk)
		should.Hold(t, string(body) == message && bulk <= 64<<10, "%q came as %q behind %d bytes", message, body, bulk)
	}
	should.Hold(t, most >= 10_000, "no stream had much to send: %d bytes", most)
}

// Where one stream is not read, those beside it and control messages go on.
func TestAStreamThatIsNotReadHoldsUpNoOther(t *testing.T) {
	server, supervisor := pair(t)
	got, _ := receiving(server)
	receiving(supervisor)
	stuck, err := supervisor.Open()
	must.OK(t, err)
	must.OK(t, should.ErrOf(server.Accept()))
	full := make(chan error)
	go func() {
		_ = stuck.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
		_, err := stuck.Write(make([]byte, 64<<20))
		full <- err
	}()
	for i := range 20 {
		stream := must.Get(supervisor.Open())(t)
		go func() {
			_, _ = stream.Write(make([]byte, 1<<20))
			_ = stream.Close()
		}()
		other := must.Get(server.Accept())(t)
		should.Give(io.Copy(io.Discard, other))(t, 1<<20)
		_ = other.Close()
		err = supervisor.Send([]byte(fmt.Sprint(i)))
		should.Hold(t, err == nil && <-got == fmt.Sprint(i), "message %d: %v", i, err)
	}
	var timeout net.Error
	err = <-full
	should.Hold(t, errors.As(err, &timeout) && timeout.Timeout(), "the one that is not read: %v", err)
}

func TestCloseEndsEverything(t *testing.T) {
	server, supervisor := pair(t)
	_, ended := receiving(supervisor)
	receiving(server)
	stream, err := server.Open()
	must.OK(t, err)
	waiting := map[string]func() error{
		"accept": func() error { _, err := server.Accept(); return err },
		"read":   func() error { _, err := stream.Read(make([]byte, 1)); return err },
		"write":  func() error { _, err := stream.Write(make([]byte, 1<<20)); return err },
	}
	failed := make(chan string, len(waiting))
	for name, call := range waiting {
		go func() {
			if call() != nil {
				failed <- name
			}
		}()
	}
	_ = server.Close()
	_ = server.Close()
	var names []string
	for range waiting {
		names = append(names, <-failed)
	}
	slices.Sort(names)
	should.Hold(t, slices.Equal(names, []string{"accept", "read", "write"}), "ended are %q", names)
	should.Be(t, server.Send(nil), net.ErrClosed, "a message")
	_, err = server.Open()
	should.Hold(t, err != nil, "a stream was opened")
	should.Be(t, <-ended, io.EOF, "the other end hears")
}

// A message that waits for an end that does not read ends with the connection.
func TestCloseEndsWhoeverSends(t *testing.T) {
	server, _ := against(t)
	failed := make(chan error)
	for range 3 {
		go func() { failed <- server.Send([]byte("x")) }()
	}
	_ = server.Close()
	for range 3 {
		err := <-failed
		should.Hold(t, err != nil, "it was sent")
	}
}

// FuzzReceive feeds a server's end whatever a hostile supervisor could send.
func FuzzReceive(f *testing.F) {
	for _, seed := range [][]byte{
		frame('c', []byte(`{"type":"ready"}`)), frame('s', muxFrame(typeWindow, flagSYN, 2, 0)), frame('s', muxFrame(typePing, 0, 0, 1)),
		frame('s', append(muxFrame(typeData, flagSYN, 2, 5), "hello"...)), frame('s', muxFrame(typeGoAway, 0, 0, 0)), frame('x', nil),
		append(frame('s', muxFrame(typeData, flagSYN, 2, 1<<31)), frame('c', []byte("{}"))...), {0xff, 0xff, 0xff, 0xff, 'c'}, {0, 0},
		bytes.Repeat(frame('s', muxFrame(typeWindow, flagSYN|flagRST, 2, 1<<31)), 3),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, sent []byte) {
		const most = 4 << 10
		c := New(ends{bytes.NewReader(sent), io.Discard, func() error { return nil }}, Options{MaxControl: most})
		defer c.Close()
		for left := len(sent); ; {
			message, err := c.Receive()
			if err != nil {
				return
			}
			left -= headBytes + len(message)
			must.Hold(t, len(message) <= most && left >= 0, "a message of %d bytes", len(message))
		}
	})
}

// streams are both ends of one.
func streams(t testing.TB) (one, other net.Conn) {
	server, supervisor := pair(t)
	receiving(server)
	receiving(supervisor)
	one, err := supervisor.Open()
	must.OK(t, err)
	other, err = server.Accept()
	must.OK(t, err)
	return one, other
}

func TestAStreamIsANetConn(t *testing.T) {
	nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) {
		one, other := streams(t)
		return one, other, func() { _, _ = one.Close(), other.Close() }, nil
	})
}

// Package net/http ends reads by deadlines and reads on later, by TLS as well, which takes most errors for the end.
func TestADeadlineIsNotTheEndOfTLS(t *testing.T) {
	one, other := streams(t)
	web := httptest.NewUnstartedServer(nil)
	web.StartTLS()
	defer web.Close()
	server := tls.Server(one, web.TLS)
	trusting := web.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	trusting.ServerName = "example.com"
	client := tls.Client(other, trusting)
	go func() { _ = client.Handshake() }()
	must.OK(t, server.Handshake())
	read := make(chan error)
	go func() {
		_, err := server.Read(make([]byte, 1))
		read <- err
	}()
	_ = server.SetReadDeadline(longAgo)
	should.Be(t, <-read, os.ErrDeadlineExceeded, "it was read")
	_ = server.SetReadDeadline(time.Time{})
	go func() { _, _ = client.Write([]byte("hello")) }()
	text := make([]byte, 5)
	_, err := io.ReadFull(server, text)
	should.Hold(t, err == nil && string(text) == "hello", "%q came, %v", text, err)
}

// What writes to an end that reads no more ends when that end closes, whether its window is full or not.
func TestAStreamIsOverWhenEitherEndCloses(t *testing.T) {
	one, other := streams(t)
	ended := make(chan error)
	go func() {
		_, err := other.Write(make([]byte, 64<<20))
		ended <- err
	}()
	must.OK(t, should.ErrOf(io.ReadFull(one, make([]byte, 100_000))))
	_ = one.Close()
	n, err := other.Read(make([]byte, 1))
	should.Hold(t, n == 0 && errors.Is(err, io.EOF), "read: %d, %v", n, err)
	should.Be(t, <-ended, net.ErrClosed, "write")
	n, err = other.Read(make([]byte, 1))
	should.Hold(t, n == 0 && errors.Is(err, io.EOF), "read once more: %d, %v", n, err)
}
