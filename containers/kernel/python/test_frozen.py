"""Variables that are written and read (kept/), with a kernel that the test itself speaks to."""

import os
import shutil
import sys
import tempfile
import unittest

from test_support import HERE, Kernel, can_import

LIMIT = 1 << 30


class FrozenTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="frozen-test-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def kernel(self, **init):
        kernel = Kernel(self.folder, **init)
        self.addCleanup(kernel.close)
        return kernel

    def run_all(self, kernel, *codes):
        for code in codes:
            done = kernel.run(code)
            self.assertIsNone(done.get("error"), done)
        return done

    def write(self, name, text):
        with open(os.path.join(self.folder, name), "w") as file:
            file.write(text)

    def value(self, kernel, expression):
        return self.run_all(kernel, expression)["result"]

    def freeze(self, *codes, limit_bytes=LIMIT, **fields):
        """What a kernel answers that has run the code; the kernel ends."""
        kernel = Kernel(self.folder)
        try:
            self.run_all(kernel, *codes)
            return kernel.ask("freeze", limit_bytes=limit_bytes, **fields)
        finally:
            kernel.close()

    def wake(self, **fields):
        """A new kernel with the variables, and what it has answered."""
        kernel = self.kernel()
        return kernel, kernel.ask("wake", **fields)

    @property
    def path(self):
        return os.path.join(self.folder, Kernel.FROZEN)


def lost(answer):
    return {entry["name"]: entry["why"] for entry in answer["lost"]}


class Kept(FrozenTest):
    def test_kinds_of_values(self):
        code = (
            "import array, collections, datetime, decimal, enum, fractions, io, itertools, pathlib, re, types, uuid\n"
            "class Colour(enum.Enum):\n    RED = 1\n"
        )
        values = {
            "text": ("'ä' * 3", "text == 'äää'"),
            "number": ("10 ** 40", "number == 10 ** 40"),
            "large": ("bytearray(6_000_000)", "large == bytearray(6_000_000)"),
            "zeros": ("bytes(6_000_000)", "zeros == bytes(6_000_000)"),
            "noise": ("__import__('random').Random(1).randbytes(5_000_000)", "noise == random.Random(1).randbytes(5_000_000)"),
            "nested": ("{'a': [1, (2, {3})], None: frozenset('x')}", "nested == {'a': [1, (2, {3})], None: frozenset('x')}"),
            "buffer": ("__import__('pickle').PickleBuffer(bytearray(b'ab' * 9000))", "bytes(buffer) == b'ab' * 9000"),
            "stream": ("io.StringIO('line')", "stream.getvalue() == 'line'"),
            "when": ("datetime.datetime(2020, 1, 2, tzinfo=datetime.timezone.utc)", "when.year == 2020"),
            "pattern": ("re.compile('a+')", "pattern.match('aa') is not None"),
            "counter": ("collections.Counter('aab')", "counter['a'] == 2"),
            "colour": ("Colour.RED", "colour is Colour.RED"),
            "error": ("ValueError('bad')", "error.args == ('bad',)"),
            "out": ("__import__('sys').stdout", "out is __import__('sys').stdout"),
            "module": ("collections", "module.OrderedDict is collections.OrderedDict"),
            "loaded": ("[collections]", "loaded == [collections]"),
        }
        assigned = "".join("%s = %s\n" % (name, made) for name, (made, _) in values.items())
        answer = self.freeze(code + "import random\n" + assigned)
        functions = {"Colour", "colour"} if not has_cloudpickle() else set()
        self.assertEqual(set(lost(answer)), {"buffer"} & set(lost(answer)) | functions, answer)
        kernel, woken = self.wake()
        self.assertEqual((woken["why"], woken["variables"]), ("", answer["variables"]), woken)
        for name, (_, check) in values.items():
            if name not in lost(answer):
                with self.subTest(name):
                    self.assertEqual(self.value(kernel, check), "True")


def has_cloudpickle():
    import importlib.util

    return any(map(importlib.util.find_spec, ("cloudpickle", "joblib")))


