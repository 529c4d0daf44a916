"""What the variables are: their names, kinds and shapes, told without running any of the code's own methods."""

import os
import sys
from collections import deque
from types import BuiltinFunctionType, FunctionType, GetSetDescriptorType, MemberDescriptorType, ModuleType

from imports import import_seldom
from variables import user_names

MOST = 200  # that are named
_NAME, _MODULE, _MRO, _DICT = (type.__dict__[name].__get__ for name in ("__name__", "__module__", "__mro__", "__dict__"))
_SIZED = (str, list, dict, tuple, set, bytes, frozenset, bytearray, range, deque)
_VAGUE = {"Client", "Connection", "Cursor", "Database", "Engine", "Session"}  # names of kinds that their package makes clear
# Where the length of a column or an index is, from without to within.
_WITHIN = ("_mgr", "_range", "_codes", "_data", "_ndarray", "_pa_array")


def describe(kernel, message):
    """The answer to the supervisor, of the variables that are here, or of a file of them: without kinds."""
    holds, imported = [], []
    try:
        if "path" in message:
            path = os.path.join(kernel.settings.work_dir, message["path"])
            with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
                names = import_seldom("kept.pieces").Reader(file).heading["names"]
            holds = [{"name": name[:MOST]} for name in reversed(names) if isinstance(name, str)]
        else:
            holds, imported = look(kernel.namespace, kernel.hidden_names())
    except Exception:  # it changes as it is looked at, or the file is damaged
        pass
    return {"type": "described", "holds": holds[:MOST], "imported": imported[:MOST], "variables": len(holds)}


def look(namespace, hidden):
    """The variables, by turns the newest and the largest, functions last; and what is imported."""
    namespace = {name: value for name, value in list(namespace.items()) if type(name) is str}
    data, code, imported = [], [], []
    for name in user_names(namespace, hidden):
        value, short = namespace[name], name[:MOST]
        kind = type(value)
        if issubclass(kind, ModuleType):
            imported.append(_imported(short, _own(value).get("__name__")))
        elif issubclass(kind, type) or kind is FunctionType or kind is BuiltinFunctionType:
            is_class = issubclass(kind, type)
            place = _MODULE(value) if is_class else value.__module__
            if type(place) is str and place == "__main__":
                code.append({"name": short, "kind": "class" if is_class else "function"})
            else:
                imported.append(short)
        else:
            data.append({"name": short, "kind": _name(kind), "shape": shape_of(value, kind)})
    data.reverse()
    place = {id(item): at for at, item in enumerate(sorted(data, key=_size, reverse=True))}
    first = sorted(enumerate(data), key=lambda entry: min(entry[0], place[id(entry[1])]))
    return [item for _, item in first] + code[::-1], imported


def shape_of(value, kind):
    """The length or the dimensions of a value of a known kind, as far as those can be read without a method of Python's."""
    try:
        for known in _SIZED:
            if issubclass(kind, known):
                return [known.__len__(value)]
        package, found = _package(kind), None
        if package in ("pandas", "geopandas", "polars", "scipy"):
            own = _own(value)
            axes = _attribute(own.get("_mgr"), "pandas._libs.internals.BlockManager", "axes") or _own(own.get("_mgr")).get("axes")
            inner, found = own.get("_df", own.get("_s")), own.get("_shape")
            if type(axes) is list:
                found = [_length(axis) for axis in reversed(axes)]
            elif inner is not None and any(type(inner) is _kind("polars._plr." + name) for name in ("PyDataFrame", "PySeries")):
                found = inner.shape() if "_df" in own else [inner.len()]
            elif found is None:
                found = [_length(value)]
        elif package in ("numpy", "torch", "pyarrow"):
            found = _dimensions(value)
        found = list(found or ())[:4]
        return found if all(type(n) is int for n in found) else []
    except Exception:  # another version of the package keeps it elsewhere
        return []


def _dimensions(value):
    for place in ("numpy.ndarray", "torch._C.TensorBase"):
        shape = _attribute(value, place, "shape")
        if shape is not None:
            return tuple(shape)
    for place in ("pyarrow.lib.Table", "pyarrow.lib.RecordBatch"):
        rows = _attribute(value, place, "num_rows")
        if rows is not None:
            return rows, _attribute(value, place, "num_columns")
    for place in ("pyarrow.lib.ChunkedArray", "pyarrow.lib.Array"):
        known = _kind(place)
        if known and _is(value, known):
            return (known.__len__(value),)
    return None


def _length(value):
    """The length of an index of pandas, or of what holds its labels."""
    for _ in range(len(_WITHIN)):
        if type(value) is range:
            return len(value)
        shape = _dimensions(value)
        if shape is not None:
            return shape[0]
        own = _own(value)
        labels = _attribute(value, "pandas._libs.arrays.NDArrayBacked", "_ndarray")
        value = labels if labels is not None else next((own[name] for name in _WITHIN if name in own), None)
        if issubclass(type(value), list):  # the levels of several
            value = list.__getitem__(value, 0)
    return None


def _attribute(value, place, name):
    """An attribute that a class keeps in C, of a value of this class; None: it is of none."""
    known = _kind(place)
    return known.__dict__[name].__get__(value) if known and _is(value, known) else None


def _is(value, known):
    return any(base is known for base in _MRO(type(value)))


def _kind(place):
    """The class at a place, if it is imported."""
    module, _, name = place.rpartition(".")
    return _own(sys.modules.get(module)).get(name)


def _own(value):
    """An object's own attributes; a class may give out others as its __dict__."""
    for base in _MRO(type(value)):
        held = _DICT(base).get("__dict__")
        if type(held) is GetSetDescriptorType or type(held) is MemberDescriptorType:
            found = held.__get__(value)
            return found if type(found) is dict else {}
    return {}


def _package(kind):
    module = _MODULE(kind)
    return module.partition(".")[0] if type(module) is str else ""


def _name(kind):
    name = str.__getitem__(_NAME(kind), slice(MOST))
    return "%s.%s" % (_package(kind), name) if name in _VAGUE else name


def _imported(name, module):
    if type(module) is not str or module.rpartition(".")[2] == name:
        return module[:MOST] if type(module) is str else name
    return "%s as %s" % (module[:MOST], name)


def _size(item):
    size = len(item["shape"]) and 1
    for n in item["shape"]:
        size *= n
    return size
