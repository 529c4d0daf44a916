"""The files program (files.py, tree.py): files that come and go, and what hostile code puts in the way."""

import contextlib
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unicodedata
import unittest

from test_support import FILES, HERE, PATIENCE
from tree import Count, Tree

NFC, NFD = (unicodedata.normalize(form, "é.txt") for form in ("NFC", "NFD"))
BAD_PATHS = (
    "", "/etc/passwd", "..", "../x", "a/../../x", "a/..", "./x", "a//b", "a/", "/", "a\0b", "a\nb", "a\x7f", "\x85",
    "x" * 256, "/".join(["x" * 200] * 21), "\ud800", 5, None, ["a"], ".uploads", ".uploads/x",
)


class FilesClient:
    """One files program and the frames to and from it."""

    def __init__(self, work_dir, hello=True):
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-c", FILES], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            cwd="/",
        )
        if hello:
            assert self.ask(op="hello", work_dir=work_dir) == {"ok": True}

    def send(self, blob=b"", **message):
        self.send_raw(json.dumps(message).encode(), blob)

    def send_raw(self, header, blob=b""):
        self.process.stdin.write(len(header).to_bytes(4, "big") + len(blob).to_bytes(4, "big") + header + blob)
        self.process.stdin.flush()

    def read_exactly(self, size):
        data = self.process.stdout.read(size)
        if len(data) < size:
            raise AssertionError("the files program ended: %s" % self.process.stderr.read().decode())
        return data

    def read(self):
        """The next (header, blob)."""
        if not self.process.stdout.peek(1) and not select.select([self.process.stdout], [], [], PATIENCE)[0]:
            raise AssertionError("no frame came")
        sizes = self.read_exactly(8)
        header_size, blob_size = int.from_bytes(sizes[:4], "big"), int.from_bytes(sizes[4:], "big")
        assert header_size <= 1 << 20 and blob_size <= 1 << 20, sizes
        return json.loads(self.read_exactly(header_size)), self.read_exactly(blob_size)

    def ask(self, **message):
        self.send(**message)
        return self.read()[0]

    def code(self, **message):
        return self.ask(**message).get("error", {}).get("code")

    def put(self, path, *chunks, end="commit", **fields):
        """Puts a file; tells the first answer that is an error, or the last one."""
        answer = self.ask(op="put", path=path, **fields)
        if "error" in answer:
            return answer
        for chunk in chunks:
            self.send(chunk, op="data")
        return self.ask(op=end)

    def get(self, path, offset=0, limit=-1, **fields):
        """Reads a file: (facts, data, end); facts alone where they are an error."""
        facts = self.ask(op="get", path=path, offset=offset, limit=limit, **fields)
        if "error" in facts:
            return facts, b"", {}
        data = b""
        while True:
            header, blob = self.read()
            if header.get("end"):
                return facts, data, header
            assert header == {"data": True} and blob, header
            data += blob

    def lines(self, path, offset=0, limit=-1, max_bytes=0):
        _, data, end = self.get(path, offset, limit, unit="lines", max_bytes=max_bytes)
        assert end["bytes"] == len(data), end
        return data, end["first_line"], end["lines"], end["complete"]

    def list(self, everything=False):
        """The (entries, end) of a list."""
        self.send(op="list", everything=everything)
        entries = []
        while True:
            header, _ = self.read()
            if header.get("end"):
                return entries, header
            assert 0 < len(header["entries"]) <= 500
            entries += header["entries"]

    def close(self):
        """Ends its stdin and tells its exit status."""
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            try:
                stream.close()
            except OSError:
                pass
        return self.process.wait(PATIENCE)


