"""Tables as text: the sheets of workbooks as CSV, and what is in files of data."""

import csv
import io
import itertools
import os
import re
import zipfile

from document_office import Package, Text, attribute, each

SHOWN_GAP = 20  # empty rows of a sheet; more of them are a line with their number
FIRST_ROWS = 10  # of a table
MOST_TABLES = 50  # of a database whose rows are shown


def sheets(path):
    """The sheets of a workbook as CSV; a sheet that cannot be read on costs no other."""
    package, readers = None, (old_excel, by_calamine)
    if zipfile.is_zipfile(path):
        package = Package(path)
        readers = (excel, by_calamine) if "xl/workbook.xml" in package.names else (by_calamine,)
    for at, reader in enumerate(readers, 1):
        try:
            tables = list(reader(path))
            break
        except Exception:  # such as of a style that is damaged
            if at == len(readers):
                raise
    about = besides(package) if package else {}
    for name, hidden, rows in tables:
        yield f"--- sheet {name}{' (hidden)' if hidden else ''} ---\n"
        try:
            yield from as_csv(rows)
        except Exception as error:
            yield f"[the rest of this sheet cannot be read: {type(error).__name__}: {str(error)[:200]}]\n"
        if name in about:
            yield from around(package, about[name])


def as_csv(rows):
    out, empty = io.StringIO(), 0
    writer = csv.writer(out, lineterminator="\n")
    for row in rows:
        cells = [shown(value) for value in row]
        while cells and not cells[-1]:
            cells.pop()
        if not cells:
            empty += 1
            continue
        out.write("\n" * empty if empty <= SHOWN_GAP else f"[{empty} empty rows]\n")
        writer.writerow(cells)
        empty = 0
        if out.tell() > 1 << 16:
            yield out.getvalue()
            out.seek(0)
            out.truncate()
    yield out.getvalue()


def shown(value):
    """A value as a person sees it in a cell."""
    import datetime

    value = getattr(value, "text", value)  # of a formula for several cells
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, datetime.timedelta):
        seconds = abs(value.total_seconds())
        minutes, rest = divmod(round(seconds, 3), 60)
        clock = f"{int(minutes) // 60}:{int(minutes) % 60:02}:{rest:06.3f}".removesuffix(".000")
        return "-" * (value.days < 0) + clock
    return str(value).removesuffix(" 00:00:00") if isinstance(value, datetime.datetime) else str(value)


def excel(path):
    """The sheets of an .xlsx file. A formula without a computed value stands for itself."""
    import openpyxl
    from openpyxl.worksheet import _read_only, _reader

    class Cells(_reader.WorkSheetParser):
        def parse_cell(self, element):
            try:
                cell = super().parse_cell(element)
                if cell["data_type"] == "e" != element.get("t"):  # no date has such a number
                    cell["value"] = element.findtext(_reader.VALUE_TAG)
                elif cell["value"] is None and element.find(_reader.FORMULA_TAG) is not None:
                    cell["value"] = self.parse_formula(element)
                return cell
            except (ValueError, LookupError, TypeError, AttributeError):  # the value does not fit the cell's type
                text = element.findtext(_reader.VALUE_TAG)
                return {"row": self.row_counter, "column": max(self.col_counter, 1), "value": text, "data_type": "s", "style_id": 0}

    _read_only.WorkSheetParser = Cells
    for sheet in openpyxl.load_workbook(path, read_only=True, data_only=True).worksheets:
        sheet.reset_dimensions()  # they may say anything
        yield sheet.title, sheet.sheet_state != "visible", sheet.values


def old_excel(path):
    """The sheets of an .xls file, with the errors that calamine leaves empty."""
    import datetime

    import xlrd

    book = xlrd.open_workbook(path, formatting_info=True, ragged_rows=True)

    def value(cell):
        if cell.ctype == xlrd.XL_CELL_ERROR:
            return xlrd.error_text_from_code.get(cell.value, "#N/A")
        if cell.ctype == xlrd.XL_CELL_BOOLEAN:
            return bool(cell.value)
        if cell.ctype != xlrd.XL_CELL_DATE:
            return cell.value
        try:
            form = book.format_map[book.xf_list[cell.xf_index].format_key].format_str
            if re.search(r"\[[hms]+\]", form, re.IGNORECASE):
                return datetime.timedelta(days=cell.value)
            day = xlrd.xldate_as_datetime(cell.value, book.datemode)
            return day.time() if cell.value < 1 else day
        except (ValueError, LookupError, OverflowError):  # no date has such a number
            return cell.value

    for sheet in book.sheets():
        yield sheet.name, sheet.visibility != 0, (map(value, sheet.row(at)) for at in range(sheet.nrows))


def by_calamine(path):
    """The sheets of any kind, in which errors are empty."""
    import python_calamine

    book = python_calamine.load_workbook(path)
    for sheet in book.sheets_metadata:
        if sheet.typ == python_calamine.SheetTypeEnum.WorkSheet:
            rows = book.get_sheet_by_name(sheet.name).to_python(skip_empty_area=False)
            yield sheet.name, sheet.visible != python_calamine.SheetVisibleEnum.Visible, rows


def besides(package):
    """The parts of an .xlsx file's sheets, by their names."""
    files = package.related("xl/workbook.xml")
    return {attribute(sheet, "name"): files[attribute(sheet, "id")][1] for sheet in each(package.xml("xl/workbook.xml"), "sheet") if attribute(sheet, "id") in files}


