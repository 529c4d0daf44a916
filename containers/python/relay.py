"""The relay: joins its stdio to the socket of the supervisor in the same container.

Started as ``python3 -I -c SOURCE`` by a server that takes a session over; the frames on it are
the kernel protocol's. It ends when either side ends.
"""

import _thread
import fcntl
import os
import socket
import sys

from prctl import hide

NAME = "\0code-sandbox-mcp"
BUFFER_BYTES = 1 << 18
F_SETPIPE_SZ = 1031


def pump(source, target):
    """Copies until one of the two ends, and ends the program: what came before is through by then."""
    try:
        while True:
            data = memoryview(os.read(source, BUFFER_BYTES))
            if not data:
                break
            while data:
                data = data[os.write(target, data) :]
    except OSError:
        pass
    os._exit(0)


def main():
    hide()  # the token passes through here
    sock = socket.socket(socket.AF_UNIX)
    try:
        sock.connect(NAME)
    except OSError as e:
        sys.exit("no supervisor listens: %s" % e.strerror)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER_BYTES)
    for fd in (0, 1):
        try:
            fcntl.fcntl(fd, F_SETPIPE_SZ, BUFFER_BYTES)
        except OSError:  # no pipe, or no more room for this user
            pass
    # Two threads that block: neither direction waits for the other.
    _thread.start_new_thread(pump, (0, sock.fileno()))
    pump(sock.fileno(), 1)


if __name__ == "__main__":
    main()
