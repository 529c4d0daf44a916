"""The document program: returns the text of an office document, a PDF, a notebook or an archive.

It is started as ``python3 -I document.py`` in the session's container, reads one line of JSON from stdin,
``{work_dir, path, type, limit_bytes}``, and answers with one: ``{text, complete}``, or ``{error, detail}``. The files
are hostile, which is why they are read here: what they can do is to end this program, or to lie.
"""

import json
import os
import resource
import signal
import sys

MEMORY_BYTES = 800 << 20
UNPACKED_BYTES = 200 << 20  # of all that is in a document
SECONDS = 20  # of processor time
ROWS = 50_000  # of one sheet

OFFICE = "application/vnd.openxmlformats-officedocument."
OPEN = "application/vnd.oasis.opendocument."


class Refused(Exception):
    """An answer that is an error: unsupported, encrypted, too_large, missing or broken."""

    def __init__(self, error, detail=""):
        super().__init__(error, detail)
        self.error, self.detail = error, detail


class OutOfTime(Exception):
    pass


def check_size(path):
    import zipfile

    with zipfile.ZipFile(path) as archive:
        # zipfile gives no more of a file than is declared.
        if sum(info.file_size for info in archive.infolist()) > UNPACKED_BYTES:
            raise Refused("too_large")


def local(element):
    return element.tag.rpartition("}")[2]


# What is no text of the document: what was removed or moved away, and the second form of a text box.
LEFT_OUT = ("Fallback", "moveFrom", "tracked-changes")
SPACES = {"tab": "\t", "br": "\n", "cr": "\n", "line-break": "\n", "p": "\n", "s": " "}


def written(element, mixed):
    """The text of a paragraph; mixed, where it stands between the elements and not in a `t`."""
    text = SPACES.get(local(element), "")
    if mixed or local(element) == "t":
        text += element.text or ""
    for child in element:
        if not local(child).endswith("Pr") and local(child) not in LEFT_OUT:
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


def parts(path, prefixes, heading=None, mixed=False):
    """The paragraphs of those XML files of a document that begin so, by their numbers."""
    import re
    import zipfile
    from xml.etree import ElementTree

    check_size(path)
    with zipfile.ZipFile(path) as archive:
        for prefix in prefixes:
            pattern = re.compile(re.escape(prefix) + r"(\d*)\.xml")
            found = [match for match in map(pattern.fullmatch, archive.namelist()) if match]
            if not found and prefix == prefixes[0]:
                raise Refused("broken", f"there is no {prefix}.xml in it")
            for match in sorted(found, key=lambda match: int(match[1] or 0)):
                if heading:
                    yield f"--- {heading} {match[1]} ---\n"
                yield from lines(ElementTree.fromstring(archive.read(match[0])), mixed)


def word(path):
    return parts(path, ["word/document", "word/footnotes", "word/endnotes", "word/comments"])


def slides(path):
    return parts(path, ["ppt/slides/slide", "ppt/notesSlides/notesSlide"], "slide")


def open_document(path):
    return parts(path, ["content"], mixed=True)


def workbook(path):
    """The sheets of an Excel file. A formula stands for itself where no program has worked out its value yet."""
    import csv
    import io
    import itertools
    import zipfile

    import openpyxl

    check_size(path)
    with zipfile.ZipFile(path) as archive:
        computed = any(b"<f" in archive.read(name) for name in archive.namelist() if name.startswith("xl/worksheets/"))
    books = [
        openpyxl.load_workbook(path, read_only=True, data_only=values)
        for values in ((True, False) if computed else (True,))
    ]
    for readings in zip(*(book.worksheets for book in books)):
        for sheet in readings:
            sheet.reset_dimensions()  # they may say anything
        rows = itertools.islice(zip(*(sheet.values for sheet in readings)), ROWS + 1)
        table = [[cell_text(cell) for cell in zip(*row)] for row in rows]
        while table and not any(table[-1]):
            table.pop()
        width = max((at for row in table for at, cell in enumerate(row, 1) if cell), default=0)
        text = io.StringIO()
        out = csv.writer(text, lineterminator="\n")
        out.writerows(row[:width] + [""] * (width - len(row)) for row in table[:ROWS])
        yield f"--- sheet {readings[0].title} ---\n" + text.getvalue()
        if len(table) > ROWS:
            raise OutOfTime


def cell_text(readings):
    """What is in a cell, by the first of its readings that has something."""
    value = next((value for value in readings if value is not None), "")
    value = getattr(value, "text", value)  # of a formula for several cells
    return str(int(value) if isinstance(value, float) and value.is_integer() else value)


def sheets(path):
    import zipfile

    import pandas

    if zipfile.is_zipfile(path):
        check_size(path)
    with pandas.ExcelFile(path) as book:
        for name in book.sheet_names:
            table = book.parse(name, header=None, dtype=object, nrows=ROWS + 1)
            yield f"--- sheet {name} ---\n" + table[:ROWS].to_csv(header=False, index=False)
            if len(table) > ROWS:
                raise OutOfTime


def pdf(path):
    import pypdf

    reader = pypdf.PdfReader(path)
    if reader.is_encrypted and not reader.decrypt(""):
        raise Refused("encrypted")
    for number, page in enumerate(reader.pages, 1):
        yield f"--- page {number} ---\n" + page.extract_text().strip("\n") + "\n"


# What an output has beside its type up to nbformat 3, which later ones have in a MIME bundle.
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
    """The cells of a Jupyter notebook with what each came to. Of a picture it has the type and the size."""
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
    """What opens a compressed file to be read, by how it begins."""
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
    OFFICE + "spreadsheetml.sheet": workbook,
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
    text, size = [], 0
    try:
        for piece in reader(path):
            text.append(piece)
            size += len(piece.encode("utf-8", "replace"))
            if size > limit:
                break
        else:
            return {"text": "".join(text), "complete": True}
    except OutOfTime:
        if not text:
            raise
    whole = "".join(text).encode("utf-8", "replace")[:limit]
    return {"text": whole.decode("utf-8", "ignore"), "complete": False}


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
        return {"error": "encrypted" if "encrypted" in told.lower() else "broken", "detail": told[:500]}


def out_of_time(signum, frame):
    raise OutOfTime


def main():
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")  # where the container has no memory left, this goes and not the kernel
    except OSError:
        pass
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    signal.signal(signal.SIGXCPU, out_of_time)
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 5))
    request = json.loads(sys.stdin.readline())
    os.chdir(request["work_dir"])
    sys.stdout.write(json.dumps(answer(request)) + "\n")
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
