"""Why a variable is lost: the kinds of values that cannot be kept, the limit of time, and other versions."""

import signal
import sys
from _frozen_importlib_external import MAGIC_NUMBER

MOST_LOST = 100  # that are named
# In plain words, by where the classes are; only an imported module has objects.
_WORDS = {
    "an open file": "_io.TextIOWrapper _io.BufferedReader _io.BufferedWriter _io.BufferedRandom _io.FileIO zipfile.ZipFile "
    "pyarrow.lib.NativeFile pyarrow.parquet.core.ParquetFile",
    "an open HDF5 file": "h5py._hl.base.HLObject tables.file.File",
    "a network connection": "_socket.socket http.client.HTTPConnection",
    "a lock": "_thread.LockType _thread.RLock multiprocessing.synchronize.SemLock threading.Condition threading.Event threading.Semaphore",
    "a thread": "threading.Thread",
    "data of a thread": "_thread._local",
    "a queue of threads": "queue.Queue _queue.SimpleQueue",
    "a generator": "types.GeneratorType types.AsyncGeneratorType",
    "a coroutine": "types.CoroutineType",
    "a running task": "_asyncio.Task _asyncio.Future",
    "an event loop": "asyncio.events.AbstractEventLoop",
    "a pool of workers": "concurrent.futures._base.Executor multiprocessing.pool.Pool",
    "a call in a pool": "concurrent.futures._base.Future",
    "a program that runs": "multiprocessing.process.BaseProcess subprocess.Popen",
    "a database connection": "sqlite3.Connection sqlite3.Cursor duckdb.DuckDBPyConnection sqlalchemy.engine.base.Engine "
    "sqlalchemy.engine.base.Connection sqlalchemy.orm.session.Session",
    "a query of a DuckDB connection": "duckdb.DuckDBPyRelation",
    "rows that can be read once": "pyarrow.lib.RecordBatchReader",
    "a progress bar": "tqdm.std.tqdm",
    "a place in running code": "types.FrameType types.TracebackType",
    "a mapped file": "mmap.mmap",
    "a context variable": "_contextvars.ContextVar _contextvars.Context",
    "a weak reference": "_weakref.ReferenceType",
    "IPython's shell": "IPython.core.interactiveshell.InteractiveShell",
}
_KINDS = [(*place.rpartition(".")[::2], words) for words, places in _WORDS.items() for place in places.split()]


class NotKept(Exception):
    """Why a value cannot be kept."""


class TimeUp(BaseException):
    """A step took longer than it may."""


class Limit:
    """Ends a step of the main thread after some time, again and again: the code's own methods may swallow it once."""

    def __init__(self, seconds):
        self.seconds = max(seconds, 0.01)

    def __enter__(self):
        self.before = signal.signal(signal.SIGALRM, self._ring)
        signal.setitimer(signal.ITIMER_REAL, self.seconds, 0.5)

    def __exit__(self, *_):
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self.before)

    @staticmethod
    def _ring(*_):
        raise TimeUp


class Losses(dict):
    """The reasons, by the name of the variable: the first one counts."""

    add = dict.setdefault

    def listed(self):
        return [{"name": name[:200], "why": why[:400]} for name, why in list(self.items())[:MOST_LOST]]

    def report(self):
        return {"lost": self.listed(), "lost_total": len(self)}


def kind_of(value):
    """The kind of a value that cannot be kept, in plain words; nothing for others."""
    if value is sys.stdout or value is sys.stderr:
        return ""
    for module, name, words in _KINDS:
        kind = getattr(sys.modules.get(module), name, None)
        if isinstance(kind, type) and issubclass(type(value), kind):  # the value itself is not asked
            return words
    return ""


def explain(error, value, last):
    """Why a value was not pickled; last is the part that it failed at."""
    if isinstance(error, NotKept):
        return str(error)
    if isinstance(error, RecursionError) or isinstance(error.__cause__, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, MemoryError):
        return "there is not enough memory to write it"
    if kind_of(value):
        return kind_of(value)
    if kind_of(last):
        return "it holds " + kind_of(last)
    return "%s cannot be written (%s)" % (type(last if last is not None else value).__qualname__, text_of(error))


def text_of(error):
    try:
        text = " ".join(str(error).split())[:200]
    except BaseException:
        text = ""
    return "%s: %s" % (type(error).__name__, text) if text else type(error).__name__


def code_version():
    """The compiler's version, which decides whether compiled functions run here."""
    return "%s %s" % (sys.implementation.name, MAGIC_NUMBER.hex())


def versions():
    """Those of Python and of the packages that are imported."""
    found = {
        name: _version_of(name, module)
        for name, module in list(sys.modules.items())
        if "." not in name and name not in sys.stdlib_module_names and isinstance(module, type(sys))
    }
    found["python"] = sys.version.split()[0]
    return {name: version for name, version in found.items() if isinstance(version, str) and len(version) < 100}


def _version_of(name, module):
    """The module's object of the name; some make it when asked, from below."""
    below = getattr(sys.modules.get(name + "._version"), "__dict__", {})
    return vars(module).get("__version__") or below.get("version") or below.get("__version__")
