"""Descriptors of open files: closed, and kept out of the way of code."""

import fcntl
import os


def close_quietly(fd):
    try:
        os.close(fd)
    except OSError:
        pass


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
