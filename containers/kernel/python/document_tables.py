"""Tables as text: the sheets of workbooks as CSV, and what is in files of data."""

import csv
import datetime
import decimal
import functools
import io
import itertools
import os
import re
import struct
import zipfile
from xml.etree import ElementTree

from document_office import Package, Refused, Text, attribute, each, local

SHOWN_GAP = 20  # empty rows of a sheet; more of them are a line with their number
FIRST_ROWS = 10  # of a table
MOST_TABLES = 50  # of a database whose rows are shown
MOST_COLUMNS = 100  # of one query, which takes memory for each
BOOK, BINARY_BOOK, OPEN_BOOK = "xl/workbook.xml", "xl/workbook.bin", "content.xml"


def sheets(path):
    """The sheets of a workbook as CSV; a sheet that cannot be read on costs no other."""
    package, readers = None, [old_excel]
    if zipfile.is_zipfile(path):
        package = Package(path)
        readers = [reader for part, reader in ((BOOK, excel), (BINARY_BOOK, binary_excel), (OPEN_BOOK, open_sheets)) if part in package.names]
    for reader in (*readers, by_calamine):
        try:
            tables = reader(path, package)
            first = list(itertools.islice(tables, 1))
            if not first:
                raise Refused("broken", "there is no sheet in it")
            break
        except Exception:  # such as of a style that is damaged
            if reader is by_calamine:
                raise
    for name, kind, rows, beside in itertools.chain(first, tables):
        yield f"--- sheet {name}{kind and f' ({kind})'} ---\n"
        for pieces in as_csv(rows), beside:
            yield from whole(pieces, "the rest of this sheet")


def whole(pieces, what):
    """Pieces of a text, and a line where there should be more of them."""
    try:
        yield from pieces
    except Exception as error:
        yield f"[{what} cannot be read: {type(error).__name__}: {str(error)[:200]}]\n"


def as_csv(rows):
    """Rows with their numbers, from 0, as lines."""
    out, end = io.StringIO(), 0
    writer = csv.writer(out, lineterminator="\n")
    try:
        for at, row in rows:
            cells = [shown(value) for value in row]
            while cells and not cells[-1]:
                cells.pop()
            if cells:
                out.write("\n" * (at - end) if at - end <= SHOWN_GAP else f"[{at - end} empty rows]\n")
                writer.writerow(cells)
                end = at + 1
            if out.tell() > 1 << 16:
                yield out.getvalue()
                out.seek(0)
                out.truncate()
    except Exception:
        yield out.getvalue()
        raise
    yield out.getvalue()


def shown(value):
    """A value as a person sees it in a cell."""
    value = getattr(value, "text", value)  # of a formula for several cells
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, bytes):
        return f"[{len(value)} bytes]"
    if isinstance(value, float):
        text = str(value)
        return f"{decimal.Decimal(text):f}" if "e+" in text and abs(value) < 1e21 else text.removesuffix(".0").replace("e+", "e")
    if isinstance(value, datetime.timedelta):
        seconds = abs(value.total_seconds())
        minutes, rest = divmod(round(seconds, 3), 60)
        clock = f"{int(minutes) // 60}:{int(minutes) % 60:02}:{rest:06.3f}".removesuffix(".000")
        return "-" * (value.days < 0) + clock
    return str(value).removesuffix(" 00:00:00") if isinstance(value, datetime.datetime) else str(value)


@functools.cache
def kind_of(form):
    """Of a number format: whether it shows dates (1) or durations (2), per cent, and how many digits it has where they are all zeros."""
    from openpyxl.styles.numbers import is_date_format, is_timedelta_format

    marks = re.sub(r'"[^"]*"|\\.|\[[^]]*\]|;.*', "", form)
    return is_date_format(form) + is_timedelta_format(form), "%" in marks, len(marks) * (set(marks) == {"0"})


