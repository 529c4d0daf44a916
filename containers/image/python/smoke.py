"""Uses what the Python image promises, as its user. Runs at the end of the build, so that
an image that lost something is never made; runs in a finished image just as well."""

import importlib
import io
import os
import pathlib
import subprocess
import sys
import tempfile
import warnings

MODULES = """
IPython numpy numpy.testing numpy.linalg pandas pandas.testing matplotlib.pyplot seaborn
scipy.stats scipy.optimize scipy.signal scipy.sparse.linalg scipy.interpolate scipy.ndimage
sklearn.linear_model sklearn.ensemble sklearn.cluster sklearn.datasets sklearn.model_selection sklearn.pipeline
statsmodels.api statsmodels.formula.api sympy sympy.plotting networkx
openpyxl xlsxwriter xlrd odf.opendocument docx pypdf reportlab.pdfgen.canvas PIL.Image plotly.express
jinja2 sqlalchemy numexpr bottleneck fastcluster lark tables h5py pyreadstat zstandard fsspec cryptography.fernet
requests httpx rich pydantic bs4 html5lib lxml.etree lxml.html.clean lxml.cssselect yaml tabulate tqdm psutil pytest pip sqlite3
"""

# What Debian's packages have not.
PYPI_MODULES = """
pyarrow.parquet polars duckdb lightgbm altair vl_convert bokeh.plotting folium great_tables
pptx pdfplumber python_calamine fastexcel google.genai uv setuptools
"""

HAS_PYPI = not os.path.exists("/usr/local/share/code-sandbox/why-debian")

# Names that the time zone database has given up, as databases and old files still have them.
OLD_ZONES = "US/Eastern US/Pacific Asia/Calcutta Asia/Saigon Europe/Kiev America/Buenos_Aires GB Japan EST5EDT Zulu"

# Latin, Greek, Cyrillic, Hebrew, Arabic, Chinese, Japanese, Korean, Hindi, Thai, symbols, emoji.
MANY_SCRIPTS = "é Ω Ж א ع 你好 日本語 カナ 한국어 नमस्ते নমস্কার வணக்கம் ನಮಸ್ಕಾರ ሰላም สวัสดี ∑ ★ 😀"


def check_modules():
    for name in MODULES.split() + PYPI_MODULES.split() * HAS_PYPI:
        importlib.import_module(name)


def check_numbers():
    import networkx
    import numpy
    import pandas
    import statsmodels.formula.api
    import sympy
    from sklearn.datasets import load_wine
    from sklearn.ensemble import RandomForestClassifier

    line = pandas.DataFrame({"x": numpy.arange(50.0), "y": numpy.arange(50.0) * 2 + 1})
    assert abs(statsmodels.formula.api.ols("y ~ x", line).fit().params["x"] - 2) < 1e-9
    wine = load_wine(as_frame=True)
    assert RandomForestClassifier(n_estimators=5, random_state=0).fit(wine.data, wine.target).score(wine.data, wine.target) > 0.9
    x = sympy.Symbol("x")
    assert sympy.integrate(x, (x, 0, 2)) == 2
    assert networkx.shortest_path_length(networkx.path_graph(4), 0, 3) == 3
    matrix = numpy.random.default_rng(0).random((200, 200))
    assert numpy.allclose(matrix @ numpy.linalg.inv(matrix), numpy.eye(200))


def check_zones():
    import datetime
    import time
    import zoneinfo

    import dateutil.tz
    import pandas

    for name in OLD_ZONES.split():
        summer = datetime.datetime(2024, 7, 1, tzinfo=zoneinfo.ZoneInfo(name))
        offset = summer.utcoffset()
        assert summer.replace(tzinfo=dateutil.tz.gettz(name)).utcoffset() == offset, name
        assert pandas.Timestamp("2024-07-01", tz=name).utcoffset() == offset, name
        os.environ["TZ"] = name
        time.tzset()
        assert time.localtime(summer.timestamp()).tm_gmtoff == offset.total_seconds(), name
    assert zoneinfo.ZoneInfo("Asia/Calcutta").utcoffset(datetime.datetime(2024, 7, 1)) == datetime.timedelta(hours=5.5)
    del os.environ["TZ"]
    time.tzset()


