package podman

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"sync"
	"time"

	"github.com/containers/podman/v5/pkg/specgen"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/podman/libpod"
)

// The service reads a container's seccomp profile from its own machine. Where that is
// this one, the profile is a file in the state directory. Where it is not (ssh, tcp, a
// virtual machine), it goes into a small volume, whose place there Podman reports.

// profileFile remembers the place of the profile, by link.
type profileFile struct {
	mu    sync.Mutex
	at    *link
	place string
}

const (
	profileName    = "seccomp.json"
	volumeMount    = "/volume"
	profileVolume  = "code-sandbox-mcp-seccomp-"
	profileLabel   = "code-sandbox-mcp.seccomp"
	profileHashLen = 12
)

// profilePath makes the profile readable for l's service and returns its path there.
// The image is one that the engine is known to hold. A path that was given before is
// given again, unless again is true, which a caller says when the service did not find it.
func (e *Engine) profilePath(ctx context.Context, l *link, image string, again bool) (string, error) {
	e.profile.mu.Lock()
	defer e.profile.mu.Unlock()
	if e.profile.at == l && !again {
		return e.profile.place, nil
	}
	place, err := e.placeProfile(l.context(ctx), l.onHost, image)
	if err != nil {
		return "", fmt.Errorf("hand the seccomp profile to the engine: %w", err)
	}
	e.profile.at, e.profile.place = l, place
	return place, nil
}

func (e *Engine) placeProfile(ctx context.Context, onHost bool, image string) (string, error) {
	text := SeccompProfile()
	if e.asksForGVisor() {
		text = gVisorProfile()
	}
	hash := profileHash(text)
	if onHost {
		return writeProfile(e.stateDir(), hash, text)
	}
	return uploadProfile(ctx, image, hash, text)
}

func profileHash(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])[:profileHashLen]
}

func (e *Engine) stateDir() string {
	if e.opts.StateDir != "" {
		return e.opts.StateDir
	}
	if cache, err := os.UserCacheDir(); err == nil {
		return filepath.Join(cache, "code-sandbox-mcp")
	}
	return filepath.Join(os.TempDir(), fmt.Sprintf("code-sandbox-mcp-%d", os.Getuid()))
}

// writeProfile makes sure that the file is there and holds just this text. Its name
// follows from its content, so that servers of different versions do not meet.
func writeProfile(dir, hash string, text []byte) (string, error) {
	file := filepath.Join(dir, "seccomp-"+hash+".json")
	if have, err := os.ReadFile(file); err == nil && bytes.Equal(have, text) {
		return file, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	part, err := os.CreateTemp(dir, "seccomp-*.part")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.Remove(part.Name()) }()
	_, err = part.Write(text)
	if err := errors.Join(err, part.Close()); err != nil {
		return "", err
	}
	return file, os.Rename(part.Name(), file)
}

// uploadProfile copies the profile into a volume, and returns where the volume is on the engine's machine.
func uploadProfile(ctx context.Context, image, hash string, text []byte) (string, error) {
	name := profileVolume + hash
	volume, err := makeVolume(ctx, libpod.VolumeOptions{Name: name, Labels: map[string]string{profileLabel: hash}})
	if err != nil {
		return "", err
	}
	files := []containers.File{{Path: profileName, Mode: 0o644, Content: text}}
	if _, err := (cargo{image, name, profileLabel, files}).bring(ctx, false); err != nil {
		return "", err
	}
	return path.Join(volume.Mountpoint, profileName), nil
}

// Containers that fill a volume have one name, so that an engine has one of them, whichever server made it.
const (
	fillSuffix = "filling"
	fillPause  = 100 * time.Millisecond // between looks whether it is gone
	// fillTime is how long one may be there before it is one that its server did not come to remove.
	fillTime = 20 * time.Second
	// removeTime is what its removal may take when the time for the rest is up.
	removeTime = 5 * time.Second
)

// throughContainer has use reach a volume by way of a container that is never started: it is mounted at volumeMount. It waits
// until there is no other one with this suffix of its name.
func (c cargo) throughContainer(ctx context.Context, suffix string, use func(container string) error) error {
	spec := specgen.NewSpecGenerator(c.image, false)
	spec.Name = c.volume + "-" + suffix
	spec.Labels = map[string]string{c.label: c.volume}
	spec.Command = []string{volumeMount}
	spec.NetNS = specgen.Namespace{NSMode: specgen.NoNetwork}
	spec.Volumes = []*specgen.NamedVolume{{Name: c.volume, Dest: volumeMount}}
	holder, since := "", time.Now()
	for {
		_, err := libpod.CreateContainer(ctx, spec)
		if err == nil {
			break
		}
		if !says(err, "already in use", "is in use") {
			return err
		}
		if err.Error() != holder { // which names the other one
			holder, since = err.Error(), time.Now()
		}
		if time.Since(since) > fillTime {
			if err := removeContainer(ctx, spec.Name); err != nil {
				return err
			}
		}
		select {
		case <-time.After(fillPause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	defer func() {
		removing, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTime)
		defer cancel()
		_ = removeContainer(removing, spec.Name)
	}()
	return use(spec.Name)
}

func upload(ctx context.Context, container string, files []containers.File) error {
	archive, err := containers.Archive(files)
	if err != nil {
		return err
	}
	return libpod.UploadArchive(ctx, container, volumeMount, archive)
}

// makeVolume makes a named volume, or leaves the one that is there as it is. It returns what the volume
// is then.
func makeVolume(ctx context.Context, options libpod.VolumeOptions) (libpod.Volume, error) {
	options.IgnoreIfExists = true
	volume, err := libpod.CreateVolume(ctx, options)
	if err != nil && says(err, "already exists") {
		volume, err = libpod.InspectVolume(ctx, options.Name)
	}
	if err != nil {
		return volume, fmt.Errorf("make volume %s: %w", options.Name, err)
	}
	return volume, nil
}
