"""What libraries.py says of libraries, tried: copies of a kernel that has used one, and kernels that go on as one."""

import os
import unittest

from test_support import SupervisorTest, can_import

FORKS = int(os.environ.get("FORKS", "3"))  # of each row

ARRAYS = "import numpy as np; x = np.random.default_rng(1).random((300, 4)); y = (x[:, 0] > .5).astype(int)\n"
PARQUET = """
import io, pandas as pd
frame = pd.DataFrame({"a": list("xyz") * 1000, "b": range(3000)}); file = io.BytesIO(); frame.to_parquet(file)
def use(): file.seek(0); return int(pd.read_parquet(file).query("a == 'x'").b.sum())
"""
# An open result and an open transaction, each of a connection that stays.
DUCKDB = """
import duckdb
a, b = duckdb.connect(), duckdb.connect()
b.execute("CREATE TABLE t AS SELECT range i FROM range(10)"); b.begin(); b.execute("INSERT INTO t VALUES (100)")
a.execute("SELECT * FROM range(1000000)")
def use():
    one, two = a.fetchone()[0], a.fetchone()[0]
    settings = "SELECT current_setting('threads'), current_setting('async_threads')"
    return two - one, b.execute("SELECT sum(i) FROM t").fetchone(), b.cursor().execute("SELECT sum(i) FROM t").fetchone(), b.execute(settings).fetchone(), duckdb.sql("SELECT sum(range) FROM range(1000000)").fetchall()
"""
ZARR = """
import numpy as np, tempfile, zarr
array = zarr.open(tempfile.mkdtemp(dir="."), mode="w", shape=(100, 100), chunks=(10, 10), dtype="i4"); array[:] = 7
def use(): array[0] = 8; return int(array[:].sum())
"""

# What a library is first used by, with the modules that it takes. `use()` has one value wherever it is called.
ROWS = {
    "numpy": ("numpy", ARRAYS + "def use(): m = x.T @ x; return round(float(np.linalg.det(m)), 3)"),
    "pandas text": ("pandas", "import pandas as pd; s = pd.Series(list('abc') * 1000)\ndef use(): return s.str.upper().value_counts().to_dict(), str(s.dtype)"),
    "parquet": ("pandas pyarrow", PARQUET),
    "arrow csv": ("pyarrow", "import io, pyarrow.csv as c\ndef use(): return c.read_csv(io.BytesIO(b'a,b\\n1,2\\n' * 1)).group_by('a').aggregate([('b', 'sum')]).to_pylist()"),
    "duckdb": ("duckdb", DUCKDB),
    "scikit-learn": ("sklearn", ARRAYS + """
from sklearn.ensemble import RandomForestClassifier; from sklearn.cluster import KMeans
def use(): return RandomForestClassifier(9, n_jobs=2, random_state=0).fit(x, y).score(x, y) > .9, KMeans(3, random_state=0).fit(x).labels_.tolist()
"""),
    "lightgbm": ("lightgbm", ARRAYS + "import lightgbm\ndef use(): return lightgbm.LGBMClassifier(n_estimators=3, n_jobs=2, verbose=-1).fit(x, y).score(x, y)"),
    "xgboost": ("xgboost", ARRAYS + "import xgboost\ndef use(): return xgboost.XGBClassifier(n_estimators=3, n_jobs=2).fit(x, y).score(x, y)"),
    "scipy": ("scipy", ARRAYS + "import scipy.fft\ndef use(): return round(float(abs(scipy.fft.fft2(np.ones((256, 256)), workers=2)).sum()), 3)"),
    "opencv": ("cv2", "import cv2, numpy as np\ndef use(): return int(cv2.GaussianBlur(np.eye(1500, dtype='u1') * 255, (9, 9), 2).sum())"),
    "numba": ("numba", """
import numba, numpy as np
@numba.njit(parallel=True)
def total(a):
    s = 0.0
    for i in numba.prange(len(a)): s += a[i]
    return s
def use(): return total(np.ones(10000))
"""),
    "numexpr": ("numexpr", ARRAYS + "import numexpr; numexpr.set_num_threads(2)\ndef use(): return round(float(numexpr.evaluate('x * 2 + 1').sum()), 3)"),
    "tokenizers": ("tokenizers", """
from tokenizers import Tokenizer, models, trainers
t = Tokenizer(models.BPE()); t.train_from_iterator(["ab cd"] * 1000, trainers.BpeTrainer(show_progress=False))
def use(): return [e.ids for e in t.encode_batch(["ab"] * 100)]
"""),
    "zarr": ("zarr", ZARR),
    "polars, eager": ("polars", "import polars as pl\ndef use(): return pl.DataFrame({'a': [1, 2]})['a'].sum()"),
    "a pipe": ("", "import os; r, w = os.pipe()\ndef use(): os.write(w, b'x'); return os.read(r, 9)"),
    "an executor": ("", "import concurrent.futures as c; pool = c.ThreadPoolExecutor(3)\ndef use(): return list(pool.map(abs, range(-9, 0)))"),
    "asyncio": ("", "import asyncio\ndef use(): return asyncio.get_event_loop().run_until_complete(asyncio.to_thread(abs, -1))"),
}
ROWS["numba, workqueue"] = ("numba", "import os; os.environ['NUMBA_THREADING_LAYER'] = 'workqueue'\n" + ROWS["numba"][1])

