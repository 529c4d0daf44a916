package kubernetes

import (
	"encoding/json"
	"errors"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/version"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
)

const (
	// requestCPU and requestMemory are the scheduler's reservations for a container: most wait for their session's next call.
	requestCPU    = "10m"
	requestMemory = 48 << 20

	// taskReserve is our programs' part of a user's processes and threads.
	taskReserve = 48
	// sharedTasks is the factor on a container's limit for a user that other sessions may share.
	sharedTasks = 16

	// beyondVolume is how much more than the limit of the files a pod may write before the kubelet ends it: ours acts earlier.
	beyondVolume = 256 << 20
)

var errUsers = errors.New(`a range of users is FIRST-LAST, of numbers from 1000 to 2147483647, or "none"`)

func parseUsers(text string) (engine.Users, error) {
	switch text {
	case "":
		return engine.HostUsers, nil
	case "none":
		return engine.Users{}, nil // the cluster chooses
	}
	from, to, _ := strings.Cut(text, "-")
	first, err1 := strconv.ParseInt(from, 10, 32)
	last, err2 := strconv.ParseInt(to, 10, 32)
	if err1 != nil || err2 != nil || first < 1000 || last < first {
		return engine.Users{}, errUsers
	}
	return engine.Users{First: first, Count: last - first + 1}, nil
}

// CheckUsers reports errors in a range for Options.Users.
func CheckUsers(text string) error {
	_, err := parseUsers(text)
	return err
}

// fewUsers reports whether sessions are likely to share a user.
func fewUsers(u engine.Users) bool { return u.Count < 1<<16 }

// hasImageVolumes reports whether pods of a cluster can mount images, as they can since 1.36.
func hasImageVolumes(v *version.Info) bool {
	major, _ := strconv.Atoi(v.Major)
	minor, _ := strconv.Atoi(strings.TrimRight(v.Minor, "+"))
	return major > 1 || major == 1 && minor >= 36
}

// podOf is the whole request to the cluster. It is pure: the same input returns the same pod, and a golden file shows it.
func (o *Options) podOf(spec engine.Spec, u engine.Users, imageVolumes bool) *core.Pod {
	pod := &core.Pod{ObjectMeta: metadata(objectName(spec.Volume), spec.Volume, spec.Labels)}
	pod.Labels[labelHas+hash(spec.Name)] = ""
	pod.Annotations[noteContainer], pod.Annotations[noteUsed] = spec.Name, inUse
	pod.Annotations[noteLimits] = toJSON(limitsOf(spec))
	pod.Spec = o.podSpec(spec, u, imageVolumes)
	pod.Annotations[noteShape], pod.Annotations[noteFrame] = shapeOf(pod.Spec), shapeOf(o.podSpec(frameOf(spec), u, imageVolumes))
	if !o.isClaim(spec) { // a claim may contain code of the session, which must not run before its pod showed what it reaches
		first := &pod.Spec.Containers[0]
		first.Command = slices.Insert(first.Command, 2, "--now", engine.WorkDir)
	}
	return pod
}

