package podman

import (
	"cmp"
	"fmt"
	"math"
	"syscall"

	"github.com/containers/podman/v5/libpod/define"
	"github.com/containers/podman/v5/pkg/specgen"
	runtimespec "github.com/opencontainers/runtime-spec/specs-go"
	"go.podman.io/image/v5/manifest"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
)

const (
	// sandboxUmask keeps the files of one run readable for the session's other language.
	sandboxUmask = "0022"

	sandboxHostname = "sandbox"

	cpuPeriod = 100_000 // microseconds, the kernel's default

	// nprocPerPIDs makes the limit on the user's processes a distant second line behind the pids cgroup: the kernel counts it over
	// all containers of the same user.
	nprocPerPIDs = 16

	// gVisorTasks is the factor on the pids cgroup under gVisor: its process on the host uses up to eight threads for a process of
	// the code's. If they run out, the whole container ends.
	gVisorTasks = 4

	// stopSeconds is a container's time to end if something else than this program stops it.
	stopSeconds = 30
)

// hostFacts is the input of a spec besides the sandbox's own wishes.
type hostFacts struct {
	seccompPath string
	programs    string // the volume of the programs
	// Hard limits that the engine's service cannot raise; zero: unknown.
	maxOpenFiles uint64
	maxProcesses uint64
	gVisor       bool
	ids          idSpace
	user         int64 // the volume's user, or the one who is the engine's own
	own          bool  // the container's user is the engine's own outside
	carry        bool  // the session's volumes become this user's
}

// containerSpec is the whole request to Podman. It is pure: the same input returns the same container, and a golden file shows it.
func containerSpec(spec engine.Spec, host hostFacts) *specgen.SpecGenerator {
	return &specgen.SpecGenerator{
		ContainerBasicConfig:       basics(spec, host),
		ContainerStorageConfig:     storage(spec, host),
		ContainerSecurityConfig:    security(host),
		ContainerCgroupConfig:      specgen.ContainerCgroupConfig{CgroupNS: private()},
		ContainerNetworkConfig:     network(),
		ContainerResourceConfig:    resources(spec.Limits, host),
		ContainerHealthCheckConfig: noHealthCheck(),
	}
}

func basics(spec engine.Spec, host hostFacts) specgen.ContainerBasicConfig {
	return specgen.ContainerBasicConfig{
		Name:    spec.Name,
		Labels:  spec.Labels,
		Command: spec.Command,
		// An image's own entrypoint would stand before the command.
		Entrypoint: []string{},
		// Only the requested variables: neither the service's nor its proxies.
		Env:       spec.Env,
		EnvHost:   ptr(false),
		HTTPProxy: ptr(false),
		// Process 1 speaks over stdin and stdout, which a terminal would translate.
		Stdin:    ptr(true),
		Terminal: ptr(false),
		// Its output is the protocol, not a log, and would fill the disk.
		LogConfiguration: &specgen.LogConfig{Driver: define.NoLogging},
		// A person or the machine's end stops it so, and kernels write their snapshots then. This program kills before it removes.
		StopSignal:    ptr(syscall.SIGTERM),
		StopTimeout:   ptr(uint(stopSeconds)),
		RestartPolicy: define.RestartPolicyNo,
		Systemd:       "false",
		SdNotifyMode:  define.SdNotifyModeIgnore,
		PidNS:         private(),
		UtsNS:         private(),
		Hostname:      sandboxHostname,
		PasswdEntry:   passwdEntry(host.user),
	}
}

func storage(spec engine.Spec, host hostFacts) specgen.ContainerStorageConfig {
	var carried []string
	if host.carry {
		carried = []string{"U"}
	}
	return specgen.ContainerStorageConfig{
		Image:        spec.Image,
		RawImageName: spec.Image,
		// VOLUME lines of an image would be more storage, without bounds.
		ImageVolumeMode: "ignore",
		// The places that keep data. Packages installed in the first contain libraries and programs, so execution is allowed;
		// set-user-id files and devices mean nothing.
		Volumes: []*specgen.NamedVolume{{
			Name:    spec.Volume,
			Dest:    engine.WorkDir,
			Options: append([]string{"rw", "nosuid", "nodev"}, carried...),
		}, {
			Name:    spec.Volume + stateSuffix,
			Dest:    engine.StateDir,
			Options: append([]string{"rw", "nosuid", "nodev", "noexec"}, carried...),
		}, {
			// Process 1 and the kernels.
			Name:    host.programs,
			Dest:    containers.ProgramsDir,
			Options: []string{"ro", "nosuid", "nodev"},
		}},
		// Every other writable place, each with its size. They count against the memory limit as well.
		Mounts: append([]runtimespec.Mount{
			tmpfs("/tmp", cmp.Or(spec.Limits.TmpBytes, engine.DefaultTmpBytes), "mode=1777", "exec"),
			tmpfs("/var/tmp", engine.VarTmpBytes, "mode=1777", "noexec"),
			tmpfs("/dev/shm", engine.ShmBytes, "mode=1777", "noexec"),
			tmpfs("/run", engine.RunBytes, "mode=0755", "noexec"),
		}, hostFolders(spec.Mounts)...),
		IpcNS: private(),
		// Code cannot write here: interpreters import from the folder that they start in. Kernels go to engine.WorkDir by
		// themselves.
		WorkDir: "/",
		Init:    ptr(false),
		// Nothing in the container's own layer is kept, so it need not be synced either.
		Volatile: ptr(true),
	}
}

