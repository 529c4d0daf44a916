package setup

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// pseudoTerminal opens a terminal of the given width: what is written to screen can be
// read from the other end.
func pseudoTerminal(t *testing.T, columns uint16) (screen, other *os.File) {
	t.Helper()
	other, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { other.Close() })
	if err := unix.IoctlSetPointerInt(int(other.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(other.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	screen, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { screen.Close() })
	if err := unix.IoctlSetWinsize(int(screen.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: columns}); err != nil {
		t.Fatal(err)
	}
	return screen, other
}

// display keeps what appears on a screen.
type display struct {
	mu    sync.Mutex
	drawn sync.Cond // something came
	text  strings.Builder
	done  chan struct{} // closed when the screen is
}

func watch(other *os.File) *display {
	d := &display{done: make(chan struct{})}
	d.drawn.L = &d.mu
	go func() {
		defer close(d.done)
		_, _ = io.Copy(d, other) // ends with an error when the screen is closed
	}()
	return d
}

func (d *display) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.drawn.Broadcast()
	return d.text.Write(p)
}

// await returns when text has been drawn.
func (d *display) await(text string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for !strings.Contains(d.text.String(), text) {
		d.drawn.Wait()
	}
}

func (d *display) String() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.text.String()
}

// wipe is how a line is drawn over: up one line, and clear.
const wipe = "\x1b[1A\x1b[J"

func TestATerminalGetsABarThatNeverWraps(t *testing.T) {
	const columns = 70
	screen, other := pseudoTerminal(t, columns)
	shown := watch(other)
	task := terminal{file: screen}.Begin("Python image")
	task.Step(1, 4, "RUN apt-get update")
	shown.await("Python image  █████░░░░░░░░░░░░░░░ ")
	shown.await(" RUN apt-get update")
	task.Line(strings.Repeat("a long line of output ", 20))
	shown.await(" a long line of output")
	task.End("built in 2s: image")
	screen.Close()
	<-shown.done
	if text := shown.String(); !strings.HasSuffix(strings.TrimRight(text, " \r\n"), wipe+"✓ Python image: built in 2s: image") {
		t.Errorf("the outcome is not all that stays:\n%q", text)
	}
	for line := range strings.FieldsFuncSeq(shown.String(), func(r rune) bool { return r == '\r' || r == '\n' }) {
		visible := strings.TrimPrefix(line, wipe)
		if n := len([]rune(visible)); n > columns {
			t.Errorf("a line of %d characters on %d columns: %q", n, columns, visible)
		}
	}
}

func TestAFailureStaysOnTheScreen(t *testing.T) {
	t.Setenv("TERM", "xterm")
	screen, other := pseudoTerminal(t, 80)
	shown := watch(other)
	NewReporter(screen).Begin("Python image").Fail()
	screen.Close()
	<-shown.done
	if text := strings.TrimRight(shown.String(), " \r\n"); !strings.HasSuffix(text, "✗ Python image: failed") {
		t.Errorf("got %q", text)
	}
}

func TestOnlyATerminalThatCanBeDrawnOnGetsABar(t *testing.T) {
	t.Setenv("TERM", "xterm")
	screen, _ := pseudoTerminal(t, 80)
	if _, ok := NewReporter(screen).(terminal); !ok {
		t.Errorf("a terminal gets %T", NewReporter(screen))
	}
	none, _ := pseudoTerminal(t, 0)
	if _, ok := NewReporter(none).(plain); !ok {
		t.Errorf("a terminal without a size gets %T", NewReporter(none))
	}
	t.Setenv("TERM", "dumb")
	if _, ok := NewReporter(screen).(plain); !ok {
		t.Errorf("a dumb terminal gets %T", NewReporter(screen))
	}
}
