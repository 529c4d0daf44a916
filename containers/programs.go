// The supervisor and the kernels, embedded: the contents of the volume, and the commands.

package containers

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"
)

// ProgramsDir is the folder of our programs in a container, on a read-only volume.
const ProgramsDir = "/opt/code-sandbox-mcp"

// The supervisor is a static program, built by `make supervisor` for each kind of processor, because `go install`
// compiles nothing for another system. A test builds both again and compares them.
//
//go:embed supervisor/build/*.zst
var supervisors embed.FS

// An interpreter runs the kernels; the patterns leave their tests (test_*.py) out.
//
//go:embed kernel/python/[a-su-z]*.py kernel/python/t[a-df-z]*.py kernel/python/kept/*.py kernel/node/main.cjs kernel/node/install.cjs kernel/node/common kernel/node/kernel kernel/node/watcher kernel/lib kernel/bin
var kernels embed.FS

// Python's kernel, compiled by `make compiled` for the Python of our images. Another one compiles it at each start, in 27 ms.
//
//go:embed kernel/python.tar.gz
var compiled []byte

// ErrArchitecture reports that there is no supervisor for a kind of processor.
var ErrArchitecture = errors.New("no supervisor for this kind of processor")

// Supervisor returns the command of process 1 for kernels of these languages. The first one's interpreter starts at once.
func Supervisor(languages ...string) []string {
	command := []string{path.Join(ProgramsDir, "supervisor")}
	for _, language := range languages {
		main := map[string]string{"python": "python/main.py", "javascript": "node/main.cjs"}[language] // the supervisor contains bash's
		command = append(command, language+"="+path.Join(ProgramsDir, main))
	}
	return command
}

// Join returns the command that joins its stdio to the socket of process 1.
func Join() []string { return []string{path.Join(ProgramsDir, "supervisor"), "join"} }

// Document returns the command that prints the text of a document, in a container with Python.
func Document() []string {
	return []string{"python3", "-I", path.Join(ProgramsDir, "python/document.py")}
}

// Picture returns the command that prints a smaller image, in a container with Python and Pillow.
func Picture() []string {
	return []string{"python3", "-I", path.Join(ProgramsDir, "python/pictures.py")}
}

// Install returns the program that installs a language's packages.
func Install(language string) string {
	return path.Join(ProgramsDir, map[string]string{"python": "python/install.py", "javascript": "node/install.cjs"}[language])
}

// File is one of the files below ProgramsDir.
type File struct {
	Path    string // relative to it
	Mode    fs.FileMode
	Content []byte
}

// Programs returns the files below ProgramsDir for a machine with an architecture in Go's words. Only root may read the supervisor, so that
// code of the session can look into no process of it.
func Programs(arch string) ([]File, error) {
	packed, err := packedSupervisor(arch)
	if err != nil {
		return nil, fmt.Errorf("%w: %s", ErrArchitecture, arch)
	}
	return slices.Concat([]File{{"supervisor", 0o711, unpack(packed)}}, kernelFiles(), compiledFiles()), nil
}

// ProgramsHash returns a hash of Programs, as they are packed: to unpack them takes 20 ms.
func ProgramsHash(arch string) (string, error) {
	hash, ok := programHashes[arch]
	if !ok {
		return "", fmt.Errorf("%w: %s", ErrArchitecture, arch)
	}
	return hash(), nil
}

// Architectures lists the kinds of processors with a supervisor.
func Architectures() []string { return slices.Sorted(maps.Keys(programHashes)) }

var programHashes = func() map[string]func() string {
	hashes := make(map[string]func() string)
	entries, err := supervisors.ReadDir("supervisor/build")
	if err != nil {
		panic(err) // it is embedded
	}
	for _, entry := range entries {
		arch := strings.TrimSuffix(strings.TrimPrefix(entry.Name(), "linux-"), ".zst")
		hashes[arch] = sync.OnceValue(func() string {
			packed, err := packedSupervisor(arch)
			if err != nil {
				panic(err)
			}
			sum := sha256.New()
			for _, f := range append(kernelFiles(), File{"supervisor", 0o711, packed}, File{"compiled", 0o644, compiled}) {
				fmt.Fprintf(sum, "%s %o %d ", f.Path, f.Mode, len(f.Content))
				sum.Write(f.Content)
			}
			return hex.EncodeToString(sum.Sum(nil))
		})
	}
	return hashes
}()

func packedSupervisor(arch string) ([]byte, error) {
	return supervisors.ReadFile("supervisor/build/linux-" + arch + ".zst")
}

func unpack(packed []byte) []byte {
	r, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	if err != nil {
		panic(err)
	}
	defer r.Close()
	content, err := r.DecodeAll(packed, nil)
	if err != nil {
		panic(err)
	}
	return content
}

func kernelFiles() (files []File) {
	err := fs.WalkDir(kernels, "kernel", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := kernels.ReadFile(name)
		f := File{strings.TrimPrefix(name, "kernel/"), 0o644, content}
		if path.Dir(f.Path) == "bin" {
			f.Mode = 0o755
		}
		files = append(files, f)
		return err
	})
	if err != nil {
		panic(err)
	}
	return files
}

// compiledFiles are for the import of Python's kernel. What is embedded has no errors.
func compiledFiles() (files []File) {
	unpacked, _ := gzip.NewReader(bytes.NewReader(compiled))
	for r := tar.NewReader(unpacked); ; {
		header, err := r.Next()
		if err != nil {
			return files
		}
		content, _ := io.ReadAll(r)
		files = append(files, File{path.Join("python", header.Name), 0o644, content})
	}
}

// Archive returns files as a tar archive, for an engine to unpack.
func Archive(files []File) (*bytes.Buffer, error) {
	var buffer bytes.Buffer
	return &buffer, writeArchive(&buffer, files, 0)
}

// writeArchive writes files as a tar archive. The group may read files that others may not, unless it is 0.
func writeArchive(to io.Writer, files []File, group int) error {
	w := tar.NewWriter(to)
	folders := map[string]bool{".": true}
	for _, f := range files {
		for _, dir := range above(f.Path) {
			if folders[dir] {
				continue
			}
			folders[dir] = true
			if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755, ModTime: time.Unix(0, 0)}); err != nil {
				return err
			}
		}
		header := &tar.Header{Name: f.Path, Mode: int64(f.Mode), Size: int64(len(f.Content)), ModTime: time.Unix(0, 0)}
		if f.Mode&0o004 == 0 && group != 0 {
			header.Gid = group
			header.Mode |= 0o040
		}
		if err := w.WriteHeader(header); err != nil {
			return err
		}
		if _, err := w.Write(f.Content); err != nil {
			return err
		}
	}
	return w.Close()
}

// above lists the folders on a path, the outermost first.
func above(name string) (folders []string) {
	for i, c := range name {
		if c == '/' {
			folders = append(folders, name[:i])
		}
	}
	return folders
}
