"""Which runs are known to change no variable (looks.py): of random looks nearly all, of random changes none."""

import contextlib
import io
import itertools
import random
import sys
import tempfile
import types
import unittest
import unittest.mock

import looks
from test_support import can_import

SETUP = """
import collections, datetime, decimal, json, math, os, statistics, sys
n, text, flag, nothing = 7, "ab c", True, None
xs, pairs, words, nested = [3, 1, 2], [(1, "a"), (2, "b")], {"x", "y"}, {"a": [1, 2], "b": {"c": 3}}
d, counts, when, price = {"a": 1, "b": 2}, collections.Counter("abca"), datetime.date(2026, 1, 2), decimal.Decimal("1.50")
missing, deep = collections.defaultdict(list), [[1], [2]]
from math import pi
log = []
class Book:
    title = "t"
    def log(self, line): log.append(line)
    def head(self): log.append(1)
    def __len__(self): log.append(2); return 1
    def __repr__(self): log.append(3); return "book"
    def __getitem__(self, key): log.append(4)
    def __add__(self, other): log.append(5)
    def __eq__(self, other): log.append(6)
    def __hash__(self): return hash("a")
    def __format__(self, spec): log.append(7); return ""
    @property
    def shape(self): log.append(8)
class Meta(type):
    def __repr__(cls): log.append(9); return "meta"
Odd = Meta("Odd", (), {})
class Number(int):
    def __repr__(self): log.append(10); return "1"
def info(*given): log.append(given)
stat = show = info
book, odd, shelf, kept = Book(), Number(1), [Book()], {"k": Number(2)}
g, it = (x for x in [1, 2]), iter([1, 2])
stats = types = Book()
"""
TABLES = """
import numpy as np, pandas as pd
df = pd.DataFrame({"a": [1, 2, 3], "b": ["x", "y", "z"], "t": pd.date_range("2026-01-01", periods=3)})
s, a, ix, m = df["a"], np.arange(6.0), df.index, np.eye(2)
c = pd.Series(["u", "v"], dtype="category")
books = pd.DataFrame({"k": [Book()]})
mine = df.copy(); mine.__dict__["head"] = info
class Own(pd.DataFrame):
    def head(self): log.append(11)
own = Own({"a": [1]})
"""
POLARS = """
import polars as pl
p = pl.DataFrame({"a": [1, 2], "b": ["x", "y"]})
"""
NAMES = {SETUP: "n text flag xs pairs words nested d counts when price deep", TABLES: "df s a ix m c", POLARS: "p"}
LOOKS = {
    SETUP: """{v} | print({v}) | print({v}, {w}, sep=", ") | print(f"{{v}} {{len(xs):>3}}") | len(xs) | type({v}) | type({v}).__name__ | isinstance({v}, int)
    str({v}) | repr({v})[:20] | print(len(d), sorted(d)) | xs[0] | d["a"] | d.get("z", 0) | list(d.items()) | sum(xs) / len(xs) | [x + 1 for x in xs if x > 1]
    {k: len(k) for k in d} | max(xs) - min(xs) | sorted(d.items(), key=lambda kv: kv[1]) | text.upper().split() | math.sqrt(n) | statistics.mean(xs)
    print(*xs) | import math; print(math.pi) | import os.path, sys | from math import pi; pi | "a" in d | n > 3 and flag | counts.most_common(1) | json.dumps(nested) | when.isoformat() | price * 2 | os.getcwd() | sys.version | nested["b"]["c"]
    dir() | id(book) | type(book) | book is None | print(type(book)) | xs[::-1] | any(x > 2 for x in xs) | list(zip(xs, text)) | len(missing) | assert n == 7
    sum(len(x) for x in deep) | datetime.datetime.now().year | print("# a = 1") | round(n / 3, 2) | print("a=b", end="") | {v} == {w} | # nothing
    dict(sorted(d.items())) | print(text.replace("a", "b")) | sys.getsizeof(xs) | callable(info) | !ls -l""",
    TABLES: """{t} | df.head() | df.head(2) | print(df.tail(1)) | df.shape | len(df) | df.info() | df.describe() | df.dtypes | df.columns | df["a"].mean() | df.a.sum() | df[["a", "b"]]
    df[df.a > 1] | df.loc[0, "b"] | df.iloc[-1] | df.groupby("b")["a"].sum() | df["b"].value_counts() | df.isna().sum() | df.sort_values("a", ascending=False)
    df["b"].str.upper() | df["t"].dt.year | print(df.to_string(index=False)) | s.quantile(0.9) | a.mean() | a.reshape(2, 3) | a[a > 2] | np.mean(a) | np.percentile(a, 90)
    a.dtype, a.shape | m @ m | ix.tolist() | c.cat.categories | pd.crosstab(df.a, df.b) | np.where(a > 1, a, 0) | print({t}) | df.nunique() | df.corr(numeric_only=True)
    df.sort_values("a").head(1) | df.memory_usage(deep=True).sum() | pd.concat([df, df]).shape | df.drop(columns="a") | len(books)""",
    POLARS: """p | p.head() | p.shape | p.filter(pl.col("a") > 1) | p.select(pl.col("a").sum()) | p.group_by("b").len() | p["a"].mean() | p.describe() | p.schema | p.glimpse()""",
}
CHANGES = {
    SETUP: """n = len(xs) | n += 1 | n <<= 3 | x = rf"{n}" | missing["new"] | missing["new"].append(1) | book.log("x") | print(list(g)) | print(next(it)) | xs.append(1) | xs.sort() | xs.pop()
    d.update(z=1) | d["z"] = 1 | d.setdefault("q", 1) | words.add("z") | info(1) | stat("a") | show() | fr"{info(1)}" | f"{book.log(1)}" | print(book) | len(book) | book[0] | book + 1
    book == 1 | book in xs | str(shelf) | print(shelf) | f"{book}" | book.shape | book.head() | kept | repr(Odd) | odd | print(odd) | [x for x in g] | sorted(xs, key=info) | list(map(info, xs))
    (y := 3) | print(y := 3) | [z := x for x in xs] | del n | import os.path as q | from math import sin | from math import e as n | import this | from math import * | import math as n | for i in xs: pass | exec("n = 1") | eval("log.append(1)") | globals()["n"] = 1 | globals().update(n=1)
    setattr(book, "title", 1) | book.title = 2 | with open("f") as f: f.read() | def f(): pass | lambda: log.append(1) | (lambda: log.append(1))() | getattr(book, "head")() | vars(book).update(q=1)
    counts.update("a") | counts["q"] += 1 | deep[0].append(9) | nested["a"].extend([1]) | sum(shelf, book) | max(shelf, key=info) | list(filter(info, xs)) | statistics.mean(xs) or info() | stats.mean(xs)
    isinstance(book, Odd) or info() | print(*map(info, xs)) | print(1, file=book) | json.dumps(xs, default=info) if info() else 0 | json.dumps(xs, default=info) | {book: 1} | d[book] | d.get(book) | book < 1
    int(book) | bool(book) | abs(odd) + info() | any(g) | tuple(it) | print(it.__next__()) | assert info() is None | [info(x) for x in xs] | xs[info() or 0] | text.join(map(str, g)) | min(it)""",
    TABLES: """df["z"] = 1 | df.insert(0, "q", 1) | df.drop(columns="a", inplace=True) | df.pop("a") | df.sort_values("a", inplace=True) | df.loc[0, "a"] = 9 | df.a.update(s) | a.sort() | a.fill(0) | a += 1
    a[0] = 5 | np.log(m, m) | np.abs(a, out=a) | a.max(0, m) | a.round(2, a) | df.apply(info) | df.agg(info) | df["a"].map(info) | df.pipe(info) | df.groupby(info).sum() | books | print(books) | books.head()
    mine.head() | own.head() | df.sample(1) | np.random.rand() | np.random.seed(1) | pd.set_option("display.width", 100) | df.loc[info] | df[info] | df.columns = ["x", "y", "z"] | s.replace("a", "b", inplace=True)
    df.sort_values("a", key=info) | df.rename(columns=info) | df.eval("q = a", inplace=True) | df.plot() | np.random.shuffle(a) | m.put(0, 5) | df.at[0, "a"] = 1 | books["k"].unique() | df.where(info)""",
    POLARS: """p.insert_column(0, pl.lit(1)) | p.map_rows(info) | p["a"].map_elements(info) | p.drop_in_place("a") | p.extend(p) | p[0, "a"] = 3 | p.columns = ["x", "y"]""",
}


