"""How code hears of interrupts (interrupts.py), and what new kernels have loaded (zygote.py, preload.py)."""

import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import unittest
import unittest.mock

import interrupts
import preload

from test_support import GRACE, LONG_GRACE, SupervisorTest


class Interrupts(SupervisorTest):
    def write_modules(self, texts):
        for path, text in texts.items():
            path = self.client.path(path)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)

    def test_an_import_that_was_interrupted_can_be_made_again(self):
        self.write_modules({
            "parcel/__init__.py": "from .names import *\nfrom .inner import *\n__all__ = names.__all__ + inner.__all__",
            "parcel/names.py": "__all__ = ['one']\none = 1",
            "parcel/inner/__init__.py":
                "from .names import *\n__all__ = names.__all__\nimport os, time\nwhile not os.path.exists('go'): time.sleep(1)",
            "parcel/inner/names.py": "__all__ = ['two']\ntwo = 2",
        })
        self.assertEqual(self.run_code("import parcel", timeout_ms=500).status, "timed_out")
        self.assertEqual(self.completed("open('go', 'w').close()\nfrom parcel import *\none + two").result, "3")

    def test_the_import_of_an_installed_package_comes_to_its_end_first(self):
        self.write_modules({"site-packages/slow.py": "import time\nfor _ in range(8): time.sleep(0.1)\nloaded = True"})
        self.completed("import sys; sys.path.insert(0, 'site-packages')")
        answer = self.run_code("import slow\nprint('went on')\nwhile True: pass", timeout_ms=200, grace_ms=LONG_GRACE)
        self.assertEqual((answer.status, answer.kernel, answer.error["name"]), ("timed_out", "alive", "KeyboardInterrupt"))
        self.assertEqual(self.completed("sys.modules['slow'].loaded").result, "True")

    def test_the_import_of_an_installed_package_that_never_ends(self):
        self.write_modules({"site-packages/stuck.py": "while True: pass"})
        self.completed("import sys; sys.path.insert(0, 'site-packages')")
        answer = self.run_code("import stuck", timeout_ms=200, grace_ms=2 * GRACE)
        self.assertEqual((answer.status, answer.kernel, answer.error["name"]), ("timed_out", "alive", "KeyboardInterrupt"))

    def test_a_cancel_keeps_the_variables(self):
        for code in (
            "while True: pass",
            "import time; time.sleep(600)",
            "import subprocess; subprocess.run(['sleep', '600'])",
            "import os; os.system('sleep 600')\nwhile True: pass",
            "import asyncio\nawait asyncio.sleep(600)",
            "import threading; threading.Event().wait()",
            "import os; os.read(os.pipe()[0], 1)",
            "import re; re.match(r'(a+)+b', 'a' * 60)",
            "import socket; s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen(); s.accept()",
            "import select; select.select([], [], [])",
            "import queue; queue.Queue().get()",
            "import threading; lock = threading.Lock(); lock.acquire(); lock.acquire()",
            "import subprocess; subprocess.run('sleep 600; echo x', shell=True, capture_output=True)",
            "import multiprocessing as m, time\npool = m.get_context('fork').Pool(2); pool.map(time.sleep, [600] * 2)",
            "import asyncio\nawait asyncio.gather(asyncio.sleep(600), asyncio.sleep(600))",
            "import asyncio\nasyncio.run(asyncio.sleep(600))",
            "import time\ndef g():\n    try: yield\n    finally: time.sleep(600)\ngen = g(); next(gen); del gen",
            "class A:\n    def __repr__(self):\n        while True: pass\nA()",
            "import atexit, time; atexit.register(time.sleep, 600); time.sleep(600)",
        ):
            with self.subTest(code):
                self.completed("x = 1")
                answer = self.stop_when_running(code, grace_ms=LONG_GRACE)
                self.assertEqual((answer.status, answer.exit_code, answer.kernel), ("cancelled", 130, "alive"), answer)
                self.assertEqual(self.completed("x").result, "1")

    def test_code_that_catches_it_and_ends_is_cancelled_all_the_same(self):
        code = (
            "try:\n    open('running', 'w').close()\n    while True: pass\n"
            "except KeyboardInterrupt:\n    print('caught')\n'value'"
        )
        answer = self.stop_when_running(code, announce=False)
        self.assertEqual((answer.status, answer.exit_code, answer.out), ("cancelled", 130, "caught\n"))
        self.assertEqual((answer.result, answer.error, answer.kernel), ("'value'", None, "alive"))

    def test_code_that_swallows_it_once_is_interrupted_again(self):
        code = "try:\n    while True: pass\nexcept KeyboardInterrupt:\n    while True: pass"
        answer = self.stop_when_running(code, grace_ms=2000)
        self.assertEqual((answer.status, answer.kernel), ("cancelled", "alive"))

    def test_an_abandoned_await_does_not_go_on_in_the_next_run(self):
        code = (
            "import asyncio\nfor i in range(10**9):\n    x = i\n    open('running', 'w').close()\n"
            "    await asyncio.sleep(0.001)"
        )
        self.stop_when_running(code, announce=False)
        before = self.completed("x").result
        self.assertEqual(self.completed("await asyncio.sleep(0.05); x").result, before)

    def test_signals_between_runs_do_no_harm(self):
        pid = int(self.completed("x = 1; import os; os.getpid()").result)
        for _ in range(20):
            os.kill(pid, signal.SIGINT)
            self.assertEqual(self.completed("x").result, "1")

    def test_a_handler_that_code_sets_is_gone_in_the_next_run(self):
        self.completed("import signal; signal.signal(signal.SIGINT, signal.SIG_IGN);")
        answer = self.run_code("while True: pass", timeout_ms=200, grace_ms=LONG_GRACE)
        self.assertEqual((answer.status, answer.kernel), ("timed_out", "alive"))

    def test_a_task_that_swallows_its_cancellation(self):
        swallow = "    try: await asyncio.sleep(600)\n    except asyncio.CancelledError: pass\n"
        for body in (swallow + "    await asyncio.sleep(600)\n", "  while True:\n" + swallow):
            with self.subTest(body):
                self.completed("import asyncio; x = 1;")
                code = "async def work():\n" + body + "await work()"
                answer = self.stop_when_running(code, grace_ms=LONG_GRACE)
                self.assertEqual((answer.status, answer.kernel), ("cancelled", "alive"))
                self.assertEqual(self.completed("await asyncio.sleep(0, x)").result, "1")

    def test_signals_that_code_blocks_are_open_in_the_next_run(self):
        self.completed("import signal; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT]);")
        answer = self.run_code("while True: pass", timeout_ms=200, grace_ms=LONG_GRACE)
        self.assertEqual((answer.status, answer.kernel), ("timed_out", "alive"))

    def test_code_that_interrupts_itself_has_failed(self):
        answer = self.run_code("import os, signal, time; os.kill(os.getpid(), signal.SIGINT); time.sleep(60)")
        self.assertEqual((answer.status, answer.error["name"]), ("failed", "KeyboardInterrupt"))


