"""The Python supervisor: process 1 of a sandbox container.

It speaks the frames of docs/kernel-protocol.md on stdin and stdout. boot.py reads its source
from there too, so it needs nothing but the standard library of Python 3.8 or later, and it
touches no path but the work directory and /proc.

Three kinds of process run this file:

* The *supervisor* is a loop over file descriptors. It never runs the sandboxed code and
  trusts nothing that comes from it. It reads the code's output, keeps time, scans for
  artifacts and talks to the server.
* A *kernel* keeps a user's variables and runs the code on its main thread. The first one
  is forked from the bare supervisor, so that it is there within a millisecond.
* The *zygote* has imported everything that is heavy. It forks kernels that are ready for
  `fresh` runs and for the time after a kernel died, and tells how they ended. It is only
  ever a short cut: without it, kernels are forked from the supervisor.

Between supervisor and kernels: a stream socket with frames of a JSON header and, from the
kernel, a blob. Each run comes to its kernel with two pipes for stdout and stderr.
"""

import errno
import fcntl
import functools
import gc
import json
import os
import select
import signal
import socket
import struct
import sys
import termios
import time

from frames import READ_BYTES, Breach, Lost, ServerLink, decode_object, encode, pack
from prctl import PR_SET_CHILD_SUBREAPER, PR_SET_DUMPABLE, hide, prctl
from screen import Screen
from takeover import Memory, TakeOver
from threads import WORK, Threads
from tree import Count, Tree
from utf8 import partial_head, partial_tail
from volume import TICK, Volume

PROTOCOL = 1
HEADER_BYTES = 2 << 20  # the largest JSON header that a kernel may send
BLOB_BYTES = 6 << 20  # the largest blob: 8 MiB of frame hold 6 MiB as base64
READS_PER_TURN = 8  # how much of a flooded pipe is read before others have their turn
LATE_PIPES = 64  # pipes of past runs that threads and processes may keep open
LATE_PATHS = 8  # files of late output that an answer names
LEAVE_SECONDS = 0.5  # how long programs of an interrupted run may take to end
PRIVATE_NAMES = ("node_modules", "__pycache__")  # what programs make for themselves, by the thousand
PATH_BUDGET = 256 << 10  # bytes of artifact paths in one answer
CLOCK_GRAIN_NS = 10_000_000  # file systems stamp with the tick, up to 10 ms behind the clock
TURN_SECONDS = 2  # how long an import waits for a module that is being preloaded
PRELOAD_AFTER_MS = 50  # idle time of a kernel before it starts to preload
STANDBY_WAIT = 0.5  # seconds that a run waits for a kernel that is being forked
ZYGOTE_LOAD_SECONDS = 120
ZYGOTE_FORK_SECONDS = 10
ZYGOTE_BACKOFF_SECONDS = 5  # doubles with each zygote that was lost, up to 64 times
KILL_SECONDS = 5  # how long a killed process may take to vanish
LOST_SECONDS = 0.1  # between a kernel's end of file and its exit status
# How often a kernel is looked at that no run is in, and that may still fill the work directory.
THREADS_SECONDS = 1  # where it has threads
QUIET_SECONDS = 10  # where it seems to do nothing at all; code can have made it seem so

# What reads as text in a display goes to stdout, where a terminal would show it. The rest is
# shown as the first of these that an object offers.
SHOWN_MIMES = {
    "image/png": "png",
    "image/jpeg": "jpg",
    "image/gif": "gif",
    "image/webp": "webp",
    "image/svg+xml": "svg",
    "text/html": "html",
}


# __main__ becomes the user's module in a kernel; this keeps the one that holds this code.
_OWN_MODULE = sys.modules["__main__"]

# The user's modules may have the names of this program's.
for _name in ("frames", "prctl", "screen", "takeover", "threads", "tree", "utf8", "volume"):
    del sys.modules[_name]


class Become(BaseException):
    """Unwinds a forked child's stack and makes it what `role` says."""

    def __init__(self, role):
        super().__init__()
        self.role = role


# ---------------------------------------------------------------------------------------
# Small tools


def raise_oom_score():
    """Makes the out-of-memory killer prefer this process to process 1."""
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")
    except OSError:
        pass


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


def clean(value, limit):
    """Makes a hostile value a text of at most `limit` bytes of valid UTF-8."""
    if not isinstance(value, str):
        return ""
    if len(value) <= limit and value.isascii():
        return value
    data = value[: limit + 1].encode("utf-8", "replace")
    if len(data) <= limit:
        return data.decode("utf-8")
    keep = max(0, limit - 3)
    return data[: keep - partial_tail(data[:keep])].decode("utf-8", "replace") + "…"


def clean_int(value, default, low, high):
    if isinstance(value, bool) or not isinstance(value, int):
        return default
    return max(low, min(high, value))


def relative_path(value):
    """A path that a kernel named, when it is one that may be passed on, else an empty text."""
    if not isinstance(value, str) or not 0 < len(value) <= 1024 or value[0] == "/":
        return ""
    if any(part in ("", ".", "..") for part in value.split("/")) or "\0" in value or not is_utf8(value):
        return ""
    return value


def is_utf8(name):
    """Whether a file name can be told in UTF-8; others come with lone surrogates from the os module."""
    if name.isascii():
        return True
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def has_module(name):
    """Whether a top-level package is installed, without the cost of importing importlib.util."""
    return any(os.path.isdir(os.path.join(entry, name)) for entry in sys.path if entry)


class Settings:
    """What `init` asks for, with every value made safe to use."""

    def __init__(self, message):
        get = message.get
        self.work_dir = get("work_dir") if isinstance(get("work_dir"), str) and get("work_dir") else "/mnt/data"
        env = get("env") if isinstance(get("env"), dict) else {}
        self.env = {k: v for k, v in env.items() if isinstance(v, str) and k and "=" not in k and "\0" not in k + v}
        preload = get("preload") if isinstance(get("preload"), list) else []
        self.preload = [name for name in preload if isinstance(name, str)]
        self.warm = get("warm") is True
        self.idle_seconds = clean_int(get("idle_seconds"), 0, 0, 1 << 31)
        self.wait_on_eof = get("on_eof") == "wait"
        # Six bytes of JSON may stand for one of output, and a frame holds five such texts.
        self.output_bytes = clean_int(get("output_bytes"), 30_000, 256, 200_000)
        self.spool_bytes = clean_int(get("spool_bytes"), 64 << 20, 0, 1 << 40)
        self.image_bytes = clean_int(get("image_bytes"), 1 << 20, 0, BLOB_BYTES - (1 << 16))
        self.max_displays = clean_int(get("max_displays"), 20, 0, 1000)
        self.max_artifacts = clean_int(get("max_artifacts"), 100, 0, 1000)
        self.volume_bytes = clean_int(get("volume_bytes"), 0, 0, 1 << 62)
        self.volume_files = clean_int(get("volume_files"), 0, 0, 1 << 62)
        self.ipython = has_module("IPython")

    @property
    def preloads(self):
        """Whether there is anything that is worth a zygote."""
        return self.ipython or bool(self.preload)


# ---------------------------------------------------------------------------------------
# Links


def claim_stdio():
    """The link on stdin and stdout, moved to where no child can write by accident."""
    in_fd, out_fd = (move_high(os.dup(fd)) for fd in (0, 1))
    os.set_inheritable(in_fd, False)
    os.set_inheritable(out_fd, False)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    return ServerLink(in_fd, out_fd)


def send_fds(sock, data, fds):
    return sock.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("%di" % len(fds), *fds))])


def receive_fds(sock, size, flags=0):
    """Like recv, with the descriptors that came along."""
    data, ancillary, _, _ = sock.recvmsg(size, socket.CMSG_SPACE(16), flags)
    fds = []
    for level, kind, payload in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            count = len(payload) // 4
            fds.extend(struct.unpack("%di" % count, payload[: count * 4]))
    return data, fds


def pack_report(header, blob=b""):
    data = encode(header).encode("ascii")
    return len(data).to_bytes(4, "big") + len(blob).to_bytes(4, "big") + data + blob


class ChildLink:
    """The supervisor's end of the socket to a kernel or zygote. It never blocks."""

    def __init__(self, sock):
        sock.setblocking(False)
        self.sock = sock
        self.fd = sock.fileno()
        self.inbox = bytearray()
        self.outbox = bytearray()

    def send(self, message, fds=()):
        """Sends or queues a request. Descriptors go with its first byte, so they need an empty queue."""
        data = pack(message)
        try:
            if fds:
                sent = send_fds(self.sock, data, fds)
            else:
                sent = 0 if self.outbox else self.sock.send(data)
        except BlockingIOError:
            sent = 0
            if fds:
                raise Breach("its socket is full") from None
        except OSError as e:
            raise Lost(str(e)) from None
        self.outbox += data[sent:]

    def flush(self):
        """Sends what was queued; tells whether all of it went."""
        try:
            while self.outbox:
                del self.outbox[: self.sock.send(self.outbox)]
        except BlockingIOError:
            return False
        except OSError:
            self.outbox.clear()
        return True

    def receive(self, most=READS_PER_TURN):
        """Yields (header, blob) of what has come. Lost at the end or at a breach of the rules."""
        for _ in range(most):
            try:
                chunk = self.sock.recv(READ_BYTES)
            except BlockingIOError:
                return
            except OSError as e:
                raise Lost(str(e)) from None
            if not chunk:
                raise Lost("end of file")
            self.inbox += chunk
            yield from self._reports()
            if len(chunk) < READ_BYTES:
                return

    def _reports(self):
        while len(self.inbox) >= 8:
            size = int.from_bytes(self.inbox[:4], "big")
            blob_size = int.from_bytes(self.inbox[4:8], "big")
            if size > HEADER_BYTES or blob_size > BLOB_BYTES:
                raise Breach("a frame that is too large")
            end = 8 + size + blob_size
            if len(self.inbox) < end:
                return
            try:
                header = decode_object(self.inbox[8 : 8 + size])
            except ValueError as e:
                raise Breach("a frame that is no JSON object: %s" % e) from None
            blob = bytes(self.inbox[8 + size : end])
            del self.inbox[:end]
            yield header, blob

    def close(self):
        self.sock.close()


# ---------------------------------------------------------------------------------------
# Output of a run


class Spool:
    """The file that takes a stream which is too long to report, up to a limit.

    It lies where the sandboxed code can write, so nothing that is there already is used: no
    links, no other file, and a folder only when it is a real one.
    """

    FOLDER = ".runs"

    def __init__(self, dir_fd, name, limit):
        self.path = "%s/%s" % (self.FOLDER, name)
        self.left = limit
        try:
            self.fd = self._create(dir_fd, name)
        except OSError:
            self.fd = -1
            self.path = ""

    def _create(self, dir_fd, name):
        folder = self._folder(dir_fd)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            try:
                os.unlink(name, dir_fd=folder)
            except OSError:
                pass
            return os.open(name, flags, 0o644, dir_fd=folder)
        finally:
            os.close(folder)

    def _folder(self, dir_fd):
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            return os.open(self.FOLDER, flags, dir_fd=dir_fd)
        except OSError as e:
            if e.errno in (errno.ELOOP, errno.ENOTDIR):
                os.unlink(self.FOLDER, dir_fd=dir_fd)
            elif e.errno != errno.ENOENT:
                raise
        os.mkdir(self.FOLDER, 0o700, dir_fd=dir_fd)
        return os.open(self.FOLDER, flags, dir_fd=dir_fd)

    def write(self, data):
        data = memoryview(data)[: self.left]
        try:
            while data and self.fd >= 0:
                written = os.write(self.fd, data)
                self.left -= written
                data = data[written:]
        except OSError:  # a full volume: what is there already stays
            self.close()

    def close(self):
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


