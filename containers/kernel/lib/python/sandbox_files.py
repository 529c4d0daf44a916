"""SQL over files and DataFrames: what `sandbox.sql` runs in the container itself.

DuckDB does it where it is installed. Else SQLite does, which is part of Python, and pandas reads the files into a database on
the session's volume, a piece at a time. Both leave memory to the code, and what does not fit goes to a hidden folder of the volume.
"""

import glob as _glob
import os as _os
import re as _re
import shutil as _shutil
import tempfile as _tempfile

from sandbox import SQLError, _plain

FILES = "files"  # the connection that is none

_DATA = "/mnt/data"
_FOLDER = ".query-files-python-"  # followed by the container and the process
_SHARE = 0.6  # of the container's memory that DuckDB may take
_PIECE = 50_000  # rows
_TOKEN = _re.compile(r"""--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'|"(?:[^"]|"")*"|`[^`]*`|\w+|\S""", _re.S)
_NAME = _re.compile(r"\.(csv|tsv|txt|parquet|json|jsonl|ndjson)(\.(gz|zst))?$", _re.I)
_TAKE_FROM = ("extract", "trim", "substring", "overlay")  # functions with a FROM of their own
_BEHIND_FROM = ("select", "where", "group", "having", "window", "qualify", "order", "limit", "offset", "fetch", "union", "intersect", "except")

_told = set()


def find(query):
    """The files that a statement names behind FROM and JOIN, as (begin, end, path), and the names that stand there."""
    files, names, words = [], [], ["", ""]
    inside = [["", False]]  # for each bracket the word before it, and whether a FROM clause goes on in it
    for match in _TOKEN.finditer(query):
        token = match.group()
        if token.startswith(("--", "/*")):
            continue
        before, last = words
        level = inside[-1]
        begins = last in ("from", "join") and before != "distinct" and level[0] not in _TAKE_FROM
        level[1] = begins or level[1] and token.lower() not in _BEHIND_FROM
        reads = begins or last == "," and level[1]
        if token in "([":
            inside.append([last, False])
        elif token in ")]" and len(inside) > 1:
            inside.pop()
        elif reads and token[0] == "'" and _NAME.search(token[1:-1]):
            files.append((match.start(), match.end(), token[1:-1].replace("''", "'")))
        elif reads and (token[0] == '"' or token.isidentifier()):
            names.append(token.strip('"'))
        words = [last, token.lower()]
    return files, names


def choose(query, connection):
    """Whether a statement is for files: by its connection, or by a file that it names. A statement cannot be for both."""
    if connection is not None and str(connection).lower() == FILES:
        return True
    files, _ = find(query)
    if not files:
        return False
    if connection:
        raise SQLError(
            "sql_rejected",
            "The statement reads the file %r and names the connection %r." % (files[0][2], connection),
            'Query the database first, as in rows = sandbox.sql("select …", connection=%r), and then name that variable beside the file: '
            "sandbox.sql(\"select … from rows join '%s' using (…)\")." % (connection, files[0][2]),
        )
    return True


def run(query, params, max_rows, frame):
    """Runs a statement over files, and over the DataFrames that are variables of the frame. Its rows are what sandbox.sql returns."""
    import importlib.util

    has_pandas = importlib.util.find_spec("pandas") is not None
    files, names = find(query)
    for _, _, path in files:
        _must_be_there(path)
    tables = {}
    for name in names:
        value = frame.f_locals.get(name, frame.f_globals.get(name))
        if type(value).__module__.split(".")[0] in ("pandas", "polars", "pyarrow") and type(value).__name__ in ("DataFrame", "LazyFrame", "Table"):
            tables[name] = value
    folder = _folder()
    try:
        if importlib.util.find_spec("duckdb") is not None:
            return _duckdb(query, params, max_rows, tables, folder, has_pandas)
        if not has_pandas:
            raise SQLError("sql_failed", "Neither DuckDB nor pandas is installed.", "Install DuckDB: pip install duckdb.")
        return _sqlite(query, params, max_rows, files, tables, folder)
    finally:
        _shutil.rmtree(folder, ignore_errors=True)


