package podman

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/podman/libpod"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/podman/service"
)

// Info is the engine's report about itself and its machine.
type Info struct {
	Address           string // of the service, without a password
	OwnService        bool   // this process started it
	OnHost            bool   // it runs on this machine, not behind ssh or in a virtual machine
	Version           string
	OCIRuntime        string
	RuntimeVersion    string // the first line of the runtime's own version text
	Isolation         service.Isolation
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
	if i.Rootless && (i.CgroupVersion != "v2" || i.Isolation == service.GVisor) {
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
	l, err := e.Connect(ctx)
	if err != nil {
		return info, err
	}
	info.Address, info.OwnService, info.OnHost = l.Address, l.IsOwn(), l.OnHost
	info.OCIRuntime, info.RuntimeReason = cmp.Or(info.OCIRuntime, l.Runtime.Name), l.Runtime.Reason
	info.Isolation = service.IsolationOf(info.OCIRuntime)
	return info, nil
}
