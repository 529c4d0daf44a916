// Making, attaching and starting a container, and removing the leavings of a failed start.

package podman

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"time"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/containers"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/podman/libpod"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/podman/service"
)

// cleanupTimeout bounds the removal of a failed Start's leavings, after its own time.
const cleanupTimeout = 5 * time.Second

var errNameInUse = errors.New("a container of that name exists")

// Start implements engine.Engine.
func (e *Engine) Start(ctx context.Context, spec engine.Spec) (engine.Started, error) {
	if err := spec.Check(); err != nil {
		return engine.Started{}, err
	}
	p, l, err := e.startOn(ctx, spec)
	switch {
	case err == nil:
		return engine.Started{Process: p}, nil
	case l != nil && libpod.Lost(err):
		// The service went away, as it does when it was idle or overloaded.
		e.check(ctx, l)
		// Its half-made container bears the name, and may or may not go without help.
		if err := e.Remove(ctx, []string{spec.Name}, nil); err != nil {
			return engine.Started{}, fmt.Errorf("start container %s: %w", spec.Name, err)
		}
	case l != nil && errors.Is(err, errProgramsGone) && e.mend(ctx, l, spec):
	case l != nil && e.AsksForRuntime() && (runtimeFailed(err) || libpod.Says(err, "container create failed")):
		return engine.Started{}, e.RuntimeUnfit(err)
	default:
		return engine.Started{}, err
	}
	if p, _, err = e.startOn(ctx, spec); err != nil {
		return engine.Started{}, err
	}
	return engine.Started{Process: p}, nil
}

// startOn makes one attempt, and leaves nothing when it fails. The link is the one of the attempt, nil: none.
func (e *Engine) startOn(ctx context.Context, spec engine.Spec) (*process, *service.Link, error) {
	l, err := e.Connect(ctx)
	if err != nil {
		return nil, nil, err
	}
	limited, cancel := e.limit(ctx)
	defer cancel()
	p, err := e.tryStart(limited, l, spec)
	if err == nil {
		return p, l, nil
	}
	if errors.Is(err, engine.ErrPreparing) {
		return nil, l, fmt.Errorf("start container %s: %w", spec.Name, err)
	}
	if !errors.Is(err, errNameInUse) && !errors.Is(err, engine.ErrImageMissing) {
		e.clean(ctx, l, spec)
	}
	if limited.Err() != nil {
		go e.check(context.WithoutCancel(ctx), l)
		return nil, l, fmt.Errorf("start container %s: %w", spec.Name, e.ended(ctx, limited))
	}
	return nil, l, fmt.Errorf("start container %s: %w", spec.Name, e.startError(err))
}

// checkPlaces refuses a volume with something else at the mount points of this machine's folders. It refuses a link too: gVisor
// would make a folder at its target, even in the volume of our programs, which all sessions share. Folders hidden from this user
// are left to the runtime, unless that is gVisor's.
func checkPlaces(volume string, mounts []engine.Mount, gVisor bool) error {
	if len(mounts) == 0 {
		return nil
	}
	folder := filepath.Join(volume, filepath.Base(engine.MountsDir))
	places := []string{folder}
	for _, m := range mounts {
		places = append(places, filepath.Join(folder, m.Name))
	}
	for _, place := range places {
		info, err := os.Lstat(place)
		if err == nil && !info.IsDir() || err != nil && gVisor && !errors.Is(err, fs.ErrNotExist) {
			return engine.ErrNoPlaceForMounts
		}
	}
	return nil
}

