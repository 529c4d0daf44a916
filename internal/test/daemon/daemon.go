//go:build unix

// Package daemon runs servers for tests: on free ports, and those of databases as users that they agree to run as.
package daemon

import (
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/user"
	"runtime"
	"strconv"
	"syscall"
)

// Ports below those that systems give to connections, so that no connection of another test has one when the server comes.
const (
	lowestPort  = 20_000
	highestPort = 32_000
)

// FreePort returns a TCP port of 127.0.0.1 that no program listens on.
func FreePort() (port int, err error) {
	for range 100 {
		port = lowestPort + rand.IntN(highestPort-lowestPort) //nolint:gosec // so that two do not take the same
		var l net.Listener
		if l, err = net.Listen("tcp4", "127.0.0.1:"+strconv.Itoa(port)); err == nil {
			return port, l.Close()
		}
	}
	return 0, err
}

// Folder makes a folder of the user that a server runs as. Its name is short: a socket's path may have 107 bytes.
func Folder(prefix string, users ...string) (string, error) {
	dir, err := os.MkdirTemp("", prefix)
	if owner := unprivileged(users); err == nil && owner != nil {
		err = os.Chown(dir, int(owner.Uid), int(owner.Gid))
	}
	return dir, err
}

// Command is a program that runs in a folder as the first of the users that there is, where this is root; else as this user.
func Command(dir string, users []string, program string, args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: unprivileged(users)}
	return cmd
}

func unprivileged(users []string) *syscall.Credential {
	if os.Getuid() != 0 {
		return nil
	}
	for _, name := range append(users, "nobody") {
		if u, err := user.Lookup(name); err == nil {
			uid, _ := strconv.ParseUint(u.Uid, 10, 32)
			gid, _ := strconv.ParseUint(u.Gid, 10, 32)
			return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		}
	}
	return nil
}

// Start starts a command that ends with this process, and returns what is closed when it has ended.
func Start(cmd *exec.Cmd) (exited chan struct{}, err error) {
	endWithParent(cmd.SysProcAttr)
	exited = make(chan struct{})
	started := make(chan error, 1)
	go func() {
		defer close(exited)
		// The parent is a thread, to the system: this one, which stays.
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
		}
	}()
	return exited, <-started
}
