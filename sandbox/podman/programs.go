package podman

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/podman/libpod"
)

// The supervisor and the kernels get into a container by a volume of their own, which an engine has once for each
// version of them: so any image will do, and a remote engine too.

const (
	programsVolume = "code-sandbox-mcp-programs-"
	programsLabel  = "code-sandbox-mcp.programs"
)

// programVolumes remembers which volumes are known to be whole, by link.
type programVolumes struct {
	prefix string // of their names: programsVolume, but in tests
	mu     sync.Mutex
	at     *link
	ready  map[string]string // by kind of processor
}

// programs makes sure that the engine has the volume for a kind of processor, and that it holds what it should. With
// again it is looked at once more. filled says that it did not.
func (e *Engine) programs(ctx context.Context, l *link, spec engine.Spec, again bool) (name string, filled bool, err error) {
	arch := spec.Arch
	if arch == "" {
		arch = runtime.GOARCH
	}
	files, hash, err := containers.Programs(arch)
	if err != nil {
		return "", false, fmt.Errorf("%w: %w", engine.ErrArchitecture, err)
	}
	e.volumes.mu.Lock()
	defer e.volumes.mu.Unlock()
	if e.volumes.at != l {
		e.volumes.at, e.volumes.ready = l, make(map[string]string)
	}
	if name := e.volumes.ready[arch]; name != "" && !again {
		return name, false, nil
	}
	name = e.volumes.prefix + hash[:profileHashLen]
	if e.asksForGVisor() {
		// It reads a program as the container's user to start it.
		name += readableSuffix
		files = slices.Clone(files)
		for i := range files {
			files[i].Mode |= 0o044
		}
	}
	if filled, err = fill(l.context(ctx), l.onHost, spec.Image, name, files); err != nil {
		return "", false, fmt.Errorf("hand the supervisor to the engine: %w", err)
	}
	e.volumes.ready[arch] = name
	return name, filled, nil
}

const readableSuffix = "-readable"

// mend fills the volume that a container's process 1 should be on, and reports whether something was missing there:
// Podman makes a volume that was removed anew, with nothing in it.
func (e *Engine) mend(ctx context.Context, l *link, spec engine.Spec) bool {
	limited, cancel := e.limit(ctx)
	defer cancel()
	_, filled, err := e.programs(limited, l, spec, true)
	return filled && err == nil
}

// fill makes a volume where there is none, and puts the files into it unless they are there.
func fill(ctx context.Context, onHost bool, image, name string, files []containers.File) (filled bool, err error) {
	filled, err = tryFill(ctx, onHost, image, name, files)
	// A volume that is made while Podman removes it can lose its folder, and stays like that. One that anybody uses is not removed.
	if err != nil && says(err, "no such file or directory") && removeVolume(ctx, name) == nil {
		return tryFill(ctx, onHost, image, name, files)
	}
	return filled, err
}

func tryFill(ctx context.Context, onHost bool, image, name string, files []containers.File) (filled bool, err error) {
	volume, err := makeVolume(ctx, libpod.VolumeOptions{Name: name, Labels: map[string]string{programsLabel: name}})
	if err != nil {
		return false, err
	}
	if onHost && holds(onDisk(volume.Mountpoint), files) {
		return false, nil
	}
	return cargo{image, name, programsLabel, files}.bring(ctx, onHost)
}

// leftoverAge is after how long a container that only reached a volume is one that its server did not come to remove.
const leftoverAge = time.Hour

// RemoveOldVolumes removes the volumes of programs and seccomp profiles that are of other versions and that no container
// uses, and returns their names. A server of such a version that still lives makes its own again.
func (e *Engine) RemoveOldVolumes(ctx context.Context) ([]string, error) {
	current := []string{profileVolume + profileHash(SeccompProfile()), profileVolume + profileHash(gVisorProfile())}
	for _, arch := range containers.Architectures() {
		_, hash, err := containers.Programs(arch)
		if err != nil {
			return nil, err
		}
		current = append(current, programsVolume+hash[:profileHashLen])
	}
	var removed []string
	var failed []error
	for label, prefix := range map[string]string{programsLabel: programsVolume, profileLabel: profileVolume} {
		found, err := e.List(ctx, label, "")
		if err != nil {
			return removed, err
		}
		for _, c := range found.Containers {
			if strings.HasPrefix(c.Name, prefix) && !c.Running && time.Since(c.Created) > leftoverAge {
				failed = append(failed, e.Remove(ctx, []string{c.Name}, nil))
			}
		}
		for _, v := range found.Volumes {
			if !strings.HasPrefix(v.Name, prefix) || slices.Contains(current, strings.TrimSuffix(v.Name, readableSuffix)) {
				continue
			}
			switch err := e.Remove(ctx, nil, []string{v.Name}); {
			case err == nil:
				removed = append(removed, v.Name)
			case !says(err, "being used"):
				failed = append(failed, err)
			}
		}
	}
	return removed, errors.Join(failed...)
}
