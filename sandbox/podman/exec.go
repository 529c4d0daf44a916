// Programs started in a container, and the removal of the engine's record of them.

package podman

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/podman/libpod"
)

// execProcess is a program's stdio. Close also removes the engine's record of the program: Podman keeps one for each, and a
// process of its own beside it, for minutes.
type execProcess struct {
	*process
	forget func()
	once   sync.Once
}

// Close implements engine.Process.
func (p *execProcess) Close() error {
	err := p.process.Close()
	p.once.Do(p.forget)
	return err
}

// Exec implements engine.Engine. The program runs with the container's user, limits and seccomp profile and without capabilities,
// as process 1 does.
func (e *Engine) Exec(ctx context.Context, container string, command []string) (engine.Process, error) {
	if len(command) == 0 {
		return nil, engine.ErrNoCommand
	}
	var p *process
	var id string
	err := e.call(ctx, func(conn context.Context) (err error) {
		program := libpod.Exec{
			AttachStdin: true, AttachStdout: true, AttachStderr: true,
			Cmd: command,
			// The session's code cannot write to this folder.
			WorkingDir: "/",
		}
		if id, err = libpod.CreateExec(conn, container, program); err != nil {
			return err
		}
		p, err = hijack(conn, "/exec/"+id+"/start", "", `{"Detach":false,"Tty":false}`)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("exec in container %s: %w", container, e.execError(err))
	}
	return &execProcess{process: p, forget: func() { go e.forgetExec(id) }}, nil
}

// execError recognises a missing or stopped container.
func (e *Engine) execError(err error) error {
	code, answered := libpod.Status(err)
	if answered && (code == 404 || code == 409) || libpod.Says(err, "no such container", "container state improper") {
		return fmt.Errorf("%w: %w", engine.ErrContainerGone, err)
	}
	return e.startError(err)
}

// The time that a program may go on after the end of its stdin, and the pause between looks at it.
const (
	execGrace = 3 * time.Second
	execLook  = 50 * time.Millisecond
)

// forgetExec removes the record of a program after the end of its stdin. The program may clean up first; one that does not end by
// itself is sent a SIGTERM, the one signal that Podman offers for it. If that fails, as with a Podman before 4.8, it ends with the
// container.
func (e *Engine) forgetExec(id string) {
	ctx, cancel := context.WithTimeout(context.Background(), execGrace+cleanupTimeout)
	defer cancel()
	err := e.call(ctx, func(conn context.Context) error {
		for end := time.Now().Add(execGrace); time.Now().Before(end); {
			if running, err := libpod.ExecRunning(conn, id); err != nil || !running {
				break
			}
			time.Sleep(execLook)
		}
		return libpod.RemoveExec(conn, id)
	})
	if err != nil {
		e.Log.Debug("remove the record of a program", "error", err)
	}
}
