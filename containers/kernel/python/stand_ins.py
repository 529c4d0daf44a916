"""Stand-ins for stdin, exit(), quit() and progress bars as widgets."""

import io


class NoInput(io.TextIOBase):
    """sys.stdin of code that nobody can answer, and the bytes below it."""

    name, mode, encoding, errors = "<stdin>", "r", "utf-8", "strict"

    def _refuse(self, *_):
        raise EOFError("input is not available: nobody can answer while code runs")

    read = readline = readlines = read1 = readinto = _refuse

    @property
    def buffer(self):
        return self

    def __iter__(self):
        return iter(())

    def fileno(self):
        return 0

    def readable(self):
        return True

    def close(self):
        pass


class Exiter:
    """exit() and quit(): they end the run, not the kernel."""

    def __init__(self, name):
        self.name = name

    def __call__(self, code=None):
        raise SystemExit(code)

    def __repr__(self):
        return "%s() ends this run; the variables stay" % self.name


def plain_bars(module):
    """Replaces the bars of tqdm.notebook by those of a terminal: its own are widgets, which nothing here could show."""
    from tqdm import std

    module.tqdm = module.tqdm_notebook = std.tqdm
    module.trange = module.tnrange = std.trange
