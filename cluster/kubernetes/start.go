// Making or finding a pod, and entering a container in it; removing the leavings of a failed start.

package kubernetes

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/util/exec"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
)

var errInUse = errors.New("a container uses the volume")

// cleanupTimeout bounds the removal of a failed Start's leavings, after its own time.
const cleanupTimeout = 5 * time.Second

// Start implements engine.Engine. It uses an existing pod with the waiting container unchanged.
func (e *Engine) Start(ctx context.Context, spec engine.Spec) (engine.Started, error) {
	if err := spec.Check(); err != nil {
		return engine.Started{}, err
	}
	switch {
	case len(spec.Mounts) > 0:
		return engine.Started{}, engine.ErrNotOnHost
	case spec.Arch != "" && !slices.Contains(containers.Architectures(), spec.Arch):
		return engine.Started{}, engine.ErrArchitecture
	}
	e.starting.RLock()
	defer e.starting.RUnlock()
	ctx, cancel := e.limit(ctx)
	defer cancel()
	c, err := e.connect(ctx)
	if err != nil {
		return engine.Started{}, err
	}
	opts, err := e.optionsFor(ctx, c, spec)
	if err != nil {
		return engine.Started{}, fmt.Errorf("start container %s: %w", spec.Name, err)
	}
	claim, err := e.ensureClaim(ctx, c, &opts, spec)
	if err != nil {
		return engine.Started{}, fmt.Errorf("start container %s: %w", spec.Name, err)
	}
	pod, made, err := e.ensure(ctx, c, &opts, spec)
	var p *process
	if err == nil {
		p, err = e.startIn(ctx, c, pod, made)
	}
	if err != nil {
		if (made || pod == nil) && !errors.Is(err, engine.ErrPreparing) {
			e.clean(ctx, c, pod, claim)
		}
		return engine.Started{}, fmt.Errorf("start container %s: %w", spec.Name, err)
	}
	return engine.Started{
		Process: p, NewVolume: claim != nil || made && !opts.isClaim(spec),
		OtherSettings: !made && pod.Annotations[noteShape] != shapeOf(opts.podSpec(spec, e.users, c.imageVolumes)),
	}, nil
}

// startIn waits for a pod and enters it.
func (e *Engine) startIn(ctx context.Context, c *cluster, pod *core.Pod, made bool) (*process, error) {
	pod, p, err := e.enterSoon(ctx, c, pod)
	if err != nil {
		return nil, err
	}
	e.remember(pod, true)
	start := inUse
	if !made {
		start = rand.Text() // so that the late note of an earlier start's end is not taken for this one's
		if err := c.note(ctx, pod, start); err != nil {
			_ = p.Close()
			return nil, e.apiError(c.Client, err)
		}
	}
	go e.noteEnd(c, pod, start, p)
	return p, nil
}

// How long, and how often, the engine tries to enter a container that is coming up: the pod's status reports it running a moment later.
const (
	eagerTime  = 2 * time.Second
	eagerPause = 25 * time.Millisecond
	// sandboxTime is a node's time to begin a pod with a user namespace. Where there are none it tries for ever, and says so in events alone.
	sandboxTime = 15 * time.Second
	mostKilled  = 3 // times that code can kill the program that empties its container
)

// enterSoon enters a pod as soon as possible, and returns it as it is at that time.
func (e *Engine) enterSoon(ctx context.Context, c *cluster, pod *core.Pod) (*core.Pod, *process, error) {
	if e.opts.UserNamespaces && !hasClaim(pod) { // a claim's volume may take longer
		soon, cancel := context.WithTimeout(ctx, sandboxTime)
		_, err := e.await(soon, c, pod, comingUp)
		if cancel(); errors.Is(err, errNoUserNamespace) {
			return nil, nil, err
		}
	}
	pod, err := e.await(ctx, c, pod, comingUp)
	if err != nil {
		return nil, nil, err
	}
	for began := time.Now(); ; {
		p, err := e.enter(ctx, c, pod)
		if !errors.Is(err, engine.ErrContainerGone) || ctx.Err() != nil {
			return pod, p, err
		}
		// It is coming up, or coming back, or a program that ended before it was entered took along the request to it.
		now := &core.Pod{}
		if getErr := c.Get(ctx, pod.Name, now); apierrors.IsNotFound(getErr) {
			return nil, nil, err
		} else if getErr != nil {
			return nil, nil, e.apiError(c.Client, getErr)
		}
		pause := eagerPause
		state, err := stateOf(now)
		switch {
		case err != nil:
			return nil, nil, err
		case time.Since(began) < eagerTime:
		case state == running: // its status is late
			pause = pollPause
		default:
			if pod, err = e.await(ctx, c, now, running); err != nil {
				return nil, nil, err
			}
		}
		select {
		case <-ctx.Done():
			return nil, nil, e.late(ctx, c, now)
		case <-time.After(pause):
		}
	}
}

