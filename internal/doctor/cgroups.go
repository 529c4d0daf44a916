// The limits that the host can hold containers to.

package doctor

import (
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/podman"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/podman/service"
)

func cgroupCheck(info podman.Info) Check {
	check := Check{Name: "cgroups", Status: OK, Found: "version 2, " + info.CgroupManager}
	if info.CgroupVersion != "v2" {
		check.Status, check.Found = Warn, "version 1, "+info.CgroupManager
		check.Why = "rootless containers cannot be limited"
		check.Fix = "boot with systemd.unified_cgroup_hierarchy=1 on the kernel's command line, or use a distribution that has version 2"
	}
	return check
}

var limitMeans = map[podman.Limit]string{
	podman.LimitMemory: "code can take all of this machine's memory",
	podman.LimitCPU:    "code can take all of this machine's processors",
	podman.LimitPIDs:   "a fork bomb is held only by the user's own limit of processes",
}

const delegateFix = `sudo mkdir -p /etc/systemd/system/user@.service.d && ` +
	`printf '[Service]\nDelegate=cpu cpuset io memory pids\n' | sudo tee /etc/systemd/system/user@.service.d/delegate.conf && ` +
	`sudo systemctl daemon-reload, then log in again`

// Limit checks whether the host can hold containers to a limit.
func Limit(info podman.Info, limit podman.Limit) Check {
	check := Check{Name: string(limit) + " limit", Status: OK, Found: "enforced"}
	if info.Enforces(limit) {
		return check
	}
	check.Status, check.Found, check.Why = Warn, "not enforced", limitMeans[limit]
	check.Fix = delegateFix
	switch {
	case info.Isolation == service.GVisor && info.Rootless:
		check.Fix = "gVisor's runsc makes no cgroups as an ordinary user: run this program as root, or leave --oci-runtime out"
	case info.CgroupVersion != "v2":
		check.Fix = "cgroup version 2, see above"
	}
	return check
}
