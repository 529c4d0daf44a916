// Proof that a pod is shut off: a policy against it, and a probe from each pod.

package kubernetes

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/semaphore"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/cluster/kube"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
)

const (
	policyName       = "code-sandbox-mcp-sandboxes"
	canaryPolicyName = "code-sandbox-mcp-canary"
	canaries         = "canary" // component of the pods that those must not reach
)

// policies let no traffic into code's pods or out, and all traffic to the canaries, whatever else is denied in the
// namespace: a canary that policies shut off would prove no more.
func policies() []*networking.NetworkPolicy {
	of := func(name, of string, rules []networking.NetworkPolicyIngressRule, types ...networking.PolicyType) *networking.NetworkPolicy {
		return &networking.NetworkPolicy{
			ObjectMeta: meta.ObjectMeta{Name: name, Labels: map[string]string{managedBy: us}},
			Spec: networking.NetworkPolicySpec{
				PodSelector: meta.LabelSelector{MatchLabels: map[string]string{managedBy: us, component: of}}, PolicyTypes: types, Ingress: rules,
			},
		}
	}
	return []*networking.NetworkPolicy{
		of(policyName, sandboxes, nil, networking.PolicyTypeIngress, networking.PolicyTypeEgress),
		of(canaryPolicyName, canaries, []networking.NetworkPolicyIngressRule{{}}, networking.PolicyTypeIngress),
	}
}

// ensurePolicies makes the missing policies, and reports whether one was missing. An operator may change one: pods show its effect.
func ensurePolicies(ctx context.Context, c *kube.Client) (made bool, err error) {
	for _, policy := range policies() {
		err := c.Get(ctx, policy.Name, &networking.NetworkPolicy{})
		if apierrors.IsNotFound(err) {
			err, made = c.Create(ctx, policy), true
		}
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return made, err
		}
	}
	return made, nil
}

// mendPolicies makes the policies again that somebody removed while pods go on.
func (e *Engine) mendPolicies(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, e.opts.CallTimeout)
	defer cancel()
	c, err := e.connect(ctx)
	made := false
	if err == nil {
		made, err = ensurePolicies(ctx, c.Client)
		err = e.apiError(c.Client, err)
	}
	switch {
	case err != nil && ctx.Err() == nil:
		e.log.Warn("the network policies of pods cannot be looked at", "error", err)
	case made:
		e.log.Warn("a network policy of pods was gone, and is made again: what runs may have had a network", "namespace", c.Namespace, "within", policyLook)
	}
}

// network is the evidence on pods' reach. A policy alone is no proof, because many clusters enforce none: before anything
// starts in a pod with more than its loopback, it tries to reach known listeners, and a listening pod of ours, the canary, to
// which our policies do not apply. A pod that reaches one is refused.
type network struct {
	turn     *semaphore.Weighted // held while the following is read or changed, and the cluster is asked for it
	met      bool                // a pod was probed
	only     bool                // it had loopback alone
	tried    []string            // by the last
	api      []netip.AddrPort
	resolved time.Time
	canary   *core.Pod // this engine's own; nil: none
	looked   time.Time // when it was last found reachable
}

const (
	canaryPort = 9798
	kubelet    = "10250"
	metadataAt = "169.254.169.254:80" // where the clouds tell nodes their secrets
	canaryLook = 30 * time.Second
	canaryLife = time.Hour // if its server could not remove it

	resolveEvery = time.Minute
	resolveTime  = time.Second
	mostServers  = 4 // of the API server's addresses

	policyLook = 10 * time.Second
	// policyTime is a network plugin's time to shut a new pod, before code runs in it.
	policyTime  = 5 * time.Second
	policyPause = 250 * time.Millisecond

	dropTime = 2 * time.Second
)

// enter enters a pod. It waits for late policies.
func (e *Engine) enter(ctx context.Context, c *cluster, pod *core.Pod) (p *process, err error) {
	err = whenShut(ctx, policyTime, e.mendPolicies, func() error {
		p, err = e.tryToEnter(ctx, c, pod)
		return err
	})
	return p, err
}

// whenShut looks again for a while if a pod reaches something, after mend, or if its canary is not reachable yet.
func whenShut(ctx context.Context, most time.Duration, mend func(context.Context), look func() error) (err error) {
	_ = wait.PollUntilContextTimeout(ctx, policyPause, most, true, func(ctx context.Context) (bool, error) {
		if err = look(); errors.Is(err, ErrReaches) {
			mend(ctx)
		}
		return !errors.Is(err, ErrReaches) && !errors.Is(err, errNoCanary), nil
	})
	return err
}

