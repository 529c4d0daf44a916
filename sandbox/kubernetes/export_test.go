//go:build unix && !nokubernetes

package kubernetes

import (
	"context"
	"time"

	core "k8s.io/api/core/v1"
)

// WhenShut looks again where a pod reaches something.
func WhenShut(ctx context.Context, most time.Duration, look func() error) error {
	return whenShut(ctx, most, look)
}

// NameServers returns those of a resolv.conf.
func NameServers(path string) []string { return nameServers(path) }

// Canary returns the name of the engine's canary, as a start that needs one does, and where it listens.
func (e *Engine) Canary(ctx context.Context, image string) (name string, at []string, err error) {
	c, err := e.connect(ctx)
	if err != nil {
		return "", nil, err
	}
	n := &e.network
	if err := n.lock(ctx); err != nil {
		return "", nil, err
	}
	defer n.unlock()
	pod := &core.Pod{Spec: core.PodSpec{Containers: []core.Container{{Name: "main", Image: image}}}}
	if err := n.keepCanary(ctx, e, c, pod, "main"); err != nil {
		return "", nil, err
	}
	return n.canary.Name, canaryAt(n.canary), nil
}

// WithoutImageVolumes has an engine take its cluster for one that is too old for them.
func (e *Engine) WithoutImageVolumes(ctx context.Context) error {
	c, err := e.connect(ctx)
	if err == nil {
		c.imageVolumes = false
	}
	return err
}
