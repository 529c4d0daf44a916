"""Runs one attack and prints its verdict, one line of JSON, on stdout.

An attack is Python that raises AssertionError where the sandbox gave way, and NotTried where it
could not be made. The names defined here are at its hand, and FACTS: see attacks.Facts. It runs
as process 1 of a bare container, or as code in a session.
"""

import collections
import ctypes
import errno
import json
import os
import platform
import signal  # noqa: F401 (attacks use it)
import traceback

libc = ctypes.CDLL(None, use_errno=True)

# System call numbers: x86_64, arm64. None where the machine has no such call.
NUMBERS = {
    "acct": (163, 89), "add_key": (248, 217), "bpf": (321, 280), "chroot": (161, 51),
    "clone": (56, 220), "clone3": (435, 435), "close_range": (436, 436), "creat": (85, None), "delete_module": (176, 106), "fanotify_init": (300, 262),
    "fchmodat2": (452, 452), "finit_module": (313, 273), "fsopen": (430, 430), "init_module": (175, 105),
    "io_setup": (206, 0), "io_uring_setup": (425, 425), "ioctl": (16, 29), "iopl": (172, None),
    "ioprio_set": (251, 30),
    "kcmp": (312, 272), "kexec_load": (246, 104), "keyctl": (250, 219), "modify_ldt": (154, None),
    "mount": (165, 40), "mount_setattr": (442, 442), "move_mount": (429, 429), "mq_open": (240, 180),
    "msgget": (68, 186), "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265),
    "openat2": (437, 437), "open_tree": (428, 428), "perf_event_open": (298, 241), "personality": (135, 92),
    "pidfd_getfd": (438, 438), "pivot_root": (155, 41), "prlimit64": (302, 261),
    "process_madvise": (440, 440),
    "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "ptrace": (101, 117),
    "quotactl": (179, 60), "reboot": (169, 142), "request_key": (249, 218), "sched_setattr": (314, 274),
    "sched_setscheduler": (144, 119), "semget": (64, 190), "sethostname": (170, 161), "setns": (308, 268),
    "setpriority": (141, 140), "settimeofday": (164, 170), "shmget": (29, 194),
    "swapon": (167, 224), "syslog": (103, 116), "umount2": (166, 39), "unshare": (272, 97),
    "userfaultfd": (323, 282), "vmsplice": (278, 75), "statmount": (457, 457),
}
MACHINE = {"x86_64": 0, "aarch64": 1}.get(platform.machine())

FACTS = {}
POD = {}  # of FACTS, and empty where this is no pod
refusals = collections.Counter()
notes = []


class NotTried(Exception):
    """The attack could not be made; says why."""


class Unenforced(Exception):
    """The machine itself is a tighter bound than what was to be attacked, or cannot hold it; says how, and perhaps what mends it."""


def syscall(name, *args):
    """Makes the call and returns 0 or what errno says it was refused with."""
    if MACHINE is None:
        raise NotTried(f"the numbers of system calls are not known for {platform.machine()}")
    number = NUMBERS[name][MACHINE]
    if number is None:
        return errno.ENOSYS
    ctypes.set_errno(0)
    result = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(a) if isinstance(a, int) else a for a in args])
    code = ctypes.get_errno() if result == -1 else 0
    if code:
        refusals[errno.errorcode[code]] += 1
    return code


def refused(attempt, *kinds):
    """Asserts that the attempt raises one of the kinds of error, OSError when none is given."""
    try:
        got = attempt()
    except kinds or (OSError,) as err:
        refusals[errno.errorcode.get(getattr(err, "errno", None), type(err).__name__)] += 1
        return
    raise AssertionError(f"not refused, but gave {got!r}")


def read(path):
    with open(path, errors="replace") as f:
        return f.read()


def fill(path, most):
    """Writes to a new file until it or the place is full; returns how many bytes went in, at most about most."""
    written = 0
    block = b"x" * 65536
    with open(path, "wb", buffering=0) as f:
        try:
            while written <= most:
                written += f.write(block)
        except OSError as err:
            assert err.errno in (errno.ENOSPC, errno.EFBIG), err
            refusals[errno.errorcode[err.errno]] += 1
    return written


def mib(size):
    return f"{size / (1 << 20):.0f} MiB"


def namespace(kind):
    """Asserts that a namespace is not the host's, where the host has told of its own."""
    theirs = FACTS["namespaces"].get(kind)
    if FACTS["gvisor"] and not os.path.lexists("/proc/self/ns/" + kind):
        notes.append(f"gVisor has no {kind} namespaces, and does not share the host's")
    elif theirs:
        assert os.readlink("/proc/self/ns/" + kind) != theirs, f"the {kind} namespace is the host's"
        notes.append(f"the {kind} namespace is not the host's")


def in_child(attempt):
    """Runs the attempt in a process that the kernel kills first for want of memory, and returns how it ended."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            with open("/proc/self/oom_score_adj", "w") as f:
                f.write("1000")
            attempt()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitpid(pid, 0)[1]


def attack(source, facts):
    """Runs the attack and prints its verdict. The last line of what it prints is that."""
    FACTS.update(facts)
    POD.update(facts["pod"] or {})
    outcome, why, fix = "held", "", ""
    try:
        exec(compile(source, "<attack>", "exec"), dict(globals()))
    except AssertionError as err:
        line = [f.lineno for f in traceback.extract_tb(err.__traceback__) if f.filename == "<attack>"][-1]
        outcome, why = "gave way", f"{source.splitlines()[line - 1].strip()}: {err}"
    except Unenforced as err:
        outcome, why, fix = "not enforced", err.args[0], "".join(err.args[1:])
    except NotTried as err:
        outcome, why = "not tried", str(err)
    except Exception as err:
        outcome, why = "not tried", f"{type(err).__name__}: {err}"
    print("\n" + json.dumps({"outcome": outcome, "why": why[:2000], "fix": fix, "refusals": refusals, "notes": notes}))
