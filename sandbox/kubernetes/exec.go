//go:build !nokubernetes

// Programs in a pod, and their stdio.

package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/kube"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
)

var errNoCommand = errors.New("a program in a container needs a command")

// process is an engine.Process over pods/exec.
type process struct {
	*kube.Stream
	stderr engine.Tail

	madeVolume bool // with its start
}

// Stderr implements engine.Process.
func (p *process) Stderr() string { return p.stderr.String() }

// MadeVolume implements engine.Maker.
func (p *process) MadeVolume() bool { return p.madeVolume }

// exec starts a program. That it could not be started shows when its answer is read.
func (c *cluster) exec(pod, container string, command []string) (*process, error) {
	p := &process{}
	var err error
	p.Stream, err = c.Exec(pod, container, command, &p.stderr)
	return p, err
}

// answer reads one byte, which process 1's programs say before anything else.
func (p *process) answer(ctx context.Context) (byte, error) {
	stop := context.AfterFunc(ctx, func() { _ = p.Close() })
	defer stop()
	var b [1]byte
	_, err := io.ReadFull(p, b[:])
	if err == nil {
		return b[0], nil
	}
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	err = p.Err()
	if err == nil {
		err = io.ErrUnexpectedEOF
	}
	return 0, execError(err, p.Stderr())
}

// Exec implements engine.Engine. The program has the container's user and limits, and no capabilities, as process 1 has.
func (e *Engine) Exec(ctx context.Context, container string, command []string) (engine.Process, error) {
	if len(command) == 0 {
		return nil, errNoCommand
	}
	ctx, cancel := e.limit(ctx)
	defer cancel()
	c, err := e.connect(ctx)
	if err != nil {
		return nil, err
	}
	at, err := e.find(ctx, c, container)
	if err != nil {
		return nil, fmt.Errorf("exec in container %s: %w", container, err)
	}
	if !at.shut {
		if err := e.lookAt(ctx, c, at); err != nil {
			if errors.Is(err, engine.ErrContainerGone) {
				e.forgetContainer(container)
			}
			return nil, fmt.Errorf("exec in container %s: %w", container, err)
		}
		e.noteShut(container)
	}
	p, err := c.exec(at.pod, at.container, append([]string{supervisor, "within"}, command...))
	if err != nil {
		return nil, fmt.Errorf("exec in container %s: %w", container, err)
	}
	answer, err := p.answer(ctx)
	switch {
	case err == nil && answer == answerYours:
		return p, nil
	case err == nil:
		err = fmt.Errorf("%w: its program has ended", engine.ErrContainerGone)
	case errors.Is(err, engine.ErrContainerGone) || ctx.Err() == nil && isGone(ctx, c, at):
		e.forgetContainer(container)
		err = fmt.Errorf("%w: %w", engine.ErrContainerGone, err)
	}
	_ = p.Close()
	return nil, fmt.Errorf("exec in container %s: %w", container, err)
}

// isGone reports whether a container does not run, of which container runtimes say in many words that nothing starts in it.
func isGone(ctx context.Context, c *cluster, at *place) bool {
	pod := &core.Pod{}
	if err := c.Get(ctx, at.pod, pod); err != nil {
		return apierrors.IsNotFound(err)
	}
	return isLeaving(pod) || !runs(pod, at.container) || slices.ContainsFunc(pod.Status.ContainerStatuses, func(s core.ContainerStatus) bool {
		return s.Name == at.container && s.State.Running == nil
	})
}

// find returns where a container is: engine.ErrContainerGone where it is nowhere.
func (e *Engine) find(ctx context.Context, c *cluster, container string) (*place, error) {
	e.placesMu.Lock()
	at := e.places[container]
	e.placesMu.Unlock()
	if at != nil {
		return at, nil
	}
	pod, err := e.podWith(ctx, c, container)
	if err != nil {
		return nil, err
	}
	if pod == nil || isOver(pod) {
		return nil, engine.ErrContainerGone
	}
	e.remember(pod, false)
	e.placesMu.Lock()
	defer e.placesMu.Unlock()
	return e.places[container], nil
}

// noteShut notes that the pod of a container reaches nothing.
func (e *Engine) noteShut(name string) {
	e.placesMu.Lock()
	defer e.placesMu.Unlock()
	if at := e.places[name]; at != nil {
		shut := *at
		shut.shut = true
		e.places[name] = &shut
	}
}

func (e *Engine) forgetContainer(name string) {
	e.placesMu.Lock()
	defer e.placesMu.Unlock()
	delete(e.places, name)
}

// podWith returns the pod that has a container of a name, and is not being removed; nil: there is none.
func (e *Engine) podWith(ctx context.Context, c *cluster, container string) (*core.Pod, error) {
	list := &core.PodList{}
	if err := c.List(ctx, managedBy+"="+us+","+labelHas+hash(container), list); err != nil {
		return nil, e.apiError(c.Client, err)
	}
	for i := range list.Items {
		if pod := &list.Items[i]; !isLeaving(pod) && containersOf(pod)[container] != "" {
			return pod, nil
		}
	}
	return nil, nil
}
