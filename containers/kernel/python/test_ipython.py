"""What only holds where IPython is installed. Where it is not, there is nothing here to run.
This is about ipython_engine.py, pictures.py and mimes.py.

The tests of figures and tables need numpy, pandas and matplotlib, as our image has them; they
are chosen by what the interpreter under test can import.
"""

import base64
import json
import os
import re
import subprocess
import sys
import unittest

from test_forks import Forks
from test_support import LONG_GRACE, Client, SupervisorTest


class IPython(SupervisorTest):
    def test_installers_have_no_warnings_that_are_untrue_here(self):
        done = self.completed("!pip --version\n%pip --version\n%pip --version")
        self.assertEqual((len(done.out.splitlines()), done.err), (3, ""))
        self.assertNotIn("restart", done.out)
        self.assertIn("may not work as expected", self.completed("!cd /").err)

    def test_code_that_displays_through_ipython_has_it_from_the_first_run_on(self):
        code = "from IPython.display import display, HTML\ndisplay(HTML('<i>x</i>'))"
        self.assertEqual([d["data"] for d in self.completed(code).displays], [{"text/html": "<i>x</i>"}])

    def test_an_interrupt_while_ipython_loads_does_not_spoil_it(self):
        run_id = self.client.start("%time 1\nwhile True: pass", grace_ms=LONG_GRACE)
        self.client.send({"type": "interrupt", "id": run_id, "reason": "cancelled"})
        self.assertEqual(self.client.finish(run_id).kernel, "alive")
        self.assertIn("Wall", self.completed("%time 1").out)

    def test_packages_that_ask_for_the_shell_have_it_from_the_first_cell_on(self):
        with open(self.client.path("shows.py"), "w") as file:
            file.write(
                "from IPython.display import display, publish_display_data, Markdown\n"
                "def show(): display(Markdown('# head')); publish_display_data({'text/plain': 'plain'})"
            )
        self.assertEqual(self.completed("import shows; shows.show()\n41").out, "# head\nplain\n")
        self.assertEqual(self.completed("_ + len(Out)").result, "42")

    def test_values_are_laid_out_alike_before_and_with_ipython(self):
        values = ("list(range(100))", "{'k' * n: [n] * n for n in range(30)}", "{*range(40)}", "(['x' * 50] * 2,)", "[*range(1001)]")
        first = [self.completed(value).result for value in values]
        self.completed("get_ipython()")
        self.assertEqual([self.completed(value).result for value in values], first)
        self.assertIn("998,\n 999,\n ...]", first[-1])

    def test_errors_are_told_as_without_ipython(self):
        cases = ("print(1)\nreturn 5", "1\nbreak", "def f():\n    nonlocal x", "class Bad(Exception):\n    def __str__(self): 1 / 0\nraise Bad()")
        first = [self.run_code(code).error for code in cases]
        self.completed("get_ipython()")
        for code, error in zip(cases, first):
            again = self.run_code(code).error
            self.assertEqual([re.sub(r"cell \d+", "cell", part) for part in again.values()], [re.sub(r"cell \d+", "cell", part) for part in error.values()])
            self.assertIn(code.splitlines()[-1].strip(), error["traceback"])
            self.assertNotIn("codeop", error["traceback"])
        self.assertEqual((first[-1]["name"], first[-1]["message"]), ("Bad", "<exception str() failed>"))

    def test_magics_and_commands(self):
        self.assertIn("Wall time", self.completed("%time 1 + 1").out)
        self.assertEqual(self.completed("!echo hi; echo err >&2").out, "hi\n")
        self.assertEqual(self.completed("files = !echo one two\nfiles").result, "['one two']")
        self.assertEqual(self.completed("%%bash\necho $((6 * 7))").out, "42\n")
        self.assertEqual(self.completed("\ufeff%%bash\r\nfor n in 1 2; do\r\n  echo $n\r\ndone\r\n").out, "1\n2\n")
        self.assertEqual(self.completed("%%capture kept\nprint('x')").out, "")
        self.assertEqual(self.completed("kept.stdout").result, "'x\\n'")
        self.assertIn("loop", self.completed("%timeit -n1 -r1 pass").out)

    def test_cells_of_other_languages_write_to_their_own_run(self):
        for word in ("one", "two"):
            answer = self.completed("%%%%bash\necho %s; echo err %s >&2" % (word, word))
            self.assertEqual((answer.out, answer.err), (word + "\n", "err %s\n" % word))

    def test_the_next_cell_of_another_language_runs_when_one_was_interrupted(self):
        for first in ("", "%%bash\necho one"):
            self.client = self.connect()
            self.completed(first)
            answer = self.run_code("%%bash\nsleep 600", timeout_ms=1500, grace_ms=LONG_GRACE)
            self.assertEqual((answer.status, answer.kernel), ("timed_out", "alive"))
            self.assertEqual(self.completed("%%bash\necho two").out, "two\n")

    def test_a_folder_that_is_gone_does_not_stop_it(self):
        self.completed("import os, tempfile\nwith tempfile.TemporaryDirectory() as d: os.chdir(d)")
        self.assertEqual(self.completed("!echo hi").out, "hi\n")

    def test_a_fault_that_passes_does_not_cost_it(self):
        self.completed("import os, tempfile; open('file', 'w').close(); tempfile.tempdir = os.path.abspath('file')")
        self.assertEqual(self.run_code("%time 1").status, "failed")
        self.completed("tempfile.tempdir = None")
        self.assertIn("Wall", self.completed("%time 1").out)

    def test_several_results_of_a_cell(self):
        self.completed("get_ipython().ast_node_interactivity = 'all'")
        answer = self.completed("1 + 1\n'two'\n3")
        self.assertEqual((answer.out, answer.result), ("2\n'two'\n", "3"))

    def test_files_named_like_modules_do_not_stop_it(self):
        names = ("queue", "random", "string", "tempfile", "typing", "mailbox")
        self.completed("for name in %r: open(name + '.py', 'w').write('raise SystemError')" % (names,))
        self.assertEqual(self.completed("!echo hi").out, "hi\n")
        self.assertEqual(self.run_code("import mailbox").error["name"], "SystemError")

    def test_exit_after_a_reset(self):
        self.assertEqual(self.completed("x = 1\n%who").out.split(), ["x"])
        self.completed("%reset -f")
        self.assertEqual(self.run_code("exit()").exit_code, 0)

    def test_another_folder(self):
        self.assertEqual(self.completed("%cd output").err, "")

    def test_variables_in_commands(self):
        for code in (
            "name = 'world'\n!echo hello {name}", "def greet(name):\n    !echo hello {name}\ngreet('world')",
            "command = 'echo hello world'\n!{command}", "!$command", "import os; get_ipython().system = os.system\n!echo hello world",
        ):
            with self.subTest(code):
                self.assertEqual(self.completed(code).out, "hello world\n")

    def test_a_command_that_runs_can_be_interrupted(self):
        answer = self.run_code("!sleep 600", timeout_ms=1500, grace_ms=LONG_GRACE)
        self.assertEqual((answer.status, answer.kernel), ("timed_out", "alive"))

    def test_changing_folders(self):
        self.completed("%mkdir sub\n%cd -q sub")
        self.assertEqual(self.completed("import os; os.path.basename(os.getcwd())").result, "'sub'")

    def test_what_ran_before_ipython_is_carried_over(self):
        self.completed("from __future__ import annotations\nx = 41")
        self.completed("x + 1")
        self.assertEqual(self.completed("_2 + Out[2] + _").result, "126")
        self.assertEqual(self.completed("In[1].splitlines()[-1], _i1 == In[1]").result, "('x = 41', True)")
        self.assertEqual(self.completed("def f(a: nonsense): pass\nf.__annotations__").result, "{'a': 'nonsense'}")
        self.assertIn("<cell 6>", self.run_code("1/0").error["traceback"])

    def test_output_history_grows(self):
        self.completed("%time 1")
        self.completed("'two'")
        self.assertEqual(self.completed("Out[2]").result, "'two'")

    def test_get_ipython_and_pickles_of_main(self):
        self.assertIn("Shell", self.completed("get_ipython()").result)
        code = "import pickle\nclass A: pass\npickle.loads(pickle.dumps(A())).__class__ is A"
        self.assertEqual(self.completed(code).result, "True")

    def test_unknown_magics_fail_the_run(self):
        answer = self.run_code("%no_such_magic")
        self.assertEqual((answer.status, answer.error["name"]), ("failed", "UsageError"))

    def test_an_error_in_a_script_that_runs_fails_the_run(self):
        self.write("script.py", "value = 7\nraise KeyError('script')")
        answer = self.run_code("%run script.py")
        self.assertEqual((answer.status, answer.error["name"]), ("failed", "KeyError"))
        self.assertEqual(self.completed("value").result, "7")

    def test_exits(self):
        self.completed("get_ipython();")
        for code, exit_code in (("exit(3)", 3), ("import sys; sys.exit(4)", 4), ("quit()", 0)):
            answer = self.run_code(code)
            self.assertEqual((answer.exit_code, answer.err, answer.error), (exit_code, "", None))

    def test_help_is_printed(self):
        self.assertIn("Return", self.completed("len?").out)

    def test_inline_and_its_settings_are_taken(self):
        self.completed("%matplotlib inline\n%config InlineBackend.figure_format = 'retina'")

    def test_lines_have_the_numbers_that_were_sent(self):
        self.completed("get_ipython();")
        for code in ("\n \n1/0", "\n\n  1/0", "\n\n!true\n1/0", "\n\n(", "1\n2\n3/0"):
            with self.subTest(code):
                self.assertIn("line %d" % len(code.splitlines()), self.run_code(code).error["traceback"])
        self.assertEqual(self.completed("\n\n%%bash\necho 1").out, "1\n")

    def test_semicolons_and_await(self):
        self.completed("get_ipython();")
        self.assertIsNone(self.completed("5;").result)
        self.assertEqual(self.completed("import asyncio\nawait asyncio.sleep(0, 3)").result, "3")
        answer = self.run_code("await asyncio.sleep(600)", timeout_ms=300, grace_ms=LONG_GRACE)
        self.assertEqual((answer.status, answer.kernel), ("timed_out", "alive"))
        self.assertEqual(self.completed("await asyncio.sleep(0, 4)").result, "4")

    def test_display_of_documents(self):
        answer = self.completed(
            "from IPython.display import display, HTML, Markdown, SVG, JSON\n"
            "display(HTML('<b>x</b>')); display(Markdown('# head')); display(SVG('<svg></svg>')); print('end')"
        )
        self.assertEqual([list(d["data"]) for d in answer.displays], [["text/html"], ["image/svg+xml"]])
        self.assertEqual(answer.out, "# head\nend\n")

    def test_what_was_cleared_is_not_shown(self):
        self.completed("from IPython.display import *; import os, sys\ndef svg(n): display(SVG('<svg>%s</svg>' % n))")
        for code, out, shown in (
            ("svg(1); print(1); clear_output(); print(2)", "2\n", []),
            ("svg(1); print(1); clear_output(wait=True); svg(2)", "", [2]),
            ("svg(1); print(1); clear_output(wait=True); print(2)", "2\n", []),
            ("svg(1); print(1, end=''); clear_output(wait=True)", "1", [1]),  # nothing came behind it
            ("for n in range(3):\n    clear_output(wait=True); svg(n); print(n)", "2\n", [2]),
            ("for n in range(3):\n    clear_output(wait=True)\n    !echo $n", "2\n", []),
            ("for n in range(99): print(n)\nclear_output(wait=True); sys.stdout.buffer.write(b'b'); None", "b", []),
            ("print(1); clear_output(wait=True); 5", "", []),
            ("print(1); clear_output(wait=True)\nif os.fork(): os.wait()\nelse: print('child'); os._exit(0)", "1\nchild\n", []),
        ):
            with self.subTest(code):
                answer = self.completed(code)
                texts = [d["data"]["image/svg+xml"] for d in answer.displays]
                self.assertEqual((answer.out, texts), (out, ["<svg>%d</svg>" % n for n in shown]))
                self.assertEqual(answer.displays_total, len(shown))
                self.assertEqual([a["path"] for a in answer.artifacts], [d["path"] for d in answer.displays])

    def test_an_update_takes_the_place_of_what_it_updates(self):
        self.completed("from IPython.display import *")
        code = "h = display(SVG('<svg>1</svg>'), display_id=True); display(SVG('<svg/>')); display('a', display_id='t'); print(1)\n"
        answer = self.completed(code + "for n in range(3): h.update(SVG('<svg>%d</svg>' % n)); update_display(n, display_id='t')")
        shown = [*({"image/svg+xml": text} for text in ("<svg>2</svg>", "<svg/>")), {"text/plain": "2"}]
        self.assertEqual(([d["data"] for d in answer.displays], answer.out, answer.displays_total), (shown, "1\n", 3))
        self.assertEqual([d.get("path") for d in answer.displays], ["output/image-1.svg", "output/image-2.svg", None])
        answer = self.completed("h.update(SVG('<svg>3</svg>'))")  # what an earlier run has shown stays as it was
        self.assertEqual([d["path"] for d in answer.displays], ["output/image-3.svg"])

    def test_an_update_that_is_no_longer_of_its_run_is_printed(self):
        begin = "import os, sys\nfrom IPython.display import display\nh = display('0%', display_id=True)\n"
        child = "if not (child := os.fork()):\n    h.update('50%')\n    sys.stdout.flush()\n    os._exit(0)\nos.waitpid(child, 0);"
        answer = self.completed(begin + child)
        self.assertEqual((answer.out, [d["data"] for d in answer.displays]), ("'50%'\n", [{"text/plain": "'0%'"}]))

    def test_a_file_that_code_has_changed_stays(self):
        code = "from IPython.display import *\ndisplay(SVG('<svg/>')); open('output/image-1.svg', 'w').write('mine'); clear_output()"
        self.assertEqual([a["path"] for a in self.completed(code).artifacts], ["output/image-1.svg"])

    def test_a_long_document_is_a_file(self):
        answer = self.completed("from IPython.display import display, HTML\ndisplay(HTML('<p>' + 'x' * 100_000))")
        (page,) = answer.displays
        self.assertEqual((page["path"], page["size_bytes"]), ("output/page-1.html", 100_003))
        self.assertLessEqual(set(page["data"]), {"image/png"})  # where the image has a browser

    def test_ipython_writes_nothing_into_the_work_dir(self):
        self.completed("%time 1")
        self.assertEqual(sorted(os.listdir(self.client.work_dir)), ["input", "output"])

    def test_no_threads_are_left(self):
        self.completed("%time 1")
        self.assertEqual(self.completed("import threading; threading.active_count() <= 2").result, "True")


