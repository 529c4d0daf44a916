// The OCI runtime: its choice, its fallbacks, and its isolation.

package podman

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/podman/libpod"
)

// ociRuntimes are the fallback runtimes, best first.
var ociRuntimes = []string{"crun", "runc"}

// runtimeChoice is the runtime requested of services of our own.
type runtimeChoice struct {
	name   string // empty: the service's default
	reason string // why it is not the default; for doctor
}

// chooseRuntime decides without asking Podman, which takes a quarter of a second to describe the host. crun refuses a host with
// cgroup version 1 beside version 2, and there runc works. An address of Docker's may be anything, so it is tried first.
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

// Isolation is the barrier that a runtime puts between the code and the host.
type Isolation string

// The kinds of isolation. Unknown: the runtime's name says nothing.
const (
	HostKernel Isolation = "the host's own kernel"
	GVisor     Isolation = "gVisor, a kernel of its own in a process of the host"
	Unknown    Isolation = "unknown"
)

// isolation judges a runtime by its name, or by the last part of its path.
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

// runtimeFlags are podman's flags for a runtime, so that it can start our containers, as an ordinary user or as root.
func runtimeFlags(ociRuntime string, rootless bool) []string {
	if !isGVisor(ociRuntime) {
		return nil
	}
	flags := []string{
		// gVisor brings its own network, which it cannot set up in an empty namespace. Without it there is loopback, as everywhere.
		"--runtime-flag", "network=none",
		// The filter of system calls, which gVisor ignores otherwise.
		"--runtime-flag", "oci-seccomp",
	}
	if rootless {
		// It asks systemd for a cgroup as root would, and is refused. Info.Enforces accounts for that.
		flags = append(flags, "--runtime-flag", "ignore-cgroups")
	}
	return flags
}

// asksForRuntime reports whether services of our own run with the user's runtime.
func (e *Engine) asksForRuntime() bool { return e.opts.URL == "" && e.opts.OCIRuntime != "" }

func (e *Engine) asksForGVisor() bool { return e.asksForRuntime() && isGVisor(e.opts.OCIRuntime) }

// runtimeMissing is for a service that ended because Podman does not find the user's runtime; nil for any other end.
func (e *Engine) runtimeMissing(err error) error {
	if !e.asksForRuntime() || !libpod.Says(err, "oci runtime") {
		return nil
	}
	return &UnavailableError{
		Reason: fmt.Sprintf("the OCI runtime %q that --oci-runtime names is not installed", filepath.Base(e.opts.OCIRuntime)),
		Fix:    runtimeFix(e.opts.OCIRuntime),
		Err:    err,
	}
}

// runtimeUnfit is for a container that the user's runtime did not start.
func (e *Engine) runtimeUnfit(err error) error {
	return &UnavailableError{
		Reason: fmt.Sprintf("the OCI runtime %q that --oci-runtime names cannot start a container", filepath.Base(e.opts.OCIRuntime)),
		Fix:    unfitFix(e.opts.OCIRuntime) + ", or leave --oci-runtime out; code-sandbox-mcp doctor shows what it says",
		Err:    err,
	}
}

// unfitFix tells the needs of a runtime that is installed and does not work.
func unfitFix(ociRuntime string) string {
	switch isolation(ociRuntime) {
	case GVisor:
		return "use a newer runsc, or run this program as root"
	case HostKernel:
		return "use another OCI runtime"
	}
	return "give the name or path of an OCI runtime"
}

// runtimeFix tells how to install a runtime and what it needs.
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

// runtimeFailed reports whether the OCI runtime itself gave up, as opposed to a command that is not in the image.
func runtimeFailed(err error) bool {
	return libpod.Says(err, "oci runtime error", "default oci runtime", "cgroups in hybrid mode")
}

// nextRuntime switches to a runtime that did not fail yet and reports whether there was one. It only changes services of our own
// on this machine, and neither the user's choice nor a runtime that once started a container: sessions depend on its service.
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

// untriedRuntime returns no runtime that isolates less than the failed one.
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
