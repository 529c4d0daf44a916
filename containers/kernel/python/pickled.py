"""Pickling variables so that each loss is explained, and unpickling them so that it costs no more than itself."""

import sys

from frozen import TimeUp
from imports import own_imports
from reducers import find_reducer
from spawning import cloudpickle_folder

_KINDS = (  # in plain words, by where the class is; objects need an imported module
    ("_io", "TextIOWrapper", "an open file"),
    ("_io", "BufferedReader", "an open file"),
    ("_io", "BufferedWriter", "an open file"),
    ("_io", "BufferedRandom", "an open file"),
    ("_io", "FileIO", "an open file"),
    ("zipfile", "ZipFile", "an open file"),
    ("h5py._hl.base", "HLObject", "an open HDF5 file"),
    ("tables.file", "File", "an open HDF5 file"),
    ("_socket", "socket", "a network connection"),
    ("http.client", "HTTPConnection", "a network connection"),
    ("_thread", "LockType", "a lock"),
    ("_thread", "RLock", "a lock"),
    ("multiprocessing.synchronize", "SemLock", "a lock"),
    ("threading", "Thread", "a thread"),
    ("threading", "Condition", "a lock"),
    ("threading", "Event", "a lock"),
    ("threading", "Semaphore", "a lock"),
    ("_thread", "_local", "data of a thread"),
    ("queue", "Queue", "a queue of threads"),
    ("_queue", "SimpleQueue", "a queue of threads"),
    ("types", "GeneratorType", "a generator"),
    ("types", "AsyncGeneratorType", "a generator"),
    ("types", "CoroutineType", "a coroutine"),
    ("_asyncio", "Task", "a running task"),
    ("_asyncio", "Future", "a running task"),
    ("asyncio.events", "AbstractEventLoop", "an event loop"),
    ("concurrent.futures._base", "Executor", "a pool of workers"),
    ("concurrent.futures._base", "Future", "a call in a pool"),
    ("multiprocessing.pool", "Pool", "a pool of workers"),
    ("multiprocessing.process", "BaseProcess", "a program that runs"),
    ("subprocess", "Popen", "a program that runs"),
    ("sqlite3", "Connection", "a database connection"),
    ("sqlite3", "Cursor", "a database connection"),
    ("duckdb", "DuckDBPyConnection", "a database connection"),
    ("duckdb", "DuckDBPyRelation", "a query of a DuckDB connection"),
    ("pyarrow.lib", "NativeFile", "an open file"),
    ("pyarrow.lib", "RecordBatchReader", "rows that can be read once"),
    ("pyarrow.parquet.core", "ParquetFile", "an open file"),
    ("tqdm.std", "tqdm", "a progress bar"),
    ("sqlalchemy.engine.base", "Engine", "a database connection"),
    ("sqlalchemy.engine.base", "Connection", "a database connection"),
    ("sqlalchemy.orm.session", "Session", "a database connection"),
    ("types", "FrameType", "a place in running code"),
    ("types", "TracebackType", "a place in running code"),
    ("mmap", "mmap", "a mapped file"),
    ("_contextvars", "ContextVar", "a context variable"),
    ("_contextvars", "Context", "a context variable"),
    ("_weakref", "ReferenceType", "a weak reference"),
    ("IPython.core.interactiveshell", "InteractiveShell", "IPython's shell"),
)


class NotKept(Exception):
    """Why a value cannot be kept."""


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


def load_cloudpickle():
    """The package, which pickles the functions and classes of cells by value; None: the image lacks it."""
    before = sys.path[:]
    sys.path.append(cloudpickle_folder())
    try:
        with own_imports:
            import cloudpickle
        return cloudpickle if hasattr(cloudpickle.Pickler, "_dynamic_function_reduce") else None
    except Exception:
        return None
    finally:
        sys.path[:] = before


class Namespace:
    """Pickles as the namespace of the kernel that unpickles it: the globals of the functions of cells."""

    def __reduce__(self):
        return vars, (sys.modules["__main__"],)


