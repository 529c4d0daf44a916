"""SIGINT in a kernel, at times when it must not interrupt."""

import signal

from imports import is_installed

_PUT_OFF = 3  # signals; four come in the time that code may take to stop


class OutOfMemory(MemoryError):
    """Stops code before the session's memory is used up. To the code it is a MemoryError like any other."""

    TEXT = "this code was stopped because the session's memory was nearly used up; the variables are kept"


OutOfMemory.__module__, OutOfMemory.__qualname__, OutOfMemory.__name__ = "builtins", "MemoryError", "MemoryError"


class Interrupt:
    """SIGINT while code runs, in the place of Python's own handler.

    Python cannot take back an import that was torn: an extension module refuses to be loaded again, and
    the package stays unusable until the kernel's end. So the import of an installed package is let come to its
    end, if that takes no longer than until the last signal.
    """

    def __init__(self, is_wanted, make_error):
        self.is_wanted = is_wanted
        self.make_error = make_error
        self.put_off = 0

    def begin_run(self):
        self.put_off = 0

    def __call__(self, _signum, frame):
        if self.put_off < _PUT_OFF and is_importing(frame):
            self.put_off += 1
            return
        if self.is_wanted():
            raise self.make_error()


def is_importing(frame):
    """Whether an installed package is being imported, seen from this frame."""
    while frame is not None:
        code = frame.f_code
        if code.co_name == "_load_unlocked" and code.co_filename == "<frozen importlib._bootstrap>":
            if is_installed(str(getattr(frame.f_locals.get("spec"), "origin", ""))):
                return True
        frame = frame.f_back
    return False


def ignore_signal(*_):
    """SIGINT between runs; unlike SIG_IGN it is not inherited by programs that code starts."""


def ignore_interrupts():
    """Ignores SIGINT from now on. One that is pending is raised by the attempt, and another may come behind it. Code may have spoilt
    the interpreter so that no attempt works: then the last one's error is raised."""
    for _ in range(100):
        try:
            signal.signal(signal.SIGINT, ignore_signal)
            return
        except BaseException:  # it came before
            pass
    signal.signal(signal.SIGINT, ignore_signal)


def note_signal(*_):
    note_signal.came = True


def without_interrupts(step, *args):
    """Takes a step that an interrupt must not end in the middle; the interrupt comes after it."""
    try:
        previous = signal.signal(signal.SIGINT, note_signal)
    except ValueError:  # another thread: signals do not reach it
        return step(*args)
    note_signal.came = False
    try:
        value = step(*args)
    finally:
        signal.signal(signal.SIGINT, previous)
    if note_signal.came:
        raise previous.make_error() if isinstance(previous, Interrupt) else KeyboardInterrupt
    return value
