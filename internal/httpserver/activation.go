// Sockets that systemd passes to the server.

package httpserver

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
)

// firstPassed is the first socket's descriptor that is passed, after stdin, stdout and stderr.
const firstPassed = 3

// Activated returns the socket that a service manager passes to this process, as systemd does: LISTEN_FDS is the number of sockets, and
// LISTEN_PID their process. It is called once; child processes do not get the socket.
func Activated() (net.Listener, error) {
	pid, count := os.Getenv("LISTEN_PID"), os.Getenv("LISTEN_FDS")
	for _, name := range []string{"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"} {
		_ = os.Unsetenv(name)
	}
	switch {
	case count == "" || pid != strconv.Itoa(os.Getpid()):
		return nil, errors.New("no socket was passed to this process; start it by a .socket unit of systemd, or by systemd-socket-activate")
	case count != "1":
		return nil, fmt.Errorf("%s sockets were passed, and one is served; have one ListenStream in the .socket unit", count)
	}
	file := os.NewFile(firstPassed, "LISTEN_FD_3")
	l, err := net.FileListener(file) // which uses its own descriptor that is closed on exec
	if err := errors.Join(err, file.Close()); err != nil {
		return nil, fmt.Errorf("the socket that was passed: %w", err)
	}
	return l, nil
}
