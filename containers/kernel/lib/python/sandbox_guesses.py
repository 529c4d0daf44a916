"""DuckDB's guesses about a file, held against the file: views of it with types that keep each value, and notes of what is not certain.

A view is made from the beginning of a file. Its conversions fail at a value that they would change; then it is made from the whole file.
Both languages use this: `ask` runs a statement in their own DuckDB and returns its rows.
"""

import csv as _csv
import glob as _glob
import json as _json
import os as _os
import re as _re
import sys as _sys

_SMALL = 2 << 20  # bytes of files that are looked at whole at once
_WIDE = 100  # columns of a file that is looked at whole at once, as so many checks in a view take seconds
_ROWS = 100_000  # that decide between forms of dates
NAME = _re.compile(r"\.(csv|tsv|txt|jsonl?|ndjson|parquet|arrow|feather)(?:\.(?:gz|zst))?$", _re.I)
_TRIES = ("", ", strict_mode=false", ", null_padding=true", ", null_padding=true, strict_mode=false")
_WHOLE = "try_cast({x} as %s)::varchar = {x} or regexp_full_match({x}, '\\s*[-+]?[1-9]\\d*\\s*')"
_CHECKS = {  # by a column's type: whether a text is the same after the conversion
    **{kind: _WHOLE % kind for kind in ("BIGINT", "UBIGINT", "HUGEINT", "UHUGEINT")},
    "DOUBLE": "length({x}) < 17 or length({x}) < 25 and regexp_matches({x}, '[.eE]')",
    "BOOLEAN": "lower({x}) in ('true', 'false')",
    "DATE": "try_cast({x} as date)::varchar = {x} or regexp_full_match({x}, '\\d{4}[-/]\\d\\d?[-/]\\d\\d?')",
    "TIMESTAMP": "length({x}) = 19 and {x}[17] = ':' or regexp_full_match({x}, '\\d{4}[-/]\\d\\d?[-/]\\d\\d?([ T]\\d\\d?:\\d\\d(:\\d\\d(\\.\\d{1,6}0*)?)?Z?)?')",
    "TIMESTAMP WITH TIME ZONE": "regexp_full_match({x}, '.*(Z|UTC|:\\d\\d(\\.\\d{1,6})?[-+]\\d\\d(:?\\d\\d)?)')",
    "TIME": "regexp_full_match({x}, '\\d?\\d:\\d\\d(:\\d\\d(\\.\\d{1,6})?)?')",
}
_WITHIN = _re.compile(r"\b(U?BIGINT|U?HUGEINT|BOOLEAN|DATE)(?=\s*[,)\[]|$)")  # types in lists and objects of JSON that could change a value
_DATE = _re.compile(r"\d\d?(\D)\d\d?(\D)(\d{4}|\d\d)(?:(\D+)\d\d?:\d\d(:\d\d)?(\.\d+)?( ?[AaPp][Mm])?)?")
_NUMBERS = {"BIGINT", "DOUBLE", "HUGEINT"}


def wants(query, path):
    """The parts of a statement that decide about a view: the name of the file, and all columns of JSON."""
    found = "".join(sorted({found[:1].lower() for found in _re.findall(r"(?<!\()\*|\bcolumns\b|\bdescribe\b|\bsummarize\b|\bfilename\b", query, _re.I)}))
    return found if "json" in path.lower() else "f" * ("f" in found)


def views(ask, path, asked, folder, whole):
    """The statements that make the view of a path, and notes."""
    paths, notes = sorted(_glob.glob(path)) or [path], []
    wanted = ["filename"] if "f" in asked else []
    more = (", filename=true" if wanted else "") + (", union_by_name=true" if len(paths) > 1 else "")
    wanted += _re.findall(r"([^/=]+)=[^/]*/", paths[0])
    whole = whole or sum(map(_os.path.getsize, paths)) < _SMALL
    kind = NAME.search(path)[1].lower()
    if kind == "parquet":
        body = "from read_parquet(%s%s)" % (text(path), more)
    elif kind in ("arrow", "feather"):
        body = " union all by name ".join("from read_parquet(%s)" % text(_as_parquet(each, folder)) for each in paths)
    elif "json" in kind:
        body = _of_json(ask, path, asked, whole, notes, more, wanted)
    else:
        body = _of_csv(ask, paths, folder, whole, notes, more, wanted)
    return ["create schema if not exists " + name(path), "create or replace view %s as %s" % (view(path), body)], notes


def view(path):
    """The name of a path's view. The last part is the one by which DuckDB lets a statement name a file."""
    return "%s.%s" % (name(path), name(_os.path.basename(path).split(".")[0]))


