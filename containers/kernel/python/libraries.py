"""The threads of libraries and a copy, which a fork makes without them.

Many libraries start theirs again there. Some threads are stopped before, and started again by both processes. All others
stand against a copy, by the name of their library. Without threads none of this costs anything.
"""

import bisect
import functools
import os
import re
import sys
import time

from event_loop import JOIN_SECONDS, renew_loop, sockets_of
from threads import LOOPS

try:
    import ctypes
except ImportError:  # then libgomp's threads cannot be stopped, and prevent a fork
    ctypes = None

AGAIN = None  # the library starts its threads again in the copy
NEVER = "which nothing ends"

# Part of a library's path, its name, and the function that ends its threads if a copy would lack them. `make test-forks` tries
# the rows of test_forks.py.
LIBRARIES = (
    ("/libarrow.", "pyarrow", AGAIN),
    ("/cv2", "cv2", AGAIN),
    ("/tokenizers", "tokenizers", AGAIN),
    ("/numba/np/ufunc/workqueue", "numba", AGAIN),
    ("/numexpr/interpreter", "numexpr", AGAIN),
    ("/pyduccfft", "scipy", AGAIN),
    ("/pypocketfft", "scipy", AGAIN),
    ("openblas", "OpenBLAS", AGAIN),
    ("/_duckdb", "duckdb", "which close() of its connections ends"),
    ("/zmq/", "zmq", "which destroy() of its context ends"),
    ("/pyzmq.libs/", "zmq", "which destroy() of its context ends"),
    ("/_polars_runtime", "polars", NEVER),
    ("/blosc2", "blosc2", NEVER),
    ("/rasterio", "rasterio", NEVER),
    ("/tensorstore", "tensorstore", NEVER),
    ("/vl_convert", "vl_convert", NEVER),
)
# Threads that a copy does without: an allocator's, and the one that removes polars' spilled files.
HELPERS = {"jemalloc_bg_thd", "polars-ooc-clea"}
# A thread enters its library through this code; it holds something of Python's if it ever called that.
RUNTIME = re.compile(r"/(lib(c|m|pthread|stdc\+\+|gcc_s|c\+\+|python3)|ld-[^/]*|python3)[.\d-][^/]*$")
MOST_STACK = 1 << 16  # bytes of a waiting thread's stack to look at
LOOKS = 8  # at threads that work, until they wait: on a busy machine a new one may get no processor for long
LOOK_SECONDS = 0.001  # after the first look, and twice as much after each

_owners = {}  # living thread: its library, and the function that ends it
_connections = ()  # to databases of DuckDB


def others():
    """The threads of this process beside the main one."""
    return [int(task) for task in os.listdir("/proc/self/task") if int(task) != os.getpid()]


def attempt(step, *args):
    """The result of a step, or nothing if it fails: libraries change."""
    try:
        return step(*args)
    except Exception:
        return None


# -- whose a thread is


def what_a_copy_lacks(is_called):
    """Describes the threads that a fork leaves behind and no copy starts again, and says whether that may change soon.

    Libraries aware of forks ended theirs by now, or began others.
    """
    for look in range(LOOKS):
        working = find_owners(others())
        if not working or is_called():
            break
        time.sleep(LOOK_SECONDS * 2**look)
    lacking = [owner for owner in _owners.values() if owner[1] is not AGAIN]
    if lacking:
        texts = ["%s (%d%s)" % (name, lacking.count((name, end)), end and ", " + end) for name, end in sorted(set(lacking))]
        return "a copy would lack threads of libraries: " + ", ".join(texts), False
    return "threads of a library work: %d" % working if working else "", working > 0


