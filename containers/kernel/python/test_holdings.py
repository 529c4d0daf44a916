"""What a kernel tells of its variables, without running any of the code's own methods (holdings.py)."""

import shutil
import tempfile
import unittest

import holdings
from test_support import Kernel, can_import

HOSTILE = """
ran = []
def trap(*_, **__):
    ran.append(1)
    while True: pass
class Meta(type):
    __name__ = __module__ = __mro__ = property(trap)
    __eq__ = __getattribute__ = __instancecheck__ = __subclasscheck__ = trap
    __hash__ = type.__hash__
class Evil(metaclass=Meta):
    __class__ = __dict__ = property(trap)
    __len__ = __repr__ = __getattribute__ = __eq__ = __iter__ = __bool__ = trap
    __hash__ = object.__hash__
evil = Evil()
class Few(list):
    __len__ = __iter__ = __getattribute__ = trap
few = Few([1])
class Text(str):
    __len__ = __getitem__ = __eq__ = trap
    __hash__ = str.__hash__
named = type(Text("Named"), (), {})()
globals()[Text("odd")] = 1
import types
class Lazy(types.ModuleType):
    __getattribute__ = trap
lazy = Lazy("lazy")
class Forged:
    __module__ = "pandas"
    _mgr = shape = property(trap)
forged = Forged()
placed = types.FunctionType(trap.__code__, globals())
placed.__module__ = Evil()
"""


def said(answer):
    return dict(held.split(" ", 1) for held in answer["holds"])


class Holdings(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="holdings-test-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.kernel = Kernel(self.folder)
        self.addCleanup(self.kernel.close)

    def describe(self, code, **fields):
        done = self.kernel.run(code)
        self.assertIsNone(done.get("error"), done)
        self.kernel.send({"type": "describe", **fields})
        return self.kernel.wait_for("described")

    def test_kinds_and_shapes(self):
        answer = self.describe(
            "import json, os.path, sqlite3, collections as c\nfrom math import pi, sqrt\nfrom decimal import Decimal\n"
            "n, name, rows, pairs, seen = 1, 'four', [0] * 1204, {1: 2}, {1, 2, 3}\nconn = sqlite3.connect(':memory:')\n"
            "count, queue = c.Counter('aab'), c.deque([1])\nclass Own: pass\nown = Own()\ndef call(): pass\nsquare = lambda x: x"
        )
        expected = {
            "n": "int", "name": "str 4", "rows": "list 1,204", "pairs": "dict 1", "seen": "set 3", "conn": "sqlite3.Connection", "count": "Counter 2",
            "queue": "deque 1", "Own": "class", "own": "Own", "call": "function", "square": "function", "pi": "float",
        }
        self.assertEqual(said(answer), expected)
        self.assertEqual(answer["imported"], ["Decimal", "sqrt", "collections as c", "sqlite3", "os", "json"])
        self.assertEqual(answer["holds"][:2], ["own Own", "rows list 1,204"], "the newest and the largest are first")
        self.assertEqual(answer["holds"][-3:], ["square function", "call function", "Own class"], "functions are last")

    def test_no_method_of_the_code_is_run(self):
        answer = said(self.describe(HOSTILE))
        self.assertEqual((answer["evil"], answer["few"], answer["named"], answer["forged"]), ("Evil", "Few 1", "Named", "Forged"))
        self.assertNotIn("odd", answer)
        self.assertEqual(self.kernel.run("ran")["result"], "[]")

    def test_many_are_bounded_and_a_file_has_their_names(self):
        answer = self.describe("for i in range(1000): globals()['v%d' % i] = [0] * i\nglobals()['n' * 5000] = 1")
        self.assertEqual((len(answer["holds"]), answer["variables"], answer["holds"][1]), (60, 1002, "v999 list 999"))
        self.assertTrue(all(len(held) <= 110 for held in answer["holds"]))
        self.kernel.ask("freeze", limit_bytes=1 << 20)
        asleep = self.describe("", path=Kernel.FROZEN)
        self.assertEqual((len(asleep["holds"]), asleep["holds"][1]), (60, "v999"))
        self.assertEqual(self.describe("", path=".state/none")["holds"], [])

    @unittest.skipUnless(can_import("pandas"), "there is no pandas")
    def test_frames(self):
        answer = said(self.describe(
            "import numpy as np, pandas as pd\na, b = np.zeros((3, 4)), np.float64(1)\ndf = pd.DataFrame({'x': range(7), 'y': list('abcdefg')})\n"
            "s, i = df['y'], pd.Index(['a', 'b'])\ndated = df.set_index(pd.date_range('2020', periods=7))\nby = df.set_index(['x', 'y'])\n"
            "named, t = df.set_index('y'), pd.DatetimeIndex(dated.index)\ncat = df.set_index(df.y.astype('category'))\nempty, by_x = pd.DataFrame(), df.groupby('x')"
        ))
        expected = {
            "a": "ndarray 3 × 4", "b": "float64", "df": "DataFrame 7 × 2", "s": "Series 7", "i": "Index 2", "dated": "DataFrame 7 × 2", "by": "DataFrame 7 × 0",
            "named": "DataFrame 7 × 1", "t": "DatetimeIndex 7", "cat": "DataFrame 7 × 2", "empty": "DataFrame 0 × 0", "by_x": "DataFrameGroupBy",
        }
        self.assertEqual(answer, expected)

    @unittest.skipUnless(can_import("polars"), "there is no polars")
    def test_tables_of_other_libraries(self):
        answer = said(self.describe(
            "import polars as pl, pyarrow as pa, scipy.sparse as sp\np, lazy = pl.DataFrame({'x': [1, 2, 3]}), pl.LazyFrame({'x': [1]})\n"
            "ps, table, array, m = p['x'], pa.table({'x': [1, 2], 'y': [3, 4]}), pa.array([1]), sp.eye(5, format='csr')"
        ))
        expected = {
            "p": "DataFrame 3 × 1", "lazy": "LazyFrame", "ps": "Series 3", "table": "Table 2 × 2", "array": "Int64Array 1", "m": answer["m"].partition(" ")[0] + " 5 × 5",
        }
        self.assertEqual(answer, expected)


class Shapes(unittest.TestCase):
    def test_what_another_version_keeps_elsewhere_has_no_shape(self):
        odd = type("DataFrame", (), {"__module__": "pandas"})()
        odd._mgr = odd
        self.assertEqual(holdings.shape_of(odd, type(odd), float("inf")), [])
