"""The document program: returns the text of an office document, a PDF, a book, a letter, a notebook or an archive, and what is in a file of data.

It is started as ``python3 -I document.py`` in the session's container, reads one line of JSON from stdin,
``{work_dir, path, type, limit_bytes}``, and answers with one: ``{text, complete, lines_left}``, or ``{error, detail}``. The files
are hostile, so they are read here: all they can do is to end this program, or to lie.
"""

import contextlib
import itertools
import json
import os
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import unicodedata

sys.path.append(os.path.dirname(os.path.abspath(__file__)))

import document_letters
import document_office
import document_tables
from document_office import Refused

MEMORY_BYTES = 800 << 20
SECONDS = 20  # of processor time
OFFICE_SECONDS = 50

OFFICE = "application/vnd.openxmlformats-officedocument."
OPEN = "application/vnd.oasis.opendocument."


class OutOfTime(BaseException):
    """No reader takes it for an error of its own."""


def pdf(path):
    """The text of each page in the file's own order, or as Poppler lays it out where it has tables."""
    import pypdfium2

    def drawn(at):
        try:
            text = pages[at].get_textpage().get_text_bounded()
        except pypdfium2.PdfiumError:  # a page that is damaged costs no other
            damaged.add(at)
            return ""
        # A hyphen at the end of a line.
        return re.sub(r"\x02(\w?)", lambda found: found[1] if found[1].islower() else "-" + found[1], text)

    def pictured(at):
        """What is to be said of a page that is a picture, all or most of it."""
        if at in damaged:
            return "[this page is damaged and cannot be read]\n"
        width, height = pages[at].get_size()
        boxes, is_drawn = [(0, 0, 0, 0)], False
        with contextlib.suppress(pypdfium2.PdfiumError):
            for part in itertools.islice(pages[at].get_objects(), MOST_DRAWN):
                is_drawn = is_drawn or part.type != pypdfium2.raw.FPDF_PAGEOBJ_TEXT
                if part.type == pypdfium2.raw.FPDF_PAGEOBJ_IMAGE:
                    boxes.append(part.get_bounds())
        largest = max((right - left) * (top - bottom) for left, bottom, right, top in boxes)
        if not page and is_drawn or largest > width * height / 2:
            way = f": pdftoppm -f {at + 1} -l {at + 1} -r 100 -png {shlex.quote(path)} page draws it" if not told else ""
            told.append(at)  # the way is told once
            return f"[{'most of this page is ' * bool(page)}a picture without text{way}]\n"
        return ""

    pages, laid, is_empty, damaged, told = pypdfium2.PdfDocument(path), laid_out(path), True, set(), []
    yield from marked(path)
    names = []
    with contextlib.suppress(pypdfium2.PdfiumError):
        names.extend(pages.get_attachment(at).get_name() for at in range(min(pages.count_attachments(), MOST_ATTACHED)))
    if names:
        folders = shlex.join(sorted({f"output/{name}".rpartition("/")[0] for name in names}))
        yield "--- attached files ---\n" + "".join(f"{name}\n" for name in names) + f"[mkdir -p {folders} && pdfdetach -saveall -o output {shlex.quote(path)} saves them]\n"
    for at in range(max(len(pages), len(laid))):
        page, other = drawn(at), laid[at] if at < len(laid) else ""
        # Poppler lacks the tables of some Chinese, Japanese and Korean fonts.
        if (not page or has_tables(other)) and letters(page) <= 1.2 * letters(other):
            page = other
        page = FORMS.sub(lambda form: unicodedata.normalize("NFKC", form[0]).lstrip(" \u0640"), page)
        page = re.sub(r"\n{3,}", "\n\n", "\n".join(line.rstrip() for line in textwrap.dedent(page).splitlines())).strip("\n")
        is_empty = is_empty and not page
        note = pictured(at) if letters(page) < FEW_LETTERS and at < len(pages) else ""
        yield f"--- page {at + 1} ---\n{page}\n{note}"
    if is_empty:
        yield "[no page has text: pdftoppm -r 100 -png draws them as pictures]\n"


