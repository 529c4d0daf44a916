"""What a run waits for, and what goes on after it: started.py, endless.py, awaited.py, event_loop.py."""

import socket
import unittest

from test_support import LONG_GRACE, PATIENCE, SLOWNESS, SupervisorTest

LINGER = 1000 * SLOWNESS  # milliseconds

IMPORTS = """
import asyncio, queue, socket, socketserver, sys, threading, time
from concurrent.futures import ThreadPoolExecutor, ProcessPoolExecutor, as_completed, wait
from multiprocessing.pool import ThreadPool
"""
THREAD = "threading.Thread(target=work, name='worker-1').start()"
TASK = "task = asyncio.create_task(work())"

# What ends by itself; each prints `end` last.
FINITE = {
    "a thread that waits": ("def work():\n    time.sleep(0.2); print('end')", THREAD),
    "a thread that counts": ("def work():\n    for _ in range(10): time.sleep(0.01)\n    print('end')", THREAD),
    "a thread that breaks its loop": (
        "def work():\n    n = 0\n    while True:\n        n += 1; time.sleep(0.01)\n"
        "        if n > 10: break\n    print('end')",
        THREAD,
    ),
    "a thread that another one stops": (
        "stop = threading.Event()\n"
        "def work():\n    while not stop.is_set(): time.sleep(0.01)\n    print('end')",
        THREAD + "; threading.Timer(0.2, stop.set).start()",
    ),
    "a thread with a deadline": (
        "def work():\n    end = time.time() + 0.2\n    while time.time() < end: time.sleep(0.01)\n    print('end')",
        THREAD,
    ),
    "a thread that works a list off": (
        "items = list(range(10))\ndef work():\n    while items: items.pop(); time.sleep(0.01)\n    print('end')",
        THREAD,
    ),
    "a thread that reads until there is nothing": (
        "q = queue.Queue()\nfor n in range(10): q.put(n)\n"
        "def work():\n    while True:\n        try: q.get_nowait()\n        except queue.Empty: break\n"
        "        time.sleep(0.01)\n    print('end')",
        THREAD,
    ),
    "a thread that starts another": (
        "def last(): time.sleep(0.1); print('end')\n"
        "def work():\n    time.sleep(0.1); threading.Thread(target=last).start()",
        THREAD,
    ),
    "a thread that waits until another has begun": (
        "class Slow(threading.Thread):\n    def _bootstrap(self): time.sleep(0.2); super()._bootstrap()\n"
        "def work(): Slow(target=print, args=('end',)).start()",
        THREAD,
    ),
    "a thread that runs a loop of its own": (
        "async def part(): await asyncio.sleep(0.2)\n"
        "async def main(): await asyncio.gather(part(), part()); print('end')\ndef work(): asyncio.run(main())",
        THREAD,
    ),
    "a timer": ("def work(): print('end')", "threading.Timer(0.2, work).start()"),
    "calls in a pool": (
        "pool = ThreadPoolExecutor(1)\ndef work(n): time.sleep(0.1); print(n)",
        "for n in (1, 2, 'end'): pool.submit(work, n)",
    ),
    "a task": ("async def work():\n    await asyncio.sleep(0.2); print('end')", TASK),
    "a task that waits for others": (
        "async def part(): await asyncio.sleep(0.2)\n"
        "async def work():\n    await asyncio.gather(part(), part())\n"
        "    await asyncio.wait({asyncio.create_task(part())}); print('end')",
        TASK,
    ),
    "a task that waits for a thread": (
        "async def work():\n    await asyncio.get_running_loop().run_in_executor(None, time.sleep, 0.2); print('end')",
        TASK,
    ),
    "a task that reads a program": (
        "async def work():\n    p = await asyncio.create_subprocess_shell('sleep 0.2; echo end', stdout=-1)\n"
        "    print((await p.stdout.readline()).decode(), end='')",
        TASK,
    ),
    "a task that an awaiting cell starts": (
        "async def work():\n    await asyncio.sleep(0.2); print('end')", "await asyncio.sleep(0); " + TASK,
    ),
    "a timer of the loop": ("", "asyncio.get_event_loop().call_later(0.2, print, 'end');"),
}

