"""output.py: what is kept, what is cut, where the whole goes, and what must not get in."""

import os
import time
import unittest

from test_support import GRACE, PATIENCE, SupervisorTest
from utf8 import partial_head, partial_tail


def rss_kib(pid):
    with open("/proc/%d/status" % pid) as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS:"))


class Characters(unittest.TestCase):
    """utf8.py by itself."""

    def test_a_character_that_is_cut_anywhere(self):
        for character in ("a", "ü", "€", "😀"):
            data = character.encode()
            for cut in range(len(data) + 1):
                whole = cut in (0, len(data))
                self.assertEqual(partial_tail(b"x" + data[:cut]), 0 if whole else cut, (character, cut))
                self.assertEqual(partial_head(data[cut:] + b"x"), 0 if whole else len(data) - cut, (character, cut))

    def test_what_is_no_text_ends(self):
        for data in (b"", b"\x80", b"\x80" * 9, b"\xff" * 9):
            self.assertEqual(partial_tail(data), 0, data)
            self.assertLessEqual(partial_head(data), 3, data)


class Cutting(SupervisorTest):
    init = {"output_bytes": 1000, "spool_bytes": 1 << 20}

    def spooled(self, stream):
        with open(self.client.path(stream["path"]), "rb") as file:
            return file.read()

    def test_what_fits_is_whole_and_has_no_file(self):
        stream = self.completed("print('x' * 999)").stdout
        self.assertEqual((stream["head"], stream["tail"]), ("x" * 999 + "\n", ""))
        self.assertEqual((stream["bytes"], stream["lines"], stream["omitted_bytes"]), (1000, 1, 0))
        self.assertNotIn("path", stream)
        self.assertFalse(os.path.exists(self.client.path(".runs")))

    def test_what_does_not_fit_keeps_both_ends_and_a_file(self):
        stream = self.completed("for i in range(1000): print('line', i)").stdout
        whole = "".join("line %d\n" % i for i in range(1000))
        self.assertEqual((stream["head"], stream["tail"]), (whole[:500], whole[-500:]))
        self.assertEqual((stream["bytes"], stream["lines"]), (len(whole), 1000))
        self.assertEqual(stream["omitted_bytes"], len(whole) - 1000)
        self.assertEqual(stream["omitted_lines"], whole[500:-500].count("\n"))
        self.assertEqual(stream["path"], ".runs/r1.stdout.txt")
        self.assertEqual(self.spooled(stream).decode(), whole)

    def test_one_byte_too_many(self):
        stream = self.completed("print('x' * 1000)").stdout
        self.assertEqual((len(stream["head"]), len(stream["tail"]), stream["omitted_bytes"]), (500, 500, 1))

    def test_both_streams_are_cut_each_for_itself(self):
        answer = self.completed("import sys; print('o' * 2000); print('e' * 10, file=sys.stderr)")
        self.assertEqual(answer.stderr["head"], "e" * 10 + "\n")
        self.assertEqual(answer.stdout["omitted_bytes"], 1001)

    def test_a_cut_never_splits_a_character(self):
        for text in ("é", "€", "😀", "a€", "aa€", "ab😀"):
            with self.subTest(text):
                answer = self.completed("print(%r * 3000, end='')" % text)
                both = answer.stdout["head"] + answer.stdout["tail"]
                self.assertNotIn("\ufffd", both)
                self.assertEqual(
                    answer.stdout["bytes"], len(both.encode()) + answer.stdout["omitted_bytes"], answer.stdout
                )

    def test_what_is_no_utf8_becomes_the_replacement_character(self):
        answer = self.completed("import os; os.write(1, b'a\\xff\\xc3b\\xe2\\x82'); None")
        self.assertEqual(answer.out, "a\ufffd\ufffdb\ufffd")

    def test_binary_output_does_not_break_the_answer(self):
        answer = self.completed("import os\nfor i in range(50): os.write(1, bytes(range(256)) * 16)")
        self.assertEqual(answer.stdout["bytes"], 50 * 4096)

    def test_streams_can_be_wrapped_replaced_and_set_anew(self):
        self.completed("import io, os, sys")
        for change in (
            "sys.stdout.reconfigure(encoding='utf-8')",
            "sys.stdout.reconfigure(errors='replace', line_buffering=False)",
            "sys.stdout = io.TextIOWrapper(sys.stdout.buffer, encoding='utf-8')",
            "sys.stdout = os.fdopen(1, 'w')",
            "sys.stdout = os.fdopen(sys.stdout.fileno(), 'w', encoding='utf-8')",
            "sys.stdout = open(1, 'w')",
        ):
            self.assertEqual(self.completed(change + "; print('one')").out, "one\n", change)
            self.assertEqual(self.completed("print('two')").out, "two\n", change)
        self.assertEqual(self.completed("sys.stdout.reconfigure(encoding='latin-1'); print('x')").out, "x\n")
        self.assertEqual(self.completed("print('€')").out, "€\n")

    def test_lines_count_one_that_has_no_end(self):
        self.assertEqual(self.completed("print('a\\nb', end='')").stdout["lines"], 2)
        self.assertEqual(self.completed("print('a\\nb')").stdout["lines"], 2)
        self.assertEqual(self.completed("1").stdout["lines"], 0)

    def test_the_file_ends_at_its_limit(self):
        stream = self.completed("print('x' * 5_000_000)").stdout
        self.assertEqual(len(self.spooled(stream)), 1 << 20)
        self.assertEqual(stream["bytes"], 5_000_001)

    def test_no_file_when_the_run_names_one_that_escapes(self):
        answer = self.client.run("print('x' * 5000)", id="../../escape/..")
        self.assertEqual(os.path.dirname(answer.stdout["path"]), ".runs")
        self.assertTrue(os.path.isfile(self.client.path(answer.stdout["path"])))


