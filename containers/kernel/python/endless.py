"""Whether unfinished work looks endless. Nobody can know, but code often shows it."""

import functools
import os

from awaited import callbacks_of, futures_behind
from imports import OWN, is_stdlib

_SERVERS = ("serve_forever", "accept")
_LOCKS = ("/asyncio/locks.py", "/asyncio/queues.py")


def is_endless_thread(frame):
    """Whether a thread whose innermost frame this is serves, waits for others, or is in a loop without end."""
    waits, for_ever = True, False
    while frame is not None:
        code = frame.f_code
        if not is_stdlib(code.co_filename):
            if for_ever:
                return True
            waits = False
            if is_in_endless_loop(code, frame.f_lineno):
                return True
        elif code.co_name == "run_until_complete":  # of a loop of its own
            return is_endless_task(frame.f_locals.get("future"))
        elif code.co_name in _SERVERS or _is_loops_own(frame) or _selects_clients(frame):
            return True
        elif waits and code.co_filename.endswith("/threading.py"):
            if code.co_name in ("wait", "join"):
                for_ever = for_ever or frame.f_locals.get("timeout") is None
            elif code.co_name == "start":  # a thread that it starts reports its start at once
                for_ever = False
        frame = frame.f_back
    return for_ever


def _is_loops_own(frame):
    return frame.f_code.co_name == "run_forever" and frame.f_back.f_code.co_name != "run_until_complete"


def _selects_clients(frame):
    if frame.f_code.co_name != "select" or not frame.f_code.co_filename.endswith("/selectors.py"):
        return False
    return any(client_address(key.fd) for key in list(frame.f_locals["self"].get_map().values()))


def client_address(fd):
    """The address of a socket that clients connect to; nothing of any other descriptor."""
    import socket

    try:
        copy = os.dup(fd)
    except OSError:
        return ""
    try:
        sock = socket.socket(fileno=copy)
    except OSError:  # which leaves it open
        os.close(copy)
        return ""
    with sock:
        try:
            name = sock.getsockname() if sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) else ""
        except OSError:
            return ""
    return "%s:%d" % name[:2] if isinstance(name, tuple) else str(name)


def is_endless_task(task, seen=()):
    """Whether a task, or one that it waits for, serves, waits without a limit, or is in a loop without end.

    Calls in pools are looked at by themselves.
    """
    if task in seen or not hasattr(type(task), "get_coro"):
        return hasattr(task, "_done_callbacks")  # of a pool
    seen = (*seen, task)
    waiter = getattr(task, "_fut_waiter", None)
    others = [one for callback, _ in callbacks_of(waiter) for one in futures_behind(callback)]
    others += [waiter, *getattr(waiter, "_children", ())]
    frame = None
    for frame in _frames_of(task):
        if is_stdlib(frame.f_code.co_filename):
            if frame.f_code.co_name in _SERVERS:
                return True
        elif is_in_endless_loop(frame.f_code, frame.f_lineno):
            return True
    if frame is not None:  # the innermost one
        place, values = frame.f_code.co_filename, frame.f_locals
        if place.endswith(_LOCKS) or place.endswith("/asyncio/streams.py") and not _reads_program(values.get("self")):
            return True
        if place.endswith("/asyncio/taskgroups.py"):
            others += values["self"]._tasks
        elif frame.f_code.co_name == "_wait" and values.get("timeout") is None:
            others += values.get("fs") or ()
    return any(is_endless_task(other, seen) for other in others if other not in seen)


def _frames_of(task):
    """The frames of a task's awaits, outermost first."""
    one = task.get_coro()
    while one is not None:
        frame = getattr(one, "cr_frame", None) or getattr(one, "gi_frame", None) or getattr(one, "ag_frame", None)
        if frame is not None:
            yield frame
        one = getattr(one, "cr_await", None) or getattr(one, "gi_yieldfrom", None) or getattr(one, "ag_await", None)


def _reads_program(stream):
    transport = getattr(stream, "_transport", None)
    return transport is not None and transport.get_extra_info("pipe") is not None


# -- loops


@functools.lru_cache(256)
def is_in_endless_loop(code, line):
    """Whether a line of a function is in a `while True` without a way out."""
    import ast
    import linecache

    if code.co_filename.startswith(OWN):
        return False
    try:
        tree = ast.parse("".join(linecache.getlines(code.co_filename)))
    except (SyntaxError, ValueError):  # the file is another one by now
        return False
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    around = [
        node for node in ast.walk(tree)
        if isinstance(node, (ast.While, *functions)) and node.lineno <= line <= node.end_lineno
    ]
    around.sort(key=lambda node: (node.lineno, -node.end_lineno))
    starts = [index for index, node in enumerate(around) if isinstance(node, functions)]
    return any(map(_never_ends, around[starts[-1] + 1 if starts else 0 :]))


def _never_ends(loop):
    import ast

    return isinstance(loop.test, ast.Constant) and bool(loop.test.value) and not any(map(_leaves, loop.body))


def _leaves(node, is_own=True):
    """Whether a statement of a loop's body may end the loop."""
    import ast

    if isinstance(node, (ast.Return, ast.Raise, ast.Yield, ast.YieldFrom)) or is_own and isinstance(node, ast.Break):
        return True
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
        return False
    is_own = is_own and not isinstance(node, (ast.While, ast.For, ast.AsyncFor))
    return any(_leaves(child, is_own) for child in ast.iter_child_nodes(node))
