// Package engine is what a sandbox needs of a container engine, and nothing else: package podman has the one
// that is in use, and package enginetest holds every one to the same promises.
package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers"
)

// Limits bounds one container. Zero means that the engine sets no limit of its own,
// which no production path uses.
type Limits struct {
	MemoryBytes int64   // memory and swap together
	CPUs        float64 // whole or part processors, 2 or 0.5
	PIDs        int64   // processes and threads
	TmpBytes    int64   // the tmpfs on /tmp; the others get less
	FileBytes   int64   // the largest single file (RLIMIT_FSIZE)
	OpenFiles   int64   // descriptors of one process (RLIMIT_NOFILE)
}

// Sizes of a container's own places beside its volume, which it loses with itself.
const (
	DefaultTmpBytes = 64 << 20 // of /tmp, for a caller that sets no Limits.TmpBytes: a tmpfs without a size has no end
	ShmBytes        = 64 << 20 // of /dev/shm, what multiprocessing shares memory through
	RunBytes        = 1 << 20  // of /run, for a pid file; with older Podman it is root's
	VarTmpBytes     = 16 << 20 // of /var/tmp, for programs that insist on it
)

// Spec describes one kernel's container in the sandbox's own terms.
type Spec struct {
	Name    string            // unique on the engine
	Volume  string            // named volume, made when it is absent, mounted at WorkDir
	Labels  map[string]string // on the container and, when it is made, on the volume
	Image   string
	Arch    string   // the image's kind of processor, as Go names it; empty: this machine's
	Command []string // argv of process 1, which the engine brings along
	Env     map[string]string
	Limits  Limits
	Mounts  []Mount
	Skills  *Files // at SkillsDir; nil: there are none

	// VolumeBytes is what the volume is to hold; the engine may end containers that write much more. Zero: there is no limit.
	VolumeBytes int64
	// Lasts: the volume is to outlive the machine that its containers are on, where the engine can have that. It is a session's with a name.
	Lasts bool
	// Ends is when the engine may end the container by itself, should everybody have forgotten it; zero: never. Where the volume
	// would end with it, one that is to last is not ended.
	Ends time.Duration
	// Grace is how long process 1 may take to end after a SIGTERM, where something else than Remove ends the container.
	Grace time.Duration
	// Beside are the containers that may come to be started on the same volume, for an engine that makes them together.
	Beside []Spec
}

// Check reports what no engine can start.
func (s *Spec) Check() error {
	switch {
	case s.Name == "" || s.Volume == "" || len(s.Command) == 0:
		return errIncomplete // an engine would make up a name, or run what the image says
	case strings.ContainsAny(s.Name+s.Volume, "/ \t\n"):
		return errBadName
	}
	return nil
}

// Alike returns a spec without what is one session's: names, labels and times.
func (s Spec) Alike() Spec {
	s.Name, s.Volume, s.Labels, s.Lasts, s.Ends, s.Grace = "", "", nil, false, 0, 0
	s.Beside = slices.Clone(s.Beside)
	for i := range s.Beside {
		s.Beside[i] = s.Beside[i].Alike()
	}
	return s
}

