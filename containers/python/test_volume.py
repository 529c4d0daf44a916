"""The limit of the work directory (volume.py, unnamed.py, guard.py, tree.py): code that fills it, and what is left alone."""

import errno
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import types
import unittest
from unittest import mock

import tree as tree_module
import volume as volume_module
from processes import has_ended, process_table, shown_in
from test_support import GRACE, LONG_GRACE, PATIENCE, SupervisorTest
from volume import Volume

MIB = 1 << 20
LIMIT = 8 * MIB
FILL = """
import os, time
def fill(name, mib):
    with open(name, 'wb') as f:
        for _ in range(mib): f.write(os.urandom(1 << 20))
"""

# Code that no interrupt ends, in whichever thread it arrives; the next one ends what follows.
WHOLE = (
    "import os, signal, time\nhandler = signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
    "%s\nsignal.signal(signal.SIGINT, handler)\n"
)

# A program whose main thread ends, while another fills a file that has no name.
HEADLESS = """
import ctypes, os, platform, threading, time
def fill():
    with open('held', 'wb') as f:
        os.remove('held')
        for _ in range(30): f.write(os.urandom(1 << 20)); f.flush(); time.sleep(.01)
        time.sleep(600)
threading.Thread(target=fill).start()
ctypes.CDLL(None).syscall(60 if platform.machine() == 'x86_64' else 93, 0)
"""


def tells_of_descriptors_on_their_way():
    """Linux does since 5.6, gVisor does not."""
    with socket.socket(socket.AF_UNIX) as one, open("/proc/self/fdinfo/%d" % one.fileno()) as info:
        return "scm_fds" in info.read()


class VolumeTest(SupervisorTest):
    init = {"volume_bytes": LIMIT, "volume_files": 300}

    def over(self, code, kernel="alive", **fields):
        """Runs code that goes over the limit."""
        answer = self.run_code(code, **fields)
        self.assertEqual(
            (answer.status, answer.exit_code, answer.cause, answer.kernel), ("failed", 1, "quota", kernel), answer
        )
        self.assertEqual((answer.error["name"], answer.error["traceback"]), ("QuotaExceeded", ""))
        self.assertRegex(answer.error["message"], r"holds \d+ bytes in \d+ files; it may hold 8388608 bytes and 300 f")
        return answer

    def wait_until(self, true):
        deadline = time.monotonic() + PATIENCE
        while not true():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)

    def first_log(self):
        def is_told():
            self.client.send({"type": "ping", "n": 1})
            self.client.wait_for("pong")
            return self.client.logs

        self.wait_until(is_told)
        return self.client.logs[0]["message"]

    def size(self):
        """What the files take, without the folders, which count too."""
        total = 0
        for folder, _, names in os.walk(self.client.work_dir):
            for name in names:
                try:
                    total += os.stat(os.path.join(folder, name)).st_size
                except OSError:
                    pass
        return total

    def rests(self):
        """Waits until the files do not grow any more."""
        seen = [-1, self.size()]

        def same():
            time.sleep(0.3)
            seen[:] = seen[1], self.size()
            return seen[0] == seen[1]

        self.wait_until(same)