def _must_be_there(path):
    if "://" in path:
        raise SQLError("sql_rejected", "%r is no file of the session." % path, "Download it first, and query the file.")
    if _glob.glob(path) or _os.path.exists(path):
        return
    near = sorted(_glob.glob("*.*") + _glob.glob("input/*.*") + _glob.glob("output/*.*"))
    some = ", ".join(n for n in near if _NAME.search(n))[:300]
    raise SQLError("not_found", "There is no file %r." % path, "Paths are from the current folder, %s." % _os.getcwd() + (" There are: %s." % some if some else ""))


def _folder():
    """A hidden folder for what does not fit into memory. Those of processes that have ended are removed.

    Each language has a container of its own, which sees no process of the others.
    """
    base = _DATA if _os.access(_DATA, _os.W_OK) else _tempfile.gettempdir()  # /tmp is small
    here = _container()
    for left in _glob.glob(_os.path.join(base, _FOLDER + "*")):
        container, owner = (left.rsplit(_FOLDER, 1)[1].split("-") + [""])[:2]
        if container != here or not _os.path.exists("/proc/" + owner):
            _shutil.rmtree(left, ignore_errors=True)
    return _tempfile.mkdtemp(prefix="%s%s-%d-" % (_FOLDER, here, _os.getpid()), dir=base)


def _container():
    """What tells this container from an earlier one: when its process 1 began."""
    with open("/proc/1/stat") as file:
        return file.read().rsplit(")", 1)[1].split()[19]


def _note(text):
    """Tells something once in a process."""
    if text not in _told:
        _told.add(text)
        print("note: " + text)


# --- DuckDB -------------------------------------------------------------------------------

_WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT")
_EXACT = 1 << 53


def settings(folder):
    """DuckDB's settings within the container's limits. By itself it loads no extension, which would need a network."""
    found = {
        "temp_directory": folder,
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        "preserve_insertion_order": "false",  # which keeps a large file from being held
        "threads": str(cpus()),
    }
    limit = memory()
    if limit:
        found["memory_limit"] = "%dB" % int(limit * _SHARE)
    return found


def memory(root="/sys/fs/cgroup"):
    """The container's limit of memory in bytes; None where there is none."""
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        try:
            with open(_os.path.join(root, name)) as file:
                text = file.read().strip()
        except OSError:
            continue
        return int(text) if text.isdigit() and int(text) < 1 << 60 else None
    return None


