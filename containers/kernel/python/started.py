"""The threads and tasks of a run, also after its last statement."""

import functools
import sys
import time

from endless import client_address, is_endless_task, is_endless_thread
from imports import is_installed
from work import name_of

MOST_NAMED = 8
LONGEST_PAUSE = 0.1  # seconds between two looks
_POOLS = {  # by module, where it keeps its threads
    "concurrent.futures.thread": "_threads_queues",
    "concurrent.futures.process": "_threads_wakeups",
    "loky.process_executor": "_threads_wakeups",
    "joblib.externals.loky.process_executor": "_threads_wakeups",
}


class Started:
    """The unfinished threads and tasks of the current run."""

    def __init__(self, threads, event_loop):
        self.threads = threads
        self.event_loop = event_loop

    def wait(self, linger, flush):
        """Waits for its end, as a script does, and for endless ones no longer than `linger`, in seconds.

        Returns the names of unfinished ones.
        """
        begin, timers, tasks = time.monotonic(), None, set()
        while True:
            left = list(self._left())
            tasks.update(thing for _, thing, _ in left if hasattr(thing, "get_coro"))
            if not left:
                self._tell_failed(tasks)
                return []
            if timers is None:
                timers = [thing for _, thing, _ in left if is_timer(thing)]
                flush()
            passed = time.monotonic() - begin
            # A timer set since the last statement may be set for ever.
            if passed >= linger and all(
                is_timer(thing) and thing not in timers or is_endless() for _, thing, is_endless in left
            ):
                self._tell_failed(tasks)
                return names_of(left)
            try:
                self.event_loop.wait((), min(max(passed / 20, 0.001), LONGEST_PAUSE))
            except KeyboardInterrupt:
                names = ", ".join(names_of(left))
                raise KeyboardInterrupt("while the run waited for what it has started: " + names) from None

    @staticmethod
    def _tell_failed(tasks):
        """Reports errors of tasks that nobody awaits, as the end of a script does."""
        for task in tasks:
            if task.done() and not task.cancelled() and getattr(task, "_log_traceback", False):
                what = {"message": "Task exception was never retrieved", "exception": task.exception(), "task": task}
                task.get_loop().call_exception_handler(what)

    def _left(self):
        """Yields unfinished ones: name, object, and a function that reports whether it looks endless."""
        work = self.threads.current
        if self.threads.owners or work.calls:
            yield from self._left_threads(work)
        if self.event_loop.exists():
            yield from self._left_tasks(work)

    def _left_threads(self, work):
        known = getattr(sys.modules.get("threading"), "_active", {})
        calls = list(work.calls.values())
        for ident, owner in list(self.threads.owners.items()):
            thread = known.get(ident)
            if ident in calls or owner is work and not getattr(thread, "daemon", True) and not is_of_pool(thread):
                yield "thread %s" % getattr(thread, "name", ident), thread, functools.partial(_is_endless_thread, ident)
        for ident in calls:
            if not ident:  # it did not begin
                yield "call in a pool", None, lambda: any(map(_is_endless_thread, filter(None, calls)))

    def _left_tasks(self, work):
        servers = list(filter(None, (client_address(fd) for fd, _ in self.event_loop.readers_of(work))))
        for task in self.event_loop.tasks_of(work):
            yield "task %s()" % name_of(task.get_coro()), task, functools.partial(_is_endless_task, servers, task)
        for timer in self.event_loop.timers_of(work):
            function = getattr(timer._callback, "__func__", timer._callback)
            if not is_installed(getattr(getattr(function, "__code__", None), "co_filename", "")):
                yield "timer %s()" % name_of(function), timer, bool
        for address in servers:
            yield "server " + address, None, lambda: True


def _is_endless_thread(ident):
    return is_endless_thread(sys._current_frames().get(ident))


def _is_endless_task(servers, task):
    return bool(servers) or is_endless_task(task)


def names_of(left):
    return sorted(name for name, _, _ in left)[:MOST_NAMED]


def is_timer(thing):
    """Whether something goes off once, and may be set again by its callback."""
    kinds = (("asyncio", "TimerHandle"), ("threading", "Timer"))
    return any(isinstance(thing, getattr(sys.modules.get(module), kind, ())) for module, kind in kinds)


def is_of_pool(thread):
    """Whether a thread works for whatever run gives it something to do."""
    return any(thread in getattr(sys.modules.get(name), threads, ()) for name, threads in _POOLS.items())