class Runs(VolumeTest):
    def test_a_big_file_and_the_variables_stay(self):
        self.completed(FILL + "x = 41")
        self.over("fill('big', 16); time.sleep(600)")
        self.assertEqual(self.completed("x + 1").result, "42")

    def test_code_that_writes_on_until_it_is_stopped(self):
        self.over("f = open('big', 'wb')\nwhile True: f.write(bytes(1 << 16)); __import__('time').sleep(0.001)")
        self.assertLess(self.size(), 20 * LIMIT)

    def test_many_small_files(self):
        self.over("i = 0\nwhile True:\n    open('f%d' % i, 'w').close(); i += 1\n    __import__('time').sleep(0.0005)")

    def test_folders_and_links_are_files_too(self):
        self.over(
            "import os, time\nfor i in range(200):\n    os.mkdir('d%d' % i); os.symlink('x', 'l%d' % i)\ntime.sleep(600)"
        )

    def test_sparse_files(self):
        self.over("import time\nfor i in range(3):\n    open('f%d' % i, 'w').truncate(1 << 40)\ntime.sleep(600)")

    def test_just_before_the_end_of_a_run(self):
        self.over("with open('s', 'wb') as f: f.truncate(20 << 20)")
        self.completed("import os; os.remove('s')")

    def test_files_without_a_name(self):
        self.over(
            "import os, time\nkept = []\nfor i in range(4):\n    kept.append(open('f%d' % i, 'wb'))\n"
            "    os.remove('f%d' % i)\n    kept[-1].write(os.urandom(4 << 20))\n    kept[-1].flush()\ntime.sleep(600)"
        )
        self.completed("for f in kept: f.close()\ntime.sleep(0.5)")

    def test_files_that_are_only_mapped(self):
        self.over(
            "import mmap, os, time\nkept = []\nfor i in range(4):\n    fd = os.open('f%d' % i, os.O_CREAT | os.O_RDWR)\n"
            "    os.ftruncate(fd, 4 << 20)\n    kept.append(mmap.mmap(fd, 4 << 20))\n    os.close(fd)\n    os.remove('f%d' % i)\n"
            "    kept[-1][:] = os.urandom(4 << 20)\ntime.sleep(600)"
        )
        self.completed("for m in kept: m.close()\ntime.sleep(0.5)")

    @unittest.skipUnless(tells_of_descriptors_on_their_way(), "the kernel does not tell of descriptors on their way")
    def test_files_that_are_open_only_on_their_way_through_a_socket(self):
        answer = self.run_code(
            "import os, socket, time\nends = socket.socketpair()\nf = open('big', 'wb')\nos.remove('big')\n"
            "os.posix_fallocate(f.fileno(), 0, 64 << 20)\nsocket.send_fds(ends[0], [b'x'], [f.fileno()])\nf.close()\ntime.sleep(600)"
        )
        self.assertEqual((answer.status, answer.cause), ("failed", "quota"), answer)

    def test_a_file_that_has_another_number_all_the_time(self):
        answer = self.run_code(
            "import fcntl, os\nf = open('big', 'wb')\nos.remove('big')\nos.posix_fallocate(f.fileno(), 0, 64 << 20)\n"
            "fd = os.dup(f.fileno())\nf.close()\nn = 0\nwhile True:\n"
            "    n = (n + 1) % 100\n    fd, before = fcntl.fcntl(fd, fcntl.F_DUPFD, 20 + n), fd\n    os.close(before)"
        )
        self.assertEqual((answer.status, answer.cause), ("failed", "quota"), answer)

    def test_a_program_whose_main_thread_has_ended(self):
        self.over("import subprocess, sys\nsubprocess.run([sys.executable, '-c', %r])" % HEADLESS)

    def test_a_program_whose_main_thread_has_ended_when_it_is_left_behind(self):
        self.completed("import subprocess, sys\np = subprocess.Popen([sys.executable, '-c', %r])" % HEADLESS)
        self.assertRegex(self.first_log(), "programs that write between runs are killed")
        self.assertEqual(self.completed("p.wait()").result, "-9")

    def test_files_in_hidden_folders(self):
        self.over(FILL + "os.mkdir('.h'); os.mkdir('.h/node_modules'); fill('.h/node_modules/x', 16); time.sleep(600)")

    def test_files_in_a_work_directory_that_was_locked(self):
        self.over(FILL + "x = 41; os.chmod('.', 0o300); fill('big', 16); time.sleep(600)")
        self.assertEqual(self.completed("os.remove('big'); x + 1").result, "42")

    def test_files_that_were_open_before_it_was_locked(self):
        self.over(
            "import os, time\nf = open('big', 'wb')\nos.chmod('.', 0)\n"
            "for i in range(16): f.write(os.urandom(1 << 20))\nf.flush(); time.sleep(600)"
        )

    def test_files_in_very_deep_folders(self):
        down = "for i in range(150):\n    os.mkdir('d'); os.chdir('d')\n"
        self.completed("import os\n" + down)
        # What is written while it is counted for the first time may be taken for older; not what follows.
        self.over(FILL + "n = 0\nwhile True:\n    fill('f%d' % n, 2); n += 1; time.sleep(0.2)")

    def test_a_program_that_the_run_waits_for(self):
        self.over(
            "import subprocess, sys\nsubprocess.run([sys.executable, '-c', "
            "'f = open(\"big\", \"wb\")\\nwhile True: f.write(bytes(1 << 20))'])", grace_ms=5 * GRACE
        )

    def test_code_that_does_not_let_itself_be_interrupted_is_killed(self):
        code = (
            "import time\nf = open('big', 'wb')\nwhile True:\n    try:\n        while True:\n"
            "            f.write(bytes(1 << 16)); time.sleep(0.001)\n    except BaseException: pass"
        )
        self.over(code, kernel="dead", grace_ms=300)
        self.completed("import os; os.remove('big')")

    def test_a_fresh_run(self):
        self.completed("x = 1")
        self.over(FILL + "fill('big', 16); time.sleep(600)", kernel="fresh", fresh=True)
        self.assertEqual(self.completed("x").result, "1")

    def test_a_cancel_that_comes_first_stands(self):
        code = (
            FILL + "try:\n    open('running', 'w').close(); time.sleep(600)\n"
            "except KeyboardInterrupt:\n    fill('big', 16); time.sleep(0.5)"
        )
        run_id = self.client.start(code, grace_ms=LONG_GRACE)
        self.wait_until(lambda: os.path.exists(self.client.path("running")))
        self.client.send({"type": "interrupt", "id": run_id, "reason": "cancelled"})
        self.assertEqual(self.client.finish(run_id).status, "cancelled")

    def test_what_stays_below_the_limit_is_left_alone(self):
        self.completed(FILL + "for i in range(20):\n    fill('same', 6); time.sleep(0.05)\nos.path.getsize('same')")


