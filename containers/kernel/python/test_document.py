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

PROGRAM = pathlib.Path(__file__).with_name("document.py")
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


def part(kind, text, place="", coding="8bit"):
    head = f"Content-Type: {kind}; charset=utf-8\nContent-Transfer-Encoding: {coding}\n"
    return head + (f"Content-Disposition: {place}\n" if place else "") + "\n" + text


def mixed(*parts, kind="mixed"):
    end = f"x{abs(hash(parts))}"
    return f"Content-Type: multipart/{kind}; boundary={end}\n\n" + "".join(f"--{end}\n{one}\n" for one in parts) + f"--{end}--\n"


class ReadsDocuments(unittest.TestCase):
    def read(self, content, mime, limit=100_000, program=(PROGRAM,)):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "file").write_bytes(content)
            request = {"work_dir": folder, "path": "file", "type": mime, "limit_bytes": limit}
            asked = json.dumps(request) + "\n"
            told = subprocess.run([sys.executable, "-I", *program], input=asked, capture_output=True, text=True, check=True)
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
        shape = '<sp><cNvPr descr=""/><off y="{1}" x="{2}"/><p><t>{0}</t></p></sp>'.format
        placed = '<sp><ph type="{0}"/><p><t>{0}</t></p></sp>'.format
        slides = zipped(
            ppt__presentation='<p xmlns:r="r"><sldId id="256" r:id="r2"/><sldId id="257" r:id="r1"/><sldId id="258" r:id="gone"/></p>',
            ppt___rels__presentation_xml_rels='<s><r Id="r1" Target="slides/slide1.xml"/><r Id="r2" Target="/ppt/slides/slide2.xml"/></s>',
            ppt__slides__slide1="<s><spTree>" + shape("c", 1_000_000, 0) + shape("b", 100_000, 900) + shape("a", 200_000, 0) + "</spTree></s>",
            ppt__slides__slide2='<s show="0"><spTree>' + placed("body") + placed("title") + "</spTree></s>",
            ppt__slides___rels__slide1_xml_rels='<s><r Id="r1" Type="x/notesSlide" Target="../notesSlides/n1.xml"/><r Id="r2" Type="x/comments" Target="../c.xml"/></s>',
            ppt__slides___rels__slide2_xml_rels='<s><r Id="r1" Type="x/slideLayout" Target="../l1.xml"/></s>',
            ppt__l1='<s><sp><ph type="title"/><off x="0" y="5"/></sp><sp><ph type="body"/><off x="0" y="500000"/></sp></s>',
            ppt__notesSlides__n1='<s><spTree><sp><ph type="sldNum"/><p><t>7</t></p></sp><sp><p><t>note</t></p></sp></spTree></s>',
            ppt__c='<l><cm authorId="0"><text>why?</text></cm></l>', ppt__commentAuthors='<l><a id="0" name="Ada"/></l>',
        )
        told = "--- slide 1 (hidden) ---\ntitle\nbody\n--- slide 2 ---\na\nb\nc\n--- notes of slide 2 ---\nnote\n[comment : why?]\n"
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
            ("slides in their order, with their notes", slides, SLIDES, told),
            ("a gzip file", gzip.compress("é\n".encode() * 50_000), "application/gzip", "é\n" * 33_333),
        ):
            with self.subTest(name):
                answer = self.read(content, mime)
                self.assertEqual(answer.get("text", answer), want)

    def test_formulas_are_on_one_line(self):
        math = "http://schemas.openxmlformats.org/officeDocument/2006/math"
        r = "<m:r><m:t>{}</m:t></m:r>".format
        raised = '<w:r><w:rPr><w:vertAlign w:val="{1}"/></w:rPr><w:t>{0}</w:t></w:r>'.format
        for body, want in (
            (f"<m:f><m:num>{r('a+b')}</m:num><m:den>{r('2c')}</m:den></m:f>", "(a+b)/(2c)"),
            (f"<m:sSup><m:e>{r('e')}</m:e><m:sup>{r('10')}</m:sup></m:sSup>", "e^10"),
            (f"<m:rad><m:deg/><m:e>{r('x')}</m:e></m:rad>", "√x"),
            (f'<m:nary><m:naryPr><m:chr m:val="∑"/></m:naryPr><m:sub>{r("i=1")}</m:sub><m:sup>{r("n")}</m:sup><m:e>{r("i")}</m:e></m:nary>', "∑_(i=1)^n i"),
            (f"<m:d><m:e>{r('a')}</m:e><m:e>{r('b')}</m:e></m:d>", "(a|b)"),
            (raised("23", "superscript") + raised("2", "subscript") + raised("st", "superscript") + raised("x+1", "superscript"), "²³₂st^(x+1)"),
        ):
            with self.subTest(want):
                answer = self.read(word(f'<w:p xmlns:m="{math}">{body}</w:p>'), WORD)
                self.assertEqual(answer.get("text", answer), want + "\n")

    def test_forms_and_symbols(self):
        r, p = "<w:r>{}</w:r>".format, "<w:p>{}</w:p>".format
        box = '<w:fldChar w:fldCharType="begin"><w:ffData><w:checkBox><w:default w:val="{}"/>{}</w:checkBox></w:ffData></w:fldChar>'.format
        control = '<w:sdt xmlns:w14="w14"><w:sdtPr><w14:checkbox><w14:checked w14:val="{}"/></w14:checkbox></w:sdtPr><w:sdtContent>{}</w:sdtContent></w:sdt>'.format
        entries = '<w:listEntry w:val="small"/><w:listEntry w:val="large"/></w:ddList></w:ffData></w:fldChar>'
        symbol = '<w:sym w:font="{}" w:char="{}"/>'.format
        text = r("<w:t>R</w:t>")
        for body, want in (
            (p(r(box(0, "<w:checked/>")) + r(box(1, "")) + r(box(1, '<w:checked w:val="0"/>'))), "☒☒☐\n"),
            (p(r('<w:fldChar><w:ffData><w:ddList><w:result w:val="1"/>' + entries) + r("<w:fldChar><w:ffData><w:ddList>" + entries)), "largesmall\n"),
            (p(r('<w:fldChar><w:ffData><w:ddList><w:result w:val="٣x"/>' + entries) + r(symbol("Symbol", "zz"))), "[a choice that is not in its list][symbol zz of Symbol]\n"),
            (p(control(1, text) + control(0, text)) + control(1, p(text)), "☒☐\n☒\n"),
            ("<w:tr><w:tc>" + p(text) + "</w:tc>" + control(0, "<w:tc>" + p(text) + "</w:tc>") + "</w:tr>", "R | ☐\n"),
            (p(r(symbol("Wingdings", "F0FE") + symbol("Wingdings 2", "0053") + symbol("Arial", "20AC"))), "☑☒€\n"),
            (p(r(symbol("Webdings", "F04A") + symbol("WP TypographicSymbols", "0041"))), "[symbol F04A of Webdings][symbol 0041 of WP TypographicSymbols]\n"),
        ):
            with self.subTest(want):
                answer = self.read(word(body), WORD)
                self.assertEqual(answer.get("text", answer), want)

    def test_documents_in_a_document(self):
        def holder(name, content, kind):
            body = '<w:body xmlns:w="w" xmlns:r="r"><w:p><w:r><w:t>above</w:t></w:r></w:p><w:altChunk r:id="c"/></w:body>'
            made = io.BytesIO(zipped(word__document=body, word___rels__document_xml_rels=f'<s><r Id="c" Type="x/aFChunk" Target="{name}"/></s>'))
            with zipfile.ZipFile(made, "a") as archive:
                archive.writestr("word/" + name, content)
                archive.writestr("[Content_Types].xml", f'<t><Default Extension="{name[2:]}" ContentType="{kind}"/></t>')
            return made.getvalue()

        page = "<p>caf\u00e9</p><p>two</p>"
        mht = "MIME-Version: 1.0\r\nContent-Type: multipart/related; boundary=b\r\n\r\n--b\r\nContent-Type: text/html; charset=utf-8\r\n\r\n" + page + "\r\n--b--\r\n"
        inner = [word("<w:p><w:r><w:t>inside</w:t></w:r></w:p>")]
        for _ in range(3):
            inner.append(holder("c.docx", inner[-1], WORD))
        for content, want in (
            (holder("c.html", page, "text/html"), "above\ncafé\ntwo\n"),
            (holder("c.html", page.encode("utf-16"), "application/xhtml+xml"), "above\ncafé\ntwo\n"),
            (holder("c.html", "<meta charset=latin1>".encode() + page.encode("latin1"), "text/html"), "above\ncafé\ntwo\n"),
            (holder("c.mht", mht, "message/rfc822"), "above\n\ncafé\ntwo\n"),
            (holder("c.txt", "<b>\r\n", "text/plain"), "above\n<b>\n"),
            (inner[2], "above\nabove\ninside\n"),
            (inner[3], f"above\nabove\nabove\n[part word/c.docx: {WORD}, {len(inner[0])} bytes; it is too deep to be read]\n"),
            (holder("c.bin", b"\0\1", "x/y"), "above\n[part word/c.bin: x/y, 2 bytes; its text is not read]\n"),
            (holder("c.docx", b"PK\3\4", WORD), f"above\n[part word/c.docx: {WORD}, 4 bytes; it cannot be read: BadZipFile]\n"),
        ):
            with self.subTest(want):
                answer = self.read(content, WORD)
                self.assertEqual(answer.get("text", answer), want)

    def test_charts_are_tables(self):
        series = "<ser><tx><f>A1</f><v>{}</v></tx><cat><pt idx='0'><v>Q1</v></pt><pt idx='2'><v>Q3</v></pt></cat><val><pt idx='0'><v>{}</v></pt><pt idx='2'><v>4</v></pt></val></ser>"
        made = zipped(
            word__document='<w:body xmlns:w="w" xmlns:r="r"><w:p><w:r><w:t>a</w:t><w:docPr descr="Sales by quarter"/><w:chart r:id="c1"/></w:r></w:p></w:body>',
            word___rels__document_xml_rels='<s><r Id="c1" Type="x/chart" Target="charts/c.xml"/><r Id="h" Type="x/header" Target="h.xml"/><r Id="n" Type="x/comments" Target="n.xml"/></s>',
            word__charts__c="<c><title><t>Sales</t></title>" + series.format("north", 1.5) + series.format("south", 2) + "</c>",
            word__h="<w:hdr xmlns:w='w'><w:p><w:r><w:t>Top</w:t></w:r></w:p></w:hdr>",
            word__n="<w:c xmlns:w='w'><w:comment w:id='3' w:author='Ada'><w:p><w:r><w:t>why</w:t></w:r></w:p></w:comment></w:c>",
        )
        want = (
            "--- header ---\nTop\na\n[picture: Sales by quarter]\n[chart: Sales]\n | north | south\nQ1 | 1.5 | 2\nQ3 | 4 | 4\n"
            "--- comments ---\n[comment 3] Ada: why\n"
        )
        answer = self.read(made, WORD)
        self.assertEqual(answer.get("text", answer), want)

    def test_books(self):
        parts = {
            "META-INF/container.xml": '<c><rootfile full-path="o/b.opf"/></c>',
            "o/b.opf": '<p><item id="a" href="a%20b.xhtml"/><item id="b" href="b.xhtml"/><itemref idref="b"/><itemref idref="a"/></p>',
            "o/a b.xhtml": "<p>later</p>", "o/b.xhtml": "<head><title>x</title></head><h1>First</h1><p>one &amp; <b>t</b>wo</p>",
        }
        book = io.BytesIO()
        with zipfile.ZipFile(book, "w") as archive:
            for name, content in parts.items():
                archive.writestr(name, content)
        answer = self.read(book.getvalue(), "application/epub+zip")
        self.assertEqual(answer.get("text", answer), "--- chapter 1 ---\nFirst\none & two\n--- chapter 2 ---\nlater\n")

    def test_letters(self):
        text, picture = part("text/plain", "one"), part("image/png", "x", "inline; filename=p.png")
        inner = "Subject: Offer\n\n512 euros"
        other, folded = part("text/html", "<p>Zo&euml;</p><p>two</p>"), base64.b64encode(inner.encode()).decode()
        event = "BEGIN:VCALENDAR\nBEGIN:VTIMEZONE\nx\nEND:VTIMEZONE\nSUMMARY:Meet\n ing\nEND:VCALENDAR"
        status = part("message/delivery-status", "Reporting-MTA: dns; a\n\nAction: failed\n")
        for name, content, want in (
            ("a charset of the head", "Subject: Привет\nContent-Type: text/plain; charset=koi8-r\n\nКак дела?\n".encode("koi8-r"), "Subject: Привет\n\nКак дела?\n"),
            ("words of the head", "Subject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=\nTo: a,\n  =?bad?b?eA==?= <b@c>\n\nx", "To: a, x <b@c>\nSubject: Grüße\n\nx\n"),
            ("a head that is no address", "To: list:; (a (b\nDate: yesterday\n\nx", "To: list:; (a (b\nDate: yesterday\n\nx\n"),
            ("utf-8 with a letter that is none", ("\n" + "é" * 50).encode() + b"\xff", "\n" + "é" * 50 + "\ufffd\n"),
            ("HTML alone", other, "\nZoë\ntwo\n"),
            ("text behind a picture", mixed(text, picture, part("text/plain", "two")), "\none\n[attached: p.png, image/png, 1 bytes]\ntwo\n"),
            ("of two forms one", mixed(text, other, kind="alternative"), "\none\n"),
            ("of two forms the one with a text", mixed(part("text/plain", " "), mixed(other, picture, kind="related"), kind="alternative"), "\nZoë\ntwo\n[attached: p.png, image/png, 1 bytes]\n"),
            ("a file of text", part("text/csv", "a,b", "attachment; filename=a.csv"), "\n[attached: a.csv]\na,b\n"),
            ("an attached file of text", mixed(text, part("text/plain", "a", "attachment; filename=a.txt")), "\none\n[attached: a.txt, text/plain, 1 bytes]\n"),
            ("an invitation", part("text/calendar", event), "\nBEGIN:VCALENDAR\nSUMMARY:Meeting\nEND:VCALENDAR\n"),
            ("a report", mixed(text, status, kind="report"), "\none\nReporting-MTA: dns; a\nAction: failed\n"),
            ("a letter in a letter", mixed(text, part("message/rfc822", inner)), "\none\n[attached: Offer, message/rfc822]\n--- letter Offer ---\nSubject: Offer\n\n512 euros\n"),
            ("packed", mixed(part("message/rfc822", folded, coding="base64")), "\n[attached: without a name, message/rfc822, 25 bytes]\n--- letter message/rfc822 ---\nSubject: Offer\n\n512 euros\n"),
            ("three deep", mixed(part("message/rfc822", "Subject: A\n" + mixed(part("message/rfc822", inner)))), "--- letter A / Offer ---\nSubject: Offer\n\n512 euros\n"),
            ("a damaged message", mixed(part("application/x", "x", "attachment; filename=a.msg"), text), "a.msg, application/x, 1 bytes]\none\n--- letter a.msg ---\n[this letter cannot be read on: "),
            ("parts that are none", "Content-Type: multipart/mixed\n\nwords", "\nwords\n"),
        ):
            with self.subTest(name):
                answer = self.read(content if isinstance(content, bytes) else content.encode(), "message/rfc822")
                self.assertIn(want, answer.get("text", str(answer)))

    def test_a_mailbox_is_its_letters(self):
        box = "From a@b Mon Nov  2 10:00:00 2026\nSubject: =?utf-8?b?R3LDvMOfZQ==?=\n\nFrom here\n>From there\n\nFrom c Mon Nov  2 11:00:00 2026\nSubject: two\n\nx\n"
        answer = self.read(box.encode(), "application/mbox")
        self.assertEqual(answer.get("text"), "--- letter 1 ---\nSubject: Grüße\n\nFrom here\nFrom there\n--- letter 2 ---\nSubject: two\n\nx\n")

    def test_rtf(self):
        fonts = rb"{\fonttbl{\f0 A;}{\f1\fcharset134 B;}}"
        for content, want in (
            (rb"\ansicpg1251" + fonts + rb"\f0 Price\par \'ce\'eb\'e5\'e3 \b bold\b0\par", "Price\nОлег bold\n"),
            (fonts + rb"\f1 \'c4\'e3{\f0 \'e9}\u8364?\u-10179\'3f" + b"\n" + rb"\u-8694\'3f", "你é€😊\n"),
            (rb"\uc2\u8364\'80\'80\uc0\u233 x\~y\_z\{\}\\\emdash\tab{\*\unknown gone}{\pict ffd8}{\info{\title t}}", "€éx y-z{}\\—\t\n"),
            (rb"{\loch\*\cs7 kept}{\pict\bin3 }}}}.", "kept.\n"),
            (rb"\trowd\intbl a\par b\cell c\cell\row\pard d", "a b | c\nd\n"),
            (rb" 10{\super 23}{\deleted x}{\footnote  one\par}{\*\annotation why}", "10²³[one][comment: why]\n"),
            (rb"{\field{\*\fldinst HYPERLINK x}{\fldrslt link}}{\header top\par}{\upr{old}{\*\ud new}}", "link[header: top]\nnew\n"),
            (rb"{\shp{\*\shpinst{\sp{\sn n}{\sv 1}}{\shptxt box}}{\shprslt box}}", "box\n"),
            (rb"\fromhtml1{\*\htmltag64 <p>}a\htmlrtf \par\htmlrtf0 \'e9{\*\htmltag72 </p><p>}b{\*\mhtmltag <i>}", "aé\nb\n"),
        ):
            with self.subTest(want):
                answer = self.read(rb"{\rtf1\ansi" + content + b"}", "text/rtf")
                self.assertEqual(answer.get("text", answer), want)
        self.assertEqual(self.read(b"no RTF", "text/rtf")["text"], "no RTF")

    def test_a_notebook_is_its_cells(self):
        picture = base64.b64encode(bytes(3000)).decode()
        outputs = [
            {"output_type": "stream", "name": "stdout", "text": ["one\n", "two\n"]},
            {"output_type": "stream", "name": "stderr", "text": ["\r1% long\r", "50%\x1b[K\r99\b\b100%\n\r1%", "\x1b[A\rup\n\r\x1b[K2%\r\n"]},
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
            "--- output of cell 2 ---\nup0%\n2%\n"
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
        noisy = "def noisy(path):\n    print('WARNING')\n    os.system('echo more')\n    yield 'text'\ndocument.READERS['x/y'] = noisy\ndocument.main()"
        answer = self.read(b"", "x/y", program=("-c", f"import os, sys\nsys.path.append({str(PROGRAM.parent)!r})\nimport document\n{noisy}"))
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
            ("letters without end", b"Content-Type: message/rfc822\n\n" * 5_000, "message/rfc822", "too_large"),
            ("an archive that is no book", zipped(other="<x/>"), "application/epub+zip", "broken"),
            ("encrypted", encrypted, "application/x-ole-storage", "encrypted"),
        ):
            with self.subTest(name):
                self.assertEqual(self.read(content, mime).get("error"), want)


if __name__ == "__main__":
    unittest.main()
