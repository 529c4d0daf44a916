"""Output that comes after the answer of its run, from threads and programs that the run has left."""

import fcntl
import functools
import os
import struct
import termios

from frames import READ_BYTES

MOST_PIPES = 64  # that threads and processes of past runs may keep open
MOST_PATHS = 8  # that an answer names


class LateOutput:
    """The pipes of past runs. They are read on, so that no writer blocks or dies."""

    def __init__(self, loop):
        self.loop = loop
        self.streams = {}  # by pipe
        self.paths = {}  # of files that got output since the last answer; an ordered set

    def settle(self, run):
        """Ends the run's streams with what was written by now, and takes its pipes: what comes later is nobody's."""
        for fd, stream in list(run.pipes.items()):
            left = struct.unpack("i", fcntl.ioctl(fd, termios.FIONREAD, b"\0\0\0\0"))[0]
            while left > 0:
                chunk = os.read(fd, min(left, READ_BYTES))
                if not chunk:
                    break
                stream.feed(chunk)
                left -= len(chunk)
            self.loop.hand_on(fd, functools.partial(self._read, fd, stream))
            self.streams[fd] = stream
        run.pipes.clear()
        while len(self.streams) > MOST_PIPES:
            self._close(next(iter(self.streams)))
        for stream in (run.stdout, run.stderr):
            stream.finish()

    def retire(self, run):
        """The run is answered. Only streams that threads or programs still hold are kept in mind."""
        for stream in (run.stdout, run.stderr):
            stream.retire(keeps_raw=stream in self.streams.values())

    def take_paths(self):
        paths = list(self.paths)
        self.paths.clear()
        return paths

    def _read(self, fd, stream):
        """Keeps what comes in the run's file: it is no part of any answer."""
        try:
            chunk = os.read(fd, READ_BYTES)
        except BlockingIOError:
            return
        if not chunk:
            self._close(fd)
            return
        stream.begin_spool()
        stream.keep(chunk)
        if stream.spool.path and len(self.paths) < MOST_PATHS:
            self.paths[stream.spool.path] = None

    def _close(self, fd):
        stream = self.streams.pop(fd)
        stream.retire(keeps_raw=False)
        self.loop.unwatch(fd)
        os.close(fd)