func (o *Options) podSpec(spec engine.Spec, u engine.Users, imageVolumes bool) core.PodSpec {
	var user *int64
	if u.Count > 0 {
		user = new(u.Of(spec.Volume))
	}
	pod := core.PodSpec{
		// A container that was killed for its memory comes back, with the files in its pod.
		RestartPolicy: core.RestartPolicyAlways,
		// A pod knows no part of the cluster: no account, no service addresses, no name servers, no host names.
		AutomountServiceAccountToken: new(false),
		EnableServiceLinks:           new(false),
		Hostname:                     "sandbox",
		DNSPolicy:                    core.DNSNone,
		DNSConfig:                    &core.PodDNSConfig{Nameservers: []string{"127.0.0.1"}},
		// An eviction, a drain and a preemption leave kernels this long to write their snapshots.
		TerminationGracePeriodSeconds: new(max(1, int64(math.Ceil(spec.Grace.Seconds())))),
		SecurityContext: &core.PodSecurityContext{
			RunAsNonRoot: new(true), RunAsUser: user, RunAsGroup: user, FSGroup: user,
			SeccompProfile: &core.SeccompProfile{Type: core.SeccompProfileTypeRuntimeDefault},
		},
		Volumes: o.volumes(spec, imageVolumes),
	}
	if o.SeccompProfile != "" {
		pod.SecurityContext.SeccompProfile = &core.SeccompProfile{Type: core.SeccompProfileTypeLocalhost, LocalhostProfile: &o.SeccompProfile}
	}
	if o.RuntimeClass != "" {
		pod.RuntimeClassName = &o.RuntimeClass
	}
	if o.UserNamespaces {
		pod.HostUsers = new(false)
	}
	if spec.Ends > 0 && (!spec.Lasts || o.isClaim(spec)) {
		pod.ActiveDeadlineSeconds = new(int64(spec.Ends.Seconds()))
	}
	if !imageVolumes {
		pod.InitContainers = []core.Container{o.copyPrograms(user)}
	}
	pod.Containers = []core.Container{container(spec, tasksOf(spec.Limits, u), stateMounts(o.isClaim(spec)))}
	return pod
}

// shapeOf returns an equal key for pods that do the same for a session, whichever language it began with and however long it lasts.
func shapeOf(spec core.PodSpec) string {
	same := spec.DeepCopy()
	same.TerminationGracePeriodSeconds, same.ActiveDeadlineSeconds = nil, nil
	command := same.Containers[0].Command
	slices.Sort(command[slices.Index(command, "--")+1:])
	return hash(toJSON(same))
}

// frameOf returns a spec without the environment and the limits.
func frameOf(spec engine.Spec) engine.Spec {
	spec.Env, spec.Limits, spec.VolumeBytes = nil, engine.Limits{}, 0
	return spec
}

// limitsOf returns a pod's limits. Zero: no limit.
func limitsOf(spec engine.Spec) []float64 {
	l := spec.Limits
	return []float64{
		float64(spec.VolumeBytes), float64(l.MemoryBytes), l.CPUs, float64(l.PIDs), float64(l.TmpBytes), float64(l.FileBytes), float64(l.OpenFiles),
	}
}

// isWithin reports whether no limit in the first note exceeds that in the second.
func isWithin(pod, wanted string) bool {
	var has, most []float64
	if json.Unmarshal([]byte(pod), &has) != nil || json.Unmarshal([]byte(wanted), &most) != nil || len(has) != len(most) {
		return false // it is not this version's
	}
	for i, limit := range most {
		if limit > 0 && (has[i] == 0 || has[i] > limit) {
			return false
		}
	}
	return true
}

var supervisor = path.Join(containers.ProgramsDir, "supervisor")

// ownFolders are a container's own places besides the session's volume, which its keeper empties.
var ownFolders = []string{"/tmp", "/var/tmp", "/run", "/dev/shm"}

// stateMounts brings engine.StateDir. In a claim, which has it from earlier versions too, it is a folder that the session's own place
// hides.
func stateMounts(isClaim bool) []core.VolumeMount {
	if !isClaim {
		return []core.VolumeMount{{Name: "state", MountPath: engine.StateDir}}
	}
	return []core.VolumeMount{
		{Name: "data", MountPath: engine.StateDir, SubPath: sandbox.StateFolder},
		{Name: "own", MountPath: path.Join(engine.WorkDir, sandbox.StateFolder), SubPath: "hidden", ReadOnly: true},
	}
}