// probeAgain probes a pod that another server started; its policies may have changed.
func (e *Engine) probeAgain(ctx context.Context, c *cluster, pod *core.Pod) error {
	targets, err := e.network.targets(ctx, e, c, pod)
	if err != nil {
		return err
	}
	only, reached, err := e.reach(ctx, c, pod, targets)
	if err != nil {
		return err
	}
	return e.network.judge(ctx, pod, only, reached)
}

// targets returns the addresses that a pod is to try.
func (n *network) targets(ctx context.Context, e *Engine, c *cluster, pod *core.Pod) ([]string, error) {
	if err := n.turn.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	defer n.turn.Release(1)
	targets := n.known(ctx, c, pod)
	n.tried = targets
	if !n.met {
		only, reached, err := e.reach(ctx, c, pod, targets)
		if err != nil {
			return nil, err
		}
		if len(reached) > 0 {
			return nil, notShut(reached)
		}
		n.met, n.only = true, only
	}
	if n.only {
		return targets, nil
	}
	if err := n.keepCanary(ctx, e, c, pod); err != nil {
		return nil, err
	}
	n.tried = slices.Concat(targets, canaryAt(n.canary))
	return n.tried, nil
}

// known returns the addresses of known listeners.
func (n *network) known(ctx context.Context, c *cluster, pod *core.Pod) []string {
	var targets []string
	add := func(host, port string) {
		at, err := netip.ParseAddrPort(net.JoinHostPort(host, port))
		if err == nil && !at.Addr().IsLoopback() && !at.Addr().IsUnspecified() && !slices.Contains(targets, at.String()) {
			targets = append(targets, at.String())
		}
	}
	add(pod.Status.HostIP, kubelet)
	for _, host := range pod.Status.HostIPs {
		add(host.IP, kubelet)
	}
	if time.Since(n.resolved) > resolveEvery {
		n.api, n.resolved = serversOf(ctx, c), time.Now()
	}
	for _, at := range n.api {
		add(at.Addr().String(), strconv.Itoa(int(at.Port())))
	}
	if host := os.Getenv("KUBERNETES_SERVICE_HOST"); host != "" { // this server is a pod too
		add(host, os.Getenv("KUBERNETES_SERVICE_PORT"))
		for _, server := range nameServers("/etc/resolv.conf") {
			add(server, "53")
		}
		for _, at := range targets {
			if strings.HasSuffix(at, ":53") {
				targets = append(targets, at+"/udp")
			}
		}
	}
	return append(targets, metadataAt)
}

// serversOf returns the addresses of the API server: none if only a proxy knows its name.
func serversOf(ctx context.Context, c *cluster) []netip.AddrPort {
	u, _, err := rest.DefaultServerURL(c.Host, "", schema.GroupVersion{}, true)
	if err != nil {
		return nil
	}
	port, err := strconv.ParseUint(cmp.Or(u.Port(), map[string]string{"http": "80"}[u.Scheme], "443"), 10, 16)
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, resolveTime)
	defer cancel()
	addresses, _ := net.DefaultResolver.LookupNetIP(ctx, "ip", u.Hostname())
	var servers []netip.AddrPort
	for _, a := range addresses[:min(len(addresses), mostServers)] {
		servers = append(servers, netip.AddrPortFrom(a.Unmap(), uint16(port)))
	}
	return servers
}

// nameServers returns the name servers in a resolv.conf.
func nameServers(path string) []string {
	text, _ := os.ReadFile(path)
	var servers []string
	for line := range strings.Lines(string(text)) {
		if words := strings.Fields(line); len(words) > 1 && words[0] == "nameserver" && len(servers) < 3 {
			servers = append(servers, words[1])
		}
	}
	return servers
}

// canaryAt returns a canary's addresses.
func canaryAt(canary *core.Pod) []string {
	var at []string
	for _, ip := range canary.Status.PodIPs {
		at = append(at, net.JoinHostPort(ip.IP, strconv.Itoa(canaryPort)))
	}
	return at
}

// reach makes a pod try to reach some addresses. only reports that it has loopback alone.
func (e *Engine) reach(ctx context.Context, c *cluster, pod *core.Pod, targets []string) (only bool, reached []string, err error) {
	p, err := c.exec(pod.Name, append([]string{supervisor, "reach"}, targets...))
	if err != nil {
		return false, nil, err
	}
	defer func() { _ = p.Close() }()
	return p.reached(ctx)
}

