"""Documents that the libraries of the Python image write, as document.py reads them; elsewhere there is nothing to run."""

import contextlib
import datetime
import gzip
import json
import pathlib
import re
import struct
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zipfile

from test_support import can_import

PROGRAM = pathlib.Path(__file__).with_name("document.py").read_text()
OFFICE, OPEN = "application/vnd.openxmlformats-officedocument.", "application/vnd.oasis.opendocument."
TYPES = {
    "docx": OFFICE + "wordprocessingml.document", "xlsx": OFFICE + "spreadsheetml.sheet", "xlsb": "application/vnd.ms-excel",
    "ods": OPEN + "spreadsheet", "odt": OPEN + "text", "pdf": "application/pdf", "zip": "application/zip", "tar": "application/x-tar",
    "gz": "application/gzip", "bz2": "application/x-bzip2", "xz": "application/x-xz", "zst": "application/zstd",
}


def archive(name, files):
    with zipfile.ZipFile(name, "w", zipfile.ZIP_DEFLATED) as z:
        for path, content in files.items():
            z.writestr(path, content)


def write(name, content):
    pathlib.Path(name).write_bytes(content)


def write_word():
    import docx

    d = docx.Document()
    d.add_heading("Numbers", 1)
    d.add_paragraph("seven – sieben\tand a tab")
    t = d.add_table(rows=2, cols=2)
    for i, cell in enumerate(c for row in t.rows for c in row.cells):
        cell.text = f"cell {i}"
    d.add_paragraph("after the table")
    d.save("a.docx")
    write("broken.docx", pathlib.Path("a.docx").read_bytes()[:3000])
    entities = "".join(f'<!ENTITY a{n} "{"&a%d;" % (n - 1) * 10}">' for n in range(1, 12))
    laughs = '<!DOCTYPE x [<!ENTITY a0 "ha">' + entities + "]><x><p><t>&a11;</t></p></x>"
    archive("laughs.docx", {"word/document.xml": laughs})


def book_of(*rows):
    import openpyxl

    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    return book


def write_sheets():
    import pandas as pd
    from openpyxl.styles import Font

    days = pd.to_datetime(["2024-07-01", "2024-07-02"])
    sales = pd.DataFrame({"city": ["Köln", "Łódź"], "n": [1, 2.5], "day": days})
    for name in "a.xlsx", "a.ods":
        with pd.ExcelWriter(name) as book:
            sales.to_excel(book, sheet_name="Sales", index=False)
            pd.DataFrame().to_excel(book, sheet_name="Empty", index=False)
    book = book_of(("a, b", 1), ("c", 2.0), ("sum", "=SUM(B1:B2)"))
    book.active["F9"].font = Font(bold=True)
    book.save("formula.xlsx")
    book = book_of(("NA", "None", "null", "n/a"), ("#DIV/0!", datetime.timedelta(hours=25.5), True), (3,))
    book.active["A3"].number_format = "yyyy"
    book.active["B60000"] = "far"
    book.create_sheet("Next")["A1"] = "after"
    book.save("seen.xlsx")
    with zipfile.ZipFile("seen.xlsx") as whole:
        parts = {name: whole.read(name) for name in whole.namelist()}
    sheet = "xl/worksheets/sheet1.xml"
    archive("odd.xlsx", {**parts, sheet: re.sub(rb"<v>3</v>", b"<v>x</v>", parts[sheet])})
    archive("bomb.xlsx", {"xl/workbook.xml": bytes(201 << 20)})


def write_binary_sheets():
    def record(kind, data=b""):
        number = bytes([kind]) if kind < 128 else bytes([kind & 127 | 128, kind >> 7])
        return number + bytes([len(data)]) + data

    def wide(text):
        return struct.pack("<I", len(text)) + text.encode("utf-16-le")

    def cell(column, data):
        return struct.pack("<II", column, 0) + data

    def row(number):
        return record(0, struct.pack("<I", number) + bytes(21))

    schema = "http://schemas.openxmlformats.org"
    sheet = f'Id="rId1" Type="{schema}/officeDocument/2006/relationships/worksheet" Target="worksheets/sheet1.bin"'
    sheets = record(143) + record(156, struct.pack("<II", 0, 1) + wide("rId1") + wide("Sums")) + record(144)
    cells = row(0) + record(5, cell(0, struct.pack("<d", 1.5))) + record(3, cell(1, b"\x07"))
    cells += row(2) + record(11, cell(2, b"\x2a" + bytes(10)))
    archive("errors.xlsb", {
        "[Content_Types].xml": f'<Types xmlns="{schema}/package/2006/content-types"/>',
        "xl/_rels/workbook.bin.rels":
            f'<Relationships xmlns="{schema}/package/2006/relationships"><Relationship {sheet}/></Relationships>',
        "xl/workbook.bin": record(131) + sheets + record(132),
        "xl/worksheets/sheet1.bin":
            record(129) + record(148, struct.pack("<4I", 0, 2, 0, 2)) + record(145) + cells + record(146) + record(130),
    })


