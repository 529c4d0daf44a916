"""The file of frozen variables: pieces, each compressed where that pays. docs/kernel-protocol.md, "Variables that are kept".

It is written and read in one go, so that neither takes much more memory than the variables themselves.
"""

import functools
import io
import json
import os
import struct

from imports import own_imports

MAGIC = b"csm variables 1\n"
END = struct.Struct(">Q16s")  # where the list is, and that the file came to its end
END_MAGIC = b"csm variables e\n"
HEADER = struct.Struct(">ccII")  # kind, whether it is compressed, bytes of the content, bytes in the file
HEADING, VARIABLE, PICKLE, BUFFER, BYTES, LIST = b"h", b"v", b"p", b"B", b"b", b"l"
PIECE = 4 << 20  # bytes of a piece's content at most
SAMPLE = 1 << 14  # bytes by which it is seen whether compressing pays
LEAST = 1 << 12  # bytes of a buffer that is worth pieces of its own


class OverLimit(Exception):
    """The snapshot is larger than allowed."""


class Unwritable(OSError):
    """The disk refuses the snapshot."""


class Unreadable(Exception):
    """The file differs from the written one."""


def check(condition):
    if not condition:
        raise Unreadable("it was changed")


@functools.cache
def find_zstd():
    """Functions that compress, and decompress to so many bytes, if Python or the image offers them."""
    with own_imports:
        try:
            from compression import zstd

            return lambda data: zstd.compress(data, 1), lambda data, size: zstd.ZstdDecompressor().decompress(data, size)
        except ImportError:
            pass
        try:
            import zstandard
        except ImportError:
            return None, None
    return zstandard.ZstdCompressor(level=1).compress, zstandard.ZstdDecompressor().decompress


