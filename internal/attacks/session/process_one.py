"""Process 1, which speaks to the server, cannot be read, traced, written to or held up.

Tried: its memory, descriptors and environment under /proc, ptrace, process_vm_readv, pidfd_getfd; its limits and its priority.
"""
import resource
import struct

shown = []  # what gVisor shows of a process to the others of its user


def hidden(what, attempt):
    """Asserts that the attempt is refused. Under gVisor it may also come through, which is told at the end."""
    try:
        refused(attempt)
    except AssertionError:
        if not FACTS["gvisor"]:
            raise
        shown.append(what)


for part in ("mem", "pagemap", "stack", "task/1/mem"):
    refused(lambda: open(f"/proc/1/{part}", "rb").read(1))
for part in ("maps", "environ", "auxv", "syscall"):
    hidden(part, lambda: open(f"/proc/1/{part}", "rb").read(1))
for part in ("mem", "task/1/mem", "clear_refs"):
    refused(lambda: open(f"/proc/1/{part}", "r+b"))
hidden("oom_score_adj", lambda: open("/proc/1/oom_score_adj", "r+b"))
for part in ("fd", "fdinfo", "map_files", "task/1/fd"):
    hidden(part, lambda: os.listdir(f"/proc/1/{part}"))
for part in ("exe", "cwd", "root"):
    refused(lambda: os.readlink(f"/proc/1/{part}"))
for fd in range(256):
    for flags in (os.O_RDONLY, os.O_WRONLY):
        hidden(f"descriptor {fd}", lambda: os.close(os.open(f"/proc/1/fd/{fd}", flags | os.O_NONBLOCK)))

PTRACE_ATTACH, PTRACE_SEIZE = 16, 0x4206
for request in (PTRACE_ATTACH, PTRACE_SEIZE):
    assert syscall("ptrace", request, 1, 0, 0) != 0, request
space = ctypes.create_string_buffer(64)
place = (ctypes.c_ulong * 2)(ctypes.addressof(space), 64)
for call in ("process_vm_readv", "process_vm_writev"):
    # Whoever may, and only lacks the address, gets EFAULT.
    assert syscall(call, 1, place, 1, place, 1, 0) in (errno.EPERM, errno.ENOSYS), call
try:
    handle = os.pidfd_open(1)
except OSError as err:
    refusals[errno.errorcode[err.errno]] += 1
else:
    for fd in range(16):
        assert syscall("pidfd_getfd", handle, fd, 0) != 0, fd
    os.close(handle)

# With no descriptors, or no time of a processor, it would not see the session's files grow. What is asked for here
# would change nothing but the third. Also with a bit set that the kernel drops.
limits = struct.pack("=QQ", *resource.getrlimit(resource.RLIMIT_NOFILE))
lowered = set()
IDLE, BEST_EFFORT = 5, 2 << 13 | 4
for one in (1, 1 << 32 | 1):
    for call, args in {
        "prlimit64": (one, resource.RLIMIT_NOFILE, limits, 0),
        "setpriority": (os.PRIO_PROCESS, one, 0),
        "sched_setscheduler": (one, IDLE, struct.pack("=i", 0)),
        "sched_setattr": (one, struct.pack("=IIQiIQQQ", 48, 0, 0, 0, 0, 0, 0, 0), 0),
        "ioprio_set": (1, one, BEST_EFFORT),
    }.items():
        if syscall(call, *args) not in (errno.EPERM, errno.ENOSYS):
            assert POD and not POD["seccomp"], call
            lowered.add(call)
for which in (os.PRIO_PGRP, os.PRIO_USER):
    assert syscall("setpriority", which, 0, 0) in (errno.EPERM, errno.ENOSYS) or lowered, which
if lowered:
    raise Unenforced("the container runtime's default list lets code lower limits and priority of its session's other programs: the limit of the files is then the kubelet's, which acts later")
if shown:
    raise Unenforced("gVisor lets the code open the descriptors of process 1, by which it can forge its own session's answers; its memory is closed")
