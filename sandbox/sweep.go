package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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

// sweeper sweeps for a server, one sweep at a time.
type sweeper struct {
	p *Pool

	mu    sync.Mutex
	swept sync.Once // after the first use of the engine
}

// once removes dead servers' leavings, once in this server's life, after the first answer: after closes when that is out; nil:
// now.
func (w *sweeper) once(after <-chan struct{}) {
	w.swept.Do(func() {
		w.p.begin(func() {
			if after != nil {
				select {
				case <-after:
				case <-w.p.ctx.Done():
					return
				}
			}
			w.sweep()
		})
	})
}

// sweep removes dead servers' leavings of this machine from the engine, and sessions that slept long enough. It never touches a
// live server's session, because it cannot take the lock.
func (w *sweeper) sweep() {
	w.mu.Lock()
	defer w.mu.Unlock()
	ctx, cancel := context.WithTimeout(w.p.ctx, sweepTimeout)
	defer cancel()
	swept, err := w.p.sweep(ctx)
	if err != nil && w.p.ctx.Err() == nil {
		w.p.config.Logger.Warn("sweep", "error", err)
	}
	for _, s := range swept {
		w.p.config.Logger.Info("removed what was left", "session", s.ID, "tenant", s.Tenant, "why", s.Why)
	}
}

// Swept is a session that a sweep removed, at least partly, and why.
type Swept struct {
	Tenant string // its owner; empty: the server's own
	ID     string
	Why    string
}

// Sweep removes dead servers' leavings of all tenants from the engine, by this host's label. A named session keeps its running
// containers for its idle time after the last use, and its files for its keep time. The longest sleeping sessions go earlier if
// the sleeping sessions of a tenant exceed config.KeepLimit, or their own servers' limit. It passes over sessions of live servers.
// Waiting spares stay for the idle time.
func Sweep(ctx context.Context, config *Config) ([]Swept, error) {
	p := NewPool(*config)
	defer p.Close(ctx)
	return p.sweep(ctx)
}

// sweep sweeps for each tenant: by its manager, if there is one.
func (p *Pool) sweep(ctx context.Context) ([]Swept, error) {
	inventory, err := p.config.Engine.List(ctx, LabelHost, p.config.Host)
	if err != nil {
		return nil, fmt.Errorf("list leftovers: %w", err)
	}
	tenants := append(state.Tenants(p.config.StateDir), "")
	for _, c := range inventory.Containers {
		tenants = append(tenants, c.Labels[LabelTenant])
	}
	for _, v := range inventory.Volumes { // the state folder may have lost all of a tenant's
		tenants = append(tenants, v.Labels[LabelTenant])
	}
	slices.Sort(tenants)
	var swept []Swept
	var failed []error
	for _, tenant := range slices.Compact(tenants) {
		if tenant != "" && !state.ValidTenant(tenant) {
			continue // not made by us
		}
		more, err := p.sweepTenant(ctx, tenant, inventory)
		swept, failed = append(swept, more...), append(failed, err)
	}
	return swept, errors.Join(failed...)
}

func (p *Pool) sweepTenant(ctx context.Context, tenant string, inventory engine.Inventory) ([]Swept, error) {
	m := p.managerOf(tenant)
	if m == nil {
		m = newManager(p.config.Of(tenant), p)
		defer m.Close(ctx)
		defer context.AfterFunc(ctx, m.stop)()
	}
	return m.sweep(ctx, inventory)
}

func (m *Manager) sweep(ctx context.Context, inventory engine.Inventory) ([]Swept, error) {
	config := m.conf()
	left := group(inventory, config)
	var swept []Swept
	var failed []error
	sweep := func(id string, seen *leftover, crowded string) {
		why, err := m.sweepSession(ctx, id, seen, crowded)
		if err != nil {
			failed = append(failed, fmt.Errorf("session %s: %w", id, err))
		}
		if why != "" {
			swept = append(swept, Swept{config.Tenant, id, why})
		}
	}
	for id, seen := range left {
		sweep(id, seen, "")
	}
	for _, id := range state.IDs(config.StateDir) {
		if left[id] == nil { // it has nothing on the engine, and its state may be outdated
			sweep(id, nil, "")
		}
	}
	crowded, why := crowding(config)
	for _, id := range crowded {
		sweep(id, nil, why)
	}
	slices.SortFunc(swept, func(a, b Swept) int { return cmp.Compare(a.ID, b.ID) })
	return swept, errors.Join(failed...)
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

// lateStart is how long an engine may go on with a container start after the server was killed.
const lateStart = time.Minute

// sweepSession removes the outdated parts of one session, or all of a sleeping one if others need the room, for the reason in
// crowded. It returns the reason; empty: nothing was on the engine. seen is the engine's state a moment ago.
func (m *Manager) sweepSession(ctx context.Context, id string, seen *leftover, crowded string) (why string, err error) {
	config := m.conf()
	if crowded == "" && isQuiet(config, id, seen) {
		return "", nil
	}
	lock, err := state.Take(config.StateDir, id)
	if errors.Is(err, state.ErrLocked) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	// Between the list and the lock a server may have used the session: the present state counts.
	l, err := leftoverOf(ctx, config, id)
	if err == nil && l != nil && l.wanted(lock) {
		err = lock.Keep() // if the mark was lost, its time counts from now
	}
	if err != nil {
		lock.Unlock()
		return "", err
	}
	if l == nil {
		l = &leftover{}
	}
	if lock.Waits() && len(l.running) > 0 && len(l.ended) == 0 && time.Since(lastUse(config, lock)) < config.IdleTimeout {
		lock.Release()
		return "", nil
	}
	v := l.judge(config, id, lock, crowded)
	if v.sleeps {
		// Nobody here could speak to kernels of disabled languages.
		err := config.Engine.Remove(ctx, l.switchedOff(config), nil)
		if !m.sleepLeft(id, lock) {
			v.why = ""
		}
		return v.why, err
	}
	if len(v.containers)+len(v.volumes) > 0 {
		err = config.Engine.Remove(ctx, v.containers, v.volumes)
	} else if v.stays || !lock.Kept() {
		v.why = ""
	}
	// An engine may yet finish starting a spare; this file marks it as one.
	late := isSpare(id) && len(v.containers)+len(v.volumes) == 0 && time.Since(lock.LastUsed()) < lateStart
	if err != nil || v.stays || late {
		lock.Release()
	} else {
		lock.Remove()
	}
	return v.why, err
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
	switch kernels, all := config.due(id, used); {
	case all:
		return verdict{l.containers, l.volumes, false, false, "nobody had used it for " + lasting(config.stayOf(id).Keep)}
	case crowded != "" && config.isAsleep(id, used):
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
	kernels, all := config.due(id, used)
	return !all && (seen == nil || len(seen.ended) == 0 && (!kernels || len(seen.running) == 0))
}
