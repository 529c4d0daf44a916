"""Values as JSON, where they have an obvious form: what is handed to the tools of other servers."""

import json as _json

_NO_BYTES = "JSON has no bytes: .decode() makes text of them, and base64.b64encode(…).decode() what most tools take for a file"
# Of libraries' tables, columns, arrays and single values, and of times.
_METHODS = ("to_dicts", "to_pylist", "to_list", "tolist", "as_py", "item", "isoformat")


def dump(value):
    """The JSON of a value. TypeError and ValueError say what in it has none."""
    try:
        return _json.dumps(value, default=_plain, allow_nan=False)
    except RecursionError:
        raise ValueError("it is within itself") from None


def _plain(value):
    """What a value that JSON does not know is in values that it knows."""
    import decimal
    import enum
    import os
    import uuid
    from collections import abc

    kind = type(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        raise TypeError(_NO_BYTES)
    if kind.__module__.partition(".")[0] == "pandas" and hasattr(kind, "notna"):
        return _of_pandas(value)
    if isinstance(value, abc.Mapping):
        return dict(value)
    if isinstance(value, (abc.Set, abc.Sequence, abc.ValuesView)):
        return list(value)
    if isinstance(value, decimal.Decimal):
        return _number(value)
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, (uuid.UUID, os.PathLike)):
        return str(value)
    if hasattr(kind, "__dataclass_fields__"):
        return {name: getattr(value, name) for name in kind.__dataclass_fields__}
    if hasattr(kind, "model_dump"):  # of pydantic
        return value.model_dump(mode="json")
    return _by_method(value, kind)


def _of_pandas(values):
    """A DataFrame as a list of objects, and a column as a list. What is missing is null, and an index that has a name is a column."""
    if hasattr(values, "columns"):
        if any(name is not None for name in values.index.names):
            values = values.reset_index()
        if not values.columns.is_unique:
            raise ValueError("columns have the same name")
    values = values.astype(object).where(values.notna(), None)
    return values.to_dict("records") if hasattr(values, "columns") else values.tolist()


def _number(value):
    """A decimal as a number that has all of its digits, else as text."""
    number = int(value) if value == value.to_integral_value() else float(value)
    return number if type(value)(repr(number)) == value else str(value)


def _by_method(value, kind):
    if kind.__name__ in ("NAType", "NaTType"):  # of pandas
        return None
    if getattr(getattr(value, "dtype", None), "kind", "") == "M":  # NumPy has whole numbers for times
        value = value.astype(str)
    for method in _METHODS:
        if callable(getattr(kind, method, None)) and getattr(getattr(value, "dtype", None), "kind", "") != "m":
            plain = getattr(value, method)()
            if plain is not value:
                return plain
    raise TypeError("JSON has no form for %s.%s" % (kind.__module__, kind.__qualname__))
