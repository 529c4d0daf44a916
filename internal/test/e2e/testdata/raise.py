import gc, io, json, linecache, sys, types
import networkx as nx, numpy as np, pandas as pd, polars as pl, pypdf
from matplotlib.figure import Figure
def blank():
    writer, file = pypdf.PdfWriter(), io.BytesIO()
    writer.add_blank_page(9, 9)
    writer.write(file)
    return file
describe = next(f for f in gc.get_objects() if type(f) is types.FunctionType and (f.__module__, f.__name__) == ("errors", "describe"))
space = sys.modules["__main__"].__dict__
def error_of(code):
    before = set(space)
    linecache.cache["<cell>"] = (len(code), None, code.splitlines(True), "<cell>")
    try:
        exec(compile(code, "<cell>", "exec"), space)
    except BaseException as error:
        return describe(error)
    finally:
        for name in set(space) - before:
            del space[name]
with open("output/errors.json", "w") as file:
    json.dump({code: error_of(code) for code in json.loads(CODES)}, file)
