package sandbox

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/place"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/stay"
)

// Pool is shared by the managers of one server: known images, turns to start containers, spares, and sweeps. Its methods may be
// called from any goroutine.
type Pool struct {
	config Config
	*place.Supply
	sweeper *sweeper

	ctx     context.Context // of the background work
	stop    context.CancelFunc
	working sync.WaitGroup

	mu       sync.Mutex
	managers map[string]*Manager // by tenant
}

// NewPool makes a pool that does nothing yet. It makes spares by this configuration, the server's own, and gives them to the
// sessions of any manager with an equal configuration. Close it after its managers.
func NewPool(config Config) *Pool {
	config.Host = cmp.Or(config.Host, fmt.Sprintf("%x", sha256.Sum256([]byte(config.StateDir)))[:16])
	config.BoundFiles()
	ctx, stop := context.WithCancel(context.Background())
	p := &Pool{config: config, ctx: ctx, stop: stop, managers: make(map[string]*Manager)}
	p.Supply = place.NewSupply(ctx, &p.config.Config, &p.working)
	p.sweeper = &sweeper{p: p}
	p.working.Go(p.look)
	return p
}

// Config returns the configuration of the server's own sessions.
func (p *Pool) Config() Config { return p.config }

// prewarm makes spares for the languages of Config.Prewarm. It returns at once.
func (p *Pool) prewarm() { p.Spares.Prewarm(p.config.Prewarm) }

// StartWait is the longest wait of a container for its turn to start; zero: none waits.
func (p *Pool) StartWait() time.Duration { return p.Starts.Waited() }

// Close leaves spares to later servers, or removes them. It reports whether it finished before ctx ended; a sweep after this
// process does the rest.
func (p *Pool) Close(ctx context.Context) bool {
	p.mu.Lock() // nothing begins any more
	p.stop()
	p.mu.Unlock()
	gone := make(chan bool, 1)
	go func() {
		done := p.Spares.Close(ctx)
		p.working.Wait()
		gone <- done
	}()
	select {
	case done := <-gone:
		return done
	case <-ctx.Done():
		return false
	}
}

// begin starts background work, unless the pool is closed.
func (p *Pool) begin(work func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx.Err() == nil {
		p.working.Go(work)
	}
}

// enter lets a tenant's manager, which holds some of its sessions open, sweep them.
func (p *Pool) enter(m *Manager) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.managers[m.conf().Tenant] = m
}

func (p *Pool) leave(m *Manager) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.managers[m.conf().Tenant] == m {
		delete(p.managers, m.conf().Tenant)
	}
}

// managerOf returns a tenant's manager; nil: there is none at the moment.
func (p *Pool) managerOf(tenant string) *Manager {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.managers[tenant]
}

// usedEngine reports whether the engine may hold anything of a session.
func (p *Pool) usedEngine() bool {
	p.mu.Lock()
	all := slices.Collect(maps.Values(p.managers))
	p.mu.Unlock()
	return slices.ContainsFunc(all, (*Manager).usedEngine)
}

// look sweeps now and then and pings spares, until the pool closes.
func (p *Pool) look() {
	p.working.Go(func() {
		eachInterval(p.ctx, func(n int, _ time.Time) {
			p.Spares.Shrink()
			p.Spares.Ping(n)
		})
	})
	eachInterval(p.ctx, func(n int, _ time.Time) {
		if n%sweepEvery == 0 && p.usedEngine() {
			p.sweeper.sweep()
		}
	})
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
	ctx, cancel := context.WithTimeout(w.p.ctx, place.SweepTimeout)
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
		tenants = append(tenants, c.Labels[place.LabelTenant])
	}
	for _, v := range inventory.Volumes { // the state folder may have lost all of a tenant's
		tenants = append(tenants, v.Labels[place.LabelTenant])
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
	left := stay.Group(inventory, &config.Config)
	var swept []Swept
	var failed []error
	sweep := func(id string, seen *stay.Leftover, crowded string) {
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
	crowded, why := stay.Crowding(&config.Config)
	for _, id := range crowded {
		sweep(id, nil, why)
	}
	slices.SortFunc(swept, func(a, b Swept) int { return cmp.Compare(a.ID, b.ID) })
	return swept, errors.Join(failed...)
}

// lateStart is how long an engine may go on with a container start after the server was killed.
const lateStart = time.Minute

// sweepSession removes the outdated parts of one session, or all of a sleeping one if others need the room, for the reason in
// crowded. It returns the reason; empty: nothing was on the engine. seen is the engine's state a moment ago.
func (m *Manager) sweepSession(ctx context.Context, id string, seen *stay.Leftover, crowded string) (why string, err error) {
	config := m.conf()
	if crowded == "" && stay.IsQuiet(&config.Config, id, seen) {
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
	l, err := stay.LeftoverOf(ctx, &config.Config, id)
	if err == nil && l != nil && l.Wanted(lock) {
		err = lock.Keep() // if the mark was lost, its time counts from now
	}
	if err != nil {
		lock.Unlock()
		return "", err
	}
	if l == nil {
		l = &stay.Leftover{}
	}
	if lock.Waits() && len(l.Running) > 0 && len(l.Ended) == 0 && time.Since(stay.LastUse(&config.Config, lock)) < config.IdleTimeout {
		lock.Release()
		return "", nil
	}
	v := l.Judge(&config.Config, id, lock, crowded)
	if v.Sleeps {
		// Nobody here could speak to kernels of disabled languages.
		err := config.Engine.Remove(ctx, l.SwitchedOff(&config.Config), nil)
		if !m.sleepLeft(id, lock) {
			v.Why = ""
		}
		return v.Why, err
	}
	if len(v.Containers)+len(v.Volumes) > 0 {
		err = config.Engine.Remove(ctx, v.Containers, v.Volumes)
	} else if v.Stays || !lock.Kept() {
		v.Why = ""
	}
	// An engine may yet finish starting a spare; this file marks it as one.
	late := place.IsSpare(id) && len(v.Containers)+len(v.Volumes) == 0 && time.Since(lock.LastUsed()) < lateStart
	if err != nil || v.Stays || late {
		lock.Release()
	} else {
		lock.Remove()
	}
	return v.Why, err
}
