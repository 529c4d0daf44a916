// Package engine defines the container engine that a sandbox needs: it puts a container on a volume, and says by its Abilities where
// it differs from others. Package podman implements it, and package enginetest tests every implementation by the same promises.
package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"time"
)

// Limits bounds one container. Zero means that the engine sets no limit of its own, which no production path uses.
type Limits struct {
	MemoryBytes int64   // memory and swap together
	CPUs        float64 // whole or part processors, 2 or 0.5
	PIDs        int64   // processes and threads
	TmpBytes    int64   // the tmpfs on /tmp; the others get less
	FileBytes   int64   // the largest single file (RLIMIT_FSIZE)
	OpenFiles   int64   // descriptors of one process (RLIMIT_NOFILE)
}

// Sizes of a container's own places beside its volume, which end with the container.
const (
	DefaultTmpBytes = 64 << 20 // of /tmp, for a caller that sets no Limits.TmpBytes: a tmpfs without a size is unbounded
	ShmBytes        = 64 << 20 // of /dev/shm, the shared memory of multiprocessing
	RunBytes        = 1 << 20  // of /run, for a pid file; with older Podman it is root's
	VarTmpBytes     = 16 << 20 // of /var/tmp, for programs that insist on it
)

// Spec describes one container in the sandbox's own terms.
type Spec struct {
	Name    string            // unique on the engine
	Volume  string            // named volume, made if absent, mounted at WorkDir
	Labels  map[string]string // on the container and, if it is made, on the volume
	Image   string
	Arch    string   // the image's kind of processor, as Go names it; empty: this machine's
	Command []string // argv of process 1, which the engine brings along
	Env     map[string]string
	Limits  Limits
	Mounts  []Mount

	// VolumeBytes is the intended size of the volume; the engine may end containers that write much more. Zero: unbounded.
	VolumeBytes int64
	// Lasts asks for a volume that outlives the machine of its containers, if the engine supports that. It is a named session's.
	Lasts bool
	// Ends is when the engine may end the container by itself, should everybody forget it; zero: never. If the volume would end
	// with the container, a lasting one is not ended.
	Ends time.Duration
	// Grace is process 1's time to end after a SIGTERM, if something else than Remove ends the container.
	Grace time.Duration
}

// Check reports a spec that no engine can start.
func (s *Spec) Check() error {
	switch {
	case s.Name == "" || s.Volume == "" || len(s.Command) == 0:
		return errIncomplete // an engine would make up a name, or run the image's own command
	case strings.ContainsAny(s.Name+s.Volume, "/ \t\n"):
		return errBadName
	}
	return nil
}

// Alike returns a spec without the parts of a single session: names, labels and times.
func (s Spec) Alike() Spec {
	s.Name, s.Volume, s.Labels, s.Lasts, s.Ends, s.Grace = "", "", nil, false, 0, 0
	return s
}

