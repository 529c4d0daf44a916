"""Runs the supervisor as a child process and speaks the kernel protocol with it."""

import functools
import importlib.util
import itertools
import json
import os
import resource
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
# How many times slower than others the machine is: 10 where it is emulated.
SLOWNESS = int(os.environ.get("E2E_SLOWNESS", "1"))
PATIENCE = 60 * SLOWNESS  # seconds until a test gives up; no test measures time by it
GRACE = 2000 * SLOWNESS  # milliseconds that code has where its end by force is not what is tested
LONG_GRACE = 10 * GRACE  # the same where the machine is kept busy, or loads something large first


SUPERVISOR = os.environ.get("SUPERVISOR", os.path.join(HERE, "..", "..", "..", "bin", "supervisor"))
PROGRAM = [SUPERVISOR, "python=" + os.path.join(HERE, "main.py")]


class Answer:
    """The frames of one run: its `done`, and what came before."""

    def __init__(self, done, frames):
        self.done = done
        self.frames = frames
        self.displays = []
        for frame in frames:
            if frame["type"] == "display":
                keys = [earlier.get("key") or earlier for earlier in self.displays]
                at = keys.index(frame["key"]) if frame.get("key") in keys else len(keys)
                self.displays[at : at + 1] = [frame]
            elif frame["type"] == "clear":
                self.displays.clear()

    def __getattr__(self, name):
        try:
            return self.done[name]
        except KeyError:
            raise AttributeError(name) from None

    @property
    def late(self):
        return [entry["path"] for entry in self.done["background"]]

    @property
    def out(self):
        return self.done["stdout"]["head"] + self.done["stdout"]["tail"]

    @property
    def err(self):
        return self.done["stderr"]["head"] + self.done["stderr"]["tail"]

    def __repr__(self):
        return json.dumps(self.done)[:3000]


class Client:
    """One supervisor process and the frames to and from it.

    `open_files` limits its descriptors: a leak shows as an error then, also where /proc does not
    let a test count them.
    """

    def __init__(self, work_dir=None, env=None, open_files=None, **init):
        self.own_dir = None
        if work_dir is None:
            self.own_dir = work_dir = tempfile.mkdtemp(prefix="supervisor-test-")
        self.work_dir = work_dir
        self.ids = itertools.count(1)
        self.logs = []
        self.buffer = b""
        environment = dict(os.environ)
        environment.update(env or {})
        limit = open_files and functools.partial(resource.setrlimit, resource.RLIMIT_NOFILE, (open_files, open_files))
        self.process = subprocess.Popen(
            PROGRAM, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, start_new_session=True,
            preexec_fn=limit, cwd=work_dir if os.path.isdir(work_dir) else None,
        )
        if init.pop("start", True):
            self.ready = self.init(**init)

    def init(self, **fields):
        message = {
            "type": "init", "protocol": 4, "work_dir": self.work_dir,
            "env": {}, "preload": [], "warm": False, "idle_seconds": 0, "on_eof": "exit", "output_bytes": 30000,
            "spool_bytes": 1 << 24, "image_bytes": 1 << 20, "max_displays": 20, "max_artifacts": 100,
        }
        message.update(fields)
        message["preload"] = {"python": message["preload"]}
        message["warm"] = ["python"] if message["warm"] else []
        self.send(message)
        return self.wait_for("ready")

    # -- frames

    def send(self, message):
        self.send_raw(json.dumps(message).encode())

    def send_raw(self, data):
        self.process.stdin.write(len(data).to_bytes(4, "big") + b"c" + data)
        self.process.stdin.flush()

    def read(self, deadline=None):
        """The next frame, or None at the end of the stream."""
        deadline = deadline or time.monotonic() + PATIENCE
        while True:
            if len(self.buffer) >= 5:
                end = 5 + int.from_bytes(self.buffer[:4], "big")
                if len(self.buffer) >= end:
                    kind, body, self.buffer = self.buffer[4:5], self.buffer[5:end], self.buffer[end:]
                    if kind != b"c":
                        continue
                    frame = json.loads(body)
                    if frame["type"] == "log":
                        self.logs.append(frame)
                        continue
                    return frame
            if not select.select([self.process.stdout], [], [], max(0, deadline - time.monotonic()))[0]:
                raise AssertionError("no frame came within %d s" % PATIENCE)
            chunk = os.read(self.process.stdout.fileno(), 1 << 20)
            if not chunk:
                return None
            self.buffer += chunk

    def wait_for(self, kind, **fields):
        """The next frame of a type with these fields; others that come first are dropped."""
        while True:
            frame = self.read()
            if frame is None:
                raise AssertionError("the supervisor ended before a frame %r came" % kind)
            if frame["type"] == kind and all(frame.get(name) == value for name, value in fields.items()):
                return frame

    # -- runs

    def start(self, code, **fields):
        message = {"type": "run", "language": "python", "id": "r%d" % next(self.ids), "code": code}
        message.update({"fresh": False, "timeout_ms": 0, "grace_ms": GRACE})
        message.update(fields)
        self.send(message)
        return message["id"]

    def finish(self, run_id):
        frames = []
        deadline = time.monotonic() + PATIENCE
        while True:
            if time.monotonic() > deadline:  # progress frames come for ever
                raise AssertionError("the run did not end within %d s" % PATIENCE)
            frame = self.read()
            if frame is None:
                raise AssertionError("the supervisor ended during a run")
            if frame.get("id") != run_id:
                continue
            if frame["type"] == "done":
                return Answer(frame, frames)
            frames.append(frame)

    def run(self, code, **fields):
        return self.finish(self.start(code, **fields))

    def path(self, *names):
        return os.path.join(self.work_dir, *names)

    def wait_for_modules(self, *names):
        """Waits until new kernels have these modules loaded."""
        # Imports begin at the end of a run behind which the next kernel is ready: this one takes longer than a fork.
        code = "import sys, time; time.sleep(0.3); all(name in sys.modules for name in %r)" % (names,)
        deadline = time.monotonic() + PATIENCE
        while self.run(code, fresh=True).result != "True":
            if time.monotonic() > deadline:
                raise AssertionError("kernels did not get %r within %d s" % (names, PATIENCE))

    def close(self):
        for stream in (self.process.stdin, self.process.stdout):
            try:
                stream.close()
            except OSError:
                pass
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.own_dir:
            shutil.rmtree(self.own_dir, ignore_errors=True)


