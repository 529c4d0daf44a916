"""What the variables are: their names, kinds and shapes, told without running any of the code's own methods."""

import os
import sys
from collections import deque
from math import prod
from time import thread_time
from types import BuiltinFunctionType, FunctionType, ModuleType

from imports import import_seldom
from variables import user_names

MOST = 60  # that are named
LONGEST = 100  # characters of a name
SECONDS = 0.0015  # of the processor, for the shapes of tables
_NAME, _MODULE = (type.__dict__[name].__get__ for name in ("__name__", "__module__"))  # a metaclass may have others
_VARS = ModuleType.__dict__["__dict__"].__get__
_SIZED = (str, list, dict, tuple, set, bytes, frozenset, bytearray, range, deque)
_VAGUE = {"Client", "Connection", "Cursor", "Database", "Engine", "Session"}  # names that their package makes clear


def describe(kernel, message):
    """The answer to the supervisor, of the variables that are here, or of a file of them: without kinds."""
    holds, imported = [], []
    try:
        if "path" in message:
            path = os.path.join(kernel.settings.work_dir, message["path"])
            with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
                holds = [str(name)[:LONGEST] for name in reversed(import_seldom("kept.pieces").Reader(file).heading["names"])]
        else:
            holds, imported = look(kernel.namespace, kernel.hidden_names())
    except Exception:  # it changes as it is looked at, or the file is damaged
        pass
    return {"type": "described", "holds": holds[:MOST], "imported": imported[:MOST], "variables": len(holds)}


def look(namespace, hidden):
    """The variables, by turns the newest and the largest, functions last; and what is imported."""
    namespace = {name: value for name, value in list(namespace.items()) if type(name) is str}
    data, code, imported, until = [], [], [], thread_time() + SECONDS
    for name in reversed(user_names(namespace, hidden)):
        value, short = namespace[name], name[:LONGEST]
        kind = type(value)
        if issubclass(kind, ModuleType):
            module = _text(_VARS(value).get("__name__"))
            imported.append(module if module.rpartition(".")[2] == name else "%s as %s" % (module, short))
        elif issubclass(kind, type) or kind is FunctionType or kind is BuiltinFunctionType:
            is_class = issubclass(kind, type)
            if _text(_MODULE(value) if is_class else value.__module__) != "__main__":
                imported.append(short)
            else:
                code.append(short + (" class" if is_class else " function"))
        else:
            shape = shape_of(value, kind, until)
            data.append((prod(shape) if shape else 0, "%s %s %s" % (short, _title(kind), " × ".join(map("{:,}".format, shape)))))
    places = dict(map(reversed, enumerate(sorted(range(len(data)), key=lambda at: -data[at][0]))))
    first = sorted(range(len(data)), key=lambda at: min(at, places[at]))
    return [data[at][1].rstrip() for at in first] + code, imported


def shape_of(value, kind, until):
    """The length or the dimensions of a container or a table, by what its own package keeps in C, or says of its own classes."""
    for known in _SIZED:
        if issubclass(kind, known):
            return [known.__len__(value)]
    package = _text(_MODULE(kind)).partition(".")[0]
    if package not in ("numpy", "pandas", "polars", "pyarrow", "scipy", "torch") or not _is_theirs(kind) or thread_time() > until:
        return []
    try:
        own = getattr(value, "__dict__", {})
        if "_mgr" in own:  # pandas
            shape = [len(axis) for axis in reversed(own["_mgr"].axes) if _is_theirs(type(axis))]
        elif "_df" in own or "_s" in own:  # polars
            shape = own["_df"].shape() if "_df" in own else [own["_s"].len()]
        elif _NAME(kind).endswith(("Index", "Array")):
            shape = [len(value)]
        else:
            shape = own.get("_shape") or value.shape if package != "pandas" else []
        return [int(n) for n in shape][:4]
    except Exception:  # it has none
        return []


def _is_theirs(kind):
    """Whether a class is the one that its package has by this name, and no one's below it."""
    module = sys.modules.get(_text(_MODULE(kind)))
    return type(module) is ModuleType and _VARS(module).get(_text(_NAME(kind))) is kind


def _text(text):
    return text[:LONGEST] if type(text) is str else ""


def _title(kind):
    name = str.__getitem__(_NAME(kind), slice(LONGEST))
    return "%s.%s" % (_text(_MODULE(kind)).partition(".")[0], name) if name in _VAGUE else name
