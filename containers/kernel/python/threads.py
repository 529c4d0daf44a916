"""Which run a thread works for: its later work must not count as another run's.

A thread belongs to the run that started it, and so do threads that it starts itself. Its print goes
to the pipe of that run, also when another run is on and file descriptors 1 and 2 are the other
one's, unless that waits for it (awaited.py); output to those descriptors past sys.stdout and sys.stderr
cannot be told apart.
"""

import _thread
import io
import os
import sys
import time
from _thread import get_ident

from awaited import is_awaited
from imports import OWN
from work import WORK, Work, open_output

try:
    import ctypes
except ImportError:  # threads cannot be ended then
    ctypes = None

MOST_KEPT = 32  # runs whose threads live on that are listened to
END_SECONDS = 0.02  # how long threads that are to end are waited for
# Where a thread may hold a lock that others need and that an exception at any place would leave locked.
HELD_THERE = (OWN, "<frozen importlib", "/logging/")
LOOPS = ("zarr.core.sync", "fsspec.asyn")  # modules with a thread for all runs, which they start once


class Output(io.TextIOWrapper):
    """sys.stdout or sys.stderr: each thread writes to the run that it works for."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.threads = self.bytes = None
        self.number = 0

    def route(self, threads, number):
        self.threads, self.number = threads, number
        self.bytes = self.buffer  # code may detach it
        self.bytes.threads, self.bytes.number = threads, number
        if not threads.routing:  # while nothing runs beside the code, it costs nothing
            self.write = super().write
            self.bytes.write = super(Buffer, self.bytes).write

    def look_which_thread_writes(self):
        self.__dict__.pop("write", None)
        self.bytes.__dict__.pop("write", None)

    def write(self, text):
        if get_ident() == self.threads.main:
            return self._write(text)
        with self.threads.lock:  # holds off the change from run to run, which the main thread makes
            return self._write(text)

    def _write(self, text):
        earlier = self.threads.earlier_work()
        if earlier is None:
            if text:
                self.threads.begin_output()
            return super().write(text)
        earlier.write(self.number, text)
        return len(text)

    def flush(self):
        if self.threads is None or self.threads.earlier_work() is None:
            super().flush()


class Buffer(io.BufferedWriter):
    """sys.stdout.buffer or sys.stderr.buffer."""

    threads = None
    number = 0

    def seekable(self):
        return False  # the null device, which the descriptor stood for when this was made, says that it is

    def write(self, data):
        earlier = self.threads and self.threads.routing and self.threads.earlier_work()
        if not earlier:
            if self.threads and self.threads.routing:
                self.threads.begin_output()
            return super().write(data)
        earlier.write(self.number, str(data, "utf-8", "replace"))
        return len(data)


class Threads:
    """The threads of a kernel and the runs that they belong to."""

    def __init__(self):
        self.main = 0
        self.current = None  # the current run
        self.owners = {}  # thread: its run, or none when it works for nobody
        self.calls = {}  # thread of a pool: the future of its work
        self.kept = []  # finished runs with threads at work
        self.condemned = []
        self.loop_runs = lambda: False  # whether the kernel's event loop does
        self.routing = False
        self.outputs = ()
        self.waiting = None  # called before the run shows or prints anything more
        self.make_room = lambda threads: None  # is called before one more thread
        self.lock = _thread.RLock()

    def install(self):
        """Makes all threads known that are started from now on."""
        self.main = get_ident()
        self.nobody = Work("", ())
        os.register_at_fork(after_in_child=self._renew_lock)
        for name in ("start_new_thread", "start_new", "start_joinable_thread"):
            original = getattr(_thread, name, None)
            if original is None:
                continue
            starter = self._starter(original)
            setattr(_thread, name, starter)
            threading = sys.modules.get("threading")
            if getattr(threading, "_" + name, None) is original:
                setattr(threading, "_" + name, starter)

    def _renew_lock(self):
        """In a forked child: the thread that held it may not be there."""
        self.lock = _thread.RLock()

    def _starter(self, original):
        def start(function, *args, **kwargs):
            self.route_all()
            self.make_room(len(self.owners) + 1)
            return original(self._with_owner(function) if callable(function) else function, *args, **kwargs)

        return start

    def _with_owner(self, function):
        owner = self.owner() or self.nobody

        def begin(*args, **kwargs):
            ident = get_ident()
            self.owners[ident] = owner
            try:
                function(*args, **kwargs)
            except SystemExit:
                pass
            except BaseException as e:  # threading.Thread lets nothing through, so it is a bare one
                self.explain(e, function)
            finally:
                self.owners.pop(ident, None)

        return begin

    @staticmethod
    def explain(error, function):
        """Prints an error that ended a bare thread, without the lines of this file."""
        import traceback

        print("Exception ignored in thread started by: %r" % (function,), file=sys.stderr)
        traceback.print_exception(type(error), error, error.__traceback__.tb_next)

    def pool_item(self, kind):
        """A class of a pool's items that belong to the run which gives them to the pool."""

        class Item(kind):
            def __init__(item, *args, **kwargs):
                super().__init__(*args, **kwargs)
                item.owner = self.owner() or self.nobody
                item.owner.calls[item.future] = 0
                item.future.add_done_callback(item.owner.calls.pop)

            def run(item, *args, **kwargs):
                ident = get_ident()
                self.owners[ident], self.calls[ident] = item.owner, item.future
                if item.future in item.owner.calls:
                    item.owner.calls[item.future] = ident
                try:
                    return super().run(*args, **kwargs)
                finally:
                    self.owners[ident] = self.nobody  # idle: it ends with no run
                    del self.calls[ident]

        return Item

    # -- threads and their runs

    def owner(self):
        """The run that the calling thread works for."""
        ident = get_ident()
        if ident != self.main:
            # A callback handed to the event loop of a thread brings its run along. A thread that a library
            # started in C works for the run that is on.
            return WORK.get() or self.owners.get(ident, self.current)
        return (self.loop_runs() and WORK.get()) or self.current

    def earlier_work(self):
        """The run that the calling thread works for, where that is over, else None.

        A thread that the current run waits for counts as its own.
        """
        owner, current = self.owner(), self.current
        if owner is current or current is not None and self._is_awaited(current):
            return None
        return owner or self.nobody

    def _is_awaited(self, work):
        idents = [self.main, *(ident for ident, owner in list(self.owners.items()) if owner is work)]
        try:
            return is_awaited(work, idents, self.calls.get(get_ident()))
        except Exception:  # the other threads' state may change meanwhile
            return False

    def route_all(self):
        """Looks from now on which thread writes."""
        if not self.routing:
            self.routing = True
            for output in self.outputs:
                output.look_which_thread_writes()

    def before_output(self, act):
        """Sets a function to call before the run shows or prints anything more; None: none."""
        self.waiting = act
        if act is not None:
            self.route_all()

    def begin_output(self):
        act, self.waiting = self.waiting, None
        if act is not None:
            act()

    def make_outputs(self):
        self.outputs = [open_output(fd, Output, Buffer) for fd in (1, 2)]
        for number, output in enumerate(self.outputs, 1):
            output.route(self, number)
        return self.outputs

    # -- runs

    def begin(self, run_id, fds):
        self.current = Work(run_id, fds)
        WORK.set(self.current)
        for work in self.condemned[:]:
            if not self._end_threads(work, anywhere=True):
                self.condemned.remove(work)

    def flush(self):
        for output in self.outputs:
            try:
                output.flush()
            except (OSError, ValueError):  # code closed it
                pass

    def end(self, is_waiting):
        """The run is over. It is kept in mind while threads, or a loop where work waits, may still write."""
        held = self.lock.acquire(timeout=1)
        try:
            self.flush()
            work, self.current = self.current, None
        finally:
            if held:
                self.lock.release()
        self.kept.append(work)
        workers = set(map(id, list(self.owners.values())))
        # The event loop of a thread may have been handed something by any run.
        has_loops = any(owner is not self.nobody for owner in list(self.owners.values()))
        kept = [work for work in self.kept if is_waiting or has_loops or id(work) in workers][-MOST_KEPT:]
        for work in self.kept:
            if work not in kept:
                work.close()
        self.kept = kept

    def find(self, run_id):
        """The run that is on, or one that is over and still worked for."""
        return next((work for work in [self.current, *self.kept] if work and work.run_id == run_id), None)

    def stop(self, work):
        """Ends the threads of a run, and its calls in pools; returns the names of threads that do not end at once."""
        for future in list(work.calls):
            future.cancel()
        self._end_pools(work)
        deadline = time.monotonic() + END_SECONDS
        while self._end_threads(work, anywhere=False) and time.monotonic() < deadline:
            time.sleep(0.001)
        left = self._end_threads(work, anywhere=True)
        if left and work not in self.condemned:
            self.condemned.append(work)
        known = getattr(sys.modules.get("threading"), "_active", {})
        return sorted(str(getattr(known.get(ident), "name", ident)) for ident in left)

    def _end_pools(self, work):
        """Ends the pools of multiprocessing that a run made: without their threads, a later call would never return."""
        kind = getattr(sys.modules.get("multiprocessing.pool"), "Pool", None)
        if kind is None:
            return
        import gc

        for pool in gc.get_objects():
            if issubclass(type(pool), kind) and self.owners.get(getattr(getattr(pool, "_worker_handler", None), "ident", None)) is work:
                pool._state = "TERMINATE"  # terminate() itself may wait for a worker for ever, and so may what Python calls for garbage
                pool._terminate.cancel()

    def is_ended(self, ident):
        """Whether a thread was told to end, or ended."""
        return self.owners.get(ident) in (None, self.current, *self.condemned)

    def _end_threads(self, work, anywhere):
        """Raises SystemExit in the threads of a run, as soon as they are back from C; returns which there are.

        Without `anywhere` only in those that are in the code's own lines: it is no harm there.
        """
        threading = sys.modules.get("threading")
        frames = sys._current_frames()
        shared = [getattr(getattr(sys.modules.get(name), "iothread", [None])[0], "ident", None) for name in LOOPS]
        idents = [ident for ident, owner in list(self.owners.items()) if owner is work and ident not in shared]
        for ident in idents:
            thread = getattr(threading, "_active", {}).get(ident)
            if thread is not None and isinstance(thread, threading.Timer):
                thread.cancel()
            place = frames[ident].f_code.co_filename if ident in frames else OWN
            harmless = not any(part in place for part in HELD_THERE) if anywhere else place.startswith("<cell")
            if harmless and ctypes is not None:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(ident), ctypes.py_object(SystemExit))
        return idents