# What looks endless, and how it is called.
ENDLESS = {
    "a loop without end": ("def work():\n    while True: time.sleep(0.01)", THREAD, "thread worker-1"),
    "a queue that nobody fills": (
        "q = queue.Queue()\ndef work():\n    while True:\n        if q.get() is None: break", THREAD, "thread worker-1",
    ),
    "a server": (
        "server = socketserver.TCPServer(('127.0.0.1', 0), socketserver.BaseRequestHandler)\n"
        "work = server.serve_forever",
        THREAD, "thread worker-1",
    ),
    "a socket that accepts": (
        "listener = socket.create_server(('127.0.0.1', 0))\ndef work(): listener.accept()", THREAD, "thread worker-1",
    ),
    "a loop of a thread": ("work = asyncio.new_event_loop().run_forever", THREAD, "thread worker-1"),
    "a task in a loop of a thread": (
        "async def main():\n    while True: await asyncio.sleep(0.01)\ndef work(): asyncio.run(main())",
        THREAD, "thread worker-1",
    ),
    "a timer that sets itself again": (
        "def work():\n    t = threading.Timer(0.05, work); t.name = 'again'; t.start()", "work()", "thread again",
    ),
    "a call in a pool": (
        "def work():\n    while True: time.sleep(0.01)",
        "ThreadPoolExecutor(1, 'pool').submit(work)", "thread pool_0",
    ),
    "a task without end": ("async def work():\n    while True: await asyncio.sleep(0.01)", TASK, "task work()"),
    "a task that waits for an event": (
        "event = asyncio.Event()\nasync def work(): await event.wait()", TASK, "task work()",
    ),
    "a task that waits for a queue": ("q = asyncio.Queue()\nasync def work(): await q.get()", TASK, "task work()"),
    "a task that waits for an endless one": (
        "async def part():\n    while True: await asyncio.sleep(0.01)\nasync def work(): await asyncio.gather(part())",
        TASK, "task work()",
    ),
    "a server of the loop": (
        "handle = lambda reader, writer: None",
        "server = await asyncio.start_server(handle, '127.0.0.1', 0)", "server 127.0.0.1:",
    ),
    "a timer of the loop": (
        "def work(): asyncio.get_event_loop().call_later(0.05, work)", "work()", "timer work()",
    ),
}


