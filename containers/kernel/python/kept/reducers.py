"""Pickles of objects that their library pickles too large, without their file, or unreadably."""

import os
import sys
from copyreg import __newobj_ex__

MUCH = 10  # times the size of a slice, from which on its table is worth leaving behind
LEAST = 1 << 16
ALIAS = "_value_of_alias_"
MAKE_ALIAS = "exec(text, space) or space[name]"


def find_reducer(kind):
    """The function that reduces values of this class; None: they reduce themselves well."""
    for module, name, reducer in _REDUCERS:
        base = getattr(sys.modules.get(module), name, None)
        if isinstance(base, type) and issubclass(kind, base):
            return reducer
    return None


def _reduce_arrow(value):
    """Copies a slice through a stream, because Arrow pickles the whole buffers that it is part of."""
    if value.get_total_buffer_size() < max(LEAST, MUCH * value.nbytes):
        return NotImplemented
    import pyarrow
    from pyarrow import ipc

    batch, table = isinstance(value, pyarrow.RecordBatch), isinstance(value, pyarrow.Table)
    rows = value if batch or table else pyarrow.table({"": value})
    sink = pyarrow.BufferOutputStream()
    with ipc.new_stream(sink, rows.schema) as stream:
        stream.write(rows)
    reader = ipc.open_stream(sink.getvalue())
    copy = reader.read_next_batch() if batch else reader.read_all()
    if not (batch or table):
        copy = copy.column(0)
        copy = copy if isinstance(value, pyarrow.ChunkedArray) else copy.combine_chunks()
    return copy.__reduce_ex__(5)


def _reduce_bokeh(value):
    """Makes the container by its class first: it counts on attributes that pickle sets after its items."""
    items = iter(value) if isinstance(value, list) else None
    pairs = iter(value.items()) if isinstance(value, dict) else None
    return type(value), (), vars(value), items, pairs


def _reduce_memmap(value):
    """Maps the file again, where it is there and the array is a part of it without gaps."""
    import numpy

    mapped, offset = value._mmap, 0
    if mapped is not None and value.mode != "c":
        offset = _place_in_file(value, numpy.frombuffer(mapped, "u1").__array_interface__["data"][0])
    if offset is None or mapped is None or value.mode == "c":
        return numpy.asarray(value).__reduce_ex__(5)
    mode = "r" if value.mode == "r" else "r+"
    order = "C" if value.flags.c_contiguous else "F"
    return type(value), (value.filename, value.dtype, mode, offset, value.shape, order)


def _place_in_file(value, start):
    """Where in its file an array begins; None: the file is another by now, or there are gaps in the array."""
    from mmap import ALLOCATIONGRANULARITY

    if not (value.flags.c_contiguous or value.flags.f_contiguous) or not value.size:
        return None
    with open("/proc/self/maps") as maps:
        inodes = [int(line.split()[4]) for line in maps if int(line.split("-")[0], 16) <= start < int(line.split("-")[1].split()[0], 16)]
    try:
        is_same = os.stat(value.filename).st_ino in inodes
    except (OSError, TypeError):
        return None
    first = value.offset - value.offset % ALLOCATIONGRANULARITY
    return first + value.__array_interface__["data"][0] - start if is_same else None


def _reduce_alias(alias):
    """Makes a type alias of the code's by the same statement: its value may contain the alias."""
    if alias.__module__ != "__main__":
        return NotImplemented
    name, value = alias.__name__, alias.__value__
    if alias.__type_params__ or not name.isidentifier():
        return __newobj_ex__, (type(alias), (name, value), {"type_params": alias.__type_params__})
    space = {"__name__": "__main__", ALIAS: {}}
    text = "type %s = %s[%s][0]" % (name, ALIAS, name)
    return eval, (MAKE_ALIAS, {"space": space, "text": text, "name": name}), [value], None, None, space[ALIAS].setdefault


def _reduce_type_parameter(value):
    module = getattr(value, "__module__", "")
    if module != "__main__" and getattr(sys.modules.get(module), value.__name__, None) is value:
        return NotImplemented
    rest = {
        name: getattr(value, "__%s__" % name)
        for name in ("bound", "covariant", "contravariant", "infer_variance")
        if getattr(value, "__%s__" % name, None)
    }
    if getattr(value, "has_default", bool)():
        rest["default"] = value.__default__
    return __newobj_ex__, (type(value), (value.__name__, *getattr(value, "__constraints__", ())), rest)


_REDUCERS = (
    ("pyarrow.lib", "_PandasConvertible", _reduce_arrow),
    ("bokeh.core.property.wrappers", "PropertyValueList", _reduce_bokeh),
    ("bokeh.core.property.wrappers", "PropertyValueDict", _reduce_bokeh),
    ("numpy", "memmap", _reduce_memmap),
    ("typing", "TypeAliasType", _reduce_alias),
    ("typing", "TypeVar", _reduce_type_parameter),
    ("typing", "ParamSpec", _reduce_type_parameter),
    ("typing", "TypeVarTuple", _reduce_type_parameter),
)
