"""What code may do, and what comes back: state, results, errors, exits.

This is about kernel.py and what it runs code with: plain_engine.py, event_loop.py, stand_ins.py,
errors.py, imports.py, settings.py.
"""

import os
import sys
import unittest

from test_support import GRACE, HERE, SupervisorTest, can_import

MODULES = tuple(name[:-3] for name in os.listdir(HERE) if name.endswith(".py") and not name.startswith(("test_", "main")))


class State(SupervisorTest):
    def test_variables_functions_and_imports_stay(self):
        self.completed("import math\ndef area(r):\n    return math.pi * r * r\nr = 2")
        self.assertEqual(self.completed("round(area(r), 2)").result, "12.57")

    def test_working_directory_and_environment_stay(self):
        self.completed("import os; os.mkdir('sub'); os.chdir('sub'); os.environ['MINE'] = 'yes'")
        answer = self.completed("(os.path.basename(os.getcwd()), os.environ['MINE'])")
        self.assertEqual(answer.result, "('sub', 'yes')")

    def test_modules_of_the_work_dir_can_be_imported(self):
        self.write("mymodule_x.py", "value = 5")
        self.assertEqual(self.completed("import mymodule_x; mymodule_x.value").result, "5")

    def test_files_named_like_modules_do_not_stop_the_kernel(self):
        names = ("ast", "linecache", "traceback", "textwrap", "warnings", "itertools")
        for name in names:
            self.write(name + ".py", "raise SystemError")
        self.assertEqual(self.completed("6 * 7").result, "42")
        self.assertIn("1 / 0", self.run_code("1 / 0").error["traceback"])

    def test_nor_what_the_kernel_imports_late(self):
        for name in ("email", "html"):
            self.write(name + ".py", "raise SystemError")
        self.assertEqual(self.run_code("import nothere").error["name"], "ModuleNotFoundError")
        code = "class T:\n    def __repr__(self): return '<T>'\n    def _repr_html_(self): return '<p>long' + ' ' * 5000\nT()"
        self.assertEqual(self.completed(code).result, "long")

    def test_modules_of_the_program_are_none_of_the_users(self):
        code = "import sys\n[name for name in %r if name in sys.modules]" % (MODULES,)
        self.assertEqual(self.completed(code).result, "[]")
        self.assertEqual(self.completed(code, fresh=True).result, "[]")
        for name in MODULES:
            self.write(name + ".py", "value = %r" % name)
        names = self.completed("[__import__(name).value for name in %r] == list(%r)" % (MODULES, MODULES))
        self.assertEqual(names.result, "True")
        self.assertIn("<cell", self.run_code("1/0").error["traceback"])
        self.assertEqual(self.completed("import asyncio; await asyncio.sleep(0, 'works on')").result, "'works on'")

    def test_builtins_are_a_module_as_in_any_main(self):
        self.assertEqual(self.completed("import builtins; __builtins__ is builtins").result, "True")

    def test_main_is_the_users_module(self):
        code = (
            "import pickle, sys, dataclasses, typing\n"
            "@dataclasses.dataclass\nclass Point:\n    x: 'int' = 1\n"
            "p = pickle.loads(pickle.dumps(Point(3)))\n"
            "assert __name__ == '__main__' and sys.modules['__main__'].Point is Point\n"
            "(p, typing.get_type_hints(Point))"
        )
        self.assertEqual(self.completed(code).result, "(Point(x=3), {'x': <class 'int'>})")

    def test_nothing_of_the_supervisor_is_in_the_namespace(self):
        names = self.completed("sorted(n for n in dir() if n[0] != '_' and n not in"
                               " ('In', 'Out', 'get_ipython', 'exit', 'quit'))").result
        self.assertEqual(names, "[]")

    def test_underscore_is_the_last_result(self):
        self.completed("6 * 7")
        self.assertEqual(self.completed("_ + 1").result, "43")

    def test_an_underscore_of_ones_own_stays(self):
        self.completed("_ = 'mine'")
        self.completed("1 + 1")
        self.assertEqual(self.completed("_").result, "'mine'")

    def test_future_imports_stay(self):
        self.completed("from __future__ import annotations")
        self.assertEqual(self.completed("def f(a: nonsense): pass\nf.__annotations__").result, "{'a': 'nonsense'}")

    def test_empty_code_is_completed(self):
        for code in ("", "   \n", "# only a comment"):
            self.assertEqual(self.completed(code).result, None)