class Figures(SupervisorTest):
    def test_open_figures_are_shown_at_the_end(self):
        answer = self.completed("import matplotlib.pyplot as plt\nplt.plot([1, 2]); plt.title('One')\nplt.figure();")
        self.assertEqual([d["path"] for d in answer.displays], ["output/figure-1.png", "output/figure-2.png"])
        self.assertEqual([d["alt"] for d in answer.displays], ["One", ""])
        self.assertEqual(self.completed("plt.get_fignums()").result, "[]")

    def test_a_figure_says_where_code_has_saved_it_as_it_is(self):
        code = "import matplotlib.pyplot as plt, io, os\nfig, ax = plt.subplots(); ax.plot([1, 2])\n"
        for step, saved in (
            ("plt.savefig('a.png')", "a.png"), ("fig.savefig('output/b.pdf'); plt.show()", "output/b.pdf"), ("plt.savefig('c')", "c.png"),
            ("os.chdir('output'); plt.savefig('d.svg'); os.chdir('..')", "output/d.svg"),
            ("plt.savefig('a.png'); ax.set_title('later')", None), ("plt.savefig('a.png'); os.remove('a.png')", None),
            ("plt.savefig('a.png'); plt.figure(); plt.savefig('a.png'); plt.close()", None), ("plt.savefig(io.BytesIO())", None), ("plt.savefig('/tmp/a.png')", None), ("", None),
        ):
            with self.subTest(step):
                (display,) = self.completed(code + step).displays
                self.assertEqual(display.get("saved"), saved)

    def test_a_picture_that_code_has_saved_is_saved_once(self):
        code = "import matplotlib.pyplot as plt\nfig, ax = plt.subplots(); ax.plot([1, 2])\n"
        for step in ("", "plt.show()", "display(fig)", "plt.close(); fig", "fig.savefig('a.svg'); plt.show()", "display(fig)\nfig"):
            with self.subTest(step):
                answer = self.completed(code + "fig.savefig('output/a.png', dpi=50)\n" + step)
                (display,) = answer.displays
                size = os.path.getsize(os.path.join(self.client.work_dir, "output/a.png"))
                self.assertEqual((display["path"], display["saved"], display["size_bytes"]), ("output/a.png", "output/a.png", size))
                self.assertEqual(os.listdir(os.path.join(self.client.work_dir, "output")), ["a.png"])
                self.assertIn("image/png", display["data"])

    def test_pictures_that_replace_each_other_are_kept(self):
        code = "import matplotlib.pyplot as plt\nfor n in range(3): plt.plot([n, 1]); plt.title(n); plt.savefig('a.png'); plt.show()"
        displays = self.completed(code).displays
        self.assertEqual([(d["alt"], d["path"]) for d in displays], [("0", "output/figure-1.png"), ("1", "output/figure-2.png"), ("2", "a.png")])
        files = {open(os.path.join(self.client.work_dir, d["path"]), "rb").read() for d in displays}
        self.assertEqual(len(files), 3)

    def test_a_figure_that_is_redrawn_has_one_display(self):
        begin = "import matplotlib.pyplot as plt\nfrom IPython.display import clear_output, display\nfig, ax = plt.subplots()\n"
        for step in (
            "clear_output(wait=True); display(fig)", "plt.pause(0.01)", "plt.pause(0.01); plt.clf(); ax = plt.subplot()",
            "clear_output(wait=True); plt.show(); fig, ax = plt.subplots()", "ax.clear(); ax.set_title((n + 1) % 2 * 4); plt.pause(0.01)",
        ):
            with self.subTest(step):
                answer = self.completed(begin + "for n in range(5): ax.plot([n, 1]); ax.set_title(n); " + step + "\nif not ax.lines: plt.close()")
                self.assertEqual(([d["alt"] for d in answer.displays], len(answer.artifacts)), (["4"], 1))

    def test_show_shows_in_order(self):
        code = (
            "import matplotlib.pyplot as plt\nplt.plot([1]); plt.suptitle('A'); plt.show()\n"
            "plt.plot([2]); plt.title('B'); plt.show(); plt.show()"
        )
        self.assertEqual([d["alt"] for d in self.completed(code).displays], ["A", "B"])

    def test_a_figure_is_shown_once_however_it_is_shown(self):
        make = "import matplotlib.pyplot as plt\nfig, ax = plt.subplots(); ax.plot([1, 2]); ax.set_title('T')\n"
        for show in ("display(fig)", "display(fig)\nfig", "plt.show()\nfig", "fig.show()\nfig", "plt.close(fig)\nfig"):
            with self.subTest(show):
                self.assertEqual([d["alt"] for d in self.completed(make + show).displays], ["T"])

    def test_several_figures_come_in_order(self):
        code = (
            "import matplotlib.pyplot as plt\nfigs = [plt.figure() for _ in range(3)]\n"
            "for n, f in enumerate(figs): f.suptitle(str(n))\ndisplay(figs[2])\nfigs[1]"
        )
        self.assertEqual([d["alt"] for d in self.completed(code).displays], ["2", "1", "0"])

    def test_captured_figures_are_shown_when_they_are_asked_for(self):
        self.completed("import matplotlib.pyplot as plt")
        for code in ("_ = plt.plot([1, 2])", "plt.plot([1, 2]); plt.show()"):
            with self.subTest(code):
                self.assertEqual(self.completed("%%capture kept\n" + code).displays, [])
                self.assertEqual(self.completed("len(kept.outputs), plt.get_fignums()").result, "(1, [])")
                self.assertEqual(len(self.completed("kept.show()").displays), 1)

    def size(self, display):
        data = base64.b64decode(next(iter(display["data"].values())))
        code = "from PIL import Image\nimport base64, io\nImage.open(io.BytesIO(base64.b64decode(%r))).size"
        return eval(self.completed(code % base64.b64encode(data).decode()).result)

    def test_a_picture_that_is_too_large_is_shown_smaller_and_kept_in_full(self):
        code = "from PIL import Image\nImage.effect_noise((%d, %d), 90)"
        for width, height in ((1500, 1500), (6000, 20)):
            (display,) = self.completed(code % (width, height)).displays
            self.assertLessEqual(len(base64.b64decode(next(iter(display["data"].values())))), 1 << 20)
            self.assertGreater(display["size_bytes"], 50_000)
            self.assertEqual(os.path.getsize(self.client.path(display["path"])), display["size_bytes"])
        (display,) = self.completed("Image.new('RGB', (6000, 3000))").displays
        width, height = self.size(display)
        self.assertLessEqual(width * height, 4_000_000)
        self.assertAlmostEqual(width / height, 2, places=2)

    def test_a_photo_is_upright_where_it_is_made_smaller(self):
        code = (
            "from PIL import Image\nfrom IPython.display import Image as Photo\nexif = Image.Exif(); exif[274] = %d; exif[270] = 'at home'\n"
            "Image.effect_noise((3000, 1500), 60).save('photo.jpg', quality=95, exif=exif, comment='at home'); Photo('photo.jpg')"
        )
        for orientation, portrait in ((1, False), (3, False), (6, True), (7, True), (999, False)):
            with self.subTest(orientation):
                (display,) = self.completed(code % orientation).displays
                width, height = self.size(display)
                self.assertEqual(height > width, portrait)
                self.assertNotIn(b"at home", base64.b64decode(next(iter(display["data"].values()))))

    def test_a_large_picture_of_16_bits_keeps_its_greys(self):
        code = "from PIL import Image\nImage.linear_gradient('L').resize((3000, 3000)).convert('I').point(lambda v: v * 256)"
        (display,) = self.completed(code + ".convert('I;16').show()").displays
        data = next(iter(display["data"].values()))
        code = "import base64, io\nImage.open(io.BytesIO(base64.b64decode(%r))).convert('L').resize((1, 3)).tobytes()[1]"
        self.assertAlmostEqual(int(self.completed(code % data).result), 127, delta=9)

    def test_the_program_makes_a_large_picture_smaller(self):
        """Runs pictures.py as read_artifact does."""
        make = (
            "from PIL import Image\nimport struct, zlib\nim = Image.effect_noise((4032, 3024), 60).convert('RGB')\n"
            "im.save('phone.jpg', quality=85)\nim.save('progressive.jpg', progressive=True)\nim.save('large.png', compress_level=1)\n"
            "Image.new('I;16', (3000, 3000), 9).save('deep.png')\nim.save('large.webp', quality=50, method=0)\n"
            "open('half.jpg', 'wb').write(open('phone.jpg', 'rb').read()[:9999])\nd = open('large.png', 'rb').read()\n"
            "size = d[12:16] + struct.pack('>II', 60000, 60000) + d[24:29]\n"
            "open('bomb.png', 'wb').write(d[:12] + size + struct.pack('>I', zlib.crc32(size)) + d[33:])"
        )
        self.completed(make)
        wanted = {"phone.jpg": "", "progressive.jpg": "", "large.png": "", "deep.png": "", "large.webp": ""}
        for name, error in {**wanted, "half.jpg": "broken", "bomb.png": "too_large"}.items():
            request = json.dumps({"work_dir": self.client.path(""), "path": name, "type": "image/x", "limit_bytes": 933_000})
            program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "pictures.py")
            told = subprocess.run([sys.executable, "-I", program], input=request + "\n", capture_output=True, text=True, check=True)
            answer = json.loads(told.stdout)
            with self.subTest(name):
                self.assertEqual(answer.get("error", ""), error, answer)
                self.assertLess(len(answer.get("text", "")), 933_000)
                if not error:
                    self.assertIn(max(self.size({"data": {"x": answer["text"]}})), range(390, 1569))

    def test_a_figure_of_many_megapixels_is_drawn_with_fewer(self):
        code = "import matplotlib.pyplot as plt\nplt.figure(figsize=(100, 100), dpi=300);"
        (display,) = self.completed(code).displays
        width, height = self.size(display)
        self.assertLessEqual(width * height, 4_000_000)

    def test_figures_of_a_failed_run_are_shown(self):
        answer = self.run_code("import matplotlib.pyplot as plt\nplt.plot([1])\n1/0")
        self.assertEqual((answer.status, len(answer.displays)), ("failed", 1))

    def test_a_figure_that_cannot_be_drawn_fails_the_run(self):
        answer = self.run_code("import matplotlib.pyplot as plt\nplt.title('$\\\\nonsense{$')")
        self.assertEqual(answer.status, "failed")
        self.assertEqual(self.completed("plt.get_fignums()").result, "[]")
        answer = self.run_code("plt.title('$\\\\frac{1$'); plt.figure(); plt.title('$\\\\nonsense{$'); plt.figure(); plt.title('good')")
        self.assertEqual((answer.status, "frac" in answer.error["message"]), ("failed", True))
        self.assertEqual([d["alt"] for d in answer.displays], ["good"])

    def test_pillow_images_are_shown_whatever_their_mode(self):
        self.completed("from PIL import Image\nImage.new('P', (4, 4)).save('palette.gif')")
        modes = ("1", "RGB", "RGBA", "LA", "CMYK", "LAB", "HSV", "I", "F", "I;16")
        for image in ["Image.open('palette.gif')"] + ["Image.new(%r, (4, 4))" % mode for mode in modes]:
            for show in ("%s", "%s.show(title='t')", "display(%s)"):
                with self.subTest(show % image):
                    (display,) = self.completed(show % image).displays
                    self.assertEqual(list(display["data"]), ["image/png"])

    def test_a_forked_child_shows_no_figure_of_its_parent_and_keeps_its_own(self):
        code = (
            "import matplotlib.pyplot as plt, os\nplt.plot([1, 2])\npid = os.fork()\n"
            "if pid == 0:\n    %s\nelse:\n    os.waitpid(pid, 0);"
        )
        answer = self.completed(code % "pass")
        self.assertEqual(([d["path"] for d in answer.displays], answer.out), (["output/figure-1.png"], ""))
        answer = self.completed(code % "plt.title('child'); plt.show()")
        self.assertEqual((len(answer.displays), answer.out), (1, "[image/png] output/figure-2.png\n"))

    def test_fonts_and_glyphs_that_are_missing_are_told_once(self):
        plot = "import matplotlib.pyplot as plt\nplt.rcParams['font.family'] = %r\nplt.title(%r)"
        err = self.completed(plot % ("No Such Font", "title")).err
        self.assertRegex(err, r"^findfont: Font family 'No Such Font' not found. \(\d+ times\)\n$")
        err = self.completed(plot % ("DejaVu Sans", "\u9500\u552e\u989d")).err
        self.assertEqual((err.count("missing from"), err.count("(3 times)")), (1, 1), err)
        self.assertRegex(err, r"^<cell 2>:3: UserWarning")


