"""Imports ahead of the code that will want them, in the idle time of a kernel."""

import functools
import os
import sys
import time

from imports import import_quietly, is_in_cwd, own_imports

# A fork during their import would take half of their preparations for forks.
_HOOK_FORKS = ("concurrent.futures.thread", "logging")
TURN_SECONDS = 2  # how long an import waits for a module that is being preloaded
PAUSE_SECONDS = 8  # and how long a copy
PUT_OFF_SECONDS = 30  # how long a busy machine puts all of it off


def is_busy():
    """Whether as many processes of the machine run as it has processors, but for one: runs of others come before imports for later."""
    try:
        with open("/proc/loadavg", encoding="ascii") as file:
            running = int(file.read().split()[3].partition("/")[0])
    except (OSError, ValueError, IndexError):
        return False
    return running > max(1, (os.cpu_count() or 1) - 1)  # this one too


class PutOff:
    """Puts imports off while the machine is busy, up to a while: the runs of others come first."""

    def __init__(self):
        self.end = None
        self.next = 0

    def left(self):
        """Seconds until it is worth to look again."""
        return self.next - time.monotonic()

    def by_others(self):
        now = time.monotonic()
        self.end = self.end or now + PUT_OFF_SECONDS
        if self.next <= now < self.end and is_busy():
            self.next = now + 0.5 + os.urandom(1)[0] / 256  # many kernels may wait for the same moment
        return now < self.next


class Preload:
    """Imports modules in a background thread while code may run and import too.

    Two threads in packages that import each other in a circle would see half of them: Python
    breaks such a deadlock by handing out modules that are not complete. So while this goes on,
    an import by the code waits for the one module that is being preloaded, and the preload
    waits for the code's. The standard library is free of such circles and does not wait.
    """

    def __init__(self, names):
        import builtins
        import importlib
        import threading

        with own_imports:
            for name in _HOOK_FORKS:
                import_quietly(name)
        self.names = names
        self.stdlib = sys.stdlib_module_names
        self.turn = threading.RLock()
        self.waiting = 0
        self.thread = None
        self.stop = self.done = False
        self.hooks = [(builtins, "__import__"), (importlib, "import_module")]
        self.originals = [getattr(*hook) for hook in self.hooks]
        self.guards = [self._guard(original) for original in self.originals]
        self.interval = sys.getswitchinterval()

    def start(self):
        """Begins, or goes on after a pause."""
        import threading

        self.stop = False
        for hook, guard in zip(self.hooks, self.guards):
            setattr(*hook, guard)
        sys.setswitchinterval(0.0001)  # the main thread gets the interpreter within this time when a run comes meanwhile
        self.thread = threading.Thread(target=self._import_all, name="preload", daemon=True)
        try:
            self.thread.start()
        except RuntimeError:
            self.done = True
            self._take_back()
            raise

    def _guard(self, original):
        from threading import current_thread

        def guarded(name, *args, **kwargs):
            if self.done or current_thread() is self.thread or self._harmless(name, args):
                return original(name, *args, **kwargs)
            self.waiting += 1
            mine = False
            try:
                # Who waits may be inside another import, whose lock the preload may want: a wait
                # with an end cannot become a deadlock.
                mine = self.turn.acquire(timeout=TURN_SECONDS)
                return original(name, *args, **kwargs)
            finally:
                self.waiting -= 1
                if mine:
                    self.turn.release()

        return functools.wraps(original)(guarded)

    def _harmless(self, name, args):
        """Whether an import is of the standard library, or by it of a part of its own."""
        if len(args) > 3 and args[3]:
            name = (args[0] or {}).get("__package__") or ""
        return name.partition(".")[0] in self.stdlib

    def _import_all(self):
        try:
            for name in self.names:
                while self.waiting:
                    time.sleep(0.001)
                if self.stop:
                    return
                with self.turn:
                    if not is_in_cwd(name):  # a file of the user's runs when code imports it
                        with own_imports:
                            import_quietly(name)
        finally:
            self.done = not self.stop

    def is_running(self):
        return self.thread is not None and self.thread.is_alive()

    def pause(self):
        """Stops between two modules, and reports whether it has."""
        self.stop = True
        if self.is_running():
            self.thread.join(PAUSE_SECONDS)
        if self.is_running():
            return False
        self._take_back()
        return True

    def hold(self):
        """Before a fork: stops between two modules. A fork would copy locks that nobody releases."""
        self.held = self.turn.acquire(timeout=TURN_SECONDS)

    def let_go(self):
        if self.held:
            self.turn.release()

    def finish(self):
        """Waits for the end and takes everything back that code did not change meanwhile."""
        self.thread.join()
        self._take_back()

    def _take_back(self):
        sys.setswitchinterval(self.interval)
        for hook, original, guard in zip(self.hooks, self.originals, self.guards):
            if getattr(*hook) is guard:
                setattr(*hook, original)
