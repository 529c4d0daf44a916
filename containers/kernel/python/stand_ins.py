"""Stand-ins for stdin, exit(), quit() and progress bars as widgets."""


class NoInput:
    """sys.stdin of code that nobody can answer, and the bytes below it."""

    encoding = "utf-8"
    errors = "strict"
    newlines = None
    closed = False
    name = "<stdin>"
    mode = "r"

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

    def isatty(self):
        return False

    def readable(self):
        return True

    def writable(self):
        return False

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
