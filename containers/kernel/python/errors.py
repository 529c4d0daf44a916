"""The errors of code: short tracebacks that begin at the code's own lines."""

import re
import sys

from imports import INSTALLED, OWN, OWN_LIB, PACKAGES, import_seldom, is_stdlib

_MACHINERY = ("/IPython/", "/asyncio/", "<frozen importlib")
_LIBRARIES = (*INSTALLED, "<frozen ", ".pyx", ".pxi")


def user_frames(error):
    """The (frame, line) pairs of a traceback without the part before the user's code."""
    pairs, tb = [], error.__traceback__
    while tb is not None:
        if not tb.tb_frame.f_code.co_filename.startswith((OWN, OWN_LIB)):
            pairs.append((tb.tb_frame, tb.tb_lineno))
        tb = tb.tb_next
    start = 0
    while start < len(pairs) and any(part in pairs[start][0].f_code.co_filename for part in _MACHINERY):
        start += 1
    return pairs[start:]


def is_library(pair):
    return any(part in pair[0].f_code.co_filename for part in _LIBRARIES)


def leave_out(pairs, first, last, what):
    """The ends of a list of frames, with a line that tells how many are left out between them."""
    if len(pairs) <= first + last + 1:
        return pairs
    note = "  ... %d frames %sleft out ...\n" % (len(pairs) - first - last, what)
    return [*pairs[:first], note, *pairs[-last:]]


def shorten_frames(pairs, most):
    """Leaves out the inside of libraries, and then the middle of a traceback still too long."""
    import itertools

    kept = []
    for inside, group in itertools.groupby(pairs, is_library):
        group = list(group)
        kept += leave_out(group, 1, 1, "in libraries ") if inside else group
    return leave_out(kept, most // 2, most // 2, "")


def format_frames(pairs, most=20):
    import itertools
    import traceback

    if not pairs:
        return []
    lines = ["Traceback (most recent call last):\n"]
    for is_note, group in itertools.groupby(shorten_frames(pairs, most), lambda entry: isinstance(entry, str)):
        lines += group if is_note else traceback.StackSummary.extract(list(group)).format()
    return lines


def format_error(error, depth=0, seen=None):
    """An error with its causes as a short traceback, a list of lines."""
    import traceback

    seen = seen if seen is not None else set()
    seen.add(id(error))
    lines = []
    cause, context = error.__cause__, error.__context__
    if cause is not None and id(cause) not in seen and depth < 5:
        lines += format_error(cause, depth + 1, seen)
        lines.append("\nThe above exception was the direct cause of the following exception:\n\n")
    elif context is not None and not error.__suppress_context__ and id(context) not in seen and depth < 5:
        lines += format_error(context, depth + 1, seen)
        lines.append("\nDuring handling of the above exception, another exception occurred:\n\n")
    lines += format_frames(user_frames(error), 8 if isinstance(error, RecursionError) else 20)
    # Given a traceback, TracebackException adds its "Did you mean" to names.
    summary = traceback.TracebackException(type(error), error, error.__traceback__, limit=-1, lookup_lines=False)
    lines += summary.format_exception_only()
    for inner in list(getattr(error, "exceptions", ()))[:10] if depth < 5 else ():
        if isinstance(inner, BaseException) and id(inner) not in seen:
            lines += ["  | " + line for part in format_error(inner, depth + 1, seen) for line in part.splitlines(True)]
    return lines


def code_of_call(frame, lasti):
    """The leading names of the expression that a frame evaluates, as a list, and the object of the first."""
    import itertools
    import linecache

    line, _, column, _ = next(itertools.islice(frame.f_code.co_positions(), lasti // 2, None), (None,) * 4)
    text = linecache.getline(frame.f_code.co_filename, line or 0, frame.f_globals).encode()[column or 0 :]
    names = re.match(r"[\w.]*", text.decode(errors="replace"))[0].split(".")
    return names, frame.f_locals.get(names[0], frame.f_globals.get(names[0]))


def module_of(thing):
    if isinstance(thing, type(sys)):
        return thing.__name__
    return getattr(thing if isinstance(thing, type) or hasattr(thing, "__qualname__") else type(thing), "__module__", None)


def refusing(frame, lasti, cls, function):
    """The modules of a function that refused its arguments, or of the method of a class."""
    names, first = code_of_call(frame, lasti)
    if not cls:
        thing = first
        for name in names[1:]:
            thing = vars(thing).get(name) if isinstance(thing, type(sys)) else None
        return {module_of(thing)} if getattr(thing, "__name__", None) == function else set()
    named = (getattr(module, "__dict__", {}).get(cls) for module in list(sys.modules.values()))
    owners = {top(found.__module__) for found in named if isinstance(found, type) and function in vars(found)}
    return owners & {top(module_of(first))} if len(owners) > 1 else owners


def top(module):
    return str(module).partition(".")[0].lstrip("_")


def sources_of(error):
    """The modules of an error's subject: an object lacking a name, a function refusing its arguments, or the raising code."""
    frames = []
    tb = error.__traceback__
    while tb:
        frames.append((tb.tb_frame, tb.tb_lasti))
        tb = tb.tb_next
    while is_stdlib(frames[-1][0].f_code.co_filename) and len(frames) > 1:
        frames.pop()
    refused = isinstance(error, TypeError) and re.match(r"(?:(\w+)\.)?(\w+)\(\) ", str(error))
    if isinstance(error, ImportError):
        return {error.name}
    if isinstance(error, AttributeError) and error.obj is not None:
        return {module_of(error.obj if isinstance(error.obj, (type, type(sys))) else type(error.obj))}
    if is_library(frames[-1]):
        return {frames[-1][0].f_globals.get("__name__")}
    return refusing(*frames[-1], *refused.groups()) if refused else set()


def note_of(error):
    """A last line for a traceback: the library and its version that lack a name or refuse an argument."""
    if not isinstance(error, (AttributeError, ImportError, TypeError, ValueError)):
        return ""
    try:
        libraries = {top(source) for source in sources_of(error)}
        module = sys.modules.get(libraries.pop()) if len(libraries) == 1 else None
        version = getattr(module, "__version__", None)
        if isinstance(version, str) and any(part in module.__file__ for part in PACKAGES):
            return "(%s %s)\n" % (module.__name__, version[:30])
    except Exception:  # of the code's own objects
        pass
    return ""


def shorten(text, limit):
    if len(text) <= limit:
        return text
    half = limit // 2
    return "%s\n... %d characters left out ...\n%s" % (text[:half], len(text) - 2 * half, text[-half:])


def message_of(error):
    try:
        return error.msg or "" if isinstance(error, SyntaxError) else str(error)
    except Exception:
        return "<exception str() failed>"  # as the traceback says it


def describe(error):
    """The protocol's error object; exceptions of the error's own methods may pass through."""
    lines = format_error(error)
    if isinstance(error, ImportError) and import_seldom("install").is_going_on():
        lines.append("note: an installation of this session goes on; import again when it is over\n")
    return {
        "name": type(error).__name__,
        "message": shorten(message_of(error), 4000),
        "traceback": shorten("".join([*lines, note_of(error)]), 16_000),
    }
