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
    "xls": "application/vnd.ms-excel", "arrow": "application/vnd.apache.arrow.file", "dta": "application/x-stata-dta",
    "sav": "application/x-spss-sav", "xpt": "application/x-sas-xport",
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
    archive("none.xlsb", {"xl/workbook.bin": b""})
    archive("none.ods", {"content.xml": "<a/>"})


def write_three_sheets():
    """Sheets of other sizes in each kind, with numbers that their formats show, an error, a hidden row and column, a comment, a chart."""
    import openpyxl
    from openpyxl.comments import Comment

    book = book_of((0.653, 12, 6.02214076e23, 0.1 + 0.2))
    book.active.title = "One"
    for cell, form in zip(book.active[1], ("0.0%", "000000", "General", "General")):
        cell.number_format = form
    for sheet, rows in (book.create_sheet("Two"), 2), (book.create_sheet("Three"), 3):
        for row in range(rows):
            sheet.append([sheet.title] * (row + 1))
    book.create_chartsheet("Drawn").add_chart(openpyxl.chart.BarChart())
    book["Three"]["A1"].comment = Comment("why?", "Ada")
    book.save("three.xlsx")
    with zipfile.ZipFile("three.xlsx") as whole:
        parts = {name: whole.read(name) for name in whole.namelist()}
    archive("strict.xlsx", {name: re.sub(rb"http://schemas.openxmlformats.org/(\w+)/2006/", rb"http://purl.oclc.org/ooxml/\1/", parts[name]) for name in parts})

    def cells(*found):
        return "<table:table-row{}>" + "".join(f"<table:table-cell office:value-type='{kind}' {has}><text:p>{text}</text:p></table:table-cell>" for kind, has, text in found) + "</table:table-row>"

    def sheet(name, columns, *rows):
        return f"<table:table table:name='{name}'>{columns}{''.join(rows)}</table:table>"

    numbers = ("percentage", "office:value='0.653'", "65%"), ("float", "office:value='12'", "000012"), ("float", "office:value='6.02214076E23'", "6E+23")
    more = ("float", "office:value='0'", "#DIV/0!"), ("time", "office:time-value='PT25H30M00S'", "25:30"), ("date", "office:date-value='2026-01-02'", "2.1.26")
    note = "<office:annotation><dc:creator>Ada</dc:creator><text:p>why?</text:p></office:annotation>"
    hidden = " table:visibility='collapse'"
    names = "".join(f" xmlns:{name}='urn:{name}'" for name in ("office", "table", "text", "dc"))
    columns = f"<table:table-column/><table:table-column table:number-columns-repeated='2'{hidden}/>"
    two = cells(("string", "", "<text:span>Two</text:span>")).replace("<text:p>", note + "<text:p>", 1)
    archive("three.ods", {"content.xml": f"<office:document{names}>" + sheet("One", columns, cells(*numbers).format(""), cells(*more).format(hidden))
        + sheet("Two", "", two.format(" table:number-rows-repeated='2'")) + sheet("Three", "", cells(("string", "", "Three")).format("")) + "</office:document>"})


def write_old_sheets():
    def record(kind, *data):
        joined = b"".join(data)
        return struct.pack("<HH", kind, len(joined)) + joined

    def begin(kind):
        return record(0x809, struct.pack("<HHHH", 0x500, kind, 0, 0))

    def cell(kind, row, column, form, data):
        return record(kind, struct.pack("<HHH", row, column, form), data)

    def label(row, text):
        return cell(0x204, row, 0, 0, struct.pack("<H", len(text)) + text)

    # The last format, 31, is a date of East Asia, without a string.
    forms = b"".join(record(0x31, struct.pack("<HHHHHBBBBB", 200, 0, 0, 400, 0, 0, 0, 0, 0, 1), b"A") for _ in range(5))
    forms += record(0x41E, struct.pack("<HB", 164, 6), b"000000") + b"".join(record(0xE0, struct.pack("<HHHHHHHH", 0, form, 1, 0, 0, 0, 0, 0)) for form in (0, 10, 164, 31))
    numbers = b"".join(cell(0x203, 0, form, form, struct.pack("<d", value)) for form, value in enumerate((6.02214076e23, 0.653, 12, 46024)))
    hidden = record(0x208, struct.pack("<HHHHHHHH", 0, 0, 4, 255, 0, 0, 0x120, 0)) + record(0x7D, struct.pack("<HHHHHH", 2, 3, 2000, 0, 1, 0))
    sheets = {b"One": hidden + numbers + cell(0x205, 1, 0, 0, b"\x07\x01"), b"Two": label(0, b"Two") + label(1, b"Two"), b"Three": label(0, b"Three")}
    bodies = [begin(0x10) + body + record(0x0A) for body in sheets.values()]
    at = len(begin(5) + forms) + sum(len(name) + 11 for name in (*sheets, b"Drawn")) + 4
    listed = b""
    for name, body in zip(sheets, bodies):
        listed += record(0x85, struct.pack("<IBBB", at, 0, 0, len(name)), name)
        at += len(body)
    listed += record(0x85, struct.pack("<IBBB", at, 0, 2, 5), b"Drawn")
    write("three.xls", begin(5) + forms + listed + record(0x0A) + b"".join(bodies))