func security(host hostFacts) specgen.ContainerSecurityConfig {
	userNS, mappings := host.ids.userNamespace(host.own)
	return specgen.ContainerSecurityConfig{
		UserNS:     userNS,
		IDMappings: mappings,
		// Numbers, because an image knows no name for them.
		User:    fmt.Sprintf("%d:%d", host.user, host.user),
		Groups:  []string{},
		CapAdd:  []string{},
		CapDrop: []string{"all"},
		// Set-user-id programs of the image stay powerless.
		NoNewPrivileges: ptr(true),
		Privileged:      ptr(false),
		// seccomp.json lists the rest.
		SeccompProfilePath: host.seccompPath,
		ReadOnlyFilesystem: ptr(true),
		// Podman's own tmpfs mounts over a read-only root have no size; Mounts sets ours. Without them Podman 5 makes /dev read-only
		// too, where gVisor lets nobody write to /dev/null any more.
		ReadWriteTmpfs: ptr(host.gVisor),
		Umask:          sandboxUmask,
		// Beyond Podman's own list: files that name the host's hardware.
		Mask: []string{"/sys/class/dmi", "/sys/devices/virtual/dmi", "/sys/firmware", "/proc/interrupts"},
	}
}

func network() specgen.ContainerNetworkConfig {
	return specgen.ContainerNetworkConfig{
		// A namespace with nothing but loopback.
		NetNS:               specgen.Namespace{NSMode: specgen.NoNetwork},
		PublishExposedPorts: ptr(false),
		// Podman copies these files from the host, with its names and name servers.
		UseImageHosts:      ptr(true),
		UseImageHostname:   ptr(true),
		UseImageResolvConf: ptr(true),
	}
}

func resources(limits engine.Limits, host hostFacts) specgen.ContainerResourceConfig {
	return specgen.ContainerResourceConfig{
		ResourceLimits: cgroupLimits(limits, host),
		Rlimits:        rlimits(limits, host),
	}
}

func cgroupLimits(limits engine.Limits, host hostFacts) *runtimespec.LinuxResources {
	r := &runtimespec.LinuxResources{}
	if limits.MemoryBytes > 0 {
		// Swap counts memory and swap together: as much as memory alone is no swap.
		r.Memory = &runtimespec.LinuxMemory{Limit: &limits.MemoryBytes, Swap: &limits.MemoryBytes}
	}
	if limits.CPUs > 0 {
		quota := int64(math.Round(limits.CPUs * cpuPeriod))
		r.CPU = &runtimespec.LinuxCPU{Period: ptr(uint64(cpuPeriod)), Quota: &quota}
	}
	if limits.PIDs > 0 {
		r.Pids = &runtimespec.LinuxPids{Limit: limits.PIDs}
		if host.gVisor {
			r.Pids.Limit *= gVisorTasks
		}
	}
	return r
}

// rlimits use the names of Podman's API, which puts RLIMIT_ before the name. Podman 4.3 raises nproc to a default of its own, and
// fails if it may not, unless nproc is given wherever nofile is.
func rlimits(limits engine.Limits, host hostFacts) []runtimespec.POSIXRlimit {
	list := []runtimespec.POSIXRlimit{
		// A core dump would fill the volume with a copy of the memory.
		rlimit("core", 0),
	}
	if limits.FileBytes > 0 {
		list = append(list, rlimit("fsize", uint64(limits.FileBytes)))
	}
	// The engine's own defaults for these two may exceed its own limits.
	if files := atMost(uint64(limits.OpenFiles), host.maxOpenFiles); files > 0 {
		list = append(list, rlimit("nofile", files))
	}
	if processes := atMost(uint64(limits.PIDs)*nprocPerPIDs, host.maxProcesses); processes > 0 {
		list = append(list, rlimit("nproc", processes))
	}
	return list
}

func rlimit(name string, value uint64) runtimespec.POSIXRlimit {
	return runtimespec.POSIXRlimit{Type: name, Soft: value, Hard: value}
}

// atMost is value, or the ceiling if that is lower or there is no value. Zero is none.
func atMost(value, ceiling uint64) uint64 {
	if value == 0 || ceiling > 0 && value > ceiling {
		return ceiling
	}
	return value
}

// noHealthCheck keeps an image's health check, a process of its own started by a timer on the host, from running. The log settings
// are Podman's defaults; the bindings send zeros for them otherwise, which is no limit.
func noHealthCheck() specgen.ContainerHealthCheckConfig {
	return specgen.ContainerHealthCheckConfig{
		HealthConfig:         &manifest.Schema2HealthConfig{Test: []string{"NONE"}},
		HealthLogDestination: define.DefaultHealthCheckLocalDestination,
		HealthMaxLogCount:    define.DefaultHealthMaxLogCount,
		HealthMaxLogSize:     define.DefaultHealthMaxLogSize,
	}
}

func tmpfs(path string, size int64, options ...string) runtimespec.Mount {
	return runtimespec.Mount{
		Destination: path,
		Type:        define.TypeTmpfs,
		Source:      define.TypeTmpfs,
		Options:     append(options, "rw", "nosuid", "nodev", "notmpcopyup", fmt.Sprintf("size=%d", size)),
	}
}

// hostFolders mounts folders without the mounts below them: those would be neither read-only nor without devices. Later mounts on
// either side do not show on the other.
func hostFolders(mounts []engine.Mount) []runtimespec.Mount {
	var list []runtimespec.Mount
	for _, m := range mounts {
		access := "ro"
		if m.Writable {
			access = "rw"
		}
		list = append(list, runtimespec.Mount{
			Destination: engine.MountsDir + "/" + m.Name, Type: define.TypeBind, Source: m.Folder,
			Options: []string{"bind", access, "nosuid", "nodev", "noexec", "private"},
		})
	}
	return list
}

func private() specgen.Namespace {
	return specgen.Namespace{NSMode: specgen.Private}
}

func ptr[T any](value T) *T { return &value }