class Deaths(SupervisorTest):
    def test_a_crash_tells_its_python_frames(self):
        self.assertIn("Segmentation fault", self.run_code("import ctypes; ctypes.string_at(0)").err)


class Zygotes(SupervisorTest):
    """With something to preload there is a zygote and a kernel that stands by."""

    init = {"preload": ["fractions", "no_such_module_at_all"], "warm": True}
    LOADED = "import sys; 'fractions' in sys.modules"

    def setUp(self):
        super().setUp()
        self.client.wait_for_modules("fractions")

    def test_kernels_have_the_modules(self):
        self.assertEqual(self.completed(self.LOADED, fresh=True).result, "True")
        self.run_code("import os; os._exit(1)")
        self.assertEqual(self.completed(self.LOADED).result, "True")

    def test_random_numbers_differ(self):
        results = {self.completed("import random; random.random()", fresh=True).result for _ in range(3)}
        self.assertEqual(len(results), 3)


class Preloading(SupervisorTest):
    """Without warm the kernel preloads by itself after its first run."""

    init = {"preload": ["fractions", "no_such_module_at_all"]}

    def test_it_is_done_without_a_run(self):
        self.completed("x = 1")
        code = "import sys, threading; ('fractions' in sys.modules, threading.active_count())"
        # The kernel preloads in a pause of 0.05 s between two runs.
        self.soon(lambda: self.completed(code).result == "(True, 1)", every=0.2)
        self.assertEqual(self.completed("x").result, "1")

    def test_code_may_import_and_fork_at_the_same_time(self):
        client = self.connect(preload=["email.mime.multipart", "xml.dom.minidom", "unittest", "http.server", "pydoc"])
        client.run("1")
        time.sleep(0.06)  # lets the preload begin; the test holds whether it has or not
        code = (
            "import multiprocessing, pydoc, http.server, xml.dom.minidom\n"
            "def f(n):\n    import email.mime.multipart\n    return n\n"
            "with multiprocessing.get_context('fork').Pool(2) as pool: print(pool.map(f, [1, 2]))"
        )
        for _ in range(3):
            self.assertEqual(client.run(code).out, "[1, 2]\n")


class Busy(unittest.TestCase):
    def test_a_machine_is_busy_where_others_run(self):
        spinner = subprocess.Popen([sys.executable, "-c", "while True: pass"])
        self.addCleanup(spinner.wait)
        self.addCleanup(spinner.kill)
        for cpus, busy in ((1, True), (100_000, False)):
            with unittest.mock.patch("os.cpu_count", return_value=cpus):
                self.assertIs(any(preload.is_busy() for _ in range(10_000)), busy)


class Handlers(SupervisorTest):
    init = {"warm": True}  # so that the kernel waits for the next run alone

    def test_a_handler_that_raises_between_runs_costs_nothing(self):
        code = "import os, signal\nx = 1\ndef handle(*_): raise ChildProcessError('none is left')\nsignal.signal(signal.SIGUSR1, handle)\nos.getpid()"
        pid = int(self.completed(code).result)
        sleeps = None
        while sleeps != (sleeps := re.findall(r"ctxt_switches:\s*(\d+)", pathlib.Path("/proc/%d/status" % pid).read_text())):
            time.sleep(0.3)  # it looks around every 50 ms, until it waits for the next run alone
        os.kill(pid, signal.SIGUSR1)
        self.assertEqual(self.completed("x, os.getpid()").result, "(1, %d)" % pid)


class IgnoringInterrupts(unittest.TestCase):
    def test_interrupts_that_come_one_behind_the_other(self):
        came = []

        def interrupt(*_):
            came.append(1)
            if len(came) < 3:
                os.kill(os.getpid(), signal.SIGINT)
            raise KeyboardInterrupt

        self.addCleanup(signal.signal, signal.SIGINT, signal.signal(signal.SIGINT, interrupt))
        try:
            os.kill(os.getpid(), signal.SIGINT)
        except KeyboardInterrupt:
            interrupts.ignore_interrupts()
        self.assertEqual(len(came), 3)
        self.assertIs(signal.getsignal(signal.SIGINT), interrupts.ignore_signal)

if __name__ == "__main__":
    unittest.main()
