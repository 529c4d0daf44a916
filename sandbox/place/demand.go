package place

import "time"

const (
	// BurstTime is the time within which sessions begin together.
	BurstTime = 10 * time.Second
	// DemandTime is how long spares are kept for another burst like the last.
	DemandTime = 10 * time.Minute
	// burstPause replaces quietTime within a burst.
	burstPause = 50 * time.Millisecond
	// SpareBytes estimates the memory of a spare whose interpreters are up.
	SpareBytes = 64 << 20
	// maxBegun bounds the remembered sessions.
	maxBegun = 1024
)

// demand remembers when the sessions of the last demandTime began, the oldest first. The zero value remembers none.
type demand struct{ begun []time.Time }

// note counts a session that begins now.
func (d *demand) note(now time.Time) {
	first := 0
	for first < len(d.begun) && (now.Sub(d.begun[first]) > DemandTime || len(d.begun)-first >= maxBegun) {
		first++
	}
	d.begun = append(d.begun[first:], now)
}

// burst counts the sessions that began within burstTime before now.
func (d *demand) burst(now time.Time) (n int) {
	for _, at := range d.begun {
		if now.Sub(at) <= BurstTime {
			n++
		}
	}
	return n
}

// largest returns the number of sessions in the largest burst of the last demandTime.
func (d *demand) largest(now time.Time) (most int) {
	first := 0
	for last, at := range d.begun {
		if now.Sub(at) > DemandTime {
			first = last + 1
			continue
		}
		for at.Sub(d.begun[first]) > BurstTime {
			first++
		}
		most = max(most, last-first+1)
	}
	return most
}
