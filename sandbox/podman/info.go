package podman

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/podman/libpod"
)

// Info is the engine's report about itself and its machine.
type Info struct {
	Address           string // of the service, without a password
	OwnService        bool   // this process started it
	OnHost            bool   // it runs on this machine, not behind ssh or in a virtual machine
	Version           string
	OCIRuntime        string
	RuntimeVersion    string // the first line of the runtime's own version text
	Isolation         Isolation
	RuntimeReason     string // why the runtime is not the service's default; empty if it is
	Rootless          bool
	IDs               int64  // the number of users available to containers, if it is rootless
	CgroupVersion     string // "v1" or "v2"
	CgroupManager     string
	CgroupControllers []string
	StorageDriver     string
	Seccomp           bool // the kernel filters system calls
	Arch              string
	Kernel            string
}

// Limit is a resource that a cgroup controller bounds, by the controller's name.
type Limit string

// The limits of a sandbox.
const (
	LimitMemory Limit = "memory"
	LimitPIDs   Limit = "pids"
	LimitCPU    Limit = "cpu"
)

// Enforces reports whether the engine can hold containers to a limit. Rootless Podman needs cgroup version 2 with the controller
// delegated to the user; otherwise it ignores the limit with no more than a warning. gVisor's runsc makes cgroups as root alone.
func (i Info) Enforces(limit Limit) bool {
	if i.Rootless && (i.CgroupVersion != "v2" || i.Isolation == GVisor) {
		return false
	}
	return slices.Contains(i.CgroupControllers, string(limit))
}

// Info asks the engine about itself. That takes a quarter of a second, so it is for people, and not for a tool call.
func (e *Engine) Info(ctx context.Context) (Info, error) {
	var info Info
	err := e.call(ctx, func(conn context.Context) error {
		report, err := libpod.Info(conn)
		if err != nil {
			return err
		}
		if report.Host == nil || report.Store == nil {
			return errors.New("the engine's description of itself is incomplete")
		}
		info = Info{
			Version:           report.Version.Version,
			Rootless:          report.Host.Security.Rootless,
			IDs:               reportedIDs(report.Host).count,
			CgroupVersion:     report.Host.CgroupsVersion,
			CgroupManager:     report.Host.CgroupManager,
			CgroupControllers: report.Host.CgroupControllers,
			StorageDriver:     report.Store.GraphDriverName,
			Seccomp:           report.Host.Security.SECCOMPEnabled,
			Arch:              report.Host.Arch,
			Kernel:            report.Host.Kernel,
		}
		// Podman leaves it out if the runtime does not report its version.
		if oci := report.Host.OCIRuntime; oci != nil {
			info.OCIRuntime = oci.Name
			info.RuntimeVersion, _, _ = strings.Cut(oci.Version, "\n")
		}
		return nil
	})
	if err != nil {
		return Info{}, err
	}
	return info, e.addLink(ctx, &info)
}

func (e *Engine) addLink(ctx context.Context, info *Info) error {
	l, err := e.connect(ctx)
	if err != nil {
		return err
	}
	info.Address, info.OwnService, info.OnHost = l.address, l.service != nil, l.onHost
	info.OCIRuntime, info.RuntimeReason = cmp.Or(info.OCIRuntime, l.runtime.name), l.runtime.reason
	info.Isolation = isolation(info.OCIRuntime)
	return nil
}

// defaultRuntime is the name of the service's runtime; empty: it does not say.
func defaultRuntime(conn context.Context) string {
	report, err := libpod.Info(conn)
	if err != nil || report.Host == nil || report.Host.OCIRuntime == nil {
		return ""
	}
	return report.Host.OCIRuntime.Name
}
