// The cluster's description of itself, for people and for checks.

package kubernetes

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/cluster/kube"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
)

// Info describes a cluster and the pods that this engine makes there. Unreadable fields are empty.
type Info struct {
	Source, Server, Namespace string // the configuration's source and target
	Account                   string // this program's name on the API server
	Version                   string
	ImageVolumes              bool // pods can mount an image
	RoundTrip, Ahead          time.Duration
	Missing                   []kube.Right
	PodSecurity               string // the level that the namespace enforces
	LabelsKnown               bool
	Handler                   string // of the RuntimeClass

	StorageClass, RuntimeClass, SeccompProfile string
	UserNamespaces                             bool
	Users                                      string // in words
	FewUsers                                   bool   // sessions are likely to share one
}

func inWords(u engine.Users) string {
	if u.Count == 0 {
		return "chosen by the cluster"
	}
	return fmt.Sprintf("one for each session, from %d to %d", u.First, u.First+u.Count-1)
}

// podSecurity is a namespace's label for its admission level.
const podSecurity = "pod-security.kubernetes.io/enforce"

// Info looks at the cluster, and starts no pod. If it fails, it returns the part known by then.
func (e *Engine) Info(ctx context.Context) (Info, error) {
	ctx, cancel := e.limit(ctx)
	defer cancel()
	info := Info{
		StorageClass: e.opts.StorageClass, RuntimeClass: e.opts.RuntimeClass, SeccompProfile: e.opts.SeccompProfile,
		UserNamespaces: e.opts.UserNamespaces, Users: inWords(e.users), FewUsers: fewUsers(e.users),
	}
	client, err := kube.Open(e.opts.Cluster)
	if err != nil {
		return info, configError(err)
	}
	info.Source, info.Server, info.Namespace = client.Source, client.Host, client.Namespace
	version, err := client.Version(ctx)
	if err != nil {
		return info, e.apiError(client, err)
	}
	info.Version, info.ImageVolumes = version.GitVersion, hasImageVolumes(version)
	if info.RoundTrip, info.Ahead, err = client.Clock(ctx); err != nil {
		return info, e.apiError(client, err)
	}
	info.Account, _ = client.Account(ctx) // clusters before 1.28 do not say
	if info.Missing, err = client.Missing(ctx, e.Rights()); err != nil {
		return info, e.apiError(client, err)
	}
	labels, err := client.Labels(ctx)
	if apierrors.IsNotFound(err) {
		return info, noNamespace(client.Namespace, err)
	}
	info.LabelsKnown, info.PodSecurity = err == nil, labels[podSecurity]
	if info.RuntimeClass != "" {
		info.Handler, err = client.Handler(ctx, info.RuntimeClass)
		if apierrors.IsNotFound(err) {
			return info, noClass(info.RuntimeClass)
		}
	}
	return info, nil
}

// Shown is the evidence from the started pods.
type Shown struct {
	Loopback bool // they have that alone; else, a policy keeps them from the network
	// Tried are the forbidden addresses that they tried and did not reach.
	Tried []netip.AddrPort
}

// Shown returns the evidence from the pods that this engine started; false: it started none.
func (e *Engine) Shown() (Shown, bool) {
	_ = e.network.turn.Acquire(context.Background(), 1)
	defer e.network.turn.Release(1)
	if !e.network.met {
		return Shown{}, false
	}
	shown := Shown{Loopback: e.network.only}
	for _, target := range e.network.tried {
		if at, err := netip.ParseAddrPort(target); err == nil {
			shown.Tried = append(shown.Tried, at)
		}
	}
	return shown, true
}

// IsGVisor reports whether a RuntimeClass is one of gVisor's, by its name or its handler.
func (i Info) IsGVisor() bool {
	return strings.Contains(i.RuntimeClass, "gvisor") || strings.Contains(i.Handler, "runsc") || strings.Contains(i.Handler, "gvisor")
}

// Tasks returns the process and thread limit for a session's user.
func (e *Engine) Tasks(limits engine.Limits) int64 { return tasksOf(limits, e.users) }

// OwnBytes returns the size of a container's writable places beside its volume, all of them in memory.
func OwnBytes(limits engine.Limits) int64 { return ownBytes(limits) }