class HostileFiles(SupervisorTest):
    init = {"output_bytes": 1000}

    def flood(self):
        return self.completed("print('x' * 100_000)").stdout

    def test_a_link_in_the_place_of_the_folder_is_not_followed(self):
        outside = self.client.path("outside")
        os.mkdir(outside)
        os.symlink(outside, self.client.path(".runs"))
        stream = self.flood()
        self.assertEqual(os.listdir(outside), [])
        self.assertFalse(os.path.islink(self.client.path(".runs")))
        self.assertEqual(os.path.getsize(self.client.path(stream["path"])), 100_001)

    def test_a_link_in_the_place_of_the_file_is_not_followed(self):
        os.mkdir(self.client.path(".runs"))
        target = self.client.path("target")
        with open(target, "w") as file:
            file.write("kept")
        os.symlink(target, self.client.path(".runs", "r1.stdout.txt"))
        stream = self.flood()
        with open(target) as file:
            self.assertEqual(file.read(), "kept")
        self.assertEqual(os.path.getsize(self.client.path(stream["path"])), 100_001)

    def test_a_fifo_in_the_place_of_the_file_does_not_block(self):
        os.mkdir(self.client.path(".runs"))
        os.mkfifo(self.client.path(".runs", "r1.stdout.txt"))
        self.assertEqual(os.path.getsize(self.client.path(self.flood()["path"])), 100_001)

    def test_a_file_in_the_place_of_the_folder_gives_way(self):
        with open(self.client.path(".runs"), "w"):
            pass
        self.assertIn("path", self.flood())

    def test_a_folder_in_the_place_of_the_file_means_no_file(self):
        os.makedirs(self.client.path(".runs", "r1.stdout.txt"))
        self.assertNotIn("path", self.flood())

    def test_a_work_dir_that_is_gone_means_no_file(self):
        answer = self.run_code("import os, shutil; shutil.rmtree(os.getcwd()); print('x' * 100_000)")
        self.assertEqual(answer.status, "completed")
        self.assertNotIn("path", answer.stdout)
        self.assertEqual(self.completed("1").result, "1")


class Floods(SupervisorTest):
    def test_a_flood_can_be_interrupted_and_takes_no_memory(self):
        self.completed("import sys, os; line = b'y' * 65536")
        before = rss_kib(self.client.process.pid)
        run_id = self.client.start("while True: os.write(1, line)", grace_ms=5 * GRACE)
        self.client.wait_for("progress", id=run_id)
        grown = rss_kib(self.client.process.pid) - before
        self.client.send({"type": "interrupt", "id": run_id, "reason": "cancelled"})
        answer = self.client.finish(run_id)
        self.assertEqual((answer.status, answer.kernel), ("cancelled", "alive"))
        self.assertGreater(answer.stdout["bytes"], 1 << 22)
        self.assertLess(grown, 8192)

    def test_pings_are_answered_under_a_flood(self):
        run_id = self.client.start("import os\nwhile True: os.write(1, b'y' * 65536)")
        for n in range(20):
            self.client.send({"type": "ping", "n": n})
            self.client.wait_for("pong", n=n)
        self.client.send({"type": "interrupt", "id": run_id, "reason": "cancelled"})
        self.assertEqual(self.client.finish(run_id).status, "cancelled")


