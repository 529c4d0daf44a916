"""A note of the parts that an office document loses as a library writes it again: libraries drop what they do not know, without a word."""

import fnmatch
import functools
import os
import re
import time
import zipfile

MOST_BYTES = 64 << 20  # of a document, packed and unpacked
MOST_LISTED = 2 << 20  # bytes of an archive's list
END_BYTES, LONG_END = 22 + (64 << 10), b"PK\6\7"  # the end of an archive with its comment, and the mark of one of over 4 GB
MOST_TAG = 64  # bytes of an element's name
SECONDS = 2  # for a look at a document
MOST_NAMED = 5  # documents of a run

# Files of these patterns are parts of a document, or elements in them are, each with its name.
FILES = {
    "xl/worksheets/sheet*.xml": "sheet", "ppt/slides/slide*.xml": "slide", "*/charts/chart*.xml": "chart", "xl/pivotTables/*.xml": "pivot table",
    "xl/tables/*.xml": "table", "*/media/*": "picture", "*/diagrams/data*.xml": "SmartArt graphic", "*/embeddings/*": "embedded file",
    "xl/slicers/*.xml": "slicer", "*/vbaProject.bin": "macro project", "ppt/notesSlides/*.xml": "page of notes", "word/header*.xml": "header",
    "word/footer*.xml": "footer",
}
ELEMENTS = {
    "xl/workbook.xml": {"definedName": "defined name"},
    "xl/worksheets/sheet*.xml":
        {"f": "formula", "dataValidation": "data validation", "cfRule": "conditional format", "sparkline": "sparkline", "hyperlink": "link"},
    "xl/comments*.xml": {"comment": "comment"},  # those in a folder of this name too
    "ppt/comments/*.xml": {"cm": "comment"},
    "word/comments.xml": {"comment": "comment"},
    "word/document.xml":
        {"ins": "tracked insertion", "del": "tracked deletion", "oMath": "formula", "sdt": "content control", "bookmarkStart": "bookmark"},
    "word/footnotes.xml": {"footnote": "footnote"},
}


def count(path):
    """How many of each part a document has; None: it is no document, or too large."""
    try:
        with open(path, "rb") as file:
            size, until = os.fstat(file.fileno()).st_size, time.monotonic() + SECONDS
            file.seek(max(0, size - END_BYTES))
            tail = file.read()
            listed = tail[tail.rindex(b"PK\5\6") + 12 :][:4]
            if size > MOST_BYTES or LONG_END in tail or int.from_bytes(listed, "little") > MOST_LISTED:
                return None
            return parts(zipfile.ZipFile(file), until)
    except Exception:
        return None


def parts(archive, until):
    counts, left = dict.fromkeys([*FILES.values(), *(name for names in ELEMENTS.values() for name in names.values())], 0), MOST_BYTES
    for info in archive.infolist():
        for pattern, name in FILES.items():
            counts[name] += fnmatch.fnmatchcase(info.filename, pattern)
        for pattern, names in ELEMENTS.items():
            if not fnmatch.fnmatchcase(info.filename, pattern) or info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                continue
            tags, rest = re.compile(rb"<(?:(?!xm:)[\w.-]+:)?(%s)[\s/>]" % "|".join(names).encode()), b""
            with archive.open(info) as content:
                while piece := content.read(1 << 20):
                    left -= len(piece)
                    if left < 0 or time.monotonic() > until:
                        return None
                    text = rest + piece
                    last = text.rfind(b"<")
                    rest = text[last : last + MOST_TAG]
                    for tag in tags.finditer(text, 0, max(last, 0)):
                        counts[names[tag[1].decode()]] += 1
    return counts


def gone(was, now):
    """Names the parts of which there are fewer, such as "2 charts" or "1 of 3 defined names"."""
    for name, had in was.items() if was and now else ():
        if now[name] < had:
            some = f"{had - now[name]} of {had}" if now[name] else str(had)
            yield f"{some} {name if had == 1 else 's of '.join(name.split(' of ')) + 's' * (' of ' not in name)}"


def hook(kind, notices, first="save"):
    """Compares a file before a method of a kind with the file at the end of the run."""
    original = getattr(kind, first)

    @functools.wraps(original)
    def watched(self, *args, **kwargs):
        file = next(iter((*args, *kwargs.values())), None)
        file = os.fsdecode(file) if isinstance(file, (str, bytes, os.PathLike)) else ""
        path, work_dir = os.path.abspath(file), os.path.join(notices.kernel.settings.work_dir, "")
        key = ("written again", path)
        if notices.holds and os.path.isfile(path) and key not in notices.held and sum(other[:1] == key[:1] for other in notices.held) < MOST_NAMED:
            was, kept = count(path), path.startswith(work_dir) and os.stat(path).st_ctime < notices.begun

            def form(_):
                lost = ", ".join(gone(was, count(path)))
                back = " restore_session brings it back." if kept else ""
                return f"note: {file} was written again without what it had: {lost}.{back}\n" if lost else ""

            notices.at_end(key, form)
        return original(self, *args, **kwargs)

    setattr(kind, first, watched)
