package server

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/roster"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
)

// drainEvery is the interval at which a server looks for requests to drain.
const drainEvery = 200 * time.Millisecond

// drainer drains a server's managers while a command asks for it, and reports their progress to that command.
type drainer struct {
	entry    *roster.Entry
	managers func() []*sandbox.Manager // the present ones
	draining atomic.Bool
	log      *slog.Logger
}

// newDrainer enters a server in the roster of its state folder. If the roster is not writable, the server cannot be drained.
func newDrainer(stateDir, address string, managers func() []*sandbox.Manager, log *slog.Logger) *drainer {
	entry, err := roster.Join(stateDir, roster.Server{Address: address, Version: CurrentVersion(), Began: time.Now().UTC()})
	if err != nil {
		log.Warn("this server cannot be drained", "error", err)
	}
	return &drainer{entry: entry, managers: managers, log: log}
}

// watch follows requests to drain until ctx ends, and then takes the server out of the roster.
func (d *drainer) watch(ctx context.Context) {
	if d.entry == nil {
		return
	}
	defer d.entry.Leave()
	tick := time.NewTicker(drainEvery)
	defer tick.Stop()
	for {
		d.look()
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (d *drainer) look() {
	asked := d.entry.IsAsked()
	if asked != d.draining.Swap(asked) {
		d.log.Info("asked to drain", "draining", asked)
	}
	now := roster.Now{Draining: asked}
	for _, m := range d.managers() {
		m.Drain(asked) // one may be new
		if asked {
			load := m.Load()
			now.Sessions, now.Busy, now.Clients = now.Sessions+load.Sessions, now.Busy+load.Busy, now.Clients+load.Clients
		}
	}
	if err := d.entry.Tell(now); err != nil {
		d.log.Warn("tell how far draining is", "error", err)
	}
}
