// Listing and removing pods and volumes.

package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
)

// List implements engine.Engine. A pod with its files inside is a volume too.
func (e *Engine) List(ctx context.Context, key, value string) (engine.Inventory, error) {
	ctx, cancel := e.limit(ctx)
	defer cancel()
	c, err := e.connect(ctx)
	if err != nil {
		return engine.Inventory{}, err
	}
	selector := managedBy + "=" + us + "," + component + "=" + sandboxes + "," + key
	if value != "" {
		selector += "=" + valueOf(value)
	}
	carries := func(labels map[string]string) bool {
		had, ok := labels[key]
		return ok && (value == "" || had == value)
	}
	var inventory engine.Inventory
	began, pods, listed := time.Now(), &core.PodList{}, make(map[types.UID]bool)
	if err := c.List(ctx, selector, pods); err != nil {
		return engine.Inventory{}, e.apiError(c.Client, err)
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		listed[pod.UID] = true
		labels := fromJSON(pod.Annotations[noteLabels])
		if isLeaving(pod) || !carries(labels) {
			continue
		}
		if isUsed(pod) || isOver(pod) { // one that is over has to be removed
			inventory.Containers = append(inventory.Containers, engine.Container{
				Name: pod.Annotations[noteContainer], Labels: labels, Running: runs(pod), Created: pod.CreationTimestamp.Time,
				Place: engine.Location{Name: "pod " + pod.Name, Node: pod.Spec.NodeName},
			})
		}
		if !hasClaim(pod) && !isOver(pod) {
			inventory.Volumes = append(inventory.Volumes, engine.Volume{Name: pod.Annotations[noteVolume], Labels: labels, Created: pod.CreationTimestamp.Time})
		}
	}
	e.places.Range(func(name, at any) bool {
		if at := at.(place); carries(at.labels) && !listed[at.uid] && at.noted.Before(began) {
			e.places.Delete(name)
		}
		return true
	})
	claims := &core.PersistentVolumeClaimList{}
	if err := c.List(ctx, selector, claims); err != nil && !e.hasNoClaims(err) {
		return engine.Inventory{}, e.apiError(c.Client, err)
	}
	for i := range claims.Items {
		claim := &claims.Items[i]
		if labels := fromJSON(claim.Annotations[noteLabels]); !isLeaving(claim) && carries(labels) {
			inventory.Volumes = append(inventory.Volumes, engine.Volume{Name: claim.Annotations[noteVolume], Labels: labels, Created: claim.CreationTimestamp.Time})
		}
	}
	return inventory, nil
}

// runs reports whether a program of a pod runs. Its status may lag: the engine enters it before.
func runs(pod *core.Pod) bool {
	return isUsed(pod) && pod.Annotations[noteUsed] != hasEnded && !isOver(pod) && !slices.ContainsFunc(pod.Status.ContainerStatuses, func(s core.ContainerStatus) bool {
		return s.Name == mainContainer && s.State.Terminated != nil
	})
}

// Remove implements engine.Engine. If the pod holds the files, it empties the container, which waits in the pod; else the pod goes.
// A pod asked to go counts as gone: the next start waits for its name.
func (e *Engine) Remove(ctx context.Context, containers, volumes []string) error {
	ctx, cancel := e.limit(ctx)
	defer cancel()
	c, err := e.connect(ctx)
	if err != nil {
		return err
	}
	pods, err := e.podsOf(ctx, c, containers, volumes)
	if err != nil {
		return err
	}
	var removing sync.WaitGroup
	failed := make([]error, len(pods))
	for i, pod := range pods {
		removing.Go(func() { failed[i] = e.removeFrom(ctx, c, pod, containers, volumes) })
	}
	removing.Wait()
	if err := errors.Join(failed...); err != nil {
		return err
	}
	for _, volume := range volumes {
		claim, err := e.claimFor(ctx, c, volume)
		if claim != nil {
			err = c.Delete(ctx, claim.Name, claim, inOrder)
		}
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return fmt.Errorf("remove volume %s: %w", volume, e.apiError(c.Client, err))
		}
	}
	return nil
}

// podsOf returns the pods with some of the containers or volumes.
func (e *Engine) podsOf(ctx context.Context, c *cluster, containers, volumes []string) ([]*core.Pod, error) {
	found := make(map[string]*core.Pod)
	note := func(selector string) error {
		list := &core.PodList{}
		if err := c.List(ctx, managedBy+"="+us+","+selector, list); err != nil {
			return e.apiError(c.Client, err)
		}
		for i := range list.Items {
			if pod := &list.Items[i]; !isLeaving(pod) {
				found[pod.Name] = pod
			}
		}
		return nil
	}
	for hashes := range slices.Chunk(volumes, 100) {
		values := ""
		for i, volume := range hashes {
			if i > 0 {
				values += ","
			}
			values += hash(volume)
		}
		if err := note(labelVolume + " in (" + values + ")"); err != nil {
			return nil, err
		}
	}
	has := func(container string) bool {
		for _, pod := range found {
			if pod.Annotations[noteContainer] == container {
				return true
			}
		}
		return false
	}
	for _, container := range containers {
		if has(container) {
			continue
		}
		if err := note(labelHas + hash(container)); err != nil {
			return nil, err
		}
	}
	pods := make([]*core.Pod, 0, len(found))
	for _, pod := range found {
		pods = append(pods, pod)
	}
	return pods, nil
}

// removeFrom removes the named containers and volumes from a pod.
func (e *Engine) removeFrom(ctx context.Context, c *cluster, pod *core.Pod, containers, volumes []string) error {
	named := slices.Contains(containers, pod.Annotations[noteContainer])
	withVolume := slices.Contains(volumes, pod.Annotations[noteVolume])
	switch {
	case withVolume && !named && isUsed(pod) && !isOver(pod):
		return fmt.Errorf("remove volume %s: a container uses it", pod.Annotations[noteVolume])
	case withVolume || isOver(pod) || hasClaim(pod):
		return e.delete(ctx, c, pod, now)
	case !isUsed(pod):
		return nil
	}
	if err := e.reset(ctx, c, pod); err != nil {
		return err
	}
	if err := c.note(ctx, pod, nil); err != nil {
		return e.apiError(c.Client, err)
	}
	return nil
}

// reset ends everything in a pod's container, which then waits to be entered. Code can kill the program that does that, but not for
// ever: then the pod goes, with the files in it.
func (e *Engine) reset(ctx context.Context, c *cluster, pod *core.Pod) error {
	var err error
	for range mostKilled {
		if err = e.tryReset(ctx, c, pod); !errors.Is(err, errKilled) {
			break
		}
	}
	switch {
	case errors.Is(err, errKilled):
		e.log.Warn("code keeps its container from being emptied: the pod is removed", "pod", pod.Name)
		return e.delete(ctx, c, pod, 1)
	case err != nil && !errors.Is(err, engine.ErrContainerGone): // no code runs in a stopped one
		return fmt.Errorf("empty the container of pod %s: %w", pod.Name, err)
	}
	return nil
}

func (e *Engine) tryReset(ctx context.Context, c *cluster, pod *core.Pod) error {
	p, err := c.exec(pod.Name, []string{supervisor, "reset"})
	if err != nil {
		return err
	}
	defer func() { _ = p.Close() }()
	answer, err := p.answer(ctx)
	if err == nil && answer != answerYours {
		err = fmt.Errorf("process 1 answered %q", answer)
	}
	return err
}
