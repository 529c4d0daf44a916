"""The width of printed tables and arrays: their reader is no terminal of 80 columns."""

import sys

LINE_CHARS = 280  # twenty numbers of full precision
NOTEBOOK_COLUMNS = 20


def widen_numpy(numpy):
    options = sys.modules.get("numpy._core.printoptions")
    if options is None:
        numpy.set_printoptions(linewidth=LINE_CHARS)
    else:  # NumPy 2.2 keeps options by context, so only the initial ones hold in every thread
        options.format_options.get()["linewidth"] = LINE_CHARS


def widen_pandas(pandas):
    """Frames show as many columns as in a notebook, and how many there are. Options that code sets come first."""
    pandas.set_option("display.width", LINE_CHARS, "display.max_columns", NOTEBOOK_COLUMNS)
