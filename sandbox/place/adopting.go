// Spares become sessions' containers.

package place

import (
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/kernel"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/state"
)

// Adopt moves a session that has nothing on the engine yet to a spare, and returns its container, and the key of its settings; nil: no
// spare fits.
func (p *Place) Adopt(o Opening) (c *kernel.Container, key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.Ctx.Err() != nil {
		return nil, ""
	}
	name, fits, moved := o.Languages[0], p.spareKey(o.Languages, o.Image), false
	if !p.Used() && !p.stale && !IsSpare(p.ID) { // its own files may be there
		if sp := p.Supply.Spares.take(name, fits); sp != nil {
			if moved = p.moveTo(sp, func() { p.takeSettings(o.First, p.settingsKey(o.Languages, o.Image), o.Uses.Wake()) }); !moved {
				p.Supply.Spares.giveUp(sp)
			}
		}
	}
	c = p.ready[name]
	if delete(p.ready, name); c == nil || !c.Alive() || p.readyAs[string(name)] != fits {
		return nil, ""
	}
	awake := o.Uses.Wake()
	bind := p.first(o.Languages, o.First, o.Warm)
	bind.Type = "bind"
	c.Bind(bind, p.outlet())
	key = p.settingsKey(o.Languages, o.Image)
	if !moved {
		p.noteSettings(o.First, key, awake)
	}
	return c, key
}

// moveTo makes a spare the place of the session. It writes the session's record while the spare is still marked as one, because
// sweeps go by the record, and reports whether it could. takeSettings notes in the record the settings of the container. The
// caller holds p.mu.
func (p *Place) moveTo(sp *spare, takeSettings func()) bool {
	p.Limits.Settle(p.record)
	r := p.record
	if r == nil {
		r = state.NewRecord()
		r.Unnamed = true
	} else {
		takeSettings()
	}
	r.Place = sp.ID
	if err := r.Save(p.Config.StateDir, p.ID); err != nil {
		r.Place = ""
		p.Config.Logger.Warn("session record", "session", p.ID, "error", err)
		return false
	}
	p.spareID, p.ready, p.readyAs = sp.ID, sp.containers, sp.record.Settings
	p.tried.Store(true)
	p.filled = true
	sp.forget()
	sp.Lock.Remove()
	return true
}
