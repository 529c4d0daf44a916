//go:build linux

package versions

import (
	"errors"
	"strconv"
	"strings"

	"github.com/code-sandbox-mcp/code-sandbox-mcp/sandbox/filewire"
	"golang.org/x/sys/unix"
)

const (
	stateFolder = filewire.StateFolder
	folder      = filewire.VersionsFolder
	uploads     = ".uploads" // the folder of the work directory in which files get ready
	ready       = "restore"  // the one in it for those of a restore
	maxDepth    = 200
)

// openBelow opens a path below the work directory, through no link and into no mount.
func openBelow(work int, path string, flags int) (int, error) {
	how := unix.OpenHow{
		Flags:   uint64(flags | unix.O_NOFOLLOW | unix.O_CLOEXEC),
		Resolve: unix.RESOLVE_NO_XDEV | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_BENEATH,
	}
	fd, err := unix.Openat2(work, path, &how)
	if !errors.Is(err, unix.ENOSYS) && !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.ENAMETOOLONG) {
		return fd, err
	}
	// gVisor, an old kernel or an old seccomp profile; or a path that only steps can reach.
	names := strings.Split(path, "/")
	folder := work
	for i, name := range names {
		wanted := unix.O_PATH | unix.O_DIRECTORY
		if i == len(names)-1 {
			wanted = flags
		}
		fd, err := unix.Openat(folder, name, wanted|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if folder != work {
			_ = unix.Close(folder)
		}
		if err != nil {
			return -1, err
		}
		folder = fd
	}
	return folder, nil
}

// openParent opens the folder that a path is in, and returns the last name.
func openParent(work int, path string) (int, string, error) {
	at := strings.LastIndexByte(path, '/')
	if at < 0 {
		fd, err := unix.FcntlInt(uintptr(work), unix.F_DUPFD_CLOEXEC, 10)
		return fd, path, err
	}
	fd, err := openBelow(work, path[:at], unix.O_PATH|unix.O_DIRECTORY)
	return fd, path[at+1:], err
}

func inProc(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// reopen opens a place, which is no link.
func reopen(place, flags int) (int, error) {
	return unix.Open(inProc(place), flags|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
}

// chmod sets the rights of a place, which is no link.
func chmod(place int, mode uint32) error { return unix.Chmod(inProc(place), mode&0o7777) }

// setTime sets the time of change of an open file, in nanoseconds.
func setTime(fd int, mtime int64) error {
	return unix.UtimesNanoAt(unix.AT_FDCWD, inProc(fd), timesOf(mtime), 0)
}

func timesOf(mtime int64) []unix.Timespec {
	return []unix.Timespec{{Nsec: unix.UTIME_OMIT}, unix.NsecToTimespec(mtime)}
}

// isPath reports whether a path may be one of the session's files.
func isPath(path string) bool {
	if len(path) > maxDepth*256 || strings.IndexByte(path, 0) >= 0 || isOurs(path) {
		return false
	}
	for part := range strings.SplitSeq(path, "/") {
		if part == "" || part == "." || part == ".." || len(part) > 255 {
			return false
		}
	}
	return true
}

// isOurs reports whether a path is of the server, and no file of the session.
func isOurs(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return first == stateFolder || first == uploads || first == ".runs"
}
