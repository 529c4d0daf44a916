// Spares become sessions' containers.

package sandbox

import (
	"context"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

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
	e.place, e.ready, e.readyAs = sp.id, sp.containers, sp.record.Settings
	e.tried.Store(true)
	e.filled = true
	sp.forget()
	sp.lock.Remove()
	e.claim()
	return true
}

// claim has the engine label the spare's containers with their owner, for people, if it can. Nothing waits for it: servers read the
// record.
func (e *engineSide) claim() {
	claim := e.config.Engine.Abilities().Claim
	if claim == nil {
		return
	}
	for language := range e.ready {
		name := e.name(language)
		go func() {
			ctx, cancel := context.WithTimeout(e.ctx, listTimeout)
			defer cancel()
			if err := claim(ctx, name, map[string]string{LabelOwner: labelOf(e.config.Tenant, e.id)}); err != nil {
				e.config.Logger.Debug("claim container", "session", e.id, "container", name, "error", err)
			}
		}()
	}
}
