"""How values are kept: picklers that explain each loss, and unpicklers that cost no more than what is lost."""

import sys

from spawning import load_cloudpickle

from .losses import NotKept, TimeUp, text_of
from .reducers import find_reducer


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


def make_unpickler_classes(namespace, same_code, missing, failed):
    """Two classes of unpicklers for variables; the second, written in Python, goes on where a step fails.

    Without same_code another Python compiled the functions of cells. missing and failed return what stands for a lost object.
    """
    import pickle

    class Finder:
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

    class Unpickler(Finder, pickle.Unpickler):
        pass

    class Tolerant(Finder, pickle._Unpickler):
        """Each object that cannot be made is replaced, and all others are made."""

        def _make(self, function, args, kwargs=None, torn=None):
            try:  # called in the namespace, which some look for in the frames before them
                return eval("_make(*_args, **_kwargs)", namespace, {"_make": function, "_args": args, "_kwargs": kwargs or {}})
            except TimeUp:
                raise
            except BaseException as e:
                return self._hole(e, torn)

        def _hole(self, error, torn):
            hole = failed(error)
            for number in reversed(self.memo) if torn is not None else ():  # it is among the last
                if self.memo[number] is torn:
                    self.memo[number] = hole
                    break
            return hole

        def load_reduce(self):
            args, function = self.stack.pop(), self.stack[-1]
            fills = args and str(getattr(function, "__name__", "")).endswith("_setstate")  # what was made before
            self.stack[-1] = self._make(function, args, torn=args[0] if fills else None)

        def load_newobj(self, kwargs=None):
            args, kind = self.stack.pop(), self.stack.pop()
            self.append(self._make(kind.__new__, (kind, *args), kwargs))

        def load_newobj_ex(self):
            self.load_newobj(self.stack.pop())

        def _fill(self, load):
            """A step that changes the object below its operands."""
            try:
                load(self)
            except TimeUp:
                raise
            except BaseException as e:
                self.stack[-1] = self._hole(e, self.stack[-1])

        dispatch = {
            **pickle._Unpickler.dispatch,
            **dict(zip(pickle.REDUCE + pickle.NEWOBJ + pickle.NEWOBJ_EX, (load_reduce, load_newobj, load_newobj_ex))),
        }
        for step in pickle.BUILD + pickle.APPEND + pickle.APPENDS + pickle.SETITEM + pickle.SETITEMS + pickle.ADDITEMS:
            dispatch[step] = lambda self, load=dispatch[step]: self._fill(load)

    return Unpickler, Tolerant
