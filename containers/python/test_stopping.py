"""How runs are stopped, how kernels die, and what lives on.

This is about interrupts.py in a kernel, children.py and processes.py in the supervisor, and about
reserve.py, zygote.py and preload.py, which have the next kernel ready.
"""

import os
import shutil
import signal
import tempfile
import time
import unittest

from test_support import GRACE, LONG_GRACE, PATIENCE, SLOWNESS, SOURCE, SupervisorTest, state_of


STUBBORN = """
import time
while True:
    try:
        open('running', 'w').close()
        time.sleep(60)
    except BaseException:
        pass
"""


class StopTest(SupervisorTest):
    def children(self, pid=None):
        """Of a process, or of the supervisor."""
        pid = pid or self.client.process.pid
        with open("/proc/%d/task/%d/children" % (pid, pid)) as file:
            return [int(child) for child in file.read().split()]

    def wait_for_file(self, name):
        deadline = time.monotonic() + PATIENCE
        while not os.path.exists(self.client.path(name)):
            self.assertLess(time.monotonic(), deadline, "no file %s" % name)
            time.sleep(0.005)

    def read(self, name):
        with open(self.client.path(name)) as file:
            return file.read()

    def stop_when_running(self, code, reason="cancelled", announce=True, **fields):
        """Starts code and stops it when a file `running` is there; with announce false the code makes it."""
        if os.path.exists(self.client.path("running")):
            os.remove(self.client.path("running"))
        run_id = self.client.start(("open('running', 'w').close()\n" if announce else "") + code, **fields)
        self.wait_for_file("running")
        self.client.send({"type": "interrupt", "id": run_id, "reason": reason})
        return self.client.finish(run_id)

    def stop_stubborn(self, reason="timed_out", **fields):
        """Starts code that does not let itself be interrupted, and stops it."""
        return self.stop_when_running(STUBBORN, reason, announce=False, **fields)


class Interrupts(StopTest):
    def test_a_timeout_keeps_the_variables(self):
        self.completed("x = 1")
        answer = self.run_code("print('partial')\nwhile True: pass", timeout_ms=300)
        self.assertEqual((answer.status, answer.exit_code, answer.kernel), ("timed_out", 124, "alive"))
        self.assertEqual((answer.error["name"], answer.out, answer.cause), ("KeyboardInterrupt", "partial\n", ""))
        self.assertEqual(self.completed("x").result, "1")

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

    def test_a_cancel_right_behind_the_run_is_not_lost(self):
        for _ in range(20):
            run_id = self.client.start("while True: pass", grace_ms=LONG_GRACE)
            self.client.send({"type": "interrupt", "id": run_id, "reason": "cancelled"})
            answer = self.client.finish(run_id)
            self.assertEqual((answer.status, answer.kernel), ("cancelled", "alive"))

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

    def test_the_first_reason_stands(self):
        run_id = self.client.start("open('running', 'w').close()\nwhile True: pass")
        self.wait_for_file("running")
        self.client.send({"type": "interrupt", "id": run_id, "reason": "timed_out"})
        self.client.send({"type": "interrupt", "id": run_id, "reason": "cancelled"})
        self.assertEqual(self.client.finish(run_id).status, "timed_out")

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

    def test_processes_of_earlier_runs_are_left_alone(self):
        self.completed("import subprocess; p = subprocess.Popen(['sleep', '600'])")
        # A process counts as the run's own from the tick on that the run began with.
        self.completed(
            "import os, time\nborn = int(open('/proc/%d/stat' % p.pid).read().rpartition(')')[2].split()[19])\n"
            "while int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf('SC_CLK_TCK')) <= born: pass"
        )
        self.stop_when_running("while True: pass")
        self.assertEqual(self.completed("p.poll() is None").result, "True")