def may_mend(files, failure):
    """Whether views of the whole files may do what failed with views of their beginnings."""
    return bool(_re.match(r"Conversion|Invalid Input|Binder" if _re.search("json", " ".join(files), _re.I) else "Conversion|Invalid Input", failure)) and bool(files)


def text(value):
    return "'%s'" % value.replace("'", "''")


def name(value):
    return '"%s"' % value.replace('"', '""')


class _Column:
    def __init__(self, title, kind, form=None):
        self.title, self.kind, self.form = title, kind, form

    def given(self):
        """The type in which a reader of JSON gives the column to the view: text where its own could change a value."""
        return "VARCHAR" if self.kind in _CHECKS and self.kind != "DOUBLE" else _WITHIN.sub("VARCHAR", self.kind)

    def check(self, of_json):
        if self.form or self.kind == "VARCHAR" or of_json and self.given() == self.kind:
            return ""
        x = name(self.title)
        if self.kind in _CHECKS:
            return _CHECKS[self.kind].replace("{x}", x)
        return "try_cast(%s as %s)::%s is not distinct from %s" % (x, self.kind, self.given(), x) if of_json else ""

    def value(self, whole, of_json=False):
        """The expression of its value, which fails at a text that the type would change, unless the whole file was looked at."""
        x, check = name(self.title), self.check(of_json)
        if self.form:
            return "strptime(%s, %s)::%s as %s" % (x, text(self.form), self.kind, x)
        if not check and (of_json or self.kind == "VARCHAR"):
            return x
        if whole or not check:
            return "%s::%s as %s" % (x, self.kind, x)
        return "case when %s then %s::%s when %s is not null then error('another type') end as %s" % (check, x, self.kind, x, x)


def _of_csv(ask, paths, folder, whole, notes, more, wanted):
    groups, kinds = {}, {}
    for path in paths:
        options, columns, source = _csv_of(ask, path, folder, whole, notes)
        whole = whole or len(columns) > _WIDE
        for column in columns:
            kinds.setdefault(column.title, set()).add(column.kind)
        groups.setdefault((options, tuple((c.title, c.kind, c.form) for c in columns)), []).append(source)
    selects = []
    for (options, columns), sources in groups.items():
        each = [_Column(title, "VARCHAR" if len(kinds[title]) > 1 and not kinds[title] <= _NUMBERS else kind, form) for title, kind, form in columns]
        values = [column.value(whole) if column.kind != "VARCHAR" else name(column.title) for column in each] + [name(extra) for extra in wanted]
        selects.append("select %s from read_csv([%s], %s%s)" % (", ".join(values), ", ".join(map(text, sources)), options, more.split(", union")[0]))
    return " union all by name ".join(selects)


def _csv_of(ask, path, folder, whole, notes):
    """How a file is read, as options of read_csv, with its columns, and the file or its copy in UTF-8."""
    source, found, failure = path, None, None
    if whole:
        source = _as_utf8(path, folder, notes)
    for options in _TRIES:
        try:
            first = _first(ask, source)
            tried = _sniff(ask, source, options, whole)
        except Exception as e:
            failure = failure or e
            if source == path and "nicode" in str(e):
                source = _as_utf8(path, folder, notes)
            continue
        found = found or tried
        if tried.is_sure(first) and not (tried.padded and len(tried.columns) > 1 and found.columns[1:] == [] and path.endswith(".txt")):
            found = tried
            break
    if not found:
        raise failure
    if len(found.columns) > _WIDE and not whole:
        return _csv_of(ask, path, folder, True, notes)
    _name_columns(ask, source, found, first, whole, notes, path)
    if found.padded and whole:  # DuckDB looks for wider lines at the beginning alone
        widest = ask("select max(len(str_split(regexp_replace(l, '\"[^\"]*\"', '', 'g'), %s))) from %s" % (text(found.delimiter), _lines(source)))[0][0]
        found.columns += [_Column("column%d" % n, "VARCHAR") for n in range(len(found.columns), int(widest or 0))]
    if found.padded:
        notes.append("lines of %s have fewer fields than others, and NULL for them: read_csv(%s, delim=chr(1), quote='', header=false) has the lines as they are" % (path, text(path)))
    elif not found.is_sure(first):
        left = "those that begin with %s were" % found.comment if found.comment else "the first %d were" % found.skip if found.skip else "delimiters may be"
        notes.append("of the lines of %s %s left out: read_csv(%s, delim=chr(1), quote='', comment='', skip=0, header=false) has them as they are" % (path, left, text(path)))
    reader = "read_csv(%s, %s)" % (text(source), found.options())
    _choose_forms(ask, reader, found.columns, whole, notes, path, "csv")
    if whole:
        _keep_texts(ask, reader, found.columns, notes, path)
    return found.options(), found.columns, source


