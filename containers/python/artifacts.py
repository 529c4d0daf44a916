"""The files that a run made."""

import os
import time

from hostile import is_utf8
from tree import Tree

PRIVATE_NAMES = ("node_modules", "__pycache__")  # what programs make for themselves, by the thousand
PATH_BUDGET = 256 << 10  # bytes of artifact paths in one answer
LAG_NS = 100_000_000  # how far file times may lag, where the file system's own clock cannot be read
RECENT_NS = 1_000_000_000  # how old a file may be that a tick could take to be of the next run


class Artifacts:
    """Finds the files below the work directory that a run created or changed.

    A file counts when its change time lies in the run, by the file system's own clock: that ticks
    coarsely, and lags far behind on a busy machine. It leaves out what the other language's
    container wrote before. Within a tick nothing tells on which side of the run's start a file
    falls, so files of the last moments before it are remembered and compared.
    """

    def __init__(self, dir_fd):
        self.dir_fd = dir_fd
        self.recent = {}
        self.since_ns = 0
        self.clock_fd = -1  # a file without a name on the volume
        try:
            self.clock_fd = os.open(".", os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600, dir_fd=dir_fd)
        except OSError:  # a file system that has no such files
            pass

    def begin_run(self):
        self.since_ns = self._now_ns()

    def _now_ns(self):
        """The time by the clock that stamps files."""
        if self.clock_fd >= 0:
            try:
                os.utime(self.clock_fd, ns=(0, 0))
                return os.fstat(self.clock_fd).st_ctime_ns
            except OSError:  # some file systems need room even for that
                pass
        return time.time_ns() - LAG_NS

    def scan(self, most):
        """Tells (list of artifacts, newest first and at most `most`; how many there are)."""
        recent_ns = self._now_ns() - RECENT_NS
        found, recent = [], {}
        for path, info in self._files():
            if info.st_ctime_ns < min(self.since_ns, recent_ns) or not is_utf8(path):
                continue
            mark = (info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns)
            if info.st_ctime_ns >= recent_ns:
                recent[path] = mark
            if info.st_ctime_ns >= self.since_ns and self.recent.get(path) != mark:
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
