package podman

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
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

// isGVisor reports whether a runtime, by its name or path, is gVisor's.
func isGVisor(ociRuntime string) bool { return strings.HasPrefix(filepath.Base(ociRuntime), "runsc") }

// runtimeFlags is what podman has to tell a runtime so that it can start our containers.
func runtimeFlags(ociRuntime string) []string {
	if isGVisor(ociRuntime) {
		// gVisor has a network of its own making, which cannot be set up in a namespace that has none
		// to begin with. Without it there is loopback, as everywhere.
		return []string{"--runtime-flag", "network=none"}
	}
	return nil
}

// usableLabels leaves out what an image says that the runtime cannot do: gVisor reads a program as
// the container's user to start it, and process 1's may only be executed.
func usableLabels(labels map[string]string, ociRuntime string) map[string]string {
	if isGVisor(ociRuntime) {
		labels = maps.Clone(labels)
		delete(labels, sandbox.LabelInit)
	}
	return labels
}

// runtimeFailed reports whether the OCI runtime itself gave up, as opposed to a command
// that is not in the image.
func runtimeFailed(err error) bool {
	return says(err, "oci runtime error", "default oci runtime", "cgroups in hybrid mode")
}

// nextRuntime switches to a runtime that has not failed yet and reports whether there
// was one. It only ever changes services of our own on this machine, and never what the
// user asked for.
func (e *Engine) nextRuntime(ctx context.Context, failed *link) bool {
	if e.opts.URL != "" || e.opts.OCIRuntime != "" || runtime.GOOS != "linux" {
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

func (e *Engine) untriedRuntime(ctx context.Context, failed *link) string {
	current := failed.runtime.name
	if current == "" {
		current = defaultRuntime(failed.context(ctx))
	}
	for _, name := range ociRuntimes {
		if name != current && !slices.Contains(e.failedRuntimes, name) && lookProgram(name) != "" {
			return name
		}
	}
	return ""
}
