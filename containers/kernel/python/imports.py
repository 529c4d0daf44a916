"""Imports without their pitfalls: installed packages, torn imports, changes of imported modules."""

import _thread
import functools
import os
import sys
from _frozen_importlib_external import PathFinder  # the same as importlib.machinery's, without a file

# The folders of the interpreter and its packages; code of the user's own is elsewhere.
OWN = os.path.dirname(os.path.abspath(__file__)) + "/"  # where the kernel's own files are
OWN_LIB = os.path.join(os.path.dirname(OWN[:-1]), "lib", "python") + "/"  # and those that code imports
PACKAGES = ("/site-packages/", "/dist-packages/")
STDLIB = os.path.dirname(os.__file__) + "/"
INSTALLED = (*PACKAGES, STDLIB)


def is_installed(path):
    return any(part in path for part in INSTALLED)


def is_stdlib(path):
    return path.startswith((STDLIB, "<frozen ")) and not any(part in path for part in PACKAGES)


def has_module(name):
    """Whether a top-level package is installed, without the cost of importing importlib.util."""
    return any(os.path.isdir(os.path.join(entry, name)) for entry in sys.path if entry)


def import_quietly(name):
    """Imports a module; one that is missing or broken says so to the code that imports it."""
    try:
        __import__(name)
    except Exception:
        pass


def is_in_cwd(name):
    """Whether a kernel, which looks into the current folder first, would take the module from there."""
    top = name.partition(".")[0]
    return os.path.isdir(top) or os.path.exists(top + ".py")


def forget_torn():
    """Forgets the modules whose package an interrupt tore out of its import.

    Python forgets the package itself, but not its submodules imported by then. The next import would take
    those for done, and never give the package their names. Packages with extension modules stay as they are:
    those cannot be loaded twice, and refer to the first modules.
    """
    torn = {}
    for name, module in list(sys.modules.items()):
        above = name.rpartition(".")[0]
        while above and above in sys.modules:
            above = above.rpartition(".")[0]
        if above:
            torn.setdefault(name.partition(".")[0], {})[name] = str(getattr(module, "__file__", None) or ".py")
    for files in torn.values():
        if all(file.endswith(".py") for file in files.values()):
            for name in files:
                sys.modules.pop(name, None)


_own = {}  # the kernel's own modules
_seldom = _thread.RLock()  # threads that import some at once would take each other's out of sys.modules


def hide_own():
    """Takes the kernel's own modules out of sys.modules: the user's may bear the same names."""
    for name, module in list(sys.modules.items()):
        if name != "__main__" and str(getattr(module, "__file__", "")).startswith(OWN):
            _own[name] = sys.modules.pop(name)


def import_seldom(name):
    """Imports a file of the kernel's own that few runs need: to compile it takes milliseconds."""
    with _seldom:
        return _own[name] if name in _own else _import_own(name)


def _import_own(name):
    own = {file.partition(".")[0] for file in os.listdir(OWN)}
    users = {name: sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] in own}
    sys.modules.update(_own)
    sys.path.insert(0, OWN)
    try:
        with own_imports:
            __import__(name)
    finally:
        sys.path.remove(OWN)
        hide_own()
        sys.modules.update(users)
    return _own[name]


class OwnImports:
    """Keeps files of the user's out of the kernel's own imports: a string.py of theirs is no part of IPython.

    It is a finder, to stand before the one that looks along sys.path, and a context in which the calling
    thread's imports pass over the current folder.
    """

    def __init__(self):
        self.threads = []  # each as often as it is inside

    def install(self):
        sys.meta_path.insert(sys.meta_path.index(PathFinder) if PathFinder in sys.meta_path else 0, self)

    def __enter__(self):
        self.threads.append(_thread.get_ident())

    def __exit__(self, *_):
        self.threads.remove(_thread.get_ident())

    def find_spec(self, name, path=None, target=None):
        if path is not None or _thread.get_ident() not in self.threads:
            return None
        return PathFinder.find_spec(name, [entry for entry in sys.path if entry])


own_imports = OwnImports()


def load_as_script(load, module):
    """Loads a module as if __main__ had a file: without one, as in a notebook, somebody watches."""
    names = vars(sys.modules["__main__"])
    is_own = "__file__" not in names
    names.setdefault("__file__", "")
    try:
        load(module)
    finally:
        if is_own:
            names.pop("__file__", None)


class ImportHook:
    """Changes modules as soon as code imports them.

    It is a finder that only wraps the loaders of modules with a change, so it imports nothing before the code
    does.
    """

    def __init__(self, changes, with_bars=()):
        self.changes = changes
        self.with_bars = with_bars  # modules that draw progress bars for people, which they look for when they are imported

    def add(self, name, change):
        """One more change, behind the one that there is."""
        first = self.changes.get(name)
        self.changes[name] = change if first is None else lambda module: (first(module), change(module))

    def find_spec(self, name, path=None, target=None):
        if name not in self.changes:
            return None
        for finder in sys.meta_path[sys.meta_path.index(self) + 1 :]:
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                break
        else:
            return None
        load = getattr(spec.loader, "exec_module", None)
        if load is not None:
            spec.loader.exec_module = functools.partial(self._load, load)
        return spec

    def _load(self, load, module):
        if module.__name__ in self.with_bars:
            load = functools.partial(load_as_script, load)
        load(module)
        try:
            self.changes[module.__name__](module)
        except Exception:  # a file of the user's bears that name, or another version differs inside
            pass
