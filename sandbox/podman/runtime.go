// The OCI runtime: chosen, fallen back from, and what it isolates by.

package podman

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// ociRuntimes are the runtimes to fall back on, best first.
var ociRuntimes = []string{"crun", "runc"}

// runtimeChoice is what services of our own are asked for.
type runtimeChoice struct {
	name   string // empty: the service's default
	reason string // why it is not the default; for doctor
}

// chooseRuntime decides without asking Podman, whose own description of the host costs
// a quarter of a second. crun refuses a host that has cgroup version 1 beside version 2,
// and there runc works. An address of Docker's may be anything, so it is tried first.
func chooseRuntime(opts Options) runtimeChoice {
	switch {
	case opts.URL != "":
		return runtimeChoice{}
	case opts.OCIRuntime != "":
		return runtimeChoice{opts.OCIRuntime, "asked for by --oci-runtime"}
	case opts.DockerHost != "" || runtime.GOOS != "linux" || unifiedCgroups() || lookProgram("runc") == "":
		return runtimeChoice{}
	}
	return runtimeChoice{"runc", "crun does not work with this host's cgroup version 1"}
}

func unifiedCgroups() bool {
	_, err := os.Stat("/sys/fs/cgroup/cgroup.controllers")
	return err == nil
}

// Isolation is what a runtime puts between the code and the host.
type Isolation string

// The kinds of isolation. Unknown is that of a runtime whose name says nothing.
const (
	HostKernel Isolation = "the host's own kernel"
	GVisor     Isolation = "gVisor, a kernel of its own in a process of the host"
	Unknown    Isolation = "unknown"
)

// isolation goes by a runtime's name, also where it is the end of a path.
func isolation(ociRuntime string) Isolation {
	name := filepath.Base(ociRuntime)
	switch {
	case strings.HasPrefix(name, "runsc"):
		return GVisor
	case slices.Contains([]string{"crun", "runc", "youki"}, name):
		return HostKernel
	}
	return Unknown
}

func isGVisor(ociRuntime string) bool { return isolation(ociRuntime) == GVisor }

// runtimeFlags is what podman has to pass to a runtime so that it can start our containers, as an
// ordinary user or as root.
func runtimeFlags(ociRuntime string, rootless bool) []string {
	if !isGVisor(ociRuntime) {
		return nil
	}
	flags := []string{
		// gVisor has a network of its own making, which cannot be set up in a namespace that has none
		// to begin with. Without it there is loopback, as everywhere.
		"--runtime-flag", "network=none",
		// The filter of system calls, which gVisor passes over otherwise.
		"--runtime-flag", "oci-seccomp",
	}
	if rootless {
		// It asks systemd for a cgroup as root would, and is refused. Info.Enforces knows.
		flags = append(flags, "--runtime-flag", "ignore-cgroups")
	}
	return flags
}

// asksForRuntime reports whether services of our own have the runtime that the user named.
func (e *Engine) asksForRuntime() bool { return e.opts.URL == "" && e.opts.OCIRuntime != "" }

func (e *Engine) asksForGVisor() bool { return e.asksForRuntime() && isGVisor(e.opts.OCIRuntime) }

// runtimeMissing is for a service that ended because Podman does not find the runtime that the user
// has asked for; nil for any other end.
func (e *Engine) runtimeMissing(err error) error {
	if !e.asksForRuntime() || !says(err, "oci runtime") {
		return nil
	}
	return &UnavailableError{
		Reason: fmt.Sprintf("the OCI runtime %q that --oci-runtime names is not installed", filepath.Base(e.opts.OCIRuntime)),
		Fix:    runtimeFix(e.opts.OCIRuntime),
		Err:    err,
	}
}

// runtimeUnfit is for a container that the runtime which the user has asked for did not start.
func (e *Engine) runtimeUnfit(err error) error {
	return &UnavailableError{
		Reason: fmt.Sprintf("the OCI runtime %q that --oci-runtime names cannot start a container", filepath.Base(e.opts.OCIRuntime)),
		Fix:    unfitFix(e.opts.OCIRuntime) + ", or leave --oci-runtime out; code-sandbox-mcp doctor shows what it says",
		Err:    err,
	}
}

// unfitFix reports what a runtime needs that is there and does not work.
func unfitFix(ociRuntime string) string {
	switch isolation(ociRuntime) {
	case GVisor:
		return "use a newer runsc, or run this program as root"
	case HostKernel:
		return "use another OCI runtime"
	}
	return "give the name or path of an OCI runtime"
}

// runtimeFix reports how to come by a runtime and what it needs.
func runtimeFix(ociRuntime string) string {
	const without = ", or leave --oci-runtime out"
	switch name := filepath.Base(ociRuntime); {
	case strings.Contains(ociRuntime, "/"):
		return "give the path of an OCI runtime that may be executed" + without
	case isolation(name) == GVisor:
		return "sudo apt-get install -y runsc (Debian; elsewhere https://gvisor.dev/docs/user_guide/install)" + without
	case name == "crun" || name == "runc":
		return "install the package " + name + without
	}
	return "name an OCI runtime that is in PATH or in Podman's containers.conf, or give its path" + without
}

// runtimeFailed reports whether the OCI runtime itself gave up, as opposed to a command
// that is not in the image.
func runtimeFailed(err error) bool {
	return says(err, "oci runtime error", "default oci runtime", "cgroups in hybrid mode")
}

// nextRuntime switches to a runtime that has not failed yet and reports whether there
// was one. It only ever changes services of our own on this machine, and neither what the
// user asked for nor a runtime that has started a container: sessions depend on its service.
func (e *Engine) nextRuntime(ctx context.Context, failed *link) bool {
	if e.runtimeWorks.Load() || e.opts.URL != "" || e.opts.OCIRuntime != "" || runtime.GOOS != "linux" {
		return false
	}
	select {
	case e.connecting <- struct{}{}:
		defer func() { <-e.connecting }()
	case <-ctx.Done():
		return false
	}
	if e.link != failed {
		return e.link != nil && e.link.runtime.name != failed.runtime.name
	}
	e.failedRuntimes = append(e.failedRuntimes, failed.runtime.name)
	name := e.untriedRuntime(ctx, failed)
	if name == "" {
		return false
	}
	e.log.Info("the OCI runtime cannot start containers, trying another", "failed", failed.runtime.name, "next", name)
	e.runtime = runtimeChoice{name, "the default runtime could not start a container"}
	e.dropLocked(failed)
	return true
}

// untriedRuntime returns no runtime that isolates less than the one that failed.
func (e *Engine) untriedRuntime(ctx context.Context, failed *link) string {
	current := failed.runtime.name
	if current == "" {
		current = defaultRuntime(failed.context(ctx))
	}
	if isolation(current) != HostKernel {
		return ""
	}
	for _, name := range ociRuntimes {
		if name != current && !slices.Contains(e.failedRuntimes, name) && lookProgram(name) != "" {
			return name
		}
	}
	return ""
}
