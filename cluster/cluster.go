// Package cluster is the feature that runs code in a Kubernetes cluster's pods.
package cluster

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"path"
	"regexp"
	"slices"
	"strings"

	"go.podman.io/image/v5/docker/reference"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/cluster/kube"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/cluster/kubernetes"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/attacks"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/doctor"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/selftest"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/server"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/setting"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/internal/text"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/kernel"
)

// engineName is the engine's name in --engine.
const engineName = "kubernetes"

// settings describe pods and their place.
type settings struct {
	Kubeconfig, Context, Namespace string

	StorageClass, RuntimeClass string
	ProgramsImage              string
	Users                      string
	SeccompProfile             string
	UserNamespaces             bool
}

// Feature returns the feature.
func Feature() server.Feature { return new(settings).feature() }

func (k *settings) feature() server.Feature {
	return server.Feature{
		Name: engineName, Settings: k.rows, Commands: k.commands,
		Engine: &server.EngineKind{
			Name: engineName, Setup: setting.ServerProgram + " doctor --engine " + engineName,
			Open: k.open, Check: k.check, Place: k.place, Reach: reach, Host: k.host,
			Look: func(on engine.Engine) func(context.Context, doctor.Options) ([]doctor.Check, bool) {
				return look(on.(*kubernetes.Engine))
			},
		},
	}
}

func (k *settings) rows() []setting.Group {
	return []setting.Group{{Title: "Kubernetes", Settings: []setting.Setting{
		setting.Row("kubeconfig", "FILE", &k.Kubeconfig, 0, 0, "file that says how to reach the cluster (also KUBECONFIG; default: ~/.kube/config, and in a pod its own account)"),
		setting.Row("context", "NAME", &k.Context, 0, 0, "context of that file (default: its current one)"),
		setting.Row("namespace", "NAME", &k.Namespace, 0, 0, "namespace for the pods (default: that of the context, or of this program's own pod)"),
		setting.Row("storage-class", "NAME", &k.StorageClass, 0, 0, "class of the volumes of named sessions, which outlive their pods (default: none, files end with their pod)"),
		setting.Row("runtime-class", "NAME", &k.RuntimeClass, 0, 0, "RuntimeClass of the pods, such as one for gVisor (default: the cluster's)"),
		setting.Row("programs-image", "REF", &k.ProgramsImage, 0, 0, "image with this program's parts that run in pods (default: the one that was published with it)"),
		setting.Row("pod-users", "RANGE", &k.Users, 0, 0, "user numbers, FIRST-LAST, of which each session has one by its name; none: the cluster chooses, as OpenShift does (default: a range that nobody else uses)"),
		setting.Row("pod-seccomp", "PROFILE", &k.SeccompProfile, 0, 0, "seccomp profile of the pods, by its path below the kubelet's folder on the nodes (default: RuntimeDefault)"),
		setting.Row("pod-user-namespaces", "", &k.UserNamespaces, 0, 0, "give each pod a user namespace of its own"),
	}}}
}

func (k *settings) programsImage() string {
	return cmp.Or(k.ProgramsImage, containers.ProgramsRef())
}

// images returns the images that the nodes of the cluster hold, or pull.
func (k *settings) images(s *server.Program) []string {
	images := []string{k.programsImage()}
	for _, l := range kernel.Languages {
		if image, on := s.Image(l.Language); on && !slices.Contains(images, image) {
			images = append(images, image)
		}
	}
	return images
}

// The allowed names of Kubernetes' objects and namespaces.
var (
	objectName    = regexp.MustCompile(`^[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?$`)
	namespaceName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
)

