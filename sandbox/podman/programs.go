package podman

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
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
// version of them: so any image will do, and a remote engine too. The seccomp profile lies there as well: the service reads
// it from its own machine, where Podman reports the volume's place.

const (
	programsVolume = "code-sandbox-mcp-programs-"
	programsLabel  = "code-sandbox-mcp.programs"
	profileName    = "seccomp.json"
	hashLen        = 12
)

// programVolumes remembers which volumes are known to be whole, by link.
type programVolumes struct {
	prefix string // of their names: programsVolume, but in tests
	mu     sync.Mutex
	at     *link
	ready  map[string]programsAt // by kind of processor
}

// programsAt is a volume and its place on the engine's machine.
type programsAt struct{ volume, place string }

// programFiles returns what belongs into the volume for a kind of processor, and what its name ends with.
func programFiles(arch string, gVisor bool) (files []containers.File, hash string, err error) {
	files, hash, err = containers.Programs(arch)
	if err != nil {
		return nil, "", err
	}
	profile := containers.File{Path: profileName, Mode: 0o644, Content: SeccompProfile()}
	if gVisor {
		profile.Content = gVisorProfile()
	}
	files = append(slices.Clone(files), profile)
	if gVisor {
		for i := range files {
			files[i].Mode |= 0o044 // it reads a program as the container's user to start it
		}
	}
	sum := sha256.Sum256(append([]byte(hash), profile.Content...))
	return files, hex.EncodeToString(sum[:])[:hashLen], nil
}

// programs makes sure that the engine has the volume for a kind of processor, and that it holds what it should. With
// again it is looked at once more. filled says that it did not.
func (e *Engine) programs(ctx context.Context, l *link, spec engine.Spec, again bool) (at programsAt, filled bool, err error) {
	arch := spec.Arch
	if arch == "" {
		arch = runtime.GOARCH
	}
	files, hash, err := programFiles(arch, e.asksForGVisor())
	if err != nil {
		return at, false, fmt.Errorf("%w: %w", engine.ErrArchitecture, err)
	}
	e.volumes.mu.Lock()
	defer e.volumes.mu.Unlock()
	if e.volumes.at != l {
		e.volumes.at, e.volumes.ready = l, make(map[string]programsAt)
	}
	if at, ready := e.volumes.ready[arch]; ready && !again {
		return at, false, nil
	}
	at.volume = e.volumes.prefix + hash
	at.place, filled, err = fill(l.context(ctx), l.onHost, spec.Image, at.volume, files)
	if err != nil {
		return at, false, fmt.Errorf("hand the supervisor to the engine: %w", err)
	}
	e.volumes.ready[arch] = at
	return at, filled, nil
}

// mend fills the volume that a container's process 1 should be on, and reports whether something was missing there:
// Podman makes a volume that was removed anew, with nothing in it.
func (e *Engine) mend(ctx context.Context, l *link, spec engine.Spec) bool {
	limited, cancel := e.limit(ctx)
	defer cancel()
	_, filled, err := e.programs(limited, l, spec, true)
	return filled && err == nil
}

// fill makes a volume where there is none, and puts the files into it unless they are there. It returns its place on the
// engine's machine.
func fill(ctx context.Context, onHost bool, image, name string, files []containers.File) (place string, filled bool, err error) {
	place, filled, err = tryFill(ctx, onHost, image, name, files)
	// A volume that is made while Podman removes it can lose its folder, and stays like that. One that anybody uses is not removed.
	if err != nil && says(err, "no such file or directory") && removeVolume(ctx, name) == nil {
		return tryFill(ctx, onHost, image, name, files)
	}
	return place, filled, err
}

func tryFill(ctx context.Context, onHost bool, image, name string, files []containers.File) (place string, filled bool, err error) {
	volume, err := makeVolume(ctx, libpod.VolumeOptions{Name: name, Labels: map[string]string{programsLabel: name}})
	if err != nil {
		return "", false, err
	}
	if onHost && holds(onDisk(volume.Mountpoint), files) {
		return volume.Mountpoint, false, nil
	}
	filled, err = volumeFiles{image, name, files}.ensure(ctx, onHost)
	return volume.Mountpoint, filled, err
}

// leftoverAge is after how long a container that only reached a volume is one that its server did not come to remove.
const leftoverAge = time.Hour

// RemoveOldVolumes removes the volumes of programs that are of other versions and that no container uses, and returns
// their names. A server of such a version that still lives makes its own again.
func (e *Engine) RemoveOldVolumes(ctx context.Context) ([]string, error) {
	var current []string
	for _, arch := range containers.Architectures() {
		for _, gVisor := range []bool{false, true} {
			_, hash, err := programFiles(arch, gVisor)
			if err != nil {
				return nil, err
			}
			current = append(current, programsVolume+hash)
		}
	}
	found, err := e.List(ctx, programsLabel, "")
	if err != nil {
		return nil, err
	}
	var removed []string
	var failed []error
	for _, c := range found.Containers {
		if strings.HasPrefix(c.Name, programsVolume) && !c.Running && time.Since(c.Created) > leftoverAge {
			failed = append(failed, e.Remove(ctx, []string{c.Name}, nil))
		}
	}
	for _, v := range found.Volumes {
		if !strings.HasPrefix(v.Name, programsVolume) || slices.Contains(current, v.Name) {
			continue
		}
		switch err := e.Remove(ctx, nil, []string{v.Name}); {
		case err == nil:
			removed = append(removed, v.Name)
		case !says(err, "being used"):
			failed = append(failed, err)
		}
	}
	return removed, errors.Join(failed...)
}
