//go:build unix

package stdio

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// ClaimStdout takes the process's standard output for the protocol alone. The writer it
// returns is the stream that descriptor 1 was; descriptor 1 becomes a copy of descriptor 2,
// and os.Stdout becomes os.Stderr, so that the output of any library, cgo code or child process
// ends up in the log. Children do not inherit the claimed descriptor.
//
// Call it once, first thing in main before any other goroutine runs and before anything
// prints or keeps os.Stdout, and hand the writer to Serve:
//
//	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // see Serve
//	in := stdio.OpenStdin()
//	out, err := stdio.ClaimStdout()
//	...
//	err = stdio.Serve(ctx, server, in, out, stdio.Options{})
//
// An error leaves everything unchanged. It fails if the process was started with its
// standard output or standard error closed.
func ClaimStdout() (io.WriteCloser, error) {
	fd, err := unix.FcntlInt(1, unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, fmt.Errorf("duplicate standard output: %w", err)
	}
	if err := redirect(2, 1); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("point standard output at standard error: %w", err)
	}
	os.Stdout = os.Stderr
	return os.NewFile(uintptr(fd), "protocol output"), nil
}