class Killing(StopTest):
    def test_code_that_ignores_interrupts_is_killed(self):
        answer = self.stop_stubborn(grace_ms=200)
        self.assertEqual((answer.status, answer.exit_code), ("timed_out", 124))
        self.assertEqual((answer.kernel, answer.cause), ("dead", "ignored_interrupt"))
        self.assertEqual(self.completed("'x' in dir()").result, "False")

    def test_code_that_shuts_interrupts_out_is_killed(self):
        for shut in ("signal.signal(signal.SIGINT, signal.SIG_IGN)",
                     "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])"):
            with self.subTest(shut):
                code = "import signal, time\n" + shut + "\nopen('running', 'w').close()\nwhile True: time.sleep(1)"
                answer = self.stop_when_running(code, announce=False, grace_ms=300)
                self.assertEqual((answer.kernel, answer.cause), ("dead", "ignored_interrupt"))
                self.assertEqual(self.completed("1").result, "1")

    def test_a_grace_of_zero_kills_at_once(self):
        answer = self.stop_stubborn("cancelled", grace_ms=0)
        self.assertEqual((answer.status, answer.kernel), ("cancelled", "dead"))

    def test_a_stopped_kernel_is_killed(self):
        answer = self.run_code("import os, signal; os.kill(os.getpid(), signal.SIGSTOP)", timeout_ms=200 * SLOWNESS, grace_ms=200)
        self.assertEqual((answer.status, answer.cause), ("timed_out", "ignored_interrupt"))

    def test_a_run_that_ends_as_its_kernel_is_killed_leaves_the_next_one_alone(self):
        code = "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); time.sleep(%f); print('x' * 300_000)"
        pause, step, last = 0.12, 0.001, "alive"
        for i in range(60):  # by and by the two meet
            answer = self.run_code(code % pause, timeout_ms=20, grace_ms=100)
            step = 2 * step if answer.kernel == last else max(0.001, step / 2)
            last = answer.kernel
            pause = max(0, pause + (step if last == "alive" else -step))
            self.assertEqual("%d" % i, self.run_code("turn = %d; turn" % i).result)

    def test_everything_that_the_kernel_started_dies_with_it(self):
        code = (
            "import os, subprocess, time\n"
            "a = subprocess.Popen(['sleep', '600'])\n"
            "b = subprocess.Popen(['sleep', '600'], start_new_session=True)\n"
            "c = subprocess.run(['sh', '-c', 'setsid sleep 600 >/dev/null 2>&1 & echo $!'], stdout=-1).stdout\n"
            "open('pids', 'w').write('%d %d %d' % (a.pid, b.pid, int(c)))\n" + STUBBORN
        )
        self.stop_when_running(code, announce=False, grace_ms=200)
        for pid in self.read("pids").split():
            self.gone(int(pid))

    def test_a_fork_bomb_dies_with_its_kernel(self):
        code = (
            "import os, time\n"
            "for _ in range(5): os.fork()\n"  # 32 processes that replace themselves
            "end = time.time() + 30\n"
            "while time.time() < end:\n"
            "    try:\n"
            "        if os.fork(): os._exit(0)\n"
            "    except BaseException: pass\n"
        )
        answer = self.run_code(code, timeout_ms=500, grace_ms=200)
        self.assertIn(answer.kernel, ("dead",))
        self.assertEqual(self.completed("1").result, "1")


class Deaths(StopTest):
    def test_the_cause_of_a_death_is_told(self):
        for code, cause in (
            ("import os; os._exit(7)", "exit 7"),
            ("import os; os.kill(os.getpid(), 9)", "signal 9"),
            ("import os; os.abort()", "signal 6"),
            ("import ctypes; ctypes.string_at(0)", "signal 11"),
        ):
            with self.subTest(cause):
                answer = self.run_code("print('before', flush=True)\n" + code)
                self.assertEqual((answer.status, answer.exit_code, answer.kernel), ("killed", 137, "dead"))
                self.assertEqual((answer.cause, answer.out), (cause, "before\n"))

    def test_a_crash_tells_its_python_frames(self):
        self.assertIn("Segmentation fault", self.run_code("import ctypes; ctypes.string_at(0)").err)

    def test_the_next_run_has_a_new_kernel(self):
        self.completed("x = 1")
        self.run_code("import os; os._exit(1)")
        self.assertEqual(self.completed("'x' in dir()").result, "False")

    def test_a_program_that_takes_the_kernels_place(self):
        answer = self.run_code("import os; os.execvp('sleep', ['sleep', '600'])")
        self.assertEqual((answer.status, answer.kernel), ("killed", "dead"))
        self.assertEqual(self.completed("1").result, "1")

    def test_a_death_between_runs_is_told(self):
        self.completed("import threading, os, time\n"
                       "threading.Thread(target=lambda: (time.sleep(0.2), os._exit(9)), daemon=True).start()")
        frame = self.client.wait_for("kernel")
        self.assertEqual((frame["state"], frame["cause"]), ("dead", "exit 9"))
        self.assertEqual(self.completed("1").result, "1")

    def test_a_kernel_that_closes_its_link_is_replaced(self):
        answer = self.run_code("import os; os.closerange(3, 4096); import time; time.sleep(600)")
        self.assertEqual((answer.status, answer.kernel), ("killed", "dead"))
        self.assertEqual(self.completed("1").result, "1")

    def test_no_zombies_stay(self):
        self.completed("import os\nfor i in range(20):\n    if os.fork() == 0:\n"
                       "        if os.fork() == 0: os._exit(0)\n        os._exit(0)")
        self.run_code("import os; os._exit(0)")
        self.completed("1")
        self.assertNotIn("Z", [state_of(child) for child in self.children()])


