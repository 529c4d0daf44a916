// The list of system calls, with a reason for each group.

package podman

import (
	"encoding/json"
	"slices"
)

// The profile is an allow-list. Calls outside of it answer ENOSYS, as an older kernel would, so that C libraries and runtimes take
// their older path. Calls that are refused on purpose and have long been everywhere answer EPERM.
//
// Only the machine's own 64-bit calls exist: the 32-bit and x32 tables, a second way in to everything, are not allowed at all.

// seccompProfile is the JSON form of container engines.
type seccompProfile struct {
	DefaultAction   string        `json:"defaultAction"`
	DefaultErrnoRet uint          `json:"defaultErrnoRet"`
	ArchMap         []seccompArch `json:"archMap"`
	Syscalls        []seccompRule `json:"syscalls"`
}

type seccompArch struct {
	Architecture     string   `json:"architecture"`
	SubArchitectures []string `json:"subArchitectures"`
}

type seccompRule struct {
	Names    []string       `json:"names"`
	Action   string         `json:"action"`
	Args     []seccompArg   `json:"args"`
	Comment  string         `json:"comment"`
	Includes *seccompFilter `json:"includes,omitempty"`
	ErrnoRet *uint          `json:"errnoRet,omitempty"`
}

type seccompFilter struct {
	Arches []string `json:"arches"`
}

// seccompArg compares one argument. All arguments of a rule must match; for another rule of the same call to match is enough.
type seccompArg struct {
	Index    uint   `json:"index"`
	Value    uint64 `json:"value"`
	ValueTwo uint64 `json:"valueTwo"`
	Op       string `json:"op"`
}

const (
	actAllow = "SCMP_ACT_ALLOW"
	actErrno = "SCMP_ACT_ERRNO"

	opEqual       = "SCMP_CMP_EQ"
	opGreater     = "SCMP_CMP_GT"
	opMaskedEqual = "SCMP_CMP_MASKED_EQ"

	errnoEPERM        = 1
	errnoENOSYS       = 38
	errnoEAFNOSUPPORT = 97
)

// seccompGroup is a group of calls allowed, or refused, for one reason.
type seccompGroup struct {
	why   string
	calls []string
}