class Functions(FrozenTest):
    """Functions and classes of cells, which only cloudpickle can keep."""

    CODE = (
        "import functools, threading\nfactor = 2\nlock = threading.Lock()\n"
        "def double(x):\n    with lock: pass\n    return x * factor\n"
        "def outer(n):\n    def inner(x):\n        return x + n\n    return inner\n"
        "add = outer(3)\n"
        "@functools.lru_cache(maxsize=5)\ndef fib(n):\n    return n if n < 2 else fib(n - 1) + fib(n - 2)\n"
        "class Base:\n    made = []\n    def __init__(self, v):\n        self.v = v; self.made.append(self)\n"
        "class Point(Base):\n    def norm(self):\n        return double(self.v)\n    def __eq__(self, other):\n"
        "        return type(self) is type(other)\n    __hash__ = None\n"
        "point = Point(4)\nsquare = lambda x: x ** factor\n"
    )

    def test_they_are_kept_by_value_and_see_the_variables_that_there_are(self):
        answer = self.freeze(self.CODE)
        if not has_cloudpickle():
            why = "a function or class of the code, which takes the package cloudpickle to be kept"
            self.assertEqual(set(lost(answer).values()), {why, "a lock"})
            self.assertEqual(set(lost(answer)), {"lock", "double", "outer", "add", "fib", "Base", "Point", "point", "square"})
            return
        self.assertEqual(lost(answer), {"lock": "a lock"})
        kernel, _ = self.wake()
        self.run_all(kernel, "lock = threading.RLock()\nfactor = 10")
        for expression, value in {
            "double(2)": "20", "square(2)": "1024", "add(1)": "4", "fib(20)": "6765", "fib.cache_parameters()['maxsize']": "5",
            "point.norm()": "40", "isinstance(point, Base) and type(point) is Point": "True", "Point.made[0] is point": "True",
            "Point(1) == point": "True", "double.__globals__ is globals()": "True", "__builtins__.__name__": "'builtins'",
        }.items():
            with self.subTest(expression):
                self.assertEqual(self.value(kernel, expression), value)

    @unittest.skipUnless(sys.version_info >= (3, 12) and has_cloudpickle(), "aliases and type parameters came with Python 3.12")
    def test_type_aliases_and_type_parameters(self):
        answer = self.freeze(
            "type Whole = int\ntype Tree = dict[str, Tree] | None\ntype Pair[T] = tuple[T, T]\ntype Loop[T] = list[Loop[T]] | T\n"
            "def first[T: int, *Ts, **P](x: T) -> list[Whole]: return [x]\nclass Box[T]:\n    def put(self, x: T) -> T: return x\n"
            "many = list[Whole]"
        )
        self.assertEqual(lost(answer), {"Loop": "it is nested too deeply"})
        for _ in range(2):
            kernel, woken = self.wake()
            self.assertFalse(set(lost(woken)) - {"Loop"}, woken)
            for expression, value in {
                "Whole.__value__, many, first(2)": "(<class 'int'>, list[Whole], [2])", "Tree.__value__.__args__[0].__args__[1] is Tree": "True",
                "Pair.__value__.__args__[0] is Pair.__type_params__[0]": "True", "Whole.__module__": "'__main__'",
                "first.__type_params__[0].__bound__, len(first.__type_params__)": "(<class 'int'>, 3)",
                "first.__annotations__['x'] is first.__type_params__[0]": "True", "Box.__type_params__[0].__name__": "'T'",
            }.items():
                with self.subTest(expression):
                    self.assertEqual(self.value(kernel, expression), value)
            kernel.ask("freeze", limit_bytes=LIMIT)

    def test_tracebacks_of_woken_functions_show_their_lines(self):
        answer = self.freeze("first = 1", "def fail():\n    raise ValueError('x')  # here it is")
        if lost(answer):
            return
        kernel, _ = self.wake()
        done = kernel.run("fail()")
        self.assertIn("# here it is", done["error"]["traceback"])
        self.assertIn("<cell 3>", done["error"]["traceback"])


