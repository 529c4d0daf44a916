"""What a sandbox offers to its code: queries of the server's databases, and tools of other servers.

    import sandbox
    frame = sandbox.sql("select * from orders where total > $1", [100])
    both = sandbox.sql("select * from frame join 'output/rates.csv' using (day)")  # files, and variables
    from sandbox import tools  # see tools.search() and tools.describe()

The statement is checked and limited as that of the tool exec_sql. No password and no connection is in the container.
"""

import decimal as _decimal
import json as _json
import math as _math
import os as _os

__all__ = ["sql", "SQLError"]

_PORT = int(_os.environ.get("CODE_SANDBOX_WAY_OUT", 9797))
_NO_DATABASES = (
    "Its user can add some, see docs/sql.md. Files and variables are queried with connection=\"files\": "
    "select … from 'a.csv' join orders using (id); paths end in .csv, .tsv, .json, .jsonl or .parquet."
)


def __getattr__(name):
    if name in ("tools", "ToolError"):  # which most runs do not need
        import sandbox_tools

        return getattr(sandbox_tools, name)
    if name == "load":  # for rows of exec_sql
        from sandbox_load import load

        return load
    raise AttributeError("module 'sandbox' has no attribute %r" % name)


class SQLError(Exception):
    """A query that was refused or has failed. `code` is the kind of failure, `hint` what to do."""

    def __init__(self, code, message, hint):
        super().__init__("%s: %s%s" % (code, message, "\nHint: " + hint if hint else ""))
        self.code, self.hint = code, hint


def sql(query, params=None, connection=None, max_rows=None):
    """Runs one statement and returns its rows: a pandas DataFrame, or a list of dicts where pandas is missing.

    `params` are the values of $1, $2 … (PostgreSQL), ? (MySQL) or @p1, @p2 … (SQL Server). `connection` names the database where there
    are several.

    A statement that names a file behind FROM or JOIN, as in `select * from 'output/a.csv'`, and one with `connection="files"`, runs
    here over files (CSV, JSON, Parquet) and DataFrames that are variables of the caller.
    """
    if connection or "'" in query:
        import sandbox_files

        if sandbox_files.choose(query, connection):
            import sys

            return sandbox_files.run(query, params, max_rows, sys._getframe(1))
    import importlib.util
    import tempfile

    has_pandas = importlib.util.find_spec("pandas") is not None
    if not isinstance(params, (list, tuple, type(None))):
        raise SQLError("invalid_argument", "params is a list, not %s." % type(params).__name__, "sandbox.sql(query, [1, 'x'])")
    values = [_plain(p) for p in params or ()]
    numbers = [i for i, value in enumerate(values) if _is_odd_number(value)]
    for i in numbers:
        values[i] = str(values[i])
    request = {"query": query, "params": values, "numbers": numbers, "connection": connection or ""}
    request.update(max_rows=max_rows or 0, format="csv" if has_pandas else "jsonl")
    folder = "/mnt/data" if _os.access("/mnt/data", _os.W_OK) else None  # /tmp is small
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".query-") as file:
        end = _ask(request, file)
        file.flush()
        for note in end.get("notes") or ():
            print("note: " + note)
        if not has_pandas:
            file.seek(0)
            rows = [_json.loads(line, parse_float=_number) for line in file]
            for name, kind in (end.get("numbers") or {}).items():
                for row in rows:
                    if isinstance(row[name], str):  # NaN and infinity
                        row[name] = (float if kind == "float" else _decimal.Decimal)(row[name])
            return rows
        from sandbox_load import load

        return load(file.name, end["load"], rows=end["row_count"], csv=True)


def _number(digits):
    """A number as float, or as Decimal where that would be another one."""
    number, exact = float(digits), _decimal.Decimal(digits)
    return number if _decimal.Decimal(repr(number)) == exact else exact


def _is_odd_number(value):
    """Whether JSON has no number for a value that is one: it is sent as text."""
    return isinstance(value, float) and not _math.isfinite(value)


def _plain(value):
    """A parameter as JSON has it; what is no number, truth value, list or dict is sent as text."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):  # of pandas
        return None
    if isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return [_within(item) for item in value]
    if isinstance(value, dict):
        return {str(name): _within(item) for name, item in value.items()}
    if isinstance(value, (bytes, bytearray, memoryview)):
        hint = "Send bytes(value).hex(), and decode it in the statement: decode($1, 'hex'), UNHEX(?), CONVERT(varbinary(max), @p1, 2)."
        raise SQLError("invalid_argument", "Bytes cannot be a parameter.", hint)
    item = getattr(value, "item", None)  # of numpy
    return _plain(item()) if callable(item) and not getattr(value, "shape", None) else str(value)


def _within(value):
    """A part of a parameter; NaN and infinity are text there."""
    value = _plain(value)
    return str(value) if _is_odd_number(value) else value


def _ask(request, out):
    from http.client import HTTPConnection

    server = HTTPConnection("127.0.0.1", _PORT)
    try:
        server.request("POST", "/sql", _json.dumps(request), {"Content-Type": "application/json"})
        answer = server.getresponse()
        if answer.status != 200:
            raise SQLError("connection_not_found", "This server has no databases.", _NO_DATABASES)
        while True:
            size = int.from_bytes(_exactly(answer, 4), "big")
            if size == 0:
                break
            out.write(_exactly(answer, size))
        end = _json.loads(answer.read())
    except OSError as e:
        raise SQLError("sql_failed", "The server cannot be reached: %s" % e, "Try again.") from None
    finally:
        server.close()
    if end.get("error"):
        raise SQLError(end["error"]["code"], end["error"]["message"], end["error"]["hint"])
    return end


def _exactly(answer, size):
    data = answer.read(size)
    if len(data) < size:
        raise SQLError("sql_failed", "The answer was cut off.", "Try again.")
    return data
