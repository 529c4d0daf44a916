"""Code that attacks the supervisor: forged frames, a hijacked link, signals, exhausted limits.

What is sent to it goes through links.py and hostile.py; descriptors.py keeps what it has open out
of the way.
"""

import os
import signal
import time
import unittest

from test_support import PATIENCE, SupervisorTest

# Finds the kernel's own socket and writes to it what a kernel would: hostile code can do that.
FORGE = """
import json, os, socket, stat
def link():
    for name in os.listdir('/proc/self/fd'):
        try:
            if int(name) > 2 and stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                return socket.socket(fileno=os.dup(int(name)))
        except OSError:
            pass
def frame(header, blob=b''):
    data = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(data).to_bytes(4, 'big') + len(blob).to_bytes(4, 'big') + data + blob
def send(*args): link().sendall(frame(*args))
def raw(data): link().sendall(data)
"""


class Shadows(SupervisorTest):
    def test_files_named_like_modules_do_not_become_the_supervisors(self):
        names = ("errno", "functools", "json", "socket", "struct", "importlib", "ctypes", "threading", "IPython")
        for name in names:
            self.completed("open(%r, 'w').write('import os; os.write(1, b\"taken over\"); os._exit(9)')" % (name + ".py"))
        # The next container of the session starts in a folder with these files.
        client = self.connect(work_dir=self.client.work_dir)
        self.assertEqual(client.ready["protocol"], 1)
        self.assertEqual(client.run("1 + 1", fresh=True).result, "2")


class HostileTest(SupervisorTest):
    init = {"image_bytes": 100_000, "max_displays": 5, "output_bytes": 1000}

    def setUp(self):
        super().setUp()
        self.completed(FORGE)

    def still_works(self):
        self.assertEqual(self.completed("print('works'); 1 + 1").result, "2")

    def rss_kib(self):
        with open("/proc/%d/status" % self.client.process.pid) as file:
            return next(int(line.split()[1]) for line in file if line.startswith("VmRSS:"))