def around(package, part):
    """What a sheet has besides its cells: hidden rows and columns, comments, the texts and numbers of its drawings."""
    source = package.archive.read(part) if part in package.names else b""
    for kind, pattern in ("rows", rb'<(?:\w+:)?row\s[^>]*?hidden="(?:1|true)"[^>]*>'), ("columns", rb'<(?:\w+:)?col\s[^>]*?hidden="(?:1|true)"[^>]*>'):
        found = [dict(re.findall(r'(\w+)="(\d+)"', tag.decode())) for tag in re.findall(pattern, source)]
        numbers = {at for tag in found for at in range(int(tag.get("min", tag.get("r", 0))), min(int(tag.get("max", tag.get("r", 0))), 1 << 20) + 1)}
        if numbers:
            yield f"[hidden {kind}: {', '.join(spans(numbers, kind))}]\n"
    people = {attribute(person, "id"): attribute(person, "displayName") for list in package.of_kind("xl/workbook.xml", "person") for person in package.xml(list)}
    threads = package.of_kind(part, "threadedComment")
    for comments in threads or package.of_kind(part, "comments"):
        root = package.xml(comments)
        authors = [who.text or "" for who in each(root, "author")]
        for comment in each(root, "comment", "threadedComment"):
            who = people.get(comment.get("personId")) or dict(enumerate(authors)).get(int(comment.get("authorId", -1)), "")
            text = "".join(found.text or "" for found in each(comment, "t", "text"))
            yield f"[comment at {comment.get('ref')}{', ' * bool(who)}{who}: {text}]\n"
    for drawing in package.of_kind(part, "drawing"):
        yield from Text(package, drawing).lines(package.xml(drawing))


def spans(numbers, kind):
    """Numbers of rows, or letters of columns, of which neighbours are one span."""
    from openpyxl.utils import get_column_letter

    for _, neighbours in itertools.groupby(enumerate(sorted(numbers)), key=lambda pair: pair[1] - pair[0]):
        ends = [number for _, number in neighbours]
        yield "-".join(dict.fromkeys(get_column_letter(end) if kind == "columns" else str(end) for end in (ends[0], ends[-1])))


def table(name, count, columns, rows):
    """A table's name, its columns with their types, and its first rows."""
    yield f"--- {name}: {count:,} row{'s' * (count != 1)} ---\n" + ", ".join(f"{column} {kind}".rstrip() for column, kind in columns) + "\n"
    yield from as_csv([[column for column, _ in columns], *rows])


def parquet(path):
    con = connect(":memory:")
    return described(con, os.path.basename(path), "read_parquet('%s')" % path.replace("'", "''"), FIRST_ROWS)


def feather(path):
    import pyarrow.ipc

    file = pyarrow.ipc.open_file(pyarrow.memory_map(path), options=pyarrow.ipc.IpcReadOptions(use_threads=False))
    batches = [file.get_batch(number) for number in range(file.num_record_batches)]
    rows = [row.values() for batch in batches[:FIRST_ROWS] for row in batch.slice(0, FIRST_ROWS).to_pylist()]
    yield from table(os.path.basename(path), sum(batch.num_rows for batch in batches), [(field.name, field.type) for field in file.schema], rows[:FIRST_ROWS])


def duckdb(path):
    """The tables and views of a DuckDB file."""
    con = connect(path, read_only=True)
    listed = con.execute("from duckdb_tables() select schema_name, table_name union all from duckdb_views() select schema_name, view_name where not internal")
    for at, names in enumerate(listed.fetchall()):
        source = ".".join(quoted(name) for name in names)
        yield from described(con, ".".join(names[names[0] == "main" :]), source, FIRST_ROWS * (at < MOST_TABLES))


def connect(path, read_only=False):
    import duckdb

    settings = {"threads": 1, "memory_limit": "400MB", "autoload_known_extensions": "false", "autoinstall_known_extensions": "false"}
    return duckdb.connect(path, read_only=read_only, config=settings)


def described(con, name, source, most):
    columns = [found[:2] for found in con.execute(f"describe from {source}").fetchall()]
    count = con.execute(f"select count(*) from {source}").fetchone()[0]
    fields = ", ".join(f"{quoted(column)}::varchar" for column, _ in columns)
    return table(name, count, columns, con.execute(f"select {fields} from {source} limit {most}").fetchall())


def quoted(name):
    return '"%s"' % name.replace('"', '""')


def sqlite(path):
    import sqlite3
    import urllib.parse

    con = sqlite3.connect(f"file:{urllib.parse.quote(path)}?mode=ro", uri=True)
    con.text_factory = lambda text: text.decode("utf-8", "replace")
    listed = con.execute("select name from sqlite_master where type in ('table', 'view') and name not like 'sqlite_%'").fetchall()
    for at, (name,) in enumerate(listed):
        source = quoted(name)
        columns = [found[1:3] for found in con.execute(f"pragma table_info({source})")]
        count = con.execute(f"select count(*) from {source}").fetchone()[0]
        rows = con.execute(f"select * from {source} limit {FIRST_ROWS}").fetchall() if at < MOST_TABLES else ()
        yield from table(name, count, columns, ([f"[{len(value)} bytes]" if isinstance(value, bytes) else value for value in row] for row in rows))
