"""Pages (pages.py): scripts of installed libraries put into HTML files, and what is said of the others."""

import os
import sys
import tempfile
import unittest
from unittest import mock

import pages
from test_support import SupervisorTest

CDN = "https://cdn.bokeh.org/bokeh/release/"
SCRIPT = "\ufeffvar a = 'ü\U0001f600</script><!--';"
PUT_IN = b"<script> var a = '\\u00fc\\ud83d\\ude00<\\/script><\\!--';</script>"


class Installed(unittest.TestCase):
    """With a bokeh that has little in it."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        write_bokeh(self.folder)
        path = mock.patch.object(sys, "path", [self.folder, *sys.path])
        path.start()
        self.addCleanup(path.stop)
        self.addCleanup(sys.modules.pop, "bokeh", None)

    def test_what_is_put_in_and_what_is_missing(self):
        there = CDN + "bokeh-3.4.1.min.js"
        for page, whole in (
            ('<script src="%s"></script>' % there, PUT_IN),
            ("<SCRIPT type='text/javascript' SRC='%s' crossorigin=anonymous>\n</SCRIPT >" % there, PUT_IN),
            ("<script src=%s></script>" % there, PUT_IN),
            ('<script src="%s"></script><script src="%s"></script>' % (there, there), PUT_IN + b"<script></script>"),
            ('<script src="%s" type="module"></script>' % there, PUT_IN.replace(b"<script>", b'<script type="module">')),
            ('<script src="%s?x"></script>' % there, None),
            ('<script src="%sx/bokeh-3.4.1.min.js"></script>' % CDN, None),
            ('<script src="%s">more</script>' % there, None),
            ('<script src="%sbokeh-2.4.3.min.js"></script>' % CDN, None),
            ('<script src="%sbokeh-tables-3.4.1.min.js"></script>' % CDN, None),
            ('<script src="https://evil.example/%s"></script>' % there, None),
            ('<!-- <script src="%s"></script> -->' % there, None),
            ("<script>'<!--'</script><script src=%s></script>" % there, b"<script>'<!--'</script>" + PUT_IN),
            ('<script src="own.js"></script><a href="https://example.org">x</a>', None),
            ("<link rel=stylesheet href=//example.org/a.css><link rel=icon href=//example.org/a.png>", None),
            ("<script src=//example.org/a.js></script>" * 2, None),
            ("<script>s = document.createElement('script'); s.src = 'https://cdn.jsdelivr.net/npm/vega@5'</script>", None),
            ('<script type=module>import * as d3 from "https://unpkg.com/d3@7"</script>', None),
            ('<script>data = ["https://unpkg.com/d3@7"]</script>', None),
            ("<script src", None),
            ("", None),
        ):
            with self.subTest(page):
                data = page.encode()
                self.assertEqual(pages.Pages().whole(data), data if whole is None else whole)

    def test_packages_of_npm(self):
        files = {
            "package.json": '{"version": "5.1.0", "unpkg": "dist/main.js"}', "dist/main.js": "main", "dist/a.css": "é{x:url(../p.png)}y{x:url('gone.woff?a')}</style>", "p.png": "p",
        }
        for path, content in files.items():
            path = os.path.join(self.folder, "@x", "lib", path)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(content)
        os.rename(os.path.join(self.folder, "@x", "lib"), os.path.join(self.folder, "lib"))
        os.symlink("../lib", os.path.join(self.folder, "@x", "lib"))
        style = b"<style>\\e9 {x:url(data:image/png;base64,cA==)}y{x:url('gone.woff?a')}<\\/style></style>"
        link = "<link rel=stylesheet href=%s>"
        for page, whole in (
            ("<script src=https://unpkg.com/@x/lib></script>", b"<script>main</script>"),
            ("<script src=https://cdn.jsdelivr.net/npm/@x/lib@5/dist/main.js></script>", b"<script>main</script>"),
            (link % "https://cdnjs.cloudflare.com/ajax/libs/Lib/5.9.1/a.css", style),
            ("<script src=https://unpkg.com/@x/lib@4></script>", None),
            ("<script src=https://unpkg.com/@x/lib@5/src/index.js></script>", None),
            ("<link rel=stylesheet media=print href=https://unpkg.com/@x/lib@5/dist/a.css>", None),
        ):
            with self.subTest(page), mock.patch.object(pages, "PACKAGES", ("/nowhere", self.folder)):
                self.assertEqual(pages.Pages().whole(page.encode()), page.encode() if whole is None else whole)

    def test_a_run_adds_so_much_and_no_more(self):
        page = ("<script src=%sbokeh-3.4.1.min.js></script>" % CDN).encode()
        with mock.patch.object(pages, "MOST_ADDED_BYTES", 2 * len(PUT_IN) - 1):
            run = pages.Pages()
        self.assertEqual([run.whole(page) for _ in range(3)], [PUT_IN, PUT_IN, page])

    def test_a_file_is_replaced_unless_something_has_it_open(self):
        path = os.path.join(self.folder, "a.html")
        data = ("<script src=%sbokeh-3.4.1.min.js></script>" % CDN).encode()
        with open(path, "wb") as file:
            file.write(data)
            file.flush()
            os.chmod(path, 0o604)
            pages.Pages().whole_file(path)
        os.link(path, path + "2")
        pages.Pages().whole_file(path)
        self.assertEqual(read(path), data)
        os.unlink(path + "2")
        with mock.patch.object(pages, "MOST_PAGE_BYTES", len(data) - 1):
            pages.Pages().whole_file(path)
        self.assertEqual(read(path), data)
        pages.Pages().whole_file(path)
        self.assertEqual((read(path), os.stat(path).st_mode & 0o777), (PUT_IN, 0o604))
        self.assertEqual(sorted(os.listdir(self.folder)), ["a.html", "bokeh"])


class Runs(SupervisorTest):
    PAGE = "'<script src=%sbokeh-3.4.1.min.js></script>'" % CDN

    def setUp(self):
        super().setUp()
        write_bokeh(self.client.path("lib"))
        self.completed("import sys; sys.path.append(%r)" % self.client.path("lib"))

    def test_the_pages_that_a_run_has_written(self):
        answer = self.completed(
            "import os\nos.makedirs('output/a', exist_ok=True)\nfor path in ('output/a/b.html', 'c.HTM', 'd.txt', '.e.html', 'input/g.html'):\n"
            "    with open(path, 'w') as file: file.write(%s)\nos.symlink('d.txt', 'f.html')" % self.PAGE
        )
        self.assertEqual(answer.err, "")
        wholes = {path: read(self.client.path(path)) == PUT_IN for path in ("output/a/b.html", "c.HTM", "d.txt", ".e.html", "f.html", "input/g.html")}
        self.assertEqual(wholes, {"output/a/b.html": True, "c.HTM": True, "d.txt": False, ".e.html": False, "f.html": False, "input/g.html": False})
        sizes = {file["path"]: file["size_bytes"] for file in answer.artifacts}
        self.assertEqual((sizes["c.HTM"], sizes["output/a/b.html"]), (len(PUT_IN), len(PUT_IN)))

    def test_a_page_that_is_shown(self):
        (display,) = self.completed("class P:\n    def _repr_html_(self): return %s\n    def __repr__(self): return '<p>'\nP()" % self.PAGE).displays
        self.assertEqual((display["path"], display["size_bytes"]), ("output/page-1.html", len(PUT_IN)))
        self.assertEqual(read(self.client.path("output/page-1.html")), PUT_IN)


def write_bokeh(folder):
    scripts = os.path.join(folder, "bokeh", "server", "static", "js")
    os.makedirs(scripts)
    with open(os.path.join(folder, "bokeh", "__init__.py"), "w") as file:
        file.write("__version__ = '3.4.1'")
    with open(os.path.join(scripts, "bokeh.min.js"), "w", encoding="utf-8") as file:
        file.write(SCRIPT)


def read(path):
    with open(path, "rb") as file:
        return file.read()


if __name__ == "__main__":
    unittest.main()