class Waiting(SupervisorTest):
    def test_a_run_waits_for_what_ends_by_itself(self):
        for name, (definitions, start) in FINITE.items():
            for linger in (0, LINGER):
                with self.subTest(name, linger=linger):
                    answer = self.completed(IMPORTS + definitions + "\n" + start, linger_ms=linger)
                    self.assertEqual(answer.out.split()[-1:], ["end"])
                    self.assertEqual(answer.goes_on, [])

    def test_and_not_for_what_looks_endless(self):
        for name, (definitions, start, called) in ENDLESS.items():
            with self.subTest(name):
                self.client = self.connect()
                answer = self.completed(IMPORTS + definitions + "\n" + start)
                self.assertEqual([one[: len(called)] for one in answer.goes_on[-1:]], [called], answer)
                self.assertEqual(self.completed("6 * 7").result, "42")

    def test_what_it_prints_before_the_linger_is_over_is_the_runs(self):
        code = "def work():\n    time.sleep(0.1); print('begun')\n    while True: time.sleep(60)\n" + THREAD
        answer = self.completed(IMPORTS + code, linger_ms=LINGER)
        self.assertEqual((answer.out, answer.goes_on), ("begun\n", ["thread worker-1"]))

    def test_what_ends_is_waited_for_beside_what_does_not(self):
        code = "def forever():\n    while True: time.sleep(0.01)\ndef work(): time.sleep(0.3); print('end')\n"
        other = "threading.Thread(target=forever, name='other').start()\n"
        answer = self.completed(IMPORTS + code + other + THREAD)
        self.assertEqual((answer.out, answer.goes_on), ("end\n", ["thread other"]))

    def test_daemons_and_idle_pools_are_not_waited_for(self):
        answer = self.completed(
            IMPORTS + "threading.Thread(target=time.sleep, args=(600,), daemon=True).start()\n"
            "pools = [ThreadPoolExecutor(1), ThreadPool(1), ProcessPoolExecutor(1)]\n"
            "pools[0].submit(len, '').result(); pools[1].apply(len, ('',)); pools[2].submit(len, '').result()"
        )
        self.assertEqual((answer.result, answer.goes_on), ("0", []))

    def test_a_pool_of_processes_is_waited_for_while_it_works(self):
        self.completed(IMPORTS + "pool = ProcessPoolExecutor(1)\ncall = pool.submit(time.sleep, 0.3)")
        self.assertEqual(self.completed("call.done()").result, "True")

    def test_failed_runs_and_exits_wait_as_well(self):
        for last, status in (("1 / 0", "failed"), ("sys.exit(3)", "failed"), ("sys.exit()", "completed")):
            with self.subTest(last):
                answer = self.run_code(IMPORTS + "def work(): time.sleep(0.2); print('end')\n" + THREAD + "\n" + last)
                self.assertEqual((answer.status, answer.out), (status, "end\n"))

    def test_not_longer_than_the_timeout(self):
        for define, start, called in (
            ("def work(): time.sleep(600)\n", THREAD, "thread worker-1"),
            ("async def work(): await asyncio.sleep(600)\n", TASK, "task work()"),
        ):
            with self.subTest(start):
                code = IMPORTS + define + "x = 5\n" + start
                answer = self.run_code(code, timeout_ms=1000 * SLOWNESS, grace_ms=LONG_GRACE)
                self.assertEqual((answer.status, answer.kernel, answer.goes_on), ("timed_out", "alive", []))
                self.assertEqual(answer.error["message"], "while the run waited for what it has started: " + called)
                self.assertEqual(self.completed("x").result, "5")
        self.assertEqual(self.completed("task.cancelled()").result, "True")

    def test_no_more_than_eight_are_named(self):
        answer = self.completed(
            IMPORTS + "async def work(): await asyncio.Event().wait()\n"
            "tasks = [asyncio.create_task(work()) for _ in range(20)]"
        )
        self.assertEqual(answer.goes_on, ["task work()"] * 8)

    def test_what_earlier_runs_started_is_not_waited_for(self):
        self.completed(
            IMPORTS + "async def child(): await asyncio.sleep(600)\n"
            "async def work():\n    while True: await asyncio.sleep(0.01)\n" + TASK
        )
        answer = self.completed("await asyncio.sleep(0.05); 1")
        self.assertEqual((answer.result, answer.goes_on), ("1", []))


