"""Public collections of documents, as document.py reads them and as other programs do: `make test-documents`.

The folder DOCUMENTS has the files. It prints how many words of the other program's text are lost, doubled and out of order.
"""

import bisect
import collections
import html
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unicodedata
import unittest

PROGRAM = pathlib.Path(__file__).with_name("document.py")
FOLDER = os.environ.get("DOCUMENTS", "")
MOST_FILES, MOST_WORDS = int(os.environ.get("DOCUMENTS_EACH", 60)), 3_000  # of a file, so that no long one counts for all
OFFICE, OPEN = "application/vnd.openxmlformats-officedocument.", "application/vnd.oasis.opendocument."
# Where the other takes the order of the file, as pandoc does, or draws words in pieces.
ALIKE = {"pandoc": {"pptx": 0.9}, "office": {"pptx": 0.8}}
KINDS = {  # the type, and the share of the words that must be there in order
    "docx": (OFFICE + "wordprocessingml.document", 0.97), "pptx": (OFFICE + "presentationml.presentation", 0.97),
    "xlsx": (OFFICE + "spreadsheetml.sheet", 0.97), "odt": (OPEN + "text", 0.97), "epub": ("application/epub+zip", 0.97), "pdf": ("application/pdf", 0.93),
}
BLOCKS = re.compile(r"</?(?:p|div|t[rdh]|li|h\d|br|table|pre|blockquote|section|aside|figure|figcaption|caption|dt|dd|img)\b[^>]*>")


def words(text):
    """Words, joined where a line divides them, and the letters of scripts that have no spaces."""
    joined = re.sub(r"(?<=[^\W\d_])-\n(?=[a-z])", "", unicodedata.normalize("NFKC", text))
    return re.findall(r"[\u3040-\u9fff]|[^\W\u3040-\u9fff]+", joined.casefold())


def by_pandoc(path, kind):
    told = subprocess.run(["pandoc", "-f", kind, "-t", "html", "--mathjax", path], capture_output=True, text=True, timeout=60, check=True)
    body = re.sub(r"(?s)<(script|style)\b.*?</\1>|\[(?:Graphic|Diagram)[^]]*\]", " ", told.stdout)  # pandoc's own words
    return html.unescape(re.sub(r"<[^>]+>", "", BLOCKS.sub(" ", body)))


def by_office(path, kind):
    """LibreOffice's text of a document; of a workbook, that of its sheets."""
    to = {"xlsx": "csv:Text - txt - csv (StarCalc):44,34,76,1,,0,false,true,false,false,false,-1", "pptx": "pdf"}.get(kind, "txt:Text (encoded):UTF8")
    folder = pathlib.Path(os.environ.get("TMPDIR", "/tmp"), "office")
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run(["soffice", "--headless", "--convert-to", to, "--outdir", folder, path], capture_output=True, timeout=120, check=True)
    made = sorted(folder.iterdir())
    if kind == "pptx":
        return subprocess.run(["pdftotext", *made, "-"], capture_output=True, text=True, check=True).stdout
    return "\n".join(file.read_text(errors="replace") for file in made)