class Writer:
    """Writes pieces, and is the file of a pickler. Without a file it only counts."""

    def __init__(self, file=None, limit_bytes=None, compress=None):
        self.file = file
        self.limit_bytes = limit_bytes
        self.compress = compress
        self.size = 0  # of the file
        self.content = 0  # bytes before they were compressed
        self.pickled = []
        self.waiting = 0

    def write(self, data):
        """Takes the output of a pickler, which may be large."""
        self.content += len(data)
        if self.file is None:
            return
        self.pickled.append(bytes(data) if len(data) < PIECE else data)
        self.waiting += len(data)
        if self.waiting >= PIECE:
            self.flush()

    def flush(self):
        data, self.pickled, self.waiting = self.pickled, [], 0
        if data:
            self._put_all(PICKLE, memoryview(data[0] if len(data) == 1 else b"".join(data)).cast("B"))

    def take_buffer(self, buffer):
        """A pickler's buffer_callback: true writes the buffer into the pickle."""
        with buffer.raw() as view:
            if view.nbytes < LEAST:
                return True
            self.content += view.nbytes
            if self.file is not None:
                self.put(BUFFER, view.nbytes.to_bytes(8, "big"))
                self._put_all(BYTES, view)
        return False

    def _put_all(self, kind, view):
        for at in range(0, len(view), PIECE):
            self.put(kind, view[at : at + PIECE])

    def put(self, kind, content):
        """Writes one piece."""
        stored, codec = content, b"-"
        if self.compress is not None and len(content) >= LEAST and self._pays(content):
            stored, codec = self.compress(content), b"z"
        self._write_file(HEADER.pack(kind, codec, len(content), len(stored)))
        self._write_file(stored)

    def _pays(self, content):
        middle = max(0, len(content) // 2 - SAMPLE // 2)
        sample = content[middle : middle + SAMPLE]
        return len(self.compress(sample)) < len(sample) * 0.8

    def _write_file(self, data):
        self.size += len(data)
        if self.limit_bytes is not None and self.size > self.limit_bytes:
            raise OverLimit("it is more than may be kept")
        try:
            self.file.write(data)
        except OSError as e:
            raise Unwritable(*e.args) from None

    def put_json(self, kind, value):
        content = json.dumps(value, separators=(",", ":")).encode()
        if len(content) > PIECE:
            raise OverLimit("it is more than may be kept")
        self.put(kind, content)

    def begin(self, heading):
        """Writes what is known of the variables where the file is cut off."""
        self._write_file(MAGIC)
        self.put_json(HEADING, heading)

    def end(self, listed):
        """Writes the summary and the end of the file."""
        self.flush()
        at = self.size
        self.put_json(LIST, listed)
        self._write_file(END.pack(at, END_MAGIC))

    def place(self):
        """The current end, to go back to."""
        self.flush()
        return self.size

    def go_back(self, place):
        self.pickled, self.waiting, self.size = [], 0, place
        self.file.seek(place)
        self.file.truncate()


class Reader(io.RawIOBase):
    """Reads pieces, and is the file of an unpickler, with the pickle of the present variable."""

    def __init__(self, file):
        self.file = file
        self.is_damaged = False
        self.variable_at = len(MAGIC)  # where the present variable begins
        if file.read(len(MAGIC)) != MAGIC:
            raise Unreadable("it was not written by this version, or not as a file of variables")
        self.end = os.fstat(file.fileno()).st_size
        try:
            self.listed = self._list()
        except (Unreadable, RecursionError):
            self.listed, self.is_damaged = {}, True
        self.go_to(len(MAGIC))
        self.heading = self._json(HEADING)

    def readable(self):
        return True

    def close(self):
        """Does nothing: each buffered reader before it closes it when that goes."""

    def _list(self):
        self.file.seek(max(0, self.end - END.size))
        tail = self.file.read(END.size)
        check(len(tail) == END.size and tail[8:] == END_MAGIC)
        self.end -= END.size
        self.go_to(min(END.unpack(tail)[0], self.end))
        return self._json(LIST)

    def go_to(self, place):
        self.file.seek(place)
        self.ahead = None  # the header of the piece that comes next
        self.left = memoryview(b"")
        self.buffers = []

    def entries(self):
        """The descriptions of the variables from here on, whose pickles can be read then, to the end or to where the file is damaged."""
        try:
            yield from iter(self._next_variable, None)
        except Unreadable:
            self.is_damaged = True

    def _next_variable(self):
        """The description of the next variable; None: there is none."""
        self.left = memoryview(b"")
        self.buffers.clear()
        while True:
            kind, _, _, stored = self._header()
            if kind == LIST:
                return None
            if kind == VARIABLE:
                self.variable_at = self.file.tell() - HEADER.size
                return self._json(VARIABLE)
            self.ahead = None
            self.file.seek(stored, os.SEEK_CUR)

    def _json(self, kind):
        check(self._header()[0] == kind)
        try:
            value = json.loads(bytes(self._content()))
        except ValueError:
            value = None
        check(isinstance(value, dict))
        return value

    def _header(self):
        if self.ahead is None:
            data = self.file.read(HEADER.size)
            check(len(data) == HEADER.size)
            self.ahead = HEADER.unpack(data)
            check(max(self.ahead[2:]) <= 2 * PIECE and self.file.tell() + self.ahead[3] <= self.end)
        return self.ahead

    def _content(self, target=None):
        """The content of the piece whose header was read; into target, where there is one."""
        _, codec, size, stored = self.ahead
        self.ahead = None
        check(target is None or size <= len(target))
        if codec == b"-" and target is not None:
            check(size == stored == self.file.readinto(target[:size]))
            return target[:size]
        data = self.file.read(stored)
        if codec == b"z":
            data = self._unpacked(data, size)
        check(len(data) == size)
        if target is not None:
            target[:size] = data
        return data

    @staticmethod
    def _unpacked(data, size):
        unpack = find_zstd()[1]
        if unpack is None:
            raise Unreadable("it is compressed by zstd, which this image does not have")
        try:
            return unpack(data, size)
        except Exception:
            return b""

    def readinto(self, target):
        """As any file, to the end of the present variable."""
        while not self.left:
            kind = self._header()[0]
            if kind == PICKLE:
                self.left = memoryview(self._content())
            elif kind == BUFFER:
                self.buffers.append(self._buffer())
            else:
                return 0
        count = min(len(target), len(self.left))
        target[:count] = self.left[:count]
        self.left = self.left[count:]
        return count

    def _buffer(self):
        size = int.from_bytes(self._content()[:8], "big")
        start, there = self.file.tell(), 0
        while there < size:  # memory is taken for what the file has, not for what it says
            check(self._header()[0] == BYTES and self.ahead[2])
            there += self.ahead[2]
            self.file.seek(self.ahead[3], os.SEEK_CUR)
            self.ahead = None
        self.file.seek(start)
        whole = bytearray(size)
        with memoryview(whole) as view:
            at = 0
            while at < size:
                self._header()
                at += len(self._content(view[at:]))
        return whole

    def __iter__(self):
        return self

    def __next__(self):
        """The next buffer, as an unpickler asks for it."""
        check(self.buffers)
        return self.buffers.pop(0)