def seen(value, form, epoch):
    """A number of Excel as its format shows it, with all its digits: a date, 65.3%, 000012."""
    from openpyxl.utils.datetime import from_excel

    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return value
    kind, is_percent, digits = kind_of(form)
    try:
        if kind and (value >= 0 or kind > 1):
            return datetime.timedelta(days=value) if kind > 1 else from_excel(value, epoch)
    except (ValueError, OverflowError):  # no date has such a number
        return value
    return counted(value, is_percent, digits)


def counted(value, is_percent, digits):
    """A number with its per cent and with so many digits at least, but 0.3 for the 0.30000000000000004 that a sum leaves."""
    value *= 100**is_percent
    short = float(f"{value:.15g}")
    text = shown(short if len(str(short)) < 15 else value)
    return (text.zfill(digits + (value < 0)) if text.lstrip("-").isdigit() else text) + "%" * is_percent


def excel(path, package):
    """The sheets of an .xlsx file. A formula without a computed value stands for itself."""
    import openpyxl
    from openpyxl.worksheet import _read_only, _reader

    class Cells(_reader.WorkSheetParser):
        def __init__(self, *args, **options):
            super().__init__(*args, **options)
            Cells.last = self

        def parse_cell(self, element):
            try:
                cell = super().parse_cell(element)
                if cell["value"] is None and element.find(_reader.FORMULA_TAG) is not None:
                    cell["value"] = self.parse_formula(element)
                cell["value"] = seen(cell["value"], forms[cell["style_id"]], self.epoch)
                return cell
            except (ValueError, LookupError, TypeError, AttributeError):  # the value does not fit the cell's type
                text = element.findtext(_reader.VALUE_TAG)
                return {"row": self.row_counter, "column": max(self.col_counter, 1), "value": text, "data_type": "s", "style_id": 0}

    def hidden():
        kinds = (Cells.last.row_dimensions, "r", "r"), (Cells.last.column_dimensions, "min", "max")
        yield from besides(*([(int(has[least]), int(has[most])) for has in found.values() if has.get("hidden") in ("1", "true")] for found, least, most in kinds))

    _read_only.WorkSheetParser = Cells
    book = openpyxl.load_workbook(usual(path, package), read_only=True, data_only=True)
    book._date_formats = ()  # seen() makes dates
    forms = [form_by(style.numFmtId, dict(enumerate(book._number_formats, 164))) for style in book._cell_styles]
    known = {sheet.title: sheet for sheet in book.worksheets}
    for name, (kind, part) in parts(package).items():
        if sheet := known.get(name):
            sheet.reset_dimensions()  # they may say anything
            yield name, "hidden" * (sheet.sheet_state != "visible"), enumerate(sheet.values), itertools.chain(hidden(), around(package, part))
        else:
            yield name, kind.removesuffix("sheet") or "missing", (), around(package, part)


def parts(package):
    """The kind and the part of each sheet of an .xlsx file, by its name."""
    files = package.related(BOOK)
    return {attribute(sheet, "name"): files.get(attribute(sheet, "id"), ("", "")) for sheet in each(package.xml(BOOK), "sheet")}