# Letters in the forms of their glyphs, which no search finds: Latin and Armenian ligatures, Hebrew with points, Arabic.
FORMS = re.compile("[\ufb00-\ufdff\ufe70-\ufefc]")
FEW_LETTERS = 100  # of a page that is a picture otherwise
MOST_DRAWN = 2_000  # parts of such a page that are looked at
MOST_ATTACHED = 100


def laid_out(path):
    """The pages as Poppler lays them out, where it is there and can read them."""
    try:
        told = subprocess.run(["pdftotext", "-layout", os.path.abspath(path), "-"], capture_output=True, check=False)
    except FileNotFoundError:
        return ()
    # Right-to-left words come as they are read, between marks of their direction.
    return re.sub("[\u200e\u200f\u202a-\u202e\u2066-\u2069]", "", told.stdout.decode("utf-8", "replace")).split("\f")[:-1]


def letters(text):
    return sum(map(str.isalnum, text))


def has_tables(page):
    """Whether many lines of a page are short texts beside each other, and not columns of prose."""
    lines = [re.split(r"\s{3,}", line.strip()) for line in page.splitlines() if line.strip()]
    return sum(len(parts) > 1 and all(len(part.split()) < 4 for part in parts) for parts in lines) > len(lines) * 0.3


def marked(path):
    """The fields of a form and the remarks in a PDF, where there is pypdf and it can read them."""
    try:
        import pypdf

        reader = pypdf.PdfReader(path)
        fields = [f"{name}: {value}\n" for name, field in (reader.get_fields() or {}).items() if (value := filled(field))]
        remarks = []
        for number, page in enumerate(reader.pages, 1):
            for remark in (each.get_object() for each in page.annotations or ()):
                if remark.get("/Subtype") == "/FileAttachment":
                    named = remark.get("/FS", {}).get_object()
                    remarks.append(f"page {number}, attached file, which pdfdetach -saveall saves: {named.get('/UF') or named.get('/F') or 'without a name'}\n")
                if remark.get("/Subtype") not in ("/Popup", "/Widget", "/Link") and remark.get("/Contents"):
                    remarks.append(f"page {number}, {remark.get('/T', '')}: {remark['/Contents']}\n")
    except Exception:
        return
    for title, lines in ("fields of the form", fields), ("remarks", remarks):
        if lines:
            yield f"--- {title} ---\n" + "".join(lines)


BUTTON = 1 << 16  # a field of a form that is one to press


def filled(field):
    """The value of a form's field as it is shown: a text, a name such as /Yes or /Off, or several."""
    value = field.get("/V")
    if value is None and field.get("/FT") == "/Btn" and not int(field.get("/Ff", 0)) & BUTTON and "/_States_" in field:
        value = "/Off"
    shown = {str(option[0]): str(option[1]) for option in field.get("/Opt", ()) if isinstance(option, list) and len(option) > 1}
    values = [shown.get(str(one), str(one)) for one in (value if isinstance(value, list) else [value])]
    return ", ".join(one.removeprefix("/") for one in values) if isinstance(value, (list, str)) else ""


# The keys of an output up to nbformat 3; later ones use a MIME bundle.
OLD_MIMES = {
    "text": "text/plain", "html": "text/html", "latex": "text/latex", "json": "application/json", "javascript": "application/javascript",
    "png": "image/png", "jpeg": "image/jpeg", "svg": "image/svg+xml", "pdf": "application/pdf",
}


def on_screen(text):
    """A text as a terminal shows it in the end: of a progress bar the last state."""
    text = re.sub(r"\x1b\[[\d;]*m", "", text).replace("\r\n", "\n")
    if not re.search(r"[\r\b\x1b]", text):
        return text
    lines, at, column = [""], 0, 0
    for sign, number, erased, up, piece in re.findall(r"([\r\n\b])|\x1b\[(\d*)(?:(K)|(A))|([^\r\n\b\x1b]+|\x1b)", text):
        if piece:
            lines[at] = lines[at][:column].ljust(column) + piece + lines[at][column + len(piece) :]
            column += len(piece)
        elif erased:
            lines[at] = lines[at][:column] if number in ("", "0") else ""
        elif up:
            at = max(0, at - int(number or 1))
        elif sign == "\b":
            column = max(0, column - 1)
        else:
            column = 0
            if sign == "\n":
                at += 1
                lines += [""] * (at == len(lines))
    return "\n".join(lines)


