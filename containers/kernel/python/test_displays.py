"""Displays (display.py, mimes.py, pictures.py): what a run shows, and the files that keep it."""

import base64
import json
import os
import struct
import unittest
import zlib
from types import SimpleNamespace
from unittest import mock

import charts
import display
import markup
import mimes
from test_support import LONG_GRACE, SupervisorTest, can_import


def tiny_png(width=1, height=1):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + os.urandom(width * 3) for _ in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    )


SHOWN = """
class Shown:
    def __init__(self, data, name): self.data, self.name = data, name
    def __repr__(self): return '<shown>'
class Png(Shown):
    def _repr_png_(self): return self.data
class Svg(Shown):
    def _repr_svg_(self): return self.data
class Html(Shown):
    def _repr_html_(self): return self.data
"""


class Pauses(unittest.TestCase):
    def test_slow_redraws_become_rare_and_do_not_end(self):
        class Figure:
            pass

        clock, drawn = [0.0], []
        managers = [SimpleNamespace(canvas=SimpleNamespace(figure=Figure()))]

        def draw(figure, again):
            drawn.append(clock[0])
            clock[0] += 4

        def sleep(seconds):
            clock[0] += seconds

        time = SimpleNamespace(monotonic=lambda: clock[0], sleep=sleep)
        displays = display.Displays(None, None)
        with mock.patch.multiple(display, time=time, managers_of_figures=lambda: managers), mock.patch.object(displays, "show_figure", draw):
            for _ in range(7):
                displays.pause(0.5)
        self.assertEqual(drawn, [0, 4, 8, 13])  # after three of them one second without


class PlotlyImages(unittest.TestCase):
    def test_the_browser_draws_and_else_kaleido(self):
        def make(fig, format=None, scale=None, width=None, height=None, validate=True):
            return fig, format, scale, width, height

        defaults = SimpleNamespace(default_format="png", default_width=700, default_height=500, default_scale=1)
        for kaleido, drawn, asked, want in (
            (False, "drawn", {}, ("drawn", "png", {"width": 9, "height": 500}, 1)),
            (False, "drawn", {"format": "JPG", "width": 5, "scale": 2}, ("drawn", "jpeg", {"width": 5, "height": 500}, 2)),
            (True, RuntimeError("no browser"), {"format": "svg"}, ({"layout": {"width": 9}}, "svg", None, None, None)),
            (False, RuntimeError("no browser"), {}, RuntimeError),
        ):
            module = SimpleNamespace(
                to_image=make, kaleido_available=lambda: kaleido, defaults=defaults, validate_coerce_fig_to_dict=lambda figure, validate: figure
            )
            charts.hook_to_image(module)
            self.assertTrue(module.kaleido_available())
            draw = mock.Mock(side_effect=[drawn] if isinstance(drawn, Exception) else lambda figure, *how: (drawn, *how))
            with self.subTest(asked), mock.patch.object(charts, "draw_figure", draw):
                if want is RuntimeError:
                    self.assertRaises(want, module.to_image, {"layout": {"width": 9}}, **asked)
                else:
                    self.assertEqual(module.to_image({"layout": {"width": 9}}, **asked), want)


class Markup(unittest.TestCase):
    def test_a_page_is_read_as_text(self):
        for page, text in (
            ("<p>One &amp; <b>two</b><br>three<script>4</script>", "One & two\nthree"),
            ("<head><style>p { color: red }</style></head><ul><li>a<li>b</ul>", "a\nb"),
            ("<table><tr><th colspan=2>Title</th></tr><tr><td></td><td>x\n y</td></tr><tr><td>long</td><td><p>1</p><p>2</p></td></tr></table>end", "Title\n      x y\nlong  1 2\nend"),
            ("<table><tr><td>a<td>b<tr><td>c", "a  b\nc"),
            ("<table></table></td></style><svg><text>x</text></svg>y", "y"),
            ("<iframe width=1 srcdoc='&lt;p&gt;&lt;b&gt;&amp;amp;&lt;/b&gt;'></iframe>", "&"),
            ("<div><span>Make this Notebook Trusted to load map: File -> Trust Notebook</span><iframe srcdoc='map'></iframe></div>", "map"),
            ("<p>one</p><iframe srcdoc='two'></iframe>", "one"),
            ("<p>one</p><iframe srcdoc='two'></iframe><iframe srcdoc='three'></iframe>", "one"),
            ("", ""),
        ):
            with self.subTest(page):
                self.assertEqual(markup.read(page), text)


