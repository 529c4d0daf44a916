"""The links of the supervisor: stdio to the server, and a socket to each kernel and to the zygote.

On such a socket a kernel or zygote sends a JSON header with a blob, and is sent JSON with descriptors.
"""

import os
import socket
import struct

from descriptors import move_high
from frames import READ_BYTES, Breach, Lost, ServerLink, decode_object, encode, pack

HEADER_BYTES = 2 << 20  # the largest JSON header that a kernel may send
BLOB_BYTES = 6 << 20  # the largest blob: 8 MiB of frame hold 6 MiB as base64
READS_PER_TURN = 8  # how much of a flooded pipe is read before others have their turn


def claim_stdio():
    """The link on stdin and stdout, moved to where no child can write by accident."""
    in_fd, out_fd = (move_high(os.dup(fd)) for fd in (0, 1))
    os.set_inheritable(in_fd, False)
    os.set_inheritable(out_fd, False)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    return ServerLink(in_fd, out_fd)


def send_fds(sock, data, fds):
    return sock.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("%di" % len(fds), *fds))])


def receive_fds(sock, size, flags=0):
    """Like recv, with the descriptors that came along."""
    data, ancillary, _, _ = sock.recvmsg(size, socket.CMSG_SPACE(16), flags)
    fds = []
    for level, kind, payload in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            count = len(payload) // 4
            fds.extend(struct.unpack("%di" % count, payload[: count * 4]))
    return data, fds


def pack_report(header, blob=b""):
    data = encode(header).encode("ascii")
    return len(data).to_bytes(4, "big") + len(blob).to_bytes(4, "big") + data + blob


class ChildLink:
    """The supervisor's end of the socket to a kernel or zygote. It never blocks."""

    def __init__(self, sock):
        sock.setblocking(False)
        self.sock = sock
        self.fd = sock.fileno()
        self.inbox = bytearray()
        self.outbox = bytearray()

    def send(self, message, fds=()):
        """Sends or queues a request. Descriptors go with its first byte, so they need an empty queue."""
        data = pack(message)
        try:
            if fds:
                sent = send_fds(self.sock, data, fds)
            else:
                sent = 0 if self.outbox else self.sock.send(data)
        except BlockingIOError:
            sent = 0
            if fds:
                raise Breach("its socket is full") from None
        except OSError as e:
            raise Lost(str(e)) from None
        self.outbox += data[sent:]

    def flush(self):
        """Sends what was queued; tells whether all of it went."""
        try:
            while self.outbox:
                del self.outbox[: self.sock.send(self.outbox)]
        except BlockingIOError:
            return False
        except OSError:
            self.outbox.clear()
        return True

    def receive(self, most=READS_PER_TURN):
        """Yields (header, blob) of what has come. Lost at the end or at a breach of the rules."""
        for _ in range(most):
            try:
                chunk = self.sock.recv(READ_BYTES)
            except BlockingIOError:
                return
            except OSError as e:
                raise Lost(str(e)) from None
            if not chunk:
                raise Lost("end of file")
            self.inbox += chunk
            yield from self._reports()
            if len(chunk) < READ_BYTES:
                return

    def _reports(self):
        while len(self.inbox) >= 8:
            size = int.from_bytes(self.inbox[:4], "big")
            blob_size = int.from_bytes(self.inbox[4:8], "big")
            if size > HEADER_BYTES or blob_size > BLOB_BYTES:
                raise Breach("a frame that is too large")
            end = 8 + size + blob_size
            if len(self.inbox) < end:
                return
            try:
                header = decode_object(self.inbox[8 : 8 + size])
            except ValueError as e:
                raise Breach("a frame that is no JSON object: %s" % e) from None
            blob = bytes(self.inbox[8 + size : end])
            del self.inbox[:end]
            yield header, blob

    def close(self):
        self.sock.close()