// Key returns a hash of values, which must be encodable in JSON.
func Key(parts ...any) string {
	text, err := json.Marshal(parts)
	if err != nil {
		panic(err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// Abilities are an engine's differences from others. They never change.
type Abilities struct {
	Name string // in messages
	// Remote: connections to containers break while those go on, so it is worth connecting again for a while.
	Remote bool
	// OneContainer: a volume has one container at most, and may end with it. Start of another one fails.
	OneContainer bool
	// Where returns the place of a container without a request; the zero value: unknown. Nil: the engine is one machine.
	Where func(container string) Location
}

// Mount is a folder of this machine that a container sees as Name below MountsDir. An engine on another machine refuses to start a
// container with one, with ErrNotOnHost.
type Mount struct {
	Folder   string // absolute, with no link in its path
	Name     string
	Writable bool
	Undo     bool // the supervisor keeps versions of its files
}

// MountsDir is the place of the host's folders in a container.
const MountsDir = WorkDir + "/mounts"

// WorkDir is the place of the session's volume in every container.
const WorkDir = "/mnt/data"

// StateDir is the place of what a session keeps of its kernels and files, out of WorkDir: programs that read all files there do not
// meet it. It lasts as WorkDir does. An engine that cannot have it leaves it out, and it is in WorkDir.
const StateDir = "/mnt/.state"

// Container is List's description of a container.
type Container struct {
	Name    string
	Labels  map[string]string
	Running bool
	Created time.Time
	Place   Location
}

// Location is where a container is, on an engine of several machines; the zero value: unknown, or this machine.
type Location struct {
	Name string // by which people know it there
	Node string
}

func (p Location) String() string {
	if p.Node == "" {
		return p.Name
	}
	return p.Name + " on node " + p.Node
}

// Volume is List's description of a volume.
type Volume struct {
	Name    string
	Labels  map[string]string
	Created time.Time
}

// Inventory lists everything on an engine with a given label.
type Inventory struct {
	Containers []Container
	Volumes    []Volume
}

// Process is the stdio of a container's process 1, or of a program started in it later.
//
// Close closes the stdio and does not stop a container; Engine.Remove does that. Read ends with io.EOF when the container or the
// engine is gone. Write may be used at the same time as Read, but not by two goroutines at once.
type Process interface {
	io.ReadWriteCloser
	// Stderr is the tail of the program's stderr so far, at most 4 KiB.
	Stderr() string
}

// Started is a container that Start began, by the stdio of its process 1. Its zero value is that of a start that failed.
type Started struct {
	Process
	// NewVolume: this start is known to have made the volume, which is empty.
	NewVolume bool
	// OtherSettings: the container keeps the settings that it was made with, because the files would go with it.
	OtherSettings bool
}

// ImageInfo describes an image of an engine.
type ImageInfo struct {
	ID     string
	Arch   string // kind of processor, as Go names it
	Labels map[string]string
	Env    []string // the environment of its containers
}

// Engine owns containers. Implementations are safe for use by several goroutines; callers keep the calls of one session apart from
// each other, because engines were seen to deadlock on a volume that is used and removed at once.
//
// Every call honours its context's deadline. ErrEngineUnavailable (wrapped) says that no engine answers and that nothing was done;
// ErrImageMissing that an image is missing; ErrArchitecture that there is no process 1 for its processor; ErrPreparing, together
// with ErrEngineUnavailable, that the engine makes an image ready for its first container, which takes long, and that the same
// call made again waits for that. Process 1 itself reports that an image lacks an interpreter.
type Engine interface {
	// Image looks an image up. It never pulls.
	Image(ctx context.Context, ref string) (ImageInfo, error)
	// Start makes the volume and the container, attaches to its stdio and starts it. When it fails, the container is gone again; a
	// volume that it made may stay.
	Start(ctx context.Context, spec Spec) (Started, error)
	// Exec starts a program in a running container, with the rights of process 1 and no more, and returns its stdio; closing that
	// ends its stdin. ErrContainerGone (wrapped) says that there is no such container or that it does not run.
	Exec(ctx context.Context, container string, command []string) (Process, error)
	// Remove kills and removes containers by name, then volumes. A missing one is no error.
	Remove(ctx context.Context, containers, volumes []string) error
	// List returns containers and volumes labelled with key and this value, or any value if it is empty.
	List(ctx context.Context, key, value string) (Inventory, error)
	// Shape returns an equal key for specs of containers that this engine makes alike, for any session: of all settings of a
	// container, the engine's own too, and of nothing else. It makes no request.
	Shape(spec Spec) string
	// Abilities returns the differences of this engine. It makes no request.
	Abilities() Abilities
	// Close releases the engine, and ends a service that it started itself.
	Close() error
}

var (
	errIncomplete = errors.New("a container needs a name, a volume and a command")
	errBadName    = errors.New("a name has no slash and no space")
)

// Errors that an Engine returns, wrapped with the details for the log.
var (
	ErrEngineUnavailable = errors.New("container engine unavailable")
	ErrImageMissing      = errors.New("image not found")
	ErrPreparing         = errors.New("the image is being made ready for its first container")
	ErrContainerGone     = errors.New("container does not run")
	ErrNoInterpreter     = errors.New("image has no such interpreter")
	ErrArchitecture      = errors.New("no supervisor for this kind of processor")
	ErrNotOnHost         = errors.New("the engine does not see this machine's folders")
	ErrNoCommand         = errors.New("a program in a container needs a command")
	ErrNoPlaceForMounts  = errors.New("the volume has something else where this machine's folders belong")
)
