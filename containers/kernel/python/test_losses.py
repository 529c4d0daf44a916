"""Tests of losses.py: python3 -m unittest. In the image the libraries that write documents are there."""

import contextlib
import os
import pathlib
import tempfile
import types
import unittest
import zipfile

import losses
from notices import Notices
from test_support import can_import

SHEET = "<w><c><f>A1</f></c><f/><mc:x><x:dataValidation a='1'/></mc:x></w>"
FULL = {
    "xl/worksheets/sheet1.xml": SHEET, "xl/worksheets/sheet2.xml": SHEET, "xl/charts/chart1.xml": "", "xl/charts/chart2.xml": "", "xl/charts/style1.xml": "",
    "xl/workbook.xml": "<w><definedName name='a'/><definedName name='b'/><definedNames></w>", "ppt/notesSlides/notesSlide1.xml": "",
    "ppt/notesSlides/notesSlide2.xml": "", "word/document.xml": "<d><w:ins w:id='1'><w:instrText/></w:ins></d>",
}
LESS = {"xl/worksheets/sheet1.xml": "<c/>", "xl/workbook.xml": "<w>" + "f " * (1 << 20) + "<definedName/></w>"}
LOST = "1 of 2 sheets, 2 charts, 2 pages of notes, 1 of 2 defined names, 4 formulas, 2 data validations, 1 tracked insertion"


def write(path, files):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(name, text)


class Losses(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        self.enterContext(contextlib.chdir(self.folder))
        self.said = []
        self.notices = Notices(types.SimpleNamespace(settings=types.SimpleNamespace(work_dir=self.folder), stderr=types.SimpleNamespace(write=self.said.append)))

    def in_run(self, act, later=0):
        self.notices.begin_run()
        self.notices.begun += later  # the clock of files is coarse
        act()
        self.notices.end_run()
        said, self.said[:] = "".join(self.said), []
        return said

    def test_what_a_document_has_no_more(self):
        class Book:
            def save(self, path, files):
                write(path, files)

        losses.hook(Book, self.notices)
        bomb = {"xl/workbook.xml": "<a/>" * (losses.MOST_BYTES // 4 + 1)}
        names = {f"xl/{n:02000}.xml": "" for n in range(1100)}
        for was, now, lost in ((FULL, FULL, ""), (FULL, LESS, LOST), (LESS, FULL, ""), (FULL, bomb, ""), (bomb, LESS, ""), (FULL, names, "")):
            write("a.xlsx", was)

            def saves(now=now):
                Book().save(path=pathlib.Path("a.xlsx"), files=now)
                Book().save("a.xlsx", now)
                Book().save("new.xlsx", now)
                os.remove("new.xlsx")

            self.assertEqual(self.in_run(saves, 1), lost and f"note: a.xlsx was written again without what it had: {lost}. restore_session brings it back.\n")
        made = self.in_run(lambda: (write("b.xlsx", FULL), Book().save("b.xlsx", LESS)))
        self.assertEqual(made, f"note: b.xlsx was written again without what it had: {LOST}.\n", "a file that the run made itself")
        pathlib.Path("c.xlsx").write_text("no archive")
        self.assertEqual(self.in_run(lambda: Book().save("c.xlsx", LESS)), "")

    @unittest.skipUnless(can_import("xlsxwriter"), "the image has the libraries")
    def test_libraries(self):
        import docx
        import docx.document
        import openpyxl.workbook.workbook
        import pandas as pd
        import pandas.io.excel._base as pandas_base
        import xlsxwriter

        self.notices.kernel.settings.work_dir = "/elsewhere"
        losses.hook(openpyxl.workbook.workbook.Workbook, self.notices)
        losses.hook(pandas_base.ExcelWriter, self.notices, "__init__")
        losses.hook(docx.document.Document, self.notices)

        def make():
            with xlsxwriter.Workbook("a.xlsx") as book:
                sheet = book.add_worksheet("S")
                book.add_worksheet("Other")
                sheet.write_column(0, 0, [1, 2])
                sheet.add_sparkline(5, 5, {"range": "S!A1:A2"})
                chart = book.add_chart({"type": "line"})
                chart.add_series({"values": "=S!$A$1:$A$2"})
                sheet.insert_chart("D1", chart)

        def again():
            openpyxl.load_workbook("a.xlsx").save("a.xlsx")

        def more():
            with pd.ExcelWriter("a.xlsx", engine="openpyxl", mode="a") as writer:
                pd.DataFrame({"x": [1]}).to_excel(writer, sheet_name="New")

        def words():
            docx.Document("a.docx").save("a.docx")

        docx.Document().save("a.docx")
        for act, lost in (
            (again, "1 sparkline"), (more, "1 sparkline"), (lambda: pd.DataFrame({"x": [1]}).to_excel("a.xlsx"), "1 of 2 sheets, 1 chart, 1 sparkline"), (words, ""),
        ):
            make()
            with self.subTest(lost):
                self.assertEqual(self.in_run(act), lost and f"note: a.xlsx was written again without what it had: {lost}.\n")


if __name__ == "__main__":
    unittest.main()
