"""Documents that the libraries of the Python image write, as document.py reads them; elsewhere there is nothing to run."""

import base64
import contextlib
import datetime
import gzip
import io
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

PROGRAM = pathlib.Path(__file__).with_name("document.py")
OFFICE, OPEN = "application/vnd.openxmlformats-officedocument.", "application/vnd.oasis.opendocument."
TYPES = {
    "docx": OFFICE + "wordprocessingml.document", "xlsx": OFFICE + "spreadsheetml.sheet", "xlsb": "application/vnd.ms-excel",
    "ods": OPEN + "spreadsheet", "odt": OPEN + "text", "pdf": "application/pdf", "zip": "application/zip", "tar": "application/x-tar",
    "parquet": "application/vnd.apache.parquet", "feather": "application/vnd.apache.arrow.file", "sqlite": "application/vnd.sqlite3",
    "duckdb": "application/vnd.duckdb", "gz": "application/gzip", "bz2": "application/x-bzip2", "xz": "application/x-xz", "zst": "application/zstd",
    "eml": "message/rfc822", "msg": "application/vnd.ms-outlook", "ots": OPEN + "spreadsheet-template", "odg": OPEN + "graphics", "doc": "application/msword",
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
    write("a.ots", pathlib.Path("a.ods").read_bytes())
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
    write("a.odg", pathlib.Path("a.odt").read_bytes())


def write_pdf():
    import pypdf
    from reportlab.pdfbase import pdfmetrics
    from reportlab.pdfbase.ttfonts import TTFont
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
    c = canvas.Canvas("divided.pdf")
    for y, line in (90, "a line di-"), (76, "vides, and Anna-"), (62, "Lena"):
        c.drawString(72, y, line)
    c.save()
    for name, user in ("open.pdf", ""), ("locked.pdf", "secret"):
        w = pypdf.PdfWriter(clone_from="a.pdf")
        w.encrypt(user, "owner", algorithm="AES-256")
        w.write(name)
    write("broken.pdf", b"%PDF-1.7 and nothing more")
    pdfmetrics.registerFont(TTFont("DejaVu", "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf"))
    c = canvas.Canvas("turned.pdf", pagesize=(400, 600))
    c.setPageRotation(90)
    c.translate(100, 100)
    c.rotate(90)
    for x, cell in (0, "left"), (200, "right"):
        c.drawString(x, 0, cell)
        c.drawString(x, -30, cell + "er")
    c.showPage()
    c.setPageRotation(0)
    c.setFont("DejaVu", 12)
    c.drawString(72, 500, "םולש")
    c.save()


def write_invoice():
    import matplotlib
    import pypdf
    from PIL import Image
    from reportlab.pdfbase import pdfmetrics
    from reportlab.pdfbase.ttfonts import TTFont
    from reportlab.pdfgen import canvas

    pdfmetrics.registerFont(TTFont("Sans", matplotlib.get_data_path() + "/fonts/ttf/DejaVuSans.ttf"))
    Image.new("RGB", (600, 800), "gray").save("gray.png")
    c = canvas.Canvas("scans.pdf")
    for text, is_scan in ("one", False), ("", True), ("", False), ("7", True), ("\ufb01ve \ufb04", False):
        c.setFont("Sans", 12)
        if is_scan:
            c.drawImage("gray.png", 0, 0)
        c.drawString(72, 700, text)
        c.showPage()
    c.save()
    c = canvas.Canvas("arabic.pdf")
    c.setFont("Sans", 14)
    for n in range(8):
        for at, text in (60, "\ufee3\ufeae\ufea3\ufe92\ufe8e"[::-1]), (250, str(100 + n)), (420, "\ufb01ve"):
            c.drawString(at, 750 - 25 * n, text)
    c.acroForm.checkbox(name="smoker", checked=False)
    c.acroForm.choice(name="size", options=[("large", "2"), ("small", "1")], value="2")
    c.save()
    writer = pypdf.PdfWriter(clone_from="a.pdf")
    writer.add_attachment("factur-x.xml", b"<invoice/>")
    writer.add_attachment("files/a.txt", b"a")
    writer.write("an invoice.pdf")


def write_tables():
    import sqlite3

    import duckdb
    import openpyxl
    import pandas as pd
    from openpyxl.comments import Comment

    book = book_of(("q", "n"), ("Q1", 1), ("Q2", 2))
    book.active.row_dimensions[2].hidden = book.active.column_dimensions["C"].hidden = True
    book.active["A1"].comment = Comment("why?", "Ada")
    chart = openpyxl.chart.BarChart()
    chart.title = "Sales"
    chart.add_data(openpyxl.chart.Reference(book.active, min_col=2, min_row=1, max_row=3), titles_from_data=True)
    book.active.add_chart(chart, "E5")
    book.create_sheet("Past").sheet_state = "hidden"
    book.save("besides.xlsx")
    frame = pd.DataFrame({"n": [1, None], "at": pd.to_datetime(["2026-01-02 03:04:05.000000006"] * 2)})
    frame.to_parquet("a.parquet")
    frame.to_feather("a.feather")
    with contextlib.closing(sqlite3.connect("a.sqlite")) as con, con:
        con.execute("create table orders(id integer primary key, name, photo blob)")
        con.executemany("insert into orders(name, photo) values (?, ?)", [("Ada", b"xyz")] * 12)
    with duckdb.connect("a.duckdb") as con:
        con.execute("create schema s; create table s.t as select 'POINT(1 2)'::geometry as g")


def write_packed():
    import zstandard

    archive("a.zip", {"folder/one.txt": "x" * 1000, "zwei.csv": "a"})
    for end in "tar", "tar.gz", "tar.bz2", "tar.xz":
        with tarfile.open(f"a.{end}", "w:" + end.partition(".")[2]) as tar:
            tar.add("a.zip")
    write("a.tar.zst", zstandard.compress(pathlib.Path("a.tar").read_bytes()))
    write("a.eml", "Subject: Счёт\n\nСегодня мы отправляем вам счёт за ноябрь".encode("cp1251"))
    write("a.csv.gz", gzip.compress("a,b\n1,ü\n".encode()))
    zst = zstandard.compress(b"a,b\n") + zstandard.compress("1,ü\n".encode())
    write("a.csv.zst", zst)
    write("broken.zst", zst[:-2])


def compound(tree):
    """A compound file of Microsoft, with dicts for folders."""
    entries, sectors, table = [], [], []

    def add(data):
        start, count = len(sectors), -(-len(data) // 512)
        sectors.extend(data[at : at + 512].ljust(512, b"\0") for at in range(0, len(data), 512))
        table.extend([*range(start + 1, start + count), -2] if count else ())
        return start if count else -2

    def enter(name, content, kind):
        at, held = len(entries), isinstance(content, dict)
        entries.append(None)
        children = [enter(each, content[each], 1 if isinstance(content[each], dict) else 2) for each in content] if held else []
        for child, after in zip(children, children[1:]):
            entries[child][2] = after
        entries[at] = [name, kind, -1, children[0] if children else -1, -2 if held else add(content), 0 if held else len(content)]
        return at

    enter("Root Entry", tree, 5)
    wide = [(name.encode("utf-16-le").ljust(64, b"\0"), 2 * len(name) + 2, *rest) for name, *rest in entries]
    first = add(b"".join(name + struct.pack("<HBBiii36xiii", size, kind, 1, -1, right, child, start, length, 0) for name, size, kind, right, child, start, length in wide))
    count = -(-len(table) // 127)
    rows, places = table + [-3] * count, [len(table) + at for at in range(count)]
    head = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + struct.pack("<16xHHHHH6x9i", 62, 3, 0xFFFE, 9, 6, 0, count, first, 0, 0, -2, 0, -2, 0)
    head += struct.pack("<109i", *places, *[-1] * (109 - count))
    return head + b"".join(sectors) + struct.pack(f"<{count * 128}i", *rows, *[-1] * (count * 128 - len(rows)))


def write_messages():
    def said(number, text):
        return {f"__substg1.0_{number}001F": text.encode("utf-16-le")}

    def packed(rtf):
        pieces = b"".join(b"\0" + rtf[at : at + 8] for at in range(0, len(rtf), 8))
        return {"__substg1.0_10090102": struct.pack("<IIII", len(pieces) + 12, len(rtf), 0x75465A4C, 0) + pieces}

    times = {number: struct.pack("<HHIQ", 0x40, number, 6, 134_000_000_000_000_000) for number in (0x39, 0x3007)}
    inner = {"__properties_version1.0": bytes(24) + times[0x3007], **said("0037", "Offer"), **packed(rb"{\rtf1\ansi\ansicpg1251 \'ce\'eb\'e5\'e3}")}
    page = packed(rb"{\rtf1\ansi\fromhtml1{\*\htmltag64 <p>}one{\*\htmltag72 </p><p>}two}")
    write("many.msg", compound({
        "__properties_version1.0": bytes(32) + times[0x3007] + times[0x39], **said("0C1A", "Ann"), **said("0C1F", "ann@field.test"), **page,
        **{f"__recip_version1.0_#{n:08X}": said("3001", f"Person {n}") for n in range(300)}, **said("0037", "Fwd"),
        "__attach_version1.0_#00000000": {**said("3001", "Offer"), "__substg1.0_3701000D": inner},
        "__attach_version1.0_#00000001": {**said("3707", "a.txt"), "__substg1.0_37010102": b"text"},
    }))


@unittest.skipUnless(can_import("odf"), "the image has the libraries")
class Kinds(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = cls.enterClassContext(tempfile.TemporaryDirectory())
        with contextlib.chdir(cls.folder):
            for make in write_word, write_sheets, write_binary_sheets, write_text, write_pdf, write_invoice, write_tables, write_packed, write_messages:
                make()

    def test_a_picture_is_one_that_clients_take(self):
        from PIL import Image

        for kind, made, pages in (
            ("tiff", [Image.new("CMYK", (30, 20)), Image.new("L", (9, 9))], 2), ("bmp", [Image.new("1", (9, 9))], 1), ("tif", [Image.linear_gradient("L").convert("F")], 1),
        ):
            with self.subTest(kind):
                made[0].save(pathlib.Path(self.folder, "p." + kind), **({"save_all": True, "append_images": made[1:]} if pages > 1 else {}))
                answer = self.read("p." + kind, PROGRAM.with_name("pictures.py"))
                shown = Image.open(io.BytesIO(base64.b64decode(answer["text"])))
                self.assertEqual((shown.format, shown.size, answer["lines_left"]), ("PNG", made[0].size, pages - 1))
                self.assertTrue(kind != "tif" or len(shown.convert("L").getcolors()) > 200)

    def read(self, name, program=PROGRAM):
        request = {"work_dir": self.folder, "path": name, "type": TYPES.get(name.rpartition(".")[2], "image/x"), "limit_bytes": 100_000}
        told = subprocess.run([sys.executable, "-I", program], input=json.dumps(request) + "\n", capture_output=True, text=True, check=True)
        return json.loads(told.stdout)

    def test_what_is_written(self):
        sales = "--- sheet Sales ---\ncity,n,day\nKöln,1,2024-07-01"
        for name, *wanted in (
            ("a.docx", "Numbers\nseven – sieben\tand a tab\ncell 0 | cell 1\ncell 2 | cell 3\nafter the table\n"),
            ("a.xlsx", sales + "\nŁódź,2.5,2024-07-02", "--- sheet Empty ---"),
            ("a.ods", sales, "--- sheet Empty ---"),
            ("seen.xlsx", "NA,None,null,n/a\n#DIV/0!,25:30:00,TRUE\n1900-01-03\n[59996 empty rows]\n,far\n--- sheet Next ---\nafter\n"),
            ("errors.xlsb", "--- sheet Sums ---\n1.5\n"),
            ("odd.xlsx", "TRUE\nx\n"),
            ("formula.xlsx", '--- sheet Sheet ---\n"a, b",1\nc,2\nsum,=SUM(B1:B2)\n'),
            ("a.odt", "Title\none two three\n"),
            ("a.pdf", "--- page 1 ---\npage with number 1\n--- page 2 ---\npage with number 2\n"),
            ("row.pdf", "--- fields of the form ---\nwho: Ada\npaid: Yes\n--- page 1 ---\n", "BAIN, J   DIRECTOR   37.96\n"),
            (
                "scans.pdf",
                "one\n--- page 2 ---\n\n[a picture without text: pdftoppm -f 2 -l 2 -r 100 -png scans.pdf page draws it]\n--- page 3 ---\n\n"
                "--- page 4 ---\n7\n[most of this page is a picture without text]\n--- page 5 ---\nfive ffl\n",
            ),
            ("arabic.pdf", "smoker: Off\nsize: large\n", "مرحبا", " 107 ", " five\n"),
            ("an invoice.pdf", "--- attached files ---\nfactur-x.xml\nfiles/a.txt\n[mkdir -p output output/files && pdfdetach -saveall -o output 'an invoice.pdf' saves them]\n--- page 1 ---\n"),
            ("divided.pdf", "a line divides, and Anna-Lena\n"),
            ("open.pdf", "page with number 2"),
            ("turned.pdf", "left     right\n\nlefter   righter\n--- page 2 ---\n", "שלום"),
            ("besides.xlsx", "Q2,2\n[hidden rows: 2]\n[hidden columns: C]\n[comment at A1, Ada: why?]\n[chart: Sales]\n | 'Sheet'!B1\n", "--- sheet Past (hidden) ---"),
            ("a.parquet", "--- a.parquet: 2 rows ---\nn DOUBLE, at TIMESTAMP_NS\nn,at\n1.0,2026-01-02 03:04:05.000000006\n,2026"),
            ("a.feather", "--- a.feather: 2 rows ---\nn double, at timestamp[ns]\nn,at\n1,2026-01-02 03:04:05.000000006\n"),
            ("a.sqlite", "--- orders: 12 rows ---\nid INTEGER, name, photo BLOB\nid,name,photo\n1,Ada,[3 bytes]\n"),
            ("a.duckdb", "--- s.t: 1 row ---\ng GEOMETRY\ng\nPOINT (1 2)\n"),
            ("a.zip", " 1000 ", "folder/one.txt\n", "zwei.csv\n"),
            *((name, "a.zip\n") for name in ("a.tar", "a.tar.gz", "a.tar.bz2", "a.tar.xz", "a.tar.zst")),
            ("a.eml", "Subject: Счёт\n\nСегодня мы"),
            ("many.msg", "From: Ann <ann@field.test>\nDate: Mon, 18 Aug 2025 14:13:20 +0000\nSubject: Fwd\n\none\ntwo\n[attached: Offer, a letter]\n"
             "[attached: a.txt, a file, 4 bytes]\n--- letter Offer ---\nDate: Mon, 18 Aug 2025 14:13:20 +0000 (created)\nSubject: Offer\n\nОлег\n"),
            ("a.ots", sales),
            ("a.odg", "Title\none two three\n"),
            ("a.csv.gz", "a,b\n1,ü\n"),
            ("a.csv.zst", "a,b\n1,ü\n"),
        ):
            with self.subTest(name):
                answer = self.read(name)
                for part in wanted:
                    self.assertIn(part, answer.get("text", str(answer)))

    def test_the_way_to_pictures_and_attached_files(self):
        for name in "scans.pdf", "an invoice.pdf":
            told = re.search(r"\[(?:.*: )?((?:mkdir|pdftoppm) .*) (?:draws|saves) ", self.read(name)["text"])[1]
            subprocess.run(told, shell=True, check=True, cwd=self.folder)
        self.assertTrue(pathlib.Path(self.folder, "page-2.png").exists())
        self.assertEqual(pathlib.Path(self.folder, "output", "factur-x.xml").read_text(), "<invoice/>")

    def test_what_cannot_be_read(self):
        for name, want in (
            ("locked.pdf", "encrypted"), ("broken.docx", "broken"), ("broken.pdf", "broken"), ("broken.zst", "broken"),
            ("laughs.docx", "broken"), ("no.doc", "unsupported"), ("bomb.xlsx", "too_large"),
        ):
            with self.subTest(name):
                self.assertEqual(self.read(name).get("error"), want)


if __name__ == "__main__":
    unittest.main()
