package sandbox

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// Pool is shared by the managers of one server: known images, turns to start containers, spares, and sweeps. Its methods may be
// called from any goroutine.
type Pool struct {
	config Config
	*supply
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
	config.boundFiles()
	ctx, stop := context.WithCancel(context.Background())
	p := &Pool{config: config, ctx: ctx, stop: stop, managers: make(map[string]*Manager)}
	p.supply = newSupply(ctx, &p.config, &p.working)
	p.sweeper = &sweeper{p: p}
	p.working.Go(p.look)
	return p
}

// Config returns the configuration of the server's own sessions.
func (p *Pool) Config() Config { return p.config }

// Prewarm makes spares for the languages of Config.Prewarm. It returns at once.
func (p *Pool) Prewarm() { p.spares.prewarm(p.config.Prewarm) }

// StartWait is the longest wait of a container for its turn to start; zero: none waits.
func (p *Pool) StartWait() time.Duration { return p.starts.Waited() }

// Close leaves spares to later servers, or removes them. It reports whether it finished before ctx ended; a sweep after this
// process does the rest.
func (p *Pool) Close(ctx context.Context) bool {
	p.mu.Lock() // nothing begins any more
	p.stop()
	p.mu.Unlock()
	gone := make(chan bool, 1)
	go func() {
		done := p.spares.close(ctx)
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
			p.spares.shrink()
			p.spares.ping(n)
		})
	})
	eachInterval(p.ctx, func(n int, _ time.Time) {
		if n%sweepEvery == 0 && p.usedEngine() {
			p.sweeper.sweep()
		}
	})
}
