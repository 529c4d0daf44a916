"""Rows of a database in a file that the server wrote, as a DataFrame with the database's types."""

import json as _json


def load(path, columns, rows=0, csv=False):
    """A DataFrame of a CSV file or of JSON lines. `columns` maps names to types; `rows` is the number of rows of a result without columns.

    Types are those of pandas, Decimal, bytes, json, time and time UTC. Behind one with "empty" an empty field is a value and no NULL.
    """
    import pandas

    if not columns:
        return pandas.DataFrame(index=range(rows))
    kinds = {name: kind.partition(" empty")[0] for name, kind in columns.items()}
    frame = _csv(path, columns, kinds) if csv or path.endswith(".csv") else _lines(path, kinds)
    for name, kind in kinds.items():
        if kind in ("time", "time UTC"):
            frame[name] = pandas.to_datetime(frame[name], format="ISO8601", utc=kind == "time UTC")
    return frame


def _conversions():
    from decimal import Decimal

    return {"Decimal": Decimal, "bytes": bytes.fromhex, "json": _json.loads}


def _csv(path, columns, kinds):
    import pandas

    makes = _conversions()
    return pandas.read_csv(
        path,
        dtype={name: "string" if kind.startswith("time") else kind for name, kind in kinds.items() if kind not in makes},
        converters={name: _converter(makes[kind], columns[name] == "bytes empty") for name, kind in kinds.items() if kind in makes},
        float_precision=None if pandas.__version__ >= "3" else "round_trip",  # pandas 3 is always exact
        skip_blank_lines=len(columns) > 1,  # those of one column are its NULLs
        keep_default_na=False,
        na_values={name: ["", "NaN"] if kind == "float64" else [] if kind == "string empty" else [""] for name, kind in columns.items()},
    )


def _converter(make, of_empty):
    return lambda value: make(value) if value or of_empty else None


def _lines(path, kinds):
    """Whole numbers beside a NULL stay whole by dtype=object, until they have their type."""
    import pandas

    makes = _conversions()
    exact = makes["Decimal"] if "Decimal" in kinds.values() else None

    def read(parse_float):
        with open(path, encoding="utf-8") as file:
            return [_json.loads(line, parse_float=parse_float) for line in file]

    frame = pandas.DataFrame(read(exact), columns=list(kinds), dtype=object)
    whole = read(None) if exact and "json" in kinds.values() else ()  # their numbers are Python's own
    for name, kind in kinds.items():
        if kind == "json":
            frame[name] = pandas.Series([row[name] for row in whole], dtype=object) if whole else frame[name]
        elif kind in makes:
            frame[name] = frame[name].map(makes[kind], na_action="ignore")
        elif not kind.startswith("time"):
            frame[name] = frame[name].astype(kind)
    return frame