def notebook(path):
    """The cells of a Jupyter notebook with their outputs: for a picture its type and size."""

    def text(parts):
        joined = on_screen(parts if isinstance(parts, str) else "".join(parts))
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


def opened(path):
    """A file, unpacked where its first bytes are those of a packed one."""
    import bz2
    import gzip
    import lzma

    with open(path, "rb") as file:
        head = file.read(4)
    if head == b"\x28\xb5\x2f\xfd":  # the library's own reader does not report one that is cut
        import pyarrow

        return pyarrow.input_stream(path, compression="zstd")
    for magic, module in (b"\x1f\x8b", gzip), (b"BZ", bz2), (b"\xfd7zX", lzma):
        if head.startswith(magic):
            return module.open(path)
    return open(path, "rb")


def compressed(path):
    """The list of a tar archive, or the text that is compressed alone."""
    import io
    import tarfile
    import time

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
    with io.TextIOWrapper(opened(path), "utf-8-sig", newline="") as text:
        try:
            yield from iter(lambda: text.read(1 << 16), "")
        except UnicodeDecodeError:
            raise Refused("unsupported", "what is compressed in it is one file, and no text") from None


def converted(kind, reader):
    """A reader of an older format: LibreOffice turns it into the newer one."""

    def read(path):
        if shutil.which("soffice") is None:
            raise Refused("unsupported", "LibreOffice reads it, which the full image has (--python-image full).")
        with tempfile.TemporaryDirectory() as folder:
            command = ["soffice", f"-env:UserInstallation=file://{folder}", "--headless", "--convert-to", kind, "--outdir", folder, os.path.abspath(path)]
            subprocess.run(command, stdout=subprocess.DEVNULL, check=True, timeout=OFFICE_SECONDS, preexec_fn=unbounded)
            made = os.path.join(folder, f"{os.path.splitext(os.path.basename(path))[0]}.{kind}")
            if not os.path.exists(made):
                raise Refused("broken", "LibreOffice cannot read it, as of one that has a password")
            yield from reader(made)

    return read


def unbounded():
    """Lets LibreOffice map what it likes; the container's memory is bounded."""
    resource.setrlimit(resource.RLIMIT_AS, resource.getrlimit(resource.RLIMIT_AS)[1:] * 2)


READERS = {
    OFFICE + "wordprocessingml.document": document_office.word,
    OFFICE + "presentationml.presentation": document_office.slides,
    OFFICE + "spreadsheetml.sheet": document_tables.sheets,
    "application/vnd.ms-excel": document_tables.sheets,
    "application/msword": converted("docx", document_office.word),
    "application/vnd.ms-powerpoint": converted("pptx", document_office.slides),
    OPEN + "spreadsheet": document_tables.sheets,
    OPEN + "text": document_office.open_document,
    OPEN + "presentation": document_office.open_document,
    OPEN + "graphics": document_office.open_document,
    OPEN + "text-master": document_office.open_document,
    "application/pdf": pdf,
    "application/epub+zip": document_letters.book,
    "message/rfc822": document_letters.opened(document_letters.mail),
    "application/mbox": document_letters.mailbox,
    "text/rtf": document_letters.rtf,
    "application/vnd.ms-outlook": document_letters.opened(document_letters.message),
    "application/vnd.apache.parquet": document_tables.parquet,
    "application/vnd.apache.arrow.file": document_tables.feather,
    "application/vnd.duckdb": document_tables.duckdb,
    "application/vnd.sqlite3": document_tables.sqlite,
    **dict.fromkeys(("application/x-stata-dta", "application/x-spss-sav", "application/x-sas-data", "application/x-sas-xport"), document_tables.statistics),
    "application/x-ipynb+json": notebook,
    "application/zip": zip_list,
    "application/java-archive": zip_list,
    "application/jar": zip_list,
    "application/x-tar": compressed,
    "application/gzip": compressed,
    "application/x-bzip2": compressed,
    "application/x-xz": compressed,
    "application/zstd": compressed,
}
document_office.READERS = READERS


def read(path, mime, limit):
    reader = READERS.get(mime.removesuffix("-template"))
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
        if reader is document_tables.sheets:
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
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, resource.getrlimit(resource.RLIMIT_AS)[1]))
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
