"""What a process asks of the system for itself, by prctl."""

try:
    import ctypes

    _libc = ctypes.CDLL(None)
except (ImportError, OSError):  # a Python built without libffi: the protections by prctl are missing then
    _libc = None

PR_SET_DUMPABLE = 4
PR_SET_CHILD_SUBREAPER = 36


def prctl(option, value):
    """Sets an attribute of this process where ctypes can; tells whether it worked."""
    try:
        return _libc.prctl(option, value, 0, 0, 0) == 0
    except (OSError, AttributeError):  # also where there is no library
        return False


def hide():
    """Lets no other process of the same user look into this one, or write what it has open."""
    prctl(PR_SET_DUMPABLE, 0)
