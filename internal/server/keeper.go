package server

import (
	"context"
	"log/slog"
	"os"
	"sync"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
)

// keeper is an engine that leaves nothing behind when this process is killed: before the first container it starts a
// process that waits for our end and then becomes a gc.
//
// Clients kill us within milliseconds of asking us to end, our process group with us, or all that descends from us
// first. So that process has a session of its own, and a parent that has ended already. It is a shell, which takes a
// tenth of the memory that a gc would take to wait. Windows has none: there the next server's sweep does it.
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

// Start starts a container, as engine.Engine has it.
func (k *keeper) Start(ctx context.Context, spec engine.Spec) (engine.Process, error) {
	k.once.Do(func() {
		if err := k.begin(); err != nil {
			k.log.Warn("start what clears up after this process", "error", err)
		}
	})
	return k.Engine.Start(ctx, spec)
}

// Claim implements engine.Claimer, where the engine does.
func (k *keeper) Claim(ctx context.Context, container string, labels map[string]string) error {
	claimer, ok := k.Engine.(engine.Claimer)
	if !ok {
		return nil
	}
	return claimer.Claim(ctx, container, labels)
}

// Where implements engine.Locator for an engine that is one.
func (k *keeper) Where(container string) engine.Place {
	if l, is := k.Engine.(engine.Locator); is {
		return l.Where(container)
	}
	return engine.Place{}
}

// dismiss ends the process that waits, where nothing is left to be removed.
func (k *keeper) dismiss() {
	k.once.Do(func() {}) // whatever still wants a container comes too late
	if k.alive != nil {
		_, _ = k.alive.WriteString("\n")
	}
}