def check_tables():
    import pandas
    import sqlalchemy

    table = pandas.DataFrame({"a": [1, 2], "b": ["x", "y"]})
    assert table.style.format(precision=1).to_latex() and table.to_latex() and "<table" in table.style.to_html()
    with tempfile.TemporaryDirectory() as folder:
        for name in "t.xlsx", "t.ods":
            table.to_excel(f"{folder}/{name}", index=False)
            assert pandas.read_excel(f"{folder}/{name}").equals(table), name
        table.to_excel(f"{folder}/x.xlsx", engine="xlsxwriter")
        table.to_hdf(f"{folder}/t.h5", key="t")
        assert pandas.read_hdf(f"{folder}/t.h5").equals(table)
        table.to_csv(f"{folder}/t.csv.zst", index=False)
        assert pandas.read_csv(f"{folder}/t.csv.zst").equals(table)
        engine = sqlalchemy.create_engine(f"sqlite:///{folder}/t.db")
        table.to_sql("t", engine, index=False)
        assert pandas.read_sql("select * from t", engine).equals(table)


def check_threads():
    """A new process, because modules that are checked elsewhere have threads after their first use."""
    seen = "import IPython, numpy, pandas, matplotlib.pyplot, scipy.stats, sklearn.linear_model, os; print(*os.listdir('/proc/self/task'))"
    tasks = subprocess.run([sys.executable, "-c", seen], check=True, stdout=subprocess.PIPE, text=True).stdout.split()
    assert len(tasks) == 1, "importing these has started threads"


def check_documents():
    import docx
    import pypdf
    from reportlab.pdfgen import canvas

    document = docx.Document()
    document.add_paragraph("text")
    document.save(io.BytesIO())
    pdf = io.BytesIO()
    page = canvas.Canvas(pdf)
    page.drawString(72, 72, "text")
    page.save()
    assert "text" in pypdf.PdfReader(pdf).pages[0].extract_text()


def check_plots():
    import matplotlib.pyplot as plt
    import seaborn

    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a character that no font has is a warning
        seaborn.lineplot(x=[1, 2], y=[3, 4])
        plt.title(MANY_SCRIPTS)
        plt.savefig(io.BytesIO())
    made = list(pathlib.Path(os.environ["MPLCONFIGDIR"]).glob("fontlist-*"))
    assert not made, f"matplotlib made its own font list instead of reading the ready one: {made}"


def check_pages():
    assert not HAS_PYPI or pathlib.Path("/usr/local/share/code-sandbox/pages/plotly.txt").stat().st_size > 1_000_000
    assert not HAS_PYPI or "vegaEmbed" in pathlib.Path("/usr/local/share/code-sandbox/pages/vega.js").read_text(encoding="utf-8")


def check_work_folder():
    assert os.path.samefile("/home/user", "/mnt/data")


def check_bits():
    found = subprocess.run(["find", "/", "-xdev", "-perm", "/6000"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert not found.stdout, f"these take another user or group: {found.stdout}"


def check_programs():
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["git", "init", "--quiet", folder], check=True)
        subprocess.run(["git", "-C", folder, "-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "--quiet", "--allow-empty", "-m", "a"], check=True)
    assert "https" in subprocess.run(["curl", "--version"], check=True, stdout=subprocess.PIPE, text=True).stdout


def check_compiler():
    """That of the full image alone."""
    import sysconfig

    source = """
        #include <Python.h>
        #include <libpq-fe.h>
        static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "compiled"};
        PyMODINIT_FUNC PyInit_compiled(void) { return PQlibVersion() ? PyModule_Create(&module) : NULL; }
    """
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "compiled.c").write_text(source)
        postgres = subprocess.run(["pg_config", "--includedir"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
        flags = ["-shared", "-fPIC", "-I" + sysconfig.get_path("include"), "-I" + postgres, "-lpq"]
        subprocess.run(["cc", "compiled.c", "-o", "compiled.so", *flags], check=True, cwd=folder)
        subprocess.run([sys.executable, "-c", "import compiled"], check=True, cwd=folder)
        subprocess.run(["dpkg-architecture", "--query", "DEB_HOST_ARCH"], check=True, stdout=subprocess.DEVNULL)


def main():
    checks = [check_threads, check_modules, check_tables, check_zones, check_numbers, check_documents, check_plots, check_pages, check_work_folder, check_bits, check_programs]
    if "full" in sys.argv:
        checks.append(check_compiler)
    for check in checks:
        check()
        print(f"smoke: {check.__name__.removeprefix('check_')} ok", flush=True)


if __name__ == "__main__":
    main()
