package podman

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
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

// cargo is files for a volume, and what a container needs that brings them there.
type cargo struct {
	image, volume, label string
	files                []containers.File
}

// bring puts the files into the volume unless they are there; missing says that it is known that they are not.
func (c cargo) bring(ctx context.Context, missing bool) (filled bool, err error) {
	isWhole := func(container string) bool {
		have, err := download(ctx, container)
		return err == nil && holds(have.find, c.files)
	}
	if !missing {
		err := c.throughContainer(ctx, rand.Text()[:profileHashLen], func(container string) error {
			missing = !isWhole(container)
			return nil
		})
		if err != nil || !missing {
			return false, err
		}
	}
	// Two servers that unpacked the same files at once would be in each other's way, or in that of a container which starts with what
	// the first has brought.
	err = c.throughContainer(ctx, fillSuffix, func(container string) error {
		if isWhole(container) {
			return nil
		}
		filled = true
		return upload(ctx, container, c.files)
	})
	return filled, err
}

// holds reports whether all files are found as they should be: a volume may have been changed, or not been filled to
// its end.
func holds(find func(path string) (containers.File, error), files []containers.File) bool {
	return !slices.ContainsFunc(files, func(f containers.File) bool {
		have, err := find(f.Path)
		return err != nil || have.Mode != f.Mode || !bytes.Equal(have.Content, f.Content)
	})
}

func onDisk(folder string) func(path string) (containers.File, error) {
	return func(path string) (containers.File, error) {
		content, err := os.ReadFile(filepath.Join(folder, path))
		if err != nil {
			return containers.File{}, err
		}
		info, err := os.Lstat(filepath.Join(folder, path))
		if err != nil {
			return containers.File{}, err
		}
		return containers.File{Path: path, Mode: info.Mode(), Content: content}, nil
	}
}

// archived is what a tar archive holds.
type archived map[string]containers.File

func (a archived) find(path string) (containers.File, error) {
	f, ok := a[path]
	if !ok {
		return f, fs.ErrNotExist
	}
	return f, nil
}

// maxPrograms bounds what is read of a volume.
const maxPrograms = 32 << 20

// download reads what is in a volume.
func download(ctx context.Context, container string) (archived, error) {
	var buffer limitedBuffer
	if err := libpod.DownloadArchive(ctx, container, volumeMount, &buffer); err != nil {
		return nil, err
	}
	have := make(archived)
	for r := tar.NewReader(&buffer.have); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return have, nil
		}
		if err != nil {
			return nil, err
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		// The folder's own name is before the others', or is not, as the version of Podman is.
		name := strings.TrimPrefix(path.Join("/", header.Name), volumeMount)[1:]
		content, err := io.ReadAll(r)
		if err != nil {
			return nil, err
		}
		have[name] = containers.File{Path: name, Mode: header.FileInfo().Mode(), Content: content}
	}
}

// limitedBuffer has no method of bytes.Buffer but this one: io.Copy would fill it by another.
type limitedBuffer struct{ have bytes.Buffer }

func (b *limitedBuffer) Write(p []byte) (int, error) {
	if b.have.Len()+len(p) > maxPrograms {
		return 0, errors.New("the volume holds more than it should")
	}
	return b.have.Write(p)
}
