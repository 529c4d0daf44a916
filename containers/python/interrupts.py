"""SIGINT in a kernel, at the times when it must not end what goes on."""

import signal


def ignore_signal(*_):
    """SIGINT between runs; unlike SIG_IGN it is not inherited by programs that code starts."""


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
        raise KeyboardInterrupt
    return value
