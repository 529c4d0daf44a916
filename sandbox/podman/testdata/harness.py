"""Runs one attack, given as the first argument, and prints "held" when the sandbox held.

An attack is Python that raises AssertionError where the sandbox gave way. The names
defined here are at its hand.
"""

import ctypes
import errno
import os
import platform
import sys
import traceback

libc = ctypes.CDLL(None, use_errno=True)

# System call numbers: x86_64, arm64. None where the machine has no such call.
NUMBERS = {
    "acct": (163, 89), "add_key": (248, 217), "bpf": (321, 280), "chroot": (161, 51),
    "clone": (56, 220), "clone3": (435, 435), "delete_module": (176, 106), "fanotify_init": (300, 262),
    "finit_module": (313, 273), "fsopen": (430, 430), "init_module": (175, 105),
    "io_setup": (206, 0), "io_uring_setup": (425, 425), "ioctl": (16, 29), "iopl": (172, None),
    "kcmp": (312, 272), "kexec_load": (246, 104), "keyctl": (250, 219), "modify_ldt": (154, None),
    "mount": (165, 40), "mount_setattr": (442, 442), "move_mount": (429, 429), "mq_open": (240, 180),
    "msgget": (68, 186), "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265),
    "open_tree": (428, 428), "perf_event_open": (298, 241), "personality": (135, 92),
    "pidfd_getfd": (438, 438), "pivot_root": (155, 41), "process_madvise": (440, 440),
    "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "ptrace": (101, 117),
    "quotactl": (179, 60), "reboot": (169, 142), "request_key": (249, 218), "semget": (64, 190),
    "sethostname": (170, 161), "setns": (308, 268), "settimeofday": (164, 170), "shmget": (29, 194),
    "swapon": (167, 224), "syslog": (103, 116), "umount2": (166, 39), "unshare": (272, 97),
    "userfaultfd": (323, 282), "vmsplice": (278, 75), "statmount": (457, 457),
}
MACHINE = {"x86_64": 0, "aarch64": 1}[platform.machine()]


def syscall(name, *args):
    """Makes the call and returns 0 or what errno says it was refused with."""
    number = NUMBERS[name][MACHINE]
    if number is None:
        return errno.ENOSYS
    ctypes.set_errno(0)
    result = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(a) if isinstance(a, int) else a for a in args])
    return ctypes.get_errno() if result == -1 else 0


def refused(attempt, *kinds):
    """Asserts that the attempt raises one of the kinds of error, OSError when none is given."""
    try:
        got = attempt()
    except kinds or (OSError,):
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
    return written


try:
    exec(compile(sys.argv[1], "attack", "exec"), globals())
    print("held")
except BaseException:
    traceback.print_exc(file=sys.stdout)