class _Sniffed:
    def __init__(self, row, options):
        self.delimiter, self.quote, self.escape, self.comment = ("" if each == "(empty)" else each for each in row[:4])
        self.skip, self.header, self.extra = int(row[4]), row[5] in (True, "true"), options
        self.columns = [_Column(c["name"], c["type"], {"DATE": row[7], "TIMESTAMP": row[8]}.get(c["type"])) for c in row[6]]
        self.padded = "null_padding" in options

    def fields(self, line):
        return _fields(line, self.delimiter, self.quote)

    def is_sure(self, first):
        """Whether what was found explains the first line, and with it all."""
        if self.skip or self.comment:
            return False
        if len(self.columns) == 1:
            return not any(len(_fields(first, each, '"')) > 1 for each in ",;\t|")
        n = len(self.fields(first))
        return n > 1 if self.padded else n == len(self.columns)

    def options(self):
        columns = ", ".join("%s: 'VARCHAR'" % text(column.title) for column in self.columns)
        told = (text(each) for each in (self.delimiter, self.quote, self.escape, self.comment))
        return "auto_detect=false, delim=%s, quote=%s, escape=%s, comment=%s, skip=%d, header=%s, columns={%s}%s%s" % (*told, self.skip, str(self.header).lower(), columns, self.extra, ", parallel=false" if self.padded else "")


def _fields(line, delimiter, quote):
    reading = {"quotechar": quote} if quote else {"quoting": _csv.QUOTE_NONE}
    return next(_csv.reader([line], delimiter=delimiter or ",", **reading), [])


def _sniff(ask, path, options, whole):
    columns = "Delimiter, Quote, Escape, Comment, SkipRows, HasHeader, Columns, DateFormat, TimestampFormat"
    return _Sniffed(ask("select %s from sniff_csv(%s%s%s)" % (columns, text(path), options, ", sample_size=-1" if whole else ""))[0], options.replace(", header=true", ""))


def _lines(path):
    return "read_csv(%s, auto_detect=false, delim=chr(1), quote='', escape='', header=false, columns={l: 'VARCHAR'}, strict_mode=false)" % text(path)


def _first(ask, path):
    rows = ask("select l from %s where l <> '' limit 1" % _lines(path))
    return rows[0][0] if rows else ""


def _name_columns(ask, path, found, first, whole, notes, told):
    """Takes the first line for names where it is some: other types follow it, or it has years as numbers."""
    names = [each.strip() for each in found.fields(first)]
    if found.header or found.skip or len(names) < 2 or not all(names) or len(set(names)) < len(names):
        return
    named = _sniff(ask, path, found.extra + ", header=true", whole)
    years = [each for each in names if each.isdigit()]
    text_first = all(column.kind == "VARCHAR" for column, each in zip(found.columns, names) if not each.isdigit())
    changed = any(a.kind != b.kind for a, b, each in zip(found.columns, named.columns, names) if not each.isdigit())
    if text_first and len(years) < len(names) and (changed or found.padded and not years or years and all(1800 < int(each) < 2200 for each in years)):
        found.columns, found.header, other = named.columns, True, "false"
    else:
        other = "true"
    taken = "the names of its columns" if found.header else "a row"
    notes.append("the first line of %s was read as %s: read_csv(%s, header=%s) reads it otherwise" % (told, taken, text(told), other))


def _choose_forms(ask, reader, columns, whole, notes, path, kind):
    """The forms of dates: those of two digits for the year are guesses, and so are a day and a month up to 12."""
    dated = [column for column in columns if column.kind in ("DATE", "TIMESTAMP")]
    if not dated:
        return
    some = "select %s from (select * from %s limit 1000)" % (", ".join("any_value(%s)" % name(c.title) for c in dated), reader)
    for column, value in zip(dated, ask(some)[0]):
        column.form, sniffed = None, column.form
        match = _DATE.fullmatch(value or "")
        if not match:
            column.form = None if _re.match(r"\d{4}[-/]", value or "0000-") else sniffed
            continue
        one, two, year, between, seconds, fraction, half = match.groups()
        time = between and between + ("%I" if half else "%H") + ":%M" + (":%S" if seconds else "") + (".%f" if fraction else "") + (half[:-2] + "%p" if half else "")
        year = "%Y" if len(year) == 4 else "%y"
        forms = ["%d" + one + "%m" + two + year, "%m" + one + "%d" + two + year] + (["%y" + one + "%m" + two + "%d"] if year == "%y" else [])
        forms = [form + (time or "") for form in forms]
        x = name(column.title)
        counts = ", ".join("count(try_strptime(%s, %s))" % (x, text(form)) for form in forms)
        rows = "" if whole else " limit %d" % _ROWS
        total, *read = map(int, ask("select count(%s), %s from (select %s from %s%s)" % (x, counts, x, reader, rows))[0])
        fitting = [form for form, n in zip(forms, read) if n == total]
        if sniffed in fitting and not sniffed.startswith("%y"):
            fitting.sort(key=sniffed.__ne__)
        column.form, column.kind = (fitting[0], column.kind) if fitting else (None, "VARCHAR")
        if len(fitting) > 1:
            option = "dateformat" if column.kind == "DATE" else "timestampformat"
            others = " or ".join("%s: read_%s(%s, %s=%s)" % (form, kind, text(path), option, text(form)) for form in fitting[1:])
            notes.append("%s of %s was read as %s and may be meant as %s" % (x, path, column.form, others))