// noteEnd notes that a start's program ended by itself: the container goes on, with the files.
func (e *Engine) noteEnd(c *cluster, pod *core.Pod, start string, p *process) {
	err := p.Err()
	var status exec.CodeExitError
	if err != nil && (!errors.As(err, &status) || status.ExitStatus() == killed) {
		return // the connection ended, or code killed the program that held it, and it may go on
	}
	ctx, cancel := context.WithTimeout(e.closing, e.opts.CallTimeout)
	defer cancel()
	if err := c.noteEnded(ctx, pod, start); err != nil {
		e.log.Debug("note that a program has ended", "pod", pod.Name, "error", err)
	}
}

// noteEnded notes a start's end, unless another start followed.
func (c *cluster) noteEnded(ctx context.Context, pod *core.Pod, start string) error {
	const at = "/metadata/annotations/" + noteUsed
	return c.Patch(ctx, pod.Name, types.JSONPatchType, []map[string]any{
		{"op": "test", "path": "/metadata/uid", "value": pod.UID}, {"op": "test", "path": at, "value": start},
		{"op": "replace", "path": at, "value": hasEnded},
	}, &core.Pod{})
}

// note sets a pod's noteUsed; nil removes it. It ignores a missing pod, and another one with the name.
func (c *cluster) note(ctx context.Context, pod *core.Pod, used any) error {
	patch := map[string]any{"metadata": map[string]any{"uid": pod.UID, "annotations": map[string]any{noteUsed: used}}}
	err := c.Patch(ctx, pod.Name, types.MergePatchType, patch, &core.Pod{})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// podsFor returns a volume's pods.
func (e *Engine) podsFor(ctx context.Context, c *cluster, volume string) ([]*core.Pod, error) {
	list := &core.PodList{}
	if err := c.List(ctx, managedBy+"="+us+","+labelVolume+"="+hash(volume), list); err != nil {
		return nil, e.apiError(c.Client, err)
	}
	var pods []*core.Pod
	for i := range list.Items {
		if pod := &list.Items[i]; !isLeaving(pod) && pod.Annotations[noteVolume] == volume {
			pods = append(pods, pod)
		}
	}
	return pods, nil
}

// optionsFor returns the options for a volume. A lasting volume keeps its files in place, in a claim or in a pod,
// whichever this server uses for new ones.
func (e *Engine) optionsFor(ctx context.Context, c *cluster, spec engine.Spec) (Options, error) {
	opts := e.opts
	if !spec.Lasts {
		return opts, nil
	}
	has, err := e.podsFor(ctx, c, spec.Volume)
	if err != nil {
		return opts, err
	}
	if slices.ContainsFunc(has, func(p *core.Pod) bool { return !hasClaim(p) && !isOver(p) }) {
		opts.StorageClass = ""
		return opts, nil
	}
	claim, err := e.claimFor(ctx, c, spec.Volume)
	if err != nil {
		return opts, e.apiError(c.Client, err)
	}
	if claim == nil {
		return opts, nil
	}
	class := *cmp.Or(claim.Spec.StorageClassName, new("none"))
	switch {
	case claim.Status.Phase == core.ClaimPending && class != opts.StorageClass: // of a start that ended before there was a volume
		for _, pod := range has {
			if err := e.delete(ctx, c, pod, now); err != nil {
				return opts, err
			}
		}
		if err := c.Delete(ctx, claim.Name, claim, inOrder); err != nil && !apierrors.IsNotFound(err) {
			return opts, e.apiError(c.Client, err)
		}
	case opts.StorageClass == "":
		opts.StorageClass = class
	}
	return opts, nil
}

// claimFor returns a volume's claim; nil: there is none, or this account may not see it and need not.
func (e *Engine) claimFor(ctx context.Context, c *cluster, volume string) (*core.PersistentVolumeClaim, error) {
	claim := &core.PersistentVolumeClaim{}
	err := c.Get(ctx, objectName(volume), claim)
	if apierrors.IsNotFound(err) || err != nil && e.hasNoClaims(err) {
		return nil, nil
	}
	if err == nil && (isLeaving(claim) || !isOurs(claim, volume)) {
		claim = nil
	}
	return claim, err
}

// hasNoClaims reports whether an error is that of an account without a need for rights to claims: it made none, except by a server
// that used them.
func (e *Engine) hasNoClaims(err error) bool {
	return e.opts.StorageClass == "" && apierrors.IsForbidden(err)
}

// ensureClaim makes a lasting volume's claim, and returns it; nil: it existed, or none is needed.
func (e *Engine) ensureClaim(ctx context.Context, c *cluster, opts *Options, spec engine.Spec) (*core.PersistentVolumeClaim, error) {
	if !opts.isClaim(spec) {
		return nil, nil
	}
	for {
		wanted := opts.claimOf(spec)
		err := c.Create(ctx, wanted)
		if err == nil {
			return wanted, nil
		}
		if !apierrors.IsAlreadyExists(err) {
			return nil, e.apiError(c.Client, err)
		}
		claim := &core.PersistentVolumeClaim{} // decoding into another keeps that one's labels
		err = c.Get(ctx, wanted.Name, claim)
		switch {
		case apierrors.IsNotFound(err):
			continue
		case err != nil:
			return nil, e.apiError(c.Client, err)
		case !isOurs(claim, spec.Volume):
			return nil, foreign("persistentvolumeclaim", claim)
		case !isLeaving(claim):
			return nil, nil
		}
		select { // a pod that is ending still bears that name
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: claim %s is not removed yet", ctx.Err(), claim.Name)
		case <-time.After(pollPause):
		}
	}
}

// ensure returns the pod for a container, and whether it made it.
func (e *Engine) ensure(ctx context.Context, c *cluster, opts *Options, spec engine.Spec) (pod *core.Pod, made bool, err error) {
	for {
		wanted := opts.podOf(spec, e.users, c.imageVolumes)
		pod := wanted.DeepCopy()
		err := c.Create(ctx, pod)
		if err == nil {
			return pod, true, nil
		}
		if !apierrors.IsAlreadyExists(err) {
			return nil, false, e.apiError(c.Client, err)
		}
		pod = &core.Pod{}
		err = c.Get(ctx, wanted.Name, pod)
		switch {
		case apierrors.IsNotFound(err):
			continue
		case err != nil:
			return nil, false, e.apiError(c.Client, err)
		case !isOurs(pod, spec.Volume):
			return nil, false, foreign("pod", pod)
		case isLeaving(pod):
		case !isOver(pod) && pod.Annotations[noteShape] == wanted.Annotations[noteShape]:
			return pod, false, nil
		case !isOver(pod) && isUsed(pod):
			return nil, false, errInUse
		case !isOver(pod) && keepsFiles(pod, wanted):
			e.log.Warn("a pod was made with other settings, and stays as it is, because files are in it", "pod", pod.Name)
			return pod, false, nil
		case !isOver(pod) && !hasClaim(pod) && spec.Lasts:
			return nil, false, otherSettings(pod)
		default:
			if err := e.delete(ctx, c, pod, inOrder); err != nil {
				return nil, false, err
			}
		}
		_, err = follow(ctx, c, pod, func(p *core.Pod) bool { return p.UID != pod.UID })
		switch {
		case ctx.Err() != nil:
			return nil, false, notRemoved(pod, ctx.Err())
		case err != nil:
			return nil, false, e.apiError(c.Client, err)
		}
	}
}

// keepsFiles reports whether a pod with other settings must stay, because its files would go with it: only its environment
// differs, or its limits are lower.
func keepsFiles(pod, wanted *core.Pod) bool {
	return !hasClaim(pod) && pod.Annotations[noteFrame] == wanted.Annotations[noteFrame] && isWithin(pod.Annotations[noteLimits], wanted.Annotations[noteLimits])
}

// The seconds left to a pod's containers: one, or the pod's own.
const (
	now     = 1
	inOrder = -1
)

// delete removes a pod.
func (e *Engine) delete(ctx context.Context, c *cluster, pod *core.Pod, seconds int64) error {
	e.places.Delete(pod.Annotations[noteContainer])
	if err := c.Delete(ctx, pod.Name, pod, seconds); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return e.apiError(c.Client, err)
	}
	return nil
}