def rows(text):
    return [row.strip() for line in text.strip().splitlines() for row in line.strip().split(" | ")]


class TestLooks(unittest.TestCase):
    def setUp(self):
        self.random = random.Random(7)
        self.kinds = [SETUP] + [TABLES] * (can_import("numpy") and can_import("pandas")) + [POLARS] * can_import("polars")
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.fresh()

    def fresh(self):
        self.namespace = types.ModuleType("__main__").__dict__
        for kind in self.kinds:
            exec(kind, self.namespace)
        loop, threads = types.SimpleNamespace(is_waiting=lambda: False), types.SimpleNamespace(owners={})
        settings = types.SimpleNamespace(work_dir=self.folder.name)
        self.kernel = types.SimpleNamespace(namespace=self.namespace, engine=None, threads=threads, event_loop=loop, settings=settings)

    def state(self):
        names = [name for kind in self.kinds for name in NAMES[kind].split()] + ["log", "missing"]
        return [*self.namespace, *(repr(self.namespace.get(name)) for name in names)]

    def fill(self, template):
        names = NAMES[SETUP].split()
        tables = NAMES.get(TABLES if TABLES in self.kinds else SETUP).split()
        for hole, choices in (("{v}", names), ("{w}", names), ("{t}", tables)):
            template = template.replace(hole, self.random.choice(choices))
        return template

    def any(self, table):
        return [self.fill(row) for kind in self.kinds for row in rows(table[kind])]

    def test_looks_are_known(self):
        every = itertools.chain.from_iterable(self.any(LOOKS) for _ in itertools.repeat(0))
        unknown = [code for code in itertools.islice(every, 300) if not looks.only_looks(self.kernel, code)]
        self.assertLessEqual(len(unknown), 15, unknown)

    def test_what_is_known_changes_nothing(self):
        before = self.state()
        for code in self.any(LOOKS):
            if looks.only_looks(self.kernel, code) and code[0] != "!":
                with contextlib.redirect_stdout(io.StringIO()):
                    exec(code, self.namespace)
                self.assertEqual(self.state(), before, code)

    def test_no_change_is_known(self):
        frames = ["{}", "{}\n{look}", "{look}\n{}", "if flag:\n    {}", "{look}\nif n:\n    {look}\nelse:\n    {}", "!ls\n{}", "{look} # x\n{}", "{}\n# only print(n)"]
        known, seen = [], set()
        changes, looking = self.any(CHANGES), [code for code in self.any(LOOKS) if code[0] != "#"]
        for _ in range(10_000):
            change, frame = self.random.choice(changes), self.random.choice(frames)
            if not change.isascii() or "\n" in change:
                continue
            code = "".join(frame.replace("{look}", self.random.choice(looking)).replace("{}", change))
            if looks.only_looks(self.kernel, code):
                known.append(code)
            seen.add(code)
        self.assertEqual(known[:20], [])
        self.assertGreater(len(seen), 2000)

    def test_what_is_called_with_every_run_makes_it_unknown(self):
        self.assertTrue(looks.only_looks(self.kernel, "n"))
        self.namespace["print"] = self.namespace["info"]
        self.assertFalse(looks.only_looks(self.kernel, "print(n)"))
        self.kernel.threads.owners = {1: 1}
        self.assertFalse(looks.only_looks(self.kernel, "n"))

    def test_patched_packages_make_it_unknown(self):
        for pandas in [sys.modules[name] for name in ("pandas",) if TABLES in self.kinds]:
            with unittest.mock.patch.object(pandas.DataFrame, "head", self.namespace["info"]):
                self.assertFalse(looks.only_looks(self.kernel, "df.head()"))
            with pandas.option_context("display.float_format", lambda x: self.namespace["log"].append(x) or ""):
                self.assertFalse(looks.only_looks(self.kernel, "df"))