class ForgedFrames(HostileTest):
    def test_a_breach_costs_the_kernel_and_nothing_else(self):
        for attack in (
            "raw(b'\\xff' * 8)",
            "raw(b'\\x7f\\xff\\xff\\xff' + b'\\0\\0\\0\\0')",
            "raw(b'\\0\\0\\0\\x02\\x7f\\xff\\xff\\xff{}')",
            "send(b'')",
            "send(b'[]')",
            "send(b'{' * 100_000)",
            "send(b'[' * 1_000_000)",
            "send(b'{\"a\":' + b'9' * 1_000_000 + b'}')",
            "send(b'\\xff\\xfe')",
        ):
            with self.subTest(attack):
                answer = self.run_code(attack + "\nimport time; time.sleep(600)")
                self.assertEqual((answer.status, answer.kernel, answer.cause), ("killed", "dead", "signal 9"))
                self.completed(FORGE)
        self.still_works()

    def test_a_run_that_comes_as_its_kernel_is_being_killed_has_the_next_one(self):
        self.completed(
            "kept = 1\n"
            "def breach():\n"
            "    import time\n"
            "    while not os.path.exists('breach'): time.sleep(0.005)\n"
            "    raw(b'\\xff' * 8)\n"
            "    open('breached', 'w').close()\n"
            "import threading; threading.Thread(target=breach, daemon=True).start()"
        )
        supervisor = self.client.process.pid
        # It hears of the breach, and then of the run, before the kernel can be dead.
        os.kill(supervisor, signal.SIGSTOP)
        try:
            open(self.client.path("breach"), "w").close()
            deadline = time.monotonic() + PATIENCE
            while not os.path.exists(self.client.path("breached")):
                self.assertLess(time.monotonic(), deadline, "the kernel did not send it")
                time.sleep(0.005)
            run = self.client.start("'kept' in globals()")
        finally:
            os.kill(supervisor, signal.SIGCONT)
        frame = self.client.wait_for("kernel", state="dead")
        self.assertEqual(frame["cause"], "signal 9")
        answer = self.client.finish(run)
        self.assertEqual((answer.status, answer.result, answer.kernel), ("completed", "False", "alive"))

    def test_frames_with_wrong_types_are_ignored(self):
        code = (
            "for header in ({}, {'type': None}, {'type': ['done']}, {'type': 'hello', 'pid': 1}, {'type': 'loaded'},\n"
            "               {'type': 'hello', 'pid': -1}, {'type': 'done'}, {'type': 'done', 'id': 7},\n"
            "               {'type': 'done', 'id': 'r1'}, {'type': 'display', 'id': 'never'}, {'type': 'ready'},\n"
            "               {'type': 'kernel', 'state': 'dead'}):\n    send(header)\n'real'"
        )
        self.assertEqual(self.completed(code).result, "'real'")
        self.still_works()

    def test_a_forged_done_spoils_only_its_own_run(self):
        code = (
            "send({'type': 'done', 'id': 'forged', 'result': 5, 'exit': -3, 'error': {'name': 5, 'traceback': [1]}})\n"
            "import time; time.sleep(0.3)"
        )
        answer = self.client.run(code, id="forged")
        self.assertEqual((answer.status, answer.result, answer.exit_code), ("failed", None, 1))
        self.assertEqual(answer.error, {"name": "Error", "message": "", "traceback": ""})
        self.still_works()

    def test_a_forged_done_is_bounded(self):
        code = (
            "send({'type': 'done', 'id': 'forged', 'result': 'é' * 100_000, 'exit': 10**18,\n"
            "      'error': {'name': 'n' * 99_999, 'message': 'm' * 99_999, 'traceback': '\\ud800' * 99_999}})"
        )
        answer = self.client.run(code, id="forged")
        self.assertLessEqual(len(answer.result.encode()), 1000)
        self.assertLessEqual(len(answer.error["name"]), 200)
        self.assertLessEqual(len(answer.error["message"]), 8000)
        self.assertLessEqual(len(answer.error["traceback"]), 32_000)
        self.still_works()

    def test_forged_displays_are_checked(self):
        for header, blob in (
            ("{'type': 'display', 'id': 'x', 'mime': 'text/javascript'}", "b'x'"),
            ("{'type': 'display', 'id': 'x', 'mime': ['image/png']}", "b'x'"),
            ("{'type': 'display', 'id': 'x'}", "b''"),
        ):
            answer = self.client.run("send(%s, %s)" % (header, blob), id="x")
            self.assertEqual(answer.displays, [], header)

    def test_forged_paths_are_dropped(self):
        code = (
            "for path in ('/etc/passwd', '../x', 'a/../../x', 'a//b', '', 5, 'x' * 5000, 'a\\0b', '\\ud800', './x'):\n"
            "    send({'type': 'display', 'id': 'x', 'mime': 'image/svg+xml', 'path': path, 'size': -5, 'alt': 7}, b's')"
        )
        answer = self.client.run(code, id="x")
        self.assertEqual(len(answer.displays), 5)
        for display in answer.displays:
            self.assertNotIn("path", display)
            self.assertEqual((display["alt"], display["size_bytes"]), ("", 0))

    def test_a_display_over_the_limit_has_no_data(self):
        answer = self.client.run(
            "send({'type': 'display', 'id': 'x', 'mime': 'image/png'}, b'x' * 5_000_000)", id="x"
        )
        self.assertEqual(answer.displays[0]["data"], {})

    def test_a_flood_of_displays_takes_no_memory_and_can_be_interrupted(self):
        before = self.rss_kib()
        code = "s = link(); data = frame({'type': 'display', 'id': 'x', 'mime': 'image/png'}, b'x' * 1_000_000)\n"
        answer = self.client.run(code + "while True: s.sendall(data)", id="x", timeout_ms=1000, grace_ms=2000)
        self.assertEqual(answer.status, "timed_out")
        self.assertEqual(len(answer.displays), 5)
        self.assertLess(self.rss_kib() - before, 32_768)
        self.still_works()

    def test_half_a_frame_is_waited_for_until_the_timeout(self):
        answer = self.run_code("raw(b'\\0\\0')\nimport time; time.sleep(600)", timeout_ms=300, grace_ms=300)
        self.assertEqual(answer.status, "timed_out")
        self.still_works()