class Pages(SupervisorTest):
    FIGURE = "import plotly.graph_objects as go\nfig = go.Figure(go.Scatter(y=[1, 2]), layout_title_text='T <b>b</b>')\n"

    def test_a_plotly_figure_is_a_page(self):
        for number, last in enumerate(("fig", "fig.show()", "display(fig)"), 1):
            (page,) = self.completed(self.FIGURE + last).displays
            self.assertEqual((page["alt"], page["path"]), ("T  b", "output/figure-%d.html" % number))
            with open(self.client.path(page["path"])) as file:
                text = file.read()
            self.assertIn("<html", text)
            self.assertNotIn("<script src", text.replace("charset=\"utf-8\" ", ""))
        self.assertIn(self.completed("fig").result, (None, "Figure"))

    def test_a_frame_around_a_file_shows_that_file(self):
        (page,) = self.completed("open('output/a b.html', 'w').write('<p>a')\nfrom IPython.display import IFrame\nIFrame('output/a b.html', 9, 9)").displays
        self.assertEqual(page["path"], "output/a b.html")


class Tables(SupervisorTest):
    def test_a_table_is_text_alone(self):
        answer = self.completed("import pandas as pd\npd.DataFrame({'a': [1, 2]})")
        self.assertEqual(answer.result, "   a\n0  1\n1  2")
        self.assertEqual(answer.displays, [])

    def test_display_prints_a_table_where_it_stands(self):
        answer = self.completed("import pandas as pd\nprint('before')\ndisplay(pd.DataFrame({'a': [1]}))\nprint('after')")
        self.assertEqual(answer.out, "before\n   a\n0  1\nafter\n")

    def frame(self, rows, columns, show):
        make = "import numpy as np, pandas as pd\ndf = pd.DataFrame(np.zeros((%d, %d))).add_prefix('col_')\n"
        answer = self.completed(make % (rows, columns) + show)
        return answer.result or answer.out

    def test_a_frame_of_twenty_columns_has_all_of_them(self):
        for show in ("df", "print(df)", "df.describe()", "display(df)"):
            for columns in (15, 20):
                with self.subTest(show, columns=columns):
                    text = self.frame(3, columns, show)
                    self.assertEqual([n for n in range(columns) if "col_%d" % n not in text], [])
                    self.assertNotIn("...", text)

    def test_a_wider_frame_is_as_in_a_notebook(self):
        for rows, columns in (3, 60), (60, 200):
            text = self.frame(rows, columns, "df")
            self.assertIn("[%d rows x %d columns]" % (rows, columns), text)
            self.assertEqual(text.count("col_"), 20)
            self.assertLess(len(text), 300 * (rows + 4))

    def test_a_name_that_a_frame_lacks_is_told_with_the_nearest(self):
        self.completed("import pandas as pd\ndf = pd.DataFrame({'region': ['a'], 'sales': [1]})")
        for code in ("df['Sales ']", "df.groupby('region')['sale'].sum()", "df.sort_values('sles')", "df.merge(df, on='sale')", "df[['region', 'sale']]"):
            with self.subTest(code):
                traceback = self.run_code(code).error["traceback"]
                self.assertIn("nearest 'sales', 'region'", traceback)
                self.assertEqual(traceback.count("Traceback"), 1)
                self.assertLess(len(traceback), 450)

    def test_options_of_the_code_come_first(self):
        self.assertIn("...", self.frame(3, 10, "with pd.option_context('display.max_columns', 4): print(df)"))
        self.assertIn("...", self.frame(3, 10, "pd.set_option('display.max_columns', 4)\ndf"))

    def test_a_row_of_an_array_is_a_line(self):
        self.completed("import numpy as np, threading\nrows = np.arange(60.).reshape(3, 20) / 7\ndef show(): print(rows)")
        for show in ("rows", "show()", "t = threading.Thread(target=show); t.start(); t.join()"):
            answer = self.completed(show)
            self.assertEqual(len((answer.result or answer.out).splitlines()), 3)

    def test_a_file_of_the_users_may_have_a_packages_name(self):
        self.write("pandas.py", "name = 'mine'")
        self.assertEqual(self.completed("import pandas; pandas.name").result, "'mine'")