class Fresh(StopTest):
    def test_it_has_none_of_the_variables_and_leaves_none(self):
        self.completed("x = 1")
        answer = self.completed("y = 2; 'x' in dir()", fresh=True)
        self.assertEqual((answer.result, answer.kernel), ("False", "fresh"))
        self.assertEqual(self.completed("(x, 'y' in dir())").result, "(1, False)")

    def test_it_sees_the_files_and_begins_in_the_work_dir(self):
        self.completed("import os; open('a', 'w').close(); os.mkdir('d'); os.chdir('d')")
        self.assertEqual(self.completed("import os; os.path.exists('a')", fresh=True).result, "True")

    def test_it_may_come_first(self):
        self.assertEqual(self.completed("1", fresh=True).kernel, "fresh")
        self.assertEqual(self.completed("2").kernel, "alive")

    def test_errors_exits_and_deaths_are_told(self):
        self.completed("x = 1")
        for code, status, kernel in (
            ("1/0", "failed", "fresh"),
            ("import sys; sys.exit(3)", "failed", "fresh"),
            ("import os; os._exit(3)", "killed", "fresh"),
        ):
            answer = self.run_code(code, fresh=True)
            self.assertEqual((answer.status, answer.kernel), (status, kernel))
        self.assertEqual(self.completed("x").result, "1")

    def test_it_can_be_interrupted_and_killed(self):
        self.completed("x = 1")
        answer = self.run_code("while True: pass", fresh=True, timeout_ms=200, grace_ms=LONG_GRACE)
        self.assertEqual((answer.status, answer.kernel, answer.cause), ("timed_out", "fresh", ""))
        answer = self.stop_stubborn(fresh=True, grace_ms=200)
        self.assertEqual((answer.status, answer.kernel, answer.cause), ("timed_out", "fresh", "ignored_interrupt"))
        self.assertEqual(self.completed("x").result, "1")

    def test_what_it_started_dies_and_what_the_kernel_started_lives(self):
        kept = int(self.completed("import subprocess, os; p = subprocess.Popen(['sleep', '600']); p.pid").result)
        orphan = int(self.completed(
            "int(subprocess.run(['sh', '-c', 'setsid sleep 600 >/dev/null 2>&1 & echo $!'], stdout=-1).stdout)"
        ).result)
        code = (
            "import subprocess\np = subprocess.Popen(['sleep', '600'], start_new_session=True)\n"
            "o = int(subprocess.run(['sh', '-c', 'setsid sleep 600 >/dev/null 2>&1 & echo $!'], stdout=-1).stdout)\n"
            "(p.pid, o)"
        )
        pids = self.completed(code, fresh=True).result.strip("()").split(",")
        for pid in pids:
            self.gone(int(pid))
        for pid in (kept, orphan):
            os.kill(pid, 0)
        self.assertEqual(self.completed("p.poll() is None").result, "True")

    def test_random_numbers_differ(self):
        results = {self.completed("import random; random.random()", fresh=True).result for _ in range(3)}
        self.assertEqual(len(results), 3)

    def test_the_main_kernel_may_die_meanwhile(self):
        self.completed(
            "import threading, os, time\ndef die():\n    while not os.path.exists('go'): time.sleep(0.005)\n"
            "    os._exit(5)\nthreading.Thread(target=die, daemon=True).start()"
        )
        code = "import time\nopen('go', 'w').close(); time.sleep(0.5); 'lived'"
        answer = self.client.finish(self.client.start(code, fresh=True))
        self.assertEqual((answer.status, answer.result, answer.kernel), ("completed", "'lived'", "fresh"))
        self.assertEqual(self.completed("1").result, "1")