def find_owners(tasks):
    """Notes the libraries of threads that wait, and returns how many do not."""
    for task in _owners.keys() - set(tasks):
        del _owners[task]
    maps, working = None, 0
    for task in tasks:
        try:
            state = read_task(task, "syscall").split()
            if state == ["running"]:
                working += 1
            elif task not in _owners:
                maps = maps or Maps()
                helps = read_task(task, "comm").strip() in HELPERS
                _owners[task] = ("", AGAIN) if helps else library_of(maps.find_outermost(int(state[-2], 16)))
        except (OSError, ValueError, IndexError):  # it ended, or the system does not tell
            if os.path.exists("/proc/self/task/%d" % task):
                _owners[task] = library_of("")
    return working


def read_task(task, name):
    with open("/proc/self/task/%d/%s" % (task, name)) as file:
        return file.read()


def library_of(path):
    for part, name, end in LIBRARIES:
        if part in path:
            return name, end
    package = path.partition("-packages/")[2].partition("/")[0] or os.path.basename(path)
    return package.split(".")[0].lstrip("_") or "unknown", ""


class Maps:
    """The mappings of this process."""

    def __init__(self):
        with open("/proc/self/maps") as file:
            lines = re.findall(r"^(\w+)-(\w+) ..(.). \S+ \S+ \S+ *(.*)$", file.read(), re.MULTILINE)
        self.starts = [int(line[0], 16) for line in lines]
        self.ends = [int(line[1], 16) for line in lines]
        self.code = [line[3] if line[2] == "x" and line[3][:1] == "/" else "" for line in lines]

    def find_outermost(self, pointer):
        """The library whose code comes first on a stack, by its end: there the thread began."""
        end = self.ends[bisect.bisect(self.starts, pointer) - 1]
        with open("/proc/self/mem", "rb", 0) as memory:
            memory.seek(pointer)
            words = memoryview(memory.read(min(end - pointer, MOST_STACK) & ~7)).cast("N")
        for word in reversed(words[: end_of_stack(words, pointer)]):
            at = bisect.bisect(self.starts, word) - 1
            if self.code[at] and word < self.ends[at] and not RUNTIME.search(self.code[at]):
                return self.code[at]
        return ""


def end_of_stack(words, pointer):
    """How many of the words are a thread's. Its descriptor, which on x86 begins with its own address twice, ends them: others' memory may follow."""
    for i in range(len(words) - 2):
        if words[i] == pointer + 8 * i == words[i + 2]:
            return i + 512
    return len(words)


# -- threads stopped before a fork


class Stopped:
    """The threads stopped for a fork, which start again behind it; in the copy with its first message."""

    def __init__(self):
        self.loops = []  # with their modules, and the names of their threads
        self.databases = []  # cursors, with their settings

    def stop_python(self):
        """Stops threads that wait for work: those of executors, and those of zarr's and fsspec's loops."""
        stop_idle_pools()
        for module in map(sys.modules.get, LOOPS):
            thread = getattr(module, "iothread", [None])[0]
            if thread is not None and attempt(stop_loop, module.loop[0], thread):
                self.loops.append((module, module.loop[0], thread.name))

    def stop_native(self):
        """Stops OpenMP's and DuckDB's threads; returns why there can be no copy, or nothing."""
        stop_openmp()
        for connection in list(_connections):
            why = self._stop_database(connection)
            if why:
                return why
        if "duckdb" in sys.modules and self.find_default():
            return self._stop_database(sys.modules["duckdb"].default_connection())
        return ""

    @staticmethod
    def find_default():
        """Whether threads of DuckDB remain: they belong to its default connection, which asking creates."""
        find_owners(others())
        return any(name == "duckdb" for name, _ in _owners.values())

    def _stop_database(self, connection):
        cursor = attempt(connection.cursor)
        if cursor is None:  # it is closed
            return ""
        self.databases.append((cursor, []))
        paths = cursor.execute("SELECT path FROM duckdb_databases() WHERE path <> '' AND NOT readonly").fetchall()
        if paths:  # which the two processes would write over each other's
            return "DuckDB may write to the file %s: close() its connection" % os.path.basename(paths[0][0])
        if cursor.execute("SELECT 1 FROM duckdb_temporary_files()").fetchall():
            return "DuckDB keeps a part of its tables in temporary files"
        for name, least in (("threads", 1), ("async_threads", 0)):
            value = attempt(lambda: cursor.execute("SELECT current_setting(?)", [name]).fetchone()[0])
            if value is not None and value > least and attempt(cursor.execute, "SET %s = %d" % (name, least)):
                self.databases[-1][1].append((name, value))
        return ""

    def sockets(self):
        return [fd for _, loop, _ in self.loops for fd in sockets_of(loop)]

    def start(self, is_copy=False):
        for cursor, settings in self.databases:
            for name, value in settings:
                attempt(cursor.execute, "SET %s = %d" % (name, value))
            attempt(cursor.close)
        for module, loop, name in self.loops:
            attempt(start_loop, module, loop, name, is_copy)
        self.databases, self.loops = [], []


