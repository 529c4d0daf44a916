//go:build linux

package pod

import (
	"errors"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/door"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers/supervisor/tree"
	"golang.org/x/sys/unix"
)

// reachWithin is the time for all addresses to answer.
const reachWithin = 500 * time.Millisecond

func reach(args []string) error {
	_, err := tryToReach(args)
	return err
}

// udp follows an address that is asked as a name server over UDP, instead of connected to.
const udp = "/udp"

// nameQuery asks for version.bind (TXT, class CHAOS), which name servers answer or refuse themselves.
const nameQuery = "\x00\x01\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x07version\x04bind\x00\x00\x10\x00\x03"

// tryToReach prints whether there is more than loopback, and which addresses can be reached, in one line, and returns whether there
// were any. A refusal is none: policies that reject look the same as a port that nothing listens on.
func tryToReach(args []string) (some bool, err error) {
	if !hasNetwork() {
		_, err := io.WriteString(os.Stdout, "lo\n")
		return false, err
	}
	var waiting []unix.PollFd
	at := map[int32]string{}
	reached := map[string]bool{}
	for _, text := range args {
		host, asked := strings.CutSuffix(text, udp)
		address, err := netip.ParseAddrPort(host)
		if err != nil {
			return false, err
		}
		kind, event := unix.SOCK_STREAM, int16(unix.POLLOUT)
		if asked {
			kind, event = unix.SOCK_DGRAM, unix.POLLIN
		}
		fd, err := connectTo(address, kind)
		if asked && err == nil {
			_, err = unix.Write(fd, []byte(nameQuery))
		}
		switch {
		case asked && err == nil, errors.Is(err, unix.EINPROGRESS):
			waiting, at[int32(fd)] = append(waiting, unix.PollFd{Fd: int32(fd), Events: event}), text
		default:
			reached[text] = err == nil
		}
	}
	deadline := time.Now().Add(reachWithin)
	for len(waiting) > 0 && time.Until(deadline) > 0 {
		if _, err := unix.Poll(waiting, int(time.Until(deadline).Milliseconds())+1); err != nil && !errors.Is(err, unix.EINTR) {
			return false, err
		}
		var still []unix.PollFd
		for _, p := range waiting {
			if p.Revents == 0 {
				still = append(still, p)
				continue
			}
			code, err := unix.GetsockoptInt(int(p.Fd), unix.SOL_SOCKET, unix.SO_ERROR)
			reached[at[p.Fd]] = err == nil && code == 0
		}
		waiting = still
	}
	text := "net"
	for _, a := range args {
		if reached[a] {
			some, text = true, text+" "+a
		}
	}
	_, err = io.WriteString(os.Stdout, text+"\n")
	return some, err
}

// hasNetwork reports whether there is an interface that is up, beside loopback; an error counts as one.
func hasNetwork() bool {
	interfaces, err := net.Interfaces()
	for _, i := range interfaces {
		if i.Flags&net.FlagUp != 0 && i.Flags&net.FlagLoopback == 0 {
			return true
		}
	}
	return err != nil
}

// connectTo begins to connect. The socket is open until the process ends.
func connectTo(address netip.AddrPort, kind int) (int, error) {
	family, to := unix.AF_INET6, unix.Sockaddr(&unix.SockaddrInet6{Port: int(address.Port()), Addr: address.Addr().As16()})
	if address.Addr().Is4() {
		family, to = unix.AF_INET, &unix.SockaddrInet4{Port: int(address.Port()), Addr: address.Addr().As4()}
	}
	fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return 0, err
	}
	return fd, unix.Connect(fd, to)
}

// listenOn accepts connections at a port, and closes them.
func listenOn(args []string) error {
	port := 0
	if len(args) == 1 {
		port, _ = strconv.Atoi(args[0])
	}
	if port < 1 || port > 1<<16-1 {
		return errors.New("usage: supervisor listen PORT")
	}
	listener, err := door.ListenPort(unix.AF_INET6, &unix.SockaddrInet6{Port: port}) // both, if the system supports both
	if err != nil {
		if listener, err = door.ListenPort(unix.AF_INET, &unix.SockaddrInet4{Port: port}); err != nil {
			return err
		}
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM, syscall.SIGINT)
	go door.AcceptAll(listener, mostAsking, door.Again, func(conn net.Conn) { _ = conn.Close() })
	<-ended
	os.Exit(endedByTerm)
	return nil
}

// copyPrograms copies the folder that this program is in, but for what is mounted there. Only the owner gets rights beyond those of all:
// a volume gives its files the group of all its users.
func copyPrograms(args []string) error {
	if len(args) != 1 {
		return errors.New("usage: supervisor copy FOLDER")
	}
	own, err := os.Executable()
	if err != nil {
		return err
	}
	from, to := filepath.Dir(own), args[0]
	var root unix.Stat_t
	if err := unix.Stat(from, &root); err != nil {
		return err
	}
	return copyTree(from, filepath.Clean(to), root.Dev)
}

func copyTree(from, to string, device uint64) error {
	names, err := tree.Names(from)
	if err == nil {
		err = os.MkdirAll(to, 0o755)
	}
	for _, name := range names {
		path, into := filepath.Join(from, name), filepath.Join(to, name)
		var s unix.Stat_t
		if err == nil {
			err = unix.Lstat(path, &s)
		}
		switch kind := s.Mode & unix.S_IFMT; {
		case err != nil:
			return err
		case s.Dev != device || path == to:
		case kind == unix.S_IFDIR:
			err = copyTree(path, into, device)
		case kind == unix.S_IFREG:
			others := fs.FileMode(s.Mode & 7)
			err = copyFile(path, into, others<<6|others<<3|others) // nor may the owner read it, where that is the session's user
		}
	}
	return err
}

func copyFile(from, to string, mode fs.FileMode) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	_ = os.Remove(to) // leftovers of an earlier try
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Chmod(mode), out.Close())
}