def write_binary_sheets():
    def record(kind, data=b""):
        number = bytes([kind]) if kind < 128 else bytes([kind & 127 | 128, kind >> 7])
        return number + bytes([len(data)]) + data

    def wide(text):
        return struct.pack("<I", len(text)) + text.encode("utf-16-le")

    def cell(column, data, style=0):
        return struct.pack("<II", column, style) + data

    def row(number, flags=0):
        return record(0, struct.pack("<IIHBB", number, 0, 0, 0, flags))

    def relations(*links):
        found = "".join(f'<Relationship Id="rId{at}" Type="{schema}/officeDocument/2006/relationships/{kind}" Target="{target}"/>' for at, (kind, target) in enumerate(links))
        return f'<Relationships xmlns="{schema}/package/2006/relationships">{found}</Relationships>'

    schema, names = "http://schemas.openxmlformats.org", ("One", "Two", "Three", "Drawn")
    links = [("worksheet", f"worksheets/sheet{at}.bin") for at in range(3)] + [("chartsheet", "chartsheets/sheet3.bin"), ("styles", "styles.bin"), ("sharedStrings", "strings.bin")]
    one = record(60, struct.pack("<IIIIH", 1, 2, 0, 0, 1)) + row(0) + record(5, cell(0, struct.pack("<d", 0.653), 1)) + record(2, cell(1, struct.pack("<i", 12 << 2 | 2), 2))
    one += record(5, cell(2, struct.pack("<d", 6.02214076e23))) + row(2, 16) + record(3, cell(1, b"\x07")) + record(11, cell(2, b"\x2a" + bytes(10))) + record(4, cell(3, b"\1"))
    two = b"".join(row(at) + record(7, cell(0, struct.pack("<I", 0))) for at in range(2))
    archive("three.xlsb", {
        "xl/_rels/workbook.bin.rels": relations(*links),
        "xl/workbook.bin": b"".join(record(156, struct.pack("<II", 0, at) + wide(f"rId{at}") + wide(name)) for at, name in enumerate(names)),
        "xl/worksheets/sheet0.bin": one, "xl/worksheets/sheet1.bin": two, "xl/worksheets/sheet2.bin": row(0) + record(6, cell(0, wide("Three"))),
        "xl/worksheets/_rels/sheet1.bin.rels": relations(("comments", "../comments1.bin")),
        "xl/comments1.bin": record(632, wide("Ada")) + record(635, struct.pack("<IIIII", 0, 1, 1, 0, 0)) + record(637, b"\0" + wide("why?")),
        "xl/strings.bin": record(19, b"\0" + wide("Two")),
        "xl/styles.bin": record(44, struct.pack("<H", 164) + wide("000000")) + record(47, bytes(16)) + record(617) + b"".join(record(47, struct.pack("<HH", 0, form) + bytes(12)) for form in (0, 10, 164)),
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
    import numpy as np
    import openpyxl
    import pandas as pd
    import pyarrow.ipc
    import pyreadstat
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
    pd.DataFrame([range(5000)], columns=map(str, range(5000))).to_parquet("wide.parquet")
    with contextlib.closing(sqlite3.connect("a.sqlite")) as con, con:
        con.execute("create table orders(id integer primary key, name, photo blob)")
        con.executemany("insert into orders(name, photo) values (?, ?)", [("Ada", b"xyz")] * 12)
    with contextlib.closing(sqlite3.connect("parts.sqlite")) as con, con:
        con.executescript("create table made(n int, twice int as (n * 2), note text); insert into made values(1, 'x'); create table gone(x);"
            "create view lost as select * from gone; drop table gone; create table zoo(animal); pragma writable_schema = 1;"
            "insert into sqlite_master values('table', 'areas', 'areas', 0, 'create virtual table areas using FieldModule()')")
    write("gone.csv", b"a\n1\n")
    with duckdb.connect("parts.duckdb") as con:
        con.execute("create view lost as from 'gone.csv'; create table zoo as select 1 as n")
    pathlib.Path("gone.csv").unlink()
    with pyarrow.ipc.new_stream("a.arrow", pyarrow.schema({"n": pyarrow.int64()})) as stream:
        stream.write_table(pyarrow.table({"n": range(12)}), max_chunksize=5)
    frame = pd.DataFrame({"city": ["Oslo", "Bergen"], "n": [1, None], "small": np.array([5.1, 2], "float32")})
    about = {"column_labels": ["Town", None, None], "variable_value_labels": {"n": {1: "one"}}}
    frame.to_stata("a.dta", write_index=False, variable_labels={"city": "Town"}, value_labels=about["variable_value_labels"])
    pyreadstat.write_sav(frame.astype({"small": "float64"}).round(2), "a.sav", **about)
    pyreadstat.write_xport(frame.rename(columns=str.upper).astype({"SMALL": "float64"}).round(2), "a.xpt", column_labels=["Town", None, None])
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
            for make in write_word, write_sheets, write_three_sheets, write_old_sheets, write_binary_sheets, write_text, write_pdf, write_invoice, write_tables, write_packed, write_messages:
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
            *((name, "--- sheet One ---\n65.3%,000012,6.02214076e23,0.3\n--- sheet Two ---\nTwo\nTwo,Two\n--- sheet Three ---\nThree\nThree,Three\n"
                "Three,Three,Three\n[comment at A1, Ada: why?]\n--- sheet Drawn (chart) ---\n[chart: ]\n") for name in ("three.xlsx", "strict.xlsx")),
            ("three.xlsb", "--- sheet One ---\n65.3%,000012,6.02214076e23\n\n,#DIV/0!,#N/A,TRUE\n[hidden rows: 3]\n[hidden columns: B-C]\n"
                "--- sheet Two ---\nTwo\nTwo\n[comment at A2, Ada: why?]\n--- sheet Three ---\nThree\n--- sheet Drawn (chart) ---\n"),
            ("three.xls", "--- sheet One ---\n6.02214076e23,65.3%,000012,2026-01-02\n#DIV/0!\n[hidden rows: 1]\n[hidden columns: C-D]\n"
                "--- sheet Two ---\nTwo\nTwo\n--- sheet Three ---\nThree\n--- sheet Drawn (chart) ---\n"),
            ("three.ods", "--- sheet One ---\n65.3%,000012,6.02214076e23\n#DIV/0!,25:30:00,2026-01-02\n[hidden rows: 2]\n[hidden columns: B-C]\n"
                "--- sheet Two ---\nTwo\nTwo\n[comment at A1, Ada: why?]\n--- sheet Three ---\nThree\n"),
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
            ("a.arrow", "--- a.arrow: 12 rows ---\nn int64\nn\n0\n1\n"),
            ("a.dta", "--- a.dta: 2 rows ---\ncity %6s (Town), n %10.0g, small %9.0g\ncity,n,small\nOslo,1,5.1\nBergen,,2\n[values of n: 1 one]\n"),
            ("a.sav", "--- a.sav: 2 rows ---\ncity A6 (Town), n F8.2, small F8.2\ncity,n,small\nOslo,1,5.1", "[values of n: 1 one]\n"),
            ("a.xpt", "--- a.xpt: 2 rows ---\nCITY (Town), N, SMALL\nCITY,N,SMALL\nOslo,1,5.1\nBergen,,2\n"),
            ("parts.sqlite", "--- made: 1 row ---\nn INT, twice INT, note TEXT\nn,twice,note\n1,2,x\n", "[lost cannot be read: OperationalError: no such table: main.gone]\n",
                "[areas cannot be read: OperationalError: no such module: FieldModule]\n", "--- zoo: 0 rows ---"),
            ("parts.duckdb", "[lost cannot be read: IOException: ", "--- zoo: 1 row ---\n"),
            ("a.feather", "--- a.feather: 2 rows ---\nn double, at timestamp[ns]\nn,at\n1,2026-01-02 03:04:05.000000006\n"),
            ("a.sqlite", "--- orders: 12 rows ---\nid INTEGER, name, photo BLOB\nid,name,photo\n1,Ada,[3 bytes]\n"),
            ("wide.parquet", "--- wide.parquet: 1 row ---\n", ",4998,4999\n"),
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
            ("none.xlsb", "broken"), ("none.ods", "broken"),
        ):
            with self.subTest(name):
                self.assertEqual(self.read(name).get("error"), want)


if __name__ == "__main__":
    unittest.main()
