package podman

import (
	"cmp"
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
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/podman/service"
)

// The supervisor and the kernels reach a container by a volume of their own, which an engine keeps once for each version: so any
// image will do, and a remote engine too. The seccomp profile is in it as well: the service reads it from its own machine, where
// Podman reports the volume's place.

const (
	filledPrefix   = "code-sandbox-mcp-" // of the names of filled volumes: earlier versions filled other kinds too
	programsVolume = filledPrefix + "programs-"
	programsLabel  = "code-sandbox-mcp.programs" // on filled volumes
	profileName    = "seccomp.json"
	hashLen        = 12
)

// filledVolumes remembers volumes known to be whole, by link.
type filledVolumes struct {
	prefix string // of their names: programsVolume, but in tests
	mu     sync.Mutex
	at     *service.Link
	ready  map[string]libpod.Volume // by name
}

// programsHash is the end of the volume's name for a kind of processor.
func programsHash(arch string, gVisor, own bool) (string, error) {
	hash, err := containers.ProgramsHash(arch)
	if err != nil {
		return "", err
	}
	if own {
		hash += ownSuffix
	}
	sum := sha256.Sum256(append([]byte(hash), profileOf(gVisor)...))
	return hex.EncodeToString(sum[:])[:hashLen], nil
}

func (e *Engine) programFiles(arch string, gVisor, own bool) (files []containers.File, err error) {
	select {
	case files = <-e.unpacked:
	default:
	}
	if files == nil || arch != runtime.GOARCH {
		files, err = containers.Programs(arch)
	}
	files = append(files, containers.File{Path: profileName, Mode: 0o644, Content: profileOf(gVisor)})
	if gVisor {
		for i := range files {
			files[i].Mode |= 0o044 // it reads a program as the container's user to start it
		}
	}
	for i := range files {
		if own && files[i].Mode&0o044 == 0 { // who owns it does not read it either: that is the code's user
			files[i].Mode &^= 0o600
		}
	}
	return files, err
}

func profileOf(gVisor bool) []byte {
	if gVisor {
		return gVisorProfile()
	}
	return SeccompProfile()
}

// programs makes sure that the engine holds the whole volume for a kind of processor. With again it looks once more. filled
// reports that something was missing.
func (e *Engine) programs(ctx context.Context, l *service.Link, spec engine.Spec, own, again bool) (at libpod.Volume, filled bool, err error) {
	arch, gVisor := cmp.Or(spec.Arch, runtime.GOARCH), e.AsksForGVisor()
	hash, err := programsHash(arch, gVisor, own)
	if err != nil {
		return at, false, fmt.Errorf("%w: %w", engine.ErrArchitecture, err)
	}
	e.volumes.mu.Lock()
	defer e.volumes.mu.Unlock()
	if e.volumes.at != l {
		e.volumes.at, e.volumes.ready = l, make(map[string]libpod.Volume)
	}
	name := e.volumes.prefix + hash
	if at, ready := e.volumes.ready[name]; ready && !again {
		return at, false, nil
	}
	files, err := e.programFiles(arch, gVisor, own)
	if err == nil {
		at, filled, err = fill(l.Context(ctx), l.OnHost, spec.Image, name, files)
	}
	if err != nil {
		return at, false, fmt.Errorf("hand the supervisor to the engine: %w", err)
	}
	e.volumes.ready[name] = at
	return at, filled, nil
}

// mend fills the volume of a container's process 1, and reports whether something was missing there: Podman makes a removed volume
// anew, empty.
func (e *Engine) mend(ctx context.Context, l *service.Link, spec engine.Spec) bool {
	limited, cancel := e.limit(ctx)
	defer cancel()
	space, err := e.idSpace(limited, l)
	if err != nil {
		return false
	}
	_, filled, err := e.programs(limited, l, spec, space.rootless && writes(spec.Mounts), true)
	return filled && err == nil
}

// fill makes a missing volume, and puts the files into it unless they are there. It returns the volume.
func fill(ctx context.Context, onHost bool, image, name string, files []containers.File) (at libpod.Volume, filled bool, err error) {
	at, filled, err = tryFill(ctx, onHost, image, name, files)
	// A volume that is made while Podman removes it can lose its folder, and stays like that. A volume in use is not removed.
	// Podman's copier says why it failed, or only that it ended: whichever Podman reads first.
	if err != nil && libpod.Says(err, "no such file or directory", "copier subprocess: eof") && removeVolume(ctx, name) == nil {
		return tryFill(ctx, onHost, image, name, files)
	}
	return at, filled, err
}

func tryFill(ctx context.Context, onHost bool, image, name string, files []containers.File) (at libpod.Volume, filled bool, err error) {
	volume, err := makeVolume(ctx, libpod.VolumeOptions{Name: name, Labels: map[string]string{programsLabel: name}})
	if err != nil {
		return volume, false, err
	}
	if onHost && holds(onDisk(volume.Mountpoint), files) {
		return volume, false, nil
	}
	filled, err = volumeFiles{image, name, files}.ensure(ctx, onHost)
	return volume, filled, err
}

// leftoverAge is the age at which a container that only fills a volume counts as left behind by its server.
const leftoverAge = time.Hour

// RemoveOldVolumes removes the unused volumes that this version would not fill, and containers left behind by filling. It returns the
// volumes' names.
func (e *Engine) RemoveOldVolumes(ctx context.Context) ([]string, error) {
	var current []string
	for _, arch := range containers.Architectures() {
		for _, kind := range [][2]bool{{}, {true}, {false, true}, {true, true}} {
			hash, err := programsHash(arch, kind[0], kind[1])
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
		if strings.HasPrefix(c.Name, filledPrefix) && !c.Running && time.Since(c.Created) > leftoverAge {
			failed = append(failed, e.Remove(ctx, []string{c.Name}, nil))
		}
	}
	for _, v := range found.Volumes {
		if !strings.HasPrefix(v.Name, filledPrefix) || slices.Contains(current, v.Name) {
			continue
		}
		switch err := e.Remove(ctx, nil, []string{v.Name}); {
		case err == nil:
			removed = append(removed, v.Name)
		case !libpod.Says(err, "being used"):
			failed = append(failed, err)
		}
	}
	return removed, errors.Join(failed...)
}
