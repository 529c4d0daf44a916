"""Processes: what lives, what belongs to whom, what was killed for its memory, and what a fork becomes."""

import errno
import os
import signal
import time


class Become(BaseException):
    """Unwinds a forked child's stack and makes it what `role` says."""

    def __init__(self, role):
        super().__init__()
        self.role = role


def raise_oom_score():
    """Makes the out-of-memory killer prefer this process to process 1."""
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")
    except OSError:
        pass


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
        # A main thread that has ended looks like a zombie, and the others may go on.
        if len(fields) > 19 and (fields[0] not in (b"Z", b"X") or int(fields[17]) > 1):
            table[int(name)] = (int(fields[1]), int(fields[19]))
    return table


def shown_in(pid):
    """The folder in /proc that shows what a process has open: not that of a main thread which has ended.

    Raises OSError where all of it has ended.
    """
    folder = "/proc/%d" % pid
    if not has_ended(folder):
        return folder
    for name in os.listdir(folder + "/task"):
        thread = "%s/task/%s" % (folder, name)
        if not has_ended(thread):
            return thread
    raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))


def has_ended(folder):
    """Whether the process, or thread, that has a folder in /proc has ended, or is just about to.

    One that ends lets go of its program first; no other is without one.
    """
    try:
        with open(folder + "/stat", "rb") as file:
            if file.read().rpartition(b")")[2].split()[:1] in ([b"Z"], [b"X"]):
                return True
        os.readlink(folder + "/exe")
    except (FileNotFoundError, ProcessLookupError):
        return True
    except OSError:  # it is there, and not to be looked at
        pass
    return False


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


def kill_all(choose):
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
