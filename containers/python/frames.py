"""The frames between supervisor and server, and the JSON in them and in other hostile frames."""

import json
import os
import select

SERVER_FRAME_BYTES = 1 << 20  # the largest frame that the server sends
READ_BYTES = 1 << 16


class Lost(Exception):
    """The other end of a link is gone."""


class Breach(Lost):
    """The other end of a link broke the rules."""


def small_int(text):
    # int() of a million digits takes minutes on older Pythons.
    if len(text) > 19:
        raise ValueError("number too long")
    return int(text)


_decode = json.JSONDecoder(parse_int=small_int).decode
encode = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


def decode_object(data):
    """Decodes hostile JSON into a dict, or raises ValueError."""
    try:
        value = _decode(str(data, "utf-8"))
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(value, dict):
        raise ValueError("not an object")
    return value


def pack(message):
    """A message as a frame."""
    data = encode(message).encode("ascii")
    return len(data).to_bytes(4, "big") + data


class ServerLink:
    """The frames from and to a server: stdio, or the socket of a later one (one descriptor, twice).

    `received` is what has been read already. No child must inherit the descriptors.
    """

    def __init__(self, in_fd, out_fd, received=b""):
        self.in_fd = in_fd
        self.out_fd = out_fd
        self.buffer = bytearray(received)
        self.open = True

    def read(self):
        """The frames that have come; None at the end of the input."""
        try:
            chunk = os.read(self.in_fd, READ_BYTES)
        except BlockingIOError:
            return []
        except OSError:
            return None
        if not chunk:
            return None
        self.buffer += chunk
        return list(self.frames())

    def frames(self):
        while len(self.buffer) >= 4:
            size = int.from_bytes(self.buffer[:4], "big")
            if size > SERVER_FRAME_BYTES:
                raise Breach("a frame of %d bytes" % size)
            if len(self.buffer) < 4 + size:
                return
            data = self.buffer[4 : 4 + size]
            del self.buffer[: 4 + size]
            try:
                yield decode_object(data)
            except ValueError:
                self.send({"type": "log", "level": "warn", "message": "a frame that is no JSON object was ignored"})

    def send(self, message):
        self.write(pack(message))

    def write(self, frame):
        """Writes one frame. A server that is gone is noticed once and then ignored."""
        if not self.open:
            return
        data = memoryview(frame)
        try:
            while data:
                try:
                    data = data[os.write(self.out_fd, data) :]
                except BlockingIOError:
                    select.select([], [self.out_fd], [])
        except OSError:
            self.open = False

    def close(self):
        self.open = False
        for fd in {self.in_fd, self.out_fd}:
            os.close(fd)