// clean removes a failed start's pod and claim, even after its context's end; nil: it made none. No code ran there.
func (e *Engine) clean(ctx context.Context, c *cluster, pod *core.Pod, claim *core.PersistentVolumeClaim) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	var err error
	if made := (&core.Pod{}); pod == nil && claim != nil && c.Get(ctx, claim.Name, made) == nil && isOurs(made, claim.Annotations[noteVolume]) && hasClaim(made) {
		pod = made // by a request that was given up
	}
	if pod != nil {
		err = e.delete(ctx, c, pod, now)
	}
	if claim != nil && err == nil {
		err = c.Delete(ctx, claim.Name, claim, inOrder)
	}
	if err != nil {
		e.log.Warn("what a failed start made could not be removed", "error", err)
	}
}

// await waits until a pod's container reaches a state. A final fault is an error at once; a fault that may pass, such as a node
// without room yet, is one when ctx ends.
func (e *Engine) await(ctx context.Context, c *cluster, pod *core.Pod, wanted state) (*core.Pod, error) {
	last := pod
	var failed error
	found, err := follow(ctx, c, pod, func(p *core.Pod) bool {
		var is state
		last = p
		is, failed = stateOf(p)
		return is >= wanted || failed != nil
	})
	switch {
	case found != nil:
		return found, failed
	case ctx.Err() != nil:
		return nil, e.late(ctx, c, last)
	case err != nil:
		return nil, e.apiError(c.Client, err)
	}
	return nil, fmt.Errorf("%w: the pod was removed while it started", engine.ErrContainerGone)
}

