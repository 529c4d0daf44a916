// Package kubernetes is the engine.Engine over Kubernetes: a pod for each session, with our container in it.
//
// Start with Open, which makes no request, and hand the Engine to a sandbox.Manager. pod.go lists a pod's permissions, one
// line a promise. The container's process 1 is the keeper of containers/supervisor, and everything reaches it by pods/exec: a pod
// has no network, no account and no own output.
package kubernetes

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.podman.io/image/v5/docker/reference"
	"golang.org/x/sync/semaphore"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/cluster/kube"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
)

// Options describes pods and their place.
type Options struct {
	Cluster kube.Options
	// StorageClass is the class of claims for lasting volumes. Empty: files are in their pod, and end with it.
	StorageClass string
	// RuntimeClass is the pods' class, such as one for gVisor or a loopback network. Empty: the cluster's default.
	RuntimeClass string
	// ProgramsImage is the image with our programs, for every processor among the nodes.
	ProgramsImage string
	// Users is a range of numbers, "FIRST-LAST". Each session uses one, by its name, as its user and group. "none": the cluster
	// chooses, as OpenShift does. Empty: a range that neither distributions nor directory services use.
	Users string
	// SeccompProfile is a profile on the nodes, by its path below the kubelet's folder. Empty: the container runtime's default.
	SeccompProfile string
	// UserNamespaces gives each pod its own user namespace.
	UserNamespaces bool
	// CallTimeout bounds a call without a deadline. Zero: 60 s.
	CallTimeout time.Duration
	// Logger receives debug messages. Nil: it is silent.
	Logger *slog.Logger
}

const defaultCallTimeout = time.Minute

// Engine is an engine.Engine. It is safe for use by several goroutines.
type Engine struct {
	opts  Options
	users engine.Users
	log   *slog.Logger

	closing  context.Context
	close    context.CancelFunc
	starting sync.RWMutex // read-locked by each Start

	meeting *semaphore.Weighted // held while the cluster is checked
	cluster atomic.Pointer[cluster]

	network network

	places sync.Map // of place, by the names of containers
}

// cluster is a client for a cluster found fit for use.
type cluster struct {
	*kube.Client
	engine       *Engine
	imageVolumes bool // a pod can mount an image

	refused atomic.Bool // the cluster refused the client's credentials: the configuration may contain new ones by now
}

// place is a container's last known place.
type place struct {
	pod, node string
	uid       types.UID // of the pod: another may bear its name since
	labels    map[string]string
	noted     time.Time
	shut      bool // the pod showed this engine that it is shut off
}

var _ engine.Engine = (*Engine)(nil)

// Open prepares an engine. It neither reads the configuration nor connects; the first call that needs the cluster does.
func Open(opts Options) *Engine {
	if opts.CallTimeout == 0 {
		opts.CallTimeout = defaultCallTimeout
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	e := &Engine{opts: opts, log: opts.Logger, meeting: semaphore.NewWeighted(1), network: network{turn: semaphore.NewWeighted(1)}}
	e.users, _ = parseUsers(opts.Users) // the opener checked that
	e.closing, e.close = context.WithCancel(context.Background())
	return e
}

// Abilities implements engine.Engine.
func (e *Engine) Abilities() engine.Abilities {
	return engine.Abilities{Name: "Kubernetes", Remote: true, OneContainer: true, Where: e.where}
}

// Shape implements engine.Engine. The cluster's version is no setting: its nodes run the same programs either way.
func (e *Engine) Shape(spec engine.Spec) string {
	spec.Volume, spec.Lasts = "", false
	return engine.Key(e.opts.StorageClass, shapeOf(e.opts.podSpec(spec, e.users, true)))
}

// Image implements engine.Engine. The nodes hold the images, so they are unknown before a pod uses them.
func (e *Engine) Image(ctx context.Context, ref string) (engine.ImageInfo, error) {
	if err := e.usable(ctx); err != nil {
		return engine.ImageInfo{}, err
	}
	if _, err := reference.ParseNormalizedNamed(ref); err != nil {
		return engine.ImageInfo{}, &Error{Reason: fmt.Sprintf("%q is not an image's name", ref), Fix: "correct the image setting, or leave it out to use the standard one", Is: engine.ErrImageMissing, Err: err}
	}
	return engine.ImageInfo{ID: ref}, nil
}

// usable reports an ended context, and a closed engine.
func (e *Engine) usable(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if e.closing.Err() != nil {
		return errClosed
	}
	return nil
}

// Close implements engine.Engine. Pods go on; removing them is Remove's. Starts on their way fail, and it waits until they have removed
// what they made. It may be called more than once.
func (e *Engine) Close() error {
	e.close()
	cleaned := make(chan struct{})
	go func() {
		e.starting.Lock()
		defer e.starting.Unlock()
		close(cleaned)
	}()
	select {
	case <-cleaned:
	case <-time.After(dropTime):
	}
	e.dropCanary()
	return nil
}

// limit adds a deadline to a call without one, and ends the call with the engine.
func (e *Engine) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(e.closing, cancel)
	if _, has := ctx.Deadline(); has {
		return ctx, func() { stop(); cancel() }
	}
	limited, cancelLimit := context.WithTimeout(ctx, e.opts.CallTimeout)
	return limited, func() { stop(); cancelLimit(); cancel() }
}

