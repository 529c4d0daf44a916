"""Tests of document.py with the standard library alone: python3 -m unittest. test_document_kinds.py has the rest."""

import base64
import gzip
import io
import json
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zipfile

PROGRAM = pathlib.Path(__file__).with_name("document.py").read_text()
OFFICE = "application/vnd.openxmlformats-officedocument."
WORD = OFFICE + "wordprocessingml.document"
NOTEBOOK = "application/x-ipynb+json"
SLIDES = OFFICE + "presentationml.presentation"
OPEN = "application/vnd.oasis.opendocument."
OPEN_TEXT = OPEN + "text"


def zipped(**files):
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(re.sub("_xml_rels.xml$", ".xml.rels", name.replace("__", "/") + ".xml"), content)
    return made.getvalue()


def word(body):
    return zipped(word__document=f'<w:body xmlns:w="w" xmlns:mc="mc">{body}</w:body>')


class ReadsDocuments(unittest.TestCase):
    def read(self, content, mime, limit=100_000, program=PROGRAM):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "file").write_bytes(content)
            request = {"work_dir": folder, "path": "file", "type": mime, "limit_bytes": limit}
            asked = json.dumps(request) + "\n"
            told = subprocess.run([sys.executable, "-I", "-c", program], input=asked, capture_output=True, text=True, check=True)
        return json.loads(told.stdout)

    def test_what_is_written(self):
        r = "<w:r><w:t>{}</w:t></w:r>".format
        p = "<w:p><w:pPr><w:tabs><w:tab/></w:tabs></w:pPr>{}</w:p>".format
        cell = "<w:tc><w:tcPr/>{}</w:tc>".format
        row = "<w:tr><w:trPr/>{}</w:tr>".format
        box = "<mc:Choice>{0}</mc:Choice><mc:Fallback>{0}</mc:Fallback>".format
        odf = '<o xmlns:text="t"><text:tracked-changes><text:p>gone</text:p></text:tracked-changes>{}</o>'.format
        title = "<text:h>T</text:h><text:p>a<text:s/>b <text:span>c</text:span> d</text:p>"
        aside = (
            "<text:p>a<text:note><text:note-citation>1</text:note-citation><text:note-body><text:p>one</text:p><text:p>two</text:p></text:note-body>"
            '</text:note>b<annotation><creator>A</creator><text:p>c</text:p></annotation><text:s text:c="5"/>d</text:p>'
        )
        slides = zipped(
            ppt__presentation='<p xmlns:r="r"><sldId id="256" r:id="r2"/><sldId id="257" r:id="r1"/><sldId id="258" r:id="gone"/></p>',
            ppt___rels__presentation_xml_rels='<s><r Id="r1" Target="slides/slide1.xml"/><r Id="r2" Target="/ppt/slides/slide2.xml"/></s>',
            ppt__slides__slide1="<p><t>one</t></p>", ppt__slides__slide2="<p><t>two</t></p>", ppt__notesSlides__notesSlide1="<p><t>note</t></p>",
            ppt__notesSlides___rels__notesSlide1_xml_rels='<s><r Id="r1" Target="../notesMasters/n.xml"/><r Id="r2" Target="../slides/slide1.xml"/></s>',
        )
        removed = "<w:del><w:r><w:delText>x</w:delText></w:r></w:del><w:moveFrom>" + r("x") + "</w:moveFrom>"
        table = "<w:tbl>" + row(cell(p(r("a"))) + cell(p(r("b")) + p(r("c")))) + "</w:tbl>"
        for name, content, mime, want in (
            ("runs", word(p(r("one ") + r("two") + "<w:tab/>" + r("three"))), WORD, "one two\tthree\n"),
            ("an empty paragraph", word(p(r("a")) + p("") + p(r("b"))), WORD, "a\n\nb\n"),
            ("a table", word(table), WORD, "a | b c\n"),
            ("removed", word(p(r("a") + removed)), WORD, "a\n"),
            ("a text box", word(p(r("a") + "<w:r>" + box(p(r("b"))) + "</w:r>")), WORD, "a\nb\n"),
            ("OpenDocument", zipped(content=odf(title)), OPEN_TEXT, "T\na b c d\n"),
            ("a table of OpenDocument", zipped(content=odf("<table-row>" + "<table-cell><text:p>a</text:p></table-cell>" * 2 + "</table-row>")), OPEN_TEXT, "a | a\n"),
            ("notes and comments in OpenDocument", zipped(content=odf(aside)), OPEN_TEXT, "a[one two]b[c]     d\n"),
            ("a hyphen that does not break", word(p(r("a") + "<w:r><w:noBreakHyphen/></w:r>" + r("b"))), WORD, "a-b\n"),
            ("slides in their order, with their notes", slides, SLIDES, "--- slide 1 ---\ntwo\n--- slide 2 ---\none\n--- notes of slide 2 ---\nnote\n"),
            ("a gzip file", gzip.compress("é\n".encode() * 50_000), "application/gzip", "é\n" * 33_333),
        ):
            with self.subTest(name):
                answer = self.read(content, mime)
                self.assertEqual(answer.get("text", answer), want)

    def test_cells_of_a_sheet(self):
        def cell(text, repeated=1, **has):
            named = "".join(f' o:{name.replace("_", "-")}="{value}"' for name, value in has.items())
            return f'<t:table-cell t:number-columns-repeated="{repeated}"{named}><p>{text}</p></t:table-cell>'

        def row(*cells, repeated=1):
            return f'<t:table-row t:number-rows-repeated="{repeated}">{"".join(cells)}</t:table-row>'

        empty = '<t:table-cell t:number-columns-repeated="16000"/>'
        rows = (
            row(cell("NA"), cell("None", value_type="string"), cell("#DIV/0!", value_type="error"), empty),
            row(cell("25:30:00", value_type="time", time_value="PT25H30M00S"), cell("12.3 %", value_type="percentage", value="0.123")),
            row(cell("bad", value_type="float", value="x"), cell("1.7.", value_type="date", date_value="2024-07-01T00:00:00")),
            row(cell("a", 2), "<t:table-cell/>", cell("0", value_type="float", value="0"), repeated=2),
            row(empty, repeated=70_000),
            row(cell("far")),
            row(empty, repeated=900_000),
        )
        book = f'<o xmlns:t="urn:oasis:names:tc:opendocument:xmlns:table:1.0" xmlns:o="o"><t:table t:name="A">{"".join(rows)}</t:table></o>'
        want = (
            "--- sheet A ---\nNA,None,#DIV/0!\n25:30:00,0.123\nbad,2024-07-01\na,a,,0\na,a,,0\n[70000 empty rows]\nfar\n"
        )
        answer = self.read(zipped(content=book), OPEN + "spreadsheet")
        self.assertEqual(answer.get("text", answer), want)
        self.assertEqual(self.read(zipped(content=book), OPEN + "spreadsheet", 20)["lines_left"], 7)

    def test_a_notebook_is_its_cells(self):
        picture = base64.b64encode(bytes(3000)).decode()
        outputs = [
            {"output_type": "stream", "name": "stdout", "text": ["one\n", "two\n"]},
            {"output_type": "display_data", "data": {"image/png": picture + "\n", "text/plain": ["<Figure>"]}},
            {"output_type": "execute_result", "data": {"text/html": "<b>x</b>", "text/plain": "x", "a/b+json": {"c": 1}}},
            {"output_type": "display_data", "data": {"application/json": [1, 2, 3]}},
            {"output_type": "error", "ename": "E", "evalue": "e", "traceback": ["\x1b[0;31mE\x1b[0m: e"]},
            {"output_type": "error", "ename": "F", "evalue": "f"},
        ]
        cells = [
            {"cell_type": "markdown", "source": ["# Title\n", f"![](data:image/png;base64,{picture})"]},
            {"cell_type": "code", "source": "x", "execution_count": 4, "outputs": outputs},
            {"cell_type": "code", "source": [], "execution_count": None, "outputs": []},
        ]
        answer = self.read(json.dumps({"cells": cells, "nbformat": 4}).encode(), NOTEBOOK)
        want = (
            "--- cell 1, markdown ---\n# Title\n![]([image/png, 3000 bytes])\n"
            "--- cell 2, code [4] ---\nx\n"
            "--- output of cell 2 ---\none\ntwo\n"
            "--- output of cell 2 ---\n<Figure>\n[image/png, 3000 bytes]\n"
            "--- output of cell 2 ---\nx\n[a/b+json]\n"
            "--- output of cell 2 ---\n[application/json]\n"
            "--- output of cell 2 ---\nE: e\n"
            "--- output of cell 2 ---\nF: f\n"
            "--- cell 3, code ---\n\n"
        )
        self.assertEqual(answer.get("text", answer), want)

    def test_a_notebook_of_an_old_format(self):
        outputs = [
            {"output_type": "stream", "stream": "stdout", "text": "one"},
            {"output_type": "pyout", "prompt_number": 4, "metadata": {}, "text": ["<Figure>"], "png": base64.b64encode(bytes(30)).decode()},
            {"output_type": "pyerr", "ename": "E", "evalue": "e", "traceback": ["E: e"]},
        ]
        sheets = [
            {"cells": [{"cell_type": "heading", "level": 1, "source": ["Title"]}]},
            {"cells": [{"cell_type": "code", "input": ["x"], "prompt_number": 4, "outputs": outputs}]},
        ]
        answer = self.read(json.dumps({"nbformat": 3, "worksheets": sheets}).encode(), NOTEBOOK)
        want = (
            "--- cell 1, heading ---\nTitle\n--- cell 2, code [4] ---\nx\n--- output of cell 2 ---\none\n"
            "--- output of cell 2 ---\n<Figure>\n[image/png, 30 bytes]\n--- output of cell 2 ---\nE: e\n"
        )
        self.assertEqual(answer.get("text", answer), want)

    def test_a_list_shows_names_that_are_no_names(self):
        made = io.BytesIO()
        with tarfile.open(fileobj=made, mode="w") as archive:
            for name in "a\nb", "folder/über":
                archive.addfile(tarfile.TarInfo(name))
        text = self.read(made.getvalue(), "application/x-tar")["text"]
        self.assertEqual([line.split(" ", 3)[-1].split()[-1] for line in text.splitlines()], ["'a\\nb'", "folder/über"])

    def test_what_a_library_prints_is_no_answer(self):
        noisy = "def noisy(path):\n    print('WARNING')\n    os.system('echo more')\n    yield 'text'\nREADERS['x/y'] = noisy\n"
        answer = self.read(b"", "x/y", program=PROGRAM.replace("if __name__", noisy + "if __name__"))
        self.assertEqual(answer, {"text": "text", "complete": True})

    def test_what_cannot_be_read(self):
        encrypted = b"\xd0\xcf\x11\xe0" + "EncryptedPackage".encode("utf-16-le")
        for name, content, mime, want in (
            ("no document", b"text", WORD, "broken"),
            ("another archive", zipped(other="<x/>"), WORD, "broken"),
            ("no notebook", b'{"a": 1}', NOTEBOOK, "broken"),
            ("no XML", zipped(word__document="<x>"), WORD, "broken"),
            ("nested without end", word("<w:x>" * 50_000 + "</w:x>" * 50_000), WORD, "broken"),
            ("a bomb", zipped(word__document=bytes(201 << 20)), WORD, "too_large"),
            ("cut", gzip.compress(b"text" * 1000)[:-10], "application/gzip", "broken"),
            ("no text in it", gzip.compress(bytes(range(256))), "application/gzip", "unsupported"),
            ("another type", b"x", "application/x-npy", "unsupported"),
            ("encrypted", encrypted, "application/x-ole-storage", "encrypted"),
        ):
            with self.subTest(name):
                self.assertEqual(self.read(content, mime).get("error"), want)


if __name__ == "__main__":
    unittest.main()