class Identity(FrozenTest):
    SHARED = "shared = [1]\na = {'s': shared}\nb = [shared, shared]\nbig = bytearray(9_000_000)\nc = (big,)\nloop = []; loop.append(loop)\n"
    CHECK = "a['s'] is shared and b[0] is b[1] is shared and c[0] is big and loop[0] is loop"

    def test_what_variables_share_stays_one(self):
        self.freeze(self.SHARED)
        kernel, _ = self.wake()
        self.assertEqual(self.value(kernel, self.CHECK), "True")

    def test_also_where_another_variable_cannot_be_kept(self):
        answer = self.freeze(self.SHARED + "import threading\nbad = [shared, threading.Lock()]\nwork = threading.local()")
        self.assertEqual(lost(answer), {"bad": "it holds a lock", "work": "data of a thread"})
        kernel, _ = self.wake()
        self.assertEqual(self.value(kernel, self.CHECK), "True")

    def test_also_where_another_variable_cannot_be_read(self):
        self.write("mine.py", "class Gone: pass\nclass Torn:\n    def __setstate__(self, state): raise ValueError('old')\n")
        self.freeze(
            "import mine\ninner = [7]\nfirst = [mine.Gone(), [8]]\nfirst[0].x = inner\nkeeps = first[1]\nrefers = [first]\n"
            "torn = mine.Torn(); torn.x = [9]; torn.when = __import__('datetime').date(2020, 1, 2)\n"
            "date = __import__('datetime').date(2021, 1, 2)\nafter = [torn.x, inner]\nholds = [torn]\n" + self.SHARED
        )
        self.write("mine.py", "class Torn:\n    def __setstate__(self, state): raise ValueError('new')\n")
        kernel, woken = self.wake()
        why, torn = "it needs mine.Gone (AttributeError: ", "it cannot be made again (ValueError: new)"
        self.assertEqual({name: text[: len(why)] for name, text in lost(woken).items()}, {
            "first": why, "refers": why, "torn": torn[: len(why)], "holds": torn[: len(why)],
        })
        self.assertEqual(self.value(kernel, "inner, keeps, date.year, after, after[1] is inner"), "([7], [8], 2021, [[9], [7]], True)")
        self.assertEqual(self.value(kernel, self.CHECK), "True")