// rights are this engine's needs in its namespace.
var rights = []kube.Right{
	{Verb: "create", Resource: "pods"}, {Verb: "get", Resource: "pods"}, {Verb: "list", Resource: "pods"}, {Verb: "watch", Resource: "pods"},
	{Verb: "patch", Resource: "pods"}, {Verb: "delete", Resource: "pods"}, {Verb: "create", Resource: "pods", Subresource: "exec"},
	{Verb: "get", Resource: "pods", Subresource: "exec"}, // a WebSocket begins by a GET; without it each exec is refused once, and SPDY is used
	{Verb: "get", Group: "networking.k8s.io", Resource: "networkpolicies"}, {Verb: "create", Group: "networking.k8s.io", Resource: "networkpolicies"},
}

// claimRights are its further needs if volumes are claims.
var claimRights = []kube.Right{
	{Verb: "create", Resource: "persistentvolumeclaims"}, {Verb: "get", Resource: "persistentvolumeclaims"},
	{Verb: "list", Resource: "persistentvolumeclaims"}, {Verb: "delete", Resource: "persistentvolumeclaims"},
}

// Rights returns this engine's needs in its namespace.
func (e *Engine) Rights() []kube.Right {
	all := slices.Clone(rights)
	if e.opts.StorageClass != "" {
		all = append(all, claimRights...)
	}
	return all
}

// connect returns the cluster. It checks it once, and again after it refused this program's token: its version, this program's
// rights, and the policy that shuts pods off.
func (e *Engine) connect(ctx context.Context) (*cluster, error) {
	if err := e.usable(ctx); err != nil {
		return nil, err
	}
	if c := e.cluster.Load(); c != nil && !c.refused.Load() {
		return c, nil
	}
	if err := e.meeting.Acquire(ctx, 1); err != nil {
		return nil, e.apiError(nil, err)
	}
	defer e.meeting.Release(1)
	before := e.cluster.Load()
	if before != nil && !before.refused.Load() {
		return before, nil
	}
	client, err := kube.Open(e.opts.Cluster)
	if err != nil {
		return nil, configError(err)
	}
	if before != nil && (client.Host != before.Host || client.Namespace != before.Namespace) {
		return nil, otherCluster(client, before.Client)
	}
	version, err := client.Version(ctx)
	if err != nil {
		return nil, e.apiError(client, err)
	}
	missing, err := client.Missing(ctx, e.Rights())
	if err != nil {
		return nil, e.apiError(client, err)
	}
	if len(missing) > 0 {
		return nil, missingRights(client.Namespace, missing)
	}
	if _, err := ensurePolicies(ctx, client); err != nil {
		return nil, e.apiError(client, err)
	}
	e.cluster.Store(&cluster{Client: client, engine: e, imageVolumes: hasImageVolumes(version)})
	if before == nil {
		go wait.UntilWithContext(e.closing, e.mendPolicies, policyLook)
	}
	return e.cluster.Load(), nil
}

// where returns the place of a container that this engine knows.
func (e *Engine) where(container string) engine.Location {
	at := e.at(container)
	if at.pod == "" {
		return engine.Location{}
	}
	return engine.Location{Name: "pod " + at.pod, Node: at.node}
}

// at returns a container's place; the zero value: unknown.
func (e *Engine) at(container string) place {
	at, _ := e.places.Load(container)
	known, _ := at.(place)
	return known
}

// remember notes a pod's container.
func (e *Engine) remember(pod *core.Pod, shut bool) {
	e.places.Store(pod.Annotations[noteContainer], place{pod.Name, pod.Spec.NodeName, pod.UID, fromJSON(pod.Annotations[noteLabels]), time.Now(), shut})
}
