"""SQL over files and DataFrames: what `sandbox.sql` runs in the container itself, by DuckDB.

It leaves memory to the code, and what does not fit goes to a hidden folder of the volume.
"""

import glob as _glob
import os as _os
import re as _re
import shutil as _shutil
import tempfile as _tempfile

import sandbox_guesses as _guesses
from sandbox import SQLError

FILES = "files"  # the connection that is none

_DATA = "/mnt/data"
_FOLDER = ".query-files-python-"  # followed by the container and the process
_SHARE = 0.6  # of the container's memory that DuckDB may take
_TOKEN = _re.compile(r"""--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'|"(?:[^"]|"")*"|`[^`]*`|\w+|\S""", _re.S)
_OTHERS = {  # files that DuckDB reads with an extension alone, or not at all, and what does
    r"sqlite3?|db3?": "import sqlite3; pandas.read_sql('select …', sqlite3.connect(%r))",
    "duckdb": "import duckdb; duckdb.connect(%r, read_only=True).sql('select …').df()",
    "xls[xmb]?|ods": "frame = pandas.read_excel(%r), and then the variable's name behind FROM",
}
_NAME = _guesses.NAME
_OTHER = _re.compile(r"\.(?:%s)$" % "|".join("(%s)" % ending for ending in _OTHERS), _re.I)
_READER = _re.compile(r"(read|sniff|parquet)_\w+")
_TAKE_FROM = ("extract", "trim", "substring", "overlay")  # functions with a FROM of their own
_BEHIND_FROM = ("select", "where", "group", "having", "window", "qualify", "order", "limit", "offset", "fetch", "union", "intersect", "except")


def find(query, views=False):
    """The files that a statement names behind FROM and JOIN, alone or as arguments of a function that reads files, and the names that stand there.

    With views the statement itself comes first, with the name of a view for each file that stands alone, and the files are these.
    """
    files, alone, names, words, pieces = [], [], [], ["", ""], []
    inside = [["", False, False]]  # for each bracket the word before it, whether a FROM clause goes on in it, and whether it has a reader's files
    for match in _TOKEN.finditer(query):
        token = match[0]
        if token.startswith(("--", "/*")):
            continue
        before, last = words
        level = inside[-1]
        begins = last in ("from", "join") and before != "distinct" and level[0] not in _TAKE_FROM
        level[1] = begins or level[1] and token.lower() not in _BEHIND_FROM
        reads = begins or last == "," and level[1]
        path = token[1:-1].replace("''", "'") if token[0] == "'" else ""
        if token in "([":
            inside.append([last, False, level[1] and bool(_READER.fullmatch(last)) or token == "[" and level[2] and last == "("])
        elif token in ")]" and len(inside) > 1:
            inside.pop()
        elif path and (reads or level[2] and last in "([," and "://" not in path) and (_NAME.search(path) or _OTHER.search(path)):
            files.append(path)
            if reads:
                alone.append((match.span(), path))
        elif reads and (token[0] == '"' or token.isidentifier()):
            names.append(token.strip('"'))
        words = [last, token.lower()]
    if not views:
        return files, names
    for (begin, end), path in reversed(alone):
        query = query[:begin] + _guesses.view(path) + query[end:]
    return query, list(dict.fromkeys(path for _, path in alone))


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
            "The statement reads the file %r and names the connection %r." % (files[0], connection),
            'Query the database first, as in rows = sandbox.sql("select …", connection=%r), and then name that variable beside the file: '
            "sandbox.sql(\"select … from rows join '%s' using (…)\")." % (connection, files[0]),
        )
    return True


def run(query, params, max_rows, frame):
    """Runs a statement over files, and over the DataFrames that are variables of the frame. Its rows are what sandbox.sql returns."""
    import importlib.util

    files, names = find(query)
    for path in files:
        _must_be_there(path)
    if importlib.util.find_spec("duckdb") is None:
        raise SQLError("sql_failed", "DuckDB, which queries files, is not installed.", "pip install duckdb brings it to this session.")
    tables = {}
    for name in names:
        value = frame.f_locals.get(name, frame.f_globals.get(name))
        if type(value).__module__.split(".")[0] in ("pandas", "polars", "pyarrow") and type(value).__name__ in ("DataFrame", "LazyFrame", "Table"):
            tables[name] = value
    folder = _folder()
    try:
        return _query(query, params, max_rows, tables, folder)
    finally:
        _shutil.rmtree(folder, ignore_errors=True)


def _must_be_there(path):
    if "://" in path:
        raise SQLError("sql_rejected", "%r is no file of the session." % path, "Download it first, and query the file.")
    if _glob.glob(path) or _os.path.exists(path):
        other = _OTHER.search(path)
        if other:
            raise SQLError("sql_rejected", "%r is no file that sandbox.sql reads." % path, list(_OTHERS.values())[other.lastindex - 1] % path)
        return
    near = sorted(_glob.glob("*.*") + _glob.glob("input/*.*") + _glob.glob("output/*.*"))
    some = ", ".join(n for n in near if _NAME.search(n))[:300]
    raise SQLError("not_found", "There is no file %r." % path, "Paths are from the current folder, %s." % _os.getcwd() + (" There are: %s." % some if some else ""))


def _folder():
    """A hidden folder for what does not fit into memory. Those of processes that have ended are removed."""
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


_WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT")
_EXACT = 1 << 53
_AS_TEXT = ("GEOMETRY", "TIME_NS")  # what pandas would show as bytes, or cut