class Results(SupervisorTest):
    def test_the_last_expression_is_the_result(self):
        self.assertEqual(self.completed("x = 3\nx * 2").result, "6")
        self.assertEqual(self.completed("'é\\n'").result, repr("é\n"))

    def test_statements_and_none_have_no_result(self):
        self.assertIsNone(self.completed("x = 3").result)
        self.assertIsNone(self.completed("None").result)
        self.assertIsNone(self.completed("print(1)").result)

    def test_a_semicolon_silences_it(self):
        self.assertIsNone(self.completed("1 + 1;").result)
        self.assertIsNone(self.completed("'é' ;  # yes").result)
        self.assertEqual(self.completed("'a;'").result, "'a;'")

    def test_a_large_result_is_cut_at_a_character(self):
        client = self.connect(output_bytes=1000)
        result = client.run("'é' * 5000").result
        self.assertLessEqual(len(result.encode()), 1000)
        self.assertTrue(result.endswith("é…"), result[-5:])

    def test_what_a_cut_leaves_out_is_counted(self):
        answer = self.connect(output_bytes=1000).run("class A:\n    def __repr__(self): return 'é\\n' * 500\nA()")
        shown = answer.result[:-1].encode()
        self.assertEqual(answer.result_left, {"bytes": 1500 - len(shown), "lines": 500 - shown.count(b"\n")})
        answer = self.run_code("raise ValueError('é\\n' * 20_000)")
        left = answer.error_left
        head, tail = answer.error["traceback"].split("\n... %d bytes left out ...\n" % left["bytes"])
        self.assertEqual(len(head) + len(tail), 16_000)
        self.assertEqual(left["lines"], 20_000 - (head + tail).count("é\n"))
        self.assertFalse(hasattr(self.run_code("1/0"), "error_left"))

    def test_a_large_container_is_cut(self):
        result = self.completed("list(range(1_000_000))").result
        self.assertIn("\n", result)
        self.assertLess(len(result), 30_000)

    def test_a_large_nested_container_is_cut_without_laying_it_all_out(self):
        for prepare in ("", "%time 1") if "ipython" in self.client.ready["features"] else ("",):
            self.completed(prepare)
            result = self.completed("[[[n] * 100 for n in range(1000)] for m in range(100)]").result
            self.assertTrue(result.startswith("[[[0"), result[:20])
            self.assertLess(len(result), 31_000)

    def test_lone_surrogates_do_not_break_the_frame(self):
        self.assertEqual(self.completed("class A:\n    def __repr__(self): return '\\ud800x'\nA()").result, "\ufffdx")

    def test_a_value_that_exits_or_interrupts_ends_no_more_than_its_run(self):
        for method, status in (
            ("__repr__(self): raise SystemExit(3)", "failed"),
            ("__getattr__(self, name): raise KeyboardInterrupt", "completed"),
        ):
            with self.subTest(method):
                answer = self.run_code("kept = 6\nclass A:\n    def %s\nA()" % method)
                self.assertEqual(answer.status, status, answer)
                self.assertEqual(self.completed("kept * 7").result, "42")

    def test_an_object_that_has_every_attribute_is_shown_as_text(self):
        answer = self.completed("from unittest.mock import MagicMock\nMagicMock(name='m')")
        self.assertIn("MagicMock", answer.result)
        self.assertEqual(answer.displays, [])


class Await(SupervisorTest):
    def test_await_at_top_level(self):
        self.assertEqual(self.completed("import asyncio\nawait asyncio.sleep(0, 'slept')").result, "'slept'")
        self.assertEqual(self.completed("x = await asyncio.sleep(0, 5)\nx").result, "5")

    def test_async_for_and_with_at_top_level(self):
        code = (
            "import contextlib\n"
            "async def gen():\n    yield 1\n    yield 2\n"
            "@contextlib.asynccontextmanager\nasync def manager():\n    yield 'm'\n"
            "async for n in gen():\n    print(n)\n"
            "async with manager() as m:\n    print(m)\n"
        )
        self.assertEqual(self.completed(code).out, "1\n2\nm\n")

    def test_an_error_in_awaited_code_has_its_lines_only(self):
        answer = self.run_code("import asyncio\nasync def f():\n    raise KeyError('k')\nawait f()")
        self.assertEqual(answer.error["name"], "KeyError")
        self.assertEqual(answer.error["traceback"].count("File "), 2, answer.error["traceback"])