// check refuses settings without effect on the named engine.
func (k *settings) check(s *setting.Settings) error {
	var found setting.Problems
	if s.EngineName != engineName {
		for _, set := range []struct{ flag, value string }{
			{"kubeconfig", k.Kubeconfig}, {"context", k.Context}, {"namespace", k.Namespace},
			{"storage-class", k.StorageClass}, {"runtime-class", k.RuntimeClass}, {"programs-image", k.ProgramsImage},
			{"pod-users", k.Users}, {"pod-seccomp", k.SeccompProfile},
		} {
			found.Wrong(set.value != "", "--%s %s has no effect without --engine %s", set.flag, set.value, engineName)
		}
		found.Wrong(k.UserNamespaces, "--pod-user-namespaces has no effect without --engine %s", engineName)
		return errors.Join(found...)
	}
	found.Wrong(s.EngineURL != "", "--engine-url %s has no effect with --engine %s, which --kubeconfig leads to; leave one of the two out", s.EngineURL, engineName)
	found.Wrong(s.OCIRuntime != "", "--oci-runtime %s has no effect with --engine %s, where --runtime-class says what pods run in; leave one of the two out", s.OCIRuntime, engineName)
	found.Wrong(k.Namespace != "" && !namespaceName.MatchString(k.Namespace), "--namespace %q is not a namespace's name: 1 to 63 of a-z, 0-9 and -, beginning and ending with a letter or digit", k.Namespace)
	for _, set := range []struct{ flag, value string }{{"storage-class", k.StorageClass}, {"runtime-class", k.RuntimeClass}} {
		found.Wrong(set.value != "" && !objectName.MatchString(set.value), "--%s %q is not the name of a class: 1 to 253 of a-z, 0-9, - and ., beginning and ending with a letter or digit", set.flag, set.value)
	}
	_, err := reference.ParseNormalizedNamed(cmp.Or(k.ProgramsImage, "any"))
	found.Wrong(err != nil, "--programs-image %q is not an image's name: %w", k.ProgramsImage, err)
	err = kubernetes.CheckUsers(k.Users)
	found.Wrong(err != nil, "--pod-users %q: %w", k.Users, err)
	p := k.SeccompProfile
	found.Wrong(p != "" && (path.IsAbs(p) || path.Clean(p) != p || strings.HasPrefix(p, "..")), "--pod-seccomp %q is not a path below the kubelet's folder of profiles, such as profiles/code-sandbox-mcp.json", p)
	several := severalImages(s)
	found.Wrong(several != "", "%s are several images, and a pod of --engine kubernetes has one container; name one image with all of these languages for each, such as the standard one, or switch languages off (--js-image off)", several)
	return errors.Join(found...)
}

// severalImages returns the languages' image settings if they differ; empty: there is one at most.
func severalImages(s *setting.Settings) string {
	var set, images []string
	for _, l := range kernel.Languages {
		if image, on := server.ImageOf(s, l.Language); on {
			set, images = append(set, "--"+l.ImageFlag()+" "+image), append(images, image)
		}
	}
	if len(slices.Compact(images)) < 2 {
		return ""
	}
	return text.Series(set, "and")
}

// open returns the engine, which connects when it is needed.
func (k *settings) open(log *slog.Logger) engine.Engine {
	return kubernetes.Open(kubernetes.Options{
		Cluster: k.cluster(), StorageClass: k.StorageClass, RuntimeClass: k.RuntimeClass,
		ProgramsImage: k.programsImage(),
		Users:         k.Users, SeccompProfile: k.SeccompProfile, UserNamespaces: k.UserNamespaces, Logger: log,
	})
}

func (k *settings) cluster() kube.Options {
	return kube.Options{Kubeconfig: k.Kubeconfig, Context: k.Context, Namespace: k.Namespace}
}

// place names the cluster and the namespace by the kubeconfig, or, if that cannot be read, by the settings.
func (k *settings) place() string {
	client, err := kube.Open(k.cluster())
	if err != nil {
		return k.Kubeconfig + " " + k.Context + " " + k.Namespace
	}
	return client.Host + " " + client.Namespace
}

// reach makes no list: the first call meets the cluster, and reports missing parts.
func reach(ctx context.Context, on engine.Engine) error {
	_, err := on.List(ctx, sandbox.LabelHost, "none")
	return err
}

// nodeFiles are the most valuable files of nodes for an attacker.
var nodeFiles = []string{
	"/var/lib/kubelet/config.yaml", "/var/lib/kubelet/pki/kubelet-client-current.pem", "/etc/kubernetes/kubelet.conf", "/etc/kubernetes/admin.conf",
	"/run/containerd/containerd.sock", "/run/crio/crio.sock", "/etc/rancher/k3s/k3s.yaml", "/run/k3s/containerd/containerd.sock",
}

// host returns a self-test's facts about pods with these settings.
func (k *settings) host(ctx context.Context, s *setting.Settings, on engine.Engine) (selftest.Host, error) {
	e := on.(*kubernetes.Engine)
	info, err := e.Info(ctx)
	if err != nil {
		return selftest.Host{}, err
	}
	limits := s.Sandbox.Limits
	host := selftest.Host{
		Rootless: info.UserNamespaces, GVisor: info.IsGVisor(), Files: nodeFiles, Fixes: make(map[string]string),
		Pod: &attacks.Pod{Seccomp: info.SeccompProfile != "", Tasks: e.Tasks(limits), OwnBytes: kubernetes.OwnBytes(limits)},
		Shown: func(pod *attacks.Pod) {
			shown, met := e.Shown()
			pod.Policy = met && !shown.Loopback
			for _, at := range shown.Tried {
				pod.Near = append(pod.Near, [2]any{at.Addr().String(), at.Port()})
			}
		},
	}
	for _, check := range podChecks(info) {
		switch check.Name {
		case "seccomp":
			host.Fixes["seccomp"], host.Fixes["sockets"], host.Fixes["process_one"] = check.Fix, check.Fix, check.Fix
		case "user namespaces", "session users":
			host.Checks = append(host.Checks, check)
		}
	}
	return host, nil
}
