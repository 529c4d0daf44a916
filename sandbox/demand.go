package sandbox

import "time"

const (
	// burstTime is the time within which sessions begin together.
	burstTime = 10 * time.Second
	// demandTime is how long spares are kept for another burst like the last.
	demandTime = 10 * time.Minute
	// burstPause replaces quietTime within a burst.
	burstPause = 50 * time.Millisecond
	// spareBytes estimates the memory of a spare whose interpreters are up.
	spareBytes = 64 << 20
	// maxBegun bounds the remembered sessions.
	maxBegun = 1024
)

// demand remembers when the sessions of the last demandTime began, the oldest first. The zero value remembers none.
type demand struct{ begun []time.Time }

// note counts a session that begins now.
func (d *demand) note(now time.Time) {
	first := 0
	for first < len(d.begun) && (now.Sub(d.begun[first]) > demandTime || len(d.begun)-first >= maxBegun) {
		first++
	}
	d.begun = append(d.begun[first:], now)
}

// burst counts the sessions that began within burstTime before now.
func (d *demand) burst(now time.Time) (n int) {
	for _, at := range d.begun {
		if now.Sub(at) <= burstTime {
			n++
		}
	}
	return n
}

// largest returns the number of sessions in the largest burst of the last demandTime.
func (d *demand) largest(now time.Time) (most int) {
	first := 0
	for last, at := range d.begun {
		if now.Sub(at) > demandTime {
			first = last + 1
			continue
		}
		for at.Sub(d.begun[first]) > burstTime {
			first++
		}
		most = max(most, last-first+1)
	}
	return most
}
