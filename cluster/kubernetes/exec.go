// Programs in a pod, and their stdio.

package kubernetes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/cluster/kube"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
)

// process is an engine.Process over pods/exec.
type process struct {
	*kube.Stream
	cluster *cluster
	stderr  engine.Tail
}

// Stderr implements engine.Process.
func (p *process) Stderr() string { return p.stderr.String() }

// exec starts a program. A failed start shows when its answer is read.
func (c *cluster) exec(pod string, command []string) (*process, error) {
	p := &process{cluster: c}
	var err error
	p.Stream, err = c.Exec(pod, mainContainer, command, &p.stderr)
	return p, err
}

// answer reads the first output byte of process 1's programs.
func (p *process) answer(ctx context.Context) (byte, error) {
	stop := context.AfterFunc(ctx, func() { _ = p.Close() })
	var b [1]byte
	_, err := io.ReadFull(p, b[:])
	switch {
	case !stop(): // it is closed by now, even if it answered
		return 0, ctx.Err()
	case err == nil:
		return b[0], nil
	}
	return 0, p.cluster.execError(cmp.Or(p.Err(), io.ErrUnexpectedEOF), p.Stderr())
}

// Exec implements engine.Engine. The program runs with the container's user and limits, and without capabilities, as process 1 does.
func (e *Engine) Exec(ctx context.Context, container string, command []string) (engine.Process, error) {
	if len(command) == 0 {
		return nil, engine.ErrNoCommand
	}
	ctx, cancel := e.limit(ctx)
	defer cancel()
	c, err := e.connect(ctx)
	if err != nil {
		return nil, err
	}
	p, err := e.within(ctx, c, container, command)
	if err != nil {
		return nil, fmt.Errorf("exec in container %s: %w", container, err)
	}
	return p, nil
}

// within starts a program in a pod's container after the pod showed that it is shut off.
func (e *Engine) within(ctx context.Context, c *cluster, name string, command []string) (*process, error) {
	pod, err := e.podWith(ctx, c, name)
	if err != nil {
		return nil, err
	}
	if at := e.at(name); !at.shut || at.uid != pod.UID {
		err := whenShut(ctx, policyTime, e.mendPolicies, func() error { return e.probeAgain(ctx, c, pod) })
		if errors.Is(err, ErrReaches) {
			cleaning, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
			err = errors.Join(err, e.removeFrom(cleaning, c, pod, []string{name}, nil))
			cancel()
		}
		if err != nil {
			return nil, err
		}
		e.remember(pod, true)
	}
	p, err := c.exec(pod.Name, append([]string{supervisor, "within"}, command...))
	if err != nil {
		return nil, err
	}
	answer, err := p.answer(ctx)
	switch {
	case err == nil && answer == answerYours:
		return p, nil
	case err == nil:
		err = fmt.Errorf("%w: its program has ended", engine.ErrContainerGone)
	case !errors.Is(err, engine.ErrContainerGone) && ctx.Err() == nil && isGone(ctx, c, pod.Name):
		err = fmt.Errorf("%w: %w", engine.ErrContainerGone, err)
	}
	_ = p.Close()
	return nil, err
}

// isGone reports whether a pod's container does not run. Container runtimes use many words for the failure to start anything in it.
func isGone(ctx context.Context, c *cluster, name string) bool {
	pod := &core.Pod{}
	if err := c.Get(ctx, name, pod); err != nil {
		return apierrors.IsNotFound(err)
	}
	return isLeaving(pod) || !runs(pod) || slices.ContainsFunc(pod.Status.ContainerStatuses, func(s core.ContainerStatus) bool {
		return s.Name == mainContainer && s.State.Running == nil
	})
}

// podWith returns the running pod with a container of this name: engine.ErrContainerGone if there is none.
func (e *Engine) podWith(ctx context.Context, c *cluster, container string) (*core.Pod, error) {
	list := &core.PodList{}
	if err := c.List(ctx, managedBy+"="+us+","+labelHas+hash(container), list); err != nil {
		return nil, e.apiError(c.Client, err)
	}
	for i := range list.Items {
		if pod := &list.Items[i]; !isLeaving(pod) && !isOver(pod) && pod.Annotations[noteContainer] == container {
			return pod, nil
		}
	}
	return nil, engine.ErrContainerGone
}