class OverAlready(VolumeTest):
    def setUp(self):
        super().setUp()
        self.completed(FILL + "x = 1")
        self.over("fill('big', 16); time.sleep(600)")

    def test_a_run_may_delete(self):
        self.completed("time.sleep(0.5); os.remove('big'); time.sleep(0.3)")
        self.completed("fill('small', 4); time.sleep(0.5)")

    def test_a_run_may_work_without_adding(self):
        self.completed("open('note', 'w').write('x' * 1000); time.sleep(0.7)")
        self.completed("os.truncate('big', (8 << 20) + 1); time.sleep(0.5)")

    def test_a_run_may_not_add_more(self):
        self.over("time.sleep(0.3); fill('more', 3); time.sleep(600)")
        self.over("time.sleep(0.3)\nfor i in range(100): open('f%d' % i, 'w').close()\ntime.sleep(600)")

    def test_a_new_supervisor_finds_it_over_and_lets_delete(self):
        client = self.connect(work_dir=self.client.work_dir, **self.init)
        answer = client.run("import os, time; time.sleep(0.5); os.remove('big'); time.sleep(0.3)")
        self.assertEqual(answer.status, "completed", answer)

    def test_a_new_supervisor_counts_what_was_locked(self):
        self.completed("os.remove('big')")
        os.chmod(self.client.work_dir, 0o300)
        client = self.connect(work_dir=self.client.work_dir, **self.init)
        answer = client.run(FILL + "fill('big', 16); time.sleep(600)")
        self.assertEqual((answer.status, answer.cause), ("failed", "quota"), answer)


