// Settings of Kubernetes as the engine, and their checks.

package server

import (
	"cmp"
	"errors"
	"path"
	"regexp"
	"slices"
	"strings"

	"go.podman.io/image/v5/docker/reference"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
)

// KubernetesSettings say where pods are made, and what they are like.
type KubernetesSettings struct {
	Kubeconfig, Context, Namespace string

	StorageClass, RuntimeClass string
	WarmPool                   string
	ProgramsImage              string
	Users                      string
	SeccompProfile             string
	UserNamespaces             bool

	where string // the cluster and the namespace, by their addresses
}

func (k *KubernetesSettings) programsImage() string {
	return cmp.Or(k.ProgramsImage, containers.ProgramsRef())
}

// ClusterImages returns the images that the nodes of the cluster have to have, or to pull.
func (s *Settings) ClusterImages() []string {
	images := []string{s.Kubernetes.programsImage()}
	for _, l := range sandbox.Languages {
		if image, on := s.Image(l.Language); on && !slices.Contains(images, image) {
			images = append(images, image)
		}
	}
	return images
}

// How objects of Kubernetes may be called, and namespaces.
var (
	objectName    = regexp.MustCompile(`^[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?$`)
	namespaceName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
)

// checkEngine refuses an engine that there is not, and what has no effect on the one that is named.
func (s *Settings) checkEngine() error {
	var found problems
	k := &s.Kubernetes
	if !s.OnKubernetes() {
		found.wrong(s.EngineName != enginePodman, "--engine %q is neither %s nor %s", s.EngineName, enginePodman, engineKubernetes)
		for _, set := range []struct{ flag, value string }{
			{"kubeconfig", k.Kubeconfig}, {"context", k.Context}, {"namespace", k.Namespace},
			{"storage-class", k.StorageClass}, {"runtime-class", k.RuntimeClass}, {"programs-image", k.ProgramsImage},
			{"pod-users", k.Users}, {"pod-seccomp", k.SeccompProfile}, {"warm-pool", k.WarmPool},
		} {
			found.wrong(set.value != "", "--%s %s has no effect without --engine %s", set.flag, set.value, engineKubernetes)
		}
		found.wrong(k.UserNamespaces, "--pod-user-namespaces has no effect without --engine %s", engineKubernetes)
		return errors.Join(found...)
	}
	found.wrong(!hasKubernetes, "--engine %s: this build of the program has no Kubernetes; the archive code-sandbox-mcp-kubernetes of a release has one that has, and `go install` makes one", engineKubernetes)
	found.wrong(s.EngineURL != "", "--engine-url %s has no effect with --engine %s, which --kubeconfig leads to; leave one of the two out", s.EngineURL, engineKubernetes)
	found.wrong(s.OCIRuntime != "", "--oci-runtime %s has no effect with --engine %s, where --runtime-class says what pods run in; leave one of the two out", s.OCIRuntime, engineKubernetes)
	found.wrong(len(s.Skills) > 0, "--skills %s has no effect with --engine %s, whose nodes do not see this machine's folders; put the skills into an image, or leave one of the two out", strings.Join(s.Skills, ","), engineKubernetes)
	found.wrong(k.Namespace != "" && !namespaceName.MatchString(k.Namespace), "--namespace %q is not a namespace's name: 1 to 63 of a-z, 0-9 and -, beginning and ending with a letter or digit", k.Namespace)
	for _, set := range []struct{ flag, value string }{{"storage-class", k.StorageClass}, {"runtime-class", k.RuntimeClass}} {
		found.wrong(set.value != "" && !objectName.MatchString(set.value), "--%s %q is not the name of a class: 1 to 253 of a-z, 0-9, - and ., beginning and ending with a letter or digit", set.flag, set.value)
	}
	found.wrong(k.WarmPool != "" && !objectName.MatchString(k.WarmPool), "--warm-pool %q is not the name of a SandboxWarmPool: 1 to 253 of a-z, 0-9, - and ., beginning and ending with a letter or digit", k.WarmPool)
	_, err := reference.ParseNormalizedNamed(cmp.Or(k.ProgramsImage, "any"))
	found.wrong(err != nil, "--programs-image %q is not an image's name: %w", k.ProgramsImage, err)
	err = checkPodUsers(k.Users)
	found.wrong(err != nil, "--pod-users %q: %w", k.Users, err)
	p := k.SeccompProfile
	found.wrong(p != "" && (path.IsAbs(p) || path.Clean(p) != p || strings.HasPrefix(p, "..")), "--pod-seccomp %q is not a path below the kubelet's folder of profiles, such as profiles/code-sandbox-mcp.json", p)
	return errors.Join(found...)
}