func container(spec engine.Spec, tasks int64, state []core.VolumeMount) core.Container {
	keeper := []string{supervisor, "pod"}
	for _, limit := range []struct {
		name  string
		value int64
	}{{"fsize", spec.Limits.FileBytes}, {"nofile", spec.Limits.OpenFiles}, {"nproc", tasks}} {
		if limit.value > 0 {
			keeper = append(keeper, "--"+limit.name, strconv.FormatInt(limit.value, 10))
		}
	}
	keeper = append(keeper, "--core", "0") // a core dump would fill the volume with a copy of the memory
	mounts := append([]core.VolumeMount{
		{Name: "data", MountPath: engine.WorkDir},
		{Name: "programs", MountPath: containers.ProgramsDir, ReadOnly: true},
	}, state...)
	for _, folder := range ownFolders {
		mounts = append(mounts, core.VolumeMount{Name: "own", MountPath: folder, SubPath: strings.ReplaceAll(folder[1:], "/", "-")})
	}
	return core.Container{
		Name: mainContainer, Image: spec.Image, ImagePullPolicy: core.PullIfNotPresent,
		Command: append(append(keeper, "--"), spec.Command...),
		// If the keeper cannot start, its output is in the pod's status; a session writes no other log.
		TerminationMessagePolicy: core.TerminationMessageFallbackToLogsOnError,
		// Everybody may write to that file on the node, so code cannot reach it.
		TerminationMessagePath: "/root/termination-log",
		WorkingDir:             "/", // code cannot write here: interpreters import from the folder that they start in
		Env:                    environment(spec.Env),
		Resources:              resources(spec),
		SecurityContext: &core.SecurityContext{
			AllowPrivilegeEscalation: new(false),
			ReadOnlyRootFilesystem:   new(true),
			Capabilities:             &core.Capabilities{Drop: []core.Capability{"ALL"}},
		},
		VolumeMounts: mounts,
	}
}

// tasksOf returns the process and thread limit for a session's user.
func tasksOf(limits engine.Limits, u engine.Users) int64 {
	if fewUsers(u) {
		return limits.PIDs * sharedTasks
	}
	return limits.PIDs + taskReserve
}

// environment contains no address of the cluster, which a pod gets even without links to services.
func environment(env map[string]string) []core.EnvVar {
	all := map[string]string{"USER": "sandbox", "LOGNAME": "sandbox"}
	for _, name := range []string{"SERVICE_HOST", "SERVICE_PORT", "SERVICE_PORT_HTTPS", "PORT", "PORT_443_TCP", "PORT_443_TCP_PROTO", "PORT_443_TCP_PORT", "PORT_443_TCP_ADDR"} {
		all["KUBERNETES_"+name] = ""
	}
	for name, value := range env {
		all[name] = strings.ReplaceAll(value, "$", "$$") // Kubernetes would expand other variables in it
	}
	list := make([]core.EnvVar, 0, len(all))
	for name, value := range all {
		list = append(list, core.EnvVar{Name: name, Value: value})
	}
	slices.SortFunc(list, func(a, b core.EnvVar) int { return strings.Compare(a.Name, b.Name) })
	return list
}

func resources(spec engine.Spec) core.ResourceRequirements {
	r := core.ResourceRequirements{
		Requests: core.ResourceList{core.ResourceCPU: resource.MustParse(requestCPU), core.ResourceMemory: bytes(requestMemory)},
		Limits:   core.ResourceList{},
	}
	if n := spec.Limits.MemoryBytes; n > 0 {
		r.Limits[core.ResourceMemory] = bytes(n)
		r.Requests[core.ResourceMemory] = bytes(min(n, requestMemory))
	}
	if cpus := spec.Limits.CPUs; cpus > 0 {
		limit := *resource.NewMilliQuantity(int64(math.Ceil(cpus*1000)), resource.DecimalSI)
		r.Limits[core.ResourceCPU] = limit
		if limit.Cmp(r.Requests[core.ResourceCPU]) < 0 {
			r.Requests[core.ResourceCPU] = limit
		}
	}
	if spec.VolumeBytes > 0 {
		r.Limits[core.ResourceEphemeralStorage] = bytes(spec.VolumeBytes + 2*beyondVolume)
		r.Requests[core.ResourceEphemeralStorage] = bytes(16 << 20)
	}
	return r
}

func bytes(n int64) resource.Quantity { return *resource.NewQuantity(n, resource.BinarySI) }

