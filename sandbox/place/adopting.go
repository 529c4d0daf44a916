// Spares become sessions' containers.

package place

import (
	"context"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/runs"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

// MoveTo makes a spare the place of the session. It writes the session's record while the spare is still marked as one, because
// sweeps go by the record, and reports whether it could. takeSettings notes in the record the settings of the container. The
// caller holds e.Mu.
func (e *Place) MoveTo(sp *spare, takeSettings func()) bool {
	e.Limits.Settle(e.Record)
	r := e.Record
	if r == nil {
		r = state.NewRecord()
		r.Unnamed = true
	} else {
		takeSettings()
	}
	r.Place = sp.ID
	if err := r.Save(e.Config.StateDir, e.ID); err != nil {
		r.Place = ""
		e.Config.Logger.Warn("session record", "session", e.ID, "error", err)
		return false
	}
	e.SpareID, e.Ready, e.ReadyAs = sp.ID, sp.containers, sp.Record.Settings
	e.Tried.Store(true)
	e.filled = true
	sp.forget()
	sp.Lock.Remove()
	e.claim()
	return true
}

// claim has the engine label the spare's containers with their owner, for people, if it can. Nothing waits for it: servers read the
// record.
func (e *Place) claim() {
	claim := e.Config.Engine.Abilities().Claim
	if claim == nil {
		return
	}
	for language := range e.Ready {
		name := e.Name(language)
		go func() {
			ctx, cancel := context.WithTimeout(e.Ctx, ListTimeout)
			defer cancel()
			if err := claim(ctx, name, map[string]string{runs.LabelOwner: LabelOf(e.Config.Tenant, e.ID)}); err != nil {
				e.Config.Logger.Debug("claim container", "session", e.ID, "container", name, "error", err)
			}
		}()
	}
}
