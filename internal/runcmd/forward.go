package runcmd

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/fault"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/programwire"
)

// loopback is the only address that is listened on, and the only one that is connected to in a session.
const loopback = "127.0.0.1"

// forward is a port of this machine that leads to one of the session.
type forward struct {
	local  uint16 // 0: a free one
	inside string
}

//go:embed forward.py
var forwardProgram string

func readForward(given string) (f forward, err error) {
	local, inside, two := strings.Cut(given, ":")
	if !two {
		inside = local
	}
	from, err := strconv.ParseUint(local, 10, 16)
	to, wrong := strconv.ParseUint(inside, 10, 16)
	if err != nil || wrong != nil || to == 0 {
		return f, fault.New(fault.InvalidArgument, "Use --forward PORT or --forward LOCAL:PORT, as in 8000 or 9000:8000.", "--forward %q names no port.", given)
	}
	return forward{uint16(from), strconv.FormatUint(to, 10)}, nil
}

// drainTime is the time in which open connections may bring their last bytes when the code has ended.
const drainTime = 2 * time.Second

// listen opens the ports of this machine. Their connections are carried until the function that it returns is called.
func (r *Runner) listen(ctx context.Context) (stop func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	var open sync.WaitGroup
	var listeners []net.Listener
	stop = func() {
		for _, l := range listeners {
			_ = l.Close()
		}
		time.AfterFunc(drainTime, cancel)
		open.Wait()
		cancel()
	}
	for _, f := range r.Job.forwards {
		l, err := net.Listen("tcp4", net.JoinHostPort(loopback, strconv.Itoa(int(f.local))))
		if err != nil {
			stop()
			why := err
			if errno := syscall.Errno(0); errors.As(err, &errno) {
				why = errno
			}
			return nil, fault.New(fault.InvalidArgument, "Name another one: --forward 0:"+f.inside+" takes a free one.", "Port %d of this machine cannot be used: %v.", f.local, why)
		}
		listeners = append(listeners, l)
		r.say("%s leads to port %s of the session", l.Addr(), f.inside)
		open.Go(func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				if !isOwn(conn) {
					_ = conn.Close()
					r.say("a connection to port %s was closed: it is of another user of this machine", f.inside)
					continue
				}
				open.Go(func() { r.carry(ctx, conn, f.inside) })
			}
		})
	}
	return stop, nil
}

// isOwn reports whether a process of this user, or root's, made a connection of this machine. Only Linux tells.
func isOwn(conn net.Conn) bool {
	if runtime.GOOS != "linux" {
		return true
	}
	list, _ := os.ReadFile("/proc/net/tcp")
	port := func(a net.Addr) string { return fmt.Sprintf("0100007F:%04X", a.(*net.TCPAddr).Port) }
	for line := range strings.Lines(string(list)) {
		if f := strings.Fields(line); len(f) > 7 && f[1] == port(conn.RemoteAddr()) && f[2] == port(conn.LocalAddr()) {
			return f[7] == strconv.Itoa(os.Geteuid()) || f[7] == "0"
		}
	}
	return false
}

// carry joins a connection to a port of the session, by a program in it.
func (r *Runner) carry(ctx context.Context, conn net.Conn, port string) {
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	p, err := r.Manager.Program(ctx, sandbox.ProgramSpec{
		SessionID: r.SessionID, Argv: []string{"python3", "-ISc", forwardProgram, port}, Title: "--forward " + port, NoGrowth: true, NoChange: true, Unlisted: true,
	})
	if err != nil {
		if ctx.Err() == nil {
			r.say("a connection to port %s was closed: %v", port, err)
		}
		return
	}
	defer context.AfterFunc(ctx, p.Kill)()
	go func() {
		if _, err := io.Copy(writer{ctx, p}, conn); err != nil || p.CloseInput(ctx) != nil {
			p.Kill()
		}
	}()
	var words []byte
	for out := range p.Output {
		switch {
		case out.Stream == programwire.Stdout:
			if _, err := conn.Write(out.Data); err != nil {
				p.Kill()
			}
		case out.Stream == programwire.Stderr:
			words = out.Data // the last of a traceback says what happened
		case out.Exit.Code != 0 && out.Exit.Signal == 0 && ctx.Err() == nil:
			lines := strings.Split(strings.TrimSpace(string(words)), "\n")
			r.say("a connection to port %s was closed: %s", port, text.Phrase(lines[len(lines)-1]))
		}
	}
}

// writer is the standard input of a program.
type writer struct {
	ctx context.Context
	to  *sandbox.Program
}

func (w writer) Write(data []byte) (int, error) { return len(data), w.to.Write(w.ctx, data) }