// volumes are the writable places, each with its size, and our programs, which are read-only.
func (o *Options) volumes(spec engine.Spec, imageVolumes bool) []core.Volume {
	var list []core.Volume
	if o.isClaim(spec) {
		list = append(list, core.Volume{Name: "data", VolumeSource: core.VolumeSource{
			PersistentVolumeClaim: &core.PersistentVolumeClaimVolumeSource{ClaimName: objectName(spec.Volume)},
		}})
	} else {
		for _, name := range []string{"data", "state"} {
			dir := &core.EmptyDirVolumeSource{}
			if spec.VolumeBytes > 0 {
				dir.SizeLimit = new(bytes(spec.VolumeBytes + beyondVolume))
			}
			list = append(list, core.Volume{Name: name, VolumeSource: core.VolumeSource{EmptyDir: dir}})
		}
	}
	programs := core.Volume{Name: "programs"}
	if imageVolumes {
		programs.Image = &core.ImageVolumeSource{Reference: o.ProgramsImage, PullPolicy: core.PullIfNotPresent}
	} else {
		programs.EmptyDir = &core.EmptyDirVolumeSource{SizeLimit: new(bytes(64 << 20))}
	}
	return append(list, programs, core.Volume{Name: "own", VolumeSource: core.VolumeSource{
		EmptyDir: &core.EmptyDirVolumeSource{Medium: core.StorageMediumMemory, SizeLimit: new(bytes(ownBytes(spec.Limits)))},
	}})
}

// ownBytes is the size of a container's own places in memory: all its temporary folders.
func ownBytes(limits engine.Limits) int64 {
	size := limits.TmpBytes
	if size == 0 {
		size = engine.DefaultTmpBytes
	}
	return size + engine.ShmBytes + engine.RunBytes + engine.VarTmpBytes
}

// copyPrograms is for clusters without image mounts in pods. It runs as another user than the session's code, which thus owns none
// of the copies.
func (o *Options) copyPrograms(user *int64) core.Container {
	c := core.Container{
		Name: "programs", Image: o.ProgramsImage, ImagePullPolicy: core.PullIfNotPresent,
		Command: []string{"/supervisor", "copy", "/programs"}, WorkingDir: "/",
		SecurityContext: &core.SecurityContext{
			AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
			Capabilities: &core.Capabilities{Drop: []core.Capability{"ALL"}},
			RunAsGroup:   new(int64(containers.ProgramsGroup)), // the group may read the supervisor there
		},
		Resources: core.ResourceRequirements{
			Requests: core.ResourceList{core.ResourceCPU: resource.MustParse(requestCPU), core.ResourceMemory: bytes(16 << 20)},
			Limits:   core.ResourceList{core.ResourceCPU: resource.MustParse("1"), core.ResourceMemory: bytes(128 << 20)},
		},
		VolumeMounts: []core.VolumeMount{{Name: "programs", MountPath: "/programs"}},
	}
	if user != nil {
		c.SecurityContext.RunAsUser = new(*user - 1)
	}
	return c
}

// isClaim reports whether a volume is a claim.
func (o *Options) isClaim(spec engine.Spec) bool { return o.StorageClass != "" && spec.Lasts }

// claimOf is a lasting volume's claim.
func (o *Options) claimOf(spec engine.Spec) *core.PersistentVolumeClaim {
	claim := &core.PersistentVolumeClaim{ObjectMeta: metadata(objectName(spec.Volume), spec.Volume, spec.Labels)}
	size := spec.VolumeBytes
	if size == 0 {
		size = 1 << 30
	}
	claim.Spec = core.PersistentVolumeClaimSpec{
		AccessModes:      []core.PersistentVolumeAccessMode{core.ReadWriteOnce},
		StorageClassName: &o.StorageClass,
		Resources:        core.VolumeResourceRequirements{Requests: core.ResourceList{core.ResourceStorage: bytes(size)}},
	}
	return claim
}
