// Package pty has pseudo-terminals for tests.
package pty

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/must"
)

// Open opens a terminal of the given width, until the test ends: what is written to screen can be read from the
// other end, and what is written there is typed.
func Open(t testing.TB, columns uint16) (screen, other *os.File) {
	t.Helper()
	other = must.Get(os.OpenFile("/dev/ptmx", os.O_RDWR, 0))(t)
	t.Cleanup(func() { _ = other.Close() })
	must.OK(t, unix.IoctlSetPointerInt(int(other.Fd()), unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(int(other.Fd()), unix.TIOCGPTN)
	must.OK(t, err)
	screen, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	must.OK(t, err)
	t.Cleanup(func() { _ = screen.Close() })
	must.OK(t, unix.IoctlSetWinsize(int(screen.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: columns}))
	return screen, other
}

// Display keeps what appears on a screen.
type Display struct {
	mu    sync.Mutex
	drawn sync.Cond // something came
	text  strings.Builder
	seen  int           // of the text, by Await
	Done  chan struct{} // closed when the screen is
}

// Watch keeps what is written to the screen of a terminal.
func Watch(other *os.File) *Display {
	d := &Display{Done: make(chan struct{})}
	d.drawn.L = &d.mu
	go func() {
		defer close(d.Done)
		_, _ = io.Copy(d, other) // ends with an error when the screen is closed
	}()
	return d
}

func (d *Display) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.drawn.Broadcast()
	return d.text.Write(p)
}

// Await returns when text has been drawn, behind what was awaited before.
func (d *Display) Await(text string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for {
		if at := strings.Index(d.text.String()[d.seen:], text); at >= 0 {
			d.seen += at + len(text)
			return
		}
		d.drawn.Wait()
	}
}

func (d *Display) String() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.text.String()
}