# What stands against a copy, and how that is said.
REFUSED = {
    "polars": ("polars", "import polars as pl; pl.DataFrame({'a': [1, 2]}).lazy().select(pl.col.a.sum()).collect()", r"polars \(\d+, which nothing ends\)"),
    "blosc2": ("blosc2", "import blosc2, numpy as np; a = blosc2.asarray(np.arange(10**6)); a[:]", r"blosc2 \(\d+, which nothing ends\)"),
    "zmq": ("zmq", "import zmq; c = zmq.Context(); s = c.socket(zmq.PUB)", r"zmq \(\d+, which destroy\(\) of its context ends\)|a socket is open"),
    "a file of DuckDB's": ("duckdb", "import duckdb; c = duckdb.connect('x.duckdb')", r"DuckDB may write to the file x\.duckdb"),
    "processes of joblib's": ("joblib", "import joblib; joblib.Parallel(2)(joblib.delayed(abs)(i) for i in range(4))", r"get_reusable_executor\(\)\.shutdown\(\) ends joblib's pool"),
}


class Forks(SupervisorTest):
    init = {"twins": 2, "twin_bytes": 1 << 40}

    def twinned(self, code):
        answer = self.completed(code)
        self.client.wait_for("twins", why="")
        return answer

    def fork_with(self, code, forks=FORKS):
        """Forks a kernel in which this code has run, lets the copies and the kernel work, and lets copies take its place."""
        self.twinned(code)
        wanted = self.twinned("use()").result
        for number in range(forks):
            self.assertEqual(self.completed("use()", copy=True).result, wanted)
            if number % 10 == 0:
                self.assertEqual(self.twinned("use()").result, wanted)
        for _ in range(2):
            self.assertEqual(self.run_code("import os; os.kill(os.getpid(), 9)").kernel, "restored")
            self.client.wait_for("twins", why="")
            undone = self.twinned("use = None")
            self.client.send({"type": "restore", "language": "python", "id": "restore",
                              "languages": {"python": undone.done["id"]}})
            self.assertEqual(self.client.wait_for("restored").get("error", ""), "")
            self.client.wait_for("twins", why="")
            self.assertEqual(self.completed("use()", copy=True).result, wanted)
            self.assertEqual(self.twinned("use()").result, wanted)

    def refuse_with(self, code, why):
        self.completed(code)
        while (twins := self.client.wait_for("twins"))["why"] in ("", "modules are still being imported"):
            pass
        self.assertRegex(twins["why"], why)
        self.assertRegex(self.run_code("1", copy=True).done["error"]["message"], why)


    def check_row(self, name):
        modules, code = ROWS[name]
        if all(map(can_import, modules.split())):
            with self.subTest(name):
                self.client = self.connect(**self.init)
                self.fork_with(code)

    def check_refused(self, name):
        module, code, why = REFUSED[name]
        if can_import(module):
            with self.subTest(name):
                self.client = self.connect(**self.init)
                self.refuse_with(code, why)


class Libraries(Forks):
    def test_libraries_that_go_on_in_a_copy(self):
        for name in ROWS:
            self.check_row(name)

    def test_libraries_that_do_not(self):
        for name in REFUSED:
            self.check_refused(name)


if __name__ == "__main__":
    unittest.main()
