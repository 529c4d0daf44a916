// The marks of our objects in a namespace, and how to find them again.

package kubernetes

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
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

	noteLabels     = prefix + "labels"     // the true ones, in JSON
	noteVolume     = prefix + "volume"     // its true name
	noteContainers = prefix + "containers" // by its true name the container's name in the pod, in JSON; several in a pod of an earlier version
	noteUsed       = prefix + "used"       // that it was started and not removed since; earlier versions add a container's name in the pod
	noteShape      = prefix + "shape"      // of the pod's spec
	noteFrame      = prefix + "frame"      // of the part that no setting of a server changes while files are in the pod
	noteLimits     = prefix + "limits"     // the limits in its shape, in JSON

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

// metadata returns the metadata of an object for a volume.
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
		panic(err) // a type of the API, or made of its types
	}
	return string(text)
}

func fromJSON(text string) map[string]string {
	values := make(map[string]string)
	_ = json.Unmarshal([]byte(text), &values) // a foreign object has none
	return values
}

// containersOf maps the true names of a pod's containers to those in the pod.
func containersOf(pod *core.Pod) map[string]string { return fromJSON(pod.Annotations[noteContainers]) }

// The values of noteUsed.
const (
	inUse    = "true"
	hasEnded = "ended" // its program, by itself
)

// uses returns the keys of noteUsed in a pod; none: nobody uses it.
func uses(pod *core.Pod) []string {
	return slices.DeleteFunc(slices.Collect(maps.Keys(pod.Annotations)), func(key string) bool { return !strings.HasPrefix(key, noteUsed) })
}

// listedName returns the name by which a pod is listed. Names end in a language: of several, Python's is the last.
func listedName(pod *core.Pod) (last string) {
	for name := range containersOf(pod) {
		last = max(last, name)
	}
	return last
}

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
