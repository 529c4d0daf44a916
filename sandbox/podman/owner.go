// Containers whose code writes to folders of this machine as the folders' owner.

package podman

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"slices"

	"go.podman.io/storage/pkg/idtools"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/podman/libpod"
)

// ownSuffix ends the name of an empty volume, which says that the session's volumes belong to the user of a rootless engine.
const ownSuffix = ".own"

// NotWritableError says why code cannot write to a mounted folder as its owner. It is written for the user and the model.
type NotWritableError struct{ Name, Why, Fix string }

func (e *NotWritableError) Error() string {
	return "mounts/" + e.Name + " cannot be written to: " + e.Why
}

// Explain implements place.Explainer.
func (e *NotWritableError) Explain() (reason, fix string) {
	return "Code cannot write to mounts/" + e.Name + ": " + e.Why + ".", "Ask the user to " + e.Fix + ", or to leave ,rw out of --mount."
}

func writes(mounts []engine.Mount) bool {
	return slices.ContainsFunc(mounts, func(m engine.Mount) bool { return m.Writable })
}

// CheckMounts returns why code could not write to a folder as its owner. It makes no container.
func (e *Engine) CheckMounts(ctx context.Context, mounts []engine.Mount) error {
	if !writes(mounts) {
		return nil
	}
	l, err := e.Connect(ctx)
	if err != nil {
		return err
	}
	space, err := e.idSpace(ctx, l)
	if err != nil {
		return err
	}
	if !l.OnHost {
		return engine.ErrNotOnHost
	}
	_, end, err := lend(space, mounts, space.userOf(""))
	end()
	return err
}

// lend returns the mounts as a container of this user needs them, until end is called.
func lend(space idSpace, mounts []engine.Mount, user int64) (lent []engine.Mount, end func(), err error) {
	var ends []func()
	end = func() {
		for _, one := range ends {
			one()
		}
	}
	for _, m := range mounts {
		if m.Writable {
			uid, gid, err := ownerOf(m)
			switch {
			case err != nil:
				return nil, end, err
			case space.rootless && !space.suffices():
				return nil, end, &NotWritableError{m.Name, fmt.Sprintf("Podman has %d ids here, and not %d", space.count, MinIDs), "run `code-sandbox-mcp doctor`, which says how to get more"}
			case space.rootless && uid != me():
				return nil, end, &NotWritableError{m.Name, "it does not belong to the user who runs the server, whose rights code has in it", "mount a folder of this user's own"}
			case !space.rootless:
				place, done, err := mapped(m, uid, gid, user)
				if err != nil {
					return nil, end, &NotWritableError{m.Name, "Podman runs as root, and users of this folder cannot be mapped (" + err.Error() + ")",
						"run the server as the ordinary user who owns the folder, or as root with the folder on ext4, xfs or btrfs and Linux 5.12"}
				}
				ends, m.Folder = append(ends, done), place
			}
		}
		lent = append(lent, m)
	}
	return lent, end, nil
}

// exchanged maps all ids to themselves, but for two that stand for each other.
func exchanged(a, b int) (list []idtools.IDMap) {
	add := func(from, to, size int) {
		if size > 0 {
			list = append(list, idtools.IDMap{ContainerID: from, HostID: to, Size: size})
		}
	}
	a, b = min(a, b), max(a, b)
	add(0, 0, a)
	add(a, b, 1)
	add(a+1, a+1, b-a-1)
	add(b, a, min(b-a, 1))
	add(b+1, b+1, math.MaxUint32-1-b)
	return list
}

// settleOwner decides whether a session's volumes change hands: to the engine's user, for a container that writes to folders of this machine
// as that, and back for others. It calls nothing back before done is called, when the container has started.
func settleOwner(conn context.Context, spec engine.Spec, own bool) (carry bool, done func(), err error) {
	marker, done := libpod.VolumeOptions{Name: spec.Volume + ownSuffix, Labels: spec.Labels}, func() {}
	_, err = libpod.InspectVolume(conn, marker.Name)
	if code, answered := libpod.Status(err); err != nil && (!answered || code != http.StatusNotFound) {
		return false, done, err
	}
	switch was := err == nil; {
	case !own && !was:
		return false, done, nil
	case !own:
		done = func() { _ = removeVolume(conn, marker.Name) }
	case !was: // before anything changes hands: a start that fails may have done half
		if _, err := makeVolume(conn, marker); err != nil {
			return false, done, err
		}
	}
	// Code of a container that runs could lead the change out of the volume by links; what it has is right already.
	list, err := listContainers(conn, map[string][]string{"volume": {spec.Volume}, "status": {"running"}})
	return len(list) == 0, done, err
}