class HijackedLinks(HostileTest):
    def test_a_kernel_that_answers_and_never_reads_again(self):
        code = (
            "send({'type': 'done', 'id': 'forged'})\nimport time\n"
            "while True:\n    try: time.sleep(60)\n    except BaseException: pass"
        )
        self.assertEqual(self.client.run(code, id="forged").status, "completed")
        answer = self.run_code("x = '%s'" % ("a" * 900_000), timeout_ms=300, grace_ms=300)
        self.assertEqual((answer.status, answer.kernel, answer.cause), ("timed_out", "dead", "ignored_interrupt"))
        self.still_works()

    def test_runs_that_pile_up_in_a_kernel_that_never_reads(self):
        self.completed("import threading, time")
        code = "def forge():\n    for i in range(50): send({'type': 'done', 'id': 'f%d' % i})\n" \
               "threading.Thread(target=forge, daemon=True).start()\nwhile True: pass"
        self.client.run(code, id="f0")
        for i in range(1, 30):
            self.client.run("1", id="f%d" % i, timeout_ms=100, grace_ms=100)
        self.client.run("1", timeout_ms=100, grace_ms=100)  # one whose end was not forged ends the kernel
        self.still_works()

    def test_a_link_that_is_shut_down(self):
        for how in ("SHUT_RDWR", "SHUT_WR"):
            answer = self.run_code("link().shutdown(socket.%s); import time; time.sleep(600)" % how)
            self.assertEqual((answer.status, answer.kernel), ("killed", "dead"))
            self.completed(FORGE)
        self.still_works()

    def test_descriptors_that_are_sent_are_dropped(self):
        client = self.connect(open_files=64)
        client.run(FORGE)
        answer = client.run(
            "import array\nr = os.open('/dev/null', 0)\n"
            "for _ in range(200):\n"
            "    s = link()\n"
            "    try: s.sendmsg([frame({'type': 'x'})],\n"
            "                   [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [r]))])\n"
            "    except OSError: pass"  # too many on their way
        )
        self.assertEqual(answer.status, "completed", answer)
        self.assertEqual(client.run("1 + 1").result, "2")

    def test_a_child_that_keeps_the_link_open(self):
        code = "if os.fork() == 0:\n    import time; time.sleep(600)\nos._exit(3)"
        answer = self.run_code(code)
        self.assertEqual((answer.status, answer.cause), ("killed", "exit 3"))
        self.still_works()


class Supervisors(HostileTest):
    """What code tries on process 1 itself; as here, where it runs as the same user."""

    def test_its_memory_and_descriptors_are_closed(self):
        if os.geteuid() == 0:  # root may do all of this; the container has no root
            code = "import os\ntry:\n    os.setuid(65534)\nexcept OSError: pass\n"
        else:
            code = "import os\n"
        answer = self.completed(
            code + "found = []\n"
            "for name in ('mem', 'environ', 'fd', 'maps'):\n"
            "    path = '/proc/%d/%s' % (os.getppid(), name)\n"
            "    try:\n        found.append(os.listdir(path) if name == 'fd' else open(path, 'rb').read(1))\n"
            "    except OSError: pass\n"
            "found",
            fresh=True,
        )
        self.assertEqual(answer.result, "[]")

    def test_its_protocol_is_not_reachable_by_number(self):
        answer = self.completed(
            "import os\nforeign = []\nown = {os.readlink('/proc/self/fd/%d' % fd) for fd in (1, 2)}\n"
            "for fd in range(3, 1024):\n"
            "    try: target = os.readlink('/proc/self/fd/%d' % fd)\n"
            "    except OSError: continue\n"
            "    if target.startswith('pipe:') and target not in own: foreign.append((fd, target))\n"
            "foreign", fresh=True)
        self.assertEqual(answer.result, "[]")

    def test_code_can_use_its_own_proc_entry(self):
        self.assertEqual(self.completed("len(open('/proc/self/environ', 'rb').read()) >= 0").result, "True")

    def test_the_killer_of_memory_hogs_prefers_code(self):
        self.assertEqual(self.completed("int(open('/proc/self/oom_score_adj').read())").result, "1000")

    def test_code_that_uses_up_its_descriptors_keeps_its_kernel(self):
        code = (
            "import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (300, 300))\nkept = []\n"
            "try:\n    while True: kept.append(os.open('/dev/null', 0))\nexcept OSError: print('full')"
        )
        self.assertEqual(self.completed(code).out, "full\n")
        self.assertEqual(self.completed("for fd in kept: os.close(fd)\nlen(kept) > 200").result, "True")
        self.still_works()

    def test_deep_stacks_and_memory_errors(self):
        self.assertEqual(self.run_code("x = bytearray(1 << 60)").error["name"], "MemoryError")
        self.still_works()

    def test_replaced_builtins_do_not_cost_the_kernel(self):
        for code in (
            "import builtins; builtins.print = None; builtins.len = None",
            "import builtins; builtins.isinstance = None; builtins.open = None",
            "import sys; sys.modules.clear()",
            "import json, os, signal; json.dumps = os.write = signal.signal = None",
            "import sys; sys.setrecursionlimit(50)",
            "globals().clear()",
            "import sys; sys.settrace(lambda *a: 1/0)",
            "import gc; gc.disable(); gc.set_threshold(1, 1, 1)",
        ):
            with self.subTest(code):
                self.run_code(code)  # it may cost the code its own kernel, and no more than that
                self.still_works()


if __name__ == "__main__":
    unittest.main()
