package sandbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

// leftover is what one session has on an engine.
type leftover struct {
	containers []string
	running    []Language // of the containers, those that still run
	ended      []string   // and those that do not
	volumes    []string
	named      bool
	newest     time.Time
}

// sweeper sweeps for a server, one sweep at a time.
type sweeper struct {
	config  *Config
	ctx     context.Context // of the background work
	working *sync.WaitGroup

	mu    sync.Mutex
	swept sync.Once // after the first use of the engine
}

// once removes what dead servers left, once in this server's life, after the first answer: when
// that is out closes after; nil: now.
func (w *sweeper) once(after <-chan struct{}) {
	w.swept.Do(func() {
		w.working.Go(func() {
			if after != nil {
				select {
				case <-after:
				case <-w.ctx.Done():
					return
				}
			}
			w.sweep()
		})
	})
}

// sweep removes what dead servers of this machine left on the engine: all of an unnamed
// session, and of a named one the containers that have ended, and all of it once its idle time has
// passed. A session that a live server has is never touched: its lock cannot be had.
func (w *sweeper) sweep() {
	w.mu.Lock()
	defer w.mu.Unlock()
	ctx, cancel := context.WithTimeout(w.ctx, sweepTimeout)
	defer cancel()
	swept, err := Sweep(ctx, w.config.Engine, w.config.StateDir, w.config.Host, w.config.IdleTimeout)
	if err != nil && w.ctx.Err() == nil {
		w.config.Logger.Warn("sweep", "error", err)
	}
	if len(swept) > 0 {
		w.config.Logger.Info("removed what dead servers left", "sessions", swept)
	}
}

// Sweep removes what servers that no longer live left on the engine under this host's label, and
// returns the ids of the sessions that it removed something of. A named session keeps its volume, and
// the containers that still run, until it was not used for idle. Sessions of live servers are
// passed over.
func Sweep(ctx context.Context, engine engine.Engine, stateDir, host string, idle time.Duration) ([]string, error) {
	inventory, err := engine.List(ctx, LabelHost, host)
	if err != nil {
		return nil, fmt.Errorf("list leftovers: %w", err)
	}
	left := group(inventory, host)
	var swept []string
	var failed []error
	for id := range left {
		removed, err := sweepSession(ctx, engine, stateDir, host, id, idle)
		if err != nil {
			failed = append(failed, fmt.Errorf("session %s: %w", id, err))
		}
		if removed {
			swept = append(swept, id)
		}
	}
	tidy(stateDir, left, idle)
	slices.Sort(swept)
	return swept, errors.Join(failed...)
}

// tidy removes the locks and records of sessions that have nothing on the engine and are not
// kept any more.
func tidy(stateDir string, left map[string]*leftover, idle time.Duration) {
	for _, id := range state.IDs(stateDir) {
		if left[id] != nil {
			continue
		}
		lock, err := state.Take(stateDir, id)
		switch {
		case err != nil: // a live server has it
		case lock.Kept() && time.Since(lock.LastUsed()) < state.IdleTimeout(stateDir, id, idle):
			lock.Release()
		default:
			lock.Remove()
		}
	}
}

// group returns by session what a host's servers have on an engine.
func group(inventory engine.Inventory, host string) map[string]*leftover {
	found := make(map[string]*leftover)
	of := func(labels map[string]string, created time.Time) *leftover {
		id := labels[LabelSession]
		if !state.ValidID(id) || labels[LabelHost] != host {
			return &leftover{} // not made by us: leave it alone
		}
		if found[id] == nil {
			found[id] = &leftover{}
		}
		found[id].named = found[id].named || labels[LabelNamed] == "true"
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

// leftoverOf returns what one session of this host's servers has on an engine; nil: nothing.
func leftoverOf(ctx context.Context, engine engine.Engine, host, id string) (*leftover, error) {
	inventory, err := engine.List(ctx, LabelSession, id)
	if err != nil {
		return nil, err
	}
	return group(inventory, host)[id], nil
}

// wanted reports whether a session, whose lock the caller has, outlives its server. Where the lock has no mark, because it
// is a new one or the mark was lost, the volume's label alone says so.
func (l *leftover) wanted(lock *state.Lock) bool {
	return lock.Kept() || l.named && !lock.Dropped()
}

// sweepSession removes what is not kept of one session, and reports whether that was anything.
func sweepSession(ctx context.Context, engine engine.Engine, stateDir, host, id string, idle time.Duration) (bool, error) {
	lock, err := state.Take(stateDir, id)
	if errors.Is(err, state.ErrLocked) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	// Between the list and the lock a server may have had the session: what counts is what is there now.
	l, err := leftoverOf(ctx, engine, host, id)
	if err == nil && l != nil && l.wanted(lock) {
		err = lock.Keep() // where the mark was lost, its time counts from now
	}
	if err != nil {
		lock.Unlock()
		return false, err
	}
	if l == nil {
		l = &leftover{}
	}
	containers, volumes := l.containers, l.volumes
	stays := lock.Kept() && time.Since(lock.LastUsed()) < state.IdleTimeout(stateDir, id, idle)
	if stays {
		containers, volumes = l.ended, nil
	}
	if len(containers)+len(volumes) > 0 {
		err = engine.Remove(ctx, containers, volumes)
	}
	switch {
	case err != nil, stays:
		lock.Release()
	default:
		lock.Remove()
	}
	return len(containers)+len(volumes) > 0, err
}
