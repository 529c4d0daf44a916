//go:build linux

// Package loop is the one goroutine that the state of a process 1 belongs to.
package loop

import (
	"os"
	"os/signal"
	"syscall"
	"time"
)

// Loop runs the functions posted to it, one after the other.
type Loop chan func()

// Post runs f on the loop, and waits until it begins: so a flood waits for the loop.
func (l Loop) Post(f func()) { l <- f }

// Timer calls back on the loop.
type Timer struct {
	t       *time.Timer
	stopped bool
}

// After calls f on the loop after a while, unless the timer is stopped on the loop before.
func (l Loop) After(d time.Duration, f func()) *Timer {
	t := &Timer{}
	t.t = time.AfterFunc(d, func() {
		l.Post(func() {
			if !t.stopped {
				t.stopped = true
				f()
			}
		})
	})
	return t
}

// Stop stops a timer, or none.
func (t *Timer) Stop() {
	if t != nil {
		t.stopped = true
		t.t.Stop()
	}
}

// Signals tell that the container is to end, and that a child has ended. Signals of the code that would end a Go program are caught,
// and nothing reads them: programs would inherit it if they were ignored.
func Signals() (ended, children chan os.Signal) {
	ended, children = make(chan os.Signal, 1), make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	signal.Notify(children, syscall.SIGCHLD)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGQUIT, syscall.SIGABRT,
		syscall.SIGALRM, syscall.SIGXFSZ, syscall.SIGXCPU, syscall.SIGTRAP, syscall.SIGSYS, syscall.SIGBUS, syscall.SIGFPE,
		syscall.SIGSEGV, syscall.SIGILL, syscall.SIGVTALRM, syscall.SIGPROF, syscall.SIGSTKFLT, syscall.SIGIO, syscall.SIGPWR)
	return ended, children
}