class Tasks(SupervisorTest):
    def test_a_task_can_be_started_without_an_await_and_awaited_by_the_next_run(self):
        code = "import asyncio\nlog = []\nasync def work():\n    await go.wait(); log.append(1); return 'value'\n"
        for start in (
            "task = asyncio.create_task(work())",
            "task = asyncio.ensure_future(work())",
            "task = asyncio.get_running_loop().create_task(work())",
            "task = asyncio.get_event_loop().create_task(work())",
            "task = asyncio.gather(work())",
        ):
            with self.subTest(start):
                self.client = self.connect()
                answer = self.completed(code + "go = asyncio.Event()\n" + start)
                self.assertEqual((answer.err, answer.goes_on), ("", ["task work()"]))
                self.assertIn("value", self.completed("go.set(); await task").result)
                self.assertEqual(self.completed("log").result, "[1]")

    def test_the_error_of_a_task_that_nobody_awaits_is_told_once(self):
        self.completed("import asyncio\nasync def work(): await asyncio.sleep(0.1); raise ValueError('lost')")
        for beside in ("", "; other = asyncio.create_task(asyncio.Event().wait())"):
            answer = self.completed("task = asyncio.create_task(work())" + beside)
            self.assertEqual(answer.err.count("ValueError: lost\n"), 1, answer)
        self.assertEqual(self.run_code("await task").error["message"], "lost")
        self.assertEqual(self.completed("del task; import gc; gc.collect();").err, "")

    def test_futures_too(self):
        self.completed("import asyncio\nf = asyncio.Future()")
        self.assertEqual(self.completed("f.set_result(5); await f").result, "5")

    def test_tasks_go_on_between_runs(self):
        self.completed(
            "import asyncio, os\nasync def work():\n    while not os.path.exists('go'): await asyncio.sleep(0.005)\n"
            "    open('done', 'w').close()\n    await asyncio.Event().wait()\n"
            "async def last(): await asyncio.Event().wait()\n"
            "event = asyncio.Event()\nasync def begin(): await event.wait(); await work()\n"
            "task = asyncio.create_task(begin())"
        )
        self.completed("event.set()")
        self.touch("go")
        self.wait_for_file("done")
        self.assertEqual(self.completed("task.done()").result, "False")

    def test_what_threads_give_to_the_loop_is_done_between_runs(self):
        self.completed(
            "import asyncio, os, threading, time\nloop = asyncio.get_running_loop()\n"
            "def work():\n    while not os.path.exists('go'): time.sleep(0.005)\n"
            "    loop.call_soon_threadsafe(lambda: open('done', 'w').close())\n"
            "threading.Thread(target=work, daemon=True).start()"
        )
        self.touch("go")
        self.wait_for_file("done")

    def test_servers_answer_between_runs(self):
        port = self.completed(
            "import asyncio\nasync def answer(reader, writer): writer.write(b'hello'); writer.close()\n"
            "server = await asyncio.start_server(answer, '127.0.0.1', 0); server.sockets[0].getsockname()[1]"
        ).result
        with socket.create_connection(("127.0.0.1", int(port)), timeout=PATIENCE) as sock:
            self.assertEqual(sock.makefile("rb").read(), b"hello")

    def test_asyncio_run_and_loops_of_ones_own_work_beside(self):
        for code in (
            "asyncio.run(asyncio.sleep(0, 5))",
            "asyncio.get_event_loop().run_until_complete(asyncio.sleep(0, 5))",
            "loop = asyncio.get_event_loop(); v = loop.run_until_complete(asyncio.sleep(0, 5)); loop.close(); v",
            "loop = asyncio.new_event_loop(); asyncio.set_event_loop(loop); "
            "loop.run_until_complete(asyncio.sleep(0, 5))",
            "await asyncio.sleep(0, 5)",
        ):
            for _ in range(2):
                with self.subTest(code):
                    answer = self.completed("import asyncio; " + code)
                    self.assertEqual((answer.result, answer.err), ("5", ""))

    def test_threads_and_forked_children_have_no_loop(self):
        code = (
            "import asyncio, os, threading\nawait asyncio.sleep(0)\n"
            "def ask():\n    try: asyncio.get_running_loop(); print('found')\n    except RuntimeError: print('none')\n"
        )
        self.completed(code)
        ask = "t = threading.Thread(target=ask); t.start(); t.join()\nif os.fork() == 0: ask(); os._exit(0)\nos.wait()"
        self.assertEqual(self.completed(ask + "; ask()").out, "none\nnone\nfound\n")

    def test_context_variables_that_a_cell_sets_hold_in_the_next(self):
        self.completed("import asyncio, contextvars, decimal\nv = contextvars.ContextVar('v', default=0)")
        for number, await_it in enumerate(("await asyncio.sleep(0);", "", "await asyncio.sleep(0);"), 1):
            self.completed(await_it + "v.set(%d);" % number)
            self.assertEqual(self.completed("v.get()").result, str(number))
            self.assertEqual(self.completed("await asyncio.sleep(0, v.get())").result, str(number))
        self.run_code("v.set(9); await asyncio.sleep(0); 1 / 0")
        self.assertEqual(self.completed("v.get()").result, "9")
        self.completed("async def work(): v.set(10)\nawait asyncio.create_task(work())")
        self.assertEqual(self.completed("v.get()").result, "9")
        self.completed("await asyncio.sleep(0)\ndecimal.getcontext().prec = 40")
        self.assertEqual(self.completed("len(str(decimal.Decimal(1) / 7))").result, "42")

    def test_asyncio_is_imported_by_code_alone(self):
        self.assertEqual(self.completed("import sys; 'asyncio' in sys.modules").result, "False")

    def test_a_task_that_does_not_give_way_is_ended_by_the_timeout_of_the_next_run(self):
        self.completed(
            "import asyncio, os, time\nx = 5\n"
            "async def block():\n    while not os.path.exists('go'): await asyncio.sleep(0.005)\n"
            "    open('blocks', 'w').close(); time.sleep(600)\nevent = asyncio.Event()\n"
            "async def begin(): await event.wait(); await block()\n"
            "async def other():\n    while True: await asyncio.sleep(0.01)\n"
            "tasks = [asyncio.create_task(begin()), asyncio.create_task(other())]"
        )
        self.completed("event.set()")
        self.touch("go")
        self.wait_for_file("blocks")
        answer = self.run_code("x = 6", timeout_ms=500, grace_ms=LONG_GRACE)
        self.assertEqual((answer.status, answer.kernel), ("timed_out", "alive"))
        self.assertEqual(self.completed("(x, [task.done() for task in tasks])").result, "(5, [True, False])")

    def test_a_timeout_ends_the_run_that_awaits_and_not_the_task_of_an_earlier_one(self):
        self.completed(
            "import asyncio\nasync def part():\n    await go.wait(); return 'value'\n"
            "async def work(): return await asyncio.gather(part())\n"
            "go = asyncio.Event()\ntask = asyncio.create_task(work())"
        )
        for wait in ("await task", "await asyncio.gather(task)", "async def more(): return await task\nawait more()"):
            with self.subTest(wait):
                answer = self.run_code(wait, timeout_ms=500, grace_ms=LONG_GRACE)
                self.assertEqual((answer.status, answer.kernel), ("timed_out", "alive"))
        self.assertEqual(self.completed("go.set(); await task").result, "['value']")

    def test_a_loop_whose_descriptors_code_closes_is_replaced(self):
        self.completed("import asyncio, os\nasync def work():\n    while True: await asyncio.sleep(0.01)\n" + TASK)
        self.completed("os.closerange(3, 100)")
        self.assertEqual(self.completed("await asyncio.sleep(0, 5)").result, "5")

    def touch(self, name):
        with open(self.client.path(name), "w"):
            pass


