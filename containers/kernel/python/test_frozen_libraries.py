"""What of libraries' values outlives a kernel: the table in docs/sessions.md, row by row. What is not installed is passed over."""

import os
import unittest

from test_frozen import FrozenTest, lost
from test_support import HERE, can_import

DOCS = os.path.join(HERE, "..", "..", "..", "docs", "sessions.md")
KEPT, HEAD = "kept", "| library | what | after sleep |"
BIG = "t = pandas.DataFrame({'t': ['row %d of it' % i for i in range(300_000)], 'n': range(300_000)})\n"
ROWS = (  # library, modules, what, result, statements, and by expression for a value what is true of it when it is called x
    ("pandas", "pandas", "frames with text, categories, zones and periods, groups, windows, styles", KEPT, "", {
        "pandas.DataFrame({'a': ['x', None], 'n': [1, 2]})": "list(x.n) == [1, 2] and x.a[0] == 'x' and x.a.isna()[1]",
        "pandas.Series(['a', 'b'], dtype='category')": "list(x) == ['a', 'b'] and str(x.dtype) == 'category'",
        "pandas.date_range('2026-01-01', periods=3, tz='Europe/Berlin')": "str(x.tz) == 'Europe/Berlin'",
        "pandas.period_range('2026-01', periods=3, freq='M')": "len(x) == 3",
        "pandas.DataFrame({'a': [1, 1], 'b': [2, 3]}).groupby('a')": "x.b.sum()[1] == 5",
        "pandas.Series(range(9)).rolling(3)": "x.sum().iloc[-1] == 21",
        "pandas.DataFrame({'a': [1]}).style.format('{:.2f}')": "'1.00' in x.to_html()",
    }),
    ("polars", "polars", "frames, lazy frames, expressions, also with a function of the code", KEPT, "t = polars.DataFrame({'b': [1, 2]})", {
        "t": "x['b'].to_list() == [1, 2]",
        "t.lazy().filter(polars.col('b') > 1)": "x.collect().height == 1",
        "polars.col('b').map_elements(lambda n: n + 1, return_dtype=polars.Int64)": "t.select(x)['b'].to_list() == [2, 3]",
    }),
    ("Arrow", "pyarrow,pyarrow.dataset,pyarrow.parquet", "tables, arrays, schemas, datasets of files", KEPT,
        "t = pyarrow.table({'a': ['x', 'y']}); pyarrow.parquet.write_table(t, 't.parquet')", {
            "t": "x.to_pydict() == {'a': ['x', 'y']}", "t['a']": "x.to_pylist() == ['x', 'y']", "t.schema": "x.names == ['a']",
            "pyarrow.dataset.dataset('t.parquet')": "x.count_rows() == 2",
        }),
    ("Arrow", "pyarrow,pyarrow.parquet", "open Parquet files", "an open file",
        "pyarrow.parquet.write_table(pyarrow.table({'a': [1]}), 't.parquet')", {"pyarrow.parquet.ParquetFile('t.parquet')": ""}),
    ("DuckDB", "duckdb", "connections", "a database connection", "", {"duckdb.connect()": ""}),
    ("DuckDB", "duckdb", "relations", "a query of a DuckDB connection", "", {"duckdb.sql('select 1')": "", "duckdb.connect().sql('select 1')": ""}),
    ("SQLAlchemy", "sqlalchemy", "engines, sessions", "a database connection", "", {"sqlalchemy.create_engine('sqlite://')": ""}),
    ("NumPy", "numpy", "arrays, generators, files mapped into memory, which are mapped again", KEPT,
        "m = numpy.memmap('m.bin', dtype='f8', mode='w+', shape=(4, 3)); m[:] = numpy.arange(12).reshape(4, 3); m.flush()", {
            "numpy.array(['ä', 'b'], dtype=numpy.dtypes.StringDType())": "x[0] == 'ä'",
            "numpy.random.default_rng(1)": "x.random() == numpy.random.default_rng(1).random()",
            "m": "x.filename.endswith('/m.bin') and x.sum() == 66 and x.flags.writeable",
            "m[1:3]": "x.filename.endswith('/m.bin') and x.tolist() == [[3, 4, 5], [6, 7, 8]]",
            "numpy.memmap('m.bin', dtype='f8', mode='r', shape=(3, 4), order='F')": "not x.flags.writeable and x[1, 0] == 1",
        }),
    ("scikit-learn", "sklearn.pipeline,sklearn.preprocessing,sklearn.linear_model", "models, pipelines, also with a function of the code", KEPT,
        "from sklearn import pipeline as p, preprocessing as pre, linear_model as lin", {
            "p.make_pipeline(pre.StandardScaler(), lin.LogisticRegression()).fit([[1], [2], [3], [4]], [0, 0, 1, 1])":
                "list(x.predict([[1], [4]])) == [0, 1]",
            "pre.FunctionTransformer(lambda v: v * 2)": "x.transform(3) == 6",
        }),
    ("statsmodels", "statsmodels.formula.api,numpy,pandas", "models with a formula, also with a function of the code", KEPT,
        "def half(v): return numpy.log(v) / 2\n"
        "t = pandas.DataFrame({'x': [1.0, 2, 3, 4, 5], 'y': [2.0, 3, 4, 5, 7]})", {
            "statsmodels.formula.api.ols('y ~ numpy.log(x)', t).fit()": "abs(x.predict(t.iloc[:1])[0]) < 9",
            "statsmodels.formula.api.ols('y ~ half(x)', t).fit()": "abs(x.predict(t.iloc[:1])[0]) < 9",
        }),
    ("Matplotlib", "matplotlib.pyplot", "figures and axes, without a window", KEPT, "f, a = matplotlib.pyplot.subplots(); a.plot([1, 2])", {
        "f": "len(x.axes) == 1", "a": "len(x.lines) == 1",
    }),
    ("plotly", "plotly.express,plotly.graph_objects", "figures", KEPT, "", {
        "plotly.express.scatter(x=[1, 2], y=[3, 4])": "len(x.data) == 1",
        "plotly.graph_objects.Figure(plotly.graph_objects.Bar(x=['a'], y=[1]))": "x.data[0].type == 'bar'",
    }),
    ("Altair", "altair,pandas", "charts", KEPT, "", {
        "altair.Chart(pandas.DataFrame({'a': ['x'], 'n': [1]})).mark_bar().encode(x='a', y='n')": "'bar' in x.to_json()",
    }),
    ("Bokeh", "bokeh.plotting,bokeh.models", "figures, data sources", KEPT, "f = bokeh.plotting.figure(); f.line([1, 2], [3, 4])", {
        "f": "len(x.renderers) == 1 and x.renderers[0].data_source.data['x'] == [1, 2]",
        "bokeh.models.ColumnDataSource({'a': [1]})": "x.data['a'] == [1]",
    }),
    ("tqdm", "tqdm", "bars", "a progress bar", "", {"tqdm.tqdm(range(3))": ""}),
    ("h5py", "h5py", "files", "an open HDF5 file", "", {"h5py.File('x.h5', 'w')": ""}),
)


