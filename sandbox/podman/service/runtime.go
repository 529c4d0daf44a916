// The OCI runtime: its choice and its isolation.

package service

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/podman/libpod"
)

// Runtime is the OCI runtime requested of services of our own.
type Runtime struct {
	Name   string // empty: the service's default
	Reason string // why it is not the default; for doctor
}

// chooseRuntime decides without asking Podman, which takes a quarter of a second to describe the host. crun refuses a host with
// cgroup version 1 beside version 2, and there runc works.
func chooseRuntime(opts Options) Runtime {
	switch {
	case opts.URL != "":
		return Runtime{}
	case opts.OCIRuntime != "":
		return Runtime{opts.OCIRuntime, "asked for by --oci-runtime"}
	case runtime.GOOS != "linux" || unifiedCgroups() || lookProgram("runc") == "":
		return Runtime{}
	}
	return Runtime{"runc", "crun does not work with this host's cgroup version 1"}
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

// IsolationOf judges a runtime by its name, or by the last part of its path.
func IsolationOf(ociRuntime string) Isolation {
	name := filepath.Base(ociRuntime)
	switch {
	case strings.HasPrefix(name, "runsc"):
		return GVisor
	case slices.Contains([]string{"crun", "runc", "youki"}, name):
		return HostKernel
	}
	return Unknown
}

// runtimeFlags are podman's flags for a runtime, so that it can start our containers, as an ordinary user or as root.
func runtimeFlags(ociRuntime string, rootless bool) []string {
	if IsolationOf(ociRuntime) != GVisor {
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

// AsksForRuntime reports whether services of our own run with the user's runtime.
func (s *Service) AsksForRuntime() bool { return s.opts.URL == "" && s.opts.OCIRuntime != "" }

// AsksForGVisor reports whether that runtime is gVisor's.
func (s *Service) AsksForGVisor() bool {
	return s.AsksForRuntime() && IsolationOf(s.opts.OCIRuntime) == GVisor
}

// runtimeMissing is for a service that ended because Podman does not find the user's runtime; nil for any other end.
func (s *Service) runtimeMissing(err error) error {
	if !s.AsksForRuntime() || !libpod.Says(err, "oci runtime") {
		return nil
	}
	return &UnavailableError{
		Reason: fmt.Sprintf("the OCI runtime %q that --oci-runtime names is not installed", filepath.Base(s.opts.OCIRuntime)),
		Fix:    runtimeFix(s.opts.OCIRuntime),
		Err:    err,
	}
}

// RuntimeUnfit returns the error for a container that the user's runtime did not start.
func (s *Service) RuntimeUnfit(err error) error {
	return &UnavailableError{
		Reason: fmt.Sprintf("the OCI runtime %q that --oci-runtime names cannot start a container", filepath.Base(s.opts.OCIRuntime)),
		Fix:    unfitFix(s.opts.OCIRuntime) + ", or leave --oci-runtime out; code-sandbox-mcp doctor shows what it says",
		Err:    err,
	}
}

// unfitFix tells the needs of a runtime that is installed and does not work.
func unfitFix(ociRuntime string) string {
	switch IsolationOf(ociRuntime) {
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
	case IsolationOf(name) == GVisor:
		return "sudo apt-get install -y runsc (Debian; elsewhere https://gvisor.dev/docs/user_guide/install)" + without
	case name == "crun" || name == "runc":
		return "install the package " + name + without
	}
	return "name an OCI runtime that is in PATH or in Podman's containers.conf, or give its path" + without
}