// allowedCalls need no look at their arguments.
var allowedCalls = []seccompGroup{
	{"files and folders, by path or descriptor; the mounts decide what can be written", []string{
		"access", "chdir", "chmod", "chown", "close", "copy_file_range", "creat",
		"dup", "dup2", "dup3", "faccessat", "faccessat2", "fadvise64", "fallocate", "fchdir", "fchmod",
		"fchmodat", "fchmodat2", "fchown", "fchownat", "fcntl", "fdatasync", "flock", "fstat", "fstatfs",
		"fsync", "ftruncate", "futimesat", "getcwd", "getdents", "getdents64", "lchown", "link",
		"linkat", "lseek", "lstat", "mkdir", "mkdirat", "newfstatat", "open", "openat", "openat2",
		"pread64", "preadv", "preadv2", "pwrite64", "pwritev", "pwritev2", "read", "readahead",
		"readlink", "readlinkat", "readv", "rename", "renameat", "renameat2", "rmdir", "sendfile",
		"splice", "stat", "statfs", "statx", "symlink", "symlinkat", "sync", "sync_file_range",
		"syncfs", "tee", "truncate", "umask", "unlink", "unlinkat", "utime", "utimensat", "utimes",
		"write", "writev",
	}},
	{"attributes that archivers and copiers keep", []string{
		"fgetxattr", "flistxattr", "fremovexattr", "fsetxattr", "getxattr", "lgetxattr", "listxattr",
		"llistxattr", "lremovexattr", "lsetxattr", "removexattr", "setxattr",
	}},
	{"waiting for descriptors, timers, signals and files that change", []string{
		"epoll_create", "epoll_create1", "epoll_ctl", "epoll_pwait", "epoll_pwait2", "epoll_wait",
		"eventfd", "eventfd2", "inotify_add_watch", "inotify_init", "inotify_init1",
		"inotify_rm_watch", "pipe", "pipe2", "poll", "ppoll", "pselect6", "select", "signalfd",
		"signalfd4", "timerfd_create", "timerfd_gettime", "timerfd_settime",
	}},
	{"memory, with the protection keys and anonymous files that V8 and pyarrow use", []string{
		"brk", "get_mempolicy", "madvise", "mbind", "membarrier", "memfd_create", "mlock", "mlock2",
		"mlockall", "mmap", "mprotect", "mremap", "msync", "munlock", "munlockall", "munmap",
		"pkey_alloc", "pkey_free", "pkey_mprotect", "set_mempolicy",
	}},
	{"processes and threads; clone itself is below", []string{
		"arch_prctl", "execve", "execveat", "exit", "exit_group", "fork", "futex", "get_robust_list",
		"getcpu", "getpgid", "getpgrp", "getpid", "getppid", "getrusage", "getsid", "gettid", "kill",
		"pidfd_open", "pidfd_send_signal", "prctl", "restart_syscall", "rseq", "set_robust_list",
		"set_tid_address", "setpgid", "setsid", "tgkill", "times", "tkill", "vfork", "wait4", "waitid",
	}},
	{"signals", []string{
		"alarm", "getitimer", "pause", "rt_sigaction", "rt_sigpending", "rt_sigprocmask",
		"rt_sigqueueinfo", "rt_sigreturn", "rt_sigsuspend", "rt_sigtimedwait", "rt_tgsigqueueinfo",
		"setitimer", "sigaltstack",
	}},
	{"scheduling, to read, and on which processors; priorities are below", []string{
		"getpriority", "ioprio_get", "sched_get_priority_max", "sched_get_priority_min",
		"sched_getaffinity", "sched_getattr", "sched_getparam", "sched_getscheduler",
		"sched_rr_get_interval", "sched_setaffinity", "sched_setparam", "sched_yield",
	}},
	{"clocks, to read, and timers", []string{
		"clock_getres", "clock_gettime", "clock_nanosleep", "gettimeofday", "nanosleep", "time",
		"timer_create", "timer_delete", "timer_getoverrun", "timer_gettime", "timer_settime",
	}},
	{"who one is, and becoming no more than that: there are no capabilities to gain from", []string{
		"capget", "capset", "getegid", "geteuid", "getgid", "getgroups", "getresgid", "getresuid",
		"getuid", "setfsgid", "setfsuid", "setgid", "setgroups", "setregid", "setresgid", "setresuid",
		"setreuid", "setuid",
	}},
	{"limits of one's own process, which can only be lowered, and figures about the system", []string{
		"getrlimit", "setrlimit", "sysinfo", "uname",
	}},
	{"randomness", []string{"getrandom"}},
	{"programs that confine themselves further, such as a browser", []string{
		"landlock_add_rule", "landlock_create_ruleset", "landlock_restrict_self", "seccomp",
	}},
	{"sockets that exist; which can be made is below", []string{
		"accept", "accept4", "bind", "connect", "getpeername", "getsockname", "getsockopt", "listen",
		"recvfrom", "recvmmsg", "recvmsg", "sendmmsg", "sendmsg", "sendto", "setsockopt", "shutdown",
	}},
}

// deniedCalls are refused with EPERM. They are listed, though everything unlisted is refused too, because software expects "not
// permitted" of them and so that a reader sees that each was meant.
var deniedCalls = []seccompGroup{
	{"new namespaces, in which one is root and may mount: the way to most kernel bugs", []string{
		"setns", "unshare",
	}},
	{"file systems and roots", []string{
		"chroot", "fsconfig", "fsmount", "fsopen", "fspick", "mount", "mount_setattr", "move_mount",
		"open_tree", "pivot_root", "quotactl", "quotactl_fd", "swapoff", "swapon", "umount2",
	}},
	{"files by handle, which reach around mounts", []string{
		"fanotify_init", "fanotify_mark", "name_to_handle_at", "open_by_handle_at",
	}},
	{"other processes' memory and descriptors, process 1's above all", []string{
		"kcmp", "pidfd_getfd", "process_madvise", "process_mrelease", "process_vm_readv",
		"process_vm_writev", "ptrace",
	}},
	{"priorities of any process, given in memory, where a filter cannot see whose", []string{"sched_setattr"}},
	{"the kernel's keyrings, which namespaces do not separate", []string{
		"add_key", "keyctl", "request_key",
	}},
	{"programs in the kernel, its counters and its faults: large, and often the bug", []string{
		"bpf", "perf_event_open", "userfaultfd", "vmsplice",
	}},
	{"kernel images, modules, logs, accounting, names and clocks of the host", []string{
		"acct", "adjtimex", "clock_adjtime", "clock_settime", "delete_module", "finit_module",
		"init_module", "kexec_file_load", "kexec_load", "lookup_dcookie", "reboot", "setdomainname",
		"sethostname", "settimeofday", "syslog",
	}},
	{"raw hardware and descriptor tables", []string{
		"ioperm", "iopl", "migrate_pages", "modify_ldt", "move_pages", "vhangup",
	}},
}