def by_slides(path, _):
    """python-pptx's texts, by their places; pandoc takes them as they come in the file."""
    import pptx

    def texts(shapes):
        for shape in sorted(shapes, key=lambda shape: ((shape.top or 0) // 250_000, shape.left or 0)):
            if shape.shape_type == pptx.enum.shapes.MSO_SHAPE_TYPE.GROUP:
                yield from texts(shape.shapes)
            elif shape.has_text_frame:
                yield shape.text_frame.text
            elif shape.has_table:
                yield from (cell.text for row in shape.table.rows for cell in row.cells)

    return "\n".join(text for slide in pptx.Presentation(path).slides for text in texts(slide.shapes))


def by_calamine(path, _):
    import python_calamine

    book = python_calamine.load_workbook(path)
    sheets = (book.get_sheet_by_name(name).to_python() for name in book.sheet_names)
    return "\n".join(str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell) for rows in sheets for row in rows for cell in row)


def by_poppler(path, _):
    """Poppler's text in the order of the file: document.py takes Poppler's alone where a page has tables, as they are laid out."""
    return subprocess.run(["pdftotext", "-raw", path, "-"], capture_output=True, check=True).stdout.decode("utf-8", "replace")


# Never the library that document.py reads a kind with.
OTHERS = {"docx": [by_pandoc], "odt": [by_pandoc], "epub": [by_pandoc], "pptx": [by_slides, by_pandoc], "xlsx": [by_calamine], "pdf": [by_poppler]}
if shutil.which("soffice"):
    for kind in "docx", "odt", "pptx", "xlsx":
        OTHERS[kind].append(by_office)


def in_order(theirs, ours):
    """The length of the longest list of words that both have in the same order."""
    places, ends = collections.defaultdict(list), []
    for at, word in enumerate(ours):
        places[word].insert(0, at)
    for word in theirs:
        for at in places[word]:
            where = bisect.bisect_left(ends, at)
            ends[where : where + 1] = [at]
    return len(ends)


def read(path, mime):
    request = json.dumps({"work_dir": FOLDER, "path": str(path), "type": mime, "limit_bytes": 4 << 20}) + "\n"
    told = subprocess.run([sys.executable, "-I", PROGRAM], input=request, capture_output=True, text=True, check=False)
    return json.loads(told.stdout or '{"error": "too_large"}')


@unittest.skipUnless(FOLDER, "DOCUMENTS names no folder")
class Collections(unittest.TestCase):
    def test_words(self):
        print(f"\n{'kind':6}{'by':12}{'files':>6}{'words':>9}{'lost':>7}{'doubled':>9}{'moved':>7}{'in order':>10}")
        for kind in os.environ.get("DOCUMENTS_KINDS", " ".join(KINDS)).split():
            mime, least = KINDS[kind]
            files = sorted(pathlib.Path(FOLDER).rglob("*." + kind), key=lambda path: (path.name, str(path)))
            files = files[:: max(1, len(files) // MOST_FILES)][:MOST_FILES]
            for other in OTHERS[kind]:
                with self.subTest(kind=kind, by=other.__name__):
                    self.assertGreaterEqual(self.compare(files, kind, mime, other), ALIKE.get(other.__name__[3:], {}).get(kind, least))

    def compare(self, files, kind, mime, other):
        total, refused = collections.Counter(), collections.Counter()
        for path in files:
            try:
                theirs = words(other(path, kind))[:MOST_WORDS]
            except Exception:  # it cannot read the file
                refused["by the other"] += 1
                continue
            answer = read(path, mime)
            if "error" in answer:
                refused[answer["error"]] += 1
                if answer["error"] in ("encrypted", "broken") and not theirs:
                    continue
            ours = words(answer.get("text", ""))[: 2 * MOST_WORDS]
            has, had = collections.Counter(ours), collections.Counter(theirs)
            both = (has & had).total()
            ordered = in_order(theirs, ours)
            total.update(files=1, words=len(theirs), lost=len(theirs) - both, doubled=sum(has[word] - had[word] for word in had if has[word] > had[word]), moved=both - ordered, ordered=ordered)
            if os.environ.get("DOCUMENTS_TELL") and ordered < 0.97 * len(theirs):
                print(f"  {ordered}/{len(theirs)} {path} {answer.get('error', '')} {answer.get('detail', '')} lost: {' '.join((had - has).elements())[:200]}")
        share = total["ordered"] / max(total["words"], 1)
        print(f"{kind:6}{other.__name__[3:]:12}" + "".join(f"{total[name]:>{width}}" for name, width in (("files", 6), ("words", 9), ("lost", 7), ("doubled", 9), ("moved", 7))) + f"{share:>10.2%}", dict(refused) or "")
        return share


if __name__ == "__main__":
    unittest.main()
