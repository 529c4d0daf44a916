// What sleeps: how long sessions stay that nobody uses, and which of them go first.

package sandbox

import (
	"fmt"
	"slices"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

// stayOf returns how long a named session stays.
func (c *Config) stayOf(id string) state.Stay { return c.stay(state.LoadRecord(c.StateDir, id)) }

// stay is stayOf by the session's record, which may be nil.
func (c *Config) stay(r *state.Record) state.Stay {
	return r.Stay(state.Stay{Idle: c.IdleTimeout, Keep: c.Keep})
}

// describeStay fills in until when a session stays that outlives its server.
func (c *Config) describeStay(info *SessionInfo, keep time.Duration) {
	if info.Pinned = state.IsPinned(c.StateDir, info.ID); !info.Pinned {
		info.KeptUntil = info.LastUsed.Add(keep)
	}
}

// due reports what is not kept any longer of a named session that was last used then: its kernels, which freeze and end by
// themselves before, and all of it.
func (c *Config) due(id string, used time.Time) (kernels, all bool) {
	stay, unused := c.stayOf(id), time.Since(used)
	return unused >= stay.Idle+c.retireTime(), unused >= stay.Keep && !state.IsPinned(c.StateDir, id)
}

// isAsleep reports whether a named session that no server has open has no kernels any more.
func (c *Config) isAsleep(id string, used time.Time) bool {
	r := state.LoadRecord(c.StateDir, id)
	return r != nil && !r.HasKernels() || time.Since(used) >= c.stay(r).Idle
}

// freezes reports whether kernels of named sessions write their variables before they end.
func (c *Config) freezes() bool { return c.FreezeBytes > 0 }

// retireMargin is how long a kernel may take to end beyond the time in which it writes its variables.
const retireMargin = 10 * time.Second

// retireTime is how long a kernel that writes its variables may take to end.
func (c *Config) retireTime() time.Duration {
	if !c.freezes() {
		return 0
	}
	return c.FreezeTime + retireMargin
}

// isForged reports that no run explains a last use so far ahead: the clock went back since.
func isForged(config *Config, used time.Time) bool {
	return time.Until(used) > max(24*time.Hour, 2*config.MaxRunTimeout)
}

// lastUse returns when the session of a lock was last used; where the clock went back since, that counts from now.
func lastUse(config *Config, lock *state.Lock) time.Time {
	used := lock.LastUsed()
	if !isForged(config, used) {
		return used
	}
	if now := time.Now(); lock.Touch(now) == nil {
		return now
	}
	return used
}

// crowding returns the sleeping sessions that have to go so that the others take no more than KeepLimit: the longest unused,
// and none that is pinned. Those whose size is not known do not count.
func crowding(c *Config) []string {
	type sleeper struct {
		id   string
		size int64
		used time.Time
	}
	var sleeping []sleeper
	total := int64(0)
	for id, used := range state.Kept(c.StateDir) {
		r := state.LoadRecord(c.StateDir, id)
		if r == nil || r.SizeBytes <= 0 || !c.isAsleep(id, used) {
			continue
		}
		if total += r.SizeBytes; !state.IsPinned(c.StateDir, id) {
			sleeping = append(sleeping, sleeper{id, r.SizeBytes, used})
		}
	}
	slices.SortFunc(sleeping, func(a, b sleeper) int { return a.used.Compare(b.used) })
	var gone []string
	for _, s := range sleeping {
		if total <= c.KeepLimit {
			break
		}
		if !state.OpenElsewhere(c.StateDir, s.id) {
			gone, total = append(gone, s.id), total-s.size
		}
	}
	return gone
}

// lasting writes a time that may be days.
func lasting(d time.Duration) string {
	if days := d / (24 * time.Hour); days > 1 && d%(24*time.Hour) == 0 {
		return fmt.Sprintf("%d days", days)
	}
	return d.String()
}