class Displays(SupervisorTest):
    init = {"image_bytes": 20_000, "max_displays": 3}

    def setUp(self):
        super().setUp()
        self.completed(SHOWN)

    def test_an_image_is_shown_and_kept(self):
        data = tiny_png()
        answer = self.completed("Png(%r, 'n')" % data)
        self.assertEqual(answer.result, "<shown>")
        (display,) = answer.displays
        self.assertEqual(base64.b64decode(display["data"]["image/png"]), data)
        self.assertEqual((display["path"], display["size_bytes"]), ("output/image-1.png", len(data)))
        with open(self.client.path(display["path"]), "rb") as file:
            self.assertEqual(file.read(), data)
        self.assertEqual(answer.artifacts[0]["path"], "output/image-1.png")
        self.assertEqual(answer.displays_total, 1)

    def test_an_existing_file_is_never_replaced(self):
        self.write("output/image-1.png", "mine")
        os.symlink("/nonexistent", self.client.path("output", "image-2.png"))
        answer = self.completed("Png(%r, 'n')" % tiny_png())
        self.assertEqual(answer.displays[0]["path"], "output/image-3.png")
        with open(self.client.path("output", "image-1.png")) as file:
            self.assertEqual(file.read(), "mine")

    def test_a_large_image_has_a_path_only(self):
        data = tiny_png(100, 100)
        self.assertGreater(len(data), 20_000)
        (display,) = self.completed("Png(%r, 'n')" % data).displays
        self.assertEqual(display["data"], {})
        self.assertEqual(display["size_bytes"], os.path.getsize(self.client.path(display["path"])))

    def test_svg_is_text(self):
        (display,) = self.completed("Svg('<svg>é</svg>', 'n')").displays
        self.assertEqual(display["data"], {"image/svg+xml": "<svg>é</svg>"})
        self.assertEqual(display["path"], "output/image-1.svg")

    def test_html_is_shown_in_a_folder_that_is_gone(self):
        self.completed("import os, tempfile\nwith tempfile.TemporaryDirectory() as d: os.chdir(d)")
        (display,) = self.completed("Html('<b>bold</b>', 'n')").displays
        self.assertEqual(display["data"], {"text/html": "<b>bold</b>"})

    def test_html_is_shown_without_a_file(self):
        (display,) = self.completed("Html('<b>bold</b>', 'n')").displays
        self.assertEqual(display["data"], {"text/html": "<b>bold</b>"})
        self.assertNotIn("path", display)

    def test_a_page_that_works_by_scripts_is_a_file(self):
        (display,) = self.completed("Html('<p><script>1</script>', 'n')").displays
        self.assertEqual((display["data"], display["path"]), ({}, "output/page-1.html"))

    def test_long_html_is_a_file_and_read_as_text(self):
        self.completed("page = '<style>' + ' ' * 5000 + '</style><table><tr><td>a</td><td>b</td></tr></table>'")
        for code in ("Html(page, 'n')", "display(Html(page, 'n'))"):
            answer = self.completed(code)
            self.assertEqual((answer.result or answer.out).strip(), "a  b")
            (display,) = answer.displays
            self.assertEqual((display["data"], display["size_bytes"]), ({}, 5059))

    def test_a_page_in_a_frame_is_no_escaped_html(self):
        answer = self.completed("Html('<div><iframe srcdoc=\"&lt;p&gt;&lt;script&gt;1\"></iframe></div>', 'n')")
        (display,) = answer.displays
        self.assertEqual((answer.result, display["data"]), ("<shown>", {}))
        with open(self.client.path(display["path"])) as file:
            self.assertEqual(file.read(), "<p><script>1")

    def test_html_stands_for_a_repr_of_all_parts(self):
        self.check_long_repr()
        if can_import("IPython"):
            self.completed("get_ipython()")
            self.check_long_repr()

    def check_long_repr(self):
        code = "class T(Html):\n    def __repr__(self): return 'T(%s)' % ('x' * 9000)\n"
        self.assertEqual(self.completed(code + "T('<p>' + ' ' * 2000 + 'short', 'n')").result, "short")
        self.assertEqual(self.completed(code + "T('<p>' + ' ' * 2000, 'n')").result, "T(...)")

    def test_an_object_with_text_of_its_own_shows_no_html(self):
        answer = self.completed("class T(Html):\n    def __repr__(self): return 'a  b\\n1  2'\nT('<table>', 'n')")
        self.assertEqual((answer.result, answer.displays), ("a  b\n1  2", []))

    def test_display_shows_while_code_runs_and_in_order(self):
        png = tiny_png()
        answer = self.completed("display(Png(%r, 'n')); print('between'); display(Svg('<svg/>', 'm')); display(5)" % png)
        self.assertEqual([list(d["data"]) for d in answer.displays], [["image/png"], ["image/svg+xml"]])
        self.assertEqual(answer.out, "between\n5\n")

    def test_more_displays_than_are_reported_are_counted(self):
        answer = self.completed("for i in range(10): display(Svg('<svg>%d</svg>' % i, 'n'))")
        self.assertEqual((len(answer.displays), answer.displays_total), (3, 10))

    def test_the_output_folder_may_have_been_deleted_or_be_unusable(self):
        self.completed("import os; os.rmdir('output')")
        self.assertEqual(self.completed("Svg('<svg/>', 'n')").displays[0]["path"], "output/image-1.svg")
        self.completed("import shutil; shutil.rmtree('output'); open('output', 'w').close()")
        answer = self.completed("Svg('<svg/>', 'n')")
        self.assertNotIn("path", answer.displays[0])
        self.assertIn("not saved", answer.err)

    def test_a_huge_text_for_an_image_goes_to_a_file_alone(self):
        answer = self.completed(
            "class Bad:\n    def _repr_mimebundle_(self, **_): return {'image/png': 'x' * 20_000_000, 'text/plain': 5}\nBad()"
        )
        self.assertEqual(answer.result, "5")
        self.assertEqual([(d["data"], d["size_bytes"]) for d in answer.displays], [({}, 15_000_000)])
        self.assertEqual(self.completed("6 * 7").result, "42")

    def test_a_form_that_fails_is_left_out_with_a_note(self):
        self.check_failing_forms()
        if can_import("IPython"):
            self.completed("get_ipython()")
            self.check_failing_forms()

    def check_failing_forms(self):
        plain = "<__main__.Bad "
        for method, noted, result, shown in (
            ("_repr_png_(self): raise ValueError('bad')", "_repr_png_() raised ValueError: bad (<cell ", plain, []),
            ("_repr_jpeg_(self): 1/0", "_repr_jpeg_() raised ZeroDivisionError: ", plain, []),
            ("_repr_svg_(self): raise KeyError('k')", "KeyError: 'k'", plain, []),
            ("_repr_html_(self): 1/0", "_repr_html_() raised ZeroDivisionError: ", plain, []),
            ("_repr_markdown_(self): 1/0", "_repr_markdown_() raised ZeroDivisionError: ", plain, []),
            ("_repr_json_(self): 1/0", "_repr_json_() raised ZeroDivisionError: ", plain, []),
            ("_repr_mimebundle_(self, **_): raise ValueError('bad')", "_repr_mimebundle_() raised ValueError: bad", plain, []),
            ("_repr_mimebundle_(self, **_): return {'image/png': 5, 'text/html': '<b>'}", "not int", plain, ["text/html"]),
            ("_repr_mimebundle_(self, **_): return {'text/plain': 5}", "", "5", []),
            ("_repr_mimebundle_(self, **_): return {'application/vnd.plotly.v1+json': 5}", "", plain.rstrip(), []),
            ("_repr_mimebundle_(self, **_): return {'text/html': '<b>'}, None, 3", "", plain, ["text/html"]),
            ("_repr_png_(self): raise NotImplementedError", "", plain, []),
            ("_repr_png_(self): return None", "", plain, []),
            ("_repr_png_(self): return b''", "", plain, []),
            ("_repr_json_(self): a = {}; a['a'] = a; return a", "", plain, []),
        ):
            with self.subTest(method):
                answer = self.completed("class Bad:\n    def %s\nBad()" % method)
                self.assertTrue(answer.result.startswith(result), answer)
                self.assertEqual([list(d["data"]) for d in answer.displays], [shown] if shown else [])
                self.assertIn(noted, answer.err)
                self.assertEqual(answer.err.count("note: this Bad is shown without what failed: "), 1 if noted else 0)
        answer = self.completed("class Bad:\n    def _repr_png_(self): 1/0\nkept = 1\ndisplay(Bad())\nprint('next')")
        self.assertRegex(answer.out, "^<__main__.Bad .*>\nnext\n$")

    def test_a_repr_that_raises_is_told_and_the_run_completes(self):
        self.check_failing_reprs()
        if can_import("IPython"):
            self.completed("get_ipython()")
            self.check_failing_reprs()

    def check_failing_reprs(self):
        for method, error, result, shown in (
            ("__repr__(self): raise ValueError('no repr')", r'(?s)^Traceback .*File "<cell \d+>", line 3, in __repr__\n.*ValueError: no repr\n$', None, []),
            ("__repr__(self): return 5", "TypeError: __repr__ returned non-string", None, []),
            ("__repr__(self): return repr(self)", "RecursionError: maximum recursion depth exceeded", None, []),
            ("__repr__(self): raise KeyError('k')\n    def _repr_html_(self): return '<b>'", "KeyError: 'k'", None, ["text/html"]),
        ):
            with self.subTest(method):
                answer = self.completed("_ = 0\nclass Bad:\n    def %s\nBad()" % method)
                self.assertEqual((answer.result, [list(d["data"]) for d in answer.displays]), (result, [shown] if shown else []))
                self.assertRegex(answer.err, error)
                self.assertNotIn("<kernel", answer.err)

    def test_a_value_is_asked_once(self):
        for text in ("two rows", "<bare>"):
            code = (
                "asked = []\nclass Query:\n    def __repr__(self): asked.append('repr'); return %r\n"
                "    def _repr_mimebundle_(self, **_): asked.append('bundle'); return {'text/plain': %r, 'text/html': '<b>'}\nQuery()"
            ) % (text, text)
            for engine in ("1", "get_ipython()") if can_import("IPython") else ("1",):
                self.completed(engine)
                self.assertEqual(len(self.completed(code).displays), int(text == "<bare>"))
                self.assertEqual(self.completed("asked").result, "['bundle']")

    def test_what_an_api_is_told_beside_a_value_is_no_output(self):
        code = "class Table:\n    def __repr__(self): return 'a'\n    def _repr_mimebundle_(self, **_): return {%r: {'rows': [1.0]}}\ndisplay(Table())\nTable()"
        for engine in ("1", "get_ipython()") if can_import("IPython") else ("1",):
            self.completed(engine)
            answer = self.completed(code % mimes.DATA)
            told = [json.loads(d["data"][mimes.DATA]) for d in answer.displays]
            self.assertEqual(told, [{"main": is_main, "text": "a", "rows": [1.0]} for is_main in (False, True)])
            self.assertEqual((answer.out, answer.result), ("", "a"))

    def test_displays_of_a_forked_child_do_not_tear_the_link(self):
        code = (
            "import os\npid = os.fork()\nif pid == 0:\n    for i in range(50): display(Svg('<svg/>' * 50, 'n'))\n"
            "    os._exit(0)\nfor i in range(50): display(Svg('<svg/>' * 50, 'n'))\nos.waitpid(pid, 0);"
        )
        self.assertEqual(self.completed(code).displays_total, 50)

    def test_interrupts_do_not_tear_a_display(self):
        code = "big = Svg('<svg>' + 'x' * 19_000 + '</svg>', 'n')\nwhile True: display(big)"
        for _ in range(5):
            answer = self.run_code(code, timeout_ms=150, grace_ms=LONG_GRACE)
            self.assertEqual((answer.status, answer.kernel), ("timed_out", "alive"), answer)


if __name__ == "__main__":
    unittest.main()
