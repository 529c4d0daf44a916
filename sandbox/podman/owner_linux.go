package podman

import (
	"errors"
	"os"

	"go.podman.io/storage/pkg/idmap"
	"golang.org/x/sys/unix"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/engine"
)

// mappedFolders is where folders are mounted with other users, until a container has started.
const mappedFolders = "/run/code-sandbox-mcp.mounts"

func me() int { return os.Geteuid() }

// ownerOf returns the owner of a folder that its owner can write to.
func ownerOf(m engine.Mount) (uid, gid int, err error) {
	var s unix.Stat_t
	var disk unix.Statfs_t
	if err := errors.Join(unix.Stat(m.Folder, &s), unix.Statfs(m.Folder, &disk)); err != nil {
		return 0, 0, err
	}
	if disk.Flags&unix.ST_RDONLY != 0 || s.Mode&0o300 != 0o300 {
		return 0, 0, &NotWritableError{m.Name, "it is read-only for its owner too", "run `chmod u+rwx` on the folder, or to mount its disk for writing"}
	}
	return int(s.Uid), int(s.Gid), nil
}

// mapped mounts a folder so that its owner and group have the number of a container's user, and everybody else's stay.
func mapped(m engine.Mount, uid, gid int, user int64) (place string, end func(), err error) {
	pid, release, err := idmap.CreateUsernsProcess(exchanged(uid, int(user)), exchanged(gid, int(user)))
	if err != nil {
		return "", nil, err
	}
	defer release()
	if err := os.MkdirAll(mappedFolders, 0o700); err != nil {
		return "", nil, err
	}
	if place, err = os.MkdirTemp(mappedFolders, ""); err != nil {
		return "", nil, err
	}
	end = func() {
		_ = unix.Unmount(place, unix.MNT_DETACH)
		_ = os.Remove(place)
	}
	if err := idmap.CreateIDMappedMount(m.Folder, place, pid); err != nil {
		end()
		return "", nil, err
	}
	return place, end, nil
}