class Zygotes(StopTest):
    """With something to preload there is a zygote and a kernel that stands by."""

    init = {"preload": ["fractions", "no_such_module_at_all"], "warm": True}
    LOADED = "import sys; 'fractions' in sys.modules"

    def setUp(self):
        super().setUp()
        self.client.wait_for_modules("fractions")

    def test_kernels_have_the_modules(self):
        self.assertEqual(self.completed(self.LOADED).result, "True")
        self.run_code("import os; os._exit(1)")
        self.assertEqual(self.completed(self.LOADED).result, "True")

    def test_code_may_kill_everything_around_it(self):
        for how in (signal.SIGKILL, signal.SIGSTOP):
            with self.subTest(how):
                self.completed("x = 1")
                for pid in self.children():
                    self.completed("import os\nif %d != os.getpid(): os.kill(%d, %d)" % (pid, pid, how))
                self.assertEqual(self.completed("x").result, "1")
                self.assertEqual(self.completed("2", fresh=True).result, "2")
                self.run_code("import os; os._exit(1)")
                self.assertEqual(self.completed("3").result, "3")

    def standby(self):
        """The kernel that stands by: the one that the zygote has forked."""
        pid = int(self.completed("import os; os.getpid()").result)
        (zygote,) = set(self.children()) - {pid}
        deadline = time.monotonic() + PATIENCE
        while not (kernels := set(self.children(zygote)) - {pid}):
            self.assertLess(time.monotonic(), deadline, "no kernel stands by")
            time.sleep(0.005)
        self.completed("1")  # the supervisor knows of it by now
        return kernels.pop()

    def test_one_that_is_killed_as_a_run_comes_for_it_is_replaced(self):
        standby = self.standby()
        supervisor = self.client.process.pid
        os.kill(supervisor, signal.SIGSTOP)  # it hears of the run before it hears of the death
        try:
            run = self.client.start("1 + 1", fresh=True)
            os.kill(standby, signal.SIGKILL)
        finally:
            os.kill(supervisor, signal.SIGCONT)
        answer = self.client.finish(run)
        self.assertEqual((answer.status, answer.result, answer.kernel), ("completed", "2", "fresh"))

    def test_one_that_is_stopped_is_continued(self):
        os.kill(self.standby(), signal.SIGSTOP)
        self.assertEqual(self.completed("1 + 1", fresh=True).result, "2")

    def test_a_run_that_kills_its_kernel_at_once_is_not_begun_again(self):
        for fresh in (True, False):
            self.run_code("import os; os._exit(1)")
            answer = self.run_code("import os; open('begun', 'a').write('x'); os.kill(os.getpid(), 9)", fresh=fresh)
            self.assertEqual((answer.status, answer.cause), ("killed", "signal 9"))
        self.assertEqual(self.read("begun"), "xx")

    def test_one_that_is_late_is_not_given_up(self):
        pid = int(self.completed("import os; os.getpid()").result)
        (zygote,) = set(self.children()) - {pid}
        parent = "import os; os.getppid()"
        os.kill(zygote, signal.SIGSTOP)
        try:
            self.completed("1", fresh=True)  # in the kernel that stood by
            self.assertEqual(self.completed(parent, fresh=True).result, str(self.client.process.pid))
        finally:
            os.kill(zygote, signal.SIGCONT)
        deadline = time.monotonic() + PATIENCE
        while (got := self.completed(parent, fresh=True).result) != str(zygote):
            self.assertLess(time.monotonic(), deadline, "the last kernel is a child of %s" % got)

    def test_a_slow_machine_gets_one_in_the_end(self):
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        with open(os.path.join(folder, "slow_to_import.py"), "w") as file:
            file.write("import time; time.sleep(1)")
        client = self.connect(env={"PYTHONPATH": folder}, boot=False, start=False)
        impatient = SOURCE
        for before, after in ((b"LOAD_SECONDS = 600", b"LOAD_SECONDS = 0.3"), (b"BACKOFF_SECONDS = 5", b"BACKOFF_SECONDS = 0.1")):
            self.assertEqual(impatient.count(before), 1)
            impatient = impatient.replace(before, after)
        client.send_raw(impatient)
        client.init(preload=["slow_to_import"], warm=True)
        client.wait_for_modules("slow_to_import")

    def test_kernels_that_cannot_begin_are_not_tried_for_ever(self):
        client = self.connect(boot=False, start=False)
        hello, death = b'self._tell({"type": "hello"', b'os._exit(3), self._tell({"type": "hello"'
        self.assertEqual(SOURCE.count(hello), 1)
        client.send_raw(SOURCE.replace(hello, death))
        client.init()
        for fresh in (True, False):
            answer = client.run("1", fresh=fresh)
            self.assertEqual((answer.status, answer.cause, answer.exit_code), ("killed", "exit 3", 137))

    def test_preloading_does_not_run_modules_of_the_work_dir(self):
        client = self.connect(start=False)
        with open(client.path("decimal.py"), "w") as file:
            file.write("open(%r, 'w').close()" % client.path("ran"))
        client.init(preload=["decimal"], warm=True)
        client.wait_for_modules("decimal")
        self.assertFalse(os.path.exists(client.path("ran")))


class Preloading(StopTest):
    """Without warm the kernel preloads by itself after its first run."""

    init = {"preload": ["fractions", "no_such_module_at_all"]}

    def test_it_is_done_without_a_run(self):
        self.completed("x = 1")
        deadline = time.monotonic() + PATIENCE
        code = "import sys, threading; ('fractions' in sys.modules, threading.active_count())"
        while self.completed(code).result != "(True, 1)":
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.2)
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


if __name__ == "__main__":
    unittest.main()