class Formulas(SupervisorTest):
    def test_a_formula_is_text_alone(self):
        answer = self.completed("import sympy\nx = sympy.symbols('x')\nsympy.integrate(x ** 2, x)")
        self.assertEqual((answer.result, answer.displays), ("x**3/3", []))
        answer = self.completed("sympy.init_printing()\nsympy.sqrt(x)")
        self.assertEqual((answer.result, answer.displays), ("\u221ax", []))

    def test_printing_as_it_is_set_up_in_a_first_cell(self):
        answer = self.completed("import sympy\nsympy.init_printing()\nsympy.sqrt(sympy.symbols('x'))")
        self.assertEqual(answer.result, "\u221ax")


class Arrays(SupervisorTest):
    def test_a_long_product_is_interrupted(self):
        code = "import numpy\na = numpy.random.rand(500, 500)\nwhile True: a @ a"
        answer = self.run_code(code, timeout_ms=1500, grace_ms=LONG_GRACE)
        self.assertEqual((answer.status, answer.kernel), ("timed_out", "alive"))
        self.assertEqual(self.completed("a.shape").result, "(500, 500)")


class Bars(SupervisorTest):
    def test_bars_in_bars_end_as_they_were_seen_last(self):
        code = (
            "from tqdm import trange\nfor i in trange(3, desc='outer', ncols=60):\n"
            "    for j in trange(4, desc='inner', ncols=60, leave=False): pass"
        )
        lines = self.completed(code).err.rstrip().splitlines()
        self.assertEqual(len(lines), 1, lines)
        self.assertRegex(lines[0], r"^outer: 100%.* 3/3 ")


