"""Which variables take most memory: estimated quickly, without running any of the code's own methods."""

import sys
import time

from variables import user_names

SECONDS = 0.1  # for all variables
SAMPLES = 50  # of the elements of a container
DEEPEST = 4
LEAST = 1 << 16  # bytes of a variable that is worth its name
_COUNTED = ("numpy", "pandas", "polars", "pyarrow", "scipy", "torch", "xarray")  # whose values know their size
_CONTAINERS = (list, tuple, set, frozenset, dict)


def largest(namespace, hidden, most=5):
    """The largest of the user's variables, the protocol's objects."""
    deadline = time.monotonic() + SECONDS
    sizes = []
    parts = {name: [namespace.get(name)] for name in user_names(namespace, hidden)}
    known = {id(value) for value, in parts.values()}
    if "Out" not in parts:  # the shell's, which holds what no variable does
        parts["Out"] = [value for value in dict(namespace.get("Out", ())).values() if id(value) not in known]
    for name, values in parts.items():
        try:
            size = sum(size_of(value, deadline) for value in values)
        except Exception:  # it changes as it is looked at, or its package counts in another way
            continue
        if size >= LEAST:
            sizes.append((size, name))
    return [{"name": name[:200], "size_bytes": size} for size, name in sorted(sizes, reverse=True)[:most]]


def size_of(value, deadline, depth=0):
    """About the size of a value. Memory shared by two parts counts twice."""
    kind = type(value)
    if issubclass(kind, type(sys)):
        return 0
    if kind.__module__.partition(".")[0] in _COUNTED:
        counted = _counted(value)
        if counted is not None:
            return counted
    own = _own_size(value)
    if depth == DEEPEST or time.monotonic() > deadline:
        return own
    parts = getattr(value, "__dict__", None) if kind.__module__ != "builtins" and not isinstance(value, type) else None
    if isinstance(parts, dict):
        own += _sampled(parts, deadline, depth)
    if isinstance(value, _CONTAINERS) or kind.__name__ == "deque":
        own += _sampled(value, deadline, depth)
    return own


def _own_size(value):
    """An object's own size, without its references; a method of the code's own class is not called."""
    if type(value).__module__ in ("builtins", "collections"):
        return sys.getsizeof(value)
    for kind in (*_CONTAINERS, str, bytes, bytearray):
        if isinstance(value, kind):
            return kind.__sizeof__(value)
    return object.__sizeof__(value)


def _sampled(value, deadline, depth):
    """The size of the elements, by some of them."""
    from itertools import islice

    count = len(value)
    if not count:
        return 0
    step = max(1, count // SAMPLES)
    # The elements of a set or dict that are not taken are passed over one by one, which a million times takes 10 ms.
    last = count if isinstance(value, (list, tuple)) else min(count, 1_000_000)
    if isinstance(value, dict):
        chosen = [part for pair in islice(dict.items(value), 0, last, step) for part in pair]
        count *= 2
    elif isinstance(value, (list, tuple)):
        chosen = [value[i] for i in range(0, count, step)]
    else:
        chosen = list(islice(value, 0, last, step))
    total = sum(size_of(part, deadline, depth + 1) for part in chosen)
    return total * count // max(1, len(chosen))


def _counted(value):
    """The size of a value by its package; None for others."""
    usage = getattr(value, "memory_usage", None)
    if usage is not None:  # pandas: without the texts that a column of objects refers to
        usage = usage()
        return int(usage.sum() if hasattr(usage, "sum") else usage) + _texts(value)
    for name in ("nbytes", "estimated_size"):
        size = getattr(value, name, None)
        if size is not None:
            return int(size() if callable(size) else size)
    parts = [getattr(value, name, None) for name in ("data", "indices", "indptr", "row", "col")]  # a sparse matrix
    sizes = [part.nbytes for part in parts if hasattr(part, "nbytes")]
    return sum(sizes) if sizes else None


def _texts(value):
    """The size of texts and other objects in the columns of a frame, by some of them."""
    columns = [value[name] for name in value.columns] if hasattr(value, "columns") else [value]
    total = 0
    for column in columns[:1000]:
        if len(column) and str(getattr(column, "dtype", "")) == "object":
            chosen = column.array[:: max(1, len(column) // SAMPLES)]
            total += sum(map(_own_size, chosen)) * len(column) // len(chosen)
    return total
