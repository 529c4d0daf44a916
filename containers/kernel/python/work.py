"""One run, as its threads see it."""

import contextvars
import io

from descriptors import close_quietly

WORK = contextvars.ContextVar("run", default=None)  # the run of a task, and of all that it calls


class Work:
    """One run. `fds` are the write ends of its pipes."""

    def __init__(self, run_id, fds):
        self.run_id = run_id
        self.fds = fds
        self.streams = {}
        self.calls = {}  # futures of its unfinished work in pools, with the thread that works on it

    def write(self, number, text):
        """Writes after the run is over."""
        if number - 1 < len(self.fds):
            try:
                if number not in self.streams:
                    self.streams[number] = open_output(self.fds[number - 1])
                self.streams[number].write(text)
                self.streams[number].flush()
            except (OSError, ValueError):  # nobody listens any more
                pass

    def close(self):
        fds, self.fds = self.fds, ()
        self.streams.clear()
        for fd in fds:
            close_quietly(fd)  # code may have closed it


def open_output(fd, kind=io.TextIOWrapper, raw=io.BufferedWriter):
    """A text stream for a descriptor that stays open when the stream is closed."""
    buffer = raw(io.FileIO(fd, "w", closefd=False))
    stream = kind(buffer, encoding="utf-8", errors="backslashreplace", line_buffering=True)
    stream.mode = "w"
    return stream


def name_of(function):
    return getattr(function, "__name__", type(function).__name__)
