package telemetry

import "fmt"

// room is how much there is of something, and how much is left, in bytes. Zero: that is not known.
type room struct {
	Total     int64 `json:"total_bytes"`
	Available int64 `json:"available_bytes"`
}

// scarce and scarceShare say when little is left: less than both.
const (
	scarce      = 1 << 30
	scarceShare = 0.03
)

func (r room) isScarce() bool {
	return r.Total > 0 && r.Available < scarce && float64(r.Available) < scarceShare*float64(r.Total)
}

// shortage names the resource if there is little of it; else empty.
func (r room) shortage(what string) string {
	if !r.isScarce() {
		return ""
	}
	return fmt.Sprintf("%s: %d MB of %d MB are left", what, r.Available>>20, r.Total>>20)
}
