"""The take-over of a supervisor by a later server: docs/kernel-protocol.md, "Take-over"."""

import os
import socket
from _operator import _compare_digest  # hmac's, which costs the start of a container no import

from frames import ServerLink, decode_object

NAME = "\0code-sandbox-mcp"
WAITING = 4
QUEUE = 16  # connections beyond those; who comes then waits in connect()
ATTACH_BYTES = 4096
ATTACH_SECONDS = 5
WRONG_SECONDS = 1
DISPLAY_BYTES = 8 << 20


class TakeOver:
    """The listening socket, and the connections that have not shown the token yet.

    `loop` has watch, unwatch, set_timer and drop_timer; `adopt` is given the ServerLink of a
    connection that has. A connection that is wrong keeps its place for a while, so that four at a
    time are all that can be tried; others wait in the socket's queue.
    """

    def __init__(self, loop, token, adopt):
        self.loop = loop
        self.token = bytearray(token, "utf-8", "replace")
        self.adopt = adopt
        self.received = {}  # descriptor of a connection: what it has sent
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.setblocking(False)
        try:
            self.sock.bind(NAME)
            self.sock.listen(QUEUE)
        except OSError:
            self.sock.close()
            raise
        loop.watch(self.sock.fileno(), self._on_connection)

    def leave(self):
        """In a forked child: the session's code must find neither the socket nor the token."""
        self.sock.detach()
        self.token[:] = bytes(len(self.token))

    def _on_connection(self):
        try:
            connection, _ = self.sock.accept()
        except OSError:  # gone again, or no descriptor is left
            return
        connection.setblocking(False)
        fd = connection.detach()
        self.received[fd] = bytearray()
        self.loop.watch(fd, lambda: self._on_data(fd))
        self.loop.set_timer("attach %d" % fd, ATTACH_SECONDS, lambda: self._refuse(fd))
        if len(self.received) == WAITING:
            self.loop.unwatch(self.sock.fileno())

    def _on_data(self, fd):
        try:
            data = os.read(fd, ATTACH_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        received = self.received[fd]
        received += data
        size = int.from_bytes(received[:4], "big") if len(received) >= 4 else 1
        if not data or size > ATTACH_BYTES:
            self._refuse(fd)
        elif len(received) >= 4 + size:
            self._judge(fd, received[4 : 4 + size], received[4 + size :])

    def _judge(self, fd, frame, rest):
        if self._is_right(frame):
            self._let_go(fd)
            self.adopt(ServerLink(fd, fd, rest))
            return
        self.loop.unwatch(fd)
        self.loop.set_timer("attach %d" % fd, WRONG_SECONDS, lambda: self._refuse(fd))

    def _is_right(self, frame):
        try:
            message = decode_object(frame)
        except ValueError:
            return False
        token = message.get("token")
        if message.get("type") != "attach" or not isinstance(token, str):
            return False
        return _compare_digest(token.encode("utf-8", "replace"), bytes(self.token))

    def _refuse(self, fd):
        self._let_go(fd)
        os.close(fd)

    def _let_go(self, fd):
        """It is no longer one of those that wait."""
        del self.received[fd]
        self.loop.drop_timer("attach %d" % fd)
        self.loop.unwatch(fd)
        if len(self.received) == WAITING - 1:
            self.loop.watch(self.sock.fileno(), self._on_connection)


class Memory:
    """What a later server has to be told of the last run: its displays, and its end."""

    def __init__(self):
        self.frames = []
        self.room = DISPLAY_BYTES

    def begin(self):
        self.frames.clear()
        self.room = DISPLAY_BYTES

    def add_display(self, frame):
        if len(frame) <= self.room:
            self.frames.append(frame)
            self.room -= len(frame)
        else:
            self.room = 0  # from here on the newest are missing, not some in between

    def add_done(self, frame):
        self.frames.append(frame)
