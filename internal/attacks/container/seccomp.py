"""The system calls that reach for the kernel, for other processes or for the host are refused.

Tried: namespaces, mounts, keyrings, bpf, ptrace, io_uring, userfaultfd, perf, kexec, modules, 32-bit calls and more.
"""
import mmap

assert "Seccomp:\t2" in read("/proc/self/status"), "no filter is set"
DEFAULT = POD and not POD["seccomp"]  # the list is the container runtime's own
if DEFAULT:
    for name, args in {"unshare": (0x10000000,), "setns": (0, 0), "mount": (b"none", b"/tmp", b"tmpfs", 0, 0), "umount2": (b"/tmp", 2), "pivot_root": (b"/tmp", b"/tmp"),
                       "bpf": (0, ctypes.create_string_buffer(128), 128), "keyctl": (0, -3, 0), "add_key": (b"user", b"k", b"v", 1, -3),
                       "perf_event_open": (ctypes.create_string_buffer(128), 0, -1, -1, 0), "userfaultfd": (1,), "open_by_handle_at": (-100, None, 0),
                       "kexec_load": (0, 0, 0, 0), "init_module": (0, 0, b""), "finit_module": (0, b"", 0), "reboot": (0, 0, 0, 0), "swapon": (b"/tmp/x", 0),
                       "acct": (0,), "quotactl": (0, b"", 0, 0), "syslog": (10, 0, 0), "settimeofday": (ctypes.create_string_buffer(16), 0)}.items():
        assert syscall(name, *args) in (errno.EPERM, errno.ENOSYS), name
    raise Unenforced("the container runtime's default list is in force: it keeps code from namespaces, mounts, keyrings, bpf, perf and modules, and allows more than this program's own")
NEW = {"CLONE_NEWNS": 0x20000, "NEWCGROUP": 0x2000000, "NEWUTS": 0x4000000, "NEWIPC": 0x8000000,
       "NEWUSER": 0x10000000, "NEWPID": 0x20000000, "NEWNET": 0x40000000}
for flag in list(NEW.values()) + [0x80]:
    assert syscall("unshare", flag) == errno.EPERM, hex(flag)
for flag in NEW.values():
    # The child, were there one, must not go on as a second copy of this program.
    pid = libc.syscall(ctypes.c_long(NUMBERS["clone"][MACHINE]), ctypes.c_long(flag | signal.SIGCHLD), *[ctypes.c_long(0)] * 4)
    if pid == 0:
        os._exit(0)
    assert pid == -1, hex(flag)
# Older versions of gVisor have one answer to all that is refused, and clone3 makes namespaces of its own alone.
ABSENT = (errno.ENOSYS, errno.EPERM) if FACTS["gvisor"] else (errno.ENOSYS,)
assert FACTS["gvisor"] or syscall("clone3", ctypes.create_string_buffer(88), 88) == errno.ENOSYS
# Threads with descriptors of their own would hold files that no count finds.
THREAD = 0x10000 | 0x800 | 0x200 | 0x100  # CLONE_THREAD, SIGHAND, FS and VM, without CLONE_FILES
assert syscall("clone", THREAD, 0, 0, 0, 0) in ABSENT
assert syscall("close_range", 1 << 20, 1 << 20, 2) in ABSENT  # CLOSE_RANGE_UNSHARE

zero = ctypes.create_string_buffer(256)
for name, args in {
    "setns": (0, 0), "mount": (b"none", b"/tmp", b"tmpfs", 0, 0), "umount2": (b"/tmp", 2), "pivot_root": (b"/tmp", b"/tmp"),
    "fsopen": (b"tmpfs", 0), "open_tree": (-100, b"/", 1), "move_mount": (-1, b"", -1, b"", 0), "mount_setattr": (-100, b"/", 0, zero, 32),
    "chroot": (b"/tmp",), "keyctl": (0, -3, 0), "add_key": (b"user", b"k", b"v", 1, -3), "request_key": (b"user", b"k", 0, -3),
    "bpf": (0, zero, 128), "perf_event_open": (zero, 0, -1, -1, 0), "userfaultfd": (1,), "vmsplice": (0, zero, 0, 0),
    "ptrace": (0, 0, 0, 0), "process_vm_readv": (os.getpid(), zero, 0, zero, 0, 0), "process_vm_writev": (os.getpid(), zero, 0, zero, 0, 0),
    "pidfd_getfd": (0, 0, 0), "process_madvise": (0, zero, 0, 0, 0), "kcmp": (1, 1, 0, 0, 0),
    "name_to_handle_at": (-100, b"/etc", zero, zero, 0), "open_by_handle_at": (-100, zero, 0), "fanotify_init": (0x200, 0),
    "kexec_load": (0, 0, 0, 0), "init_module": (zero, 0, b""), "finit_module": (0, b"", 0), "delete_module": (b"x", 0),
    "reboot": (0, 0, 0, 0), "swapon": (b"/tmp/x", 0), "acct": (0,), "quotactl": (0, b"", 0, 0), "syslog": (10, 0, 0),
    "sethostname": (b"x", 1), "settimeofday": (zero, 0),
}.items():
    assert syscall(name, *args) == errno.EPERM, (name, syscall(name, *args))
for name in ("modify_ldt", "iopl"):
    assert syscall(name, 0, 0, 0) in (errno.EPERM, errno.ENOSYS), name
for name, args in {
    "io_uring_setup": (1, zero), "io_setup": (1, zero), "shmget": (0, 4096, 0o1600), "msgget": (0, 0o1600), "semget": (0, 1, 0o1600),
    "mq_open": (b"q", 0o102, 0o600, 0), "statmount": (zero, zero, 256, 0),
}.items():
    assert syscall(name, *args) in ABSENT, (name, syscall(name, *args))

# Without address randomisation an exploit would have an easier time.
assert syscall("personality", 0x0040000) != 0
assert FACTS["gvisor"] or syscall("personality", 0xffffffff) == 0

# Typing into a terminal; also with a bit set that the kernel drops.
ours, theirs = os.openpty()
for request in (0x5412, 0x541C, 1 << 32 | 0x5412, 1 << 63 | 0x541C):
    assert syscall("ioctl", theirs, request, b"x") in ABSENT, hex(request)

# Device nodes, with and without the bits of a file type that is allowed.
for kind in (0o020000, 0o060000):
    refused(lambda: os.mknod("/tmp/node", kind | 0o600, os.makedev(1, 1)))


def killed(attempt):
    """Asserts that the attempt ends the process that makes it, or that gVisor knows no such call."""
    pid = os.fork()
    if pid == 0:
        os._exit(1 if attempt() < 0 else 0)
    _, status = os.waitpid(pid, 0)
    if FACTS["gvisor"]:
        assert status != 0, "the call was made"
    else:
        assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGSYS, status
        refusals["SIGSYS"] += 1


def int80():
    code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(bytes.fromhex("b814000000cd80c3"))  # mov eax, getpid; int 0x80; ret
    return ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))()


if MACHINE == 0:
    # The 32-bit calls and the x32 table are second ways in to everything.
    killed(int80)
    killed(lambda: libc.syscall(ctypes.c_long(0x40000000 | 39)))
