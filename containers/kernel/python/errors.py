"""The errors of code: short tracebacks that begin at the code's own lines."""

import re
import sys

from imports import INSTALLED, OWN, OWN_LIB, PACKAGES, STDLIB, import_seldom, is_stdlib

_MACHINERY = ("/asyncio/", "<frozen importlib")
_LIBRARIES = (*INSTALLED, "<frozen ", ".pyx", ".pxi")
_PLACE = re.compile("^(?:.*(?:%s)|%s)" % ("|".join(PACKAGES), re.escape(STDLIB)))


def user_frames(error):
    """The (frame, line) pairs of a traceback without the shell's and the part before the user's code."""
    pairs, tb = [], error.__traceback__
    while tb is not None:
        file = tb.tb_frame.f_code.co_filename
        if not file.startswith((OWN, OWN_LIB)) and "/IPython/" not in file:
            pairs.append((tb.tb_frame, tb.tb_lineno))
        tb = tb.tb_next
    start = 0
    while start < len(pairs) and any(part in pairs[start][0].f_code.co_filename for part in _MACHINERY):
        start += 1
    return pairs[start:]


def is_library(pair):
    return any(part in pair[0].f_code.co_filename for part in _LIBRARIES)


def place_of(pair):
    return _PLACE.sub(".../", pair[0].f_code.co_filename)


def inside_of(group):
    """A line for frames inside of libraries: where they begin, and the last of them."""
    begin = place_of(group[0]) + " ... " if len(group) > 1 else ""
    return '  %sFile "%s", in %s\n' % (begin, place_of(group[-1]), group[-1][0].f_code.co_name)


def shorten_frames(pairs, most):
    """The frames with a line for the inside of each library, and without the middle of a traceback still too long."""
    import itertools

    kept = []
    for inside, group in itertools.groupby(pairs, is_library):
        kept += [inside_of(list(group))] if inside else group
    if len(kept) <= most + 1:
        return kept
    return [*kept[: most // 2], "  ... %d frames left out ...\n" % (len(kept) - most), *kept[-most // 2 :]]


def format_frames(pairs, most=20):
    import itertools
    import traceback

    if not pairs:
        return []
    lines = ["Traceback (most recent call last):\n"]
    for is_note, group in itertools.groupby(shorten_frames(pairs, most), lambda entry: isinstance(entry, str)):
        lines += group if is_note else map(written, traceback.StackSummary.extract(list(group)).format())
    return lines


def written(frame):
    """A frame's text, without the whole cell that is the argument of a magic."""
    place, _, code = frame.partition("\n")
    return place + "\n" if code.startswith("    get_ipython().run_") else frame


def behind(error, seen):
    """The error that led to an error, and the words between the two; None if there is none that was not seen."""
    if error.__cause__ is not None and id(error.__cause__) not in seen:
        return error.__cause__, "The above exception was the direct cause of the following exception"
    if error.__context__ is not None and not error.__suppress_context__ and id(error.__context__) not in seen:
        return error.__context__, "During handling of the above exception, another exception occurred"
    return None, ""


def format_error(error, depth=0, seen=None):
    """An error with its causes as a short traceback, a list of lines. Of causes inside of libraries it has the first one's message."""
    import linecache
    import traceback

    seen = seen if seen is not None else set()
    seen.add(id(error))
    lines, inside = [], None
    inner, words = behind(error, seen)
    while inner is not None and depth < 5:
        depth += 1
        if not all(map(is_library, user_frames(inner))):
            lines += [*format_error(inner, depth, seen), "\n%s:\n\n" % words]
            break
        inside = inner
        seen.add(id(inner))
        inner, words = behind(inner, seen)
    lines += format_frames(user_frames(error), 8 if isinstance(error, RecursionError) else 20)
    if isinstance(error, SyntaxError) and error.text is None and str(error.filename).startswith("<cell "):
        error.text = linecache.getline(error.filename, error.lineno or 0) or None
    # Given a traceback, TracebackException adds its "Did you mean" to names.
    summary = traceback.TracebackException(type(error), error, error.__traceback__, limit=-1, lookup_lines=False)
    lines += summary.format_exception_only()
    if inside is not None and message_of(inside) not in "".join(lines):
        lines.append("caused by " + traceback.format_exception_only(inside)[-1])
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


MOST_NAMES = 200  # characters of names that there are


def names_of(error):
    """A last line for a traceback: the names that a table of pandas has where another one was asked for, the nearest first."""
    import difflib

    tb, tables = error.__traceback__, []
    while tb is not None and not tables:
        values = tb.tb_frame.f_locals if "/pandas/" in tb.tb_frame.f_code.co_filename else {}
        things = [values[name] for name in ("left", "right") if name in values] or [values.get("self")]
        things = [thing if hasattr(thing, "columns") else getattr(thing, "obj", None) for thing in things]
        tables = [thing for thing in things if hasattr(thing, "columns")]
        tb = tb.tb_next
    lines = []
    for table in tables:
        names = [str(name) for name in table.columns[:1000]]
        asked = re.sub(".*: |[^\\w ]", "", re.findall("'(.*?)'", message_of(error) + "''")[0]).strip()
        near = [name for name in names if name.strip().lower() == asked.lower()] or difflib.get_close_matches(asked, names, 1)
        text = ", ".join(map(repr, [*near[:1], *(name for name in names if name not in near[:1])]))
        if len(text) > MOST_NAMES:
            text = text[:MOST_NAMES].rpartition(", ")[0] + ", … (%d)" % len(table.columns)
        lines.append("columns: %s%s\n" % ("nearest " if near else "", text))
    return "".join(lines)


def version_of(error):
    """A last line for a traceback: the library and its version that lack a name or refuse an argument."""
    libraries = {top(source) for source in sources_of(error)}
    module = sys.modules.get(libraries.pop()) if len(libraries) == 1 else None
    version = getattr(module, "__version__", None)
    if isinstance(version, str) and any(part in module.__file__ for part in PACKAGES):
        return "(%s %s)\n" % (module.__name__, version[:30])
    return ""


def note_of(error):
    try:
        if isinstance(error, KeyError):
            return names_of(error)
        return version_of(error) if isinstance(error, (AttributeError, ImportError, TypeError, ValueError)) else ""
    except Exception:  # of the code's own objects
        return ""


def shorten(text, limit):
    """The ends of a text of more than `limit` characters, and what is left out between them."""
    if len(text) <= limit:
        return text, None
    half = limit // 2
    left = left_out(text[half:-half])
    return "%s\n... %d bytes left out ...\n%s" % (text[:half], left["bytes"], text[-half:]), left


def left_out(text):
    return {"bytes": len(text.encode("utf-8", "replace")), "lines": text.count("\n")}


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
    message, _ = shorten(message_of(error), 4000)
    traceback, left = shorten("".join([*lines, note_of(error)]), 16_000)
    return {"name": type(error).__name__, "message": message, "traceback": traceback, "left": left}