// absentCalls answer as if the kernel did not know them. The default does the same;
// they are named because leaving them out is a decision.
var absentCalls = []seccompGroup{
	{"asynchronous I/O that goes around this filter, or has its own history of bugs", []string{
		"io_cancel", "io_destroy", "io_getevents", "io_pgetevents", "io_setup", "io_submit",
		"io_uring_enter", "io_uring_register", "io_uring_setup",
	}},
	{"objects that outlive their processes and that no size on a tmpfs bounds; multiprocessing uses /dev/shm", []string{
		"mq_getsetattr", "mq_notify", "mq_open", "mq_timedreceive", "mq_timedsend", "mq_unlink",
		"msgctl", "msgget", "msgrcv", "msgsnd", "semctl", "semget", "semop", "semtimedop", "shmat",
		"shmctl", "shmdt", "shmget",
	}},
}

// flagsInMemory is absent too, but under gVisor.
var flagsInMemory = []seccompGroup{
	{"its flags are in memory, where a filter cannot see them; libraries fall back on clone", []string{"clone3"}},
}

// newNamespaces are the flags CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID and NEWNET. NEWTIME cannot be given to
// clone.
const newNamespaces = 0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000

// The flags of threads, and of shared or separate descriptors.
const (
	cloneFiles        = 0x400
	cloneThread       = 0x10000
	closeRangeUnshare = 2
)

// The socket families, types and protocols with a use without a network.
const (
	afUnix    = 1
	afInet    = 2
	afInet6   = 10
	afNetlink = 16

	sockStream = 1
	sockDgram  = 2
	// sockTypeMask leaves SOCK_CLOEXEC and SOCK_NONBLOCK out of the comparison.
	sockTypeMask = 0xf

	protoAny     = 0
	protoTCP     = 6
	protoUDP     = 17
	netlinkRoute = 0
)

// low32 compares the bits that the kernel reads: it drops the upper half of an int, and one of those bits would get around a
// comparison of all 64.
const low32 = 0xffffffff

// terminalAndFileRequests are the ioctl requests that programs need. TIOCSTI and TIOCLINUX, which type into a terminal, are not
// among them.
var terminalAndFileRequests = []uint64{
	0x5401, 0x5402, 0x5403, 0x5404, // TCGETS, TCSETS, TCSETSW, TCSETSF
	0x5405, 0x5406, 0x5407, 0x5408, // TCGETA, TCSETA, TCSETAW, TCSETAF
	0x5409, 0x540a, 0x540b, // TCSBRK, TCXONC, TCFLSH
	0x540c, 0x540d, 0x540e, // TIOCEXCL, TIOCNXCL, TIOCSCTTY
	0x540f, 0x5410, // TIOCGPGRP, TIOCSPGRP
	0x5411,         // TIOCOUTQ
	0x5413, 0x5414, // TIOCGWINSZ, TIOCSWINSZ
	0x541b,                 // FIONREAD
	0x5420, 0x5421, 0x5422, // TIOCPKT, FIONBIO, TIOCNOTTY
	0x5424, 0x5425, 0x5429, // TIOCGETD, TCSBRKP, TIOCGSID
	0x802c542a, 0x402c542b, 0x402c542c, 0x402c542d, // TCGETS2, TCSETS2, TCSETSW2, TCSETSF2
	0x80045430, 0x40045431, 0x5441, // TIOCGPTN, TIOCSPTLCK, TIOCGPTPEER
	0x5450, 0x5451, 0x5452, // FIONCLEX, FIOCLEX, FIOASYNC
	0x40049409, 0x4020940d, // FICLONE, FICLONERANGE
	0xc020660b, // FS_IOC_FIEMAP
	0x80086601, // FS_IOC_GETFLAGS
	0x801c581f, // FS_IOC_FSGETXATTR
	0x2,        // FIGETBSZ
}