def write_text():
    from odf import opendocument, text

    o = opendocument.OpenDocumentText()
    o.text.addElement(text.H(outlinelevel=1, text="Title"))
    p = text.P(text="one ")
    p.addElement(text.Span(text="two"))
    p.addText(" three")
    o.text.addElement(p)
    o.save("a.odt")


def write_pdf():
    import pypdf
    from reportlab.pdfgen import canvas

    c = canvas.Canvas("a.pdf")
    for n in 1, 2:
        c.drawString(72, 72, f"page with number {n}")
        c.showPage()
    c.save()
    c = canvas.Canvas("row.pdf")
    for x, cell in (450, "37.96"), (250, "DIRECTOR"), (72, "BAIN, J"):
        c.drawString(x, 700, cell)
    c.acroForm.textfield(name="who", value="Ada", y=600)
    c.acroForm.checkbox(name="paid", checked=True, y=500)
    c.save()
    for name, user in ("open.pdf", ""), ("locked.pdf", "secret"):
        w = pypdf.PdfWriter(clone_from="a.pdf")
        w.encrypt(user, "owner", algorithm="AES-256")
        w.write(name)
    write("broken.pdf", b"%PDF-1.7 and nothing more")


def write_packed():
    import zstandard

    archive("a.zip", {"folder/one.txt": "x" * 1000, "zwei.csv": "a"})
    for end in "tar", "tar.gz", "tar.bz2", "tar.xz":
        with tarfile.open(f"a.{end}", "w:" + end.partition(".")[2]) as tar:
            tar.add("a.zip")
    write("a.tar.zst", zstandard.compress(pathlib.Path("a.tar").read_bytes()))
    write("a.csv.gz", gzip.compress("a,b\n1,ü\n".encode()))
    zst = zstandard.compress(b"a,b\n") + zstandard.compress("1,ü\n".encode())
    write("a.csv.zst", zst)
    write("broken.zst", zst[:-2])


@unittest.skipUnless(can_import("odf"), "the image has the libraries")
class Kinds(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = cls.enterClassContext(tempfile.TemporaryDirectory())
        with contextlib.chdir(cls.folder):
            for make in write_word, write_sheets, write_binary_sheets, write_text, write_pdf, write_packed:
                make()

    def read(self, name):
        request = {"work_dir": self.folder, "path": name, "type": TYPES[name.rpartition(".")[2]], "limit_bytes": 100_000}
        program = [sys.executable, "-I", "-c", PROGRAM]
        told = subprocess.run(program, input=json.dumps(request) + "\n", capture_output=True, text=True, check=True)
        return json.loads(told.stdout)

    def test_what_is_written(self):
        sales = "--- sheet Sales ---\ncity,n,day\nKöln,1,2024-07-01"
        for name, *wanted in (
            ("a.docx", "Numbers\nseven – sieben\tand a tab\ncell 0 | cell 1\ncell 2 | cell 3\nafter the table\n"),
            ("a.xlsx", sales + "\nŁódź,2.5,2024-07-02", "--- sheet Empty ---"),
            ("a.ods", sales, "--- sheet Empty ---"),
            ("seen.xlsx", "NA,None,null,n/a\n#DIV/0!,25:30:00,TRUE\n1900-01-03\n[59996 empty rows]\n,far\n--- sheet Next ---\nafter\n"),
            ("errors.xlsb", "--- sheet Sums ---\n1.5,#DIV/0!\n\n,,#N/A\n"),
            ("odd.xlsx", "TRUE\nx\n"),
            ("formula.xlsx", '--- sheet Sheet ---\n"a, b",1\nc,2\nsum,=SUM(B1:B2)\n'),
            ("a.odt", "Title\none two three\n"),
            ("a.pdf", "--- page 1 ---\npage with number 1\n--- page 2 ---\npage with number 2\n"),
            ("row.pdf", "--- fields of the form ---\nwho: Ada\npaid: Yes\n--- page 1 ---\nBAIN, J  ", " DIRECTOR ", " 37.96\n"),
            ("open.pdf", "page with number 2"),
            ("a.zip", " 1000 ", "folder/one.txt\n", "zwei.csv\n"),
            *((name, "a.zip\n") for name in ("a.tar", "a.tar.gz", "a.tar.bz2", "a.tar.xz", "a.tar.zst")),
            ("a.csv.gz", "a,b\n1,ü\n"),
            ("a.csv.zst", "a,b\n1,ü\n"),
        ):
            with self.subTest(name):
                answer = self.read(name)
                for part in wanted:
                    self.assertIn(part, answer.get("text", str(answer)))

    def test_what_cannot_be_read(self):
        for name, want in (
            ("locked.pdf", "encrypted"), ("broken.docx", "broken"), ("broken.pdf", "broken"), ("broken.zst", "broken"),
            ("laughs.docx", "broken"), ("bomb.xlsx", "too_large"),
        ):
            with self.subTest(name):
                self.assertEqual(self.read(name).get("error"), want)


if __name__ == "__main__":
    unittest.main()