class Libraries(FrozenTest):
    def test_each_row(self):
        for library, modules, what, result, statements, values in ROWS:
            modules = modules.split(",")
            with self.subTest(library + ": " + what):
                if all(can_import(module.partition(".")[0]) for module in modules) and can_import("cloudpickle"):
                    self.check_row("import " + ", ".join(modules) + "\n" + statements, result, values)

    def check_row(self, statements, result, values):
        names = {"value%d" % number: made for number, made in enumerate(values)}
        answer = self.freeze(statements + "".join("\n%s = %s" % item for item in names.items()))
        found = {name: why for name, why in lost(answer).items() if name in names}
        self.assertEqual(found, {} if result == KEPT else dict.fromkeys(names, result))
        kernel, woken = self.wake()
        self.assertEqual((woken["why"], woken["lost"], woken["doubtful"]), ("", answer["lost"], []))
        for name, made in names.items() if result == KEPT else ():
            self.assertEqual(self.value(kernel, "x = %s; bool(%s)" % (name, values[made])), "True", made)

    def test_a_slice_costs_its_own_rows(self):
        for library, modules, made in (
            ("pandas", "pandas", "t.iloc[5:8]"), ("pandas", "pandas", "t['t'][5:8]"), ("pandas", "pandas", "t[t.n == 5]"),
            ("polars", "polars,pandas", "polars.DataFrame({'t': list(t.t)})[5:8]"),
            *(("pyarrow", "pyarrow,pandas", "pyarrow.table({'t': list(t.t)})" + part) for part in (
                ".slice(5, 3)", "['t'].slice(5, 3)", "['t'].chunk(0)[5:8]", ".to_batches()[0].slice(5, 3)",
            )),
        ):
            with self.subTest(made):
                if all(map(can_import, modules.split(","))):
                    answer = self.freeze("import %s\n%sx = %s\ndel t" % (modules, BIG, made))
                    self.assertEqual(answer["lost"], [])
                    self.assertLess(answer["bytes"], 10_000)
                    kernel, _ = self.wake()
                    self.assertIn("row 5 of it", self.value(kernel, "str(x)"))

    def test_the_docs_have_the_table(self):
        if os.path.exists(DOCS):
            with open(DOCS) as file:
                text = file.read()
            rows = ["| %s | %s | %s |" % (row[0], row[2], row[3]) for row in ROWS]
            table = "\n".join([HEAD, "|---|---|---|", *rows]) + "\n"
            self.assertTrue(table in text, table)


if __name__ == "__main__":
    unittest.main()