def make_pickler_class(namespace, cells):
    """The class of picklers for variables; it adds the names of the cells that defined functions."""
    import functools
    import io
    import pickle
    from importlib import import_module
    from types import CodeType, FunctionType, ModuleType

    base = getattr(load_cloudpickle(), "Pickler", None)
    by_value = base is not None
    files = (io.TextIOWrapper, io.FileIO, io.BufferedReader, io.BufferedWriter, io.BufferedRandom)
    cached = functools._lru_cache_wrapper

    class Pickler(base or pickle.Pickler):
        """Notes the objects it reaches, and refuses those that would become something else."""

        def __init__(self, writer):
            super().__init__(writer, protocol=5, buffer_callback=writer.take_buffer)
            self.last = None
            self.has_begun = False
            self.reducers = {}
            self.met = set()  # classes of the parts of the present variable
            if by_value:
                self.globals_ref[id(namespace)] = Namespace()

        def reducer_override(self, value):
            self.last = value
            if isinstance(value, files):
                return self._reduce_file(value)
            if isinstance(value, ModuleType):
                if sys.modules.get(value.__name__) is value:
                    return import_module, (value.__name__,)
            elif by_value and isinstance(value, CodeType):
                return self._reduce_code(value)
            elif isinstance(value, cached) and value.__module__ == "__main__":
                sizes = value.cache_parameters()
                return cached, (value.__wrapped__, sizes["maxsize"], sizes["typed"], functools._CacheInfo), value.__dict__
            elif isinstance(value, Missing) or isinstance(value, type) and issubclass(value, Missing):
                raise NotKept(value.why)
            kind = type(value)
            self.met.add(kind)
            if kind not in self.reducers:
                self.reducers[kind] = find_reducer(kind)
            reduced = self.reducers[kind](value) if self.reducers[kind] else NotImplemented
            if reduced is not NotImplemented:
                return reduced
            if by_value:
                return super().reducer_override(value)
            if isinstance(value, (FunctionType, type)) and value.__module__ == "__main__":
                raise NotKept("a function or class of the code, which takes the package cloudpickle to be kept")
            return NotImplemented

        @staticmethod
        def _reduce_file(value):
            for name in ("stdout", "stderr"):
                if value is getattr(sys, name):
                    return getattr, (sys, name)
            raise TypeError("an open file")

        if by_value:

            def _reduce_code(self, code):
                """Names the cell, which cloudpickle does not from some version on."""
                cells.add(code.co_filename)
                kind, args = self.dispatch_table[CodeType](code)
                return kind, tuple(code.co_filename if arg == "<dynamic-code>" else arg for arg in args)

            def _dynamic_function_reduce(self, func):
                made = super()._dynamic_function_reduce(func)
                if func.__globals__ is namespace:  # with those variables, or reasons for their loss
                    made[2][1]["__globals__"] = {}
                if getattr(func, "__type_params__", ()):
                    made[2][1]["__type_params__"] = func.__type_params__
                return made

    return Pickler


class Missing:
    """Stands for a lost object in its holders: each step of a pickle needs those before."""

    why = "it shares something with a variable that could not be read"

    def __new__(cls, *_, **__):
        return object.__new__(cls)

    def __init__(self, *_, **__):
        pass

    def __call__(self, *_, **__):
        return self

    append = extend = add = __setitem__ = __setstate__ = __call__


def make_unpickler_class(namespace, same_code, missing):
    """The class of unpicklers for variables. Without same_code another Python compiled the functions of cells."""
    import pickle

    class Unpickler(pickle.Unpickler):
        persistent = ()

        def persistent_load(self, number):
            return self.persistent[number]

        def find_class(self, module, name):
            if module == "__main__" and name.partition(".")[0] not in namespace:
                return missing("it needs %s, which is not there" % name)
            if module.partition(".")[0] == "cloudpickle":
                if not same_code and name in ("_make_function", "_function_setstate", "_builtin_type"):
                    return missing("it has a function that another Python has compiled", "python")
                load_cloudpickle()
            try:
                return super().find_class(module, name)
            except TimeUp:
                raise
            except BaseException as e:
                return missing("it needs %s.%s (%s)" % (module, name, text_of(e)), module.partition(".")[0])

    return Unpickler
