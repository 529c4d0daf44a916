package stay

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/place"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/runs"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

// Leftover lists one session's containers and volume on an engine.
type Leftover struct {
	Containers []string
	Running    []runs.Language // the running containers, by the languages that name them
	Ended      []string        // the ended containers
	Volumes    []string
	Named      bool
	Spare      bool // it is a spare without an owner in any record
	Newest     time.Time
	Place      engine.Location // the place of a running container
}

// Group returns by session one tenant's containers and volumes of a host. A taken spare belongs to its session.
func Group(inventory engine.Inventory, config *place.Config) map[string]*Leftover {
	found := make(map[string]*Leftover)
	places := sync.OnceValue(func() map[string]state.Owner { return state.Places(config.StateDir) })
	of := func(labels map[string]string, created time.Time) *Leftover {
		tenant := labels[place.LabelTenant]
		id := place.IDOf(tenant, labels[place.LabelSession])
		named := labels[place.LabelNamed] == "true"
		spare := tenant == "" && place.IsSpare(id) && !named
		if spare {
			if owner, taken := places()[id]; taken {
				tenant, id, named, spare = cmp.Or(owner.Tenant, config.Tenant), owner.ID, owner.Named, false
			}
		}
		if !state.ValidID(id) || labels[place.LabelHost] != config.Host || tenant != config.Tenant {
			return &Leftover{} // not made by us, or for another: leave it alone
		}
		if found[id] == nil {
			found[id] = &Leftover{}
		}
		found[id].Named, found[id].Spare = found[id].Named || named, spare
		if created.After(found[id].Newest) {
			found[id].Newest = created
		}
		return found[id]
	}
	for _, c := range inventory.Containers {
		l := of(c.Labels, c.Created)
		l.Containers = append(l.Containers, c.Name)
		if c.Running {
			l.Running = append(l.Running, runs.Language(c.Labels[place.LabelLanguage]))
			l.Place = c.Place
		} else {
			l.Ended = append(l.Ended, c.Name)
		}
	}
	for _, v := range inventory.Volumes {
		l := of(v.Labels, v.Created)
		l.Volumes = append(l.Volumes, v.Name)
	}
	return found
}

// LeftoverOf returns one session's containers and volume on an engine, of this host's servers; nil: nothing.
func LeftoverOf(ctx context.Context, config *place.Config, id string) (*Leftover, error) {
	label := place.LabelOf(config.Tenant, id)
	if r := state.LoadRecord(config.StateDir, id); r != nil && r.Place != "" {
		label = place.LabelOf("", r.Place)
	}
	inventory, err := config.Engine.List(ctx, place.LabelSession, label)
	if err != nil {
		return nil, err
	}
	return Group(inventory, config)[id], nil
}

// Wanted reports whether a session outlives its server. The caller holds its lock. If the lock is new or lost its mark, the
// volume's label alone decides. A spare keeps a lock until a session takes it: without one its session's record was lost.
func (l *Leftover) Wanted(lock *state.Lock) bool {
	return lock.Kept() || (l.Named || l.Spare && !lock.Found) && !lock.Dropped()
}

// SwitchedOff returns the containers of languages that a server does not offer.
func (l *Leftover) SwitchedOff(config *place.Config) []string {
	return slices.DeleteFunc(slices.Clone(l.Containers), func(name string) bool {
		return slices.ContainsFunc(slices.Collect(maps.Keys(config.Kernels)), func(language runs.Language) bool {
			return strings.HasSuffix(name, "-"+string(language))
		})
	})
}

// Verdict is a sweep's decision on a session that no server holds open: the parts to remove, and why.
type Verdict struct {
	Containers, Volumes []string
	Stays               bool // the rest of it stays
	Sleeps              bool // its kernels end in order first
	Why                 string
}

// Judge decides that from the engine's state of a session and its lock.
func (l *Leftover) Judge(config *place.Config, id string, lock *state.Lock, crowded string) Verdict {
	if !lock.Kept() {
		return Verdict{l.Containers, l.Volumes, false, false, "no server has it any more"}
	}
	used := LastUse(config, lock)
	switch kernels, all := due(config, id, used); {
	case all:
		return Verdict{l.Containers, l.Volumes, false, false, "nobody had used it for " + lasting(Of(config, id).Keep)}
	case crowded != "" && IsAsleep(config, id, used):
		return Verdict{l.Containers, l.Volumes, false, false, crowded}
	case kernels: // kernels that still run slept with their machine
		return Verdict{l.Containers, nil, true, len(l.Running) > 0, "nobody had used its kernels"}
	}
	return Verdict{l.Ended, nil, true, false, "its containers had ended"}
}

// IsQuiet reports, without a lock, that nothing of a session is to go, as for most sessions.
func IsQuiet(config *place.Config, id string, seen *Leftover) bool {
	used, err := state.LastUsed(config.StateDir, id)
	if err != nil || isForged(config, used) || !state.IsKept(config.StateDir, id) {
		return false
	}
	kernels, all := due(config, id, used)
	return !all && (seen == nil || len(seen.Ended) == 0 && (!kernels || len(seen.Running) == 0))
}

// Recorded returns a session's containers and volume by its record alone.
func Recorded(c *place.Config, id string, used time.Time) *Leftover {
	r := state.LoadRecord(c.StateDir, id)
	l := &Leftover{Named: r != nil && !r.Unnamed || state.IsKept(c.StateDir, id), Newest: used}
	if r == nil || sleeps(c, r, used) {
		return l
	}
	at := place.At(c, id, r.Place)
	for language, key := range r.Settings {
		if name := c.ContainerOf(runs.Language(language))[0]; key != "" && !slices.Contains(l.Running, name) {
			l.Running = append(l.Running, name)
			l.Place = cmp.Or(l.Place, LocationOf(c.Engine, at.Name(name)))
		}
	}
	return l
}

// LocationOf returns the place of a container.
func LocationOf(on engine.Engine, container string) engine.Location {
	if where := on.Abilities().Where; where != nil {
		return where(container)
	}
	return engine.Location{}
}