// pollPause is the pause between looks at a pod after a watch broke off.
const pollPause = 200 * time.Millisecond

// follow watches a pod until found returns true for it, and returns it; nil: it is gone. It renews a watch that ends.
func follow(ctx context.Context, c *cluster, pod *core.Pod, found func(*core.Pod) bool) (*core.Pod, error) {
	for !found(pod) {
		w, err := c.Watch(ctx, &core.PodList{}, pod.Name, "", pod.ResourceVersion)
		if err == nil {
			for event := range w.ResultChan() {
				p, isPod := event.Object.(*core.Pod)
				if !isPod {
					break // an error, such as a version that is too old
				}
				if gone := event.Type == watch.Deleted; gone || found(p) {
					w.Stop()
					if gone {
						p = nil
					}
					return p, nil
				}
				pod = p
			}
			w.Stop()
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(pollPause):
		}
		now := &core.Pod{}
		switch err := c.Get(ctx, pod.Name, now); {
		case apierrors.IsNotFound(err):
			return nil, nil
		case err == nil:
			pod = now
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case !isLost(err):
			return nil, err
		}
	}
	return pod, nil
}

type state int

const (
	waiting  state = iota
	comingUp       // its pod is on a node, and its network is up
	running
)

// stateOf returns the state of a pod's container, and its error if it will not run.
func stateOf(pod *core.Pod) (state, error) {
	if isLeaving(pod) {
		return waiting, fmt.Errorf("%w: the pod is being removed", engine.ErrContainerGone)
	}
	all := append(append([]core.ContainerStatus{}, pod.Status.InitContainerStatuses...), pod.Status.ContainerStatuses...)
	for _, s := range all {
		if s.Name != mainContainer && s.Name != "programs" {
			continue
		}
		switch {
		case s.State.Running != nil && s.Name == mainContainer:
			return running, nil
		case s.State.Waiting != nil && s.LastTerminationState.Terminated != nil:
			if t := s.LastTerminationState.Terminated; !wasKilled(t) {
				return waiting, terminatedError(t)
			}
		case s.State.Waiting != nil:
			if err := waitingError(missingImage(pod, s), s.State.Waiting); err != nil {
				return waiting, err
			}
		case s.State.Terminated != nil && s.State.Terminated.ExitCode != 0 && !wasKilled(s.State.Terminated):
			return waiting, terminatedError(s.State.Terminated)
		}
	}
	if isOver(pod) {
		return waiting, fmt.Errorf("%w: %s", engine.ErrContainerGone, cmp.Or(pod.Status.Reason, "the pod has ended"))
	}
	if comesUp(pod) {
		return comingUp, nil
	}
	return waiting, nil
}

