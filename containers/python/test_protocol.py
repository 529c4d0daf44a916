"""The frames themselves: what init, ping, peek, stop and bad frames lead to.

This is about supervisor.py with its loop.py, settings.py and run.py.
"""

import json
import os
import signal
import time
import unittest

from test_support import PATIENCE, Client, SupervisorTest


class Boot(unittest.TestCase):
    """What boot.py does with what stdin brings."""

    def start(self):
        client = Client(boot=False, start=False)
        self.addCleanup(client.close)
        return client

    def test_a_program_longer_than_a_pipe_comes_whole_and_what_follows_is_left_to_it(self):
        client = self.start()
        program = "import os\n# é%s\nos.write(1, os.read(0, 5) + __name__.encode())" % ("x" * 300_000)
        client.send_raw(program.encode())
        client.process.stdin.write(b"frame")
        client.process.stdin.flush()
        self.assertEqual(client.process.stdout.read(), b"frame__main__")

    def test_a_server_that_goes_away_before_all_of_it_has_come(self):
        for half in (b"", b"\0\0", b"\0\0\0\x09print"):
            client = self.start()
            client.process.stdin.write(half)
            client.process.stdin.close()
            self.assertEqual((client.process.stdout.read(), client.process.wait(PATIENCE)), (b"", 1))


class Ready(SupervisorTest):
    def test_ready_names_language_version_and_features(self):
        ready = self.client.ready
        self.assertEqual((ready["protocol"], ready["language"]), (1, "python"))
        self.assertRegex(ready["version"], r"^3\.\d+\.\d+$")
        self.assertIsInstance(ready["features"], list)

    def test_version_is_that_of_the_code(self):
        self.assertEqual(
            self.completed("import platform; platform.python_version()").result, repr(self.client.ready["version"])
        )

    def test_a_run_may_come_right_behind_init(self):
        client = self.connect(start=False)
        client.send({"type": "init", "protocol": 1, "work_dir": client.work_dir})
        self.assertEqual(client.run("6 * 7").result, "42")

    def test_init_without_any_field_gets_defaults(self):
        client = self.connect(start=False)
        client.send({"type": "init", "work_dir": client.work_dir, "output_bytes": "many", "env": [], "preload": 3})
        client.wait_for("ready")
        self.assertEqual(client.run("print('x')").out, "x\n")

    def test_a_second_init_is_answered_and_keeps_the_kernel(self):
        self.completed("x = 1")
        self.client.init()
        self.assertEqual(self.completed("x").result, "1")


class Frames(SupervisorTest):
    def test_ping_is_answered_while_code_runs(self):
        run_id = self.client.start("import time; time.sleep(0.3)")
        self.client.send({"type": "ping", "n": 17})
        self.assertEqual(self.client.read(), {"type": "pong", "n": 17})
        self.assertEqual(self.client.finish(run_id).status, "completed")

    def test_unknown_types_and_fields_are_ignored(self):
        self.client.send({"type": "grease", "x": [1]})
        self.client.send({"no": "type"})
        self.client.send({"type": ["run"]})
        self.assertEqual(self.client.run("1", unknown={"a": 1}).result, "1")

    def test_what_is_no_json_object_is_ignored(self):
        for data in (b"", b"{", b"[]", b"\xff\xfe", b"null", b"[" * 100_000, b'{"type":' + b"9" * 10_000 + b"}"):
            self.client.send_raw(data)
        self.assertEqual(self.completed("1").result, "1")
        self.assertTrue(self.client.logs)

    def test_half_a_frame_waits_for_its_other_half(self):
        data = json.dumps({"type": "ping", "n": 1}).encode()
        self.client.process.stdin.write(len(data).to_bytes(4, "big")[:3])
        self.client.process.stdin.flush()
        self.client.process.stdin.write(len(data).to_bytes(4, "big")[3:] + data[:5])
        self.client.process.stdin.flush()
        self.client.process.stdin.write(data[5:])
        self.client.process.stdin.flush()
        self.client.wait_for("pong", n=1)

    def test_a_frame_over_the_limit_ends_the_supervisor(self):
        self.client.process.stdin.write((2 << 20).to_bytes(4, "big"))
        self.client.process.stdin.flush()
        self.assertIsNone(self.client.read())
        self.assertEqual(self.client.process.wait(PATIENCE), 0)

    def test_code_of_nearly_a_frame_runs(self):
        self.assertEqual(self.completed("x = '%s'\nlen(x)" % ("a" * 900_000)).result, "900000")

    def test_malformed_runs_are_ignored(self):
        for fields in ({"id": 1}, {"id": None}, {"code": None}, {"code": ["1"]}):
            message = {"type": "run", "id": "bad", "code": "1"}
            message.update(fields)
            self.client.send(message)
        self.assertEqual(self.completed("1").result, "1")

    def test_a_run_during_a_run_is_refused(self):
        first = self.client.start("import time; time.sleep(0.3); 'one'")
        second = self.client.start("2")
        refused = self.client.wait_for("done", id=second)
        self.assertEqual((refused["status"], refused["error"]["name"]), ("failed", "SessionBusy"))
        self.assertEqual(self.client.finish(first).result, "'one'")

    def test_an_interrupt_for_another_run_is_ignored(self):
        self.completed("x = 1")
        self.client.send({"type": "interrupt", "id": "r1", "reason": "cancelled"})
        self.client.send({"type": "interrupt", "id": "never", "reason": "cancelled"})
        self.client.send({"type": "interrupt"})
        self.assertEqual(self.completed("x").result, "1")

    def test_done_has_every_field(self):
        answer = self.completed("print('a')")
        self.assertEqual(
            sorted(answer.done),
            sorted(
                "type id status exit_code result error stdout stderr artifacts artifacts_total displays_total "
                "duration_ms cause kernel late".split()
            ),
        )
        self.assertEqual((answer.exit_code, answer.kernel, answer.cause, answer.error), (0, "alive", "", None))


