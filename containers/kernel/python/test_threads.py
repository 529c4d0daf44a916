"""threads.py and work.py: what a run leaves behind writes to its own file, and ends when the run is stopped."""

import os
import pathlib
import unittest

from test_support import LONG_GRACE, PATIENCE, SLOWNESS, SupervisorTest

TICKER = """
import os, sys, threading, time
def tick():
    while not os.path.exists('stop'):
        {0}
        time.sleep(0.002)
thread = threading.Thread(target=tick, daemon=True)
thread.start()
"""


class ThreadTest(SupervisorTest):
    def wait_for_late(self, name, text):
        """Waits until a file of a run has a text behind what the run itself wrote."""
        path = pathlib.Path(self.client.path(".runs", name))
        self.soon(lambda: path.exists() and text in path.read_text(), "%s never came into %s" % (text, name))
        return path.read_text()

    def wait_for_result(self, code, result):
        self.soon(lambda: self.completed(code).result == result, code)

    def assert_own_output_only(self, stream="stdout"):
        """Runs code while a thread of run 1 writes, and sees that this writes on, but elsewhere."""
        path = ".runs/r1.%s.txt" % stream
        code = (
            "import os, time\nprint('begin')\nsize = lambda: os.path.exists({0!r}) and os.path.getsize({0!r})\n"
            "before = size()\nwhile size() == before: time.sleep(0.001)\nprint('end')"
        ).format(path)
        for _ in range(3):
            answer = self.completed(code)
            self.assertEqual((answer.out, answer.err), ("begin\nend\n", ""))
        self.assertIn(path, answer.late)


