package upstream

import (
	"bufio"
	"io"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sync/semaphore"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

// A long message of a process holds its room until more is read: another one is not read on before.
func TestLongMessagesOfProcessesWaitForRoom(t *testing.T) {
	const most = 4 << 20
	limit := bound{semaphore.NewWeighted(most), most, new(atomic.Bool)}
	limit.greeted.Store(true)
	long := strings.Repeat("x", 2*usualLength) + "\n"
	open := func() *bufio.Reader {
		return bufio.NewReader(&incoming{ReadCloser: io.NopCloser(strings.NewReader(long + long)), bound: limit, lines: true, until: t.Context(), refuse: func(error) {}})
	}
	first, second, read := open(), open(), make(chan error, 1)
	_, err := first.ReadString('\n')
	must.OK(t, err)
	go func() { _, err := io.Copy(io.Discard, second); read <- err }()
	should.Hold(t, !limit.gate.TryAcquire(1) && len(read) == 0, "one of two holds less than all the room")
	_, _ = io.Copy(io.Discard, first)
	must.OK(t, <-read)
}
