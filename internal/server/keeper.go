package server

import (
	"context"
	"log/slog"
	"os"
	"sync"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
)

// keeper is an engine that leaves nothing behind when this process is killed: before the first container it starts a process that waits for
// our end and then becomes a gc.
//
// Clients kill us within milliseconds of asking us to end, and first our process group or all our descendants. So that process gets a
// session of its own, and a parent that has already ended. It is a shell: while it waits it takes a tenth of a gc's memory. Windows has
// none: there the next server's sweep removes the containers.
type keeper struct {
	engine.Engine
	args  []string // of this program, as a gc
	log   *slog.Logger
	once  sync.Once
	alive *os.File // ends with us, however we end
}

func keepEngine(engine engine.Engine, gcArgs []string, log *slog.Logger) *keeper {
	return &keeper{Engine: engine, args: gcArgs, log: log}
}

// Start implements engine.Engine.
func (k *keeper) Start(ctx context.Context, spec engine.Spec) (engine.Started, error) {
	k.once.Do(func() {
		if err := k.begin(); err != nil {
			k.log.Warn("start what clears up after this process", "error", err)
		}
	})
	return k.Engine.Start(ctx, spec)
}

// dismiss ends the waiting process when nothing is left to remove.
func (k *keeper) dismiss() {
	k.once.Do(func() {}) // later calls of Start come too late
	if k.alive != nil {
		_, _ = k.alive.WriteString("\n")
	}
}
