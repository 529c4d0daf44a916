"""Artifacts and displays: the files that a run made and the pictures that it showed.

This is about artifacts.py, and about display.py, mimes.py and pictures.py.
"""

import base64
import os
import struct
import unittest
import zlib

from test_support import LONG_GRACE, SupervisorTest


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


class Artifacts(SupervisorTest):
    def paths(self, code):
        return sorted(artifact["path"] for artifact in self.run_code(code).artifacts)

    def test_new_and_changed_files_are_artifacts(self):
        self.assertEqual(self.paths("open('a.txt', 'w').write('1');"), ["a.txt"])
        self.assertEqual(self.paths("1"), [])
        self.assertEqual(self.paths("open('a.txt', 'a').write('2'); open('b.txt', 'w').close()"), ["a.txt", "b.txt"])

    def test_a_change_right_after_the_run_before_is_seen(self):
        for i in range(20):
            self.assertEqual(self.paths("open('a.txt', 'w').write(%r);" % str(i)), ["a.txt"])

    def test_a_change_that_keeps_size_and_modification_time_is_seen(self):
        self.paths("open('a.txt', 'w').write('1');")
        code = "import os; s = os.stat('a.txt'); open('a.txt', 'w').write('2'); os.utime('a.txt', ns=(0, s.st_mtime_ns))"
        self.assertEqual(self.paths(code), ["a.txt"])

    def test_files_of_a_failed_run_are_artifacts(self):
        self.assertEqual(self.paths("open('a.txt', 'w').close(); 1/0"), ["a.txt"])

    def test_each_has_size_and_time(self):
        artifact = self.run_code("open('a.txt', 'w').write('12345');").artifacts[0]
        self.assertEqual(artifact["size_bytes"], 5)
        info = os.stat(self.client.path("a.txt"))
        self.assertEqual(artifact["modified_ms"], info.st_mtime_ns // 1_000_000)

    def test_folders_are_searched_but_not_input_and_hidden_ones(self):
        code = (
            "import os\n"
            "for d in ('sub/deep', '.hidden', 'sub/.git', 'sub/input', 'node_modules', '__pycache__'): os.makedirs(d)\n"
            "for f in ('sub/deep/a', 'input/b', '.hidden/c', 'sub/.git/d', '.e', 'sub/input/f', 'node_modules/g',\n"
            "          '__pycache__/h', 'output/i'): open(f, 'w').close()"
        )
        self.assertEqual(self.paths(code), ["output/i", "sub/deep/a", "sub/input/f"])

    def test_links_and_special_files_are_none(self):
        code = (
            "import os\nos.symlink('/etc/passwd', 'link'); os.symlink('/etc', 'dirlink'); os.mkfifo('fifo')\n"
            "os.symlink('.', 'loop'); open('real', 'w').close()"
        )
        self.assertEqual(self.paths(code), ["real"])

    def test_files_that_others_wrote_between_runs_are_none(self):
        self.completed("1")
        with open(self.client.path("foreign"), "w") as file:
            file.write("x")
        old = os.stat(self.client.path("foreign")).st_ctime_ns
        self.completed("import os, time\nwhile time.time_ns() < %d: pass" % (old + 100_000_000))
        self.assertEqual(self.paths("1"), [])

    def test_names_that_are_no_utf8_are_left_out(self):
        self.assertEqual(self.paths("open(b'bad\\xff', 'w').close(); open('g\\u202fut', 'w').close()"), ["g\u202fut"])

    def test_there_may_be_too_many(self):
        client = self.connect(max_artifacts=5)
        answer = client.run("import os\nfor i in range(50):\n    open('f%d' % i, 'w').close()\n"
                            "    os.utime('f%d' % i, (i, i))")
        self.assertEqual([a["path"] for a in answer.artifacts], ["f49", "f48", "f47", "f46", "f45"])
        self.assertEqual(answer.artifacts_total, 50)

    def test_very_deep_folders_do_not_break_it(self):
        code = (
            "import os\ntop = os.getcwd()\nfor i in range(300):\n    os.mkdir('d'); os.chdir('d')\n"
            "open('deep', 'w').close(); os.chdir(top); open('flat', 'w').close()"
        )
        self.assertEqual(self.paths(code), ["flat"])

    def test_folders_that_cannot_be_read_are_left_out(self):
        code = "import os\nos.mkdir('no'); open('no/x', 'w').close(); os.chmod('no', 0); open('yes', 'w').close()"
        self.assertIn("yes", self.paths(code))
        os.chmod(self.client.path("no"), 0o700)


class Usage(SupervisorTest):
    def usage(self):
        self.client.send({"type": "usage", "n": 5})
        return self.client.wait_for("usage", n=5)

    def test_it_counts_every_entry_and_its_bytes(self):
        before = self.usage()  # input and output
        taken = [os.stat(self.client.path(name)) for name in ("input", "output")]
        self.assertEqual(before["bytes"], sum(max(info.st_size, info.st_blocks * 512) for info in taken))
        self.assertEqual(before["files"], 2)
        self.completed(
            "import os\nfor d in ('.hidden', 'node_modules'): os.mkdir(d)\n"
            "for f in ('a', 'input/b', '.hidden/c', 'node_modules/d', b'e\\xff'):\n"
            "    with open(f, 'wb') as file: file.write(os.urandom(100_000))"
        )
        usage = self.usage()
        self.assertEqual((usage["files"], usage["complete"]), (9, True))
        self.assertGreaterEqual(usage["bytes"], 500_000)

    def test_very_deep_folders_are_counted(self):
        self.completed("import os\nfor i in range(100):\n    os.mkdir('d'); os.chdir('d')\nopen('x', 'w').close()")
        usage = self.usage()
        self.assertEqual((usage["files"], usage["complete"]), (103, True))

    def test_it_is_told_while_code_runs_and_without_a_work_dir(self):
        run_id = self.client.start("import time; time.sleep(0.2)")
        self.assertTrue(self.usage()["complete"])
        self.client.finish(run_id)
        client = self.connect(start=False)
        client.init(work_dir="/dev/null/x")
        client.send({"type": "usage", "n": 1})
        self.assertFalse(client.wait_for("usage", n=1)["complete"])


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
        with open(self.client.path("output", "image-1.png"), "w") as file:
            file.write("mine")
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

    def test_html_is_shown_without_a_file(self):
        (display,) = self.completed("Html('<b>bold</b>', 'n')").displays
        self.assertEqual(display["data"], {"text/html": "<b>bold</b>"})
        self.assertNotIn("path", display)

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

    def test_a_picture_that_raises_fails_the_run_or_is_left_out(self):
        answer = self.run_code("class Bad(Png):\n    def _repr_png_(self): raise ValueError('bad')\nBad(b'', 'n')")
        self.assertEqual(answer.displays, [])
        self.assertEqual(self.completed("1").result, "1")

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
