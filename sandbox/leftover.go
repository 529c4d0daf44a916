package sandbox

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

// leftover lists one session's containers and volume on an engine.
type leftover struct {
	containers []string
	running    []Language // the running containers, by the languages that name them
	ended      []string   // the ended containers
	volumes    []string
	named      bool
	spare      bool // it is a spare without an owner in any record
	newest     time.Time
	place      engine.Place // the place of a running container
}

// group returns by session one tenant's containers and volumes of a host. A taken spare belongs to its session.
func group(inventory engine.Inventory, config *Config) map[string]*leftover {
	found := make(map[string]*leftover)
	places := sync.OnceValue(func() map[string]state.Owner { return state.Places(config.StateDir) })
	of := func(labels map[string]string, created time.Time) *leftover {
		tenant := labels[LabelTenant]
		id := idOf(tenant, labels[LabelSession])
		named := labels[LabelNamed] == "true"
		spare := tenant == "" && isSpare(id) && !named
		if spare {
			if owner, taken := places()[id]; taken {
				tenant, id, named, spare = cmp.Or(owner.Tenant, config.Tenant), owner.ID, owner.Named, false
			}
		}
		if !state.ValidID(id) || labels[LabelHost] != config.Host || tenant != config.Tenant {
			return &leftover{} // not made by us, or for another: leave it alone
		}
		if found[id] == nil {
			found[id] = &leftover{}
		}
		found[id].named, found[id].spare = found[id].named || named, spare
		if created.After(found[id].newest) {
			found[id].newest = created
		}
		return found[id]
	}
	for _, c := range inventory.Containers {
		l := of(c.Labels, c.Created)
		l.containers = append(l.containers, c.Name)
		if c.Running {
			l.running = append(l.running, Language(c.Labels[LabelLanguage]))
			l.place = c.Place
		} else {
			l.ended = append(l.ended, c.Name)
		}
	}
	for _, v := range inventory.Volumes {
		l := of(v.Labels, v.Created)
		l.volumes = append(l.volumes, v.Name)
	}
	return found
}

// leftoverOf returns one session's containers and volume on an engine, of this host's servers; nil: nothing.
func leftoverOf(ctx context.Context, config *Config, id string) (*leftover, error) {
	label := labelOf(config.Tenant, id)
	if r := state.LoadRecord(config.StateDir, id); r != nil && r.Place != "" {
		label = labelOf("", r.Place)
	}
	inventory, err := config.Engine.List(ctx, LabelSession, label)
	if err != nil {
		return nil, err
	}
	return group(inventory, config)[id], nil
}

// wanted reports whether a session outlives its server. The caller holds its lock. If the lock is new or lost its mark, the
// volume's label alone decides. A spare keeps a lock until a session takes it: without one its session's record was lost.
func (l *leftover) wanted(lock *state.Lock) bool {
	return lock.Kept() || (l.named || l.spare && !lock.Found) && !lock.Dropped()
}

// switchedOff returns the containers of languages that a server does not offer.
func (l *leftover) switchedOff(config *Config) []string {
	return slices.DeleteFunc(slices.Clone(l.containers), func(name string) bool {
		return slices.ContainsFunc(slices.Collect(maps.Keys(config.Kernels)), func(language Language) bool {
			return strings.HasSuffix(name, "-"+string(language))
		})
	})
}

// verdict is a sweep's decision on a session that no server holds open: the parts to remove, and why.
type verdict struct {
	containers, volumes []string
	stays               bool // the rest of it stays
	sleeps              bool // its kernels end in order first
	why                 string
}

// judge decides that from the engine's state of a session and its lock.
func (l *leftover) judge(config *Config, id string, lock *state.Lock, crowded string) verdict {
	if !lock.Kept() {
		return verdict{l.containers, l.volumes, false, false, "no server has it any more"}
	}
	used := lastUse(config, lock)
	switch kernels, all := due(config, id, used); {
	case all:
		return verdict{l.containers, l.volumes, false, false, "nobody had used it for " + lasting(stayOf(config, id).Keep)}
	case crowded != "" && isAsleep(config, id, used):
		return verdict{l.containers, l.volumes, false, false, crowded}
	case kernels: // kernels that still run slept with their machine
		return verdict{l.containers, nil, true, len(l.running) > 0, "nobody had used its kernels"}
	}
	return verdict{l.ended, nil, true, false, "its containers had ended"}
}

// isQuiet reports, without a lock, that nothing of a session is to go, as for most sessions.
func isQuiet(config *Config, id string, seen *leftover) bool {
	used, err := state.LastUsed(config.StateDir, id)
	if err != nil || isForged(config, used) || !state.IsKept(config.StateDir, id) {
		return false
	}
	kernels, all := due(config, id, used)
	return !all && (seen == nil || len(seen.ended) == 0 && (!kernels || len(seen.running) == 0))
}

// recorded returns a session's containers and volume by its record alone.
func recorded(c *Config, id string, used time.Time) *leftover {
	r := state.LoadRecord(c.StateDir, id)
	l := &leftover{named: r != nil && !r.Unnamed || state.IsKept(c.StateDir, id), newest: used}
	if r == nil || sleeps(c, r, used) {
		return l
	}
	at := &engineSide{id: id, place: r.Place, config: c}
	for language, key := range r.Settings {
		if name := c.containerOf(Language(language))[0]; key != "" && !slices.Contains(l.running, name) {
			l.running = append(l.running, name)
			l.place = cmp.Or(l.place, placeOfContainer(c.Engine, at.name(name)))
		}
	}
	return l
}

// placeOfContainer returns the place of a container.
func placeOfContainer(on engine.Engine, container string) engine.Place {
	if where := on.Abilities().Where; where != nil {
		return where(container)
	}
	return engine.Place{}
}