class Full(VolumeTest):
    """Far over the limit, by what is on the disk."""

    # All of them, though the first is over the limit already.
    HOLES = WHOLE % "for n in range(6): open('holes%d' % n, 'wb').truncate(100 << 20)"
    FILL = (
        "import os, time\nfor n in range(6):\n"
        "    with open('holes%d' % n, 'r+b') as f: os.posix_fallocate(f.fileno(), 0, 100 << 20)\n    time.sleep(0.3)\ntime.sleep(600)"
    )

    def remove_holes(self):
        for number in range(6):
            os.remove(os.path.join(self.client.work_dir, "holes%d" % number))

    def test_holes_are_not_filled_and_then_nothing_runs(self):
        self.over(self.HOLES + "time.sleep(600)")
        self.over(self.FILL)
        for fresh in (False, True):
            answer = self.run_code("print('runs')", fresh=fresh)
            self.assertEqual((answer.status, answer.cause, answer.kernel), ("failed", "full", "alive"))
            self.assertEqual((answer.error["name"], answer.stdout["bytes"]), ("QuotaExceeded", 0))
        self.remove_holes()
        self.completed("os.listdir()")

    def test_holes_are_not_filled_by_a_program_that_was_left_behind(self):
        self.over(self.HOLES + "time.sleep(600)")
        self.completed("import subprocess, sys\np = subprocess.Popen([sys.executable, '-c', %r])" % self.FILL)
        self.assertRegex(self.first_log(), "programs that write between runs are killed")
        self.remove_holes()
        self.assertEqual(self.completed("p.wait()").result, "-9")

    def test_variables_stay_until_somebody_else_has_deleted_it(self):
        # A thread that computes adds nothing.
        self.completed("import threading\nx = 1\nthreading.Thread(target=exec, args=('while True: sum(range(1000))', {}), daemon=True).start()")
        self.over(self.HOLES + "time.sleep(600)")
        self.over(self.FILL)
        time.sleep(5)  # for two counts
        self.assertEqual(self.run_code("x").cause, "full")
        self.remove_holes()
        self.assertEqual(self.completed("x").result, "1")

    def test_a_kernel_that_adds_to_it_between_runs_is_ended(self):
        self.over("f = open('large', 'wb'); f.truncate(1 << 40); import time; time.sleep(600)")
        self.completed(
            "import threading, time\ndef add():\n    for n in range(10_000):\n        f.seek(n << 22); f.write(bytes(1 << 22)); f.flush(); time.sleep(0.005)\n"
            "threading.Thread(target=add, daemon=True).start()"
        )
        self.assertEqual(self.client.wait_for("kernel"), {"type": "kernel", "state": "dead", "cause": "quota"})

    def test_a_kernel_that_holds_it_all_is_ended(self):
        # To the end, however long that takes and whether or not the system lets it be interrupted.
        self.over(
            WHOLE % "f = open('held', 'wb'); os.remove('held')\nos.posix_fallocate(f.fileno(), 0, 600 << 20)" + "time.sleep(600)",
            grace_ms=PATIENCE * 1000,
        )
        self.assertEqual(self.client.wait_for("kernel"), {"type": "kernel", "state": "dead", "cause": "quota"})
        self.completed("1")


PROGRAM = "import time\nf = open('big%d', 'wb')\nwhile True: f.write(bytes(1 << 18)); f.flush(); time.sleep(0.02)"