class Errors(SupervisorTest):
    def error(self, code):
        answer = self.run_code(code)
        self.assertEqual((answer.status, answer.exit_code, answer.kernel), ("failed", 1, "alive"), answer)
        return answer.error

    def test_an_error_has_name_message_and_the_users_lines(self):
        error = self.error("def f():\n    return 1/0\n\nf()")
        self.assertEqual((error["name"], error["message"]), ("ZeroDivisionError", "division by zero"))
        lines = [line for line in error["traceback"].splitlines() if "~" not in line and "^" not in line]
        self.assertEqual(
            lines,
            [
                "Traceback (most recent call last):",
                '  File "<cell 1>", line 4, in <module>',
                "    f()",
                '  File "<cell 1>", line 2, in f',
                "    return 1/0",
                "ZeroDivisionError: division by zero",
            ],
        )

    def test_lines_of_the_program_are_left_out(self):
        for code in (
            "await __import__('asyncio').wait_for(1/0, 1)",
            "class R:\n    def __repr__(self): 1/0\nrepr(R())",
            "class H:\n    def _repr_html_(self): 1/0\n    def __repr__(self): return '<h>'\ndisplay(H())\n1/0",
            "import sys\nsys.stdin.read()",
            "def late(): 1/0\nfrom concurrent.futures import ThreadPoolExecutor\n"
            "with ThreadPoolExecutor() as pool:\n    pool.submit(late).result()",
        ):
            with self.subTest(code=code):
                text = self.error(code)["traceback"]
                self.assertIn("<cell ", text)
                self.assertNotIn("<kernel", text)

    def test_lines_of_the_module_sandbox_are_left_out(self):
        library = os.path.join(os.path.dirname(HERE), "lib", "python")
        error = self.error("import sys; sys.path.append(%r)\nimport sandbox\nsandbox.sql(\"select * from 'none.csv'\")" % library)
        self.assertEqual((error["name"], error["traceback"].count("File ")), ("SQLError", 1), error["traceback"])

    def test_an_error_that_has_no_text_has_its_lines(self):
        answer = self.run_code("class E(Exception):\n    def __str__(self): return 5\ndef f(): raise E\nf()")
        self.assertEqual((answer.error["name"], answer.error["message"]), ("E", "<exception str() failed>"))
        self.assertIn("in f\n    def f(): raise E\n", answer.error["traceback"])

    def test_it_is_not_printed_as_well(self):
        answer = self.run_code("print('before'); 1/0")
        self.assertEqual((answer.out, answer.err), ("before\n", ""))

    def test_lines_of_earlier_cells_are_found(self):
        self.completed("def f():\n    raise ValueError('v')")
        self.assertIn("    raise ValueError('v')", self.error("f()")["traceback"])

    def test_characters_that_end_no_line_of_python(self):
        for prepare in ("", "%time 1") if "ipython" in self.client.ready["features"] else ("",):
            self.completed(prepare)
            self.assertIn("    1/0 # here\n", self.error("x = '\u2028'\n\x0c\n1/0 # here")["traceback"])
            self.assertIsNone(self.completed("x = '\u2028'\n5;").result)

    def test_a_syntax_error_has_its_line_and_caret(self):
        error = self.error("x = 1\ny = = 2")
        self.assertEqual(error["name"], "SyntaxError")
        self.assertIn("y = = 2\n", error["traceback"])
        self.assertIn("^", error["traceback"])
        self.assertIn("line 2", error["traceback"])
        self.assertNotIn("supervisor", error["traceback"])

    def test_what_is_not_finished_says_so(self):
        error = self.error("x = (1,\n2")
        self.assertIn('File "<cell 1>"', error["traceback"])
        self.assertIn("never closed" if sys.version_info >= (3, 10) else "EOF", error["message"])
        error = self.error("def f():\n    x = 1\n  y = 2")
        self.assertIn("y = 2", error["traceback"])
        self.assertNotIn("tokenize", error["traceback"])

    def test_null_bytes_and_bad_indentation(self):
        self.assertIn(self.error("x = '\0'")["name"], ("SyntaxError", "ValueError"))
        self.assertEqual(self.error("if 1:\npass")["name"], "IndentationError")

    def test_causes_are_told(self):
        text = self.error("try:\n    1/0\nexcept ZeroDivisionError as e:\n    raise KeyError('k') from e")["traceback"]
        self.assertIn("ZeroDivisionError: division by zero", text)
        self.assertIn("direct cause", text)
        text = self.error("try:\n    1/0\nexcept ZeroDivisionError:\n    undefined_name")["traceback"]
        self.assertIn("During handling", text)

    def test_causes_that_go_in_a_circle(self):
        self.error("a = ValueError('a'); b = ValueError('b')\na.__cause__ = b; b.__cause__ = a\nraise a")

    def test_a_long_chain_of_causes_is_cut(self):
        error = self.error("e = None\nfor i in range(10_000):\n    n = ValueError(i); n.__cause__ = e; e = n\nraise e")
        self.assertLess(len(error["traceback"]), 20_000)

    def test_recursion_is_short(self):
        error = self.error("def f(n):\n    return f(n + 1)\nf(0)")
        self.assertEqual(error["name"], "RecursionError")
        self.assertLess(len(error["traceback"].splitlines()), 70)

    def test_deep_recursion_through_several_functions_is_cut_in_the_middle(self):
        text = self.error("def f(n):\n    g(n)\ndef g(n):\n    h(n)\ndef h(n):\n    f(n + 1)\nf(0)")["traceback"]
        self.assertIn("frames left out", text)
        self.assertLess(len(text.splitlines()), 30)

    def test_the_inside_of_libraries_is_left_out(self):
        text = self.error(
            "import functools, unittest.mock\nm = unittest.mock.Mock(side_effect=lambda: 1/0)\n"
            "for _ in range(3): m = unittest.mock.Mock(side_effect=m)\nm()"
        )["traceback"]
        self.assertEqual((text.count("<cell"), text.count("/mock.py ... File")), (2, 1))

    def test_causes_inside_of_libraries_are_a_line(self):
        text = self.error("import urllib.request\nurllib.request.urlopen('http://127.0.0.1:9/')")["traceback"]
        self.assertEqual((text.count("Traceback"), text.count("refused")), (1, 1))
        text = self.error("import json\ntry:\n    json.loads('x')\nexcept ValueError as e:\n    raise KeyError('own') from e")["traceback"]
        self.assertEqual((text.count("Traceback"), text.count("<cell")), (2, 2))

    def test_files_of_the_user_are_no_library(self):
        self.write("mine_x.py", "".join("def f%d(): f%d()\n" % (n, n + 1) for n in range(6)) + "def f6(): 1/0\n")
        self.assertEqual(self.error("import mine_x; mine_x.f0()")["traceback"].count("mine_x.py"), 7)

    def test_a_long_message_is_cut(self):
        error = self.error("raise ValueError('x' * 10_000_000)")
        self.assertLess(len(error["message"]), 5000)
        self.assertLess(len(error["traceback"]), 20_000)

    def test_frames_of_libraries_are_told(self):
        self.assertIn("json", self.error("import json; json.loads('{')")["traceback"])

    def test_what_is_raised_may_be_any_base_exception(self):
        self.assertEqual(self.error("raise GeneratorExit('g')")["name"], "GeneratorExit")
        self.assertEqual(self.error("raise KeyboardInterrupt")["name"], "KeyboardInterrupt")

    def test_errors_whose_methods_raise(self):
        error = self.error("class E(Exception):\n    def __str__(self): raise ValueError\nraise E")
        self.assertEqual(error["name"], "E")

    def test_errors_whose_methods_never_return_can_be_interrupted(self):
        code = "class E(Exception):\n    def __str__(self):\n        while True: pass\nraise E"
        answer = self.run_code(code, timeout_ms=300, grace_ms=2 * GRACE)
        self.assertEqual((answer.status, answer.kernel), ("timed_out", "alive"))

    def test_exception_groups(self):
        if "ExceptionGroup" in dir(__builtins__) or hasattr(__builtins__, "ExceptionGroup"):
            text = self.error("raise ExceptionGroup('several', [ValueError('one'), KeyError('two')])")["traceback"]
            self.assertIn("ValueError: one", text)


