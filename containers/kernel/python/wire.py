"""The socket to the supervisor: JSON comes with descriptors, and a JSON header with a blob goes."""

import json
import os
import select
import socket
import struct

from descriptors import close_quietly, move_high

_encode = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


def wait_readable(fd, seconds):
    ready = select.poll()
    ready.register(fd, select.POLLIN)
    return ready.poll(seconds * 1000)


class Link:
    """The connection to the supervisor, without which a process of this program ends."""

    def __init__(self, fd):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, move_high(fd))
        self.bytes = bytearray()
        self.messages = []  # received
        self.fds = []  # received with them

    def next(self):
        """The next message, waited for if need be."""
        while not self.messages:
            self.receive()
        return self.messages.pop(0)

    def receive(self, flags=0):
        """Receives bytes; waits for them, unless the flags say otherwise."""
        try:
            data, ancillary, _, _ = self.sock.recvmsg(1 << 16, socket.CMSG_SPACE(16), flags)
        except OSError:  # mostly: nothing came
            if flags:
                return
            data = b""
        if not data:
            os._exit(0)
        for level, kind, payload in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                count = len(payload) // 4
                self.fds.extend(struct.unpack("%di" % count, payload[: count * 4]))
        self.bytes += data
        while len(self.bytes) >= 4:
            end = 4 + int.from_bytes(self.bytes[:4], "big")
            if len(self.bytes) < end:
                return
            self.messages.append(json.loads(self.bytes[4:end]))
            del self.bytes[:end]

    def is_called(self, seconds):
        """Whether a message comes within this time."""
        return bool(self.messages or wait_readable(self.sock, seconds))

    def peek(self):
        """A look at the next bytes without taking them."""
        try:
            return self.sock.recv(1 << 14, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except OSError:
            return b""

    def send(self, header, blob=b""):
        data = _encode(header).encode("ascii")
        self.sock.sendall(len(data).to_bytes(4, "big") + len(blob).to_bytes(4, "big") + data + blob)

    def close(self):
        """Closes it, and received descriptors not taken."""
        self.sock.close()
        for fd in self.fds:
            close_quietly(fd)
