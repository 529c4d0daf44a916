"""What a process asks of the system for itself."""

import os

try:
    import ctypes

    _libc = ctypes.CDLL(None)
except (ImportError, OSError):  # a Python built without libffi
    _libc = None

try:
    import resource
except ImportError:
    resource = None

_PR_SET_DUMPABLE = 4
_STACK = 8 << 20  # bytes that are mapped for a thread where nothing says how many


def set_dumpable(value):
    """Lets other processes of the same user look into this one and at what it has open, or with False none of them."""
    if _libc is not None:
        _libc.prctl(_PR_SET_DUMPABLE, int(value), 0, 0, 0)


def raise_oom_score():
    """Makes the out-of-memory killer prefer this process, and what it starts, to process 1."""
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")
    except OSError:
        pass


class DataLimit:
    """The soft limit of what this process may map to write to: the session's memory, and what is mapped already.

    One allocation that could never be filled is a MemoryError then. Programs inherit it.
    """

    def __init__(self, memory_bytes):
        self.bytes = memory_bytes and memory_bytes + _mapped_bytes()
        self.set = None
        self.make_room(0)

    def make_room(self, threads):
        """Adds the stacks of so many threads, of which hardly anything is used."""
        if resource is None or not self.bytes:
            return
        soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
        if self.set not in (None, soft):  # code has set its own
            return
        stack = resource.getrlimit(resource.RLIMIT_STACK)[0]
        limit = self.bytes + threads * (stack if 0 < stack <= 4 * _STACK else _STACK)
        self.set = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        try:
            resource.setrlimit(resource.RLIMIT_DATA, (self.set, hard))
        except (OSError, ValueError):
            pass


def _mapped_bytes():
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[5]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0