// comesUp reports whether a node has begun a pod: its network is up, and its images are next.
func comesUp(pod *core.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c core.PodCondition) bool {
		return c.Type == core.PodReadyToStartContainers && c.Status == core.ConditionTrue
	})
}

// missingImage returns the image that a container waits for: its own, or that of its pod's programs, if the status names that one.
func missingImage(pod *core.Pod, s core.ContainerStatus) string {
	for _, v := range pod.Spec.Volumes {
		if v.Image != nil && v.Image.Reference != "" && strings.Contains(s.State.Waiting.Message, v.Image.Reference) {
			return v.Image.Reference + " of --programs-image"
		}
	}
	if s.Name == "programs" {
		return s.Image + " of --programs-image"
	}
	return s.Image
}

// wasKilled reports whether a container was ended from outside or for its memory: the kubelet starts it again.
func wasKilled(t *core.ContainerStateTerminated) bool {
	return t.ExitCode == int32(killed) || t.ExitCode == 128+int32(syscall.SIGTERM)
}

// condition returns the scheduler's reason why no node takes a pod.
func condition(pod *core.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == core.PodScheduled && c.Status == core.ConditionFalse {
			return c.Message
		}
	}
	return ""
}

// tryToEnter takes the stdio of a container's program, after the pod showed that it is shut off.
func (e *Engine) tryToEnter(ctx context.Context, c *cluster, pod *core.Pod) (*process, error) {
	targets, err := e.network.targets(ctx, e, c, pod)
	if err != nil {
		return nil, err
	}
	p, err := c.exec(pod.Name, []string{supervisor, "enter", "--reach", strings.Join(targets, ",")})
	if err != nil {
		return nil, err
	}
	only, reached, err := p.reached(ctx)
	if err == nil {
		err = e.network.judge(ctx, pod, only, reached)
	}
	if err != nil {
		_ = p.Close()
		return nil, err
	}
	answer, err := p.answer(ctx)
	switch {
	case err == nil && answer == answerYours:
		return p, nil
	case err == nil && answer == answerBusy:
		err = errInUse
	case err == nil:
		err = fmt.Errorf("process 1 answered %q", answer)
	}
	_ = p.Close()
	return nil, err
}

// Process 1's answers, the first byte of its programs' output.
const (
	answerYours = 'K'
	answerBusy  = 'B'
	answerGone  = 'G'
)

// mostPreparing bounds a node's time to get a pod's images and volumes.
const mostPreparing = 15 * time.Minute

// late says why a pod did not run in time.
func (e *Engine) late(ctx context.Context, c *cluster, pod *core.Pod) error {
	why, claim := condition(pod), unboundClaim(ctx, c, pod)
	if why != "" || claim != nil {
		return unscheduled(pod, why, claim)
	}
	for _, s := range pod.Status.ContainerStatuses {
		if w := s.State.Waiting; s.Name == mainContainer && w != nil {
			if isPreparing(w) && e.opts.UserNamespaces && !comesUp(pod) {
				return noUserNamespace(pod)
			}
			if isPreparing(w) && time.Since(pod.CreationTimestamp.Time) < mostPreparing && pod.DeletionTimestamp == nil {
				return preparing(pod)
			}
			return fmt.Errorf("%w: the pod waits: %s %s", ctx.Err(), w.Reason, w.Message)
		}
	}
	return fmt.Errorf("%w: the pod does not run yet", ctx.Err())
}

// isPreparing reports whether a container waits for its node to get an image or a volume.
func isPreparing(w *core.ContainerStateWaiting) bool {
	return w.Reason == "ContainerCreating" || w.Reason == "PodInitializing"
}

// unboundClaim returns a pod's claim without a volume, even after the context's end; nil: none.
func unboundClaim(ctx context.Context, c *cluster, pod *core.Pod) *core.PersistentVolumeClaim {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	for _, v := range pod.Spec.Volumes {
		claim := &core.PersistentVolumeClaim{}
		if v.PersistentVolumeClaim != nil && c.Get(ctx, v.PersistentVolumeClaim.ClaimName, claim) == nil && claim.Status.Phase == core.ClaimPending {
			return claim
		}
	}
	return nil
}
