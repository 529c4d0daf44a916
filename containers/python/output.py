"""What a run writes to stdout and stderr: the part that is reported, and the file that takes the rest."""

import errno
import os

from screen import Screen
from utf8 import partial_head, partial_tail


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