// Key returns a hash of values, which have to have a form in JSON.
func Key(parts ...any) string {
	text, err := json.Marshal(parts)
	if err != nil {
		panic(err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// Traits are what callers have to know of an engine.
type Traits struct {
	Name string // in messages
	// Together: it makes all containers of a volume together, and they share one loopback. Start begins one of them, in the place
	// of all where those that there are were made otherwise; Remove ends one; and List has those that were begun.
	Together bool
	// Remote: connections to containers are lost while those go on, so it is worth it to connect again for a while.
	Remote bool
}

// Claimer is what an Engine may be that shows people whose a container is which was made for no session: Claim adds labels.
type Claimer interface {
	Claim(ctx context.Context, container string, labels map[string]string) error
}

// Mount is a folder of this machine that a container sees as Name below MountsDir. An engine that is on another machine
// refuses to start a container with one, with ErrNotOnHost.
type Mount struct {
	Folder   string // absolute, with no link in its path
	Name     string
	Writable bool
}

// MountsDir is where a container has the folders of the host.
const MountsDir = WorkDir + "/mounts"

// Files are files that containers only read, which an engine keeps once for each content.
type Files struct {
	Hash string // of all of them, in letters and digits
	// Read returns them, or fails where they are not what Hash is of any more. It may be called by several goroutines.
	Read func() ([]containers.File, error) `json:"-"`
}

// Key returns what tells one content from others; empty: there is none.
func (f *Files) Key() string {
	if f == nil {
		return ""
	}
	return f.Hash
}

// SkillsDir is where a container has the user's skills, each in a folder of its own.
const SkillsDir = "/mnt/skills"

// WorkDir is where every container has its session's volume.
const WorkDir = "/mnt/data"

// Container is what List returns of a container.
type Container struct {
	Name    string
	Labels  map[string]string
	Running bool
	Created time.Time
	Place   Place
}

// Place is where a container is, on an engine of several machines; the zero value: not known, or this machine.
type Place struct{ Pod, Node string }

func (p Place) String() string {
	switch {
	case p.Pod == "":
		return ""
	case p.Node == "":
		return "pod " + p.Pod
	}
	return "pod " + p.Pod + " on node " + p.Node
}

// Locator is an engine of several machines. Where returns what the engine knows, without a request; the zero value: nothing.
type Locator interface {
	Where(container string) Place
}

// Volume is what List returns of a volume.
type Volume struct {
	Name    string
	Labels  map[string]string
	Created time.Time
}

// Inventory is everything on an engine that carries a given label.
type Inventory struct {
	Containers []Container
	Volumes    []Volume
}

// Process is the stdio of a container's process 1, or of a program started in it later.
//
// Close closes the stdio and does not stop a container; use Engine.Remove for
// that. Read ends with io.EOF when the container or the engine is gone. Write may be
// used at the same time as Read, but not by two goroutines at once.
type Process interface {
	io.ReadWriteCloser
	// Stderr is the tail of what the program wrote to its stderr so far, at most 4 KiB.
	Stderr() string
}

// Maker is what a Process may be that Start returns: MadeVolume reports whether the volume was made with this start, empty,
// where there was none or its containers had to be made anew and took it along.
type Maker interface{ MadeVolume() bool }

// Keeper is what a Process may be that Start returns: KeptOther reports whether its container was made with other settings, and stayed so
// because the files would have gone with it.
type Keeper interface{ KeptOther() bool }

// ImageInfo describes an image that an engine holds.
type ImageInfo struct {
	ID     string
	Arch   string // kind of processor, as Go names it
	Labels map[string]string
	Env    []string // what its containers have in their environment
}

// Engine owns containers. Implementations are safe for use by several goroutines;
// callers keep the calls of one session apart from each other, because engines have
// been seen to deadlock on a volume that is used and removed at once.
//
// Every call honours its context's deadline. ErrEngineUnavailable (wrapped) says that
// no engine answers and that nothing was done; ErrImageMissing that an image is not
// there; ErrArchitecture that there is no process 1 for it; ErrPreparing, together with ErrEngineUnavailable, that the engine
// makes an image ready for its first container, which takes long, and that the same call made again waits for that. That it lacks an interpreter, process 1 reports.
type Engine interface {
	// Image looks an image up. It never pulls.
	Image(ctx context.Context, ref string) (ImageInfo, error)
	// Start makes the volume and the container, attaches to its stdio and starts it. When it
	// fails, the container is gone again; a volume that it made may stay.
	Start(ctx context.Context, spec Spec) (Process, error)
	// Exec starts a program in a running container, with the rights of process 1 and no more, and
	// hands out its stdio; closing that ends its stdin. ErrContainerGone (wrapped) says that there is
	// no such container or that it does not run.
	Exec(ctx context.Context, container string, command []string) (Process, error)
	// Remove kills and removes containers by name, then volumes. What is not there is no error.
	Remove(ctx context.Context, containers, volumes []string) error
	// List returns what carries the label key with this value, or with any value when it is empty.
	List(ctx context.Context, key, value string) (Inventory, error)
	// Shape returns a key that is the same for specs whose containers this engine makes alike, whichever sessions they are for: of all that
	// a container is made with, the engine's own settings too, and of nothing else. It asks nobody.
	Shape(spec Spec) string
	// Traits returns what is different about this engine. It asks nobody.
	Traits() Traits
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