class Output(ThreadTest):
    def test_what_a_thread_of_an_earlier_run_writes_is_in_that_runs_file(self):
        for write in (
            "print('LATE')",
            "sys.stdout.write('LATE\\n')",
            "sys.stdout.writelines(['LATE', '\\n'])",
            "sys.stdout.buffer.write(b'LATE\\n'); sys.stdout.buffer.flush()",
            "print('LATE', end='', flush=True)",
            "from IPython.display import display; display('LATE')" if "ipython" in self.client.ready["features"]
            else "display('LATE')",
        ):
            with self.subTest(write):
                client = self.client = self.connect()
                client.run("print('own')\n" + TICKER.format(write))
                self.assert_own_output_only()
                self.assertEqual(self.wait_for_late("r1.stdout.txt", "LATE").partition("\n")[0], "own")

    def test_stderr_too_however_it_is_reached(self):
        for write in (
            "print('LATE', file=sys.stderr)",
            "old.write('LATE\\n')",
            "log.error('LATE')",
            "warnings.warn('LATE')",
            "threading.Thread(target=lambda: 1/0).start()",
        ):
            with self.subTest(write):
                self.client = self.connect()
                before = "import logging, sys, warnings\nwarnings.simplefilter('always')\nold = sys.stderr\n"
                before += "log = logging.getLogger('x'); log.addHandler(logging.StreamHandler(old))\n"
                self.client.run(before + TICKER.format(write))
                self.assert_own_output_only("stderr")

    def test_the_threads_that_a_late_thread_starts_are_the_same_runs(self):
        self.completed(TICKER.format("t = threading.Thread(target=print, args=('LATE',)); t.start(); t.join()"))
        self.assert_own_output_only()

    def test_bare_threads_and_timers(self):
        self.completed("import _thread\n" + TICKER.format("_thread.start_new_thread(print, ('LATE',))"))
        self.assert_own_output_only()
        self.client = self.connect()
        self.completed(TICKER.format("threading.Timer(0.001, print, ('LATE',)).start()"))
        self.assert_own_output_only()

    def test_tasks_and_timers_of_the_event_loop(self):
        code = (
            "import asyncio\nasync def work():\n    loop = asyncio.get_running_loop()\n    while True:\n"
            "        loop.call_later(0.001, print, 'LATE'); print('LATE'); await asyncio.sleep(0.002)\n"
            "task = asyncio.ensure_future(work())\nawait asyncio.sleep(0)"
        )
        self.completed(code)
        for _ in range(3):
            self.assertEqual(self.completed("print('a'); await asyncio.sleep(0.02); print('b')").out, "a\nb\n")
        self.wait_for_late("r1.stdout.txt", "LATE\nLATE\n")

    def test_a_pools_threads_work_for_who_gives_them_work(self):
        pool = "from concurrent.futures import ThreadPoolExecutor\npool = ThreadPoolExecutor(1)\n"
        submit = "pool.submit(print, 'in the pool').result()"
        default = "import asyncio\nawait asyncio.get_running_loop().run_in_executor(None, print, 'in the pool')"
        for code in (pool + submit, submit, default, default):
            self.assertEqual(self.completed(code).out, "in the pool\n")
        self.completed("def slow():\n    while True: print('LATE'); time.sleep(0.002)\nimport time; pool.submit(slow)")
        self.assertEqual(self.completed("time.sleep(0.05); print('mine')").out, "mine\n")

    def test_the_file_goes_on_behind_what_was_too_long_and_has_its_limit(self):
        self.client = self.connect(output_bytes=1000, spool_bytes=10_000)
        stream = self.client.run("print('x' * 4999)\n" + TICKER.format("print('y' * 999)")).stdout
        self.assertEqual(stream["path"], ".runs/r1.stdout.txt")
        self.soon(lambda: os.path.getsize(self.client.path(stream["path"])) >= 10_000)
        self.assertEqual(self.completed("open('stop', 'w').close(); thread.join(); 1").result, "1")
        self.assertEqual(os.path.getsize(self.client.path(stream["path"])), 10_000)

    def test_figures_of_late_threads_reach_no_other_answer(self):
        show = "display(Picture())"
        code = "class Picture:\n    def _repr_svg_(self): return '<svg/>'\n    def __repr__(self): return '<Picture>'\n"
        before = "from IPython.display import display\n" if "ipython" in self.client.ready["features"] else ""
        self.completed(before + code + TICKER.format(show))
        for _ in range(5):
            self.assertEqual(self.completed("import time; time.sleep(0.01)").displays, [])
        self.wait_for_late("r1.stdout.txt", "[image/svg+xml] output/image-")

    def test_displays_of_many_threads_at_once_do_not_mix(self):
        code = (
            "import threading\n"
            "class Page:\n    def _repr_html_(self): return '<p>' + 'x' * 200_000\n"
            "    def __repr__(self): return '<Page>'\n"
            "def show():\n    for _ in range(5): display(Page())\n"
            "threads = [threading.Thread(target=show) for _ in range(4)]\n"
            "for t in threads: t.start()\nfor t in threads: t.join()"
        )
        before = "from IPython.display import display\n" if "ipython" in self.client.ready["features"] else ""
        self.assertEqual(len(self.completed(before + code).displays), 20)

    def test_what_is_handed_to_the_event_loop_of_a_thread_is_of_who_hands_it(self):
        self.completed(
            "import asyncio, threading, time\nloop = asyncio.new_event_loop()\n"
            "threading.Thread(target=loop.run_forever, daemon=True).start()\n"
            "async def say(word, after=0):\n    await asyncio.sleep(after); print(word)"
        )
        answer = self.completed("asyncio.run_coroutine_threadsafe(say('own'), loop).result()")
        self.assertEqual(answer.out, "own\n")
        self.completed("late = asyncio.run_coroutine_threadsafe(say('LATE', 0.3), loop)")
        wait = "import time\nwhile not late.done(): time.sleep(0.01)\nprint('next')"
        self.assertEqual(self.completed(wait).out, "next\n")
        self.wait_for_late("r3.stdout.txt", "LATE")

    def test_a_forked_child_of_a_thread_can_write(self):
        code = (
            "import os, threading\ndef work():\n    pid = os.fork()\n"
            "    if pid == 0:\n        print('child'); os._exit(0)\n"
            "    os.waitpid(pid, 0)\n    print('parent')\nt = threading.Thread(target=work); t.start(); t.join()"
        )
        self.assertEqual(self.completed(code).out, "child\nparent\n")

    def test_threads_start_where_code_has_closed_or_detached_the_streams(self):
        start = "\nimport threading\nt = threading.Thread(target=print, args=('x',)); t.start(); t.join()"
        for spoil in ("detach", "close"):
            self.client = self.connect()
            self.completed("import sys; sys.stdout.%s()" % spoil + "\nt = 1" + start)
            self.assertEqual(self.completed(start).out, "x\n")

    def test_descriptors_do_not_pile_up(self):
        self.client = self.connect(open_files=128)
        self.client.run(TICKER.format("print('LATE')"))
        for _ in range(100):
            answer = self.completed("t = threading.Thread(target=print, args=('x',)); t.start(); t.join()")
            self.assertEqual(answer.out, "x\n")


