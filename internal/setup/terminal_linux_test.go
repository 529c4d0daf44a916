package setup

import (
	"fmt"
	"io"
	"os"
	"strings"
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

func TestATerminalGetsABarThatNeverWrapsAndAnOutcome(t *testing.T) {
	t.Setenv("TERM", "xterm")
	const columns = 70
	screen, other := pseudoTerminal(t, columns)
	shown := make(chan string)
	go func() {
		text, _ := io.ReadAll(other) // ends with an error when the screen is closed
		shown <- string(text)
	}()
	reporter, ok := NewReporter(screen).(terminal)
	if !ok {
		t.Fatalf("a terminal gets %T", NewReporter(screen))
	}
	for _, end := range []func(Task){func(task Task) { task.End("built in 2s: image") }, Task.Fail} {
		task := reporter.Begin("Python image")
		task.Step(1, 4, "RUN apt-get update")
		for range 50 {
			task.Line(strings.Repeat("a long line of output ", 20))
		}
		task.Step(3, 4, "COPY a b")
		end(task)
	}
	screen.Close()
	text := <-shown
	for _, want := range []string{"✓ Python image built in 2s: image\r\n", "✗ Python image failed\r\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not on the screen:\n%q", want, text)
		}
	}
	for line := range strings.FieldsFuncSeq(text, func(r rune) bool { return strings.ContainsRune("\r\n\x1b", r) }) {
		if n := len([]rune(line)); n > columns+8 { // an escape sequence's letters
			t.Errorf("a line of %d characters on %d columns: %q", n, columns, line)
		}
	}
}