class Losses(FrozenTest):
    def test_each_is_named_with_its_reason(self):
        code = (
            "import asyncio, concurrent.futures, contextvars, queue, socket, sqlite3, subprocess, sys, threading, weakref, mmap\n"
            "class Odd:\n    def __reduce__(self): raise KeyError('not me')\n"
            "async def wait(): pass\n"
            "def count():\n    yield 1\n"
            "good = 5\nfile = open('x', 'w')\nclosed = open('y', 'w'); closed.close()\nempty = open('y'); empty.detach()\nconnection = socket.socket()\n"
            "lock = threading.Lock()\nevent = threading.Event()\nthread = threading.Thread()\nlocal = threading.local()\n"
            "pool = concurrent.futures.ThreadPoolExecutor(1)\nwaiting = queue.Queue()\nsteps = count()\nsquares = (x for x in ())\n"
            "coroutine = wait()\ntask = asyncio.get_event_loop().create_task(asyncio.Event().wait())\nloop = task.get_loop()\n"
            "db = sqlite3.connect(':memory:')\nprogram = subprocess.Popen(['true']); program.wait()\n"
            "variable = contextvars.ContextVar('variable')\nview = mmap.mmap(-1, 4096)\nframe = sys._getframe()\nholds = {'x': [file]}\n"
        )
        answer = self.freeze(code + ("odd = Odd()\n" if has_cloudpickle() else ""))
        found = lost(answer)
        odd = found.pop("odd", "")
        self.assertEqual(odd, "Odd cannot be written (KeyError: 'not me')" if has_cloudpickle() else "")
        if not has_cloudpickle():
            for name in ("Odd", "wait", "count"):
                del found[name]
        self.assertEqual(found, {
            "file": "an open file", "holds": "it holds an open file", "connection": "a network connection", "lock": "a lock",
            "event": "a lock", "thread": "a thread", "local": "data of a thread", "pool": "a pool of workers",
            "waiting": "a queue of threads", "steps": "a generator", "squares": "a generator", "coroutine": "a coroutine",
            "task": "a running task", "loop": "an event loop", "db": "a database connection", "program": "a program that runs",
            "variable": "a context variable", "view": "a mapped file", "frame": "a place in running code",
        })
        kernel, woken = self.wake()
        self.assertEqual(woken["lost"], answer["lost"])
        self.assertEqual(self.value(kernel, "good, 'file' in globals()"), "(5, False)")

    def test_methods_that_raise_anything(self):
        with open(os.path.join(self.folder, "mine.py"), "w") as file:
            file.write(
                "class End(BaseException): pass\nclass Raising:\n    def __reduce__(self): raise self.error\n"
                "class Waking:\n    def __setstate__(self, state): raise SystemExit('woken')\n"
            )
        errors = {"base": "mine.End('x')", "stop": "KeyboardInterrupt()", "disk": "OSError(28, 'No space left')", "leave": "SystemExit(2)"}
        makers = "".join("%s = mine.Raising(); %s.error = %s\n" % (name, name, error) for name, error in errors.items())
        answer = self.freeze("import mine\nx = 1\nwaking = mine.Waking(); waking.y = 2\n" + makers)
        why = "Raising cannot be written (%s)"
        texts = ("End: x", "KeyboardInterrupt", "OSError: [Errno 28] No space left", "SystemExit: 2")
        self.assertEqual((answer["why"], lost(answer)), ("", {name: why % text for name, text in zip(errors, texts)}))
        kernel, woken = self.wake()
        self.assertEqual(lost(woken).pop("waking"), "it cannot be made again (SystemExit: woken)")
        self.assertEqual(self.value(kernel, "x, 'waking' in globals()"), "(1, False)")

    def test_what_has_a_hole_is_named_though_it_cannot_be_written_again(self):
        self.write("mine.py", "class Rule: pass\nclass Zone:\n    def __init__(self): self.rules = [Rule()]\n")
        self.freeze("import mine\nzone = mine.Zone()\nalso = [zone]\nx = 1")
        self.write("mine.py", "class Zone:\n    def __reduce__(self): return Zone, (self.name,)\n")
        kernel, woken = self.wake()
        self.assertIn("it needs mine.Rule (", lost(woken)["zone"])
        self.assertIn("a part of it could not be made again (AttributeError: ", lost(woken)["also"])
        self.assertEqual(self.value(kernel, "x, 'zone' in globals()"), "(1, False)")

    def test_a_module_that_is_gone_costs_its_name(self):
        self.write("mine.py", "x = 1")
        self.freeze("import mine, json as j\nx = 2")
        os.remove(os.path.join(self.folder, "mine.py"))
        kernel, woken = self.wake()
        self.assertEqual(list(lost(woken)), ["mine"])
        self.assertEqual(self.value(kernel, "x, j.dumps(1)"), "(2, '1')")

    def test_a_module_that_kernels_import_ahead_is_imported_when_code_uses_it(self):
        self.freeze("import wave, sys\nother = wave")
        kernel = self.kernel(preload=["wave"])
        kernel.ask("wake")
        self.assertEqual(kernel.ask("freeze", limit_bytes=LIMIT)["variables"], 3)
        code = "kept = [wave]\n'wave' in sys.modules, wave.Error.__name__, wave is other is sys.modules['wave'], wave.__name__"
        self.assertEqual(self.value(kernel, code), "(False, 'Error', True, 'wave')")
        self.assertEqual(self.value(kernel, "del sys.modules['wave']; kept[0].open is wave.open"), "True")
        kernel = self.kernel(preload=["wave"])
        kernel.ask("wake")
        self.assertEqual(self.value(kernel, "import pickle; pickle.loads(pickle.dumps(wave)) is sys.modules['wave']"), "True")

    def test_the_largest_are_left_out_where_they_do_not_fit(self):
        noise = "import random\n%s = random.Random(1).randbytes(%d)\n"
        code = "small = 1\n" + noise % ("large", 9 << 20) + noise % ("medium", 3 << 20) + noise % ("other", 4 << 20)
        answer = self.freeze(code, limit_bytes=6 << 20)
        self.assertEqual(lost(answer), {
            "large": "it is larger than the 6 MiB that may be kept",
            "other": "there is no room for it beside the others in the 6 MiB that may be kept",
        })
        self.assertLess(answer["bytes"], 6 << 20)
        self.assertEqual(os.path.getsize(self.path), answer["bytes"])
        kernel, woken = self.wake()
        self.assertEqual(self.value(kernel, "small, len(medium)"), "(1, %d)" % (3 << 20))

    def test_a_method_that_never_ends_costs_its_variable(self):
        self.write("slow.py", "class Slow:\n    def __reduce__(self):\n        while True: pass\n")
        answer = self.freeze("import slow\nx = 1\ny = slow.Slow()", seconds=1)
        self.assertEqual(lost(answer), {"y": "it takes too long to be written"})
        self.assertEqual(self.value(self.wake()[0], "x"), "1")

    def test_names_that_are_not_the_users(self):
        answer = self.freeze("1 + 1", "x = 2\n_ = 3\nfor _i in []: pass\nannotated: int = 4", "x")
        self.assertEqual((answer["variables"], answer["lost"]), (2, []))
        answer = self.freeze("_9 = 6; In = 7; __version__ = '8'; __doc__ = '9'")
        self.assertEqual((answer["variables"], answer["lost"]), (4, []))

    def test_what_may_have_a_part_missing_that_there_is_no_time_to_look_for(self):
        self.write("mine.py", "class Gone: pass\nclass Slow: pass\n")
        self.freeze("import mine\nx = 1\ntorn = [mine.Gone()]\nslow = mine.Slow()\ny = [torn]")
        self.write("mine.py", "class Slow:\n    def __reduce__(self):\n        while True: pass\n")
        kernel, woken = self.wake(seconds=5)
        self.assertEqual(set(lost(woken)), {"torn", "slow", "y"})
        self.assertEqual(self.value(kernel, "x, 'y' in globals()"), "(1, False)")