class Loaded(SupervisorTest):
    init = {"preload": ["numpy", "pandas", "matplotlib.pyplot"], "warm": True}

    def test_fresh_kernels_have_everything_and_random_numbers_of_their_own(self):
        self.client.wait_for_modules("IPython", "numpy", "pandas", "matplotlib.pyplot")
        results = {self.completed("import numpy; numpy.random.rand()", fresh=True).result for _ in range(3)}
        self.assertEqual(len(results), 3)
        product = "import numpy\na = numpy.random.rand(400, 400)\nbool(((a @ a) > 0).all())"
        self.assertEqual(self.completed(product, fresh=True).result, "True")
        self.assertEqual(self.completed("%time 1").result, "1")
        answer = self.completed("import matplotlib.pyplot as plt\nplt.plot([1])\nplt.show()", fresh=True)
        self.assertEqual(len(answer.displays), 1)


class Twins(Forks):
    def test_libraries_of_the_image(self):
        for name in ("pandas text", "a pipe", "parquet", "duckdb", "scikit-learn", "lightgbm"):
            self.check_row(name)
        self.check_refused("polars")

    def test_code_sees_nothing_of_the_cell_that_is_run_behind_a_fork(self):
        self.completed("ip = get_ipython(); seen = []; ip.events.register('pre_execute', lambda: seen.append(1)); 7")
        self.client.wait_for("twins", why="")
        state = self.completed("seen, ip.last_execution_succeeded, _, In[-2][-1], len(In)").result
        self.assertEqual(state, "([1], True, 7, '7', 3)")


def load_tests(loader, _tests, _pattern):
    """Chooses by what the interpreter has. The tests of internal/test/e2e run all of it in the image."""
    client = Client()
    try:
        has = {name for name in ("pandas", "matplotlib", "PIL", "numpy", "plotly", "sympy", "tqdm")
               if client.run("import importlib.util as u; u.find_spec(%r) is not None" % name).result == "True"}
        ipython = "ipython" in client.ready["features"]
    finally:
        client.close()
    suite = unittest.TestSuite()
    for case, needed in ((IPython, set()), (Twins, set()), (Figures, {"matplotlib", "PIL"}), (Tables, {"pandas"}),
                         (Pages, {"plotly"}), (Formulas, {"sympy"}), (Arrays, {"numpy"}), (Bars, {"tqdm"}),
                         (Loaded, {"numpy", "pandas", "matplotlib"})):
        if ipython and needed <= has:
            suite.addTests(loader.loadTestsFromTestCase(case))
    return suite


if __name__ == "__main__":
    unittest.main()