def note_connections(duckdb):
    """Notes all connections to databases that are made from now on."""
    global _connections
    from weakref import WeakSet

    known = _connections = WeakSet()

    def noting(make):
        @functools.wraps(make)
        def connect(*args, **kwargs):
            connection = make(*args, **kwargs)
            known.add(connection)
            return connection

        return connect

    kind = duckdb.DuckDBPyConnection
    for place, name in ((duckdb, "connect"), (kind, "cursor"), (kind, "duplicate")):
        setattr(place, name, noting(getattr(place, name)))


def stop_openmp():
    """Stops OpenMP's threads, which start again with the next loop. There may be several copies of libgomp."""
    if ctypes is None:
        return
    with open("/proc/self/maps") as maps:
        paths = {line.split(None, 5)[5].rstrip("\n") for line in maps if "/libgomp" in line}
    for path in paths:
        try:
            ctypes.CDLL(path).omp_pause_resource_all(1)
        except (OSError, AttributeError):  # one that is gone, or too old to be asked
            pass


def stop_idle_pools():
    """Stops the threads of idle executors: an executor starts others for its next call."""
    module = sys.modules.get("concurrent.futures.thread")
    threads = [thread for thread in list(getattr(module, "_threads_queues", ())) if thread.is_alive()]
    frames = sys._current_frames() if threads else {}
    for pool in {attempt(lambda: thread._args[0]()) for thread in threads} - {None}:
        attempt(stop_idle_pool, pool, module._worker.__code__, frames)


def stop_idle_pool(pool, waiting, frames):
    import threading

    alive = [thread for thread in pool._threads if thread.is_alive()]
    if pool._shutdown or getattr(pool, "_initializer", None) or not pool._work_queue.empty():
        return
    if any(frames[thread.ident].f_code is not waiting for thread in alive):
        return
    try:
        pool._shutdown = True
        pool._work_queue.put(None)  # which each hands on at its end
        for thread in alive:
            thread.join(JOIN_SECONDS)
        pool._threads = {thread for thread in alive if thread.is_alive()}
        pool._idle_semaphore = threading.Semaphore(0)
        if not pool._threads:
            pool._work_queue.get_nowait()
    finally:
        pool._shutdown = False


def stop_loop(loop, thread):
    """Ends the thread of an idle loop, and reports whether it ended."""
    import asyncio

    if not loop.is_running() or asyncio.all_tasks(loop) or loop._scheduled or len(loop._selector.get_map()) > 1:
        return False
    loop.call_soon_threadsafe(loop.stop)
    thread.join(JOIN_SECONDS)
    return not thread.is_alive()


def start_loop(module, loop, name, is_copy):
    import threading

    if is_copy:
        renew_loop(loop)
        for kind in kinds_below(getattr(module, "AsyncFileSystem", None)):
            for instance in list(kind._cache.values()):
                instance._pid = os.getpid()  # it refuses to work in another process
    module.loop[0], module.iothread[0] = loop, threading.Thread(target=loop.run_forever, name=name, daemon=True)
    module.iothread[0].start()


def kinds_below(kind):
    return [kind, *(below for child in kind.__subclasses__() for below in kinds_below(child))] if kind else []
