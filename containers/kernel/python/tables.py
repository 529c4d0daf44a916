"""The width of printed tables and arrays: their reader is no terminal of 80 columns."""

import functools
import sys

LINE_CHARS = 280  # twenty numbers of full precision
MOST_COLUMNS = 200
NOTEBOOK_COLUMNS = 20  # shown by a notebook of a wider frame


def widen_numpy(numpy):
    options = sys.modules.get("numpy._core.printoptions")
    if options is None:
        numpy.set_printoptions(linewidth=LINE_CHARS)
    else:  # NumPy 2.2 keeps options by context, so only the initial ones hold in every thread
        options.format_options.get()["linewidth"] = LINE_CHARS


def widen_pandas(pandas, most_chars):
    """Frames show all of their columns where that fits into an answer, and else as many as in a notebook.

    Options that code sets come first.
    """
    pandas.set_option("display.width", LINE_CHARS, "display.max_columns", MOST_COLUMNS)
    whole = pandas.DataFrame.__repr__

    @functools.wraps(whole)
    def fitting(frame):
        text = whole(frame)
        if len(text) > most_chars and pandas.get_option("display.max_columns") == MOST_COLUMNS:
            with pandas.option_context("display.max_columns", NOTEBOOK_COLUMNS):
                text = whole(frame)
        return text

    pandas.DataFrame.__repr__ = fitting