class Files(FrozenTest):
    def test_the_file_of_before_stays_where_the_new_one_cannot_be_written(self):
        self.freeze("x = 1")
        for limit_bytes, why in ((20_000, "none of the variables can be kept"), (10, "it is more than may be kept")):
            answer = self.freeze("x = __import__('random').Random(1).randbytes(50_000)", limit_bytes=limit_bytes)
            self.assertTrue(answer["why"].startswith(why) and answer["why"], answer)
            self.assertEqual(os.listdir(os.path.dirname(self.path)), ["python.frozen"])
        full = self.freeze(
            "import resource, signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
            "x = __import__('random').Random(1).randbytes(500_000)\nresource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))"
        )
        self.assertEqual(full["why"], "the file cannot be written: File too large")
        self.assertEqual(os.listdir(os.path.dirname(self.path)), ["python.frozen"])
        self.assertEqual(self.value(self.wake()[0], "x"), "1")

    def test_a_file_that_is_not_what_was_written_costs_nothing_but_itself(self):
        self.freeze("x = [1] * 1000\nbig = bytearray(500_000)\nnoise = __import__('random').Random(1).randbytes(50_000)\ny = 'text'")
        with open(self.path, "rb") as file:
            whole = file.read()
        forged = {
            "empty": b"", "head": whole[:20], "other": b"x" * len(whole), "zeros": whole[:16] + bytes(len(whole) - 40) + whole[-24:],
            "huge piece": whole[:16] + b"vz" + b"\xff" * 8 + whole[26:],
        }
        for name, data in forged.items():
            with self.subTest(name):
                with open(self.path, "wb") as file:
                    file.write(data)
                kernel, woken = self.wake()
                self.assertTrue(woken["why"], woken)
                self.assertEqual((woken["variables"], woken["lost"]), (0, []))
                self.assertEqual(self.value(kernel, "'x' in globals(), 1 + 1"), "(False, 2)")
        self.assertTrue(self.kernel().ask("wake", path=".state/none")["why"])

    def test_of_a_file_that_is_cut_off_or_damaged_the_rest_comes_back_and_what_does_not_is_named(self):
        self.freeze("def f(): return [1]\nx = f()\nnoise = __import__('random').Random(1).randbytes(50_000)\ny = 'text', noise\nz = 5")
        with open(self.path, "rb") as file:
            whole = file.read()
        names, middle = {"f", "x", "noise", "y", "z"}, len(whole) // 2
        damaged = {
            "cut": (whole[:-1], names), "no end": (whole[:-24] + b"\xff" * 8 + whole[-16:], names),
            "list": (whole[:-24] + (16).to_bytes(8, "big") + whole[-16:], names), "half": (whole[:middle], {"f", "x"}),
            "left out": (whole[:middle] + whole[middle + 9 :], {"f", "x"}), "only names": (whole[: whole.index(b"}") + 20], set()),
        }
        for name, (data, there) in damaged.items():
            with self.subTest(name):
                with open(self.path, "wb") as file:
                    file.write(data)
                kernel, woken = self.wake()
                self.assertEqual((woken["why"], woken["variables"], set(lost(woken))), ("", len(there), names - there), woken)
                self.assertEqual(self.value(kernel, "sorted({*%r} & {*globals()})" % names), repr(sorted(there)))
                if "f" in there:
                    self.assertEqual(self.value(kernel, "f() == x"), "True")

    def test_a_bomb_in_a_pickle_costs_no_more_than_the_memory(self):
        sys.path.insert(0, HERE)
        from kept.pieces import VARIABLE, Writer

        os.makedirs(os.path.dirname(self.path))
        with open(self.path, "wb") as file:
            writer = Writer(file)
            writer.begin({})
            writer.put_json(VARIABLE, {"name": "bomb"})
            writer.write(b"\x80\x05\x8e" + (1 << 40).to_bytes(8, "little"))  # the bytes of a terabyte
            writer.flush()
            writer.put(b"B", (1 << 40).to_bytes(8, "big"))
            writer.put_json(VARIABLE, {"name": "deep"})
            writer.write(b"\x80\x05" + b"]" * 1000 + b"a" * 999 + b".")
            writer.end({"variables": [{"name": "bomb"}], "lost": "x", "at_ms": "y", "count": -1, "sources": 3})
        kernel, woken = self.wake()
        self.assertEqual(woken["at_ms"], 0)
        self.assertEqual(self.value(kernel, "1 + 1"), "2")

    def test_an_import_that_never_ends(self):
        self.write("slow.py", "")
        self.freeze("x = 1\nimport slow\ny = 2")
        self.write("slow.py", "while True: pass")
        kernel, woken = self.wake(seconds=0.5)
        self.assertEqual(set(lost(woken)), {"slow", "y"})
        self.assertEqual(self.value(kernel, "x"), "1")