def settings(folder):
    """DuckDB's settings: it has as many threads as the container processors, and loads no extension, which would need a network."""
    found = {
        "temp_directory": folder,
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        "pandas_analyze_sample": str(1 << 62),  # all values: those of its sample decide what the others become
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


_made = {}  # views by their files as they were
_told = set()  # notes of these


def _query(query, params, max_rows, tables, folder):
    import duckdb

    # A connection of the call's own: its threads end with it, and a kernel that forks has none.
    con = duckdb.connect(":memory:", config=settings(folder))
    try:
        for name, table in tables.items():
            con.register(name, table)
        statement, files = find(query, views=True)
        for whole in False, True:
            try:
                for path in files:
                    _view(con, path, query, folder, whole)
                return _rows(con, statement, params, max_rows, query)
            except duckdb.Error as e:
                if whole or not _guesses.may_mend(files, str(e)):
                    raise
    except (duckdb.NotImplementedException, duckdb.InvalidInputException, duckdb.ConversionException, duckdb.TypeMismatchException) as e:
        raise _unreadable(con, tables) or _failure(e) from None
    except duckdb.Error as e:
        raise _failure(e) from None
    finally:
        con.close()


def _view(con, path, query, folder, whole):
    """Makes the view of a path. Its notes are told once as long as the files are the same."""
    wants = _guesses.wants(query, path)
    state = path, wants, tuple((each, _os.stat(each).st_size, _os.stat(each).st_mtime_ns) for each in sorted(_glob.glob(path)) or [path])
    statements = _made.get((state, True)) or _made.get((state, whole)) or ()
    if not statements or _FOLDER in statements[-1]:  # of a copy that is gone
        try:
            statements, notes = _guesses.views(lambda statement: con.execute(statement).fetchall(), path, wants, folder, whole)
        except (ImportError, OSError, ValueError) as e:
            raise SQLError("sql_failed", "%r cannot be read: %s" % (path, e), "Read it with another library, and name the variable behind FROM.") from None
        _made[state, whole] = statements
        for note in notes:
            if (state[2], note) not in _told:
                _told.add((state[2], note))
                print("note: " + note)
    for statement in statements:
        con.execute(statement)


def _rows(con, statement, params, max_rows, query):
    import importlib.util

    con.execute(statement, list(params or ()))
    if not con.description:
        return None
    quoted = ('"%s"' % name.replace('"', '""') for name, kind, *_ in con.description if str(kind).upper().startswith(_AS_TEXT))
    texts = ", ".join("%s::varchar as %s" % (name, name) for name in quoted)
    if texts:
        con.execute("select * replace (%s) from (%s\n)" % (texts, statement.strip().rstrip(";")), list(params or ()))
    kinds = [str(column[1]).upper() for column in con.description]
    if importlib.util.find_spec("pandas") is None:
        rows = con.fetchmany(max_rows) if max_rows else con.fetchall()
        return [dict(zip((c[0] for c in con.description), row)) for row in rows]
    return _with_types(_frame(con, max_rows), kinds, "json" in query.lower())


def _failure(e):
    return SQLError("sql_failed", str(e)[:2000], _hint(str(e)))


def _unreadable(con, tables):
    """The error that names the first column of a DataFrame that DuckDB cannot read; None where it reads all."""
    for name, table in tables.items():
        for at, column in enumerate(table.columns if hasattr(table, "iloc") else ()):
            try:
                cursor = con.cursor()  # the statement that failed may not be over
                cursor.register("one column", table.iloc[:, [at]])
                cursor.execute('SELECT count(COLUMNS(*)) FROM "one column"').fetchall()
            except Exception as e:
                told = "DuckDB cannot read the column %r of %s (%s): %s" % (column, name, table.dtypes.iloc[at], str(e)[:500])
                return SQLError("sql_failed", told, "Make it text: %s[%r] = %s[%r].astype(str)" % (name, column, name, column))
    return None


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


def _with_types(frame, kinds, from_json):
    """Whole numbers as Int64, as in a database's answer. DuckDB makes floats of those beside a NULL, of its widest and of decimals."""
    whole = {}
    for at, kind in enumerate(kinds):
        column = frame.iloc[:, at]
        limit = _limit(kind, from_json) if column.dtype.kind == "f" else None
        if column.dtype.kind in "iu" and column.dtype.name != "uint64":
            whole[at] = column
        elif limit and not (column.abs() < limit).where(column.notna(), True).all():
            advice = "read_json('…', columns = {\"%s\": 'HUGEINT'})" % frame.columns[at] if kind == "DOUBLE" else "CAST(… AS VARCHAR)"
            print("note: %s has numbers that may be rounded: %s keeps their digits" % (frame.columns[at], advice))
        elif kind in _WHOLE and limit:
            whole[at] = column
    for at, column in whole.items():
        frame.isetitem(at, column.astype("Int64"))
    return frame


def _limit(kind, from_json):
    """Floats of this kind are exact below it; None for what was no other number. DuckDB makes floats of JSON's whole numbers over 64 bits."""
    if kind in _WHOLE or kind == "DOUBLE" and from_json:
        return _EXACT
    decimal = _re.fullmatch(r"DECIMAL\(\d+,(\d+)\)", kind)
    return 10.0 ** (15 - int(decimal.group(1))) if decimal else None


def _hint(message):
    if "Out of Memory" in message or "memory" in message:
        return "Read fewer columns or aggregate; what is sorted or grouped goes to the session's volume, which has a limit too."
    if "by zero" in message:
        return "Divide by NULLIF(x, 0)."
    if "extension" in message:
        return "There is no network for DuckDB's extensions: CSV, JSON and Parquet are read without one."
    return "It is DuckDB's SQL. DESCRIBE SELECT * FROM 'file' shows the columns of a file."