class Stopping(ThreadTest):
    def stop(self, code):
        """Runs code to its end, and what follows until it is stopped."""
        code += "\nopen('running', 'w').close()\nwhile True: pass"
        answer = self.stop_when_running(code, "timed_out", announce=False, grace_ms=LONG_GRACE)
        self.assertEqual((answer.status, answer.kernel), ("timed_out", "alive"), answer)
        return answer

    def test_threads_of_the_run_end_with_it_and_earlier_ones_live(self):
        self.completed(TICKER.format("x = 1") + "kept = thread")
        answer = self.stop(TICKER.format("x = 2") + "also = threading.Thread(target=tick); also.start()")
        self.assertEqual(answer.err, "")
        self.wait_for_result("(kept.is_alive(), thread.is_alive(), also.is_alive())", "(True, False, False)")

    def test_timers_end(self):
        self.stop("import threading\nfired = []\ntimer = threading.Timer(600, fired.append, (1,)); timer.start()")
        self.wait_for_result("timer.is_alive()", "False")
        self.assertEqual(self.completed("timer.join(); fired").result, "[]")

    def test_an_alarm_does_not_ring_in_another_run(self):
        self.completed("import signal; signal.setitimer(signal.ITIMER_REAL, %d)" % (2 * SLOWNESS))
        self.assertEqual(self.completed("import time; time.sleep(%f); 'lives'" % (2.5 * SLOWNESS)).result, "'lives'")

    def test_a_thread_that_waits_is_told_and_ends_when_it_comes_back(self):
        answer = self.stop(
            "import threading\nwake, after = threading.Event(), []\n"
            "t = threading.Thread(target=lambda: (wake.wait(), after.append(1)), name='sleeper'); t.start()"
        )
        self.assertIn("note: threads of this run have not ended yet", answer.err)
        self.assertIn("sleeper", answer.err)
        self.assertEqual(self.completed("wake.set(); t.join(); after").result, "[]")

    def test_a_thread_that_does_not_want_to_end_costs_no_variables(self):
        code = (
            "import threading, time\nx, caught = 5, []\ndef stubborn():\n    while True:\n"
            "        try: time.sleep(0.001)\n        except BaseException as e: caught.append(e)\n"
            "t = threading.Thread(target=stubborn, name='stubborn', daemon=True); t.start()"
        )
        self.assertIn("stubborn", self.stop(code).err)
        self.assertEqual(self.completed("x").result, "5")
        self.wait_for_result("len(caught) > 2", "True")

    def test_locks_of_the_output_survive(self):
        code = "import logging, threading\nlogging.basicConfig()\n" + (
            "def work():\n    while True: print('x'); logging.error('y')\n"
            "for _ in range(4): threading.Thread(target=work, daemon=True).start()"
        )
        for _ in range(5):
            self.stop(code)
            answer = self.completed("print('mine'); logging.error('mine')")
            self.assertEqual((answer.out, answer.err), ("mine\n", "ERROR:root:mine\n"))

    def test_pools_work_on(self):
        self.completed("from concurrent.futures import ThreadPoolExecutor\npool = ThreadPoolExecutor(2)")
        self.stop("def forever():\n    while True: pass\npool.submit(forever); pool.submit(len, '').result()")
        answer = self.completed("[pool.submit(pow, n, 2).result() for n in range(5)]")
        self.assertEqual(answer.result, "[0, 1, 4, 9, 16]")

    def test_pools_of_multiprocessing_say_that_they_ended(self):
        for kind in ("Pool", "pool.ThreadPool"):
            self.stop("import multiprocessing.pool\npool = multiprocessing.%s(2); pool.map(len, [''])" % kind)
            self.assertEqual(self.run_code("pool.map(len, [''])", timeout_ms=1000 * PATIENCE).error["message"], "Pool not running")

    def test_a_librarys_loop_for_all_runs_goes_on(self):
        with open(self.client.path("lib.py"), "w") as file:
            file.write(
                "import asyncio, sys, threading\nsys.modules['fsspec.asyn'] = sys.modules[__name__]\nloop = [asyncio.new_event_loop()]\n"
                "iothread = [threading.Thread(target=loop[0].run_forever, daemon=True)]; iothread[0].start()\n"
                "def ask(): return asyncio.run_coroutine_threadsafe(asyncio.sleep(0, 5), loop[0]).result()"
            )
        self.assertEqual(self.stop("import lib; lib.ask()").err, "")
        self.assertEqual(self.completed("lib.ask(), lib.iothread[0].is_alive()").result, "(5, True)")

    def test_calls_that_a_pool_has_not_begun_are_cancelled(self):
        self.completed("from concurrent.futures import ThreadPoolExecutor\npool = ThreadPoolExecutor(1)")
        self.stop("def forever():\n    while True: pass\npool.submit(forever); waiting = pool.submit(len, '')")
        self.assertEqual(self.completed("(waiting.cancelled(), pool.submit(len, '').result())").result, "(True, 0)")

    def test_tasks_of_the_run_end_and_earlier_ones_go_on(self):
        self.completed(
            "import asyncio\ncounts = {}\nasync def work(name):\n    while True:\n"
            "        counts[name] = counts.get(name, 0) + 1; await asyncio.sleep(0.001)\n"
            "kept = asyncio.ensure_future(work('kept'))\nawait asyncio.sleep(0)"
        )
        self.stop("timer = asyncio.get_running_loop().call_later(600, print)\n"
                  "asyncio.ensure_future(work('stopped')); await asyncio.sleep(0.01)")
        self.completed("before = dict(counts)\nwhile counts['kept'] < before['kept'] + 10: await asyncio.sleep(0.001)")
        stopped = self.completed("(before['stopped'] == counts['stopped'], timer.cancelled())").result
        self.assertEqual(stopped, "(True, True)")

    def test_servers_of_the_event_loop_end(self):
        self.stop("import asyncio\nserver = await asyncio.start_server(lambda *_: None, '127.0.0.1', 0)")
        self.assertEqual(self.completed("server.is_serving()").result, "False")


if __name__ == "__main__":
    unittest.main()
