"""Uses what the Python image promises, as its user. Runs at the end of the build, so that
an image that lost something is never made; runs in a finished image just as well."""

import importlib
import io
import os
import pathlib
import subprocess
import sys
import warnings

MODULES = """
IPython numpy numpy.testing numpy.linalg pandas pandas.testing matplotlib.pyplot seaborn
scipy.stats scipy.optimize scipy.signal scipy.sparse.linalg scipy.interpolate scipy.ndimage
sklearn.linear_model sklearn.ensemble sklearn.cluster sklearn.datasets sklearn.model_selection sklearn.pipeline
statsmodels.api statsmodels.formula.api sympy sympy.plotting networkx
openpyxl xlsxwriter docx pypdf reportlab.pdfgen.canvas PIL.Image plotly.express
requests bs4 html5lib lxml.etree yaml tabulate tqdm pip sqlite3
"""

# Latin, Greek, Cyrillic, Hebrew, Arabic, Chinese, Japanese, Korean, Hindi, Thai, symbols, emoji.
MANY_SCRIPTS = "é Ω Ж א ع 你好 日本語 カナ 한국어 नमस्ते สวัสดี ∑ ★ 😀"


def check_modules():
    for name in MODULES.split():
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


def check_documents():
    import docx
    import pandas
    import pypdf
    from reportlab.pdfgen import canvas

    for engine in "openpyxl", "xlsxwriter":
        sheet = io.BytesIO()
        pandas.DataFrame({"a": [1, 2]}).to_excel(sheet, engine=engine)
        assert len(pandas.read_excel(io.BytesIO(sheet.getvalue()))) == 2
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


def check_program():
    path = "/usr/local/lib/code-sandbox/python-program"
    program = subprocess.Popen([path, "-I", "-c", "import json; input()"], stdin=subprocess.PIPE, user=1000)
    look = f"import os; os.listdir('/proc/{program.pid}/fd')"
    looked = subprocess.run([sys.executable, "-I", "-c", look], capture_output=True, text=True, user=1000)
    program.communicate(b"\n")
    assert program.returncode == 0, f"{path} ended with {program.returncode}"
    assert "PermissionError" in looked.stderr, f"{path} can be looked into: {looked}"


def main():
    for check in check_modules, check_numbers, check_documents, check_plots, check_program:
        check()
        print(f"smoke: {check.__name__.removeprefix('check_')} ok", flush=True)


if __name__ == "__main__":
    main()
