package setup

import (
	"strings"
	"testing"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/pty"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/test/should"
)

// wipe is how a line is drawn over: up one line, and clear.
const wipe = "\x1b[1A\x1b[J"

func TestATerminalGetsABarThatNeverWraps(t *testing.T) {
	const columns = 70
	screen, other := pty.Open(t, columns)
	shown := pty.Watch(other)
	task := (&terminal{file: screen}).Begin("Python image")
	task.Step(1, 4, "RUN apt-get update")
	shown.Await("Python image  █████░░░░░░░░░░░░░░░ ")
	shown.Await(" RUN apt-get update")
	task.Line(strings.Repeat("a long line of output ", 20))
	shown.Await(" a long line of output")
	task.End("built in 2s: image")
	screen.Close()
	<-shown.Done
	if text := shown.String(); !strings.HasSuffix(strings.TrimRight(text, " \r\n"), wipe+"✓ Python image: built in 2s: image") {
		t.Errorf("the outcome is not all that stays:\n%q", text)
	}
	for line := range strings.FieldsFuncSeq(shown.String(), func(r rune) bool { return r == '\r' || r == '\n' }) {
		visible := strings.TrimPrefix(line, wipe)
		n := len([]rune(visible))
		should.Hold(t, n <= columns, "a line of %d characters on %d columns: %q", n, columns, visible)
	}
}

func TestAFailureStaysOnTheScreen(t *testing.T) {
	t.Setenv("TERM", "xterm")
	screen, other := pty.Open(t, 80)
	shown := pty.Watch(other)
	NewReporter(screen).Begin("Python image").Fail()
	screen.Close()
	<-shown.Done
	text := strings.TrimRight(shown.String(), " \r\n")
	should.Hold(t, strings.HasSuffix(text, "✗ Python image: failed"), "got %q", text)
}

func TestOnlyATerminalThatCanBeDrawnOnGetsABar(t *testing.T) {
	t.Setenv("TERM", "xterm")
	screen, _ := pty.Open(t, 80)
	if _, ok := NewReporter(screen).(*terminal); !ok {
		t.Errorf("a terminal gets %T", NewReporter(screen))
	}
	none, _ := pty.Open(t, 0)
	if _, ok := NewReporter(none).(plain); !ok {
		t.Errorf("a terminal without a size gets %T", NewReporter(none))
	}
	t.Setenv("TERM", "dumb")
	if _, ok := NewReporter(screen).(plain); !ok {
		t.Errorf("a dumb terminal gets %T", NewReporter(screen))
	}
}