class BetweenRuns(VolumeTest):
    def test_a_program_that_writes_on_after_its_run_is_killed_and_the_variables_stay(self):
        self.completed(
            "import subprocess, sys\nx = 1\np = subprocess.Popen([sys.executable, '-c', %r], start_new_session=True)"
            % (PROGRAM % 1)
        )
        self.wait_until(lambda: self.size() >= LIMIT)
        self.rests()
        self.assertEqual(self.completed("import time\ntime.sleep(0.1)\nx, p.poll()").result, "(1, -9)")

    def test_a_program_that_waits_before_it_writes(self):
        code = "import time\ntime.sleep(2)\n" + PROGRAM % 1
        self.completed("import subprocess, sys\nx = 1\np = subprocess.Popen([sys.executable, '-c', %r])" % code)
        self.wait_until(lambda: self.size() >= LIMIT)
        self.rests()
        self.assertEqual(self.completed("p.wait(), x").result, "(-9, 1)")

    def test_a_thread_that_writes_on_costs_the_kernel(self):
        self.completed(
            "import threading\nthreading.Thread(target=exec, args=(%r, {}), daemon=True).start()" % (PROGRAM % 1)
        )
        dead = self.client.wait_for("kernel")
        self.assertEqual(dead, {"type": "kernel", "state": "dead", "cause": "quota"})
        self.rests()
        self.completed("import os; os.remove('big1')")

    def test_a_thread_that_makes_files(self):
        self.completed(
            "import threading, time\ndef make():\n    for i in range(100_000):\n"
            "        open('f%d' % i, 'w').close(); time.sleep(0.001)\n"
            "threading.Thread(target=make, daemon=True).start()"
        )
        self.assertEqual(self.client.wait_for("kernel")["cause"], "quota")

    def test_a_kernel_that_writes_nothing_is_left_alone_while_another_fills_the_directory(self):
        self.completed(
            "x = 1\nimport threading, time\nthreading.Thread(target=time.sleep, args=(600,), daemon=True).start()"
        )
        other = subprocess.Popen([sys.executable, "-c", PROGRAM % 2], cwd=self.client.work_dir)
        self.addCleanup(other.wait)
        self.addCleanup(other.kill)
        self.wait_until(lambda: self.size() > 2 * LIMIT)
        self.client.send({"type": "ping", "n": 1})
        self.assertEqual(self.client.read()["type"], "pong")  # and no kernel frame before
        other.kill()
        other.wait()
        self.assertEqual(self.completed("x").result, "1")

    def test_a_program_that_was_there_already_is_left_alone_when_a_run_fills_the_directory(self):
        self.completed(FILL + "import subprocess; p = subprocess.Popen(['sleep', '600'])")
        self.completed("time.sleep(0.1)")  # what starts in the same tick of the clock may be of either run
        self.over("fill('big', 16); time.sleep(600)")
        self.rests()
        self.assertEqual(self.completed("p.poll()").result, None)


class Ends(unittest.TestCase):
    """processes.py: who is taken to hold nothing any more."""

    def test_who_lives_has_not_ended(self):
        self.assertFalse(has_ended("/proc/self"))
        self.assertEqual(shown_in(os.getpid()), "/proc/%d" % os.getpid())

    def test_a_zombie_has_ended_and_so_has_who_is_gone(self):
        child = subprocess.Popen([sys.executable, "-c", ""])
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        for _ in range(2):
            self.assertTrue(has_ended("/proc/%d" % child.pid))
            self.assertNotIn(child.pid, process_table())
            with self.assertRaises(OSError):
                shown_in(child.pid)
            child.wait()