func (e *Engine) tryStart(ctx context.Context, l *service.Link, spec engine.Spec) (*process, error) {
	if len(spec.Mounts) > 0 && !l.OnHost {
		return nil, engine.ErrNotOnHost
	}
	conn := l.Context(ctx)
	space, err := e.idSpace(ctx, l)
	if err != nil {
		return nil, err
	}
	user, place, err := makeSessionVolume(conn, spec.Volume, spec.Labels, space.userOf(spec.Volume))
	if err != nil {
		return nil, err
	}
	if err := checkPlaces(place, spec.Mounts, e.AsksForGVisor()); err != nil {
		return nil, err
	}
	host, done := hostFacts{ids: space, user: user, own: space.rootless && writes(spec.Mounts)}, func() {}
	lent, end, err := lend(space, spec.Mounts, user)
	defer end()
	if err == nil && space.rootless && space.suffices() {
		host.carry, done, err = settleOwner(conn, spec, host.own)
	}
	if err != nil {
		return nil, err
	}
	if spec.Mounts = lent; host.own {
		host.user = plainUser
	}
	id, err := e.create(ctx, l, spec, host)
	if err != nil {
		return nil, err
	}
	// Before the start, so that no output of process 1 is missed.
	p, err := attach(conn, id)
	if err != nil {
		return nil, fmt.Errorf("attach: %w", err)
	}
	if err := libpod.StartContainer(conn, id); err != nil {
		_ = p.Close()
		return nil, err
	}
	done()
	return p, nil
}

// create makes the container and returns its id.
func (e *Engine) create(ctx context.Context, l *service.Link, spec engine.Spec, host hostFacts) (string, error) {
	for again := false; ; again = true {
		at, _, err := e.programs(ctx, l, spec, host.own, again)
		if err != nil {
			return "", createError(err)
		}
		host.programs, host.seccompPath, host.gVisor = at.Name, path.Join(at.Mountpoint, profileName), e.AsksForGVisor()
		if l.OnHost {
			host.maxOpenFiles, host.maxProcesses = hardLimits()
		}
		id, err := e.createContainer(ctx, l, e.shape(spec, host), slog.LevelInfo)
		if err == nil {
			return id, nil
		}
		if again || !libpod.Says(err, "seccomp profile") {
			return "", createError(err)
		}
		// Someone removed the file since.
	}
}

// runtimeFailed reports whether the OCI runtime itself gave up, as opposed to a command that is not in the image.
func runtimeFailed(err error) bool {
	return libpod.Says(err, "oci runtime error", "default oci runtime", "cgroups in hybrid mode")
}

func createError(err error) error {
	code, _ := libpod.Status(err)
	switch {
	case libpod.Says(err, "no such image", "image not known"):
		return fmt.Errorf("%w: %w", engine.ErrImageMissing, err)
	case code == http.StatusConflict || libpod.Says(err, "is already in use"):
		return fmt.Errorf("%w: %w", errNameInUse, err)
	}
	return err
}

// errProgramsGone reports that a container lacked our programs.
var errProgramsGone = errors.New("the volume of our programs is not as it should be")

// startError recognises a missing supervisor, because its volume was removed or is for another kind of processor, and a missing
// command of an image's own. If a volume cannot be mounted, runtimes report a missing command too.
func (e *Engine) startError(err error) error {
	switch {
	case libpod.Says(err, "error mounting") && !libpod.Says(err, "no such file or directory"):
		return err
	case libpod.Says(err, "exec format error"):
		return fmt.Errorf("%w: %w", engine.ErrArchitecture, err)
	case libpod.Says(err, containers.ProgramsDir), libpod.Says(err, e.volumes.prefix) && libpod.Says(err, "no such file or directory"):
		return fmt.Errorf("%w: %w", errProgramsGone, err)
	case libpod.Says(err, "executable file", "command that was not found", `exec: "`, "open executable", "is not executable", "is not a regular file"):
		return fmt.Errorf("%w: %w", engine.ErrNoInterpreter, err)
	}
	return err
}

// clean removes the leavings of a failed attempt, even after the end of its context.
func (e *Engine) clean(ctx context.Context, l *service.Link, spec engine.Spec) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	if err := removeContainer(l.Context(ctx), spec.Name); err != nil {
		e.Log.Warn("a container that failed to start could not be removed", "session", spec.Labels[sandbox.LabelSession], "container", spec.Name, "error", err)
	}
}
