package stdio

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/windows"
)

// ClaimStdout takes the process's standard output for the protocol alone, as it does on Unix: who asks for the standard
// output from then on, in this process or in a child, gets the standard error.
func ClaimStdout() (io.WriteCloser, error) {
	if err := windows.SetStdHandle(windows.STD_OUTPUT_HANDLE, windows.Handle(os.Stderr.Fd())); err != nil {
		return nil, fmt.Errorf("point standard output at standard error: %w", err)
	}
	out := os.Stdout
	os.Stdout = os.Stderr
	return out, nil
}

// OpenStdin returns the process's standard input.
func OpenStdin() *os.File { return os.Stdin }
