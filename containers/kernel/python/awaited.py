"""Finds the threads that a run waits for. Their output meanwhile is the run's own, though an earlier run started them."""

import functools
import sys
from _thread import get_ident

from imports import is_stdlib
from work import WORK

# Functions of the standard library in which a thread waits for another one.
_WAITS = ("join", "result", "exception", "wait", "as_completed", "get", "next", "acquire")
_LOCKS = ("threading", "queue")  # modules of locks that any thread may release


def is_awaited(work, idents, call):
    """Whether a run, which these threads work for, waits for the calling thread, such as for a call in a pool."""
    waited_for = _waited_for(idents)
    thread = getattr(sys.modules.get("threading"), "_active", {}).get(get_ident())
    todo, seen = [call, _current_task(), thread], {id(None)}
    while todo:
        one = todo.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if id(one) in waited_for:
            return True
        for callback, context in callbacks_of(one):
            if context is not None and context.get(WORK) is work:
                return True
            todo += futures_behind(callback)
    return bool(waited_for) and _helps(waited_for)


def _current_task():
    events = sys.modules.get("asyncio.events")
    loop = events and events._get_running_loop()
    return sys.modules["asyncio"].current_task(loop) if loop else None


def callbacks_of(future):
    """The callbacks of a future, with their contexts if there are any."""
    for entry in [*(getattr(future, "_callbacks", None) or ()), *getattr(future, "_done_callbacks", ())]:
        yield entry if isinstance(entry, tuple) else (entry, None)


def futures_behind(callback):
    """The futures that a callback of a future completes: of a task that awaits, gather(), wait(), a group of tasks."""
    owner = getattr(callback, "__self__", None)
    found = [owner]
    if type(owner).__name__ == "TaskGroup":
        found.append(owner._parent_task)
    if isinstance(callback, functools.partial):
        found += callback.args
    for cell in getattr(callback, "__closure__", None) or ():
        try:
            found.append(cell.cell_contents)
        except ValueError:  # it is empty
            pass
    return [one for one in found if hasattr(type(one), "add_done_callback")]


def _waited_for(idents):
    """The objects that threads wait for, directly and through others: {id: object}."""
    frames, todo, found = sys._current_frames(), list(idents), {}
    while todo:
        frame = frames.pop(todo.pop(), None)
        while frame is not None and is_stdlib(frame.f_code.co_filename):
            if frame.f_code.co_name in _WAITS:
                for value in list(frame.f_locals.values()):
                    for one in list(value) if type(value) in (list, set, tuple, dict) else (value,):
                        found[id(one)] = one
                        if hasattr(type(one), "_bootstrap_inner"):  # a thread
                            todo.append(one.ident)
            frame = frame.f_back
    return found


def _helps(waited_for):
    """Whether the calling thread's code knows the lock or queue, or works on the job, that is waited for."""
    locks = {key for key, one in waited_for.items() if type(one).__module__ in _LOCKS}
    jobs = {one._job for one in waited_for.values() if type(one).__module__ == "multiprocessing.pool"}
    frame = sys._getframe()
    while frame is not None:
        code, values = frame.f_code, frame.f_locals
        if not is_stdlib(code.co_filename):
            known = [*values.values(), *(frame.f_globals.get(name) for name in code.co_names)]
            known += list(getattr(values.get("self"), "__dict__", {}).values())
            if not locks.isdisjoint(map(id, known)):
                return True
        elif code.co_name == "worker" and values.get("job") in jobs:
            return True
        frame = frame.f_back
    return False