class Background(SupervisorTest):
    def test_a_run_does_not_wait_for_a_process_that_holds_its_pipe(self):
        answer = self.completed("import subprocess; p = subprocess.Popen(['sleep', '600']); print('done')")
        self.assertEqual(answer.out, "done\n")
        self.assertEqual(self.completed("p.poll() is None").result, "True")

    def test_late_output_reaches_no_other_run(self):
        self.completed(
            "import subprocess\n"
            "p = subprocess.Popen(['sh', '-c', 'while [ ! -e go ]; do sleep 0.01; done; echo LATE; echo LATE >&2'])"
        )
        answer = self.completed("open('go', 'w').close(); p.wait()")
        self.assertEqual((answer.out, answer.err, answer.result), ("", "", "0"))

    def test_what_ends_about_when_its_run_does_is_never_in_the_next_answer(self):
        for i in range(40):
            self.completed(f"import subprocess\np = subprocess.Popen(['sh', '-c', 'sleep 0.00{i % 10}; echo late'])")
            self.assertEqual(self.completed("print('next')").out, "next\n")

    def test_a_late_writer_is_neither_blocked_nor_killed(self):
        self.completed(
            "import subprocess\np = subprocess.Popen(['sh', '-c', 'head -c 3000000 /dev/zero; echo wrote > mark'])"
        )
        self.assertEqual(self.completed("p.wait()").result, "0")
        self.assertTrue(os.path.exists(self.client.path("mark")))

    def test_a_background_flood_does_not_keep_a_run_from_ending(self):
        answer = self.completed("import subprocess\np = subprocess.Popen(['yes'])")
        self.assertEqual(answer.kernel, "alive")
        answer = self.completed("1")
        self.assertEqual((answer.result, answer.out), ("1", ""))
        self.completed("p.kill(); p.wait();")

    def test_many_processes_that_hold_pipes_do_not_use_up_descriptors(self):
        client = self.connect(open_files=128)
        holder = "import os, subprocess\nholders = []"
        self.assertEqual(client.run(holder).status, "completed")
        for _ in range(60):
            answer = client.run("holders.append(subprocess.Popen(['sleep', '600']))")
            self.assertEqual(answer.status, "completed", answer)
        self.assertEqual(client.run("print('ok')").out, "ok\n")


class Descriptors(SupervisorTest):
    def test_runs_leave_no_descriptors_open(self):
        client = self.connect(open_files=64)
        for fresh in (False, True):
            for _ in range(50):
                answer = client.run("print('x' * 50_000)", fresh=fresh)
                self.assertEqual((answer.status, answer.stdout["bytes"]), ("completed", 50_001), answer)

    def test_code_finds_only_its_own_descriptors_low(self):
        self.assertEqual(self.completed("import os; f = open('f', 'w'); f.fileno()").result, "3")

    def test_children_inherit_the_three_alone(self):
        answer = self.completed("import subprocess; subprocess.run(['ls', '/proc/self/fd'], close_fds=False);")
        self.assertEqual(sorted(answer.out.split())[:3], ["0", "1", "2"])
        self.assertLessEqual(len(answer.out.split()), 4)


class Timing(SupervisorTest):
    def test_progress_comes_without_output_too(self):
        run_id = self.client.start("import time; time.sleep(60)")
        deadline = time.monotonic() + PATIENCE
        progress = self.client.wait_for("progress", id=run_id)
        self.assertLess(time.monotonic(), deadline)
        self.assertEqual((progress["stdout_bytes"], progress["last_line"]), (0, ""))
        self.client.send({"type": "interrupt", "id": run_id, "reason": "cancelled"})
        self.client.finish(run_id)


if __name__ == "__main__":
    unittest.main()