class Stream:
    """What is kept of one output stream: as a terminal would show it, all of it up to a limit, else its two ends.

    Counts and the file are of the stream as it came.
    """

    def __init__(self, limit, make_spool):
        self.limit = limit
        self.half = limit // 2
        self.make_spool = make_spool
        self.screen = Screen()
        self.raw = bytearray()  # until there is a file
        self.spool = None
        self.bytes = 0
        self.last_byte = 10
        self.head = bytearray()
        self.tail = bytearray()
        self.shown_bytes = 0

    def feed(self, chunk):
        self.bytes += len(chunk)
        self.last_byte = chunk[-1]
        self.keep(chunk)
        for piece in self.screen.feed(chunk):
            self._show(piece)

    def keep(self, chunk):
        """Keeps raw output, in the file when it is too much."""
        if self.spool is None:
            self.raw += chunk
            if len(self.raw) > self.limit:
                self.begin_spool()
        else:
            self.spool.write(chunk)

    def begin_spool(self):
        if self.spool is None:
            self.spool = self.make_spool()
            self.spool.write(self.raw)
            self.raw = bytearray()

    def _show(self, data):
        """Takes text that cannot change any more."""
        self.shown_bytes += len(data)
        self.head, self.tail = self._ends(data)

    def _ends(self, data):
        """Head and tail with more text behind them."""
        if self.tail or len(self.head) + len(data) > self.limit:
            if not self.tail:
                data = bytes(self.head) + data
                head, data = data[: self.half], data[self.half :]
            else:
                head = self.head
            return head, (data if len(data) >= self.half else self.tail + data)[-self.half :]
        return self.head + data, self.tail

    def finish(self):
        """Ends the stream: what is on the screen stays as it is."""
        for piece in self.screen.feed(b"", final=True):
            self._show(piece)
        if self._ends(self._rest())[1]:
            self.begin_spool()

    def _rest(self):
        return self.screen.rest().encode("utf-8")

    def retire(self, keeps_raw):
        """Lets go of what was reported; more may come for the file where `keeps_raw`."""
        self.head = self.tail = b""
        self.screen = Screen()
        if not keeps_raw:
            self.raw = bytearray()
            if self.spool:
                self.spool.close()

    def lines(self):
        return self.screen.line_ends + (self.last_byte != 10)

    def last_line(self):
        """The last line that has anything on it, for progress."""
        return self.screen.last_line()[-200:]

    def report(self):
        """The Stream object of the protocol."""
        rest = self._rest()
        head, tail = map(bytes, self._ends(rest))
        report = {"bytes": self.bytes, "lines": self.lines(), "omitted_bytes": 0, "omitted_lines": 0}
        if tail:
            head = head[: len(head) - partial_tail(head)]
            tail = tail[partial_head(tail) :]
            report["omitted_bytes"] = self.shown_bytes + len(rest) - len(head) - len(tail)
            report["omitted_lines"] = self.screen.shown_line_ends - head.count(10) - tail.count(10)
            if self.spool and self.spool.path:
                report["path"] = self.spool.path
        report["head"] = head.decode("utf-8")
        report["tail"] = tail.decode("utf-8")
        return report


# ---------------------------------------------------------------------------------------
# Files that a run made