class Changes(FrozenTest):
    def test_what_code_has_changed_besides_variables(self):
        os.makedirs(os.path.join(self.folder, "lib"))
        self.write("lib/mine.py", "x = 1")
        answer = self.freeze(
            "import os, random, sys, warnings\nos.environ['MINE'] = 'yes'\ndel os.environ['TERM']\nsys.path.append(os.getcwd() + '/lib')\n"
            "import mine\nos.makedirs('sub'); os.chdir('sub')\nrandom.seed(5)\nwarnings.simplefilter('error')"
        )
        self.assertEqual(answer["lost"], [])
        kernel, woken = self.wake()
        self.assertEqual((woken["lost"], woken["why"]), ([], ""))
        code = "os.environ['MINE'], 'TERM' in os.environ, mine.x, os.getcwd()[-4:], random.random() == random.Random(5).random()"
        self.assertEqual(self.value(kernel, code), "('yes', False, 1, '/sub', True)")
        self.assertEqual(kernel.run("warnings.warn('x')")["error"]["name"], "UserWarning")

    def test_settings_of_libraries(self):
        settings = {
            "decimal": ("decimal.getcontext().prec = 50", "decimal.getcontext().prec == 50"),
            "locale": ("locale.setlocale(locale.LC_ALL, 'C')", "locale.setlocale(locale.LC_ALL) == 'C'"),
            "logging": (
                "logging.basicConfig(level=15, format='%(message)s!'); logging.getLogger('mine').setLevel(5)",
                "(logging.root.level, logging.getLogger('mine').level, logging.root.handlers[0].formatter._fmt) == (15, 5, '%(message)s!')",
            ),
            "time": ("import os; os.environ['TZ'] = 'UTC-5'; time.tzset()", "time.timezone == -18000"),
            "types": (
                "import logging; logging.getLogger(__name__).addHandler(logging.StreamHandler())", "len(logging.getLogger(__name__).handlers) == 1",
            ),
            "sys": ("sys.setrecursionlimit(5000)", "sys.getrecursionlimit() == 5000"),
            "numpy": ("numpy.set_printoptions(precision=2); numpy.seterr(over='raise')", "(str(numpy.array([1.234])), numpy.geterr()['over']) == ('[1.23]', 'raise')"),
            "pandas": ("pandas.set_option('display.max_rows', 7)", "pandas.get_option('display.max_rows') == 7"),
            "sklearn": ("sklearn.set_config(assume_finite=True)", "sklearn.get_config()['assume_finite']"),
        }
        settings |= {
            "polars": ("polars.Config.set_float_precision(2)", "'1.23\\n' in str(polars.Series([1.234]))"),
            "plotly": (
                "import plotly.io, plotly.express; plotly.io.templates.default = 'simple_white'; plotly.express.defaults.width = 321",
                "(plotly.io.templates.default, plotly.express.defaults.width) == ('simple_white', 321)",
            ),
            "altair": (
                "altair.theme.enable('dark'); altair.data_transformers.disable_max_rows()",
                "(altair.theme.active, altair.data_transformers.options['max_rows']) == ('dark', None)",
            ),
            "bokeh": ("import bokeh.io; bokeh.io.curdoc().theme = 'dark_minimal'", "'Plot' in bokeh.io.curdoc().theme._json['attrs'] or bokeh.io.curdoc().theme._json"),
        }  # fmt: skip
        settings = {name: both for name, both in settings.items() if can_import(name)}
        answer = self.freeze("".join("import %s as _m; %s = _m; %s\n" % (name, name, change) for name, (change, _) in settings.items()) + "del _m")
        for preload in ([], list(settings)):  # of what nothing is imported again, the settings wait
            self.assertEqual(answer["lost"], [])
            kernel = self.kernel(preload=preload)
            self.assertEqual(kernel.ask("wake")["lost"], [])
            self.run_all(kernel, "1")
            answer = kernel.ask("freeze", limit_bytes=LIMIT)
        kernel, _ = self.wake()
        for name, (_, check) in settings.items():
            with self.subTest(name):
                self.assertEqual(self.value(kernel, check), "True")

    def test_a_handler_that_cannot_be_made_again_is_named(self):
        answer = self.freeze("import logging\nlogging.getLogger().addHandler(logging.FileHandler('log'))\nlogging.root.setLevel(10)")
        self.assertEqual(list(lost(answer)), ["the handlers of logging"])
        self.assertEqual(self.value(self.wake()[0], "logging.root.level"), "10")

    def test_the_filter_of_a_packages_warning_waits_for_the_package(self):
        self.write("mine.py", "class Odd(UserWarning): pass\nclass Other(UserWarning): pass\n")
        self.freeze(
            "import warnings\nimport mine as _hidden\nwarnings.simplefilter('error', _hidden.Odd)\n"
            "warnings.simplefilter('ignore', _hidden.Other)\ndel _hidden"
        )
        kernel, woken = self.wake()
        self.assertEqual(woken["lost"], [])
        self.assertEqual(self.value(kernel, "'mine' in __import__('sys').modules"), "False")
        code = "import mine\nwarnings.warn('x', mine.Other)\n[f[0] for f in warnings.filters[:2]]"
        self.assertEqual(self.value(kernel, code), "['ignore', 'error']")
        self.assertEqual(kernel.run("warnings.warn('x', mine.Odd)")["error"]["name"], "Odd")

    def test_a_folder_that_is_gone(self):
        self.freeze("import os\nos.makedirs('sub'); os.chdir('sub')")
        os.rmdir(os.path.join(self.folder, "sub"))
        self.assertEqual(list(lost(self.wake()[1])), ["the current folder"])

    def test_the_environment_of_the_next_session_is_its_own(self):
        kernel = self.kernel(env={"SECRET": "first", "MINE": "given"})
        self.run_all(kernel, "import os; os.environ['MINE'] = 'changed'")
        kernel.ask("freeze", limit_bytes=LIMIT)
        with open(self.path, "rb") as file:
            self.assertNotIn(b"first", file.read())
        kernel = self.kernel(env={"SECRET": "second", "MINE": "given"})
        kernel.ask("wake")
        self.assertEqual(self.value(kernel, "os.environ['SECRET'], os.environ['MINE']"), "('second', 'changed')")

    def test_again_and_again(self):
        self.freeze("import random\nx = [1]; y = [x]; random.seed(1)")
        for _ in range(2):
            kernel, woken = self.wake()
            self.run_all(kernel, "x.append(2)")
            kernel.ask("freeze", limit_bytes=LIMIT)
        kernel, woken = self.wake()
        self.assertEqual(self.value(kernel, "x, y[0] is x, random.random() == random.Random(1).random()"), "([1, 2, 2], True, True)")