# Something that prints when `go` has been set for long enough to be waited for, and how a later run waits for it.
HELD = IMPORTS + "DELAY = %f" % (0.3 * SLOWNESS) + """
go, a_go = threading.Event(), asyncio.Event()
pool, thread_pool, q = ThreadPoolExecutor(1), ThreadPool(1), queue.Queue()
def work():
    go.wait(); time.sleep(DELAY); print('said'); return 'value'
async def a_work():
    await a_go.wait(); await asyncio.sleep(DELAY); print('said'); return 'value'
async def outer():
    await asyncio.gather(a_work(), asyncio.sleep(0))
def consume():
    while True:
        q.get(); work(); q.task_done()
loop = asyncio.new_event_loop()
"""
AWAITED = {
    "join": ("t = threading.Thread(target=work, daemon=True); t.start()", "go.set(); t.join()"),
    "join by another thread": (
        "t = threading.Thread(target=work, daemon=True); t.start()",
        "go.set(); u = threading.Thread(target=t.join); u.start(); u.join()",
    ),
    "join of a thread that joins": (
        "t = threading.Thread(target=work, daemon=True); t.start()\n"
        "u = threading.Thread(target=t.join, daemon=True); u.start()",
        "go.set(); u.join()",
    ),
    "result": ("f = pool.submit(work)", "go.set(); f.result()"),
    "wait": ("f = pool.submit(work)", "go.set(); wait([f])"),
    "as_completed": ("f = pool.submit(work)", "go.set(); list(as_completed([f]))"),
    "shutdown": ("f = pool.submit(work)", "go.set(); pool.shutdown()"),
    "a pool of threads": ("f = thread_pool.apply_async(work)", "go.set(); f.get()"),
    "a pool that is used again": ("thread_pool.apply(len, ('',))", "go.set(); thread_pool.apply(work)"),
    "a queue": ("threading.Thread(target=consume, daemon=True).start()", "go.set(); q.put(1); q.join()"),
    "await": ("t = asyncio.create_task(a_work())", "a_go.set(); await t"),
    "gather": ("t = asyncio.create_task(a_work())", "a_go.set(); await asyncio.gather(t, asyncio.sleep(0))"),
    "wait_for": ("t = asyncio.create_task(a_work())", "a_go.set(); await asyncio.wait_for(t, 600)"),
    "asyncio.wait": ("t = asyncio.create_task(a_work())", "a_go.set(); await asyncio.wait({t})"),
    "shield": ("t = asyncio.create_task(a_work())", "a_go.set(); await asyncio.shield(t)"),
    "await of a task that awaits": ("t = asyncio.create_task(outer())", "a_go.set(); await t"),
    "run_until_complete": (
        "t = asyncio.create_task(a_work())", "a_go.set(); asyncio.get_event_loop().run_until_complete(t)",
    ),
    "a future of a pool": (
        "async def a_call(): return await asyncio.get_running_loop().run_in_executor(pool, work)\n"
        "t = asyncio.create_task(a_call())",
        "go.set(); await t",
    ),
    "a task of another loop": (
        "threading.Thread(target=loop.run_forever, daemon=True).start()\n"
        "async def a_call():\n    await loop.run_in_executor(None, go.wait); await asyncio.sleep(DELAY)\n"
        "    print('said')\n"
        "f = asyncio.run_coroutine_threadsafe(a_call(), loop)",
        "go.set(); f.result()",
    ),
}