class Exits(SupervisorTest):
    def test_exit_codes(self):
        for code, status, exit_code in (
            ("import sys; sys.exit()", "completed", 0),
            ("sys.exit(0)", "completed", 0),
            ("sys.exit(3)", "failed", 3),
            ("exit(4)", "failed", 4),
            ("quit()", "completed", 0),
            ("raise SystemExit(259)", "failed", 3),
            ("sys.exit(True)", "failed", 1),
        ):
            with self.subTest(code):
                answer = self.run_code(code)
                self.assertEqual((answer.status, answer.exit_code, answer.kernel), (status, exit_code, "alive"))
                self.assertIsNone(answer.error)

    def test_an_exit_with_a_text_prints_it(self):
        answer = self.run_code("import sys; sys.exit('that was it')")
        self.assertEqual((answer.exit_code, answer.err), (1, "that was it\n"))


class Streams(SupervisorTest):
    def test_input_says_that_it_is_not_available(self):
        for code in ("input('name? ')", "import sys; sys.stdin.read()", "sys.stdin.readline()"):
            answer = self.run_code(code)
            self.assertEqual(answer.error["name"], "EOFError")
            self.assertIn("input is not available", answer.error["message"])

    def test_reading_lines_of_stdin_ends_at_once(self):
        self.assertEqual(self.completed("import sys\nfor line in sys.stdin: print(line)").out, "")

    def test_closed_and_replaced_streams_are_back_in_the_next_run(self):
        for code in (
            "import os; os.close(1); os.close(2); os.close(0)",
            "import sys; sys.stdout.close(); sys.stderr.close()",
            "import sys, io; sys.stdout = io.StringIO(); sys.stderr = None; sys.stdin = None",
            "import os; os.dup2(os.open('/dev/null', os.O_RDWR), 1)",
            "import sys; sys.stdout.detach()",
        ):
            with self.subTest(code):
                self.run_code(code)
                answer = self.completed("import sys; print('out'); print('err', file=sys.stderr)")
                self.assertEqual((answer.out, answer.err), ("out\n", "err\n"))

    def test_output_past_sys_stdout_is_seen(self):
        code = "import os; os.write(1, b'a'); os.system('echo b; echo c >&2'); os.write(2, b'd')"
        answer = self.completed(code + ";")
        self.assertEqual((answer.out, answer.err), ("ab\n", "c\nd"))

    def test_text_that_is_no_utf8_is_escaped(self):
        self.assertEqual(self.completed("print('\\ud800')").out, "\\ud800\n")


