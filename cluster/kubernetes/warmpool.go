// Warm pods: agent-sandbox keeps a pool of them, and a SandboxClaim takes one out of it.

package kubernetes

import (
	"context"
	"encoding/json"
	"net/http"
	"path"
	"time"

	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/cluster/kube"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
)

const (
	poolGroup   = "extensions.agents.x-k8s.io"
	poolVersion = poolGroup + "/v1beta1"

	noteClaim = prefix + "claim" // the name of the SandboxClaim that took the pod, which goes with it

	poolPatience = 5 * time.Second // for a pod's name, before one is made without the pool
	poolPause    = 20 * time.Millisecond
)

// poolRights are this engine's further needs if it takes pods from a pool.
var poolRights = []kube.Right{
	{Verb: "get", Group: poolGroup, Resource: "sandboxwarmpools"}, {Verb: "create", Group: poolGroup, Resource: "sandboxclaims"},
	{Verb: "get", Group: poolGroup, Resource: "sandboxclaims"}, {Verb: "delete", Group: poolGroup, Resource: "sandboxclaims"},
}

// sandboxObject is the part read of a SandboxWarmPool and of a SandboxClaim.
type sandboxObject struct {
	meta.ObjectMeta `json:"metadata"`
	Status          struct {
		Sandbox    struct{ Name string } // and that of its pod
		Conditions []meta.Condition
	}
}

// pool calls the API of agent-sandbox for an object of a name.
func (c *cluster) pool(ctx context.Context, verb, resource, name string, body, into any) error {
	return c.Call(ctx, verb, path.Join("/apis", poolVersion, "namespaces", c.Namespace, resource, name), body, into)
}

// poolPod is podOf for a pod of the pool, which is made before its session is known: all share one user, and none ends by itself.
func (o *Options) poolPod(spec engine.Spec, u engine.Users, imageVolumes bool) *core.Pod {
	spec.Ends, spec.Grace = 0, 0
	if u.Count > 0 {
		u = engine.Users{First: u.Of(o.WarmPool), Count: 1}
	}
	return o.podOf(spec, u, imageVolumes)
}

// Template returns, in JSON, the SandboxTemplate and the SandboxWarmPool of pods that this engine takes for sessions like spec.
func (e *Engine) Template(ctx context.Context, spec engine.Spec) ([]byte, error) {
	ctx, cancel := e.limit(ctx)
	defer cancel()
	c, err := e.connect(ctx)
	if err != nil {
		return nil, err
	}
	pod := e.opts.poolPod(spec, e.users, c.imageVolumes)
	shape := map[string]string{noteShape: pod.Annotations[noteShape]}
	object := func(kind string, spec map[string]any) map[string]any {
		metadata := map[string]any{"name": e.opts.WarmPool, "namespace": c.Namespace, "annotations": shape}
		return map[string]any{"apiVersion": poolVersion, "kind": kind, "metadata": metadata, "spec": spec}
	}
	return json.MarshalIndent(map[string]any{"apiVersion": "v1", "kind": "List", "items": []any{
		object("SandboxTemplate", map[string]any{
			"networkPolicyManagement": "Unmanaged", // ours lets nothing through, and another would add to it
			"podTemplate": map[string]any{
				"metadata": map[string]any{"labels": map[string]string{managedBy: us, component: sandboxes}, "annotations": shape},
				"spec":     pod.Spec,
			},
		}),
		object("SandboxWarmPool", map[string]any{
			"replicas": 3, "sandboxTemplateRef": map[string]any{"name": e.opts.WarmPool}, "updateStrategy": map[string]any{"type": "Recreate"},
		}),
	}}, "", "  ")
}

