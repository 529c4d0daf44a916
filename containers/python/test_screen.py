"""screen.py: what a terminal would show last of a stream, whatever pieces it comes in."""

import json
import os
import random
import unittest

import screen
from screen import Screen
from test_support import SupervisorTest


def shown(*chunks):
    terminal = Screen()
    settled = [piece for chunk in chunks for piece in terminal.feed(chunk)]
    settled += terminal.feed(b"", final=True)
    text = b"".join(settled).decode() + terminal.rest()
    assert terminal.line_ends == b"".join(chunks).count(b"\n")
    assert terminal.shown_line_ends == text.count("\n")
    return text


class Showing(unittest.TestCase):
    def check(self, *pairs):
        for written, expected in pairs:
            with self.subTest(written):
                self.assertEqual(shown(written.encode()), expected)

    def test_plain_text_is_as_it_was(self):
        for text in ("", "a", "a\n", "\n\n", "a  \n b\t\n", "é€😀\n" * 500, "x" * 100_000, "line\n" * 10_000):
            self.check((text, text))

    def test_the_table_that_all_languages_share(self):
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../testdata/screen.json"), encoding="utf-8") as file:
            for cases in json.load(file).values():
                self.check(*cases)

    def test_moves_have_bounds(self):
        for final in "ABCDEFGHdPJK`aefu":
            for number in ("", "0", "9" * 60, "1;" + "9" * 60, "5;5;5;5", ":"):
                text = shown(("x\x1b[%s%sy" % (number, final)).encode())
                self.assertLess(len(text), 500, (number, final))

    def test_it_holds_a_bounded_part(self):
        terminal = Screen()
        hostile = (b"x" * 1_000_000, b"x\n" * 500_000, b"\x1b[999;999Hx" * 50_000, b"x\b" * 100_000, b"\x1b]" * 1000)
        for chunk in hostile:
            terminal.feed(chunk)
            most = screen.ROWS * 2 * screen.LINE_CHARS
            self.assertLessEqual(sum(map(len, terminal.lines)), most)
            self.assertLessEqual(len(terminal.lines), screen.ROWS)
            self.assertLess(len(terminal.pending), 100)


PARTS = [part.encode("latin-1") for part in (
    "\r", "\n", "\b", "\a", "\r\n", "\x1b", "\x1b[", "\x1b[1", "\x1b[1;2", "m", "[", " ", "   ", "\x18", "\xff\xe2\x82",
    "\xf0\x9f\x98\x80", "\x1b[A", "\x1b[2A", "\x1b[B", "\x1b[E", "\x1b[F", "\x1b[K", "\x1b[1K", "\x1b[2K", "\x1b[J",
    "\x1b[1J", "\x1b[2J", "\x1b[H", "\x1b[3;5H", "\x1b[5C", "\x1b[999C", "\x1b[3D", "\x1b[10G", "\x1b[7d", "\x1b[2P",
    "\x1b[31;1m", "\x1b[0m", "\x1b\x1b[1m", "\x1b]0;title\a", "\x1b]8;;u\x1b\\", "\x1b]x", "\x1bP", "\x1b7", "\x1b8",
    "\x1bM", "\x1bD", "\x1bc", "\x1b[s", "\x1b[u", "\x1b[?25l", "\x1b(B",
    "\xc2\x9b", "\xc2\x9d", "\xc2",
)]  # fmt: skip


class Splitting(unittest.TestCase):
    """However a stream is split, the same is shown: small bounds reach every path with little text."""

    BOUNDS = ((50, 2048, 4096), (2, 4, 0), (3, 3, 5), (5, 8, 20))

    def setUp(self):
        names = ("ROWS", "LINE_CHARS", "FLOOD_BYTES")
        before = [getattr(screen, name) for name in names]
        self.bound = lambda bounds: [setattr(screen, *pair) for pair in zip(names, bounds)]
        self.addCleanup(self.bound, before)

    def stream(self, source):
        def part():
            if source.random() < 0.6:
                return source.choice(PARTS)
            return source.choice((b"a", b"word ", b"x" * source.randrange(30), b"line\n" * source.randrange(8)))

        return b"".join(part() for _ in range(source.randrange(120)))

    def pieces(self, source, data):
        while data:
            size = source.choice((1, 1, 2, 3, 7, 50, 1000))
            yield data[:size]
            data = data[size:]

    def test_random_streams(self):
        for seed in range(1500):
            source = random.Random(seed)
            self.bound(self.BOUNDS[seed % len(self.BOUNDS)])
            data = self.stream(source)
            whole = shown(data)
            self.assertEqual(shown(*self.pieces(source, data)), whole, (seed, data))
            self.assertEqual(shown(*(data[i : i + 1] for i in range(len(data)))), whole, (seed, data))


class Runs(SupervisorTest):
    init = {"output_bytes": 1000}

    def test_a_long_progress_bar_costs_one_line_and_the_file_has_all(self):
        code = "print('begin')\nfor i in range(20_001): print('\\r%6d of 20000 %s' % (i, '#' * 30), end='')\nprint()"
        answer = self.completed(code)
        stream = answer.stdout
        self.assertEqual(stream["head"], "begin\n 20000 of 20000 %s\n" % ("#" * 30))
        self.assertEqual((stream["tail"], stream["omitted_bytes"], stream["omitted_lines"]), ("", 0, 0))
        self.assertEqual((stream["bytes"], stream["lines"]), (20_001 * 47 + 7, 2))
        with open(self.client.path(".runs/r1.stdout.txt"), "rb") as file:
            raw = file.read()
        self.assertEqual((len(raw), raw.count(b"\r")), (stream["bytes"], 20_001))

    def test_cuts_count_what_is_shown(self):
        answer = self.completed("for i in range(1000): print('wait...\\r\\x1b[32mline\\x1b[0m', i)")
        whole = "".join(("line %d" % i).ljust(7, ".") + "\n" for i in range(1000))
        stream = answer.stdout
        self.assertEqual((stream["head"], stream["tail"]), (whole[:500], whole[-500:]))
        self.assertEqual(stream["omitted_bytes"], len(whole) - 1000)
        self.assertEqual(stream["omitted_lines"], whole[500:-500].count("\n"))
        self.assertEqual(stream["path"], ".runs/r1.stdout.txt")

    def test_progress_and_peek_tell_the_last_state(self):
        code = "import time\nfor i in range(1000): print('\\r%d%%' % i, end='')\ntime.sleep(60)"
        run_id = self.client.start(code)
        while True:
            if self.client.wait_for("progress", id=run_id)["last_line"] == "999%":
                break
        self.client.send({"type": "peek", "id": run_id})
        self.assertEqual(self.client.wait_for("peek", id=run_id)["stdout"]["head"], "999%")
        self.client.send({"type": "interrupt", "id": run_id, "reason": "cancelled"})
        self.assertEqual(self.client.finish(run_id).out, "999%")

    def test_characters_that_come_in_halves(self):
        code = "import os, time\nfor byte in 'é€😀\\n'.encode(): os.write(1, bytes([byte])); time.sleep(0.002)"
        self.assertEqual(self.completed(code).out, "é€😀\n")


if __name__ == "__main__":
    unittest.main()
