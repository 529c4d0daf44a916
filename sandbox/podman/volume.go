// Bringing files into a volume through a container that is never started.

package podman

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/containers/podman/v5/pkg/specgen"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/podman/libpod"
)

const volumeMount = "/volume"

// Containers that fill a volume share one name, so that an engine holds one of them, whichever server made it.
const (
	fillSuffix = "filling"
	fillPause  = 100 * time.Millisecond // between looks whether it is gone
	// fillTime is the age at which such a container counts as left behind by its server.
	fillTime = 20 * time.Second
	// removeTime bounds its removal after the time for the rest is up.
	removeTime = 5 * time.Second
)

// withHelper calls use with a helper of the volume, a container that is never started, with the volume mounted at volumeMount. It
// waits until no other helper bears this suffix in its name.
func (v volumeFiles) withHelper(ctx context.Context, suffix string, use func(container string) error) error {
	spec := specgen.NewSpecGenerator(v.image, false)
	spec.Name = v.volume + "-" + suffix
	spec.Labels = map[string]string{programsLabel: v.volume}
	spec.Command = []string{volumeMount}
	spec.NetNS = specgen.Namespace{NSMode: specgen.NoNetwork}
	spec.Volumes = []*specgen.NamedVolume{{Name: v.volume, Dest: volumeMount}}
	holder, since := "", time.Now()
	for {
		_, err := libpod.CreateContainer(ctx, spec)
		if err == nil {
			break
		}
		if !libpod.Says(err, "already in use", "is in use") {
			return err
		}
		if err.Error() != holder { // it names the other one
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

// makeVolume makes a named volume, or leaves an existing one unchanged. It returns the volume.
func makeVolume(ctx context.Context, options libpod.VolumeOptions) (libpod.Volume, error) {
	options.IgnoreIfExists = true
	volume, err := libpod.CreateVolume(ctx, options)
	if err != nil && libpod.Says(err, "already exists") {
		volume, err = libpod.InspectVolume(ctx, options.Name)
	}
	if err != nil {
		return volume, fmt.Errorf("make volume %s: %w", options.Name, err)
	}
	return volume, nil
}

// volumeFiles are files for a volume, and the image of the container that brings them there.
type volumeFiles struct {
	image, volume string
	files         []containers.File
}

// ensure puts the files into the volume unless they are there; missing says that they are known to be missing.
func (v volumeFiles) ensure(ctx context.Context, missing bool) (filled bool, err error) {
	isWhole := func(container string) bool {
		have, err := download(ctx, container)
		return err == nil && holds(func(path string) (containers.File, error) { return have[path], nil }, v.files)
	}
	if !missing {
		err := v.withHelper(ctx, rand.Text()[:hashLen], func(container string) error {
			missing = !isWhole(container)
			return nil
		})
		if err != nil || !missing {
			return false, err
		}
	}
	// Two servers that unpack the same files at once would disturb each other, or a container that starts with the first one's
	// files.
	err = v.withHelper(ctx, fillSuffix, func(container string) error {
		if isWhole(container) {
			return nil
		}
		filled = true
		return upload(ctx, container, v.files)
	})
	return filled, err
}

// holds reports whether find returns all files unchanged: somebody may have changed a volume, or not finished filling it.
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

// maxVolume bounds the download of a volume.
const maxVolume = 64 << 20

// download reads the content of a volume, by path.
func download(ctx context.Context, container string) (map[string]containers.File, error) {
	var buffer limitedBuffer
	if err := libpod.DownloadArchive(ctx, container, volumeMount, &buffer); err != nil {
		return nil, err
	}
	have := make(map[string]containers.File)
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
		// The folder's own name stands before the others', or does not, depending on Podman's version.
		name := strings.TrimPrefix(path.Join("/", header.Name), volumeMount)[1:]
		content, err := io.ReadAll(r)
		if err != nil {
			return nil, err
		}
		have[name] = containers.File{Path: name, Mode: header.FileInfo().Mode(), Content: content}
	}
}

// limitedBuffer hides bytes.Buffer's other methods: io.Copy would fill it by another.
type limitedBuffer struct{ have bytes.Buffer }

func (b *limitedBuffer) Write(p []byte) (int, error) {
	if b.have.Len()+len(p) > maxVolume {
		return 0, errors.New("the volume holds more than it should")
	}
	return b.have.Write(p)
}