def cpus(root="/sys/fs/cgroup"):
    """How many processors the container may use, one at least."""
    there = len(_os.sched_getaffinity(0)) if hasattr(_os, "sched_getaffinity") else _os.cpu_count() or 1
    try:
        with open(_os.path.join(root, "cpu.max")) as file:
            quota, period = file.read().split()
        return max(1, min(there, int(quota) // int(period)))
    except (OSError, ValueError):  # none, or "max"
        return there


def _duckdb(query, params, max_rows, tables, folder, has_pandas):
    import duckdb

    # A connection of the call's own: its threads end with it, and a kernel that forks has none.
    con = duckdb.connect(":memory:", config=settings(folder))
    try:
        for name, table in tables.items():
            con.register(name, table)
        con.execute(query, list(params or ()))
        if not con.description:
            return None
        kinds = [str(column[1]).upper() for column in con.description]
        if not has_pandas:
            rows = con.fetchmany(max_rows) if max_rows else con.fetchall()
            return [dict(zip((c[0] for c in con.description), row)) for row in rows]
        return _with_types(_frame(con, max_rows), kinds)
    except duckdb.Error as e:
        raise SQLError("sql_failed", str(e)[:2000], _hint(str(e))) from None
    finally:
        con.close()


def _frame(con, max_rows):
    if not max_rows:
        return con.df()
    import pandas

    pieces, rows = [], 0
    while rows < max_rows:
        piece = con.fetch_df_chunk()
        pieces.append(piece)
        rows += len(piece)
        if not len(piece):
            break
    return pandas.concat(pieces, ignore_index=True).head(max_rows)


def _with_types(frame, kinds):
    """Whole numbers as Int64, as in a database's answer. DuckDB makes floats of those beside a NULL, and of its widest."""
    whole = {}
    for at, kind in enumerate(kinds):
        column = frame.iloc[:, at]
        if column.dtype.kind in "iu" and column.dtype.name != "uint64":
            whole[at] = column
        elif kind in _WHOLE and column.dtype.kind == "f":
            if (column.abs() < _EXACT).where(column.notna(), True).all():
                whole[at] = column
            else:
                print("note: %s has whole numbers that are rounded: CAST(… AS VARCHAR) keeps their digits" % frame.columns[at])
    for at, column in whole.items():
        frame.isetitem(at, column.astype("Int64"))
    return frame


def _hint(message):
    if "Out of Memory" in message or "memory" in message:
        return "Read fewer columns or aggregate; what is sorted or grouped goes to the session's volume, which has a limit too."
    if "extension" in message:
        return "There is no network for DuckDB's extensions: CSV, JSON and Parquet are read without one."
    return "It is DuckDB's SQL. DESCRIBE SELECT * FROM 'file' shows the columns of a file."


# --- SQLite -------------------------------------------------------------------------------

_EXACTLY = {"dtype_backend": "numpy_nullable"}  # else whole numbers beside a NULL would be floats
_TEXTS = {"keep_default_na": False, "na_values": [""]}  # NA and None are texts
_KINDS = {  # of a column whose values are all such; 007, +1 and what has too many digits stay the texts that they are
    "Int64": _re.compile(r"\s*-?(0|[1-9]\d{0,17}|[1-8]\d{18}|9[01]\d{17})\s*").fullmatch,
    "Float64": _re.compile(r"\s*-?((0|[1-9]\d{0,14})|(0|[1-9]\d*)?\.\d+([eE][-+]?\d+)?|[1-9]\d*\.?[eE][-+]?\d+)\s*").fullmatch,
    "boolean": _re.compile(r"true|True|TRUE|false|False|FALSE").fullmatch,
}


def _sqlite(query, params, max_rows, files, tables, folder):
    import sqlite3
    from contextlib import closing

    import pandas

    refusal = SQLError(
        "sql_rejected",
        "Only statements that return rows are run.",
        "Begin it with SELECT, WITH or VALUES; frame.to_csv writes a file. COPY and DESCRIBE are DuckDB's: pip install duckdb.",
    )
    if next((token.lower() for token in _TOKEN.findall(query) if not token.startswith(("--", "/*"))), "") not in ("select", "with", "values", "explain"):
        raise refusal
    refused = []

    def only_reads(action, *_):
        reads = action in (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE)
        return sqlite3.SQLITE_OK if reads else refused.append(action) or sqlite3.SQLITE_DENY

    _note("DuckDB is not installed, so SQLite reads the files, which is slower and its own SQL; pip install duckdb")
    with closing(sqlite3.connect(_os.path.join(folder, "files.db"))) as con:
        for pragma in ("journal_mode = OFF", "synchronous = OFF", "cache_size = -65536", "temp_store_directory = '%s'" % folder):
            con.execute("PRAGMA " + pragma)
        try:
            for name, table in tables.items():
                table = table if isinstance(table, pandas.DataFrame) else table.to_pandas()
                _store(con, name, iter([table]))
            taken = {name.lower(): None for name in tables}
            for begin, end, path in reversed(files):
                name = _name(path, taken)
                if taken.get(name.lower(), "") != path:
                    _store(con, name, _pieces(path))
                    taken[name.lower()] = path
                query = '%s"%s"%s' % (query[:begin], name, query[end:])
            marks = _re.findall(r"\$(\d+)", query)
            values = [_plain(p) for p in params or ()]
            bound = {n: values[int(n) - 1] for n in marks if 0 < int(n) <= len(values)} if marks else values
            con.set_authorizer(only_reads)
            pieces = pandas.read_sql_query(query, con, params=bound, chunksize=max_rows or None, coerce_float=False, **_EXACTLY)
            frame = next(pieces) if max_rows else pieces
        except (sqlite3.Error, pandas.errors.DatabaseError) as e:
            if refused:
                raise refusal from None
            raise SQLError("sql_failed", str(e)[:2000], "It is SQLite's SQL, since DuckDB is not installed: pip install duckdb.") from None
        return frame.astype({name: "float64" for name in frame.columns if frame.dtypes[name] == "Float64"})


def _name(path, taken):
    """The name of a file's table: its own without the ending, as DuckDB has it, or with a number."""
    stem = _os.path.basename(path).split(".")[0].replace('"', "") or "file"
    name, n = stem, 1
    while taken.get(name.lower(), path) != path:
        n += 1
        name = "%s_%d" % (stem, n)
    return name


def _store(con, name, pieces):
    stored = False
    for piece in pieces:
        for column in piece.columns:
            if piece[column].dtype == object and piece[column].map(lambda v: isinstance(v, (list, dict))).any():
                piece[column] = piece[column].map(lambda v: str(v) if isinstance(v, (list, dict)) else v)
        piece.to_sql(name, con, index=False, if_exists="append" if stored else "replace")
        stored = True


def _pieces(path):
    """A file, or all that a pattern finds, as DataFrames of so many rows."""
    paths = sorted(_glob.glob(path)) or [path]
    kinds = _kinds(paths)
    for one in paths:
        for piece in _pieces_of(one, kinds):
            yield piece.astype({name: kinds[name] for name in piece.columns if name in kinds})


def _kinds(paths):
    """The kinds of the columns of CSV files, and which columns of JSON have texts.

    All is read for it: in a column that began with numbers SQLite would make numbers of later texts.
    """
    possible = {}
    for path in paths:
        ending = _ending(path)
        for piece in _pieces_of(path, "string") if ending != "parquet" else ():
            for name in piece.columns:
                if "json" not in ending:
                    values = piece[name].dropna()
                    possible[name] = [kind for kind in possible.get(name, _KINDS) if all(map(_KINDS[kind], values))]
                elif piece[name].dtype.name in ("object", "string"):
                    possible[name] = []
    return {name: (kinds or ["string"])[0] for name, kinds in possible.items()}


def _pieces_of(path, kinds):
    try:
        yield from _read(path, kinds)
    except (ValueError, UnicodeError) as e:  # as pandas has them
        raise SQLError("sql_failed", "%r cannot be read: %s" % (path, str(e)[:500]), "See whether its ending tells what it is.") from None


def _ending(path):
    kind = _NAME.search(path)
    kind = kind.group(1).lower() if kind else "csv"
    return "jsonl" if kind == "ndjson" or kind == "json" and _is_lines(path) else kind


def _read(path, kinds):
    import pandas

    kind = _ending(path)
    if kind == "parquet":
        try:
            import pyarrow.parquet
        except ImportError:
            raise SQLError("sql_failed", "%r is Parquet, which nothing here reads." % path, "Install DuckDB: pip install duckdb.") from None
        for batch in pyarrow.parquet.ParquetFile(path).iter_batches(_PIECE):
            yield batch.to_pandas()
    elif kind == "jsonl":
        yield from pandas.read_json(path, lines=True, chunksize=_PIECE, convert_dates=False, **_EXACTLY)
    elif kind == "json":
        yield pandas.read_json(path, convert_dates=False, **_EXACTLY)
    else:
        yield from pandas.read_csv(path, sep="\t" if kind == "tsv" else ",", dtype=kinds, chunksize=_PIECE, **_TEXTS)


def _is_lines(path):
    """Whether a file of JSON has one object a line, rather than a list."""
    if path.endswith((".gz", ".zst")):
        return False
    with open(path, encoding="utf-8") as file:
        return file.read(1000).lstrip().startswith("{")