// interfaceRequests are the ioctl requests that only read the network's configuration,
// for lists of interfaces.
var interfaceRequests = []uint64{
	0x8905, 0x8906, // SIOCATMARK, SIOCGSTAMP
	0x8910, 0x8912, 0x8913, 0x8915, // SIOCGIFNAME, SIOCGIFCONF, SIOCGIFFLAGS, SIOCGIFADDR
	0x8917, 0x8919, 0x891b, 0x891d, // SIOCGIFDSTADDR, SIOCGIFBRDADDR, SIOCGIFNETMASK, SIOCGIFMETRIC
	0x8921, 0x8927, 0x8933, 0x8942, // SIOCGIFMTU, SIOCGIFHWADDR, SIOCGIFINDEX, SIOCGIFTXQLEN
}

// personalities are PER_LINUX, PER_LINUX32, both with UNAME26, and the query.
var personalities = []uint64{0, 0x8, 0x20000, 0x20008, 0xffffffff}

// fileTypes are the allowed types of mknod: a regular file, which may also be given as 0, a FIFO and a socket. Devices need a
// capability besides.
var fileTypes = []uint64{0, 0o100000, 0o010000, 0o140000}

const fileTypeMask = 0o170000

// SeccompProfile is the profile of every container, as JSON. It is the same on every machine; a kernel or library ignores names
// that it does not know.
func SeccompProfile() []byte { return profileText(groups(flagsInMemory, actErrno, errno(errnoENOSYS))) }

// otherNames are older gVisor's names of newfstatat and pselect6.
var otherNames = []seccompGroup{{"files and waiting, by gVisor's own names", []string{"fstatat", "pselect"}}}

// gVisorProfile is for gVisor. Its older versions answer EPERM to every refused call, so libraries would not fall back. clone3
// could only make namespaces of gVisor's own kernel.
func gVisorProfile() []byte {
	return profileText(groups(slices.Concat(flagsInMemory, otherNames), actAllow, nil))
}

func profileText(flagsInMemory []seccompRule) []byte {
	profile := seccompProfile{
		DefaultAction:   actErrno,
		DefaultErrnoRet: errnoENOSYS,
		ArchMap: []seccompArch{
			{Architecture: "SCMP_ARCH_X86_64", SubArchitectures: []string{}},
			{Architecture: "SCMP_ARCH_AARCH64", SubArchitectures: []string{}},
		},
		Syscalls: slices.Concat(
			groups(allowedCalls, actAllow, nil),
			groups(deniedCalls, actErrno, errno(errnoEPERM)),
			flagsInMemory,
			groups(absentCalls, actErrno, errno(errnoENOSYS)),
			cloneRules(), ownRules(), socketRules(), ioctlRules(), valueRules(),
		),
	}
	text, err := json.MarshalIndent(profile, "", "  ")
	if err != nil {
		panic(err) // a struct of strings and numbers
	}
	return append(text, '\n')
}

func groups(list []seccompGroup, action string, ret *uint) []seccompRule {
	var rules []seccompRule
	for _, g := range list {
		rules = append(rules, seccompRule{Names: g.calls, Action: action, Args: []seccompArg{}, Comment: g.why, ErrnoRet: ret})
	}
	return rules
}

func errno(n uint) *uint { return &n }

func allow(call, why string, args ...seccompArg) seccompRule {
	return seccompRule{Names: []string{call}, Action: actAllow, Args: args, Comment: why}
}

func refuse(call string, ret uint, why string, args ...seccompArg) seccompRule {
	return seccompRule{Names: []string{call}, Action: actErrno, Args: args, Comment: why, ErrnoRet: errno(ret)}
}

// exactly and above compare all 64 bits. To allow by above would be a hole: see low32.
func exactly(index uint, value uint64) seccompArg { return seccompArg{index, value, 0, opEqual} }

func above(index uint, value uint64) seccompArg { return seccompArg{index, value, 0, opGreater} }

// equals compares the low 32 bits of an argument.
func equals(index uint, value uint64) seccompArg { return masked(index, low32, value) }

func masked(index uint, mask, value uint64) seccompArg {
	return seccompArg{index, mask, value, opMaskedEqual}
}

// cloneRules let no thread own descriptors apart from its process: /proc, where process 1 looks for nameless files, lists only one
// thread's.
func cloneRules() []seccompRule {
	const thread = cloneThread | cloneFiles
	return []seccompRule{
		allow("clone", "processes, but no new namespaces", masked(0, newNamespaces|cloneThread, 0)),
		allow("clone", "threads that share their process's descriptors", masked(0, newNamespaces|thread, thread)),
		allow("close_range", "descriptors that a thread shares with its process", masked(2, closeRangeUnshare, 0)),
	}
}

