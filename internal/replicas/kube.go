//go:build !nokubernetes

package replicas

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	coordination "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/kube"
)

// Rights are what a replica needs beside those of the engine.
var Rights = []kube.Right{
	{Verb: "get", Group: coordination.GroupName, Resource: "leases"}, {Verb: "list", Group: coordination.GroupName, Resource: "leases"},
	{Verb: "watch", Group: coordination.GroupName, Resource: "leases"}, {Verb: "create", Group: coordination.GroupName, Resource: "leases"},
	{Verb: "patch", Group: coordination.GroupName, Resource: "leases"}, {Verb: "delete", Group: coordination.GroupName, Resource: "leases"},
}

// cluster implements Leases.
type cluster struct {
	client   *kube.Client
	selector string // of the group's
}

// Of returns a group's Leases in a client's namespace.
func Of(client *kube.Client, group string) Leases {
	return cluster{client, labelGroup + "=" + hash(group)}
}

func (c cluster) Get(ctx context.Context, name string) (*Lease, error) {
	l := &coordination.Lease{}
	return known(l, c.client.Get(ctx, name, l))
}

func (c cluster) Create(ctx context.Context, of *Lease, lasts time.Duration) (*Lease, error) {
	l := &coordination.Lease{
		ObjectMeta: meta.ObjectMeta{Name: of.Name, Labels: of.Labels, Annotations: of.Annotations},
		Spec:       coordination.LeaseSpec{HolderIdentity: &of.Holder, RenewTime: &meta.MicroTime{Time: time.Now()}},
	}
	if seconds := int32(lasts.Seconds()); seconds > 0 {
		l.Spec.LeaseDurationSeconds = &seconds
	}
	return known(l, c.client.Create(ctx, l))
}

// Change is a patch that tests what must be so, which the API server does in one step.
func (c cluster) Change(ctx context.Context, name string, change Change) (*Lease, error) {
	type operation struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value any    `json:"value"`
	}
	const holder = "/spec/holderIdentity"
	patch := []operation{{"add", "/spec/renewTime", meta.NowMicro()}}
	if change.If != nil {
		patch = append(patch, operation{"test", holder, *change.If})
	}
	if change.Holder != nil {
		patch = append(patch, operation{"add", holder, *change.Holder})
	}
	for key, value := range change.Annotations {
		patch = append(patch, operation{"add", "/metadata/annotations/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(key), value})
	}
	l := &coordination.Lease{}
	return known(l, c.client.Patch(ctx, name, types.JSONPatchType, patch, l))
}

func (c cluster) Delete(ctx context.Context, name, version string) error {
	_, err := known(nil, c.client.DeleteIf(ctx, name, &coordination.Lease{}, version))
	return err
}

func (c cluster) List(ctx context.Context) ([]Lease, string, error) {
	list := &coordination.LeaseList{}
	if err := c.client.List(ctx, c.selector, list); err != nil {
		return nil, "", err
	}
	all := make([]Lease, len(list.Items))
	for i := range list.Items {
		all[i] = *leaseFrom(&list.Items[i])
	}
	return all, list.ResourceVersion, nil
}

func (c cluster) Watch(ctx context.Context, version string, each func(Lease, bool)) error {
	w, err := c.client.Watch(ctx, &coordination.LeaseList{}, "", c.selector, version)
	if err != nil {
		return err
	}
	defer w.Stop()
	for event := range w.ResultChan() {
		l, is := event.Object.(*coordination.Lease)
		if !is {
			return fmt.Errorf("the watch ended: %w", apierrors.FromObject(event.Object))
		}
		each(*leaseFrom(l), event.Type == watch.Deleted)
	}
	return errors.New("the watch ended")
}

// known returns what a request came to.
func known(l *coordination.Lease, err error) (*Lease, error) {
	switch {
	case apierrors.IsNotFound(err):
		return nil, errors.Join(ErrNotFound, err)
	case apierrors.IsAlreadyExists(err):
		return nil, errors.Join(ErrExists, err)
	case apierrors.IsConflict(err), apierrors.IsInvalid(err): // the latter of a patch's test
		return nil, errors.Join(ErrChanged, err)
	case err != nil || l == nil:
		return nil, err
	}
	return leaseFrom(l), nil
}

func leaseFrom(l *coordination.Lease) *Lease {
	of := &Lease{Name: l.Name, UID: string(l.UID), Version: l.ResourceVersion, Labels: l.Labels, Annotations: l.Annotations}
	if l.Spec.HolderIdentity != nil {
		of.Holder = *l.Spec.HolderIdentity
	}
	return of
}