class Artifacts:
    """Finds the files below the work directory that a run created or changed.

    A file counts when its change time lies in the run, which leaves out what the other
    language's container wrote before. File systems stamp with a coarse clock, so files of the
    last moments before the run are remembered and compared.
    """

    def __init__(self, dir_fd):
        self.dir_fd = dir_fd
        self.recent = {}

    def scan(self, since_ns, most):
        """Tells (list of artifacts, newest first and at most `most`; how many there are)."""
        since_ns -= CLOCK_GRAIN_NS
        recent_ns = time.time_ns() - 5 * CLOCK_GRAIN_NS
        found, recent = [], {}
        for path, info in self._files():
            if info.st_ctime_ns < since_ns or not is_utf8(path):
                continue
            mark = (info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns)
            if info.st_ctime_ns >= recent_ns:
                recent[path] = mark
            if self.recent.get(path) != mark:
                found.append((info.st_mtime_ns, path, info.st_size))
        self.recent = recent
        found.sort(reverse=True)
        return self._report(found[:most]), len(found)

    @staticmethod
    def _report(found):
        artifacts, budget = [], PATH_BUDGET
        for modified_ns, path, size in found:
            budget -= len(path.encode("utf-8"))
            if budget < 0:
                break
            artifacts.append({"path": path, "size_bytes": size, "modified_ms": modified_ns // 1_000_000})
        return artifacts

    @staticmethod
    def _is_public(name, depth):
        return name[0] != "." and name not in PRIVATE_NAMES and not (depth == 0 and name == "input")

    def _files(self):
        """Yields (path, stat result) of the regular files that may be artifacts."""
        for path, entry in Tree(self.dir_fd, wanted=self._is_public):
            try:
                if entry.is_file(follow_symlinks=False):
                    yield path, entry.stat(follow_symlinks=False)
            except OSError:  # gone since it was listed
                continue


# ---------------------------------------------------------------------------------------
# Processes


def process_table():
    """{pid: (parent's pid, start time in ticks)} of everything that is alive."""
    table = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open("/proc/%s/stat" % name, "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            continue
        if len(fields) > 19 and fields[0] not in (b"Z", b"X"):
            table[int(name)] = (int(fields[1]), int(fields[19]))
    return table


def family(table, root):
    """The pids below `root`, without it."""
    children = {}
    for pid, (parent, _) in table.items():
        children.setdefault(parent, []).append(pid)
    found, queue = set(), [root]
    while queue:
        for pid in children.get(queue.pop(), ()):
            if pid not in found:
                found.add(pid)
                queue.append(pid)
    return found


def kill_quietly(pid, signum):
    try:
        os.kill(pid, signum)
    except OSError:
        pass


def ticks_now():
    """The present in the unit of a process's start time."""
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK"))


def activity(pid):
    """(processor time, threads, bytes written) of a process; None for what cannot be read."""
    cpu = threads = written = None
    try:
        with open("/proc/%d/stat" % pid, "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        cpu, threads = int(fields[11]) + int(fields[12]), int(fields[17])
        with open("/proc/%d/io" % pid, "rb") as file:
            counts = dict(line.split(b": ") for line in file.read().splitlines())
        written = int(counts[b"wchar"]) + int(counts[b"write_bytes"])
    except (OSError, LookupError, ValueError):  # also where the system keeps no such counts
        pass
    return cpu, threads, written


class OomCounter:
    """How often the out-of-memory killer struck in this container, where that can be read."""

    FILES = ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control")

    def __init__(self):
        self.fd = -1
        for name in self.FILES:
            try:
                self.fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC)
                break
            except OSError:
                continue

    def read(self):
        try:
            text = os.pread(self.fd, 4096, 0) if self.fd >= 0 else b""
        except OSError:
            return 0
        for line in text.split(b"\n"):
            name, _, count = line.partition(b" ")
            if name == b"oom_kill" and count.isdigit():
                return int(count)
        return 0


class KernelProcess:
    """The supervisor's view of one kernel."""

    def __init__(self, sock, pid=None):
        self.link = ChildLink(sock)
        self.pid = pid  # None until a kernel from the zygote has told it
        self.ready = pid is not None
        self.ended = False
        self.fills = False  # killed because it filled the work directory while no run was in it


class ZygoteProcess:
    """The supervisor's view of the zygote."""

    def __init__(self, sock, pid):
        self.link = ChildLink(sock)
        self.pid = pid
        self.loaded = False


class Run:
    """One run, from its request to its answer."""

    def __init__(self, message, settings, make_spool):
        self.id = message["id"]
        self.code = message["code"]
        self.fresh = message.get("fresh") is True
        self.timeout = clean_int(message.get("timeout_ms"), 0, 0, 1 << 40) / 1000
        self.grace = clean_int(message.get("grace_ms"), 2000, 0, 1 << 31) / 1000
        self.started = time.monotonic()
        self.started_ns = time.time_ns()
        self.started_ticks = ticks_now()
        self.kernel = None
        self.before = set()  # the processes that were there when a fresh run began
        self.reason = ""  # why it was interrupted: timed_out, cancelled or quota
        self.over = ""  # how the files were over their limit then
        self.condemned = False  # killed because it ignored that
        self.displays = 0
        self.reported = (0, 0, self.started)  # what the last progress frame told, and when
        self.stdout = Stream(settings.output_bytes, functools.partial(make_spool, self.id, "stdout"))
        self.stderr = Stream(settings.output_bytes, functools.partial(make_spool, self.id, "stderr"))
        self.pipes = {}  # read end: stream

    @property
    def elapsed_ms(self):
        return int((time.monotonic() - self.started) * 1000)


# ---------------------------------------------------------------------------------------
# The supervisor


class Supervisor:
    """The loop of process 1. One thread; nothing in it waits but the poll itself."""

    SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)

    def __init__(self, server):
        self.server = server
        self.settings = None
        self.poller = select.epoll()
        self.handlers = {}
        self.timers = {}  # name: (when, callback)
        self.main = None
        self.standby = None
        self.zygote = None
        self.zygotes_lost = 0
        self.zygote_due = 0.0
        self.zygote_wanted = False
        self.run = None
        self.late = {}  # pipe of a past run: its stream. They are read on, so that no writer blocks or dies
        self.late_paths = {}  # files that got output since the last answer; an ordered set
        self.oom = OomCounter()
        self.oom_seen = 0
        self.last_frame = time.monotonic()
        self.last_id = ""
        self.takeover = None
        self.memory = None  # where a later server may come
        self.work_fd = -1
        self.artifacts = None
        self.volume = None  # where the work directory has a limit
        self.programs_seen = 0.0  # when programs that runs have left were last found
        self.last_activity = (None, None, None)  # of the main kernel, at the last look without a run
        self.counted_activity = None  # and at the last count

    # -- the loop

    def serve(self):
        self._watch_signals()
        self.watch(self.server.in_fd, self._on_server)
        while True:
            for fd, _ in self.poller.poll(self._patience()):
                handler = self.handlers.get(fd)
                if handler is not None:
                    handler()
            self._fire_timers()

    def watch(self, fd, handler):
        self.handlers[fd] = handler
        self.poller.register(fd, select.EPOLLIN)

    def unwatch(self, fd):
        if self.handlers.pop(fd, None) is not None:
            self.poller.unregister(fd)

    def _patience(self):
        if not self.timers:
            return None
        return max(0.0, min(when for when, _ in self.timers.values()) - time.monotonic())

    def set_timer(self, name, seconds, callback):
        self.timers[name] = (time.monotonic() + seconds, callback)

    def drop_timer(self, name):
        self.timers.pop(name, None)

    def _fire_timers(self):
        if not self.timers:
            return
        now = time.monotonic()
        for name in [name for name, (when, _) in self.timers.items() if when <= now]:
            due = self.timers.get(name)
            if due is not None and due[0] <= now:
                del self.timers[name]
                due[1]()

    def _watch_signals(self):
        for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(signum, lambda *_: self._shut_down())
        signal.signal(signal.SIGCHLD, lambda *_: None)
        wake_r, wake_w = os.pipe()
        os.set_blocking(wake_r, False)
        os.set_blocking(wake_w, False)
        signal.set_wakeup_fd(wake_w, warn_on_full_buffer=False)

        def on_signal():
            try:
                os.read(wake_r, 4096)
            except BlockingIOError:
                pass
            self._reap()

        self.watch(wake_r, on_signal)

    def _shut_down(self):
        self._kill_all(lambda table: family(table, os.getpid()))
        os._exit(0)

    def _log(self, level, message):
        self.server.send({"type": "log", "level": level, "message": clean(message, 2000)})

    # -- frames of the server

    def _on_server(self):
        try:
            messages = self.server.read()
        except Breach as e:
            self._log("error", "the server broke the protocol: %s" % e)
            self._shut_down()
        if messages is None:
            if self.settings is None or not self.settings.wait_on_eof:
                self._shut_down()
            self.unwatch(self.server.in_fd)
            return
        self.last_frame = time.monotonic()
        for message in messages:
            self._dispatch(message)

    def _on_take_over(self, link):
        """A later server has come: it takes the place of the one before and hears what that may have missed."""
        self.unwatch(self.server.in_fd)
        self.server.close()
        self.server = link
        self.watch(link.in_fd, self._on_server)
        self.last_frame = time.monotonic()
        self._send_ready()
        for frame in self.memory.frames:
            link.write(frame)
        for message in link.frames():
            self._dispatch(message)

    def _dispatch(self, message):
        kind = message.get("type")
        if kind == "run":
            self._on_run(message)
        elif kind == "interrupt":
            reason = "timed_out" if message.get("reason") == "timed_out" else "cancelled"
            if self.run is not None and message.get("id") == self.run.id:
                self._interrupt(reason)
        elif kind == "peek":
            self._on_peek(message)
        elif kind == "ping":
            self.server.send({"type": "pong", "n": message.get("n")})
        elif kind == "usage":
            self._on_usage(message)
        elif kind == "init":
            self._on_init(message)
        elif kind == "stop":
            self._shut_down()

    def _on_init(self, message):
        self.settings = Settings(message)
        token = message.pop("token", None)
        if token and isinstance(token, str) and self.takeover is None:
            self._listen(token)
        self._send_ready()
        self._open_work_dir()
        if self.settings.idle_seconds:
            self.set_timer("idle", self.settings.idle_seconds, self._on_idle)
        if self.settings.warm and self.settings.preloads:
            self._want_zygote()

    def _listen(self, token):
        try:
            self.takeover = TakeOver(self, token, self._on_take_over)
        except OSError as e:
            self._log("warn", "no later server can take this over: %s" % e.strerror)
            return
        self.memory = Memory()

    def _send_ready(self):
        self.server.send({
            "type": "ready",
            "protocol": PROTOCOL,
            "language": "python",
            "version": "%d.%d.%d" % sys.version_info[:3],
            "features": ["ipython"] if self.settings.ipython else [],
            "run": self.run.id if self.run is not None else "",
            "last": self.last_id,
        })

    def _open_work_dir(self):
        if self.work_fd >= 0:
            return
        try:
            os.makedirs(self.settings.work_dir, exist_ok=True)
            self.work_fd = os.open(self.settings.work_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            for name in ("input", "output"):
                if not os.path.lexists(os.path.join(self.settings.work_dir, name)):
                    os.mkdir(name, dir_fd=self.work_fd)
        except OSError as e:
            self._log("error", "the work directory cannot be used: %s" % e)
            return
        self.artifacts = Artifacts(self.work_fd)
        if self.settings.volume_bytes or self.settings.volume_files:
            most = self.settings.volume_bytes, self.settings.volume_files
            self.volume = Volume(self.work_fd, *most, pids=self._holders)

    def _holders(self):
        """The processes that code of the session runs in, which may hold files that have no name any more."""
        ours = {self.zygote.pid} if self.zygote is not None else set()
        return family(process_table(), os.getpid()) - ours - {os.getpid()}

    def _on_usage(self, message):
        try:
            count = Count(self.work_fd).finish()
            usage = {"files": count.files, "bytes": count.bytes, "complete": count.complete}
        except OSError:  # there is no work directory any more, or never was
            usage = {"files": 0, "bytes": 0, "complete": False}
        self.server.send(dict(usage, type="usage", n=message.get("n")))

    def _on_idle(self):
        seconds = self.settings.idle_seconds
        left = self.last_frame + seconds - time.monotonic()
        if self.run is not None:
            left = seconds
        if left <= 0:
            self._shut_down()
        self.set_timer("idle", left, self._on_idle)

    def _on_peek(self, message):
        run = self.run
        if run is None or message.get("id") != run.id:
            return
        self.server.send({
            "type": "peek",
            "id": run.id,
            "stdout": run.stdout.report(),
            "stderr": run.stderr.report(),
            "elapsed_ms": run.elapsed_ms,
        })

    # -- a run begins

    def _on_run(self, message):
        run_id, code = message.get("id"), message.get("code")
        if not isinstance(run_id, str) or not isinstance(code, str) or self.settings is None:
            self._log("warn", "a run without an id, without code or before init was ignored")
            return
        if self.run is not None:
            self._refuse(run_id)
            return
        run = self.run = Run(message, self.settings, self._make_spool)
        self.oom_seen = self.oom.read()
        if self.memory is not None:
            self.memory.begin()
        if run.timeout:
            self.set_timer("timeout", run.timeout, lambda: self._interrupt("timed_out"))
        self.set_timer("progress", 1.0, self._on_progress)
        self._provide_kernel(run)

    def _refuse(self, run_id):
        error = {"name": "SessionBusy", "message": "another run goes on in this kernel", "traceback": ""}
        empty = Stream(256, None)
        self.server.send({
            "type": "done", "id": run_id, "status": "failed", "exit_code": 1, "result": None, "error": error,
            "stdout": empty.report(), "stderr": empty.report(), "artifacts": [], "artifacts_total": 0,
            "displays_total": 0, "duration_ms": 0, "cause": "", "kernel": "alive",
        })

    def _make_spool(self, run_id, stream):
        name = "".join(c if c.isalnum() and c.isascii() or c in "_-" else "_" for c in run_id[:64])
        return Spool(self.work_fd, "%s.%s.txt" % (name, stream), self.settings.spool_bytes)

    def _provide_kernel(self, run):
        """Hands the run to the main kernel, to a standby or to a new kernel; or waits for a standby."""
        if not run.fresh and self.main is not None:
            self._hand_over(run, self.main)
        elif self.standby is not None and self.standby.ready:
            kernel, self.standby = self.standby, None
            self._adopt(run, kernel)
        elif self.standby is not None:
            self.set_timer("standby wait", STANDBY_WAIT, self._give_up_standby)
        else:
            self._adopt_bare(run)

    def _give_up_standby(self):
        """The zygote does not deliver, so it is in no state to be used: stopped, or starved."""
        self._drop_zygote("it did not fork in time")
        if self.run is not None and self.run.kernel is None:
            self._adopt_bare(self.run)

    def _adopt_bare(self, run):
        try:
            kernel = self._fork_kernel()
        except OSError as e:
            self._finish(run, "failed", 1, error={
                "name": "KernelStartError",
                "message": "no interpreter could be started: %s" % e.strerror,
                "traceback": "",
            }, kernel="fresh" if run.fresh else "dead")
            return
        self._watch_kernel(kernel)
        self._adopt(run, kernel)

    def _adopt(self, run, kernel):
        if run.fresh:
            run.before = set(process_table())
        else:
            self.main = kernel
        self._hand_over(run, kernel)
        self._prepare_next()

    def _hand_over(self, run, kernel):
        """Gives a kernel the run and the two pipes that it is to write to."""
        run.kernel = kernel
        stdout_r, stdout_w = os.pipe()
        stderr_r, stderr_w = os.pipe()
        for fd, stream in ((stdout_r, run.stdout), (stderr_r, run.stderr)):
            os.set_blocking(fd, False)
            run.pipes[fd] = stream
            self.watch(fd, functools.partial(self._on_output, fd, run, stream))
        try:
            kernel.link.send({"type": "run", "id": run.id, "code": run.code}, (stdout_w, stderr_w))
        except Lost as e:
            self._lose(kernel, e)
        finally:
            os.close(stdout_w)
            os.close(stderr_w)
        self._await_flush(kernel)
        if self.volume is not None:
            self.volume.begin_run()
            self._watch_volume()

    def _await_flush(self, kernel):
        """Lets poll tell when a full socket takes more. A kernel that never reads runs into the timeout."""
        if kernel.link.outbox and kernel.link.fd in self.handlers:
            self.poller.modify(kernel.link.fd, select.EPOLLIN | select.EPOLLOUT)

    # -- kernels

    def _fork_kernel(self):
        """Forks a kernel with nothing imported."""
        sock, pid = self._fork(lambda fd: Kernel(self.settings).serve(fd))
        return KernelProcess(sock, pid)

    def _fork(self, role):
        """Forks a child that becomes `role`, a function of its socket; tells (our socket, pid)."""
        ours, theirs = socket.socketpair()
        # An interrupt that comes early must meet the child's handlers, not the supervisor's.
        signal.pthread_sigmask(signal.SIG_BLOCK, self.SIGNALS)
        try:
            pid = os.fork()
            if pid == 0:
                fd = theirs.detach()
                self._leave(ours, fd)
                raise Become(functools.partial(role, fd))
        except OSError:
            ours.close()
            raise
        finally:
            theirs.close()
            signal.pthread_sigmask(signal.SIG_UNBLOCK, self.SIGNALS)
        return ours, pid

    def _leave(self, ours, kept):
        """In a forked child: lets go of all that is the supervisor's."""
        signal.set_wakeup_fd(-1)
        for signum in self.SIGNALS:
            signal.signal(signum, signal.SIG_DFL)
        signal.signal(signal.SIGINT, ignore_signal)
        # A socket object that is collected later would close a number that is someone else's by then.
        for sock in [ours] + [child.link.sock for child in (self.main, self.standby, self.zygote) if child]:
            sock.detach()
        if self.run is not None and self.run.kernel is not None:
            self.run.kernel.link.sock.detach()
        if self.takeover is not None:
            self.takeover.leave()
        if self.volume is not None:
            self.volume.leave()
        self.poller.close()
        close_all_but({kept})

    def _watch_kernel(self, kernel):
        self.watch(kernel.link.fd, functools.partial(self._on_kernel, kernel))

    def _on_kernel(self, kernel):
        try:
            if kernel.link.outbox and kernel.link.flush():
                self.poller.modify(kernel.link.fd, select.EPOLLIN)
            for header, blob in kernel.link.receive():
                self._on_report(kernel, header, blob)
                if kernel.ended:
                    return
        except Lost as e:
            self._lose(kernel, e)
        except (TypeError, ValueError, LookupError) as e:  # what no check of a hostile frame foresaw
            self._lose(kernel, Breach("a frame that led to %s: %s" % (type(e).__name__, e)))

    def _lose(self, kernel, why):
        """Its link is of no use any more: it dies, or is made to."""
        if kernel.ended:
            return
        self.unwatch(kernel.link.fd)
        if isinstance(why, Breach):
            self._log("warn", "a kernel was killed, because it sent %s" % why)
            self._kill_kernel(kernel)
        else:  # mostly a death whose status is on its way
            self.set_timer("lost %s" % kernel.pid, LOST_SECONDS, lambda: self._kill_kernel(kernel))

    def _kill_kernel(self, kernel):
        if kernel.pid is not None:
            kill_quietly(kernel.pid, signal.SIGKILL)
        # One that no signal can end (a hung file system) must not keep the session locked.
        self.set_timer("kill %s" % kernel.pid, KILL_SECONDS, lambda: self._on_kernel_end(kernel, None))

    def _on_report(self, kernel, header, blob):
        kind = header.get("type")
        run = self.run
        if kind == "hello" and kernel is self.standby and not kernel.ready:
            self._on_hello(kernel, header)
        elif kind == "loaded" and kernel is self.main:
            self._want_zygote()
        elif run is None or kernel is not run.kernel or header.get("id") != run.id:
            return
        elif kind == "display":
            self._on_display(run, header, blob)
        elif kind == "done":
            self._on_done(run, header)

    def _on_hello(self, kernel, header):
        kernel.pid = clean_int(header.get("pid"), None, 2, 1 << 30)
        kernel.ready = kernel.pid is not None
        self.timers.pop("zygote fork", None)
        if self.run is not None and self.run.kernel is None and kernel.ready:
            self.timers.pop("standby wait", None)
            self._provide_kernel(self.run)

    def _on_display(self, run, header, blob):
        run.displays += 1
        mime = header.get("mime")
        if run.displays > self.settings.max_displays or not isinstance(mime, str) or mime not in SHOWN_MIMES:
            return
        message = {"type": "display", "id": run.id, "data": {}, "alt": clean(header.get("alt"), 500)}
        message["size_bytes"] = clean_int(header.get("size"), len(blob), 0, 1 << 50)
        path = relative_path(header.get("path"))
        if path:
            message["path"] = path
        if 0 < len(blob) <= self.settings.image_bytes:
            message["data"][mime] = self._display_text(mime, blob)
        frame = pack(message)
        if self.memory is not None:
            self.memory.add_display(frame)
        self.server.write(frame)

    @staticmethod
    def _display_text(mime, blob):
        if mime.startswith("image/") and mime != "image/svg+xml":
            return to_base64(blob)
        return blob.decode("utf-8", "replace")

    # -- output

    def _on_output(self, fd, run, stream):
        for _ in range(READS_PER_TURN):
            try:
                chunk = os.read(fd, READ_BYTES)
            except BlockingIOError:
                return
            if not chunk:
                self.unwatch(fd)
                os.close(fd)
                run.pipes.pop(fd, None)
                return
            stream.feed(chunk)

    def _settle_pipes(self, run):
        """Takes what was written before the end; what comes later is nobody's."""
        for fd, stream in list(run.pipes.items()):
            left = struct.unpack("i", fcntl.ioctl(fd, termios.FIONREAD, b"\0\0\0\0"))[0]
            while left > 0:
                chunk = os.read(fd, min(left, READ_BYTES))
                if not chunk:
                    break
                stream.feed(chunk)
                left -= len(chunk)
            self.handlers[fd] = functools.partial(self._read_late, fd, stream)
            self.late[fd] = stream
        run.pipes.clear()
        while len(self.late) > LATE_PIPES:
            self._close_late(next(iter(self.late)))
        for stream in (run.stdout, run.stderr):
            stream.finish()

    def _end_streams(self, run):
        """The run is answered. Only streams that threads or programs still hold are kept in mind."""
        for stream in (run.stdout, run.stderr):
            stream.retire(keeps_raw=stream in self.late.values())

    def _read_late(self, fd, stream):
        """Keeps what comes after the run in the run's file: it is no part of any answer."""
        try:
            chunk = os.read(fd, READ_BYTES)
        except BlockingIOError:
            return
        if not chunk:
            self._close_late(fd)
            return
        stream.begin_spool()
        stream.keep(chunk)
        if stream.spool.path and len(self.late_paths) < LATE_PATHS:
            self.late_paths[stream.spool.path] = None

    def _close_late(self, fd):
        stream = self.late.pop(fd)
        stream.retire(keeps_raw=False)
        self.unwatch(fd)
        os.close(fd)

    def _on_progress(self):
        run = self.run
        self.set_timer("progress", 1.0, self._on_progress)
        now = time.monotonic()
        stdout_bytes, stderr_bytes, when = run.reported
        changed = (stdout_bytes, stderr_bytes) != (run.stdout.bytes, run.stderr.bytes)
        if not changed and now - when < 5:
            return
        latest = run.stderr if run.stderr.bytes != stderr_bytes and run.stdout.bytes == stdout_bytes else run.stdout
        run.reported = (run.stdout.bytes, run.stderr.bytes, now)
        self.server.send({
            "type": "progress", "id": run.id, "elapsed_ms": run.elapsed_ms, "stdout_bytes": run.stdout.bytes,
            "stderr_bytes": run.stderr.bytes, "last_line": latest.last_line(),
        })

    # -- a run is stopped

    def _interrupt(self, reason):
        run = self.run
        if run is None or run.reason:
            return
        run.reason = reason
        if run.kernel is None:
            self._finish(run, reason, self._exit_code_of(reason), kernel="fresh" if run.fresh else "dead")
            return
        self.set_timer("grace", run.grace, lambda: self._condemn(run))
        self._keep_signalling(run)

    def _keep_signalling(self, run):
        """Interrupts again while the grace lasts: os.system() and some handlers swallow a signal."""
        self.set_timer("again", max(0.05, run.grace / 4), lambda: self._keep_signalling(run))
        self._signal_run(run)

    def _signal_run(self, run):
        """Interrupts the kernel and what this run started, as the terminal's Ctrl-C would."""
        kernel = run.kernel
        try:
            # Says it to a kernel that has not begun yet, where the signal would be ignored.
            kernel.link.send({"type": "interrupt", "id": run.id})
        except Lost:
            pass
        self._await_flush(kernel)
        table = process_table()
        for pid in family(table, kernel.pid):
            if table[pid][1] >= run.started_ticks:
                kill_quietly(pid, signal.SIGINT)
        kill_quietly(kernel.pid, signal.SIGINT)

    def _condemn(self, run):
        run.condemned = True
        self.timers.pop("again", None)
        self._kill_kernel(run.kernel)

    # -- a run ends

    def _on_done(self, run, header):
        exit_code = clean_int(header.get("exit"), None, 0, 255)
        error = self._clean_error(header.get("error"))
        result = header.get("result")
        result = clean(result, self.settings.output_bytes) if isinstance(result, str) else None
        kernel = "fresh" if run.fresh else "alive"
        if run.reason and not run.fresh:
            self._end_programs(run)
        if run.reason == "quota":
            self._finish_over(run, kernel, result)
            return
        if run.reason:
            status, exit_code = run.reason, self._exit_code_of(run.reason)
        elif error is not None:
            status, exit_code = "failed", 1
        else:
            status, exit_code = ("failed", exit_code) if exit_code else ("completed", 0)
        self._finish(run, status, exit_code, result, error, kernel)

    def _end_programs(self, run):
        """Sees to it that what an interrupted run started ends, also what ignores interrupts."""
        table = process_table()
        started = {(pid, table[pid][1]) for pid in self._programs(table) if table[pid][1] >= run.started_ticks}

        def choose(table):
            left = {pid for pid, start in started if pid in table and table[pid][1] == start}
            return left.union(*(family(table, pid) for pid in left))

        if started:
            self.set_timer("programs of %s" % run.id, LEAVE_SECONDS, lambda: self._kill_all(choose))

    def _finish_over(self, run, kernel, result=None):
        error = {"name": "QuotaExceeded", "message": run.over, "traceback": ""}
        self._finish(run, "failed", 1, result, error, kernel, "quota")

    @staticmethod
    def _exit_code_of(reason):
        return 124 if reason == "timed_out" else 130

    @staticmethod
    def _clean_error(error):
        if not isinstance(error, dict):
            return None
        return {
            "name": clean(error.get("name"), 200) or "Error",
            "message": clean(error.get("message"), 8000),
            "traceback": clean(error.get("traceback"), 32_000),
        }

    def _finish(self, run, status, exit_code, result=None, error=None, kernel="alive", cause=""):
        for name in ("timeout", "progress", "again", "grace", "standby wait"):
            self.timers.pop(name, None)
        self._settle_pipes(run)
        if run.fresh and run.kernel is not None:
            self._end_fresh(run)
        try:
            artifacts, total = self.artifacts.scan(run.started_ns, self.settings.max_artifacts)
        except (OSError, AttributeError):  # there is no work directory any more, or never was
            artifacts, total = [], 0
        self.run = None
        self.last_id = run.id
        self.last_frame = time.monotonic()
        frame = pack({
            "type": "done", "id": run.id, "status": status, "exit_code": exit_code, "result": result, "error": error,
            "stdout": run.stdout.report(), "stderr": run.stderr.report(), "artifacts": artifacts,
            "artifacts_total": total, "displays_total": run.displays, "duration_ms": run.elapsed_ms,
            "cause": cause, "kernel": kernel, "late": list(self.late_paths),
        })
        self.late_paths.clear()
        self._end_streams(run)
        if self.memory is not None:
            self.memory.add_done(frame)
        self.server.write(frame)
        if self.volume is not None:
            self.volume.end_run()
            self.counted_activity = None
            self._watch_volume()
        self._prepare_next()

    def _end_fresh(self, run):
        """Kills what a fresh run leaves: its kernel and all that was not there before it."""
        kernel = run.kernel
        if not kernel.ended:
            kernel.ended = True
            self.unwatch(kernel.link.fd)
            kill_quietly(kernel.pid, signal.SIGKILL)
            kernel.link.close()
        self._kill_all(lambda table: self._strays(table) - run.before)

    def _strays(self, table):
        """What was started by code and is not, and does not belong to, a kernel or zygote that stays."""
        strays = family(table, os.getpid())
        for kernel in (self.main, self.standby):
            if kernel is not None and kernel.pid is not None:
                strays -= family(table, kernel.pid) | {kernel.pid}
        if self.zygote is not None:  # and what it forks just now, whose pid is not known yet
            strays -= {self.zygote.pid} | {pid for pid in strays if table[pid][0] == self.zygote.pid}
        return strays

    def _kill_all(self, choose):
        """Kills what `choose` finds in the process table, until it finds nothing new."""
        killed = set()
        for _ in range(50):
            table = process_table()
            new = {(pid, table[pid][1]) for pid in choose(table)} - killed
            if not new:
                return
            for pid, _ in new:
                kill_quietly(pid, signal.SIGKILL)
            killed |= new
        if os.getpid() == 1:  # a fork bomb is faster than this loop, but not than the kernel's own
            os.kill(-1, signal.SIGKILL)

    # -- processes end

    def _reap(self):
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self._on_exit(pid, status)

    def _on_exit(self, pid, status):
        if self.zygote is not None and self.zygote.pid == pid:
            self._drop_zygote("it died")
        for kernel in (self.main, self.standby, self.run.kernel if self.run else None):
            if kernel is not None and kernel.pid == pid:
                self._on_kernel_end(kernel, status)

    def _on_kernel_end(self, kernel, status):
        """A kernel is dead. What it said before still counts."""
        if kernel.ended:
            return
        self._read_last_words(kernel)
        if kernel.ended:
            return
        kernel.ended = True
        for name in ("kill", "lost"):
            self.timers.pop("%s %s" % (name, kernel.pid), None)
        self.unwatch(kernel.link.fd)
        kernel.link.close()
        if kernel is self.standby:
            self.standby = None
            return
        cause = "quota" if kernel.fills else self._cause(status)
        run = self.run
        if kernel is self.main:
            self.main = None
            self._kill_leftovers()
        if run is not None and run.kernel is kernel:
            self._finish_killed(run, cause)
        else:
            self.server.send({"type": "kernel", "state": "dead", "cause": cause})
            self._prepare_next()

    def _read_last_words(self, kernel):
        try:
            for header, blob in kernel.link.receive(most=64):
                self._on_report(kernel, header, blob)
                if kernel.ended:
                    return
        except (Lost, ValueError, OSError):
            pass

    def _kill_leftovers(self):
        """Kills what a dead main kernel had started, and nothing of a fresh run that goes on."""
        keep, before = None, None
        if self.run is not None and self.run.fresh and self.run.kernel is not None:
            keep, before = self.run.kernel.pid, self.run.before

        def choose(table):
            strays = self._strays(table)
            if keep is not None:
                strays = (strays & before) - family(table, keep) - {keep}
            return strays

        self._kill_all(choose)

    def _cause(self, status):
        if status is None:
            return "signal %d" % signal.SIGKILL
        if not os.WIFSIGNALED(status):
            return "exit %d" % os.WEXITSTATUS(status)
        if os.WTERMSIG(status) == signal.SIGKILL and self.oom.read() > self.oom_seen:
            return "memory"
        return "signal %d" % os.WTERMSIG(status)

    def _finish_killed(self, run, cause):
        kernel = "fresh" if run.fresh else "dead"
        if run.reason == "quota" or cause == "quota":
            run.over = run.over or self.volume.describe()
            self._finish_over(run, kernel)
        elif run.condemned:
            self._finish(run, run.reason, self._exit_code_of(run.reason), kernel=kernel, cause="ignored_interrupt")
        elif run.reason and cause != "memory":
            self._finish(run, run.reason, self._exit_code_of(run.reason), kernel=kernel, cause=cause)
        else:
            self._finish(run, "killed", 137, kernel=kernel, cause=cause)

    # -- the limit of the work directory

    def _watch_volume(self):
        """Looks within a tick; calls that follow each other closely do not put it off."""
        due = self.timers.get("volume")
        if due is None or due[0] > time.monotonic() + TICK:
            self.set_timer("volume", TICK, self._on_volume)

    def _on_volume(self):
        counted = self.volume.look()
        run = self.run
        if run is None:
            pause = self._look_without_run(counted)
        else:
            pause = TICK
            if counted and run.kernel is not None and self.volume.is_exceeded():
                run.over = run.over or self.volume.describe()
                self._interrupt("quota")
        if pause:
            self.set_timer("volume", pause, self._on_volume)

    def _look_without_run(self, counted):
        """Stops what fills the work directory between runs; tells when to look again, or None."""
        seen = activity(self.main.pid) if self.main is not None else (None, None, None)
        moved, self.last_activity = seen != self.last_activity, seen
        if counted:
            if self.volume.has_grown():
                self._stop_writers(seen)
            self.counted_activity = seen
        if self._has_programs() or not self.volume.is_settled:
            return TICK
        if self.main is None:
            return None
        if moved:
            return TICK
        return THREADS_SECONDS if seen[1] != 1 else QUIET_SECONDS

    def _has_programs(self):
        """Whether programs that runs have left still live; they are looked for once a second."""
        now = time.monotonic()
        if now - self.programs_seen < 1:
            return True
        if not self._programs(process_table()):
            return False
        self.programs_seen = now
        return True

    def _programs(self, table):
        """What runs have started and have left behind: all that is no kernel and no zygote."""
        programs = family(table, os.getpid())
        if self.zygote is not None:  # and what it forks just now, whose pid is not known yet
            programs -= {self.zygote.pid} | {pid for pid in programs if table[pid][0] == self.zygote.pid}
        return programs - {kernel.pid for kernel in (self.main, self.standby) if kernel is not None}

    def _stop_writers(self, seen):
        """Kills the programs that runs have left, or else the main kernel where its own threads write."""
        self._log("warn", "programs that write between runs are killed: %s" % self.volume.describe())
        if self._programs(process_table()):
            self._kill_all(self._programs)
        elif self.main is not None and self._has_written(seen):
            self.main.fills = True
            self._kill_kernel(self.main)

    def _has_written(self, seen):
        """Whether the main kernel wrote what was added since the last count, or made the files.

        The other language's container may have done it, and every kernel writes a little.
        """
        if self.counted_activity is None:
            return False
        cpu, _, written = self.counted_activity
        grown, more_files = (now - then for now, then in zip(self.volume.level, self.volume.before))
        if written is None or seen[2] is None or more_files > 0:
            return cpu != seen[0]
        return 2 * (seen[2] - written) >= grown

    # -- the zygote and the standby kernel: made while nothing else is to do

    def _want_zygote(self):
        self.zygote_wanted = True
        self._prepare_next()

    def _prepare_next(self):
        """Gets ready what later runs will want: a zygote between runs, a kernel that stands by at any time."""
        if not self.zygote_wanted:
            return
        if self.zygote is None:
            if self.run is not None:
                return
            wait = self.zygote_due - time.monotonic()
            if wait > 0:
                self.set_timer("zygote due", wait, self._prepare_next)
            else:
                self._start_zygote()
        elif self.zygote.loaded and self.standby is None:
            self._order_standby()

    def _start_zygote(self):
        try:
            sock, pid = self._fork(lambda fd: Zygote(self.settings, fd).serve())
        except OSError as e:
            self._put_off_zygote("it could not be forked: %s" % e.strerror)
            return
        self.zygote = ZygoteProcess(sock, pid)
        self.watch(self.zygote.link.fd, self._on_zygote)
        self.set_timer("zygote load", ZYGOTE_LOAD_SECONDS, lambda: self._drop_zygote("it did not load in time"))

    def _on_zygote(self):
        zygote = self.zygote
        try:
            for header, _ in zygote.link.receive():
                if header.get("type") == "loaded":
                    zygote.loaded = True
                    self.timers.pop("zygote load", None)
                    self._prepare_next()
                elif header.get("type") == "exit":
                    self._on_exit(header.get("pid"), clean_int(header.get("status"), None, 0, 1 << 16))
        except Lost as e:
            self._drop_zygote(str(e))

    def _order_standby(self):
        ours, theirs = socket.socketpair()
        self.standby = KernelProcess(ours)
        try:
            self.zygote.link.send({"type": "fork"}, (theirs.fileno(),))
        except Lost as e:
            self._drop_zygote(str(e))
            return
        finally:
            theirs.close()
        self._watch_kernel(self.standby)
        self.set_timer("zygote fork", ZYGOTE_FORK_SECONDS, lambda: self._drop_zygote("it did not fork in time"))

    def _drop_zygote(self, why):
        zygote, self.zygote = self.zygote, None
        if zygote is None:
            return
        for name in ("zygote load", "zygote fork"):
            self.timers.pop(name, None)
        kill_quietly(zygote.pid, signal.SIGKILL)
        self.unwatch(zygote.link.fd)
        zygote.link.close()
        if self.standby is not None and not self.standby.ready:
            self._drop_standby()
        self._put_off_zygote(why)

    def _drop_standby(self):
        standby, self.standby = self.standby, None
        standby.ended = True
        self.unwatch(standby.link.fd)
        standby.link.close()
        if self.run is not None and self.run.kernel is None:
            self.timers.pop("standby wait", None)
            self._adopt_bare(self.run)

    def _put_off_zygote(self, why):
        """A zygote that code kills again and again must not eat the time of the runs."""
        self._log("info", "the zygote was lost: %s" % why)
        wait = ZYGOTE_BACKOFF_SECONDS * 2 ** min(self.zygotes_lost, 6)
        self.zygotes_lost += 1
        self.zygote_due = time.monotonic() + wait
        self.set_timer("zygote due", wait, self._prepare_next)


def to_base64(data):
    import binascii

    return binascii.b2a_base64(data, newline=False).decode("ascii")


# ---------------------------------------------------------------------------------------
# Inside a kernel: what code shows


class Displays:
    """Shows images and documents: a file in full, and a frame where it is small enough."""

    def __init__(self, settings, tell):
        self.settings = settings
        self.tell = tell
        self.numbers = {}
        self.pictures_shown = set()  # hashes

    def begin_run(self):
        self.pictures_shown.clear()

    def publish(self, bundle, alt="", again=True):
        """Shows a MIME bundle: its best picture, or else its text on stdout.

        With again false not a picture that this run has shown already.
        """
        if PLOTLY in bundle:
            self._show_plotly(bundle[PLOTLY])
            return
        for mime in SHOWN_MIMES:
            if bundle.get(mime):
                data = as_bytes(mime, bundle[mime])
                if again or hash(data) not in self.pictures_shown:
                    self._show(mime, data, alt, "page" if mime == "text/html" else "image")
                return
        text = text_of(bundle)
        if text:
            print(text)

    def _show_plotly(self, figure):
        """Keeps an interactive figure as a page; what it is made of would tell a reader little."""
        from plotly.io import to_html, to_image

        title = str(figure.get("layout", {}).get("title", {}).get("text") or "an interactive figure")[:500]
        page = to_html(figure, include_plotlyjs="cdn", validate=False)
        self._show("text/html", page.encode("utf-8"), title, "figure", in_frame=False)
        if has_module("kaleido"):
            try:
                self._show("image/png", to_image(figure, format="png", validate=False), title, "figure")
            except Exception as e:  # it may want a browser that is not there
                print("the figure is a page only: %s" % str(e)[:200], file=sys.stderr)

    def _show(self, mime, data, alt, stem, in_frame=True):
        header = {"type": "display", "mime": mime, "size": len(data), "alt": alt}
        shown = data if in_frame and len(data) <= self.settings.image_bytes else b""
        if mime.startswith("image/"):
            self.pictures_shown.add(hash(data))
            if mime in RASTERS and (not shown or pixels_of_png(data) > MOST_PIXELS):
                header["mime"], shown = smaller_picture(mime, data, self.settings.image_bytes)
        if mime.startswith("image/") or not shown:
            path = self._save(data, stem, SHOWN_MIMES[mime])
            if path:
                header["path"] = path
        self.tell(header, shown)

    def _save(self, data, stem, extension):
        """Writes a new file under output/ and tells its path, or nothing when that cannot be."""
        folder = os.path.join(self.settings.work_dir, "output")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            os.makedirs(folder, exist_ok=True)
            while True:
                number = self.numbers[stem] = self.numbers.get(stem, 0) + 1
                name = "%s-%d.%s" % (stem, number, extension)
                try:
                    fd = os.open(os.path.join(folder, name), flags, 0o644)
                    break
                except FileExistsError:
                    continue
            with open(fd, "wb") as file:
                file.write(data)
        except OSError as e:
            print("the %s was not saved: %s" % (stem, e.strerror), file=sys.stderr)
            return ""
        return "output/" + name

    # -- matplotlib

    def show_figure(self, figure, again=True):
        """Shows a figure; with again false only when this run has not shown the same picture yet."""
        data = figure_png(figure)
        if again or hash(data) not in self.pictures_shown:
            self._show("image/png", data, figure_title(figure), "figure")

    def show_open_figures(self, again=True):
        """Shows and closes what pyplot holds open, in the order of its numbers."""
        helpers = sys.modules.get("matplotlib._pylab_helpers")
        if not getattr(getattr(helpers, "Gcf", None), "figs", None):
            return
        managers = helpers.Gcf.get_all_fig_managers()
        try:
            for manager in managers:
                self.show_figure(manager.canvas.figure, again)
        finally:
            helpers.Gcf.destroy_all()


MOST_PIXELS = 4_000_000  # of a picture in a frame
MOST_DRAWN_PIXELS = 25_000_000  # of a figure in its file
RASTERS = ("image/png", "image/jpeg")


def pixels_of_png(data):
    """How many pixels a PNG's header claims; 0 for anything else."""
    if data[:8] != b"\x89PNG\r\n\x1a\n" or len(data) < 24:
        return 0
    width, height = struct.unpack(">II", data[16:24])
    return width * height


def smaller_picture(mime, data, most_bytes):
    """A picture that fits into a frame, as (type, data); no data where that cannot be made."""
    import io
    import warnings

    try:
        from PIL import Image

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about pictures that are very large
            picture = Image.open(io.BytesIO(data))
            picture = picture.convert("RGBA" if "A" in picture.getbands() or "transparency" in picture.info else "RGB")
        scale = (MOST_PIXELS / (picture.width * picture.height)) ** 0.5
        while scale * min(picture.size) >= 1:
            if scale < 1:
                picture = picture.resize([max(1, int(scale * side)) for side in picture.size])
            for kind, mode in (("png", picture.mode), ("jpeg", "RGB")):
                buffer = io.BytesIO()
                picture.convert(mode).save(buffer, kind)
                if buffer.tell() <= most_bytes:
                    return "image/" + kind, buffer.getvalue()
            scale = 0.5
    except Exception:  # no Pillow, or nothing that it can read: the file has it
        pass
    return mime, b""


def figure_png(figure):
    """A figure as PNG, as a notebook shows it, in its own colours."""
    import io

    buffer = io.BytesIO()
    canvas = figure.canvas
    if not hasattr(canvas, "print_png"):
        from matplotlib.backends.backend_agg import FigureCanvasAgg

        canvas = FigureCanvasAgg(figure)
    width, height = figure.get_size_inches()
    canvas.print_figure(
        buffer,
        format="png",
        dpi=min(figure.dpi, (MOST_DRAWN_PIXELS / max(width * height, 1e-6)) ** 0.5),
        facecolor=figure.get_facecolor(),
        edgecolor=figure.get_edgecolor(),
        bbox_inches="tight",
    )
    return buffer.getvalue()


def is_figure(value):
    return type(value).__name__ == "Figure" and type(value).__module__ == "matplotlib.figure"


def figure_title(figure):
    """The titles that a figure bears, for those who cannot see it."""
    titles = [getattr(figure, "_suptitle", None)] + [axes.title for axes in figure.axes]
    texts = [title.get_text().strip() for title in titles if title is not None]
    return "; ".join(text for text in texts if text)[:500]


def as_bytes(mime, value):
    """The content of a MIME bundle's entry: images come as base64 or as bytes."""
    if isinstance(value, bytes):
        return value
    if not isinstance(value, str):
        value = str(value)
    if mime.startswith("image/") and mime != "image/svg+xml":
        import binascii

        return binascii.a2b_base64(value)
    return value.encode("utf-8", "replace")


def text_of(bundle):
    """What a terminal would show of a MIME bundle."""
    plain = bundle.get("text/plain") or ""
    if PLOTLY in bundle:
        return plain.partition("(")[0]  # the whole would be all of its data
    for mime in ("text/markdown", "text/latex"):
        if is_bare(plain) and isinstance(bundle.get(mime), str):
            return bundle[mime]
    if is_bare(plain) and "application/json" in bundle:
        return json.dumps(bundle["application/json"], indent=2, ensure_ascii=False, default=repr)
    return plain


def is_bare(text):
    """Whether a repr says nothing but what class it is of, such as <IPython.core.display.HTML object>."""
    return not text or (text[0] == "<" and text[-1] == ">")


REPR_METHODS = {
    "image/png": "_repr_png_",
    "image/jpeg": "_repr_jpeg_",
    "image/svg+xml": "_repr_svg_",
    "text/html": "_repr_html_",
    "text/markdown": "_repr_markdown_",
    "text/latex": "_repr_latex_",
    "application/json": "_repr_json_",
}
PLOTLY = "application/vnd.plotly.v1+json"
PICTURES = ("text/plain", "image/png", "image/jpeg", "image/gif", "image/webp", "image/svg+xml", PLOTLY)


def mime_bundle(value):
    """Formats a value by Jupyter's rules, for Pythons without IPython.

    Other than a notebook it asks for HTML and the like only where there is neither a picture
    nor a text of its own: a table is better read as text.
    """
    bundle = {"text/plain": plain_text(value)}
    kind = type(value)
    if is_figure(value):
        bundle["image/png"] = figure_png(value)
        return bundle
    if isinstance(value, type):
        return bundle
    found = call_repr(kind, "_repr_mimebundle_", value) or {}
    bundle.update((mime, content) for mime, content in found.items() if wanted(mime, bundle))
    for mime, name in REPR_METHODS.items():
        if mime not in found and wanted(mime, bundle):
            content = call_repr(kind, name, value)
            if content is not None:
                bundle[mime] = content
    return bundle


def wanted(mime, bundle):
    return mime in PICTURES or is_bare(bundle["text/plain"])


def call_repr(kind, name, value):
    """What a display method of a class returns, without the metadata that may come with it."""
    method = getattr(kind, name, None)
    content = method(value) if method is not None else None
    return content[0] if isinstance(content, tuple) else content


LAID_OUT_CHARS = 100_000  # laying out what is longer takes too long


def plain_text(value):
    """repr(), with containers laid out and cut as notebooks do it."""
    most = 1000
    if type(value) not in (list, tuple, set, frozenset, dict) or not value:
        return repr(value)
    import itertools
    import pprint

    note = ""
    if len(value) > most:
        note = "\n... %d of %d items shown" % (most, len(value))
        value = type(value)(itertools.islice(value.items() if isinstance(value, dict) else value, most))
    text = repr(value)
    if 79 < len(text) <= LAID_OUT_CHARS:
        text = pprint.pformat(value, width=79, compact=True, sort_dicts=False)
    return text + note


AGG = "matplotlib.backends.backend_agg"
POOLS = "concurrent.futures.thread"


class ImportHook:
    """Changes a module as soon as code has imported it.

    It is a finder that only wraps one module's loader, so nothing is imported before the code does it.
    """

    def __init__(self, name, change):
        self.name = name
        self.change = change

    def find_spec(self, name, path=None, target=None):
        if name != self.name:
            return None
        from importlib.machinery import PathFinder

        spec = PathFinder.find_spec(name, path)
        if spec is None or spec.loader is None:
            return spec
        load = spec.loader.exec_module

        def exec_module(module):
            load(module)
            self.change(module)

        spec.loader.exec_module = exec_module
        return spec


# ---------------------------------------------------------------------------------------
# Inside a kernel: errors


def own_frame(frame):
    return frame.f_globals is globals() or frame.f_code.co_filename == "<threads>"


_MACHINERY = ("/IPython/", "/asyncio/", "<frozen importlib")


def user_frames(error):
    """The (frame, line) pairs of a traceback without what stands before the user's code."""
    pairs, tb = [], error.__traceback__
    while tb is not None:
        if not own_frame(tb.tb_frame):
            pairs.append((tb.tb_frame, tb.tb_lineno))
        tb = tb.tb_next
    start = 0
    while start < len(pairs) and any(part in pairs[start][0].f_code.co_filename for part in _MACHINERY):
        start += 1
    return pairs[start:]


_LIBRARIES = ("/site-packages/", "/dist-packages/", "<frozen ", ".pyx", ".pxi", os.path.dirname(os.__file__) + "/")


def is_library(pair):
    return any(part in pair[0].f_code.co_filename for part in _LIBRARIES)


def leave_out(pairs, first, last, what):
    """The ends of a list of frames, with a line that tells how many are left out between them."""
    if len(pairs) <= first + last + 1:
        return pairs
    note = "  ... %d frames %sleft out ...\n" % (len(pairs) - first - last, what)
    return [*pairs[:first], note, *pairs[-last:]]


def shorten_frames(pairs, most):
    """Leaves out the inside of libraries, and the middle of what is still too long then."""
    import itertools

    kept = []
    for inside, group in itertools.groupby(pairs, is_library):
        group = list(group)
        kept += leave_out(group, 1, 1, "in libraries ") if inside else group
    return leave_out(kept, most // 2, most // 2, "")


def format_frames(pairs, most=20):
    import itertools
    import traceback

    if not pairs:
        return []
    lines = ["Traceback (most recent call last):\n"]
    for is_note, group in itertools.groupby(shorten_frames(pairs, most), lambda entry: isinstance(entry, str)):
        lines += group if is_note else traceback.StackSummary.extract(list(group)).format()
    return lines


def format_error(error, depth=0, seen=None):
    """An error with its causes as a short traceback, a list of lines."""
    import traceback

    seen = seen if seen is not None else set()
    seen.add(id(error))
    lines = []
    cause, context = error.__cause__, error.__context__
    if cause is not None and id(cause) not in seen and depth < 5:
        lines += format_error(cause, depth + 1, seen)
        lines.append("\nThe above exception was the direct cause of the following exception:\n\n")
    elif context is not None and not error.__suppress_context__ and id(context) not in seen and depth < 5:
        lines += format_error(context, depth + 1, seen)
        lines.append("\nDuring handling of the above exception, another exception occurred:\n\n")
    lines += format_frames(user_frames(error), 8 if isinstance(error, RecursionError) else 20)
    # Given a traceback, TracebackException adds its "Did you mean" to names.
    summary = traceback.TracebackException(type(error), error, error.__traceback__, limit=-1, lookup_lines=False)
    lines += summary.format_exception_only()
    for inner in list(getattr(error, "exceptions", ()))[:10] if depth < 5 else ():
        if isinstance(inner, BaseException) and id(inner) not in seen:
            lines += ["  | " + line for part in format_error(inner, depth + 1, seen) for line in part.splitlines(True)]
    return lines


def shorten(text, limit):
    if len(text) <= limit:
        return text
    half = limit // 2
    return "%s\n... %d characters left out ...\n%s" % (text[:half], len(text) - 2 * half, text[-half:])


def describe(error):
    """The protocol's error object; what the error's own methods raise is passed on."""
    return {
        "name": type(error).__name__,
        "message": shorten(error.msg or "" if isinstance(error, SyntaxError) else str(error), 4000),
        "traceback": shorten("".join(format_error(error)), 16_000),
    }


# ---------------------------------------------------------------------------------------
# Inside a kernel: running code


class NoInput:
    """sys.stdin of code that nobody can answer."""

    encoding = "utf-8"
    errors = "strict"
    newlines = None
    closed = False
    name = "<stdin>"
    mode = "r"

    def _refuse(self, *_):
        raise EOFError("input is not available: nobody can answer while code runs")

    read = readline = readlines = _refuse

    def __iter__(self):
        return iter(())

    def fileno(self):
        return 0

    def isatty(self):
        return False

    def readable(self):
        return True

    def writable(self):
        return False

    def close(self):
        pass


class Exiter:
    """exit() and quit(): they end the run, not the kernel."""

    def __init__(self, name):
        self.name = name

    def __call__(self, code=None):
        raise SystemExit(code)

    def __repr__(self):
        return "%s() ends this run; the variables stay" % self.name


class EventLoop:
    """The one asyncio loop of a kernel, so that tasks go on in the next run that awaits."""

    CANCELS = 3  # how often a task may swallow that
    CANCEL_SECONDS = 0.2  # how long it may take each time

    def __init__(self, route):
        self.route = route  # makes output depend on who writes
        self.loop = None
        self.earlier = set()  # tasks of earlier runs

    def run(self, coroutine):
        import asyncio

        if self.loop is None or self.loop.is_closed():
            self.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self.loop)  # asyncio.run() in an earlier run has taken it away
        self.route()
        task = self.loop.create_task(coroutine)
        try:
            return self.loop.run_until_complete(task)
        except BaseException:
            self._cancel([task])  # interrupted: or it would go on in the next run
            raise

    def is_running(self):
        return self.loop is not None and self.loop.is_running()

    def is_waiting(self):
        """Whether something is left that may go on in a later run."""
        if self.loop is None or self.loop.is_closed():
            return False
        return bool(self._tasks() or getattr(self.loop, "_scheduled", None) or getattr(self.loop, "_ready", None))

    def _tasks(self):
        if self.loop is None or self.loop.is_closed():
            return set()
        import asyncio

        return asyncio.all_tasks(self.loop)

    def begin_run(self):
        self.earlier = self._tasks()

    def stop_run(self, work):
        """Cancels the tasks and timers of the run that goes on."""
        if self.loop is None or self.loop.is_closed():
            return
        for timer in list(getattr(self.loop, "_scheduled", ())):
            context = getattr(timer, "_context", None)
            if context is not None and context.get(WORK) is work:
                timer.cancel()
        self._cancel(self._tasks() - self.earlier)

    def _cancel(self, tasks):
        import asyncio

        for _ in range(self.CANCELS):
            tasks = [task for task in tasks if not task.done()]
            if not tasks:
                return
            for task in tasks:
                task.cancel()
            waiter = self.loop.create_task(asyncio.wait(tasks, timeout=self.CANCEL_SECONDS))
            try:
                self.loop.run_until_complete(waiter)
            except KeyboardInterrupt:  # it comes again while the grace lasts
                waiter.cancel()
        if any(not task.done() for task in tasks):
            self.loop = None  # a task that cannot be stopped never runs again


class PlainEngine:
    """Runs code with compile and exec: the whole engine where there is no IPython, else the first one."""

    CO_COROUTINE = 0x80

    def __init__(self, kernel):
        import __future__

        self.kernel = kernel
        self.namespace = kernel.namespace
        self.inputs = [""]
        self.outputs = {}
        self.flags = 0
        self.features = [getattr(__future__, name).compiler_flag for name in __future__.all_feature_names]
        self.last = [None, None, None]

    def parse(self, code, name):
        import ast

        return self._compile(code, name, "exec", ast.PyCF_ONLY_AST)

    def _compile(self, source, name, mode, more=0):
        import ast

        flags = self.flags | more | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        return compile(source, name, mode, flags, dont_inherit=True)

    def evaluate(self, code):
        """Runs a cell and shows its last expression."""
        import ast

        name = remember_source(code, self.kernel.count)
        self.inputs.append(code)
        try:
            tree = self.parse(code, name)
        except SyntaxError as e:
            raise self._explain(e, code) from None
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        parts = [self._compile(tree, name, "exec")] if tree.body else []
        if last is not None:
            parts.append(self._compile(ast.Expression(last.value), name, "eval"))
        value = self._execute(parts)
        if last is not None and value is not None and not self._silenced(last, code):
            self._remember(value)
            self.kernel.show(value, mime_bundle(value))

    def _execute(self, parts):
        """Runs the parts of a cell; all of them inside the event loop when one awaits."""
        for code in parts:
            self.flags |= sum(flag for flag in self.features if code.co_flags & flag and not self.flags & flag)
        if any(code.co_flags & self.CO_COROUTINE for code in parts):
            return self.kernel.event_loop.run(self._await(parts))
        value = None
        for code in parts:
            value = eval(code, self.namespace)
        return value

    async def _await(self, parts):
        value = None
        for code in parts:
            value = eval(code, self.namespace)
            if code.co_flags & self.CO_COROUTINE:
                value = await value
        return value

    def _explain(self, error, code):
        """Says of IPython's own syntax why it does not work here."""
        lines = code.splitlines()
        line = lines[error.lineno - 1].strip() if error.lineno and error.lineno <= len(lines) else ""
        if line[:1] in ("%", "!") or "=!" in line.replace(" ", "") or "=%" in line.replace(" ", ""):
            error.msg = (
                "%magic and !command need IPython, which this image does not have; use the subprocess module instead"
            )
        return error

    @staticmethod
    def _silenced(last, code):
        """Whether a semicolon follows the last expression."""
        line = code.splitlines()[last.end_lineno - 1].encode("utf-8")
        return line[last.end_col_offset :].lstrip().startswith(b";")

    def _remember(self, value):
        """Keeps `_`, `__` and `___`, unless the code uses that name for itself."""
        names = ("_", "__", "___")
        if any(name in self.namespace and self.namespace[name] is not old for name, old in zip(names, self.last)):
            return
        self.last = [value] + self.last[:2]
        self.namespace.update(zip(names, self.last))
        if self.kernel.settings.ipython:
            self.outputs[self.kernel.count] = value

    # Packages that show what they make through IPython's shell, and only where there is one.
    IPYTHON_USERS = ("IPython", "plotly")
    IPYTHON_NAMES = ("display", "get_ipython", "In", "Out", "_ih", "_oh", "_dh", "_i", "_ii", "_iii")

    def needs_ipython(self, code):
        """Whether a cell is not plain Python, or uses what only IPython defines."""
        import ast

        try:
            tree = self.parse(code, "<cell>")
        except SyntaxError:
            return True
        if any(name in code for name in self.IPYTHON_USERS):
            return True
        if not any(text in code for text in ("display", "get_ipython", "In", "Out", "_")):
            return False
        names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        return any(text in names and text not in self.namespace for text in self.IPYTHON_NAMES)


class IPythonEngine:
    """Runs code in IPython's shell, which reports to the kernel instead of printing."""

    def __init__(self, kernel, plain):
        self.kernel = kernel
        self.error = None
        self.shell = make_shell(self, kernel)
        self._take_over(plain)

    def _take_over(self, plain):
        """Carries over what the plain engine had: inputs, outputs, future imports."""
        shell = self.shell
        history = shell.history_manager
        history.input_hist_raw[:] = plain.inputs
        history.input_hist_parsed[:] = plain.inputs
        history.output_hist.update(plain.outputs)
        shell.compile.flags |= plain.flags
        hook = shell.displayhook
        if plain.outputs:
            hook._, hook.__, hook.___ = plain.last
            shell.user_ns.update({"_": plain.last[0], "__": plain.last[1], "___": plain.last[2]})
            shell.user_ns.update(("_%d" % number, value) for number, value in plain.outputs.items())

    def evaluate(self, code):
        shell = self.shell
        shell.execution_count = self.kernel.count
        self.error = None
        result = shell.run_cell(code, store_history=True)
        error = result.error_before_exec or result.error_in_exec or self.error
        self.error = None
        if isinstance(error, SyntaxError):
            error = self._explain(error, code)
        if error is not None:
            raise error

    def _explain(self, error, code):
        """Python's own error where the cell itself is at fault: IPython's says less."""
        try:
            code = self.shell.transform_cell(code)
        except SyntaxError:
            pass
        try:
            self.kernel.plain.parse(code, "<cell %d>" % self.kernel.count)
        except SyntaxError as e:
            return e.with_traceback(None)
        return error

    def on_traceback(self, error):
        """IPython would print this error. It fails the run instead, also one in a %magic."""
        if error is None:
            error = getattr(sys, "last_value", None)  # %tb
            if error is not None:
                print("".join(format_error(error)), file=sys.stderr)
            return
        self.error = error


def make_shell(engine, kernel):
    """Builds IPython's shell on the kernel's namespace: no history file, no colours, no config."""
    import tempfile
    import warnings

    from IPython.core.compilerop import CachingCompiler
    from IPython.core.displayhook import DisplayHook
    from IPython.core.displaypub import DisplayPublisher
    from IPython.core.formatters import DisplayFormatter, PlainTextFormatter
    from IPython.core.interactiveshell import InteractiveShell
    from IPython.core.profiledir import ProfileDir
    from IPython.lib.pretty import RepresentationPrinter
    from traitlets.config import Any, Config, Configurable

    displays = kernel.displays

    class Compiler(CachingCompiler):
        def cache(self, transformed_code, number=0, raw_code=None):
            return remember_source(transformed_code, number)

    class Formatter(DisplayFormatter):
        """Asks for HTML and the like only where there is neither a picture nor a text of its own."""

        def format(self, obj, include=None, exclude=None):
            if include or exclude:
                return super().format(obj, include, exclude)
            is_formula = type(obj).__module__.startswith("sympy.")  # whose picture says no more than its text
            data, metadata = super().format(obj, include="text/plain" if is_formula else PICTURES)
            if is_figure(obj):
                metadata["alt"] = figure_title(obj)
            if not data or len(data) > 1 or not is_bare(data.get("text/plain", "")):
                return data, metadata
            return super().format(obj)

    class Text(PlainTextFormatter):
        """Ends where the rest would be cut off: a large value takes minutes to lay out."""

        def __call__(self, obj):
            stream = BoundedText(2 * kernel.settings.output_bytes)
            printer = RepresentationPrinter(
                stream,
                self.verbose,
                self.max_width,
                self.newline,
                max_seq_length=self.max_seq_length,
                singleton_pprinters=self.singleton_printers,
                type_pprinters=self.type_printers,
                deferred_pprinters=self.deferred_printers,
            )
            try:
                printer.pretty(obj)
                printer.flush()
            except Enough:
                pass
            return "".join(stream.parts)

    class Hook(DisplayHook):
        def __call__(self, result=None):
            self.check_for_underscore()
            if result is None or self.quiet():
                return
            data = self.compute_format_data(result)[0]
            self.update_user_ns(result)
            self.fill_exec_result(result)
            kernel.show(result, data)

    class Publisher(DisplayPublisher):
        def publish(self, data, metadata=None, source=None, **_):
            displays.publish(data, str((metadata or {}).get("alt") or ""))

        def clear_output(self, wait=False):
            pass

    class InlineBackend(Configurable):
        """Takes the %config lines that notebooks begin with; figures are shown without it."""

        figure_format = figure_formats = Any().tag(config=True)
        close_figures = print_figure_kwargs = rc = Any().tag(config=True)

    class Shell(InteractiveShell):
        compiler_class = Compiler
        display_pub_class = Publisher
        displayhook_class = Hook
        system = InteractiveShell.system_raw  # the piped one needs a pseudo terminal

        def init_profile_dir(self, profile_dir):
            self.profile_dir = ProfileDir.create_profile_dir(tempfile.mkdtemp(prefix=".ipython-"))

        def init_display_formatter(self):
            self.display_formatter = Formatter(parent=self)
            self.configurables.append(self.display_formatter)

        def enable_gui(self, gui=None):
            pass

        def enable_matplotlib(self, gui=None):
            return gui or "inline", "agg"

        def showtraceback(self, exc_tuple=None, *_, **__):
            engine.on_traceback(exc_tuple[1] if exc_tuple else sys.exc_info()[1])

        def showsyntaxerror(self, *_, **__):
            engine.on_traceback(sys.exc_info()[1])

        def showindentationerror(self):
            engine.on_traceback(sys.exc_info()[1])

    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "NoColor"
    config.InteractiveShell.banner1 = ""
    folder = tempfile.gettempdir()
    shell = Shell.instance(
        config=config, user_module=sys.modules["__main__"], user_ns=kernel.namespace, ipython_dir=folder
    )
    shell.configurables.append(InlineBackend(parent=shell))
    shell.loop_runner = kernel.event_loop.run
    shell.user_ns.update(exit=Exiter("exit"), quit=Exiter("quit"))
    shell.set_hook("show_in_pager", show_in_pager)
    formatters = shell.display_formatter.formatters
    formatters["image/png"].for_type_by_name("matplotlib.figure", "Figure", figure_png)
    formatters["text/plain"] = Text(parent=shell.display_formatter)
    formatters["text/plain"].for_type_by_name("pandas.io.formats.style", "Styler", print_styler)
    warnings.filterwarnings("ignore", message="To exit: use", module="IPython")
    return shell


class Enough(BaseException):
    """Ends what makes a text that is longer than wanted."""


class BoundedText:
    """Where a printer writes to, until there is enough."""

    def __init__(self, most):
        self.parts = []
        self.left = most

    def write(self, text):
        self.parts.append(text[: self.left + 1])
        self.left -= len(text)
        if self.left < 0:
            raise Enough


def print_styler(styler, printer, _cycle):
    """A styled table as text; its own repr says nothing, and its HTML little to a model."""
    printer.text(styler.to_string(delimiter="  ").rstrip("\n"))


def show_in_pager(_shell, data, **_):
    """IPython's hook for what would page in a terminal, such as `len?`."""
    print(data["text/plain"] if isinstance(data, dict) else data)


def remember_source(code, number):
    """Names a cell and lets tracebacks and inspect find its lines."""
    import linecache

    name = "<cell %d>" % number
    # Without a time, linecache does not look for a file of that name.
    linecache.cache[name] = (len(code), None, code.splitlines(True), name)
    return name


# ---------------------------------------------------------------------------------------
# The kernel


def import_quietly(name):
    """Imports a module; one that is missing or broken says so to the code that imports it."""
    try:
        __import__(name)
    except Exception:
        pass


def is_in_cwd(name):
    """Whether a kernel, which looks into the current folder first, would take the module from there."""
    top = name.partition(".")[0]
    return os.path.isdir(top) or os.path.exists(top + ".py")


class Preload:
    """Imports modules in a background thread while code may run and import too.

    Two threads in packages that import each other in a circle would see half of them: Python
    breaks such a deadlock by handing out modules that are not complete. So while this goes on,
    an import by the code waits for the one module that is being preloaded, and the preload
    waits for the code's. The standard library, which has no such circles, does not wait.
    """

    def __init__(self, names):
        import builtins
        import importlib
        import threading

        self.names = names
        self.stdlib = getattr(sys, "stdlib_module_names", ())
        self.turn = threading.RLock()
        self.waiting = 0
        self.done = False
        self.wake_r, self.wake_w = (move_high(fd) for fd in os.pipe())
        self.hooks = [(builtins, "__import__"), (importlib, "import_module")]
        self.originals = [getattr(*hook) for hook in self.hooks]
        self.guards = [self._guard(original) for original in self.originals]
        for hook, guard in zip(self.hooks, self.guards):
            setattr(*hook, guard)
        # The main thread gets the interpreter within this time when a run comes meanwhile.
        self.interval = sys.getswitchinterval()
        sys.setswitchinterval(0.0001)
        self.thread = threading.Thread(target=self._import_all, name="preload", daemon=True)
        try:
            self.thread.start()
        except RuntimeError:
            self.done = True
            self._take_back()
            raise

    def _guard(self, original):
        from threading import current_thread

        def guarded(name, *args, **kwargs):
            if self.done or current_thread() is self.thread or self._harmless(name, args):
                return original(name, *args, **kwargs)
            self.waiting += 1
            mine = False
            try:
                # Who waits may be inside another import, whose lock the preload may want: a wait
                # with an end cannot become a deadlock.
                mine = self.turn.acquire(timeout=TURN_SECONDS)
                return original(name, *args, **kwargs)
            finally:
                self.waiting -= 1
                if mine:
                    self.turn.release()

        return functools.wraps(original)(guarded)

    def _harmless(self, name, args):
        """Whether an import is of the standard library, or by it of a part of its own."""
        if len(args) > 3 and args[3]:
            name = (args[0] or {}).get("__package__") or ""
        return name.partition(".")[0] in self.stdlib

    def _import_all(self):
        try:
            for name in self.names:
                while self.waiting:
                    time.sleep(0.001)
                with self.turn:
                    if not is_in_cwd(name):  # a file of the user's runs when code imports it
                        import_quietly(name)
        finally:
            self.done = True
            os.write(self.wake_w, b"x")

    def hold(self):
        """Before a fork: stops between two modules. A fork would copy locks that nobody releases."""
        self.held = self.turn.acquire(timeout=TURN_SECONDS)

    def let_go(self):
        if self.held:
            self.turn.release()

    def finish(self):
        """Waits for the end and takes everything back that code has not changed meanwhile."""
        self.thread.join()
        self._take_back()

    def _take_back(self):
        sys.setswitchinterval(self.interval)
        for hook, original, guard in zip(self.hooks, self.originals, self.guards):
            if getattr(*hook) is guard:
                setattr(*hook, original)
        close_quietly(self.wake_r)
        close_quietly(self.wake_w)


class Kernel:
    """One interpreter with a user's variables. Its main thread runs the code."""

    def __init__(self, settings):
        self.settings = settings
        self.module = sys.modules["__main__"] = type(sys)("__main__")
        self.namespace = self.module.__dict__
        self.namespace["__builtins__"] = __builtins__
        self.threads = Threads()
        self.event_loop = EventLoop(self.threads.route_all)
        self.interrupted = False
        self.displays = Displays(settings, self.tell_display)
        self.plain = PlainEngine(self)
        self.engine = None
        self.modules = {}  # sys.modules as it was before the first run
        self.preload = None
        self.warm = not settings.preloads
        self.count = 0
        self.result = None
        self.run_id = None
        self.pid = 0
        self.sock = None
        self.inbox = bytearray()
        self.fds = []
        sys.meta_path.insert(0, ImportHook(AGG, self._hook_agg))
        sys.meta_path.insert(0, ImportHook(POOLS, self._hook_pools))

    def _hook_agg(self, module):
        """Gives matplotlib's Agg backend, the default here, a show() that shows."""
        module.show = lambda *args, **kwargs: self.displays.show_open_figures()

    def _hook_pools(self, module):
        kind = getattr(module, "_WorkItem", None)
        if isinstance(kind, type):
            module._WorkItem = self.threads.pool_item(kind)

    # -- before the first run

    def load(self):
        """Imports and builds everything at once: in the zygote."""
        for name in self._modules():
            import_quietly(name)
        self._build_shell()
        self.warm = True
        self.modules = dict(sys.modules)  # here, because a fork that touches them all copies all of their pages

    def _modules(self):
        names = (["IPython.core.interactiveshell"] if self.settings.ipython else []) + self.settings.preload
        if "matplotlib.pyplot" in names:  # which the first figure would import
            names.append(AGG)
        return names

    def _build_shell(self):
        if self.engine is None and self.settings.ipython:
            try:
                self.engine = IPythonEngine(self, self.plain)
            except Exception as e:
                # An IPython that cannot be used must not cost the session: plain Python works on.
                self.settings.ipython = False
                print("IPython could not be started: %s: %s" % (type(e).__name__, e), file=sys.stderr)

    def serve(self, fd):
        """The life of a kernel; never returns."""
        self._enter(fd)
        self._tell({"type": "hello", "pid": self.pid})
        while True:
            message = self._next_message()
            if message.get("type") == "run":
                if len(self.fds) < 2:  # another process of the code's has taken them
                    os._exit(1)
                self._run(message, self.fds.pop(0), self.fds.pop(0))
            elif message.get("type") == "interrupt":  # for a run that was just over
                self.threads.stop(message.get("id"))

    def _enter(self, fd):
        self.pid = os.getpid()
        os.setsid()
        prctl(PR_SET_DUMPABLE, 1)
        raise_oom_score()
        self.null_fd = move_high(os.open(os.devnull, os.O_RDWR))
        for target in (0, 1, 2):
            os.dup2(self.null_fd, target)
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, move_high(fd))
        os.environ.update(self.settings.env)
        for name, value in DEFAULT_ENV.items():
            os.environ.setdefault(name, value)
        try:
            os.chdir(self.settings.work_dir)
        except OSError:
            os.chdir("/")
        sys.argv = [""]
        sys.path.insert(0, "")
        self.modules = self.modules or dict(sys.modules)
        self.threads.install()
        self.threads.loop_runs = self.event_loop.is_running
        self._set_up_builtins()
        signal.signal(signal.SIGINT, ignore_signal)
        reseed()

    def _set_up_builtins(self):
        import builtins
        import faulthandler

        builtins.exit, builtins.quit = Exiter("exit"), Exiter("quit")
        if not self.settings.ipython:
            builtins.display = self._display
        self.make_streams()
        faulthandler.enable(2)

    def _display(self, *values, **_):
        for value in values:
            alt = figure_title(value) if is_figure(value) else ""
            self.displays.publish(mime_bundle(value), alt)

    # -- messages

    def _next_message(self):
        while True:
            message = self._take_message()
            if message is not None:
                return message
            if not self.warm and self.count:
                self._use_idle_time()
            try:
                data, fds = receive_fds(self.sock, 1 << 16)
            except OSError:
                os._exit(0)
            if not data:
                os._exit(0)
            self.fds += fds
            self.inbox += data

    def _take_message(self, kind=None):
        """The next message that is all there, or None; also where it is not of the kind that is wanted."""
        if len(self.inbox) < 4:
            return None
        end = 4 + int.from_bytes(self.inbox[:4], "big")
        if len(self.inbox) < end:
            return None
        message = json.loads(self.inbox[4:end])
        if kind and message.get("type") != kind:
            return None
        del self.inbox[:end]
        return message

    def _tell(self, header, blob=b""):
        # A forked child of the code has a copy of this socket and must not speak on it.
        if os.getpid() == self.pid:
            with self.threads.lock:  # frames of two threads must not mix
                self.sock.sendall(pack_report(header, blob))

    def tell_display(self, header, blob):
        """Sends a display while code runs: an interrupt must not tear a frame."""
        if self.threads.late_work() is not None:  # the run that it belongs to is over
            print("[%s] %s" % (header["mime"], header.get("path", "is not kept")))
            return
        header["id"] = self.run_id
        without_interrupts(self._tell, header, blob)

    # -- the time between runs

    def _use_idle_time(self):
        """Preloads in the background until the next message comes.

        What has to be on the main thread, IPython's shell, follows when the imports are done.
        """
        if self.preload is None:
            if select.select([self.sock], [], [], PRELOAD_AFTER_MS / 1000)[0]:
                return
            try:
                self.preload = Preload(self._modules())
            except (OSError, RuntimeError):  # no descriptor or no thread is left: the code imports by itself
                self.warm = True
                return
            os.register_at_fork(
                before=self.preload.hold, after_in_parent=self.preload.let_go, after_in_child=self.preload.let_go
            )
        try:
            ready = select.select([self.sock, self.preload.wake_r], [], [])[0]
        except OSError:  # code has closed the pipe: the end of the imports is waited for instead
            ready = []
        if self.sock not in ready:
            self.preload.finish()
            self._build_shell()
            self.warm = True
            self._tell({"type": "loaded"})

    # -- a run

    def _run(self, message, out_fd, err_fd):
        if self.count == 0:
            prctl(PR_SET_DUMPABLE, 1)
        self.run_id = message["id"]
        self.count += 1
        self.result = None
        self.interrupted = False
        self._restore(out_fd, err_fd)
        reserve = self._reserve_fds()
        self.displays.begin_run()
        _, error = self._attempt(self._evaluate, message["code"])
        if error is not None:
            self._attempt(self._show_rest)
        report = {"type": "done", "id": self.run_id, "result": self.result}
        self._describe_outcome(report, error)
        self._leave_if_forked()
        self._see_interrupts()
        if self.interrupted:
            self._attempt(self._stop_started)
        self._stop_timers()
        for fd in reserve:
            close_quietly(fd)
        self.threads.end(self.event_loop.is_waiting())
        self.run_id = None
        self._tell(report)

    def _stop_started(self):
        """Ends the tasks and threads that an interrupted run has started."""
        self.event_loop.stop_run(self.threads.current)
        names = self.threads.stop(self.run_id)
        if names:
            print(
                "note: threads of this run have not ended yet and will when they come back from what they wait for: "
                + ", ".join(names)[:500],
                file=sys.stderr,
            )

    @staticmethod
    def _stop_timers():
        """An alarm that rings later would interrupt another run, or end the kernel."""
        for timer in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF):
            signal.setitimer(timer, 0)

    def _restore(self, out_fd, err_fd):
        """Gives the code its standard streams; code of runs before may have closed or replaced them."""
        if "builtins" not in sys.modules:  # sys.modules.clear() would make every later run fail
            sys.modules.update(self.modules)
        self.threads.flush()  # what came between the runs
        prctl(PR_SET_DUMPABLE, 1)  # a run before may have hidden what this process has open
        fds = [move_high(fd) for fd in (out_fd, err_fd)]
        for target, fd in enumerate(fds, 1):
            os.dup2(fd, target)
        try:
            os.dup2(self.null_fd, 0)
        except OSError:
            self.null_fd = move_high(os.open(os.devnull, os.O_RDWR))
            os.dup2(self.null_fd, 0)
        if is_closed(self.stdout) or is_closed(self.stderr):
            self.make_streams()
        sys.stdin, sys.stdout, sys.stderr = self.stdin, self.stdout, self.stderr
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT,))
        self.event_loop.begin_run()
        self.threads.begin(self.run_id, fds)

    def _reserve_fds(self):
        """Room for the next run's two descriptors, should this run use up all that there are."""
        try:
            return [fcntl.fcntl(self.null_fd, fcntl.F_DUPFD_CLOEXEC, 200) for _ in range(2)]
        except OSError:
            return []

    def make_streams(self):
        self.stdin, (self.stdout, self.stderr) = NoInput(), self.threads.make_outputs()
        sys.stdin = sys.__stdin__ = self.stdin
        sys.stdout = sys.__stdout__ = self.stdout
        sys.stderr = sys.__stderr__ = self.stderr

    def _attempt(self, step, *args):
        """Runs a step that an interrupt may end; tells (value, error)."""
        try:
            try:
                signal.signal(signal.SIGINT, signal.default_int_handler)
                return step(*args), None
            finally:
                signal.signal(signal.SIGINT, ignore_signal)
        except BaseException as e:
            signal.signal(signal.SIGINT, ignore_signal)  # it may have come inside the finally
            return None, e

    def _evaluate(self, code):
        self._check_interrupt()
        if self.engine is None and self.settings.ipython and self.plain.needs_ipython(code):
            without_interrupts(self._build_shell)  # half of IPython could not be imported again
        (self.engine or self.plain).evaluate(code)
        self._show_rest()

    def _show_rest(self):
        """What a notebook shows at the end of a cell: open figures, and what print still holds."""
        try:
            self.displays.show_open_figures(again=False)
        finally:
            self._flush()

    def _check_interrupt(self):
        """Sees an interrupt that came before the signal could be taken."""
        self._see_interrupts()
        if self.interrupted:
            raise KeyboardInterrupt

    def _see_interrupts(self):
        """Takes the interrupts that have come."""
        try:
            data, fds = receive_fds(self.sock, 1 << 16, socket.MSG_DONTWAIT)
        except OSError:  # mostly: nothing has come
            return
        # Code that forges the end of its run makes the next one come early: that has to wait.
        self.fds += fds
        self.inbox += data
        while True:
            message = self._take_message("interrupt")
            if message is None:
                return
            if message.get("id") == self.run_id:
                self.interrupted = True

    def show(self, value, bundle):
        """Takes the value of a cell's last expression: as the result, and as a display if it is a picture."""
        self.result = cut_text(text_of(bundle), self.settings.output_bytes) or None  # none: it has shown itself
        if PLOTLY in bundle or any(bundle.get(mime) for mime in SHOWN_MIMES):
            self.displays.publish(bundle, figure_title(value) if is_figure(value) else "", again=False)

    def _describe_outcome(self, report, error):
        if error is None:
            return
        if isinstance(error, SystemExit):
            report["exit"] = self._exit_code(error.code)
            return
        sys.last_type, sys.last_value, sys.last_traceback = type(error), error, error.__traceback__
        described, trouble = self._attempt(describe, error)
        report["error"] = described or {
            "name": type(error).__name__,
            "message": "the error could not be described: its own methods raised %s" % type(trouble).__name__,
            "traceback": "",
        }

    def _exit_code(self, code):
        """As the interpreter does it: a number, nothing, or a text for stderr and 1."""
        if code is None:
            return 0
        if isinstance(code, int):
            return code & 0xFF
        self._attempt(self._print_exit, code)
        return 1

    @staticmethod
    def _print_exit(code):
        print(code, file=sys.stderr)

    def _flush(self):
        for stream in {sys.stdout, sys.stderr, self.stdout, self.stderr}:
            try:
                stream.flush()
            except (OSError, ValueError, AttributeError):
                pass

    def _leave_if_forked(self):
        """Code that forked and did not exit in the child ends here, as a script would."""
        if os.getpid() != self.pid:
            os._exit(0)