// reached reads the line in which a pod reports its interfaces and the addresses that it reached.
func (p *process) reached(ctx context.Context) (only bool, reached []string, err error) {
	line := make([]byte, 0, 64)
	for len(line) < 1024 {
		b, err := p.answer(ctx)
		if err != nil {
			return false, nil, err
		}
		if b == '\n' {
			break
		}
		line = append(line, b)
	}
	words := strings.Fields(string(line))
	if len(words) == 0 || words[0] != "lo" && words[0] != "net" {
		return false, nil, p.cluster.execError(errNoReach, p.Stderr())
	}
	return words[0] == "lo", words[1:], nil
}

// judge refuses a pod that reaches something, and a pod with more than loopback if those before it had only that: it tried no
// canary, the one target that is known to listen.
func (n *network) judge(ctx context.Context, pod *core.Pod, only bool, reached []string) error {
	if len(reached) > 0 {
		return notShut(reached)
	}
	if err := n.turn.Acquire(ctx, 1); err != nil {
		return err
	}
	defer n.turn.Release(1)
	if !only && n.only { // nodes differ: this one is tried again with a canary
		n.only = false
		return notShown(pod.Spec.NodeName)
	}
	return nil
}

// keepCanary keeps a pod listening that others must fail to reach. The caller holds the turn.
func (n *network) keepCanary(ctx context.Context, e *Engine, c *cluster, pod *core.Pod) error {
	if n.canary != nil {
		is := &core.Pod{}
		err := c.Get(ctx, n.canary.Name, is)
		if err != nil && !apierrors.IsNotFound(err) {
			return e.apiError(c.Client, err)
		}
		state, stateErr := stateOf(is)
		switch {
		case err != nil || is.UID != n.canary.UID || stateErr != nil || state != running && !n.looked.IsZero():
			_ = e.delete(ctx, c, n.canary, now) // its rest ends
			n.canary = nil
		case state == running && time.Since(n.looked) < canaryLook:
			return nil
		}
	}
	if n.canary == nil {
		if err := e.makeCanary(ctx, c, pod.Spec.Containers[0].Image); err != nil {
			return err
		}
	}
	is, err := e.await(ctx, c, n.canary, running)
	if err != nil {
		return err
	}
	n.canary = is
	// A failure to reach it only proves something if it can be reached: by itself at least.
	_, reached, err := e.reach(ctx, c, n.canary, canaryAt(n.canary))
	if err == nil && len(reached) == 0 {
		err = errNoCanary
	}
	if err != nil {
		return err
	}
	n.looked = time.Now()
	return nil
}

// makeCanary makes a canary from an image. Its name is this engine's alone, so that no other server ends it.
func (e *Engine) makeCanary(ctx context.Context, c *cluster, image string) error {
	if err := e.removeEnded(ctx, c); err != nil {
		return err
	}
	name := "csm-canary-" + strings.ToLower(rand.Text()[:12])
	canary := e.opts.podOf(engine.Spec{
		Name: name, Volume: name, Image: image, Command: []string{canaries}, Ends: canaryLife,
		Limits: engine.Limits{MemoryBytes: 64 << 20, CPUs: 0.1, PIDs: 32},
	}, e.users, c.imageVolumes)
	canary.Name, canary.Labels = name, map[string]string{managedBy: us, component: canaries}
	canary.Spec.Containers[0].Command = []string{supervisor, "listen", strconv.Itoa(canaryPort)}
	canary.Spec.RestartPolicy = core.RestartPolicyAlways
	n := &e.network
	n.canary, n.looked = canary, time.Time{} // whatever becomes of it, it is removed
	if err := c.Create(ctx, canary); err != nil {
		return e.apiError(c.Client, err)
	}
	return nil
}

// removeEnded removes the canaries of servers that could not do so themselves.
func (e *Engine) removeEnded(ctx context.Context, c *cluster) error {
	pods := &core.PodList{}
	if err := c.List(ctx, managedBy+"="+us+","+component+"="+canaries, pods); err != nil {
		return e.apiError(c.Client, err)
	}
	for i := range pods.Items {
		if pod := &pods.Items[i]; isOver(pod) && !isLeaving(pod) {
			if err := e.delete(ctx, c, pod, now); err != nil {
				return err
			}
		}
	}
	return nil
}

// dropCanary removes the canary of a closed engine, whose own calls ended by that.
func (e *Engine) dropCanary() {
	ctx, cancel := context.WithTimeout(context.Background(), dropTime)
	defer cancel()
	n := &e.network
	if n.turn.Acquire(ctx, 1) != nil {
		return
	}
	defer n.turn.Release(1)
	c := e.cluster.Load()
	if n.canary == nil || c == nil {
		return
	}
	if err := e.delete(ctx, c, n.canary, now); err != nil {
		e.log.Debug("remove the pod that others must not reach", "pod", n.canary.Name, "error", err)
	}
	n.canary = nil
}
