"""The files that a run made."""

import time

from hostile import is_utf8
from tree import Tree

PRIVATE_NAMES = ("node_modules", "__pycache__")  # what programs make for themselves, by the thousand
PATH_BUDGET = 256 << 10  # bytes of artifact paths in one answer
CLOCK_GRAIN_NS = 10_000_000  # file systems stamp with the tick, up to 10 ms behind the clock


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
