//go:build !nokubernetes

// That a pod reaches nothing: a policy that says so, and a look from each pod whether it holds.

package kubernetes

import (
	"context"
	"net"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/kube"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
)

const policyName = "code-sandbox-mcp-sandboxes"

// policy lets nothing into the pods of this program and nothing out.
func policy() *networking.NetworkPolicy {
	return &networking.NetworkPolicy{
		ObjectMeta: meta.ObjectMeta{Name: policyName, Labels: map[string]string{managedBy: us}},
		Spec: networking.NetworkPolicySpec{
			PodSelector: meta.LabelSelector{MatchLabels: map[string]string{managedBy: us, component: sandboxes}},
			PolicyTypes: []networking.PolicyType{networking.PolicyTypeIngress, networking.PolicyTypeEgress},
		},
	}
}

// ensurePolicy makes the policy where it is missing. One that says something else is somebody's who may: pods show what it does.
func ensurePolicy(ctx context.Context, c *kube.Client) error {
	err := c.Get(ctx, policyName, &networking.NetworkPolicy{})
	if !apierrors.IsNotFound(err) {
		return err
	}
	if err := c.Create(ctx, policy()); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return nil
}

// network is what is known of what pods reach. That a policy is there says nothing, because many clusters do not enforce any: before
// anything is started in a pod that has more than its loopback, it tries to reach the node's kubelet, the API server, and a pod of
// ours that listens, the canary, to which no policy of ours applies. A pod that reaches one of them is refused.
type network struct {
	mu     sync.Mutex
	met    bool      // a pod was looked at
	only   bool      // that had loopback alone
	tried  []string  // by the last
	canary *core.Pod // nil: there is none
	looked time.Time
}

const (
	canaryPort = 9798
	kubelet    = "10250"
	canaryLook = 30 * time.Second
	canaryLife = 24 * time.Hour
)

// targets returns what a pod is to try.
func (n *network) targets(ctx context.Context, e *Engine, c *cluster, pod *core.Pod, container string) ([]string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	targets := targetsOf(c, pod)
	n.tried = targets
	if !n.met {
		only, reached, err := e.reach(ctx, c, pod, container, targets)
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
	if err := n.keepCanary(ctx, e, c, pod, container); err != nil {
		return nil, err
	}
	n.tried = append(targets, net.JoinHostPort(n.canary.Status.PodIP, strconv.Itoa(canaryPort)))
	return n.tried, nil
}

// targetsOf returns what is known to listen, by its address.
func targetsOf(c *cluster, pod *core.Pod) []string {
	hosts := []string{net.JoinHostPort(pod.Status.HostIP, kubelet)}
	if u, err := url.Parse(c.Host); err == nil {
		port := u.Port()
		if port == "" {
			port = "443"
		}
		hosts = append(hosts, net.JoinHostPort(u.Hostname(), port))
	}
	if host := os.Getenv("KUBERNETES_SERVICE_HOST"); host != "" {
		hosts = append(hosts, net.JoinHostPort(host, os.Getenv("KUBERNETES_SERVICE_PORT")))
	}
	var targets []string
	for _, host := range hosts {
		if at, err := netip.ParseAddrPort(host); err == nil && !at.Addr().IsLoopback() && !at.Addr().IsUnspecified() {
			targets = append(targets, at.String())
		}
	}
	return targets
}

// reach has a pod try to reach some addresses. only reports that it has nothing but loopback.
func (e *Engine) reach(ctx context.Context, c *cluster, pod *core.Pod, container string, targets []string) (only bool, reached []string, err error) {
	p, err := e.exec(ctx, c, pod.Name, container, append([]string{supervisor, "reach"}, targets...))
	if err != nil {
		return false, nil, err
	}
	defer func() { _ = p.Close() }()
	return p.reached(ctx)
}

// reached reads the line in which a pod says what it has and reaches.
func (p *process) reached(ctx context.Context) (only bool, reached []string, err error) {
	stop := context.AfterFunc(ctx, func() { _ = p.Close() })
	defer stop()
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
		return false, nil, execError(errNoReach, p.Stderr())
	}
	return words[0] == "lo", words[1:], nil
}

// judge reads what a pod has found, and refuses one that reaches something.
func (n *network) judge(ctx context.Context, p *process, pod *core.Pod) error {
	only, reached, err := p.reached(ctx)
	switch {
	case err != nil:
		return err
	case len(reached) > 0:
		return notShut(reached)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if !only && n.only { // nodes differ: this one is tried again with a canary
		n.only = false
		return notShown(pod.Spec.NodeName)
	}
	return nil
}

// keepCanary has a pod listen that others are to fail to reach. The caller holds n.mu.
func (n *network) keepCanary(ctx context.Context, e *Engine, c *cluster, pod *core.Pod, container string) error {
	if n.canary != nil && time.Since(n.looked) < canaryLook {
		return nil
	}
	var image string
	for _, of := range pod.Spec.Containers {
		if of.Name == container {
			image = of.Image
		}
	}
	wanted := e.opts.podOf(engine.Spec{
		Name: "csm-canary", Volume: "csm-canary", Image: image, Command: []string{"canary"}, Ends: canaryLife,
		Limits: engine.Limits{MemoryBytes: 64 << 20, CPUs: 0.1, PIDs: 32},
	}, e.users, c.imageVolumes)
	wanted.Labels = map[string]string{managedBy: us, component: "canary"}
	wanted.Spec.Containers[0].Command = []string{supervisor, "listen", strconv.Itoa(canaryPort)}
	wanted.Spec.RestartPolicy = core.RestartPolicyAlways
	for {
		canary := wanted.DeepCopy()
		err := c.Create(ctx, canary)
		if apierrors.IsAlreadyExists(err) {
			err = c.Get(ctx, wanted.Name, canary)
		}
		if err != nil {
			return e.apiError(c.Client, err)
		}
		if isLeaving(canary) || isOver(canary) {
			if err := e.delete(ctx, c, canary, now); err != nil {
				return err
			}
			if err := e.awaitGone(ctx, c, canary); err != nil {
				return err
			}
			continue
		}
		if n.canary, err = e.await(ctx, c, canary, containerName(engine.Spec{}), running); err != nil {
			n.canary = nil
			return err
		}
		break
	}
	// What does not reach it only says something where it can be reached: by itself at least.
	itself := net.JoinHostPort(n.canary.Status.PodIP, strconv.Itoa(canaryPort))
	_, reached, err := e.reach(ctx, c, n.canary, containerName(engine.Spec{}), []string{itself})
	if err != nil || len(reached) == 0 {
		n.canary = nil
		if err == nil {
			err = errNoCanary
		}
		return err
	}
	n.looked = time.Now()
	return nil
}

// dropCanary has the canary removed by the engine that made one.
func (e *Engine) dropCanary() {
	e.network.mu.Lock()
	defer e.network.mu.Unlock()
	if e.network.canary == nil || e.closing.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if c, err := e.connect(ctx); err == nil {
		_ = e.delete(ctx, c, e.network.canary, now)
	}
	e.network.canary = nil
}
