//go:build unix

package kubernetes

import (
	"context"
	"time"

	core "k8s.io/api/core/v1"
)

// WhenShut looks again where a pod reaches something.
func WhenShut(ctx context.Context, most time.Duration, look func() error) error {
	return whenShut(ctx, most, func(context.Context) {}, look)
}

// MendPolicies looks once whether the policies are there.
func (e *Engine) MendPolicies(ctx context.Context) { e.mendPolicies(ctx) }

// NameServers returns those of a resolv.conf.
func NameServers(path string) []string { return nameServers(path) }

// Canary returns the name of the engine's canary, as a start that needs one does, and where it listens.
func (e *Engine) Canary(ctx context.Context, image string) (name string, at []string, err error) {
	c, err := e.connect(ctx)
	if err != nil {
		return "", nil, err
	}
	n := &e.network
	if err := n.turn.Acquire(ctx, 1); err != nil {
		return "", nil, err
	}
	defer n.turn.Release(1)
	pod := &core.Pod{Spec: core.PodSpec{Containers: []core.Container{{Image: image}}}}
	if err := n.keepCanary(ctx, e, c, pod); err != nil {
		return "", nil, err
	}
	return n.canary.Name, canaryAt(n.canary), nil
}

// PodUID returns that of the pod in which the engine knows a container; empty: in none.
func (e *Engine) PodUID(container string) string { return string(e.at(container).uid) }

// NoteEnd notes that the first start has ended of a container whose pod was made with it.
func (e *Engine) NoteEnd(ctx context.Context, container string) error {
	c, err := e.connect(ctx)
	if err != nil {
		return err
	}
	pod, err := e.podWith(ctx, c, container)
	if err != nil {
		return err
	}
	return c.noteEnded(ctx, pod, inUse)
}

// WithoutImageVolumes has an engine take its cluster for one that is too old for them.
func (e *Engine) WithoutImageVolumes(ctx context.Context) error {
	c, err := e.connect(ctx)
	if err == nil {
		c.imageVolumes = false
	}
	return err
}