class Peek(SupervisorTest):
    def test_peek_tells_the_output_so_far(self):
        run_id = self.client.start("import time; print('early'); time.sleep(60)")
        deadline = time.monotonic() + PATIENCE
        peek = {"stdout": {"head": ""}}
        while not peek["stdout"]["head"] and time.monotonic() < deadline:
            self.client.send({"type": "peek", "id": run_id})
            peek = self.client.wait_for("peek", id=run_id)
        self.assertEqual(peek["stdout"]["head"], "early\n")
        self.assertEqual(peek["stderr"]["bytes"], 0)
        self.client.send({"type": "interrupt", "id": run_id, "reason": "cancelled"})
        self.assertEqual(self.client.finish(run_id).out, "early\n")

    def test_peek_for_another_run_is_ignored(self):
        self.client.send({"type": "peek", "id": "never"})
        self.client.send({"type": "ping", "n": 2})
        self.assertEqual(self.client.read()["type"], "pong")


class Progress(SupervisorTest):
    def test_progress_tells_bytes_and_the_last_line(self):
        run_id = self.client.start(
            "import sys, time\nprint('a')\nprint('step 1  \\rstep 2\\n', end='')\nsys.stderr.write('warn\\n')\ntime.sleep(60)"
        )
        progress = self.client.wait_for("progress", id=run_id)
        self.assertEqual((progress["stdout_bytes"], progress["stderr_bytes"]), (18, 5))
        self.assertEqual(progress["last_line"], "step 2")
        self.client.send({"type": "interrupt", "id": run_id, "reason": "cancelled"})
        self.client.finish(run_id)


class Ends(SupervisorTest):
    def ended(self):
        self.assertIsNone(self.client.read())
        self.client.process.wait(PATIENCE)

    def test_stop(self):
        self.client.send({"type": "stop"})
        self.ended()

    def test_stop_during_a_run(self):
        self.client.start("while True: pass")
        self.client.send({"type": "stop"})
        self.ended()

    def test_end_of_stdin(self):
        self.client.process.stdin.close()
        self.ended()

    def test_sigterm_during_a_run(self):
        self.client.start("while True: pass")
        self.client.send({"type": "ping", "n": 1})
        self.client.wait_for("pong")
        os.kill(self.client.process.pid, signal.SIGTERM)
        self.ended()

    def test_nothing_is_left_behind(self):
        self.client.run("import subprocess; p = subprocess.Popen(['sleep', '600'], start_new_session=True)")
        pids = [int(self.client.run(code).result) for code in ("p.pid", "import os; os.getpid()")]
        self.client.process.stdin.close()
        self.ended()
        for pid in pids:
            self.gone(pid)  # which may be after the supervisor: it waits for none of those that it kills at its end


class Idle(SupervisorTest):
    init = {"idle_seconds": 1}

    def test_it_ends_when_nobody_speaks(self):
        self.assertIsNone(self.client.read())

    def test_a_run_keeps_it_alive(self):
        self.assertEqual(self.completed("import time; time.sleep(1.5); 1").result, "1")
        self.assertIsNone(self.client.read())


class Waiting(SupervisorTest):
    init = {"on_eof": "wait", "idle_seconds": 1}

    def test_it_outlives_its_stdin_until_it_is_idle(self):
        run_id = self.client.start("import time; time.sleep(0.3); 'still'")
        self.client.process.stdin.close()
        self.assertEqual(self.client.finish(run_id).result, "'still'")
        self.assertIsNone(self.client.read())


class WorkDir(unittest.TestCase):
    def test_a_missing_work_dir_is_made(self):
        client = Client(start=False)
        self.addCleanup(client.close)
        deeper = client.path("a", "b")
        client.send({"type": "init", "work_dir": deeper})
        self.assertEqual(client.run("import os; os.getcwd()").result, repr(os.path.realpath(deeper)))

    def test_a_work_dir_that_cannot_be_is_told_and_code_runs(self):
        client = Client(start=False)
        self.addCleanup(client.close)
        client.send({"type": "init", "work_dir": "/dev/null/x"})
        self.assertEqual(client.run("print(1); 2").result, "2")
        self.assertEqual(client.logs[0]["level"], "error")

    def test_nothing_runs_where_its_limit_could_not_be_kept(self):
        client = Client(start=False)
        self.addCleanup(client.close)
        client.send({"type": "init", "work_dir": "/dev/null/x", "volume_bytes": 1000})
        answer = client.run("print(1)")
        self.assertEqual((answer.status, answer.error["name"], answer.out), ("failed", "WorkDirectoryError", ""))
        self.assertEqual(client.logs[0]["level"], "error")


if __name__ == "__main__":
    unittest.main()