// ownRules let code lower its own limits and priorities, and nobody else's. The kernel lets a process do it to every other of its
// user, so to process 1, which must watch: with no descriptors left, or hardly a processor's time, it would miss the code's
// actions.
func ownRules() []seccompRule {
	const (
		others    = "not of another process, which may be process 1"
		idle      = "no class in which others leave a process no time"
		byProcess = 0 // PRIO_PROCESS
		ioProcess = 1 // IOPRIO_WHO_PROCESS
		batch     = 3 // SCHED_BATCH; SCHED_OTHER is 0, the rest is for real time
	)
	refuse := func(call, why string, args ...seccompArg) seccompRule { return refuse(call, errnoEPERM, why, args...) }
	return []seccompRule{
		allow("prlimit64", "one's own limits", equals(0, 0)),
		allow("prlimit64", "limits, to read", exactly(2, 0)),
		refuse("prlimit64", others, above(0, 0), above(2, 0)),
		allow("setpriority", "one's own priority", equals(0, byProcess), equals(1, 0)),
		refuse("setpriority", others, above(0, byProcess)),
		refuse("setpriority", others, above(1, 0)),
		allow("ioprio_set", "one's own priority", equals(0, ioProcess), equals(1, 0)),
		refuse("ioprio_set", others, exactly(0, 0)),
		refuse("ioprio_set", others, above(0, ioProcess)),
		refuse("ioprio_set", others, above(1, 0)),
		allow("sched_setscheduler", "the usual classes", equals(1, 0)),
		allow("sched_setscheduler", "the usual classes", equals(1, batch)),
		refuse("sched_setscheduler", idle, exactly(1, 1)),
		refuse("sched_setscheduler", idle, exactly(1, 2)),
		refuse("sched_setscheduler", idle, above(1, batch)),
	}
}

func socketRules() []seccompRule {
	rules := []seccompRule{
		allow("socket", "sockets between processes", equals(0, afUnix)),
		allow("socketpair", "sockets between processes", equals(0, afUnix)),
		allow("socket", "lists of network interfaces", equals(0, afNetlink), equals(2, netlinkRoute)),
	}
	// Other protocols, even without a network, would make the host load their modules.
	for _, family := range []uint64{afInet, afInet6} {
		for _, kind := range [][2]uint64{{sockStream, protoAny}, {sockStream, protoTCP}, {sockDgram, protoAny}, {sockDgram, protoUDP}} {
			rules = append(rules, allow("socket", "TCP and UDP, for loopback",
				equals(0, family), masked(1, sockTypeMask, kind[0]), equals(2, kind[1])))
		}
	}
	return append(rules, refusedFamilies()...)
}

// refusedFamilies answers for the other socket families (packet, vsock, AF_ALG, …) as a kernel built without them does.
func refusedFamilies() []seccompRule {
	refuse := func(arg seccompArg) seccompRule { return refuse("socket", errnoEAFNOSUPPORT, "no other family", arg) }
	var rules []seccompRule
	for family := uint64(0); family <= afNetlink; family++ {
		if !slices.Contains([]uint64{afUnix, afInet, afInet6, afNetlink}, family) {
			rules = append(rules, refuse(exactly(0, family)))
		}
	}
	return append(rules, refuse(above(0, afNetlink)))
}

func ioctlRules() []seccompRule {
	var rules []seccompRule
	for _, request := range terminalAndFileRequests {
		rules = append(rules, allow("ioctl", "terminals and files", equals(1, request)))
	}
	for _, request := range interfaceRequests {
		rules = append(rules, allow("ioctl", "lists of network interfaces", equals(1, request)))
	}
	return rules
}

func valueRules() []seccompRule {
	var rules []seccompRule
	for _, value := range personalities {
		rules = append(rules, allow("personality", "the usual execution domains", equals(0, value)))
	}
	for _, kind := range fileTypes {
		rules = append(rules,
			allow("mknod", "files, FIFOs and sockets, no devices", masked(1, fileTypeMask, kind)),
			allow("mknodat", "files, FIFOs and sockets, no devices", masked(2, fileTypeMask, kind)))
	}
	return rules
}