def usual(path, package):
    """A workbook; one in the strict form with the names of the other, which openpyxl knows."""
    if b"purl.oclc.org/ooxml/" not in package.archive.read(BOOK):
        return path
    changed = io.BytesIO()
    with zipfile.ZipFile(changed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in package.names:
            archive.writestr(name, re.sub(rb"http://purl\.oclc\.org/ooxml/(\w+)/", rb"http://schemas.openxmlformats.org/\1/2006/", package.archive.read(name)))
    return changed


def form_by(number, own):
    """A number format: a workbook's own, or one that all have; those of East Asia are dates."""
    from openpyxl.styles.numbers import BUILTIN_FORMATS

    return own.get(number) or BUILTIN_FORMATS.get(number) or ("yyyy-mm-dd" if 26 < number < 37 or 49 < number < 59 else "General")


RECORD = re.compile(rb"([\x80-\xff]?[\0-\x7f])([\x80-\xff]{0,3}[\0-\x7f])")  # its kind and its size, in bytes of seven bits


def records(package, part):
    """The records of a part of an .xlsb file."""
    data, at = package.archive.read(part) if part in package.names else b"", 0
    while found := RECORD.match(data, at):
        kind, size = (sum((byte & 127) << 7 * place for place, byte in enumerate(number)) for number in found.groups())
        at = found.end() + size
        yield kind, data[found.end() : at]


def number_at(data, at, kind="I"):
    return struct.unpack_from("<" + kind, data, at)[0]


def text_at(data, at):
    return data[at + 4 : at + 4 + 2 * number_at(data, at)].decode("utf-16-le", "replace")


def binary_excel(path, package):
    """The sheets of an .xlsb file."""
    from openpyxl.utils.datetime import MAC_EPOCH, WINDOWS_EPOCH
    from xlrd import error_text_from_code as errors

    def value(kind, data):
        if kind == 2:  # a number in 30 bits
            whole = number_at(data, 8, "i") >> 2 if data[8] & 2 else struct.unpack("<d", bytes(4) + bytes([data[8] & 252]) + data[9:12])[0]
            return whole / 100 if data[8] & 1 else whole
        if kind in (3, 11):
            return errors.get(data[8], "#N/A")
        if kind in (4, 10):
            return bool(data[8])
        if kind in (5, 9):
            return number_at(data, 8, "d")
        return strings[number_at(data, 8)] if kind == 7 else text_at(data, 9 if kind == 62 else 8)

    def rows(part, hidden):
        at, row = 0, []
        for kind, data in records(package, part):
            if kind == 0:
                yield at, row
                at, row = number_at(data, 0), []
                hidden[0].extend([(at + 1, at + 1)] * bool(data[11] & 16))
            elif kind == 60 and data[16] & 1:
                hidden[1].append((number_at(data, 0) + 1, number_at(data, 4) + 1))
            elif 1 < kind < 12 or kind == 62:
                row += [None] * (number_at(data, 0) - len(row))
                row.append(seen(value(kind, data), styles[number_at(data, 4) & 0xFFFFFF] if styles else "General", epoch))
        yield at, row

    epoch, own, styles, files = WINDOWS_EPOCH, {}, [], package.related(BINARY_BOOK)
    strings = [text_at(data, 1) for part in package.of_kind(BINARY_BOOK, "sharedStrings") for kind, data in records(package, part) if kind == 19]
    for kind, data in itertools.chain.from_iterable(records(package, part) for part in package.of_kind(BINARY_BOOK, "styles")):
        if kind == 44:
            own[number_at(data, 0, "H")] = text_at(data, 2)
        elif kind == 617:  # what came before are styles of styles
            styles.clear()
        elif kind == 47:
            styles.append(form_by(number_at(data, 2, "H"), own))
    for kind, data in records(package, BINARY_BOOK):
        if kind == 153 and data[0] & 1:
            epoch = MAC_EPOCH
        elif kind == 156:
            link, hidden = text_at(data, 8), ([], [])
            name, (sort, part) = text_at(data, 12 + 2 * len(link)), files.get(link, ("", ""))
            if "chart" in sort or part not in package.names:
                yield name, sort.removesuffix("sheet") or "missing", (), around(package, part)
            else:
                yield name, "hidden" * bool(number_at(data, 0)), rows(part, hidden), itertools.chain(besides(*hidden), around(package, part))


def old_excel(path, package):
    """The sheets of an .xls file."""
    import xlrd
    from openpyxl.utils.datetime import MAC_EPOCH, WINDOWS_EPOCH

    def value(cell):
        if cell.ctype == xlrd.XL_CELL_ERROR:
            return xlrd.error_text_from_code.get(cell.value, "#N/A")
        if cell.ctype == xlrd.XL_CELL_BOOLEAN:
            return bool(cell.value)
        return seen(cell.value, form_by(book.xf_list[cell.xf_index].format_key, own), MAC_EPOCH if book.datemode else WINDOWS_EPOCH)

    log = io.StringIO()
    book = xlrd.open_workbook(path, log, verbosity=1, formatting_info=True, ragged_rows=True)
    own = {number: form.format_str for number, form in book.format_map.items()}
    for sheet in book.sheets():
        hidden = [[(at + 1, at + 1) for at, has in found.items() if has.hidden] for found in (sheet.rowinfo_map, sheet.colinfo_map)]
        remarks = [(*place, note.author, note.text) for place, note in sorted(sheet.cell_note_map.items())]
        yield sheet.name, "hidden" * (sheet.visibility != 0), enumerate(map(value, row) for row in sheet.get_rows()), besides(*hidden, remarks)
    for name, kind in re.findall(r"non-worksheet data named '(.*)' \(type \w+ = (.*)\)", log.getvalue()):
        yield name, kind.lower().removesuffix(" sheet"), (), ()


def open_sheets(path, package):
    """The sheets of OpenDocument, whose numbers have their texts beside them."""
    text = Text(package, "")
    text.mixed, hidden_styles = True, set()

    def written(element):
        return "\n".join(text.written(part).strip("\n") if len(part) else part.text or "" for part in element if local(part) == "p")

    def value(cell):
        said, kind, number = written(cell), attribute(cell, "value-type"), attribute(cell, "value")
        if kind == "date":
            return attribute(cell, "date-value").replace("T", " ").removesuffix(" 00:00:00")
        if kind == "boolean":
            return attribute(cell, "boolean-value").upper()
        if found := re.fullmatch(r"(-?)PT(\d+)H(\d+)M([\d.]+)S", attribute(cell, "time-value")):
            hours, minutes, seconds = map(float, found.groups()[1:])
            return datetime.timedelta(hours=hours, minutes=minutes, seconds=seconds) * (-1 if found[1] else 1)
        return said if not number or re.match("#[A-Z]|Err:", said) else counted(float(number), "%" in said, len(said) * said.isdigit())

    def rows(hidden, remarks):
        ends = [0, 0]  # of the rows and of the columns
        for event, element in events:
            kind = local(element)
            if event == "start" or kind not in ("table", "table-row", "table-column"):
                continue
            if kind == "table":
                return
            way = kind == "table-column"
            begin = ends[way]
            ends[way] += int(attribute(element, f"number-{kind[6:]}s-repeated", "1"))
            if attribute(element, "visibility", "visible") != "visible":
                hidden[way].append((begin + 1, ends[way]))
            row, column = [], 0
            for cell in element:
                remarks += [(begin, column, "".join(who.text or "" for who in each(note, "creator")), written(note)) for note in cell if local(note) == "annotation"]
                count = int(attribute(cell, "number-columns-repeated", "1"))
                if (found := value(cell)) not in (None, ""):
                    row += [None] * (column - len(row)) + [found] * count
                column += count
            element.clear()
            yield from zip(range(begin, ends[0] * bool(row)), itertools.repeat(row))

    events = ElementTree.iterparse(package.archive.open(OPEN_BOOK), ("start", "end"))
    for event, element in events:
        kind = local(element)
        if event == "start" and kind == "style":
            style = attribute(element, "name")
        elif kind == "table-properties" and attribute(element, "display") == "false":
            hidden_styles.add(style)
        elif event == "start" and kind == "table":
            hidden, remarks = ([], []), []
            yield attribute(element, "name"), "hidden" * (attribute(element, "style-name") in hidden_styles), rows(hidden, remarks), besides(*hidden, remarks)


def by_calamine(path, package):
    """The sheets of a workbook that no other reader opens."""
    import python_calamine

    book, known = python_calamine.load_workbook(path), parts(package) if package else {}
    for sheet in book.sheets_metadata:
        if sheet.typ == python_calamine.SheetTypeEnum.WorkSheet:
            rows = (row for name in [sheet.name] for row in book.get_sheet_by_name(name).to_python(skip_empty_area=False))
            beside = around(package, known[sheet.name][1]) if sheet.name in known else ()
            beside = itertools.chain(["[left out: errors, hidden rows and columns, formats of numbers]\n"], beside)
            yield sheet.name, "hidden" * (sheet.visible != python_calamine.SheetVisibleEnum.Visible), enumerate(rows), beside


def besides(rows, columns, remarks=()):
    """The lines of a sheet's hidden rows and columns, and of its comments."""
    from openpyxl.utils import get_column_letter

    for kind, spans in ("rows", rows), ("columns", columns):
        joined = []
        for least, most in sorted(spans):
            if joined and least <= joined[-1][1] + 1:
                joined[-1] = joined[-1][0], max(joined[-1][1], most)
            else:
                joined.append((least, most))
        named = ("-".join(dict.fromkeys(str(end) if kind == "rows" else get_column_letter(end) for end in span)) for span in joined)
        if joined:
            yield f"[hidden {kind}: {', '.join(named)}]\n"
    for row, column, who, text in remarks:
        yield f"[comment at {get_column_letter(column + 1)}{row + 1}{', ' * bool(who)}{who}: {text}]\n"


def around(package, part):
    """The comments of a sheet, and the texts and numbers of its drawings."""
    for comments in package.of_kind(part, "threadedComment") or package.of_kind(part, "comments"):
        yield from besides((), (), (binary_remarks if comments.endswith(".bin") else remarks)(package, comments))
    for drawing in package.of_kind(part, "drawing"):
        yield from Text(package, drawing).lines(package.xml(drawing))


def remarks(package, part):
    from openpyxl.utils.cell import coordinate_to_tuple

    people = {attribute(person, "id"): attribute(person, "displayName") for list in package.of_kind(BOOK, "person") for person in package.xml(list)}
    root = package.xml(part)
    people.update((str(at), who.text or "") for at, who in enumerate(each(root, "author")))
    for comment in each(root, "comment", "threadedComment"):
        row, column = coordinate_to_tuple(comment.get("ref"))
        yield row - 1, column - 1, people.get(comment.get("personId", comment.get("authorId")), ""), "".join(found.text or "" for found in each(comment, "t", "text"))


def binary_remarks(package, part):
    people, at = [], ()
    for kind, data in records(package, part):
        if kind == 632:
            people.append(text_at(data, 0))
        elif kind == 635:
            at = struct.unpack_from("<IIII", data)
        elif kind == 637:
            yield at[1], at[3], people[at[0]], text_at(data, 1)


def table(name, count, columns, rows):
    """A table's name, its columns with their types, and its first rows."""
    yield f"--- {name}: {count:,} row{'s' * (count != 1)} ---\n" + ", ".join(f"{column} {kind}".rstrip() for column, kind in columns) + "\n"
    yield from as_csv(enumerate(itertools.chain([[column for column, _ in columns]], rows)))


def parquet(path):
    con = connect(":memory:")
    return described(con, os.path.basename(path), "read_parquet('%s')" % path.replace("'", "''"), FIRST_ROWS)


def feather(path):
    """A file of Arrow in either form: that of files, or that of streams."""
    import pyarrow.ipc

    source, options = pyarrow.memory_map(path), pyarrow.ipc.IpcReadOptions(use_threads=False)
    try:
        file = pyarrow.ipc.open_file(source, options=options)
        batches = map(file.get_batch, range(file.num_record_batches))
    except pyarrow.ArrowInvalid:
        source.seek(0)
        file = batches = pyarrow.ipc.open_stream(source, options=options)
    count, rows = 0, []
    for batch in batches:
        rows += zip(*(column.to_pylist() for column in batch.slice(0, FIRST_ROWS - len(rows)).columns))
        count += batch.num_rows
    yield from table(os.path.basename(path), count, [(field.name, field.type) for field in file.schema], rows)


def statistics(path):
    """A file of Stata, SPSS or SAS, with the labels of its columns and values."""
    import numpy
    import pyreadstat

    kind = path.rpartition(".")[2].lower()
    read = functools.partial(getattr(pyreadstat, "read_" + {"zsav": "sav", "xpt": "xport"}.get(kind, kind)), path, output_format="dict")
    try:
        found, about = read(row_limit=FIRST_ROWS)
    except OverflowError:  # Python has no date so late
        found, about = read(row_limit=FIRST_ROWS, disable_datetime_conversion=True)
        yield "[dates and times are the numbers that stand for them in the file]\n"
    for name, stored in about.readstat_variable_types.items():
        if stored == "float":  # it has half as many digits
            found[name] = [float(str(numpy.float32(value))) if isinstance(value, float) else value for value in found[name]]
    count = read(metadataonly=True)[1].number_rows
    if count is None:  # it is not in the file
        count = max(map(len, read(usecols=about.column_names[:1])[0].values()), default=0)
    kinds = (" ".join(filter(None, (about.original_variable_types[name], label and f"({label})"))) for name, label in about.column_names_to_labels.items())
    yield from table(os.path.basename(path), count, list(zip(about.column_names, kinds)), zip(*found.values()))
    for name, labels in about.variable_value_labels.items():
        yield f"[values of {name}: {', '.join(f'{shown(value)} {label}' for value, label in labels.items())}]\n"


def duckdb(path):
    """The tables and views of a DuckDB file."""
    con = connect(path, read_only=True)
    listed = con.execute("from duckdb_tables() select schema_name, table_name union all from duckdb_views() select schema_name, view_name where not internal")
    for at, names in enumerate(listed.fetchall()):
        name = ".".join(names[names[0] == "main" :])
        yield from whole(described(con, name, ".".join(map(quoted, names)), FIRST_ROWS * (at < MOST_TABLES)), name)


def connect(path, read_only=False):
    import duckdb

    settings = {"threads": 1, "memory_limit": "400MB", "autoload_known_extensions": "false", "autoinstall_known_extensions": "false"}
    return duckdb.connect(path, read_only=read_only, config=settings)


def described(con, name, source, most):
    columns = [found[:2] for found in con.execute(f"describe from {source}").fetchall()]
    count = con.execute(f"select count(*) from {source}").fetchone()[0]
    fields = [f"{quoted(column)}::varchar" for column, _ in columns]
    parts = [con.execute(f"select {', '.join(some)} from {source} limit {most}").fetchall() for some in itertools.batched(fields, MOST_COLUMNS)]
    yield from table(name, count, columns, map(itertools.chain.from_iterable, zip(*parts)))


def quoted(name):
    return '"%s"' % name.replace('"', '""')


def sqlite(path):
    import sqlite3
    import urllib.parse

    def read(name, most):
        found, source = con.cursor(), quoted(name)
        count = con.execute(f"select count(*) from {source}").fetchone()[0]
        found.execute(f"select * from {source} limit {most}")
        kinds = {column: kind for _, column, kind, *_ in con.execute(f"pragma table_xinfo({source})")}
        yield from table(name, count, [(column, kinds.get(column, "")) for column, *_ in found.description], found)

    con = sqlite3.connect(f"file:{urllib.parse.quote(path)}?mode=ro", uri=True)
    con.text_factory = lambda text: text.decode("utf-8", "replace")
    listed = con.execute("select name from sqlite_master where type in ('table', 'view') and name not like 'sqlite_%'").fetchall()
    for at, (name,) in enumerate(listed):
        yield from whole(read(name, FIRST_ROWS * (at < MOST_TABLES)), name)
