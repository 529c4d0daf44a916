"""The document program: returns the text of an office document, a PDF, a notebook or an archive.

It is started as ``python3 -I document.py`` in the session's container, reads one line of JSON from stdin,
``{work_dir, path, type, limit_bytes}``, and answers with one: ``{text, complete, lines_left}``, or ``{error, detail}``. The files
are hostile, so they are read here: all they can do is to end this program, or to lie.
"""

import json
import os
import resource
import signal
import sys

MEMORY_BYTES = 800 << 20
UNPACKED_BYTES = 200 << 20  # of all that is in a document
SECONDS = 20  # of processor time
SHOWN_GAP = 20  # empty rows of a sheet; more of them are a line with their number
MOST_COLUMNS, MOST_ROWS = 1 << 14, 1 << 20  # of a sheet

OFFICE = "application/vnd.openxmlformats-officedocument."
OPEN = "application/vnd.oasis.opendocument."
OPEN_TABLE = "urn:oasis:names:tc:opendocument:xmlns:table:1.0"
MANIFEST = "META-INF/manifest.xml"


class Refused(Exception):
    """An answer that is an error: unsupported, encrypted, too_large, missing or broken."""

    def __init__(self, error, detail=""):
        super().__init__(error, detail)
        self.error, self.detail = error, detail


class OutOfTime(Exception):
    pass


def check_archive(path):
    import zipfile

    with zipfile.ZipFile(path) as archive:
        # zipfile gives no more of a file than is declared.
        if sum(info.file_size for info in archive.infolist()) > UNPACKED_BYTES:
            raise Refused("too_large")
        if MANIFEST in archive.namelist() and b"encryption-data" in archive.read(MANIFEST):
            raise Refused("encrypted")


def local(element):
    return element.tag.rpartition("}")[2]


# Elements without text of the document: removed or moved text, and the second form of a text box.
LEFT_OUT = ("Fallback", "moveFrom", "tracked-changes")
SPACES = {"tab": "\t", "br": "\n", "cr": "\n", "line-break": "\n", "p": "\n", "s": " ", "noBreakHyphen": "-"}
ASIDE = ("note", "annotation")  # of OpenDocument, in the middle of a paragraph
MOST_SPACES = 100  # of one element


def written(element, mixed):
    """The text of a paragraph; mixed, where it stands between the elements and not in a `t`."""
    text = SPACES.get(local(element), "")
    if mixed and text == " ":
        count = next((value for name, value in element.items() if name.endswith("}c")), "1")
        text *= min(int(count), MOST_SPACES)
    if mixed or local(element) == "t":
        text += element.text or ""
    for child in element:
        if mixed and local(child) in ASIDE:
            text += "[" + " ".join("".join(lines(child, mixed)).split()) + "]"
        elif not local(child).endswith("Pr") and local(child) not in LEFT_OUT:
            text += written(child, mixed)
        if mixed:
            text += child.tail or ""
    return text


def lines(element, mixed):
    """The paragraphs of Word, PowerPoint or OpenDocument, and a line for each row of a table."""
    name = local(element)
    if name in ("p", "h"):
        yield written(element, mixed).strip("\n") + "\n"
    elif name in ("tr", "table-row"):
        cells = [cell for cell in element if not local(cell).endswith(("Pr", "PrEx"))]
        yield " | ".join(" ".join(line.strip() for line in lines(cell, mixed)) for cell in cells) + "\n"
    elif name not in LEFT_OUT:
        for child in element:
            yield from lines(child, mixed)


def parts(path, prefixes, mixed=False):
    """The paragraphs of those XML files of a document that begin so, by their numbers."""
    import re
    import zipfile
    from xml.etree import ElementTree

    check_archive(path)
    with zipfile.ZipFile(path) as archive:
        for prefix in prefixes:
            pattern = re.compile(re.escape(prefix) + r"(\d*)\.xml")
            found = [match for match in map(pattern.fullmatch, archive.namelist()) if match]
            if not found and prefix == prefixes[0]:
                raise Refused("broken", f"there is no {prefix}.xml in it")
            for match in sorted(found, key=lambda match: int(match[1] or 0)):
                yield from lines(ElementTree.fromstring(archive.read(match[0])), mixed)


