// The marks of our objects in a namespace, and how to find them again.

package kubernetes

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	prefix = "code-sandbox-mcp."

	managedBy = "app.kubernetes.io/managed-by"
	component = "app.kubernetes.io/component"
	us        = "code-sandbox-mcp"
	sandboxes = "sandbox" // component of the pods that code runs in

	labelVolume = prefix + "volume" // its hash, on its pods and its claim
	labelHas    = prefix + "has."   // with the hash of a container's name

	noteLabels    = prefix + "labels"    // the true ones, in JSON
	noteVolume    = prefix + "volume"    // its true name
	noteContainer = prefix + "container" // the true name of the container in a pod
	noteUsed      = prefix + "used"      // that it was started and not removed since
	noteShape     = prefix + "shape"     // of the pod's spec
	noteFrame     = prefix + "frame"     // of the part that no server's setting changes while files are in the pod
	noteLimits    = prefix + "limits"    // the limits in its shape, in JSON

	mainContainer = "main" // its name in the pod
)

var (
	labelValue = regexp.MustCompile(`^([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?$`)
	unfit      = regexp.MustCompile(`[^a-z0-9]+`)
)

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:10])
}

// valueOf returns a hash for a label's value, which may contain letters that a label cannot, and be longer.
func valueOf(value string) string {
	if labelValue.MatchString(value) {
		return value
	}
	return "h." + hash(value)
}

// objectName returns the object name for a name of any form: readable, and different for each.
func objectName(name string) string {
	readable := strings.Trim(unfit.ReplaceAllString(strings.ToLower(name), "-"), "-")
	if !strings.HasPrefix(readable, "csm-") {
		readable = "csm-" + readable
	}
	return strings.TrimRight(readable[:min(len(readable), 40)], "-") + "-" + hash(name)
}

// metadata returns an object's metadata for a volume.
func metadata(name, volume string, labels map[string]string) meta.ObjectMeta {
	m := meta.ObjectMeta{
		Name:        name,
		Labels:      map[string]string{managedBy: us, component: sandboxes, labelVolume: hash(volume)},
		Annotations: map[string]string{noteLabels: toJSON(labels), noteVolume: volume},
	}
	for key, value := range labels {
		m.Labels[key] = valueOf(value)
	}
	return m
}

func toJSON(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // an API type, or made of API types
	}
	return string(text)
}

func fromJSON(text string) map[string]string {
	values := make(map[string]string)
	_ = json.Unmarshal([]byte(text), &values) // a foreign object has none
	return values
}

// The values of noteUsed.
const (
	inUse    = "true"
	hasEnded = "ended" // its program, by itself
)

// isUsed reports whether a pod's container was started, and not removed since.
func isUsed(pod *core.Pod) bool { return pod.Annotations[noteUsed] != "" }

// hasClaim reports whether a pod keeps its files in a claim.
func hasClaim(pod *core.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v core.Volume) bool { return v.PersistentVolumeClaim != nil })
}

// isOver reports whether all containers of a pod ended for good.
func isOver(pod *core.Pod) bool {
	return pod.Status.Phase == core.PodSucceeded || pod.Status.Phase == core.PodFailed
}

// isOurs reports whether the object with the name of a volume's pod or claim is that.
func isOurs(o meta.Object, volume string) bool {
	return o.GetLabels()[managedBy] == us && o.GetAnnotations()[noteVolume] == volume
}

func isLeaving(o meta.Object) bool { return o.GetDeletionTimestamp() != nil }
