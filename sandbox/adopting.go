// Spares become sessions' containers.

package sandbox

import (
	"context"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

// adoptSpare moves a session that nobody used yet to a spare and returns its kernel; nil: no spare fits. The caller holds
// l.starting.
func (l *link) adoptSpare(setting KernelConfig, image engine.ImageInfo, warm bool) *kernel {
	e := l.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	key := e.spareKey(l.language, setting, image)
	if e.ctx.Err() != nil {
		return nil
	}
	moved := false
	if !e.used() && !e.stale && !isSpare(e.id) { // its own files may be there
		spares := l.config.Pool.spares
		if sp := spares.take(l.language, key); sp != nil {
			if moved = e.moveTo(sp, func() { e.takeSettings(l.language, setting, image, l.uses.wake()) }); !moved {
				spares.mu.Lock()
				spares.discard(sp)
				spares.mu.Unlock()
			}
		}
	}
	k := e.ready[l.language]
	if delete(e.ready, l.language); k == nil || !k.alive() || e.readyAs[string(l.language)] != key {
		return nil
	}
	awake := l.uses.wake()
	bind := e.init(l.language, setting, warm)
	bind.Type = "bind"
	k.serveOut, k.out = e.outlet(), e.out
	k.bind(bind)
	if !moved {
		e.noteSettings(l.language, setting, image, awake)
	}
	return k
}

// moveTo makes a spare the place of the session. It writes the session's record while the spare is still marked as one, because
// sweeps go by the record, and reports whether it could. takeSettings notes in the record the settings of the container. The
// caller holds e.mu.
func (e *engineSide) moveTo(sp *spare, takeSettings func()) bool {
	e.limits.settle(e.record)
	r := e.record
	if r == nil {
		r = state.NewRecord()
		r.Unnamed = true
	} else {
		takeSettings()
	}
	r.Place = sp.id
	if err := r.Save(e.config.StateDir, e.id); err != nil {
		r.Place = ""
		e.config.Logger.Warn("session record", "session", e.id, "error", err)
		return false
	}
	e.place, e.ready, e.readyAs = sp.id, sp.kernels, sp.record.Settings
	e.tried.Store(true)
	e.filled = true
	sp.forget()
	sp.lock.Remove()
	e.claim()
	return true
}

// claim asks an engine that is a Claimer to label the spare's containers with their owner, for people. Nothing waits for it:
// servers read the record.
func (e *engineSide) claim() {
	claimer, ok := e.config.Engine.(engine.Claimer)
	if !ok {
		return
	}
	for language := range e.ready {
		name := e.name(language)
		go func() {
			ctx, cancel := context.WithTimeout(e.ctx, listTimeout)
			defer cancel()
			if err := claimer.Claim(ctx, name, map[string]string{LabelOwner: labelOf(e.config.Tenant, e.id)}); err != nil {
				e.config.Logger.Debug("claim container", "session", e.id, "container", name, "error", err)
			}
		}()
	}
}