def word(path):
    return parts(path, ["word/document", "word/footnotes", "word/endnotes", "word/comments"])


def slides(path):
    """The slides in their order, and the notes by the numbers of their slides."""
    import zipfile
    from xml.etree import ElementTree

    check_archive(path)
    with zipfile.ZipFile(path) as archive:

        def parsed(name):
            return ElementTree.fromstring(archive.read(name))

        files = targets_of(archive, "ppt/presentation.xml")
        ids = [value for each in parsed("ppt/presentation.xml").iter() if local(each) == "sldId" for name, value in each.items() if name.endswith("}id")]
        places = {files[id]: number for number, id in enumerate(ids, 1) if files.get(id) in archive.namelist()}
        for name, number in places.items():
            yield f"--- slide {number} ---\n"
            yield from lines(parsed(name), False)
        notes = [name for name in archive.namelist() if name.startswith("ppt/notesSlides/") and name.endswith(".xml")]
        about = {places.get(target): name for name in notes for target in targets_of(archive, name).values()}
        for number in sorted(about.keys() - {None}):
            yield f"--- notes of slide {number} ---\n"
            yield from lines(parsed(about[number]), False)


def targets_of(archive, name):
    """The parts of a document that one of them refers to, by their names there."""
    import posixpath
    from xml.etree import ElementTree

    folder, _, file = name.rpartition("/")
    relations = f"{folder}/_rels/{file}.rels"
    listed = ElementTree.fromstring(archive.read(relations)) if relations in archive.namelist() else ()
    return {each.get("Id"): posixpath.normpath(posixpath.join("/", folder, each.get("Target", "")))[1:] for each in listed}


def open_document(path):
    return parts(path, ["content"], mixed=True)


def sheets(path):
    """The sheets of Excel and OpenDocument as CSV; a sheet that cannot be read on costs no other."""
    import zipfile

    if not zipfile.is_zipfile(path):
        readers = old_excel, by_calamine
    else:
        check_archive(path)
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
        readers = (open_sheets,) if "content.xml" in names else (binary_excel,) if "xl/workbook.bin" in names else (excel, by_calamine)
    for at, reader in enumerate(readers, 1):
        try:
            tables = list(reader(path))
            break
        except (OutOfTime, MemoryError):
            raise
        except Exception:  # such as of a style that is damaged
            if at == len(readers):
                raise
    for name, rows in tables:
        yield f"--- sheet {name} ---\n"
        try:
            yield from as_csv(rows)
        except (OutOfTime, MemoryError):
            raise
        except Exception as error:
            yield f"[the rest of this sheet cannot be read: {type(error).__name__}: {str(error)[:200]}]\n"


def as_csv(rows):
    import csv
    import io

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
        yield sheet.title, sheet.values


def old_excel(path):
    """The sheets of an .xls file."""
    import datetime
    import re

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
        yield sheet.name, (map(value, sheet.row(at)) for at in range(sheet.nrows))


def by_calamine(path):
    """The sheets of any kind, in which errors are empty."""
    import python_calamine

    book = python_calamine.load_workbook(path)
    for name in book.sheet_names:
        yield name, book.get_sheet_by_name(name).to_python(skip_empty_area=False)


# Records of an .xlsb file, by [MS-XLSB]: where a row begins, a cell with an error, a formula with one, and a sheet of the workbook.
ROW, ERROR, FORMULA_ERROR, SHEET = 0, 3, 11, 156
ERRORS = {0: "#NULL!", 7: "#DIV/0!", 15: "#VALUE!", 23: "#REF!", 29: "#NAME?", 36: "#NUM!", 42: "#N/A", 43: "#GETTING_DATA"}


