//go:build unix

package main

import (
	"fmt"
	"slices"
	"time"
)

// series is the times of one measurement.
type series []time.Duration

func (s series) at(percent int) time.Duration {
	sorted := slices.Sorted(slices.Values(s))
	return sorted[min(len(sorted)-1, len(sorted)*percent/100)]
}

func (s series) String() string {
	if len(s) == 0 {
		return "nothing"
	}
	if len(s) < 20 {
		return fmt.Sprintf("%s (of %d: %s to %s)", short(s.at(50)), len(s), short(slices.Min(s)), short(slices.Max(s)))
	}
	return fmt.Sprintf("p50 %s, p95 %s", short(s.at(50)), short(s.at(95)))
}

func short(d time.Duration) string {
	if d < 10*time.Millisecond {
		return fmt.Sprintf("%.2f ms", float64(d.Microseconds())/1000)
	}
	return fmt.Sprintf("%.0f ms", float64(d.Microseconds())/1000)
}
