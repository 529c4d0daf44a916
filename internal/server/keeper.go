package server

import (
	"context"
	"errors"
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
//
// Beside other replicas it does nothing while one of them could have this one's sessions.
type keeper struct {
	engine.Engine
	args  []string                    // of this program, as a gc
	ready func(context.Context) error // waits until this process may change what its sessions have; nil: it always may
	log   *slog.Logger
	once  sync.Once
	alive *os.File // ends with us, however we end
}

func keepEngine(engine engine.Engine, gcArgs []string, log *slog.Logger) *keeper {
	return &keeper{Engine: engine, args: gcArgs, log: log}
}

func (k *keeper) check(ctx context.Context) error {
	if k.ready == nil {
		return nil
	}
	if err := k.ready(ctx); err != nil {
		return errors.Join(engine.ErrEngineUnavailable, err)
	}
	return nil
}

// Start starts a container, as engine.Engine has it, and so on.
func (k *keeper) Start(ctx context.Context, spec engine.Spec) (engine.Process, error) {
	if err := k.check(ctx); err != nil {
		return nil, err
	}
	k.once.Do(func() {
		if err := k.begin(); err != nil {
			k.log.Warn("start what clears up after this process", "error", err)
		}
	})
	return k.Engine.Start(ctx, spec)
}

// Exec starts a program in a container.
func (k *keeper) Exec(ctx context.Context, container string, command []string) (engine.Process, error) {
	if err := k.check(ctx); err != nil {
		return nil, err
	}
	return k.Engine.Exec(ctx, container, command)
}

// Remove removes containers and volumes.
func (k *keeper) Remove(ctx context.Context, containers, volumes []string) error {
	if err := k.check(ctx); err != nil {
		return err
	}
	return k.Engine.Remove(ctx, containers, volumes)
}

// Claim implements engine.Claimer, where the engine does.
func (k *keeper) Claim(ctx context.Context, container string, labels map[string]string) error {
	claimer, ok := k.Engine.(engine.Claimer)
	if !ok {
		return nil
	}
	if err := k.check(ctx); err != nil {
		return err
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
