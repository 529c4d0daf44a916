"""Descriptors of open files: closed, and kept out of the way of code."""

import fcntl
import os


def close_quietly(fd):
    try:
        os.close(fd)
    except OSError:
        pass


def close_all_but(kept):
    """Closes every descriptor above 2 that is not in `kept`."""
    try:
        fds = [int(name) for name in os.listdir("/proc/self/fd")]
    except OSError:
        fds = range(3, 4096)
    for fd in fds:
        if fd > 2 and fd not in kept:
            close_quietly(fd)


def move_high(fd):
    """Moves a descriptor out of the way of code that counts from 3; closed on exec."""
    for low in (200, 20):
        try:
            high = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, low)
        except OSError:
            continue
        os.close(fd)
        return high
    return fd
