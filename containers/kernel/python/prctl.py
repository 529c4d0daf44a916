"""What a process asks of the system for itself."""

try:
    import ctypes

    _libc = ctypes.CDLL(None)
except (ImportError, OSError):  # a Python built without libffi
    _libc = None

_PR_SET_DUMPABLE = 4


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
