"""The memo entries of an unreadable pickle: later pickles refer to them by number."""

import pickletools
from types import SimpleNamespace

_MEMOIZING = ("MEMOIZE", "PUT", "BINPUT", "LONG_BINPUT")
_RECALLING = ("GET", "BINGET", "LONG_BINGET")
_NAMING = ("_builtin_type", "import_module")  # functions that find something by its name


def count_memoized(file):
    return sum(step.name in _MEMOIZING for step, _ in _steps(file))


def add_memoized(file, memo, find_class, hole):
    """Adds texts, and objects found by name; for anything else the hole."""
    made, texts, function = hole, [], None
    for step, arg in _steps(file):
        if step.name in _MEMOIZING:
            memo.append(made)
            continue
        if step.name in _RECALLING:
            made = memo[arg]
        elif step.name == "STACK_GLOBAL":
            made = find_class(*texts[-2:])
        elif step.name == "REDUCE" and getattr(function, "__name__", "") in _NAMING:
            made, function = _call(function, texts[-1], hole), None
        else:
            made = arg if isinstance(arg, (str, bytes)) else hole
        if isinstance(made, str):
            texts = [*texts[-1:], made]
        elif step.name in (*_RECALLING, "STACK_GLOBAL"):
            function = made


def _call(function, text, hole):
    try:
        return function(text)
    except Exception:  # it was another one's text
        return hole


def _steps(file):
    without_tell = SimpleNamespace(read=file.read, readline=file.readline)
    for step, arg, _ in pickletools.genops(without_tell):
        yield step, arg