def _keep_texts(ask, reader, columns, notes, path):
    """Makes text of columns that their types would change."""
    for kind in {column.kind for column in columns if not column.form} & set(_CHECKS):
        titles = [column.title for column in columns if column.kind == kind]
        values = "unpivot (select %s from %s) on columns(*) into name n value x" % (", ".join(map(name, titles)), reader)
        for title, n in ask("select n, count(*) - count(*) filter (%s) c from (%s) group by n having c > 0" % (_CHECKS[kind].replace("{x}", "x"), values)):
            notes.append("%s of %s is text, as %s would change %s of its values: select %s::%s from %s" % (title, path, kind, n, name(title), kind, text(path)))
            columns[[column.title for column in columns].index(title)].kind = "VARCHAR"


def _of_json(ask, path, asked, whole, notes, more, wanted):
    options = ", map_inference_threshold=-1, field_appearance_threshold=0" + more
    look = "read_json(%s%s%s)" % (text(path), options, ", sample_size=-1" if whole else "")
    columns = [_Column(row[0], row[1]) for row in ask("describe select * from " + look) if row[0] not in wanted]
    if len(columns) > _WIDE and not whole:
        return _of_json(ask, path, asked, True, notes, more, wanted)
    if [column.title for column in columns] == ["json"] or not columns:
        return "from " + look
    if not whole and asked.strip("f"):
        ask("select count(%s) from %s" % (name(columns[0].title), look))  # which fails at a field that is none of these
    given = ", ".join("%s: %s" % (text(column.title), text(column.given())) for column in columns)
    reader = "read_json(%s, columns={%s}%s)" % (text(path), given, more)
    _choose_forms(ask, reader, columns, whole, notes, path, "json")
    return "select %s from %s" % (", ".join([c.value(whole, True) for c in columns] + [name(extra) for extra in wanted]), reader)


def _as_utf8(path, folder, notes):
    """The path of a file in UTF-8, or of a copy in it."""
    if path.lower().endswith((".gz", ".zst")):
        return path
    with open(path, "rb") as file:
        begin = file.read(4096)
    coded = "utf-16" if begin[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-16-le" if begin[1::2].count(0) > len(begin) // 4 else "utf-8"
    for encoding in (coded, "cp1252", "latin-1"):
        copy = _os.path.join(folder, "%d.csv" % len(_os.listdir(folder)))
        try:
            with open(path, encoding=encoding, newline="") as file, open(copy, "w", encoding="utf-8", newline="") as out:
                for piece in iter(lambda: file.read(1 << 20), ""):
                    if encoding != "utf-8":
                        out.write(piece)
        except UnicodeDecodeError:
            continue
        break
    if encoding == "utf-8":
        _os.remove(copy)
        return path
    if not encoding.startswith("utf"):
        notes.append("%s is not UTF-8 and was read as %s: read_csv(%s, encoding='latin-1') reads it otherwise" % (path, encoding, text(path)))
    return copy


def _as_parquet(path, folder):
    """A copy of an Arrow file, or of a stream."""
    from pyarrow import ArrowInvalid, feather, ipc, parquet

    copy = _os.path.join(folder, "%d.parquet" % len(_os.listdir(folder)))
    try:
        table = feather.read_table(path, memory_map=True)
    except ArrowInvalid:
        table = ipc.open_stream(path).read_all()
    parquet.write_table(table, copy)
    return copy


def _serve():
    """Makes the views for another language: a line of JSON for each statement that it is to run, and one for its rows."""

    def ask(statement):
        print(_json.dumps({"ask": statement}), flush=True)
        answer = _json.loads(_sys.stdin.readline())
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer["rows"]

    try:
        print(_json.dumps(dict(zip(("views", "notes"), views(ask, *_json.loads(_sys.stdin.readline()))))))
    except Exception as e:
        print(_json.dumps({"error": str(e)}))


if __name__ == "__main__":
    _serve()
