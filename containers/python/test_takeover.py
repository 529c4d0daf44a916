"""The take-over of a supervisor by a later server (takeover.py, frames.py, relay.py)."""

import ctypes
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
import unittest

from test_support import GRACE, PATIENCE, RELAY, SupervisorTest

NAME = "\0code-sandbox-mcp"
TOKEN = "7f3c-token-that-only-servers-know"
CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000


def enter_network_of_our_own():
    """Abstract names belong to a network namespace: a new one for each test, as a container has it."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET) == 0:
        return
    uid, gid = os.getuid(), os.getgid()
    if libc.unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "no network namespace can be made")
    for name, text in (("setgroups", "deny"), ("uid_map", "%d %d 1" % (uid, uid)), ("gid_map", "%d %d 1" % (gid, gid))):
        with open("/proc/self/" + name, "w") as file:
            file.write(text)


class Server:
    """A later server: a connection of its own to the supervisor."""

    def __init__(self):
        self.sock = socket.socket(socket.AF_UNIX)
        try:
            self.sock.connect(NAME)
        except OSError:
            self.sock.close()
            raise
        self.sock.settimeout(PATIENCE)

    def close(self):
        self.sock.close()

    def send_raw(self, data):
        self.sock.sendall(data)

    def send(self, *messages):
        frames = (json.dumps(message).encode() for message in messages)
        self.send_raw(b"".join(len(data).to_bytes(4, "big") + data for data in frames))

    def read(self):
        """The next frame, or None when the supervisor has closed the connection."""
        sizes = self._exactly(4)
        return json.loads(self._exactly(int.from_bytes(sizes, "big"))) if sizes else None

    def _exactly(self, size):
        data = b""
        while len(data) < size:
            try:
                chunk = self.sock.recv(size - len(data))
            except ConnectionResetError:
                return b""
            if not chunk:
                return b""
            data += chunk
        return data

    def wait_for(self, kind, **fields):
        while True:
            frame = self.read()
            if frame is None:
                raise AssertionError("the connection ended before a frame %r came" % kind)
            if frame["type"] == kind and all(frame.get(name) == value for name, value in fields.items()):
                return frame

    def attach(self, token=TOKEN):
        self.send({"type": "attach", "protocol": 1, "token": token})
        return self.read()

    def run(self, code, run_id, **fields):
        self.send(dict({"type": "run", "id": run_id, "code": code, "grace_ms": GRACE}, **fields))
        return self.wait_for("done", id=run_id)

    def is_closed(self):
        """Whether the connection has ended, without waiting for it."""
        return bool(select.select([self.sock], [], [], 0)[0]) and self.read() is None


class TakeOverTest(SupervisorTest):
    init = {"token": TOKEN, "on_eof": "wait"}

    def setUp(self):
        enter_network_of_our_own()
        super().setUp()
        self.addCleanup(self.kill)

    def kill(self):
        self.client.process.kill()

    def server(self):
        server = Server()
        self.addCleanup(server.close)
        return server

    def attached(self):
        server = self.server()
        self.assertEqual(server.attach()["type"], "ready")
        return server


class Attaching(TakeOverTest):
    def test_variables_are_still_there(self):
        self.completed("x = 41", id="old")
        self.client.process.stdin.close()
        server = self.server()
        ready = server.attach()
        self.assertEqual((ready["run"], ready["last"], ready["language"]), ("", "old", "python"))
        self.assertEqual(server.wait_for("done")["id"], "old")
        self.assertEqual(server.run("x + 1", "new")["result"], "42")

    def test_ready_before_any_run_names_none(self):
        self.assertEqual((self.client.ready["run"], self.client.ready["last"]), ("", ""))
        server = self.server()
        ready = server.attach()
        self.assertEqual((ready["run"], ready["last"]), ("", ""))
        server.send({"type": "ping", "n": 1})
        self.assertEqual(server.read(), {"type": "pong", "n": 1})

    def test_a_run_that_goes_on_is_heard_to_its_end(self):
        run_id = self.client.start(
            "import os, time\nopen('begun', 'w').close()\nwhile not os.path.exists('go'): time.sleep(0.01)\n'result'"
        )
        self.wait_for_file("begun")
        self.client.process.stdin.close()
        server = self.server()
        ready = server.attach()
        self.assertEqual((ready["run"], ready["last"]), (run_id, ""))
        open(self.client.path("go"), "w").close()
        self.assertEqual(server.wait_for("done")["result"], "'result'")

    def wait_for_file(self, name):
        deadline = time.monotonic() + PATIENCE
        while not os.path.exists(self.client.path(name)):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.005)

    SHOW = (
        "class Svg:\n    def __init__(self, s): self.s = s\n    def _repr_svg_(self): return self.s\n"
        "    def __repr__(self): return '<Svg>'\ndef show(s):\n    try: display(Svg(s))\n"
        "    except NameError:\n        from IPython.display import display as d; d(Svg(s))\n"
    )

    def test_displays_that_nobody_has_read_come_again_in_order(self):
        self.completed(self.SHOW)
        run_id = self.client.start("for i in range(3): show('<svg>%d</svg>' % i)\nprint('out')")
        self.client.finish(run_id)
        server = self.server()
        self.assertEqual(server.attach()["last"], run_id)
        frames = [server.read() for _ in range(4)]
        self.assertEqual([frame["type"] for frame in frames], ["display"] * 3 + ["done"])
        self.assertEqual([frame["data"]["image/svg+xml"] for frame in frames[:3]],
                         ["<svg>%d</svg>" % i for i in range(3)])
        self.assertEqual(frames[3]["stdout"]["head"], "out\n")
        server.run("1", "later")
        again = self.server()
        self.assertEqual(again.attach()["last"], "later")
        self.assertEqual(again.read()["id"], "later")  # nothing of the run before

    def test_what_is_kept_is_bounded_and_the_newest_are_dropped(self):
        client = self.client
        client.init(max_displays=100, image_bytes=1 << 20)
        self.completed(self.SHOW)
        self.completed("for i in range(30): show('<svg>%02d%s</svg>' % (i, 'x' * 800_000))")
        server = self.server()
        server.attach()
        frames = []
        while not frames or frames[-1]["type"] != "done":
            frames.append(server.read())
        numbers = [int(frame["data"]["image/svg+xml"][5:7]) for frame in frames[:-1]]
        self.assertEqual(numbers, list(range(10)))
        self.assertEqual(frames[-1]["displays_total"], 30)

    def test_the_server_before_is_cut_off(self):
        first = self.attached()
        self.assertIsNone(self.client.read())  # the end of stdout
        second = self.attached()
        self.assertIsNone(first.read())
        self.assertEqual(second.run("1 + 1", "r")["result"], "2")

    def test_frames_right_behind_attach_are_taken(self):
        server = self.server()
        server.send({"type": "attach", "token": TOKEN}, {"type": "ping", "n": 7})
        self.assertEqual([server.read()["type"] for _ in range(2)], ["ready", "pong"])

    def test_an_attach_in_pieces(self):
        server = self.server()
        data = json.dumps({"type": "attach", "token": TOKEN}).encode()
        for piece in (b"\0\0", len(data).to_bytes(4, "big")[2:] + data[:9]):
            server.send_raw(piece)
            self.client.send({"type": "ping", "n": 1})
            self.client.wait_for("pong")
        server.send_raw(data[9:])
        self.assertEqual(server.read()["type"], "ready")

    def test_the_end_of_a_connection_is_waited_out(self):
        server = self.attached()
        server.run("x = 5", "r")
        server.close()
        again = self.server()
        again.attach()
        self.assertEqual(again.wait_for("done")["id"], "r")
        self.assertEqual(again.run("x", "s")["result"], "5")

    def test_stop_ends_it(self):
        server = self.attached()
        server.send({"type": "stop"})
        self.assertIsNone(server.read())
        self.assertEqual(self.client.process.wait(PATIENCE), 0)


class Ends(TakeOverTest):
    def test_the_end_of_the_last_connection_ends_it_where_that_was_asked_for(self):
        self.client.init(on_eof="exit")
        server = self.attached()
        server.close()
        self.assertEqual(self.client.process.wait(PATIENCE), 0)

    def test_it_ends_when_no_server_has_spoken_for_the_idle_time(self):
        self.client.init(on_eof="wait", idle_seconds=1)
        server = self.attached()
        self.assertIsNone(server.read())
        self.assertEqual(self.client.process.wait(PATIENCE), 0)

    def test_a_server_that_speaks_keeps_it(self):
        self.client.init(on_eof="wait", idle_seconds=2)
        server = self.attached()
        started = time.monotonic()
        while time.monotonic() < started + 3:
            server.send({"type": "ping", "n": 1})
            self.assertEqual(server.read()["type"], "pong")
            time.sleep(0.05)
        self.assertIsNone(server.read())


class Strangers(TakeOverTest):
    def still_works(self):
        self.assertEqual(self.completed("1 + 1").result, "2")

    def test_a_wrong_token_is_answered_by_nothing_for_a_second(self):
        for token in ("", TOKEN[:-1], TOKEN + "x", "é", "\ud800", None, 5, [TOKEN]):
            server = self.server()
            started = time.monotonic()
            self.assertIsNone(server.attach(token))
            self.assertGreaterEqual(time.monotonic() - started, 0.95)
        self.still_works()

    def test_what_is_no_attach_is_closed(self):
        for data in (b"{}", b"[]", b"\xff", b"", b"[" * 4000, b'{"type":"attach"}',
                     json.dumps({"type": "run", "id": "x", "code": "1", "token": TOKEN}).encode()):
            server = self.server()
            server.send_raw(len(data).to_bytes(4, "big") + data)
            self.assertIsNone(server.read())
        for sizes in (b"\xff" * 4, (4097).to_bytes(4, "big")):
            server = self.server()
            server.send_raw(sizes)
            self.assertIsNone(server.read())
        self.still_works()

    def test_who_says_nothing_is_closed_and_hinders_nobody(self):
        silent = [self.server() for _ in range(7)]
        for server in silent[:3]:
            server.send_raw(b"\0\0")
        self.still_works()
        late = self.server()
        late.send({"type": "attach", "token": TOKEN})
        self.assertEqual(late.read()["type"], "ready")  # when places are free again
        self.assertTrue(all(server.is_closed() for server in silent[:4]))

    def test_many_that_come_and_go(self):
        for _ in range(300):
            server = self.server()
            server.send_raw(b"\0\0\0\x05hell")
            server.close()
        self.attached()

    def test_code_finds_neither_the_sockets_nor_the_token(self):
        self.attached()
        code = (
            "import gc, os, stat\nsockets = []\n"
            "for fd in range(1024):\n"
            "    try: sockets += [fd] * stat.S_ISSOCK(os.fstat(fd).st_mode)\n"
            "    except OSError: pass\n"
            "token = ''.join(['7f3c-token', '-that-only'])\n"
            "found = [v for o in gc.get_objects() if isinstance(o, dict) and o is not globals() for v in list(o.values())\n"
            "         if isinstance(v, str) and token in v\n"
            "         or isinstance(v, (bytes, bytearray)) and token.encode() in v]\n"
            "print(len(sockets), len(found))"
        )
        server = self.attached()
        for fresh in (False, True):
            done = server.run(code, "r%d" % fresh, fresh=fresh)
            self.assertEqual(done["stdout"]["head"], "1 0\n", done)

    def test_code_that_connects_gets_nothing(self):
        answer = self.completed(
            "import socket, json\ns = socket.socket(socket.AF_UNIX)\ns.connect('\\0code-sandbox-mcp')\n"
            "d = json.dumps({'type': 'attach', 'token': 'guess'}).encode()\n"
            "s.sendall(len(d).to_bytes(4, 'big') + d); s.recv(10)"
        )
        self.assertEqual(answer.result, "b''")

    def test_without_a_token_nobody_listens(self):
        enter_network_of_our_own()
        client = self.connect(on_eof="exit")
        self.assertEqual(client.run("1").result, "1")
        with self.assertRaises(ConnectionRefusedError):
            self.server()

    def test_a_name_that_is_taken_is_told_and_costs_nothing_else(self):
        client = self.connect(token="other", on_eof="exit")
        self.assertEqual(client.run("1").result, "1")
        self.assertIn("no later server", client.logs[0]["message"])


class Relay(TakeOverTest):
    def relay(self):
        process = subprocess.Popen(
            [sys.executable, "-I", "-c", RELAY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

        def end():
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                stream.close()

        self.addCleanup(end)
        return process

    def frame(self, process, message):
        data = json.dumps(message).encode()
        process.stdin.write(len(data).to_bytes(4, "big") + data)
        process.stdin.flush()

    def answer(self, process):
        size = int.from_bytes(process.stdout.read(4), "big")
        return json.loads(process.stdout.read(size))

    def test_it_joins_stdio_to_the_socket(self):
        relay = self.relay()
        self.frame(relay, {"type": "attach", "token": TOKEN})
        self.assertEqual(self.answer(relay)["type"], "ready")
        code = "x = '%s'\nprint(len(x) * 'y')" % ("a" * 900_000)
        self.frame(relay, {"type": "run", "id": "r", "code": code})
        while True:
            answer = self.answer(relay)
            if answer["type"] == "done":
                break
        self.assertEqual((answer["status"], answer["stdout"]["bytes"]), ("completed", 900_001))

    def test_it_ends_when_either_side_ends(self):
        first = self.relay()
        self.frame(first, {"type": "attach", "token": TOKEN})
        self.answer(first)
        first.stdin.close()
        self.assertEqual(first.wait(PATIENCE), 0)
        second = self.relay()
        self.frame(second, {"type": "attach", "token": TOKEN})
        self.answer(second)
        self.client.process.send_signal(signal.SIGTERM)
        self.assertEqual(second.wait(PATIENCE), 0)

    def test_without_a_supervisor_it_says_so(self):
        enter_network_of_our_own()
        relay = self.relay()
        self.assertEqual(relay.wait(PATIENCE), 1)
        self.assertIn(b"no supervisor listens", relay.stderr.read())


if __name__ == "__main__":
    unittest.main()
