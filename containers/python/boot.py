"""The first lines of process 1 of a Python container: becomes the program that stdin brings.

Started as ``python3 -c BOOT``, because an argument holds too little for the supervisor. The
program is a 4-byte big-endian length and that many bytes of UTF-8; nothing behind it is read,
because frames follow. It runs as __main__, in these very globals.
"""

import sys

# Process 1 starts in the folder that hostile code writes to, and -c looks there for modules first.
sys.path[:] = [entry for entry in sys.path if entry]

import os


def read(size):
    data = b""
    while len(data) < size:
        chunk = os.read(0, size - len(data))
        if not chunk:
            os._exit(1)  # the server went away before it had said what to be
        data += chunk
    return data


exec(compile(read(int.from_bytes(read(4), "big")), "<supervisor>", "exec"))