def cut_text(text, limit):
    """A text of at most `limit` bytes."""
    data = text[: limit + 1].encode("utf-8", "replace")
    if len(data) <= limit:
        return text
    keep = limit - 3
    return data[: keep - partial_tail(data[:keep])].decode("utf-8") + "…"


def is_closed(stream):
    try:
        return stream.closed
    except ValueError:  # detached
        return True


def ignore_signal(*_):
    """SIGINT between runs; unlike SIG_IGN it is not inherited by programs that code starts."""


def note_signal(*_):
    note_signal.came = True


def without_interrupts(step, *args):
    """Takes a step that an interrupt must not end in the middle; the interrupt comes after it."""
    try:
        previous = signal.signal(signal.SIGINT, note_signal)
    except ValueError:  # another thread: signals do not reach it
        return step(*args)
    note_signal.came = False
    try:
        value = step(*args)
    finally:
        signal.signal(signal.SIGINT, previous)
    if note_signal.came:
        raise KeyboardInterrupt
    return value


def reseed():
    """Forks of one zygote must not share a random sequence; Python's own random sees to itself."""
    random = sys.modules.get("numpy.random")
    if random is not None:
        random.seed()


def cpu_count():
    """The processors that this container may use, whole ones; at the least 1."""
    count = len(os.sched_getaffinity(0))
    try:
        with open("/sys/fs/cgroup/cpu.max") as file:
            quota, period = file.read().split()
    except (OSError, ValueError):
        try:
            with open("/sys/fs/cgroup/cpu/cpu.cfs_quota_us") as file:
                quota = file.read().strip()
            with open("/sys/fs/cgroup/cpu/cpu.cfs_period_us") as file:
                period = file.read().strip()
        except OSError:
            return count
    if quota.isdigit() and period.isdigit():
        count = min(count, max(1, round(int(quota) / int(period))))
    return count


