// A user for each session, and a user namespace for each container.

package podman

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/containers/podman/v5/libpod/define"
	"github.com/containers/podman/v5/pkg/specgen"
	"go.podman.io/storage/pkg/idtools"
	storagetypes "go.podman.io/storage/types"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/podman/libpod"
	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/podman/service"
)

// The kernel counts much by user: processes, watches, pipes, keys. And code that got out of a container could read and signal
// everything of the same user. So each session's containers run as a user of their own, which their volume records.

// plainUser is for an engine with too few ids to give each session its own, and the owner of every volume before sessions got
// their own users. It is also the one user of rootless containers whose code writes to folders of this machine: Podman copies an image
// for each mapping of ids, so that all share one.
const plainUser = 1000

// rootlessUsers are the users of a rootless engine's sessions. Images define no users there. A rootful engine's containers use the
// host's own numbers.
var rootlessUsers = engine.Users{First: 10_000, Count: 50_000}

// MinIDs is the number of ids with which an engine can give each session a user of its own, and each container a user namespace:
// those that images use, and as many again.
const MinIDs = 65536

// idSpace describes the users and groups available to an engine's containers.
type idSpace struct {
	rootless bool
	count    int64 // the ids of a rootless engine, from 0
}

// suffices reports whether a session can get its own.
func (s idSpace) suffices() bool { return !s.rootless || s.count >= MinIDs }

// userOf is the number of a new volume's user and group.
func (s idSpace) userOf(volume string) int64 {
	switch {
	case !s.suffices():
		return plainUser
	case s.rootless:
		return rootlessUsers.Of(volume)
	}
	return engine.HostUsers.Of(volume)
}

// userNamespace is a namespace of the container's own, if the engine is rootless: without it all its containers share one, and
// root in one is root in all. Each id means the same on both sides, because Podman would copy the whole image for any other
// mapping. first.go tells the cost. With own, plainUser is the engine's user outside, and its number's place is root's.
func (s idSpace) userNamespace(own bool) (specgen.Namespace, *storagetypes.IDMappingOptions) {
	if !s.rootless || !s.suffices() {
		return specgen.Namespace{}, nil
	}
	// As many for every user of this program: the available number may change, and a changed mapping costs a copy of the image's
	// list of files.
	ids := []idtools.IDMap{{ContainerID: 0, HostID: 0, Size: MinIDs}}
	if own { // as --userns keep-id has it
		ids = []idtools.IDMap{
			{ContainerID: 0, HostID: 1, Size: plainUser}, {ContainerID: plainUser, HostID: 0, Size: 1},
			{ContainerID: plainUser + 1, HostID: plainUser + 1, Size: MinIDs - plainUser - 1},
		}
	}
	return private(), &storagetypes.IDMappingOptions{UIDMap: ids, GIDMap: ids}
}

// passwdEntry names the user of a container to programs that look their user up.
func passwdEntry(user int64) string {
	return fmt.Sprintf("sandbox:*:%d:%d:sandbox:/tmp:/bin/sh", user, user)
}

// ids remembers the users of an engine by link. The engine takes a third of a second to describe itself, so for a service of this
// machine it reads the machine's files instead.
type ids struct {
	mu    sync.Mutex
	at    *service.Link
	known idSpace
}

func (e *Engine) idSpace(ctx context.Context, l *service.Link) (idSpace, error) {
	e.ids.mu.Lock()
	defer e.ids.mu.Unlock()
	if e.ids.at == l {
		return e.ids.known, nil
	}
	space, ok := idSpace{}, false
	if l.OnHost {
		space, ok = localIDs(strings.TrimPrefix(l.Address, "unix://"))
	}
	if !ok {
		report, err := libpod.Info(l.Context(ctx))
		if err != nil {
			return idSpace{}, fmt.Errorf("ask the engine which users it has: %w", err)
		}
		if report.Host == nil {
			return idSpace{}, errors.New("the engine does not say which users it has")
		}
		space = reportedIDs(report.Host)
	}
	e.ids.at, e.ids.known = l, space
	return space, nil
}

func reportedIDs(host *define.HostInfo) idSpace {
	return idSpace{
		rootless: host.Security.Rootless,
		count:    min(sizeOf(host.IDMappings.UIDMap), sizeOf(host.IDMappings.GIDMap)),
	}
}

func sizeOf(ranges []idtools.IDMap) int64 {
	var sum int64
	for _, r := range ranges {
		sum += int64(r.Size)
	}
	return sum
}

// Subordinate adds up the ids that a text in the form of /etc/subuid gives to a user: lines of a name or number, the first id and
// a count (subuid(5)). It ignores malformed lines.
func Subordinate(text, name string, uid int) int {
	sum := 0
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		fields := strings.Split(strings.TrimSpace(lines.Text()), ":")
		if len(fields) != 3 || fields[0] != name && fields[0] != strconv.Itoa(uid) {
			continue
		}
		if n, err := strconv.Atoi(fields[2]); err == nil && n > 0 {
			sum += n
		}
	}
	return sum
}

// stateSuffix ends the name of the volume at engine.StateDir, which lives and dies with the session's. No session's id has a dot.
const stateSuffix = ".state"

// makeSessionVolume makes the volumes of a session for the given user, or leaves existing ones unchanged. It returns the volume's
// user, and its path on the engine's machine.
func makeSessionVolume(ctx context.Context, name string, labels map[string]string, user int64) (int64, string, error) {
	// Podman hands a volume without an owner to the user of the image's folder.
	owner := func() map[string]string { return map[string]string{"o": fmt.Sprintf("uid=%d,gid=%d", user, user)} }
	volume, err := makeVolume(ctx, libpod.VolumeOptions{Name: name, Labels: labels, Options: owner()})
	if err != nil {
		return 0, "", err
	}
	user = cmp.Or(int64(volume.UID), plainUser)
	if _, err := makeVolume(ctx, libpod.VolumeOptions{Name: name + stateSuffix, Labels: labels, Options: owner()}); err != nil {
		return 0, "", err
	}
	return user, volume.Mountpoint, nil
}
