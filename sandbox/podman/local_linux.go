package podman

import (
	"os"
	"os/user"
	"strconv"
	"strings"
	"syscall"
)

// localIDs describes the service behind a socket of this machine. It is not ok if the files do not tell everything: for another
// user's service, and if a directory service assigns the ids.
func localIDs(socket string) (space idSpace, ok bool) {
	info, err := os.Stat(socket)
	if err != nil {
		return idSpace{}, false
	}
	stat, isUnix := info.Sys().(*syscall.Stat_t)
	if !isUnix || int(stat.Uid) != os.Geteuid() {
		return idSpace{}, false
	}
	if stat.Uid == 0 {
		return idSpace{}, !inUserNamespace()
	}
	me, err := user.Current()
	if err != nil {
		return idSpace{}, false
	}
	// The user itself is the first id in its containers.
	uids := 1 + subordinate("/etc/subuid", me.Username, os.Geteuid())
	gids := 1 + subordinate("/etc/subgid", me.Username, os.Geteuid())
	space = idSpace{rootless: true, count: int64(min(uids, gids))}
	return space, space.suffices()
}

// inUserNamespace reports whether root here is somebody else outside, as in a container: Podman then decides by its own rules
// whether it is rootless.
func inUserNamespace() bool {
	text, err := os.ReadFile("/proc/self/uid_map")
	return err == nil && strings.Join(strings.Fields(string(text)), " ") != "0 0 4294967295"
}

func subordinate(path, name string, uid int) int {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	return Subordinate(string(text), name, uid)
}

// rlimitNproc is not in package syscall.
const rlimitNproc = 6

// hardLimits are this process's limits. A service on the same machine runs under them too and cannot raise them without a
// capability. Zero: unknown.
func hardLimits() (openFiles, processes uint64) {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) == nil {
		openFiles = limit.Max
	}
	if syscall.Getrlimit(rlimitNproc, &limit) == nil {
		processes = limit.Max
	}
	// Podman 4.3 lowers its own limit of processes to the possible maximum.
	return openFiles, atMost(processes, maxPID())
}

func maxPID() uint64 {
	text, err := os.ReadFile("/proc/sys/kernel/pid_max")
	if err != nil {
		return 0
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return 0
	}
	return n
}