// fromPool returns a pod of the pool, and whether it was nobody's before; nil: the session uses a pod in has from outside the
// pool, or is to get one, because the pool gives none.
func (e *Engine) fromPool(ctx context.Context, c *cluster, spec engine.Spec, has []*core.Pod) (pod *core.Pod, taken bool, err error) {
	wanted := e.opts.poolPod(spec, e.users, c.imageVolumes)
	shape, name := wanted.Annotations[noteShape], wanted.Name
	for _, pod := range has {
		switch {
		case pod.Annotations[noteClaim] == "":
			return nil, false, nil
		case !isOver(pod) && pod.Annotations[noteShape] == shape:
			return pod, false, nil
		case !isOver(pod) && len(uses(pod)) > 0:
			return nil, false, errInUse
		case !isOver(pod) && spec.Lasts:
			return nil, false, otherSettings(pod)
		default:
			if err := e.delete(ctx, c, pod, now); err != nil {
				return nil, false, err
			}
		}
	}
	without := func(reason, fix string) (*core.Pod, bool, error) {
		e.log.Warn("a pod is made without the warm pool", "pool", e.opts.WarmPool, "reason", reason, "fix", fix)
		return nil, false, e.unclaim(ctx, c, name)
	}
	const renew = "apply what `code-sandbox-server setup --engine kubernetes --sandbox-template` prints with the flags of this server"
	pool := &sandboxObject{}
	err = c.pool(ctx, http.MethodGet, "sandboxwarmpools", e.opts.WarmPool, nil, pool)
	switch {
	case apierrors.IsNotFound(err):
		return without("there is no SandboxWarmPool of this name", renew)
	case err != nil:
		return nil, false, e.apiError(c.Client, err)
	case pool.Annotations[noteShape] != shape:
		return without("its pods are not like those of this server, or not of this session's limits", renew)
	}
	claim := map[string]any{"warmPoolRef": map[string]any{"name": e.opts.WarmPool}}
	if spec.Ends > 0 && !spec.Lasts {
		claim["lifecycle"] = map[string]any{"shutdownTime": time.Now().Add(spec.Ends).UTC().Format(time.RFC3339), "shutdownPolicy": "Delete"}
	}
	defer func() {
		if !taken { // nobody else would find it
			cleaning, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
			defer cancel()
			_ = e.unclaim(cleaning, c, name)
		}
	}()
	for began := time.Now(); ; {
		has, pod := &sandboxObject{}, &core.Pod{}
		err := c.pool(ctx, http.MethodGet, "sandboxclaims", name, nil, has)
		if apierrors.IsNotFound(err) {
			err = c.pool(ctx, http.MethodPost, "sandboxclaims", "", map[string]any{
				"apiVersion": poolVersion, "kind": "SandboxClaim", "spec": claim,
				"metadata": map[string]any{"name": name, "labels": map[string]string{managedBy: us}},
			}, has)
		}
		if err == nil && has.Status.Sandbox.Name != "" && has.DeletionTimestamp == nil { // else it is that of the session that went
			err = c.Get(ctx, has.Status.Sandbox.Name, pod)
		}
		switch {
		case err != nil && !apierrors.IsNotFound(err) && !apierrors.IsAlreadyExists(err):
			return nil, false, e.apiError(c.Client, err)
		case pod.Name != "" && pod.Annotations[noteShape] != shape:
			return without("it has pods that are not like those of this server", renew)
		case pod.Name != "" && !isLeaving(pod):
			wanted.Annotations[noteClaim] = name
			patch := map[string]any{"metadata": map[string]any{"uid": pod.UID, "labels": wanted.Labels, "annotations": wanted.Annotations}}
			if err := c.Patch(ctx, pod.Name, types.MergePatchType, patch, pod); err != nil {
				return nil, false, e.apiError(c.Client, err)
			}
			return pod, true, nil
		case time.Since(began) > poolPatience:
			reason := "it gave no pod in " + poolPatience.String()
			for _, condition := range has.Status.Conditions {
				reason += "; " + condition.Message
			}
			return without(reason, "look whether the controller of agent-sandbox runs, with --extensions")
		}
		select {
		case <-ctx.Done():
			return nil, false, ctx.Err()
		case <-time.After(poolPause):
		}
	}
}

// unclaim removes a claim, and its pod with it.
func (e *Engine) unclaim(ctx context.Context, c *cluster, name string) error {
	if err := c.pool(ctx, http.MethodDelete, "sandboxclaims", name, nil, nil); err != nil && !apierrors.IsNotFound(err) {
		return e.apiError(c.Client, err)
	}
	return nil
}
