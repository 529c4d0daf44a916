//go:build !nokubernetes

// Kubernetes as the engine: how it is opened by the settings, and what is asked of it beyond engine.Engine.

package server

import (
	"context"
	"log/slog"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/attacks"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/broker/netlog"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/doctor"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/kube"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/selftest"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/kubernetes"
)

// hasKubernetes is false in a program that was built without it.
const hasKubernetes = true

func (s *Settings) openKubernetes(log *slog.Logger) engine.Engine {
	k := &s.Kubernetes
	return kubernetes.Open(kubernetes.Options{
		Cluster: k.cluster(), StorageClass: k.StorageClass, RuntimeClass: k.RuntimeClass, WarmPool: k.WarmPool,
		ProgramsImage: k.programsImage(),
		Users:         k.Users, SeccompProfile: k.SeccompProfile, UserNamespaces: k.UserNamespaces, Logger: log,
	})
}

func checkPodUsers(text string) error { return kubernetes.CheckUsers(text) }

func (k *KubernetesSettings) cluster() kube.Options {
	return kube.Options{Kubeconfig: k.Kubeconfig, Context: k.Context, Namespace: k.Namespace}
}

// place names the cluster and the namespace as the kubeconfig has them, or, where that cannot be read, as the settings do.
func (k *KubernetesSettings) place() string {
	client, err := kube.Open(k.cluster())
	if err != nil {
		return k.Kubeconfig + " " + k.Context + " " + k.Namespace
	}
	return client.Host + " " + client.Namespace
}

// reachKubernetes lists nothing in particular: the first call meets the cluster, and says what is missing.
func reachKubernetes(ctx context.Context, on engine.Engine) error {
	_, err := on.List(ctx, sandbox.LabelHost, "none")
	return err
}

func lookAtKubernetes(on engine.Engine) func(context.Context, doctor.Options) (checks []doctor.Check, answers bool) {
	return doctor.Kubernetes(on.(*kubernetes.Engine))
}

// SandboxTemplate returns the objects of agent-sandbox that keep pods warm for sessions with these settings.
func (s *Settings) SandboxTemplate(ctx context.Context, on engine.Engine, log *slog.Logger) ([]byte, error) {
	config := s.sandboxConfig(on, s.passThrough(log), log)
	way, err := s.wayOut(nil, &netlog.Log{}, nil, log)
	if err != nil {
		return nil, err
	}
	defer func() { _ = way.Close() }()
	config.WayOut = way
	spec, err := sandbox.Spec(&config)
	if err != nil {
		return nil, err
	}
	return on.(*kubernetes.Engine).Template(ctx, spec)
}

// nodeFiles are those of nodes that code would most like to have.
var nodeFiles = []string{
	"/var/lib/kubelet/config.yaml", "/var/lib/kubelet/pki/kubelet-client-current.pem", "/etc/kubernetes/kubelet.conf", "/etc/kubernetes/admin.conf",
	"/run/containerd/containerd.sock", "/run/crio/crio.sock", "/etc/rancher/k3s/k3s.yaml", "/run/k3s/containerd/containerd.sock",
}

// kubernetesHost returns what a self-test has to know of pods with these settings.
func (s *Settings) kubernetesHost(ctx context.Context, on engine.Engine, languages int) (selftest.Host, error) {
	e := on.(*kubernetes.Engine)
	info, err := e.Info(ctx)
	if err != nil {
		return selftest.Host{}, err
	}
	limits := s.Sandbox.Limits
	host := selftest.Host{
		Rootless: info.UserNamespaces, GVisor: info.IsGVisor(), Files: nodeFiles, Fixes: make(map[string]string),
		Pod: &attacks.Pod{Seccomp: info.SeccompProfile != "", Tasks: e.Tasks(limits, languages), OwnBytes: kubernetes.OwnBytes(limits)},
		Shown: func(pod *attacks.Pod) {
			shown, met := e.Shown()
			pod.Policy = met && !shown.Loopback
			for _, at := range shown.Tried {
				pod.Near = append(pod.Near, [2]any{at.Addr().String(), at.Port()})
			}
		},
	}
	for _, check := range doctor.PodChecks(info) {
		switch check.Name {
		case "seccomp":
			host.Fixes["seccomp"], host.Fixes["sockets"], host.Fixes["process_one"] = check.Fix, check.Fix, check.Fix
		case "user namespaces", "session users":
			host.Checks = append(host.Checks, check)
		}
	}
	return host, nil
}
