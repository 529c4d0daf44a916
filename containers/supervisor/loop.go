//go:build linux

package main

import "time"

// timer calls back on the supervisor's loop.
type timer struct {
	t       *time.Timer
	stopped bool
}

// after has f called on the loop in a while, unless the timer is stopped on the loop before.
func (s *Supervisor) after(d time.Duration, f func()) *timer {
	t := &timer{}
	t.t = time.AfterFunc(d, func() {
		s.post(func() {
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

// post has the loop run f, and waits until it begins to: one that floods the loop waits for it.
func (s *Supervisor) post(f func()) { s.events <- f }