class Awaited(SupervisorTest):
    def test_what_a_run_waits_for_prints_into_its_answer(self):
        for name, (start, finish) in AWAITED.items():
            with self.subTest(name):
                self.client = self.connect()
                self.assertEqual(self.completed(HELD + start).out, "")
                answer = self.completed(finish + "\nprint('next')")
                self.assertEqual((answer.out, answer.background), ("said\nnext\n", []))

    def test_what_else_goes_on_does_not(self):
        self.completed(
            HELD + "def tick():\n    while True: print('tick'); time.sleep(0.002)\n"
            "async def a_tick():\n    while True: print('tick'); await asyncio.sleep(0.002)\n"
            "threading.Thread(target=tick, daemon=True).start(); ticker = asyncio.create_task(a_tick())"
        )
        for finish in (
            "t = threading.Thread(target=time.sleep, args=(0.05,)); t.start(); t.join()",
            "pool.submit(time.sleep, 0.05).result()",
            "await asyncio.sleep(0.05)",
            "await asyncio.create_task(asyncio.sleep(0.05))",
        ):
            with self.subTest(finish):
                self.assertEqual(self.completed(finish + "\nprint('next')").out, "next\n")

    def test_displays_too(self):
        show = "display(Page())" if "ipython" not in self.client.ready["features"] else (
            "from IPython.display import display; display(Page())"
        )
        self.completed(
            HELD + "class Page:\n    def _repr_html_(self): return '<p>'\n    def __repr__(self): return '<Page>'\n"
            "def work():\n    go.wait(); %s\nt = threading.Thread(target=work, daemon=True); t.start()" % show
        )
        self.assertEqual(len(self.completed("go.set(); t.join()").displays), 1)


if __name__ == "__main__":
    unittest.main()