class Children(SupervisorTest):
    FORK = (
        "import os, signal, sys\nstatus = 0\npid = os.fork()\nif pid == 0:\n    %s\n"
        "else:\n    status = os.waitpid(pid, 0)[1]\n"
    )
    STATUS = "-os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)"

    def test_a_forked_child_ends_as_a_script_would(self):
        for child, status, out, err in (
            ("print('me')", 0, "me\n", ""),
            ("1/0", 1, "", "ZeroDivisionError: division by zero\n"),
            ("sys.exit(7)", 7, "", ""),
            ("sys.exit('a text')", 1, "", "a text\n"),
            ("exit()", 0, "", ""),
            ("os._exit(9)", 9, "", ""),
            ("os.kill(os.getpid(), signal.SIGKILL)", -9, "", ""),
            ("os.kill(os.getpid(), signal.SIGINT)", -2, "", "KeyboardInterrupt\n"),
            ("print('no newline', end='')", 0, "no newline", ""),
            ("import atexit; atexit.register(print, 'bye')", 0, "bye\n", ""),
            ("import threading; threading.Timer(0.01, print, ['timer']).start()", 0, "timer\n", ""),
            ("import warnings; warnings.warn('careful')", 0, "", "careful"),
        ):
            with self.subTest(child):
                answer = self.completed(self.FORK % child + self.STATUS)
                self.assertEqual((answer.result, answer.out), (str(status), out))
                self.assertIn(err, answer.err)
                self.assertNotIn("<supervisor", answer.err)

    def test_what_the_parent_has_registered_and_warned_of_is_not_the_childs(self):
        before = "import atexit, warnings\natexit.register(print, 'parent')\nwarnings.warn('once')\n"
        answer = self.completed(before + self.FORK % "pass")
        self.assertEqual((answer.out, answer.err.count("UserWarning")), ("", 1))

    def test_the_processes_of_multiprocessing_know_the_cells_and_end_as_they_ended(self):
        self.completed("import sys\ndef twice(n): return 2 * n\ndef bad(): raise ValueError('bad')\ndef leave(): sys.exit(5)")
        for method in ("fork", "spawn", "forkserver") if can_import("cloudpickle", "joblib") else ("fork",):
            with self.subTest(method):
                answer = self.completed(
                    "import multiprocessing\ncontext = multiprocessing.get_context(%r)\n"
                    "with context.Pool(2) as pool:\n    print(pool.map(twice, [1, 2]))\n"
                    "processes = [context.Process(target=target) for target in (bad, leave)]\n"
                    "for p in processes: p.start()\nfor p in processes: p.join()\n[p.exitcode for p in processes]" % method
                )
                self.assertEqual((answer.out, answer.result), ("[2, 4]\n", "[1, 5]"))
                self.assertEqual(answer.err.count("ValueError: bad\n"), 1)


