//go:build linux

package main

import "time"

// loop is the one goroutine that all of a supervisor's state belongs to: it runs the functions posted to it.
type loop chan func()

// post runs f on the loop, and waits until it begins: so a flood waits for the loop.
func (l loop) post(f func()) { l <- f }

// timer calls back on the loop.
type timer struct {
	t       *time.Timer
	stopped bool
}

// after calls f on the loop after a while, unless the timer is stopped on the loop before.
func (l loop) after(d time.Duration, f func()) *timer {
	t := &timer{}
	t.t = time.AfterFunc(d, func() {
		l.post(func() {
			if !t.stopped {
				t.stopped = true
				f()
			}
		})
	})
	return t
}

func (t *timer) stop() {
	if t != nil {
		t.stopped = true
		t.t.Stop()
	}
}
