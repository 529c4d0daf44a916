package telemetry

import "fmt"

// room is how much there is of something, and how much is left, in bytes. Zero: that is not known.
type room struct{ total, available int64 }

// scarce and scarceShare say when little is left: less than both.
const (
	scarce      = 1 << 30
	scarceShare = 0.03
)

// shortage names the resource if there is little of it; else empty.
func (r room) shortage(what string) string {
	if r.available >= scarce || float64(r.available) >= scarceShare*float64(r.total) {
		return ""
	}
	return fmt.Sprintf("%s: %d MB of %d MB are left", what, r.available>>20, r.total>>20)
}