def binary_excel(path):
    """The sheets of an .xlsb file: calamine's, with the errors that it leaves empty."""
    import zipfile

    with zipfile.ZipFile(path) as archive:
        parts = binary_parts(archive)
        for name, rows in by_calamine(path):
            for row, column, text in binary_errors(archive.read(parts[name])) if name in parts else ():
                rows += ([] for _ in range(row - len(rows) + 1 if row < MOST_ROWS else 0))
                if row < len(rows):
                    rows[row] += [""] * (column - len(rows[row]) + 1)
                    rows[row][column] = text
            yield name, rows


def binary_parts(archive):
    """Where the sheets of an .xlsb file are, by their names."""
    targets, parts = targets_of(archive, "xl/workbook.bin"), {}
    for kind, data in binary_records(archive.read("xl/workbook.bin")):
        if kind == SHEET:
            end = 12 + 2 * int.from_bytes(data[8:12], "little")
            parts[data[end + 4 :].decode("utf-16-le")] = targets.get(data[12:end].decode("utf-16-le"), "")
    return {name: part for name, part in parts.items() if part in archive.namelist()}


def binary_errors(data):
    row = 0
    for kind, body in binary_records(data):
        if kind == ROW:
            row = int.from_bytes(body[:4], "little")
        elif kind in (ERROR, FORMULA_ERROR) and len(body) > 8:
            column = int.from_bytes(body[:4], "little")
            if column < MOST_COLUMNS:
                yield row, column, ERRORS.get(body[8], "#ERROR")


def binary_records(data):
    """The records of an .xlsb part: a type and a length in numbers of seven bits a byte, and so many bytes."""
    at = 0

    def number(most):
        nonlocal at
        value = 0
        for shift in range(0, 7 * most, 7):
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            if byte < 128:
                break
        return value

    while at < len(data):
        kind = number(2)
        size = number(4)
        yield kind, data[at : at + size]
        at += size


def open_sheets(path):
    """The sheets of an .ods file, whose cells hold the visible text beside their values."""
    import zipfile
    from xml.etree import ElementTree

    with zipfile.ZipFile(path) as archive:
        content = ElementTree.fromstring(archive.read("content.xml"))
    for table in content.iter(f"{{{OPEN_TABLE}}}table"):
        yield table.get(f"{{{OPEN_TABLE}}}name"), open_rows(table)


def open_rows(table):
    for row in table.iter(f"{{{OPEN_TABLE}}}table-row"):
        cells = []
        for cell in row:
            cells += [open_value(cell)] * min(int(cell.get(f"{{{OPEN_TABLE}}}number-columns-repeated", 1)), MOST_COLUMNS)
        while cells and not cells[-1] and cells[-1] != 0:  # a row is as wide as a sheet can be, and repeated to its end
            cells.pop()
        for _ in range(min(int(row.get(f"{{{OPEN_TABLE}}}number-rows-repeated", 1)), MOST_ROWS)):
            yield cells


def open_value(cell):
    import re

    has = {name.rpartition("}")[2]: value for name, value in cell.items()}
    kind, value = has.get("value-type"), has.get("value", "")
    if kind in ("float", "percentage", "currency") and re.fullmatch(r"-?[\d.]+(E[+-]?\d+)?", value, re.IGNORECASE):
        return float(value)
    if kind == "date" and "date-value" in has:
        return has["date-value"].replace("T", " ").removesuffix(" 00:00:00")
    if kind == "boolean" and "boolean-value" in has:
        return has["boolean-value"].upper()
    return "\n".join(written(line, True).strip("\n") for line in cell if local(line) == "p") or has.get("string-value")


def pdf(path):
    import pypdf

    reader = pypdf.PdfReader(path)
    if reader.is_encrypted and not reader.decrypt(""):
        raise Refused("encrypted")
    if fields := [f"{name}: {value}\n" for name, field in (reader.get_fields() or {}).items() if (value := filled(field.get("/V")))]:
        yield "--- fields of the form ---\n" + "".join(fields)
    for number, page in enumerate(reader.pages, 1):
        yield f"--- page {number} ---\n" + page_text(page) + "\n"


def filled(value):
    """The value of a form's field: a text, a name such as /Yes, or several."""
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return value.removeprefix("/") if isinstance(value, str) and value != "/Off" else ""