class FilesTest(unittest.TestCase):
    base = None  # where the folder of a test is made

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="files-test-", dir=self.base)
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.work = os.path.join(self.folder, "work")
        os.mkdir(self.work)
        self.files = self.connect()

    def connect(self, **options):
        client = FilesClient(self.work, **options)
        self.addCleanup(client.close)
        return client

    def path(self, *names):
        return os.path.join(self.work, *names)

    def write(self, name, content="", mode=0o644):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "wb") as file:
            file.write(content if isinstance(content, bytes) else content.encode())
        os.chmod(self.path(name), mode)

    def content(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def parts(self):
        """What is left in the folder of the parts."""
        return os.listdir(self.path(".uploads")) if os.path.isdir(self.path(".uploads")) else []

    @contextlib.contextmanager
    def swinging(self, name, *targets):
        """Makes a name a link to one target after the other, as fast as it goes."""
        stop = threading.Event()

        def swing():
            while not stop.is_set():
                for target in targets:
                    os.symlink(target, self.path("next"))
                    os.replace(self.path("next"), self.path(name))

        os.symlink(targets[0], self.path(name))
        thread = threading.Thread(target=swing)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def special_files(self):
        """A fifo, a socket, and links to them and to a device."""
        os.mkfifo(self.path("fifo"))
        listener = socket.socket(socket.AF_UNIX)
        self.addCleanup(listener.close)
        listener.bind(self.path("socket"))
        names = ["fifo", "socket"]
        for name, target in (("to-fifo", "fifo"), ("to-device", "/dev/zero"), ("to-proc", "/proc/self/environ")):
            os.symlink(target, self.path(name))
            names.append(name)
        return names


class Puts(FilesTest):
    def test_a_file_in_pieces_is_whole(self):
        answer = self.files.put("a/b/c.bin", b"one ", b"", b"two", b"x" * (1 << 20))
        self.assertEqual(answer, {"ok": True, "path": "a/b/c.bin", "size_bytes": 7 + (1 << 20)})
        self.assertEqual(self.content("a/b/c.bin"), b"one two" + b"x" * (1 << 20))
        self.assertEqual(os.stat(self.path("a/b/c.bin")).st_mode & 0o7777, 0o644)
        self.assertEqual(self.parts(), [])

    def test_mode_and_time_are_set_and_no_bits_beyond(self):
        self.files.put("a", b"1", mode=0o4755, modified_ms=1_500_000_000_123)
        info = os.stat(self.path("a"))
        self.assertEqual((info.st_mode & 0o7777, info.st_mtime_ns), (0o755, 1_500_000_000_123_000_000))

    def test_nothing_is_at_its_place_until_commit(self):
        self.files.ask(op="put", path="d/a")
        self.files.send(b"half", op="data")
        self.assertEqual(self.files.ask(op="abort"), {"ok": True})
        self.assertEqual((os.path.exists(self.path("d")), self.parts()), (False, []))

    def test_an_existing_file_stays_unless_it_is_to_be_replaced(self):
        self.write("a", "old")
        answer = self.files.put("a", b"new")
        self.assertEqual((answer["error"]["code"], answer["error"]["size_bytes"]), ("file_exists", 3))
        self.assertEqual(self.content("a"), b"old")
        self.assertTrue(self.files.put("a", b"new", overwrite=True)["ok"])
        self.assertEqual(self.content("a"), b"new")

    def test_a_file_that_comes_meanwhile_is_not_replaced(self):
        self.files.ask(op="put", path="a")
        self.files.send(b"late", op="data")
        self.write("a", "first")
        self.assertEqual(self.files.code(op="commit"), "file_exists")
        self.assertEqual((self.content("a"), self.parts()), (b"first", []))
        self.assertEqual(self.files.code(op="commit"), "failed")  # that put is over

    def test_of_two_that_race_one_wins(self):
        other = self.connect()
        for number in range(20):
            name = "race-%d" % number
            for client in (self.files, other):
                self.assertEqual(client.ask(op="put", path=name), {"ok": True})
                client.send(b"%d" % id(client), op="data")
            for client in (self.files, other):
                client.send(op="commit")
            answers = [client.read()[0] for client in (self.files, other)]
            self.assertEqual(sorted(answer.get("error", {}).get("code", "") for answer in answers), ["", "file_exists"])
            winner = (self.files, other)["ok" not in answers[0]]
            self.assertEqual(self.content(name), b"%d" % id(winner))

    def test_a_folder_is_never_replaced(self):
        os.mkdir(self.path("d"))
        os.symlink("d", self.path("to-d"))
        for name in ("d", "to-d"):
            for overwrite in (False, True):
                self.assertEqual(self.files.put(name, overwrite=overwrite)["error"]["code"], "is_directory")
        self.files.ask(op="put", path="e", overwrite=True)
        os.mkdir(self.path("e"))
        self.assertEqual(self.files.code(op="commit"), "is_directory")
        self.assertEqual(self.parts(), [])

    def test_bad_paths(self):
        for path in BAD_PATHS:
            with self.subTest(path):
                self.assertEqual(self.files.put(path)["error"]["code"], "invalid_path")
        self.assertEqual(os.listdir(self.work), [])

    def test_special_files_are_not_replaced(self):
        for name in self.special_files()[:2]:
            self.assertEqual(self.files.put(name, b"x", overwrite=True)["error"]["code"], "invalid_path")

    def test_a_link_at_the_place_is_replaced_and_not_followed(self):
        outside = os.path.join(self.folder, "outside")
        with open(outside, "w") as file:
            file.write("kept")
        for target in (outside, "nowhere", "loop"):
            os.symlink(target, self.path("loop"))
            self.assertEqual(self.files.put("loop", b"x")["error"]["code"], "file_exists")
            self.assertTrue(self.files.put("loop", b"new", overwrite=True)["ok"])
            self.assertEqual(self.content("loop"), b"new")
            os.unlink(self.path("loop"))
        with open(outside) as file:
            self.assertEqual(file.read(), "kept")

    def test_links_in_the_way_are_followed_only_where_they_stay_inside(self):
        os.mkdir(self.path("d"))
        for name, target in (("in", "d"), ("out", self.folder), ("up", ".."), ("nowhere", "none"), ("loop", "loop")):
            os.symlink(target, self.path(name))
        self.assertTrue(self.files.put("in/a", b"x")["ok"])
        self.assertEqual(self.content("d/a"), b"x")
        for name in ("out/a", "out/new/a", "up/a", "up/work/a", "nowhere/a", "loop/a", "in/a/b"):
            with self.subTest(name):
                answer = self.files.put(name, b"x")
                self.assertEqual(answer["error"]["code"], "invalid_path")
        self.assertEqual(os.listdir(self.folder), ["work"])
        self.assertEqual(self.parts(), [])

    def test_a_folder_that_becomes_a_link_out_while_the_data_comes(self):
        os.mkdir(self.path("d"))
        self.files.ask(op="put", path="d/a")
        self.files.send(b"x", op="data")
        os.rmdir(self.path("d"))
        os.symlink(self.folder, self.path("d"))
        self.assertEqual(self.files.code(op="commit"), "invalid_path")
        self.assertEqual((os.listdir(self.folder), self.parts()), (["work"], []))

    def test_a_parent_that_swings_between_a_folder_and_a_link_out_never_leads_out(self):
        os.mkdir(self.path("real"))
        os.mkdir(os.path.join(self.folder, "outside"))
        with self.swinging("at", "real", "../outside"):
            codes = {self.files.put("at/x%d" % number, b"x").get("error", {}).get("code") for number in range(300)}
        self.assertEqual(os.listdir(os.path.join(self.folder, "outside")), [])
        self.assertLessEqual(codes, {None, "invalid_path"})

    def test_hostile_things_where_the_parts_go(self):
        outside = os.path.join(self.folder, "outside")
        os.mkdir(outside)
        for make in (lambda: os.symlink(outside, self.path(".uploads")), lambda: self.write(".uploads", "x"),
                     lambda: os.mkfifo(self.path(".uploads"))):
            make()
            self.assertTrue(self.files.put("a", b"x", overwrite=True)["ok"])
            os.rmdir(self.path(".uploads"))
        self.assertEqual(os.listdir(outside), [])

    def test_a_part_that_code_tampers_with_is_not_taken(self):
        def swap(part):
            os.unlink(part)
            os.symlink("/etc/passwd", part)

        def grow(part):
            with open(part, "a") as file:
                file.write("more")

        for tamper, code in ((swap, "changed"), (grow, "changed"), (os.unlink, "not_found")):
            self.files.ask(op="put", path="a")
            self.files.send(b"x", op="data")
            tamper(self.path(".uploads", self.wait_for_part(1)))
            self.assertEqual(self.files.code(op="commit"), code)
            self.assertFalse(os.path.lexists(self.path("a")))
            self.assertEqual(self.parts(), [])

    def wait_for_part(self, size):
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            for name in self.parts():
                if os.stat(self.path(".uploads", name)).st_size == size:
                    return name
            time.sleep(0.005)
        self.fail("no part of %d bytes came" % size)

    def test_the_end_of_stdin_leaves_nothing(self):
        self.files.ask(op="put", path="a")
        self.files.send(b"half", op="data")
        self.wait_for_part(4)
        header = json.dumps({"op": "data"}).encode()
        self.files.process.stdin.write(len(header).to_bytes(4, "big") + (1000).to_bytes(4, "big") + header + b"x" * 10)
        self.assertEqual(self.files.close(), 0)
        self.assertEqual((self.parts(), os.path.exists(self.path("a"))), ([], False))

    def test_signals_that_end_it_leave_nothing(self):
        for signum in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            client = self.connect()
            client.ask(op="put", path="a")
            client.process.send_signal(signum)
            client.process.wait(PATIENCE)
            self.assertEqual(self.parts(), [])

    def test_what_a_killed_program_left_is_removed_by_a_later_one_when_it_is_old(self):
        self.files.ask(op="put", path="a")
        self.files.process.kill()
        self.files.process.wait()
        old, = self.parts()
        os.utime(self.path(".uploads", old), (0, 0))
        self.write(".uploads/young")
        os.mkdir(self.path(".uploads/folder"))
        self.connect()
        self.assertEqual(sorted(self.parts()), ["folder", "young"])

    def test_a_new_request_ends_a_put_that_goes_on(self):
        self.files.ask(op="put", path="a")
        self.assertEqual(self.files.ask(op="mkdir", path="d"), {"ok": True})
        self.assertEqual(self.parts(), [])
        self.assertEqual(self.files.code(op="commit"), "failed")

    def test_data_behind_an_error_is_passed_over_until_the_end(self):
        for end in ("commit", "abort"):
            self.assertEqual(self.files.code(op="put", path=".."), "invalid_path")
            for _ in range(3):
                self.files.send(b"x" * 1000, op="data")
            self.files.send(op=end)
            self.assertEqual(self.files.ask(op="mkdir", path="d"), {"ok": True})
        self.assertEqual(self.files.code(op="put", path=".."), "invalid_path")
        self.assertEqual(self.files.put("b", b"at once")["size_bytes"], 7)


class Limits(FilesTest):
    def test_bytes_are_held_while_the_data_comes(self):
        self.write("old", "x" * 60_000)
        self.files.ask(op="put", path="a", limit_bytes=100_000)
        self.files.send(b"x" * 30_000, op="data")
        self.files.send(b"x" * 30_000, op="data")
        error = self.files.read()[0]["error"]
        self.assertEqual(error["code"], "quota_exceeded")
        self.assertGreater(error["size_bytes"], 100_000)
        self.assertEqual(self.parts(), [])
        self.files.send(b"x", op="data")
        self.files.send(op="commit")
        self.assertTrue(self.files.put("b", b"x" * 1000, limit_bytes=100_000)["ok"])

    def test_what_is_full_already_takes_nothing(self):
        self.write("old", "x" * 60_000)
        self.assertEqual(self.files.code(op="put", path="a", limit_bytes=60_000 - 1), "quota_exceeded")

    def test_a_sparse_file_is_as_large_as_it_says(self):
        self.write("old")
        os.truncate(self.path("old"), 1 << 40)
        self.assertEqual(self.files.code(op="put", path="a", limit_bytes=1 << 39), "quota_exceeded")
        self.assertGreaterEqual(self.files.ask(op="usage")["bytes"], 1 << 40)

    def test_hard_links_count_once(self):
        self.write("old", "x" * 60_000)
        for number in range(10):
            os.link(self.path("old"), self.path("link-%d" % number))
        self.assertTrue(self.files.put("a", b"x", limit_bytes=100_000)["ok"])

    def test_files_and_the_folders_on_the_way_are_counted(self):
        self.write("old")
        self.assertEqual(self.files.code(op="put", path="b/c/d", limit_files=3), "quota_exceeded")
        self.assertTrue(self.files.put("a", limit_files=2)["ok"])
        self.assertEqual(self.files.code(op="put", path="b", limit_files=2), "quota_exceeded")

    def test_what_others_write_meanwhile_counts(self):
        self.files.ask(op="put", path="a", limit_bytes=1_000_000)
        self.write("other", "x" * 1_000_000)
        deadline = time.monotonic() + PATIENCE
        while not select.select([self.files.process.stdout], [], [], 0.05)[0]:
            self.assertLess(time.monotonic(), deadline, "the limit was not held")
            self.files.send(b"x", op="data")
        self.assertEqual(self.files.read()[0]["error"]["code"], "quota_exceeded")


class Gets(FilesTest):
    def test_the_whole_and_its_facts(self):
        content = os.urandom(3_000_000)
        self.write("a", content)
        os.utime(self.path("a"), ns=(0, 1_600_000_000_123_456_789))
        facts, data, end = self.files.get("a")
        self.assertEqual(
            facts, {"ok": True, "path": "a", "size_bytes": 3_000_000, "modified_ms": 1_600_000_000_123}
        )
        self.assertEqual(data, content)
        self.assertEqual((end["bytes"], end["complete"], end["changed"]), (3_000_000, True, False))

    def test_parts_in_bytes(self):
        self.write("a", "0123456789")
        for offset, limit, data, complete in (
            (0, 0, b"", False), (2, 3, b"234", False), (8, 5, b"89", True), (5, -1, b"56789", True),
            (10, -1, b"", True), (99, 5, b"", True),
        ):
            _, got, end = self.files.get("a", offset, limit)
            self.assertEqual((got, end["complete"], end["bytes"]), (data, complete, len(data)), (offset, limit))

    def test_without_numbers_only_the_facts_come(self):
        self.write("a", "x")
        self.assertEqual(self.files.ask(op="get", path="a")["size_bytes"], 1)
        self.assertEqual(self.files.read()[0]["bytes"], 0)

    def test_lines(self):
        self.write("a", "one\ntwo\nthree\nfour")
        for offset, limit, expected in (
            (0, -1, (b"one\ntwo\nthree\nfour", 1, 4, True)), (1, 2, (b"two\nthree\n", 2, 2, False)),
            (3, 9, (b"four", 4, 1, True)), (4, 1, (b"", 0, 0, True)), (99, -1, (b"", 0, 0, True)),
            (0, 0, (b"", 0, 0, False)), (0, 4, (b"one\ntwo\nthree\nfour", 1, 4, True)),
        ):
            self.assertEqual(self.files.lines("a", offset, limit), expected, (offset, limit))

    def test_lines_are_cut_at_the_room_that_there_is(self):
        self.write("a", "ééé\nbb\n")
        for most, expected in (
            (9, (b"\xc3\xa9\xc3\xa9\xc3\xa9\nbb", 1, 2, False)), (7, (b"\xc3\xa9\xc3\xa9\xc3\xa9\n", 1, 1, False)),
            (5, (b"\xc3\xa9\xc3\xa9", 1, 1, False)), (100, (b"\xc3\xa9\xc3\xa9\xc3\xa9\nbb\n", 1, 2, True)),
            (1, (b"\xc3", 1, 1, False)),
        ):
            self.assertEqual(self.files.lines("a", max_bytes=most), expected, most)

    def test_many_lines_over_several_pieces(self):
        lines = [b"%d %s\n" % (number, b"x" * (number % 50)) for number in range(200_000)]
        self.write("a", b"".join(lines))
        for offset, limit in ((0, -1), (150_000, 3), (100, 120_000), (199_999, 9), (77, 1001)):
            end = len(lines) if limit < 0 else min(len(lines), offset + limit)
            expected = lines[offset:end]
            got = self.files.lines("a", offset, limit)
            self.assertEqual(got, (b"".join(expected), offset + 1, len(expected), end == len(lines)), (offset, limit))

    def test_an_empty_file(self):
        self.write("a")
        self.assertEqual(self.files.lines("a"), (b"", 0, 0, True))
        self.assertTrue(self.files.get("a")[2]["complete"])

    def test_what_is_no_file(self):
        os.mkdir(self.path("d"))
        self.write("f")
        os.symlink("nowhere", self.path("dangling"))
        for path, code in (("none", "not_found"), ("d", "is_directory"), ("d/none", "not_found"),
                           ("f/x", "invalid_path"), ("dangling", "not_found")):
            self.assertEqual(self.files.code(op="get", path=path), code, path)
        for path in BAD_PATHS + tuple(self.special_files()):
            with self.subTest(path):
                self.assertEqual(self.files.code(op="get", path=path), "invalid_path")

    def test_links_are_followed_only_where_they_stay_inside(self):
        self.write("d/a", "inside")
        secret = os.path.join(self.folder, "work-secret")  # the name of the folder is only its beginning
        with open(secret, "w") as file:
            file.write("secret")
        for name, target in (("1", "d/a"), ("2", self.path("d/a")), ("3", "2"), ("4", "d")):
            os.symlink(target, self.path(name))
        for path in ("1", "2", "3", "4/a"):
            self.assertEqual(self.files.get(path)[1], b"inside", path)
        for name, target in (
            ("5", secret), ("6", "../work-secret"), ("7", "5"), ("8", ".."), ("9", "9"), ("p", "/proc/self/fd/0"),
        ):
            os.symlink(target, self.path(name))
        for path in ("5", "6", "7", "8/work-secret", "9", "9/x", "p"):
            self.assertEqual(self.files.code(op="get", path=path), "invalid_path", path)

    def test_a_hard_link_is_the_file(self):
        self.write("a", "x")
        os.link(self.path("a"), self.path("b"))
        self.assertEqual(self.files.get("b")[1], b"x")

    def test_a_name_that_swings_between_a_file_and_a_link_out_never_gives_what_is_outside(self):
        with open(os.path.join(self.folder, "secret"), "w") as file:
            file.write("secret")
        self.write("real", "inside")
        with self.swinging("at", "real", "../secret"):
            for _ in range(300):
                facts, data, _ = self.files.get("at")
                self.assertIn(data, (b"inside", b""))
                self.assertIn(facts.get("error", {}).get("code"), (None, "invalid_path"))

    def test_names_in_other_unicode_forms_are_found(self):
        self.assertNotEqual(NFC, NFD)
        for there, asked in ((NFC, NFD), (NFD, NFC)):
            self.write("d%s/%s" % (there, there), there)
            facts, data, _ = self.files.get("d%s/%s" % (asked, asked))
            self.assertEqual((facts["path"], data.decode()), ("d%s/%s" % (there, there), there))
            self.assertEqual(self.files.put("d%s/%s" % (asked, asked))["error"]["code"], "file_exists")
            self.assertEqual(self.files.put("d%s/%s" % (asked, asked), b"new", overwrite=True)["path"], facts["path"])
            shutil.rmtree(self.path("d" + there))
        self.write(NFC, "c")
        self.write(NFD, "d")
        self.assertEqual([self.files.get(name)[1] for name in (NFC, NFD)], [b"c", b"d"])

    def read_slowly(self, change):
        """Reads a file that is changed between the facts and the end."""
        self.write("a", b"x" * (40 << 20))  # more than there is room for on the way
        self.files.send(op="get", path="a", limit=-1)
        self.assertEqual(self.files.read()[0]["size_bytes"], 40 << 20)
        change()
        size = 0
        while True:
            header, blob = self.files.read()
            if header.get("end"):
                return size, header
            size += len(blob)

    def test_a_file_that_grows_is_read_as_far_as_it_was(self):
        def grow():
            with open(self.path("a"), "ab") as file:
                file.write(b"y" * 1000)

        size, end = self.read_slowly(grow)
        self.assertEqual((size, end["complete"], end["changed"]), (40 << 20, True, True))

    def test_a_file_that_shrinks_is_told(self):
        size, end = self.read_slowly(lambda: os.truncate(self.path("a"), 10))
        self.assertLess(size, 40 << 20)
        self.assertEqual((end["bytes"], end["complete"], end["changed"]), (size, False, True))

    def test_a_server_that_goes_away_ends_it(self):
        self.write("a", b"x" * (40 << 20))
        self.files.send(op="get", path="a", limit=-1)
        self.files.read()
        self.assertEqual(self.files.close(), 0)


class Lists(FilesTest):
    def test_files_outside_of_what_is_hidden_or_made_by_programs(self):
        for name in ("a", "input/b", "d/e/c", ".hidden", ".h/x", "d/.y", "node_modules/x", "d/__pycache__/x"):
            self.write(name, "12345", 0o600)
        os.symlink("a", self.path("link"))
        os.utime(self.path("a"), ns=(0, 1_600_000_000_123_456_789))
        entries, end = self.files.list()
        self.assertEqual(sorted(entry[0] for entry in entries), ["a", "d/e/c", "input/b"])
        self.assertIn(["a", "f", 5, 1_600_000_000_123, 0o600, ""], entries)
        self.assertEqual(end, {"end": True, "complete": True, "skipped": 0})

    def test_everything_has_folders_before_what_is_in_them_and_links_with_targets(self):
        for name in (".h/x", "d/e/f", "node_modules/n", ".uploads/part", "d/.uploads/kept"):
            self.write(name)
        os.symlink("/etc", self.path("d/out"))
        entries, end = self.files.list(everything=True)
        kinds = {entry[0]: entry[1] for entry in entries}
        self.assertEqual(kinds, {
            ".h": "d", ".h/x": "f", "d": "d", "d/e": "d", "d/e/f": "f", "d/out": "l", "node_modules": "d",
            "node_modules/n": "f", "d/.uploads": "d", "d/.uploads/kept": "f",
        })
        self.assertEqual(next(entry[5] for entry in entries if entry[1] == "l"), "/etc")
        order = [entry[0] for entry in entries]
        for path in order:
            if "/" in path:
                self.assertLess(order.index(path.rpartition("/")[0]), order.index(path))
        self.assertTrue(end["complete"])

    def test_names_that_cannot_be_told_and_special_files_are_counted(self):
        for name in (b"\xff\xfe", b"new\nline", b"bell\x07"):
            with open(os.path.join(self.work.encode(), name), "w"):
                pass
        os.symlink(b"\xff", self.path("to-bytes"))
        self.special_files()
        self.write("ok")
        self.assertEqual(self.files.list(), ([["ok", "f", 0, self.files.list()[0][0][3], 0o644, ""]],
                                             {"end": True, "complete": True, "skipped": 3}))
        entries, end = self.files.list(everything=True)
        self.assertEqual(sorted(entry[0] for entry in entries), ["ok", "to-device", "to-fifo", "to-proc"])
        self.assertEqual(end["skipped"], 6)

    def test_long_names_stay_below_the_size_of_a_frame(self):
        folder = "/".join(["é" * 100] * 15)
        os.makedirs(self.path(folder))
        for number in range(600):
            os.symlink("ü\\" * 1300, self.path(folder, "%d" % number))
        entries, _ = self.files.list(everything=True)
        self.assertEqual(len(entries), 615)

    def test_folders_are_listed_to_a_depth_and_deeper_ones_are_told(self):
        os.makedirs(self.path("/".join("d" * 200)))
        for depth, complete in ((200, True), (201, False), (202, False)):
            os.makedirs(self.path("/".join("d" * depth)), exist_ok=True)
            entries, end = self.files.list(everything=True)
            self.assertEqual((len(entries), end["complete"]), (min(depth, 201), complete))


class ManyFiles(FilesTest):
    base = "/dev/shm" if os.path.isdir("/dev/shm") else None  # a disk may take a millisecond for each

    def test_more_files_than_a_frame_holds(self):
        for folder in range(12):
            os.mkdir(self.path("d%d" % folder))
            for number in range(1000):
                os.mknod(self.path("d%d" % folder, "f%d" % number))
        entries, end = self.files.list()
        self.assertEqual((len({entry[0] for entry in entries}), len(entries), end["complete"]), (12_000, 12_000, True))


class Others(FilesTest):
    def test_folders_are_made_with_what_is_above_them(self):
        for _ in range(2):
            self.assertEqual(self.files.ask(op="mkdir", path="a/b/c"), {"ok": True})
        self.assertTrue(os.path.isdir(self.path("a/b/c")))
        self.write("f")
        for path in ("f", "f/x"):
            self.assertEqual(self.files.code(op="mkdir", path=path), "file_exists")
        for path in BAD_PATHS:
            self.assertEqual(self.files.code(op="mkdir", path=path), "invalid_path")

    def test_links_are_made_as_they_are_given(self):
        for target in ("b", "/usr/bin/python3", "../x"):
            path = "d/" + target.replace("/", "_")
            self.assertEqual(self.files.ask(op="symlink", path=path, target=target), {"ok": True})
            self.assertEqual(os.readlink(self.path(path)), target)
        self.assertEqual(self.files.code(op="symlink", path="d/b", target="c"), "file_exists")
        for target in ("", "a\0b", "a\nb", "\ud800", "x" * 5000, None, 5):
            self.assertEqual(self.files.code(op="symlink", path="l", target=target), "invalid_path")
        os.symlink(self.folder, self.path("out"))
        self.assertEqual(self.files.code(op="symlink", path="out/l", target="x"), "invalid_path")
        self.assertEqual(self.files.code(op="mkdir", path="out/l"), "invalid_path")

    def test_usage_counts_every_entry(self):
        self.assertEqual(self.files.ask(op="usage"), {"ok": True, "bytes": 0, "files": 0, "complete": True})
        self.write("d/a", "x" * 10_000)
        usage = self.files.ask(op="usage")
        self.assertEqual((usage["files"], usage["complete"]), (2, True))
        self.assertGreaterEqual(usage["bytes"], 10_000)

    def test_usage_counts_what_folders_take_themselves(self):
        for number in range(100):
            os.makedirs(self.path("d", "x" * 200 + str(number)))
        taken = sum(
            max(info.st_size, info.st_blocks * 512)
            for info in [os.stat(folder) for folder, _, _ in os.walk(self.work) if folder != self.work]
        )
        self.assertEqual(self.files.ask(op="usage"), {"ok": True, "bytes": taken, "files": 101, "complete": True})

    def test_requests_that_mean_nothing_are_answered_and_the_next_one_is_served(self):
        self.write("a", "x")
        for message in ({}, {"op": "fly"}, {"op": ["get"]}, {"op": "data"}, {"op": "commit"}, {"op": "abort"},
                        {"op": "get", "path": "a", "offset": "x"}, {"op": "get", "path": "a", "limit": True},
                        {"op": "put", "path": "b", "limit_bytes": 1.5}, {"op": "hello", "work_dir": 5}):
            self.assertEqual(self.files.code(**message), "failed", message)
        self.assertEqual(self.files.get("a", limit=10**30)[1], b"x")

    def test_nothing_is_done_before_hello(self):
        client = self.connect(hello=False)
        self.assertEqual(client.code(op="mkdir", path="a"), "failed")
        self.assertEqual(client.code(op="hello", work_dir=self.path("none")), "not_found")
        self.assertEqual(client.ask(op="hello", work_dir=self.work), {"ok": True})

    def test_frames_that_break_the_protocol_end_it_and_leave_nothing(self):
        for raw in (b"\xff" * 8, (65 * 1024).to_bytes(4, "big") + b"\0" * 4, b"\0\0\0\x02\x7f\xff\xff\xff{}",
                    b"\0\0\0\x02\0\0\0\0[]", b"\0\0\0\x01\0\0\0\0{", b"\0" * 8,
                    (60_000).to_bytes(4, "big") + b"\0" * 4 + b"[" * 60_000):
            client = self.connect()
            client.ask(op="put", path="a")
            client.process.stdin.write(raw)
            client.process.stdin.flush()
            self.assertEqual(client.process.wait(PATIENCE), 1, raw)
            self.assertEqual(self.parts(), [])

    def test_it_cannot_be_traced_by_code_of_the_same_user(self):
        with open("/proc/%d/status" % self.files.process.pid) as file:
            self.assertTrue(file.read())
        self.assertEqual(os.stat("/proc/%d/fd" % self.files.process.pid).st_uid, 0)

    def test_what_hides_is_hidden(self):
        """prctl.py by itself: what the relay and the supervisor use too."""
        get_dumpable = 3
        code = "from prctl import hide, prctl; print(prctl(%d, 0)); hide(); print(prctl(%d, 0))" % (2 * (get_dumpable,))
        out = subprocess.check_output([sys.executable, "-c", code], cwd=HERE, text=True)
        self.assertEqual(out.split(), ["False", "True"])

    def test_the_source_fits_into_an_argument(self):
        self.assertLess(len(FILES.encode()), 100_000)


class Trees(FilesTest):
    """tree.py by itself: what the supervisor uses too."""

    def setUp(self):
        super().setUp()
        self.fd = os.open(self.work, os.O_RDONLY)
        self.addCleanup(os.close, self.fd)

    def test_two_walks_at_once_do_not_disturb_each_other(self):
        for number in range(1000):
            self.write("d/f%d" % number)
        pairs = [(first[0], second[0]) for first, second in zip(Tree(self.fd), Tree(self.fd))]
        self.assertEqual([len(set(paths)) for paths in zip(*pairs)], [1001, 1001])

    def test_a_walk_that_is_given_up_leaves_no_descriptor(self):
        self.write("a/b/c/d")
        before = len(os.listdir("/proc/self/fd"))
        walk = iter(Tree(self.fd))
        for path, _ in walk:
            if path == "a/b/c/d":
                break
        walk.close()
        self.assertEqual(len(os.listdir("/proc/self/fd")), before)

    def test_entries_are_bounded(self):
        for number in range(10):
            self.write("f%d" % number)
        tree = Tree(self.fd, entries=4)
        self.assertEqual((len(list(tree)), tree.complete), (4, False))

    def test_counting_in_steps_comes_to_the_same(self):
        for number in range(500):
            self.write("d%d/f%d" % (number % 7, number), "x" * number)
        whole, stepped = Count(self.fd).finish(), Count(self.fd)
        steps = 1
        while not stepped.step(0):
            steps += 1
        self.assertGreater(steps, 10)
        self.assertEqual((stepped.files, stepped.bytes), (whole.files, whole.bytes))
        self.assertEqual(whole.files, 507)

    def dig(self, depth):
        """Makes folders in each other, each with files beside what goes on, and leads to the last one."""
        fd = os.dup(self.fd)
        for _ in range(depth):
            for name in ("a", "z"):
                os.close(os.open(name, os.O_CREAT, dir_fd=fd))
            os.mkdir("n" * 200, dir_fd=fd)
            below = os.open("n" * 200, os.O_RDONLY, dir_fd=fd)
            os.close(fd)
            fd = below
        self.addCleanup(subprocess.run, ["rm", "-rf", self.path("n" * 200)], check=True)
        self.addCleanup(os.close, fd)
        return fd

    def test_folders_are_counted_however_deep_they_are(self):
        self.dig(1000)
        before = len(os.listdir("/proc/self/fd"))
        count = Count(self.fd).finish()
        self.assertEqual((count.files, count.complete, count.missed), (3000, True, False))
        self.assertEqual(len(os.listdir("/proc/self/fd")), before)

    def test_deep_folders_that_are_moved_away_are_missed(self):
        bottom = self.dig(200)
        tree = Tree(self.fd, depth=None)
        walk = iter(tree)
        above = os.stat("..", dir_fd=bottom).st_ino
        for _ in walk:
            if os.fstat(tree.here).st_ino == above:
                break
        middle = os.open("../" * 100, os.O_RDONLY, dir_fd=bottom)
        self.addCleanup(os.close, middle)
        os.rename("n" * 200, "moved", src_dir_fd=middle, dst_dir_fd=self.fd)
        self.addCleanup(subprocess.run, ["rm", "-rf", self.path("moved")], check=True)
        self.assertFalse(tree.missed)
        for _ in walk:
            pass
        self.assertTrue(tree.missed)


if __name__ == "__main__":
    unittest.main()