class Kernel:
    """A kernel, and the supervisor's end of its socket."""

    FROZEN = ".state/python.frozen"

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
        self.out = open(os.devnull)  # what the run prints, which is little
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

    def start(self, code):
        self.runs += 1
        self.out.close()
        out, end = os.pipe()
        self.out = open(out)
        self.send({"type": "run", "id": "r%d" % self.runs, "code": code, "linger_ms": 0}, [end, end])
        os.close(end)

    def run(self, code):
        self.start(code)
        return self.wait_for("done")

    def interrupt(self, **fields):
        """Interrupts the run until it is done: one signal may come just before a call that waits, and wakes nobody."""
        self.send({**fields, "type": "interrupt", "id": "r%d" % self.runs, "n": 1})
        for _ in range(PATIENCE):
            self.process.send_signal(signal.SIGINT)
            if select.select([self.sock], [], [], 1)[0]:
                break
        return self.wait_for("done")

    def ask(self, kind, **fields):
        """Has the variables written or read."""
        self.send({"type": kind, "path": self.FROZEN, "seconds": PATIENCE, **fields})
        return self.wait_for({"freeze": "frozen", "wake": "woken"}[kind])

    def close(self):
        self.out.close()
        self.file.close()
        self.sock.close()
        self.process.wait(PATIENCE)


def can_import(*names):
    """Whether the interpreter under test has any of these packages."""
    return any(map(importlib.util.find_spec, names))


def state_of(pid):
    """The letter of a process's state as proc(5) has it, Z for a zombie; None where there is no such process."""
    try:
        with open("/proc/%d/stat" % pid) as file:
            return file.read().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):  # the second where it goes between opening and reading
        return None


class SupervisorTest(unittest.TestCase):
    """A test with a supervisor of its own."""

    init = {}

    def setUp(self):
        self.client = self.connect(**self.init)

    def connect(self, **init):
        client = Client(**init)
        self.addCleanup(client.close)
        return client

    def run_code(self, code, **fields):
        return self.client.run(code, **fields)

    def completed(self, code, **fields):
        answer = self.run_code(code, **fields)
        self.assertEqual(answer.status, "completed", answer)
        return answer

    def soon(self, holds, what="", every=0.01):
        """Waits until something holds, and asks at these seconds."""
        deadline = time.monotonic() + min(PATIENCE, 300)  # less than the 600 seconds that most programs of tests sleep
        while not holds():
            self.assertLess(time.monotonic(), deadline, what)
            time.sleep(every)

    def write(self, name, text):
        with open(self.client.path(name), "w") as file:
            file.write(text)

    def wait_for_file(self, name):
        self.soon(lambda: os.path.exists(self.client.path(name)), "no file %s" % name)

    def gone(self, pid):
        """Waits until a process is gone, or is a zombie of someone else's."""
        self.soon(lambda: state_of(pid) in (None, "Z", "X"), "process %d is still there" % pid)

    def stop_when_running(self, code, reason="cancelled", announce=True, **fields):
        """Starts code and stops it when a file `running` is there; with announce false the code makes it."""
        if os.path.exists(self.client.path("running")):
            os.remove(self.client.path("running"))
        run_id = self.client.start(("open('running', 'w').close()\n" if announce else "") + code, **fields)
        self.wait_for_file("running")
        self.client.send({"type": "interrupt", "id": run_id, "reason": reason})
        return self.client.finish(run_id)