class Notices(SupervisorTest):
    def test_pages_of_the_same_are_told_once_with_their_number(self):
        always = "warnings.simplefilter('always'); "
        for code, told in (
            ("for n in range(12): " + always + "warnings.warn('old', DeprecationWarning)", "Warning: old (12 times)\n"),
            ("for n in range(3): warnings.warn('row %d' % n)", "Warning: row 0 (3 times), with other numbers\n"),
            ("for n in range(4): logging.getLogger('x').warning('lost')", "lost (4 times)\n"),
            ("warnings.warn('alone')", "Warning: alone\n"),
        ):
            with self.subTest(told):
                err = self.completed("import logging, warnings\n" + code).err
                self.assertIn(told, err)
                self.assertEqual(len([line for line in err.splitlines() if line[:1] != " "]), 1, err)

    def test_what_follows_from_nothing_is_not_told(self):
        self.assertEqual(self.completed("import warnings; warnings.warn('pandas only supports SQLAlchemy connectable')").err, "")

    def test_each_run_tells_its_own(self):
        for _ in range(2):
            self.assertIn("<cell", self.completed("import warnings; warnings.warn('careful')").err)

    def test_those_of_a_run_that_fails_are_told(self):
        self.assertIn("careful", self.run_code("import warnings; warnings.warn('careful')\n1/0").err)

    def test_code_that_collects_them_has_them_at_once(self):
        answer = self.completed(
            "import contextlib, io, warnings\nwith contextlib.redirect_stderr(io.StringIO()) as text: warnings.warn('one')\n"
            "with warnings.catch_warnings(record=True) as caught:\n    warnings.simplefilter('always')\n"
            "    for n in range(2): warnings.warn('two')\n'one' in text.getvalue(), len(caught)"
        )
        self.assertEqual((answer.result, answer.err), ("(True, 2)", ""))

    def test_what_code_logs_with_a_handler_of_its_own_stays_as_it_is(self):
        code = "import logging\nlogging.basicConfig(format='%(message)s')\nfor n in range(2): logging.warning('hi')"
        self.assertEqual(self.completed(code).err, "hi\nhi\n")

    def test_a_syntax_warning_comes_once_under_the_name_of_its_cell(self):
        for prepare in ("", "%time 1") if "ipython" in self.client.ready["features"] else ("",):
            self.completed(prepare)
            err = self.completed("x = 1\nx is 'x'").err
            self.assertEqual(err.count("SyntaxWarning"), 1, err)
            self.assertRegex(err, r"^<cell \d>:2: SyntaxWarning")


class Windows(SupervisorTest):
    def test_code_with_its_line_ends_and_mark(self):
        self.assertEqual(self.completed("\ufeffif 1:\r\n    print('''a\r\nb''')\r\n").out, "a\nb\n")
        self.assertEqual(self.completed("\ufeffx = 1\rx").result, "1")

    def test_modules_with_them(self):
        with open(self.client.path("windows.py"), "wb") as file:
            file.write(b"\xef\xbb\xbfif True:\r\n    name = 'w'\r\n")
        self.assertEqual(self.completed("import windows; windows.name").result, "'w'")


if __name__ == "__main__":
    unittest.main()