class Versions(FrozenTest):
    def test_another_version_of_a_package(self):
        for version, doubts, gone in (("1.2.1", False, False), ("1.3.0", True, False), ("1.1.0", True, False), ("", False, True)):
            with self.subTest(version or "gone"):
                self.write_package("1.2.0", "class Kept: pass\nclass Odd: pass\n")
                self.freeze("import mine as _mine\nkept = _mine.Kept(); odd = _mine.Odd(); odd.x = 1; y = 2\ndel _mine")
                self.write_package(version, "class Kept: pass\nclass Odd:\n    def __setstate__(self, _): raise ValueError('old')\n")
                if gone:
                    os.remove(os.path.join(self.folder, "mine.py"))
                kernel, woken = self.wake()
                change = "mine was 1.2.0, and is " + (version or "not there")
                self.assertEqual({entry["name"]: entry["why"] for entry in woken["doubtful"]}, {"kept": change} if doubts else {})
                self.assertEqual(set(lost(woken)), {"kept", "odd"} if gone else {"odd"})
                for why in lost(woken).values():
                    self.assertTrue(why.endswith("; " + change), why)
                self.assertEqual(self.value(kernel, "y"), "2")
                kernel.close()

    def write_package(self, version, classes):
        self.write("mine.py", "__version__ = %r\n" % version + classes)
        shutil.rmtree(os.path.join(self.folder, "__pycache__"), ignore_errors=True)

    def test_functions_of_another_python_are_named(self):
        answer = self.freeze("def f(): return 1\nx = 1\nholds = [f, x]")
        with open(self.path, "rb") as file:
            data = file.read()
        code = b'"code":"cpython '
        self.assertIn(code, data)
        with open(self.path, "wb") as file:
            file.write(data.replace(code, b'"code":"cpythoN '))
        kernel, woken = self.wake()
        self.assertEqual(set(lost(woken)), {"f", "holds"})
        if not lost(answer):
            self.assertEqual(lost(woken)["f"], "it has a function that another Python has compiled")
        self.assertEqual(self.value(kernel, "x"), "1")