class Levels(unittest.TestCase):
    """volume.py by itself."""

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="volume-test-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.fd = os.open(self.folder, os.O_RDONLY)
        self.addCleanup(os.close, self.fd)
        patch = mock.patch.object(volume_module.os, "fstatvfs", self.statvfs)
        patch.start()
        self.addCleanup(patch.stop)

    def statvfs(self, _):
        """A file system that has nothing but the folder: what others take of the real one, and give back, would count."""
        infos = [entry.stat() for entry in os.scandir(self.folder)]
        blocks = sum(info.st_blocks for info in infos)
        return types.SimpleNamespace(f_bfree=-blocks, f_frsize=512, f_ffree=-len(infos), f_files=0)

    def count(self, volume):
        while not volume.look():
            pass

    def fill(self, name, size):
        with open(os.path.join(self.folder, name), "w") as file:
            file.truncate(size)

    def test_who_begins_below_the_limit_is_to_blame_when_it_is_passed(self):
        volume = Volume(self.fd, 1000, 0)
        volume.begin_run()
        self.fill("a", 1001)
        self.count(volume)
        self.assertTrue(volume.is_exceeded())

    def test_who_begins_over_the_limit_may_add_a_little(self):
        self.fill("a", 1001)
        volume = Volume(self.fd, 1000, 0)
        volume.begin_run()
        for size, exceeded in ((0, False), (MIB, False), (MIB + 1, True)):
            self.fill("b", size)
            volume.due = 0
            self.count(volume)
            self.assertEqual(volume.is_exceeded(), exceeded, size)

    def test_growth_is_between_two_counts_without_a_run_between_them(self):
        volume = Volume(self.fd, 1000, 0)
        volume.begin_run()
        self.fill("a", 2000)
        volume.end_run()
        self.count(volume)
        self.assertTrue(volume.is_over())
        self.assertFalse(volume.has_grown())
        self.fill("a", 2001)
        volume.due = 0
        self.count(volume)
        self.assertTrue(volume.has_grown())

    def hide(self, volume):
        """Renames files while they are counted: 32 in a slice, and none behind the first is found."""
        for number in range(96):
            path = os.path.join(self.folder, "f%d" % number)
            with open(path, "wb") as file:
                os.posix_fallocate(file.fileno(), 0, MIB)
        for name in ("a", "b"):
            volume.due = 0
            self.assertFalse(volume.look())
            for number, old in enumerate(os.listdir(self.folder)):
                os.rename(os.path.join(self.folder, old), os.path.join(self.folder, "%s%d" % (name, number)))
            self.count(volume)

    def counted_in_slices(self, passes):
        for module, name, value in ((volume_module, "SLICE", 0), (tree_module, "PASSES", passes)):
            patch = mock.patch.object(module, name, value)
            patch.start()
            self.addCleanup(patch.stop)
        volume = Volume(self.fd, 64 * MIB, 0)
        self.assertFalse(volume.refuses_runs())
        volume.begin_run()
        return volume

    def test_what_is_renamed_for_ever_counts_by_what_the_free_space_has_lost(self):
        volume = self.counted_in_slices(passes=1)
        with mock.patch.object(volume_module, "HIDDEN_SECONDS", 0):
            self.hide(volume)
        self.assertTrue(volume.is_exceeded(), volume.level)
        for name in os.listdir(self.folder):
            os.remove(os.path.join(self.folder, name))
        while not volume.is_settled:
            volume.due = 0
            self.count(volume)
        self.assertFalse(volume.is_exceeded(), volume.level)

    def test_what_cannot_be_read_counts_by_what_the_free_space_has_lost(self):
        volume = self.counted_in_slices(passes=1)
        with open(os.path.join(self.folder, "large"), "wb") as file:
            os.posix_fallocate(file.fileno(), 0, 65 * MIB)
        with mock.patch.object(volume_module, "HIDDEN_SECONDS", 0):
            with mock.patch.object(os, "open", side_effect=PermissionError(errno.EACCES, "locked")):
                volume.due = 0
                self.count(volume)
        self.assertTrue(volume.is_exceeded(), volume.level)

    def test_what_is_renamed_while_it_is_counted_is_found(self):
        volume = self.counted_in_slices(tree_module.PASSES)
        self.hide(volume)
        self.assertEqual((volume.level, volume.is_settled), ((96 * MIB, 96), True))

    def test_what_is_renamed_for_a_while_is_not_held_against_a_run(self):
        volume = self.counted_in_slices(passes=1)
        with mock.patch.object(volume_module, "HIDDEN_SECONDS", PATIENCE):
            self.hide(volume)
        self.assertFalse(volume.is_exceeded(), volume.level)

    def test_files_that_come_and_go_for_ever_cost_nothing(self):
        volume = self.counted_in_slices(passes=1)
        with mock.patch.object(volume_module, "HIDDEN_SECONDS", 0):
            for _ in range(3):
                for number in range(96):
                    self.fill("f%d" % number, MIB // 2)
                volume.due = 0
                self.assertFalse(volume.look())
                for name in os.listdir(self.folder):
                    os.remove(os.path.join(self.folder, name))
                self.count(volume)
        self.assertFalse(volume.is_exceeded(), volume.level)

    def test_a_large_tree_is_counted_in_slices(self):
        for number in range(3000):
            os.mknod(os.path.join(self.folder, "f%d" % number)) if number < 500 else os.link(
                os.path.join(self.folder, "f0"), os.path.join(self.folder, "l%d" % number))
        volume = Volume(self.fd, 1, 0)
        volume.end_run()
        looks = 1
        while not volume.look():
            looks += 1
        self.assertEqual(volume.level[1], 3000)
        self.assertLess(looks, 3000)

    def test_a_work_directory_that_is_gone(self):
        os.rmdir(self.folder)
        volume = Volume(self.fd, 1000, 10)
        volume.begin_run()
        self.count(volume)
        volume.end_run()
        self.count(volume)
        self.assertEqual(volume.level, (0, 0))


if __name__ == "__main__":
    unittest.main()