def page_text(page):
    """The text of a page as it is laid out, or as it was drawn where that leaves any of it out, as it may of turned pages."""
    import re
    import textwrap

    drawn = page.extract_text()
    try:
        laid = page.extract_text(extraction_mode="layout", layout_mode_strip_rotated=False)
    except (OutOfTime, MemoryError):
        raise
    except Exception:  # of a font, which drawing does not need
        laid = ""
    if len("".join(laid.split())) < len("".join(drawn.split())):
        return drawn.strip("\n")
    lines = textwrap.dedent(laid.expandtabs()).splitlines()
    return re.sub(r"\n{3,}", "\n\n", "\n".join(line.rstrip() for line in lines)).strip("\n")


# The keys of an output up to nbformat 3; later ones use a MIME bundle.
OLD_MIMES = {
    "text": "text/plain",
    "html": "text/html",
    "latex": "text/latex",
    "png": "image/png",
    "jpeg": "image/jpeg",
    "svg": "image/svg+xml",
    "pdf": "application/pdf",
    "javascript": "application/javascript",
    "json": "application/json",
}


def notebook(path):
    """The cells of a Jupyter notebook with their outputs: for a picture its type and size."""
    import re

    def text(parts):
        joined = parts if isinstance(parts, str) else "".join(parts)
        joined = re.sub(r"\x1b\[[\d;]*m", "", joined)
        return re.sub(r"data:([\w/.+-]+);base64,([\w+/=]+)", lambda found: held(found[1], found[2]), joined)

    def held(mime, base64):
        return f"[{mime}, {len(base64) * 3 // 4} bytes]"

    def shown(data):
        for mime in ("text/markdown", "text/plain", "text/latex", "text/html"):
            if mime in data:
                yield text(data[mime])
                break
        for mime, parts in data.items():
            if not mime.startswith("text/"):
                is_text = isinstance(parts, (str, list)) and not mime.endswith("json")
                yield held(mime, text(parts)) if is_text else f"[{mime}]"

    def told(output):
        if output["output_type"] in ("error", "pyerr"):
            return [text("\n".join(output.get("traceback") or [f"{output['ename']}: {output['evalue']}"]))]
        if output["output_type"] == "stream":
            return [text(output["text"])]
        return shown(output.get("data") or {OLD_MIMES[name]: output[name] for name in output if name in OLD_MIMES})

    with open(path, encoding="utf-8-sig") as file:
        book = json.load(file)
    cells = book["cells"] if "cells" in book else [cell for sheet in book["worksheets"] for cell in sheet["cells"]]
    for number, cell in enumerate(cells, 1):
        count = cell.get("execution_count") or cell.get("prompt_number")
        source = cell["input"] if "input" in cell else cell["source"]
        yield f"--- cell {number}, {cell['cell_type']}{f' [{count}]' if count else ''} ---\n" + text(source).rstrip("\n") + "\n"
        for output in cell.get("outputs", ()):
            yield f"--- output of cell {number} ---\n"
            for piece in told(output):
                yield piece.rstrip("\n") + "\n"


def entry(size, moment, name):
    name = name if name.isprintable() else repr(name)
    return f"{size:>12} {moment[0]:04}-{moment[1]:02}-{moment[2]:02} {moment[3]:02}:{moment[4]:02} {name}\n"


def zip_list(path):
    import zipfile

    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            yield entry(info.file_size, info.date_time, info.filename)


class Unzstd:
    """A file of Zstandard, to be read in pieces. The library's own reader does not report one that is cut."""

    def __init__(self, path):
        self.pieces = self.decompressed(path)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.pieces.close()

    def read(self, _size):
        return next(self.pieces, b"")

    def decompressed(self, path):
        import zstandard

        with open(path, "rb") as file:
            while data := file.read(1 << 16):
                while data:
                    frame = zstandard.ZstdDecompressor().decompressobj()
                    while not frame.eof:
                        if piece := frame.decompress(data):
                            yield piece
                        data = frame.unused_data if frame.eof else file.read(1 << 16)
                        if not data and not frame.eof:
                            raise EOFError("it is cut")