# Set where neither the image nor the server does. The thread pools of numerical libraries
# count the host's processors, and their threads count against the limit of processes.
DEFAULT_ENV = {"MPLBACKEND": "agg", "PLOTLY_RENDERER": "plotly_mimetype", "TERM": "dumb", "NO_COLOR": "1"}
THREAD_LIMITS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_MAX_THREADS")


# ---------------------------------------------------------------------------------------
# The zygote


class Zygote:
    """A process with everything imported, from which kernels are forked."""

    def __init__(self, settings, fd):
        self.settings = settings
        self.fd = fd

    def serve(self):
        prctl(PR_SET_DUMPABLE, 1)  # or its own /proc entry is not writable
        raise_oom_score()
        hide()
        os.environ.update(self.settings.env)
        for name, value in DEFAULT_ENV.items():
            os.environ.setdefault(name, value)
        os.chdir("/")
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, self.fd)
        self.kernel = Kernel(self.settings)
        self.kernel.load()
        gc.collect()
        gc.freeze()
        signal.signal(signal.SIGCHLD, self._report_ends)
        self.sock.sendall(pack_report({"type": "loaded"}))
        while True:
            data, fds = receive_fds(self.sock, 4096)
            if not data:
                os._exit(0)
            for fd in fds:
                try:
                    self._fork(fd)
                except OSError:  # no process is left; the supervisor sees the end of the socket
                    os.close(fd)

    def _fork(self, fd):
        import warnings

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about threads: the libraries' own, which know of forks
            if os.fork() == 0:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                self.sock.detach()
                close_all_but({fd})
                raise Become(functools.partial(self.kernel.serve, fd))
        os.close(fd)

    def _report_ends(self, *_):
        """Tells how kernels ended. When the zygote is gone, they are the supervisor's own children."""
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                self.sock.sendall(pack_report({"type": "exit", "pid": pid, "status": status}))
        except ChildProcessError:
            pass


# ---------------------------------------------------------------------------------------


def main():
    os.chdir("/")
    for name in THREAD_LIMITS:
        DEFAULT_ENV[name] = str(cpu_count())
    server = claim_stdio()
    gc.freeze()  # forked children need not look at what is here already
    hide()
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    role = Supervisor(server).serve
    while True:
        try:
            role()
        except Become as become:
            role = become.role


if __name__ == "__main__":
    main()
