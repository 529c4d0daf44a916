// Package stay decides how long the parts of an unused session stay, and which sleeping sessions go first.
package stay

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/place"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/runs"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

// Of returns how long a named session stays.
func Of(c *place.Config, id string) state.Stay { return ByRecord(c, state.LoadRecord(c.StateDir, id)) }

// ByRecord is Of by the session's record, which may be nil.
func ByRecord(c *place.Config, r *state.Record) state.Stay {
	return r.Stay(state.Stay{Idle: c.IdleTimeout, Keep: c.Keep, Freeze: c.SnapshotTime()})
}

// due reports which parts of a named session, last used then, are due to go: its kernels, which write a snapshot and end by
// themselves before, and all of it.
func due(c *place.Config, id string, used time.Time) (kernels, all bool) {
	stay, unused := Of(c, id), time.Since(used)
	return unused >= stay.Idle+place.RetireTime(stay.Freeze), unused >= stay.Keep && !state.IsPinned(c.StateDir, id)
}

// IsAsleep reports whether a named session that no server holds open is without kernels.
func IsAsleep(c *place.Config, id string, used time.Time) bool {
	return sleeps(c, state.LoadRecord(c.StateDir, id), used)
}

// sleeps is IsAsleep by the session's record, which may be nil.
func sleeps(c *place.Config, r *state.Record, used time.Time) bool {
	return r != nil && !r.HasKernels() || time.Since(used) >= ByRecord(c, r).Idle
}

// isForged reports that no run explains a last use so far in the future: the clock went back since.
func isForged(config *place.Config, used time.Time) bool {
	return time.Until(used) > max(24*time.Hour, 2*config.MaxRunTimeout)
}

// LastUse returns the last use of a lock's session, or now if the clock went back since. It does not write that down: a clock that
// is wrong at boot comes right again.
func LastUse(config *place.Config, lock *state.Lock) time.Time {
	if used := lock.LastUsed(); !isForged(config, used) {
		return used
	}
	return time.Now()
}

// MaxNames bounds the sleeping sessions; a sweep halves them.
const MaxNames = 10_000

// Crowding returns the sleeping sessions that must go, so that the others stay below the largest KeepLimit of their servers and
// this one, and below MaxNames: the longest unused first, and never the last of them. Pinned sessions do not count. why is the
// reason.
func Crowding(c *place.Config) (gone []string, why string) {
	type sleeper struct {
		id   string
		size int64
		used time.Time
	}
	var sleeping []sleeper
	total, limit := int64(0), c.KeepLimit
	for id, used := range state.Kept(c.StateDir) {
		r := state.LoadRecord(c.StateDir, id)
		if !sleeps(c, r, used) || state.IsPinned(c.StateDir, id) {
			continue
		}
		if r != nil {
			limit = max(limit, r.KeepLimit)
		}
		total += Taken(r)
		sleeping = append(sleeping, sleeper{id, Taken(r), used})
	}
	limit = cmp.Or(c.QuotaNow().KeepLimit, limit)
	if why = "sleeping sessions took more than " + runs.Size(limit); total <= limit {
		why = fmt.Sprintf("more than %d sessions slept", MaxNames/2)
	}
	slices.SortFunc(sleeping, func(a, b sleeper) int { return a.used.Compare(b.used) })
	for i, s := range sleeping[:max(0, len(sleeping)-1)] {
		if total <= limit && len(sleeping)-i <= MaxNames/2 {
			break
		}
		if !state.OpenElsewhere(c.StateDir, s.id) {
			gone, total = append(gone, s.id), total-s.size
		}
	}
	return gone, why
}

// lasting formats a duration of up to many days.
func lasting(d time.Duration) string {
	if days := d / (24 * time.Hour); days > 1 && d%(24*time.Hour) == 0 {
		return fmt.Sprintf("%d days", days)
	}
	return d.String()
}

// NameBytes estimates a session's bytes on the host beside its files and its history: a lock, a record, folders.
const NameBytes = 16 << 10

// Taken returns a session's size by its record, which may be nil.
func Taken(r *state.Record) int64 {
	if r == nil {
		return NameBytes
	}
	return NameBytes + r.SizeBytes + r.HistoryBytes
}
