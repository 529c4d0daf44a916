package upstream

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/mark3labs/mcp-go/client/transport"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
)

// A long answer of a process holds its room until the call that has asked for it is over: another one is not read on before.
func TestLongAnswersOfProcessesWaitForRoom(t *testing.T) {
	const most = 4 << 20
	room := newGate(most)
	var greeted atomic.Bool
	greeted.Store(true)
	answer := func(ctx context.Context) chan *transport.JSONRPCResponse {
		stdout, theirs, err := os.Pipe()
		must.OK(t, err)
		p := &process{
			stdin: theirs, stdout: stdout, gate: room, maxAnswer: most, greeted: &greeted, log: slog.New(slog.DiscardHandler), done: make(chan struct{}),
			pending: map[string]asking{"1": {ctx, make(chan *transport.JSONRPCResponse, 1)}},
		}
		answered := p.pending["1"].answered
		go p.read()
		go func() {
			fmt.Fprintf(theirs, `{"jsonrpc":"2.0","id":1,"result":"%s"}`+"\n", strings.Repeat("x", 2*usualLine))
			theirs.Close()
		}()
		return answered
	}
	ctx, over := context.WithCancel(t.Context())
	<-answer(ctx)
	second := answer(t.Context())
	if held := room.held; held != most || len(second) > 0 {
		t.Errorf("%d bytes are held for one of two, of at most %d", held, most)
	}
	over()
	<-second
}