def opener(path):
    """The function that opens a compressed file, by its first bytes."""
    import bz2
    import functools
    import gzip
    import lzma

    with open(path, "rb") as file:
        head = file.read(4)
    for magic, opens in (
        (b"\x1f\x8b", gzip.open),
        (b"BZ", bz2.open),
        (b"\xfd7zX", lzma.open),
        (b"\x28\xb5\x2f\xfd", Unzstd),
    ):
        if head.startswith(magic):
            return opens
    return functools.partial(open, mode="rb")


def compressed(path):
    """The list of a tar archive, or the text that is compressed alone."""
    import codecs
    import tarfile
    import time

    opened = opener(path)
    with opened(path) as file:
        try:
            archive = tarfile.open(fileobj=file, mode="r|")
        except tarfile.ReadError:
            archive = ()
        for member in archive:
            target = f" -> {member.linkname}" if member.linkname else "/" if member.isdir() else ""
            yield entry(member.size, time.gmtime(member.mtime), member.name + target)
    if archive:
        return
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    with opened(path) as file:
        while True:
            data = file.read(1 << 16)
            try:
                yield decoder.decode(data, final=not data)
            except UnicodeDecodeError:
                raise Refused("unsupported", "what is compressed in it is one file, and no text") from None
            if not data:
                return


READERS = {
    OFFICE + "wordprocessingml.document": word,
    OFFICE + "presentationml.presentation": slides,
    OFFICE + "spreadsheetml.sheet": sheets,
    "application/vnd.ms-excel": sheets,
    OPEN + "spreadsheet": sheets,
    OPEN + "text": open_document,
    OPEN + "presentation": open_document,
    "application/pdf": pdf,
    "application/x-ipynb+json": notebook,
    "application/zip": zip_list,
    "application/epub+zip": zip_list,
    "application/java-archive": zip_list,
    "application/jar": zip_list,
    "application/x-tar": compressed,
    "application/gzip": compressed,
    "application/x-bzip2": compressed,
    "application/x-xz": compressed,
    "application/zstd": compressed,
}


def read(path, mime, limit):
    reader = READERS.get(mime)
    if reader is None:
        with open(path, "rb") as file:  # an encrypted document is one of another kind, which holds this
            if "EncryptedPackage".encode("utf-16-le") in file.read(1 << 20):
                raise Refused("encrypted")
        raise Refused("unsupported")
    text, size, left = [], 0, 0
    pieces = reader(path)
    try:
        for piece in pieces:
            text.append(piece)
            size += len(piece.encode("utf-8", "replace"))
            if size > limit:
                break
        else:
            return {"text": "".join(text), "complete": True}
        if reader is sheets:
            for piece in pieces:
                left += piece.count("\n")
    except OutOfTime:
        if not text:
            raise
    whole = "".join(text)
    cut = whole.encode("utf-8", "replace")[:limit].decode("utf-8", "ignore")
    return {"text": cut, "complete": False, "lines_left": left + whole.count("\n") - cut.count("\n")}


def answer(request):
    try:
        return read(request["path"], request["type"], request["limit_bytes"])
    except Refused as refused:
        return {"error": refused.error, "detail": refused.detail}
    except ImportError as error:
        return {"error": "missing", "detail": error.name or str(error)}
    except (MemoryError, OutOfTime):
        return {"error": "too_large"}
    except Exception as error:  # whatever a reader does with a file that is not as it should be
        told = f"{type(error).__name__}: {error}"
        locked = "encrypted" in told.lower() or "password" in told.lower()
        return {"error": "encrypted" if locked else "broken", "detail": told[:500]}


def out_of_time(signum, frame):
    raise OutOfTime


def main():
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")  # out of memory, this process goes and not the kernel
    except OSError:
        pass
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    signal.signal(signal.SIGXCPU, out_of_time)
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 5))
    request = json.loads(sys.stdin.readline())
    os.chdir(request["work_dir"])
    with open(os.dup(1), "w") as told:
        os.dup2(2, 1)  # output of libraries is no answer
        told.write(json.dumps(answer(request)) + "\n")
    os._exit(0)


if __name__ == "__main__":
    main()
