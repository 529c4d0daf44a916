"""Freezing and waking variables (freezing.py, waking.py), with a kernel that the test itself speaks to."""

import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import unittest

from test_support import HERE, PATIENCE

FILE = ".state/python.frozen"
LIMIT = 1 << 30


class Kernel:
    """A kernel, and the supervisor's end of its socket."""

    def __init__(self, work_dir, **init):
        ours, theirs = socket.socketpair()
        ours.settimeout(PATIENCE)
        self.sock, self.file = ours, ours.makefile("rb")
        fd = theirs.fileno()
        self.process = subprocess.Popen(
            [sys.executable, os.path.join(HERE, "main.py"), "kernel"], pass_fds=[3],
            preexec_fn=lambda: os.dup2(fd, 3), stdin=subprocess.DEVNULL, cwd=work_dir,
        )
        theirs.close()
        self.runs = 0
        message = {
            "type": "init", "work_dir": work_dir, "env": {}, "preload": [], "output_bytes": 30000, "image_bytes": 1 << 20,
            "max_displays": 20,
        }
        self.send({**message, **init})
        self.wait_for("hello")

    def send(self, message, fds=()):
        data = json.dumps(message, separators=(",", ":")).encode()
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("%di" % len(fds), *fds))] if fds else []
        self.sock.sendmsg([len(data).to_bytes(4, "big") + data], ancillary)

    def wait_for(self, kind):
        while True:
            sizes = self.file.read(8)
            if len(sizes) < 8:
                raise AssertionError("the kernel ended before it sent %r" % kind)
            header = json.loads(self.file.read(int.from_bytes(sizes[:4], "big")))
            self.file.read(int.from_bytes(sizes[4:], "big"))
            if header["type"] == kind:
                return header

    def run(self, code):
        self.runs += 1
        null = os.open(os.devnull, os.O_WRONLY)
        try:
            self.send({"type": "run", "id": "r%d" % self.runs, "code": code, "linger_ms": 0}, [null, null])
            return self.wait_for("done")
        finally:
            os.close(null)

    def ask(self, kind, **fields):
        self.send({"type": kind, "path": FILE, "seconds": 20, **fields})
        return self.wait_for({"freeze": "frozen", "wake": "woken"}[kind])

    def close(self):
        self.file.close()
        self.sock.close()
        self.process.wait(PATIENCE)


class FrozenTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="frozen-test-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def kernel(self, **init):
        kernel = Kernel(self.folder, **init)
        self.addCleanup(kernel.close)
        return kernel

    def run_all(self, kernel, *codes):
        for code in codes:
            done = kernel.run(code)
            self.assertIsNone(done.get("error"), done)
        return done

    def value(self, kernel, expression):
        return self.run_all(kernel, expression)["result"]

    def freeze(self, *codes, limit_bytes=LIMIT, **fields):
        """What a kernel answers that has run the code; the kernel ends."""
        kernel = Kernel(self.folder)
        try:
            self.run_all(kernel, *codes)
            return kernel.ask("freeze", limit_bytes=limit_bytes, **fields)
        finally:
            kernel.close()

    def wake(self, **fields):
        """A new kernel with the variables, and what it has answered."""
        kernel = self.kernel()
        return kernel, kernel.ask("wake", **fields)

    @property
    def path(self):
        return os.path.join(self.folder, FILE)


def lost(answer):
    return {entry["name"]: entry["why"] for entry in answer["lost"]}


class Kept(FrozenTest):
    def test_kinds_of_values(self):
        code = (
            "import array, collections, datetime, decimal, enum, fractions, io, itertools, pathlib, re, types, uuid\n"
            "class Colour(enum.Enum):\n    RED = 1\n"
        )
        values = {
            "text": ("'ä' * 3", "text == 'äää'"),
            "number": ("10 ** 40", "number == 10 ** 40"),
            "large": ("bytearray(6_000_000)", "large == bytearray(6_000_000)"),
            "zeros": ("bytes(6_000_000)", "zeros == bytes(6_000_000)"),
            "noise": ("__import__('random').Random(1).randbytes(5_000_000)", "noise == random.Random(1).randbytes(5_000_000)"),
            "nested": ("{'a': [1, (2, {3})], None: frozenset('x')}", "nested == {'a': [1, (2, {3})], None: frozenset('x')}"),
            "buffer": ("__import__('pickle').PickleBuffer(bytearray(b'ab' * 9000))", "bytes(buffer) == b'ab' * 9000"),
            "stream": ("io.StringIO('line')", "stream.getvalue() == 'line'"),
            "when": ("datetime.datetime(2020, 1, 2, tzinfo=datetime.timezone.utc)", "when.year == 2020"),
            "pattern": ("re.compile('a+')", "pattern.match('aa') is not None"),
            "counter": ("collections.Counter('aab')", "counter['a'] == 2"),
            "colour": ("Colour.RED", "colour is Colour.RED"),
            "error": ("ValueError('bad')", "error.args == ('bad',)"),
            "out": ("__import__('sys').stdout", "out is __import__('sys').stdout"),
            "module": ("collections", "module.OrderedDict is collections.OrderedDict"),
            "loaded": ("[collections]", "loaded == [collections]"),
        }
        assigned = "".join("%s = %s\n" % (name, made) for name, (made, _) in values.items())
        answer = self.freeze(code + "import random\n" + assigned)
        functions = {"Colour", "colour"} if not has_cloudpickle() else set()
        self.assertEqual(set(lost(answer)), {"buffer"} & set(lost(answer)) | functions, answer)
        kernel, woken = self.wake()
        self.assertEqual((woken["why"], woken["variables"]), ("", answer["variables"]), woken)
        for name, (_, check) in values.items():
            if name not in lost(answer):
                with self.subTest(name):
                    self.assertEqual(self.value(kernel, check), "True")


def has_cloudpickle():
    import importlib.util

    return any(map(importlib.util.find_spec, ("cloudpickle", "joblib")))
