"""System calls of a process for itself."""

import os
from _thread import allocate_lock, start_new_thread  # which threads.py does not know

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
# By machine: the system call clone, the argument for the address of the child's thread id, and its offset in glibc.
_CLONE = {"x86_64": (56, 4, 720), "aarch64": (220, 5, 208)}
_CLONE_FLAGS = 0x8000 | 0x200000 | 0x1000000 | 17  # CLONE_PARENT, CLONE_CHILD_CLEARTID, CLONE_CHILD_SETTID, SIGCHLD
_RENEW_SECONDS = 0.01
_LEAST = 32 << 20  # bytes left for the kernel's own work
_MUCH = 64 << 20  # bytes that a kernel may grow by until it looks for free ones
_STACK = 8 << 20  # bytes mapped for a thread by default


def set_dumpable(value):
    """Lets other processes of the same user look into this one and its open files, or with False none of them."""
    if _libc is not None:
        _libc.prctl(_PR_SET_DUMPABLE, int(value), 0, 0, 0)


def raise_oom_score():
    """Makes the out-of-memory killer prefer this process, and what it starts, to process 1."""
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")
    except OSError:
        pass


def fork_sibling():
    """Forks a process that is a child of this one's parent, if this one runs a single thread and the machine is known.

    Returns 0 in the new process, its id in this one, and None where nothing was forked. The C library's fork() knows no such
    process: its work for other threads is not needed, and the id of the only one is set here.
    """
    number, place, offset = _CLONE.get(os.uname().machine, (0, 0, 0))
    if not number or _libc is None:
        return None
    _libc.pthread_self.restype = ctypes.c_void_p
    tid = _libc.pthread_self() + offset
    if ctypes.c_int.from_address(tid).value != os.getpid():  # another C library
        return None
    arguments = [ctypes.c_long(0)] * 6
    arguments[:2], arguments[place] = [ctypes.c_long(number), ctypes.c_long(_CLONE_FLAGS)], ctypes.c_void_p(tid)
    python, syscall = ctypes.pythonapi, ctypes.PyDLL(None).syscall
    python.PyOS_BeforeFork()
    pid = syscall(*arguments)
    if pid == 0:
        python.PyOS_AfterFork_Child()
        return 0
    python.PyOS_AfterFork_Parent()
    return pid if pid > 0 else None


class Heap:
    """The freed memory that the C library keeps, which counts as taken outside and in twins."""

    def __init__(self):
        self.trim = getattr(_libc, "malloc_trim", None)
        self.least = _pages()[0]

    def give_back(self):
        """Gives it back where there may be much. It takes about a millisecond for 5 MB, so no answer waits for it."""
        taken = _pages()[0]
        if self.trim is not None and taken - self.least > _MUCH:
            self.trim(0)
            self.least = _pages()[0]
        self.least = min(self.least, taken)


class DataLimit:
    """The soft limit of writable mappings: the present ones, and the rest of nine tenths of the session's memory.

    One allocation that could never be filled is a MemoryError then. Programs inherit it. Memory that is reserved and not used counts
    only until the limit is renewed.
    """

    def __init__(self, memory_bytes):
        self.memory_bytes = memory_bytes if resource is not None else 0
        self.bytes = self.threads = self.counted = 0
        self.set = None
        self.lock = allocate_lock()
        self.watched = ()  # locks: the first ends the thread that renews the limit, which gives the second back
        self.renew()
        os.register_at_fork(before=self.unwatch)

    def renew(self):
        with self.lock:
            anonymous, mapped = _pages()
            self.bytes, self.counted = mapped + max(_LEAST, self.memory_bytes // 10 * 9 - anonymous), self.threads
            self._set()

    def make_room(self, threads):
        """Adds the stacks of threads that were not there when it was renewed: hardly anything of them is used."""
        with self.lock:
            self.threads = threads
            self._set()

    def _set(self):
        if not self.memory_bytes:
            return
        soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
        if self.set not in (None, soft):  # code set its own
            return
        stack = resource.getrlimit(resource.RLIMIT_STACK)[0]
        limit = self.bytes + max(0, self.threads - self.counted) * (stack if 0 < stack <= 4 * _STACK else _STACK)
        self.set = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        try:
            resource.setrlimit(resource.RLIMIT_DATA, (self.set, hard))
        except (OSError, ValueError):
            pass

    def watch(self):
        """Renews it again and again, until unwatch(): beside a library that reserves far more in one call than it uses."""
        if self.memory_bytes and not self.watched:
            self.watched = stop, ended = allocate_lock(), allocate_lock()
            stop.acquire()
            ended.acquire()
            start_new_thread(self._watch, self.watched)

    def _watch(self, stop, ended):
        while not stop.acquire(timeout=_RENEW_SECONDS):
            self.renew()
        ended.release()

    def unwatch(self):
        locks, self.watched = self.watched, ()
        if locks:
            locks[0].release()
            locks[1].acquire()


def _pages():
    """Bytes of this process's own memory, and of its writable mappings."""
    try:
        with open("/proc/self/statm") as file:
            _, resident, shared, _, _, data, *_ = map(int, file.read().split())
    except (OSError, ValueError):
        return 0, 0
    size = os.sysconf("SC_PAGE_SIZE")
    return (resident - shared) * size, data * size
