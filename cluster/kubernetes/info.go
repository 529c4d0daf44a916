// What a cluster says about itself, for people and for what judges it.

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

// Info is what is known of a cluster and of the pods that this engine makes there. What could not be read is empty.
type Info struct {
	Source, Server, Namespace string // where the configuration is from, and where it leads
	Account                   string // as which the API server knows this program
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
	FewUsers                                   bool   // sessions are likely to have one together
}

func inWords(u engine.Users) string {
	if u.Count == 0 {
		return "chosen by the cluster"
	}
	return fmt.Sprintf("one for each session, from %d to %d", u.First, u.First+u.Count-1)
}

// podSecurity is the label of a namespace that says what it admits.
const podSecurity = "pod-security.kubernetes.io/enforce"

// Info looks at the cluster, and starts nothing. Where it fails, what it returns is what is known by then.
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

// Shown is what the pods that were started have shown.
type Shown struct {
	Loopback  bool   // they have nothing but that; else, a policy keeps them from the network
	Transport string // what programs in them are reached by
	// Tried is what they must not reach, and have not.
	Tried []netip.AddrPort
}

// Shown returns what the pods that this engine has started have shown; false: it has started none.
func (e *Engine) Shown() (Shown, bool) {
	c := e.cluster.Load()
	_ = e.network.turn.Acquire(context.Background(), 1)
	defer e.network.turn.Release(1)
	if c == nil || !e.network.met {
		return Shown{}, false
	}
	shown := Shown{Loopback: e.network.only, Transport: c.Transport()}
	for _, target := range e.network.tried {
		if at, err := netip.ParseAddrPort(target); err == nil {
			shown.Tried = append(shown.Tried, at)
		}
	}
	return shown, true
}

// IsGVisor reports whether a RuntimeClass is one of gVisor's, as far as its name or its handler tell.
func (i Info) IsGVisor() bool {
	return strings.Contains(i.RuntimeClass, "gvisor") || strings.Contains(i.Handler, "runsc") || strings.Contains(i.Handler, "gvisor")
}

// Tasks returns how many processes and threads the user of a session's containers may have, where so many languages are on.
func (e *Engine) Tasks(limits engine.Limits, languages int) int64 {
	return tasksOf(limits, languages, e.users)
}

// OwnBytes returns how much a container may write besides its volume, all of it in memory.
func OwnBytes(limits engine.Limits) int64 { return ownBytes(limits) }
