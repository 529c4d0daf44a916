"""What code has changed besides its variables, to be frozen with them and made again."""

import functools
import os
import sys

from surroundings import look_around


def changes_since(start):
    """What is other than it was before the first run: what code has left alone is the next kernel's own."""
    now = look_around()
    environ = {
        name: now["environ"].get(name)
        for name in {*start["environ"], *now["environ"]}
        if now["environ"].get(name) != start["environ"].get(name)
    }
    path = [(at, entry) for at, entry in enumerate(sys.path) if isinstance(entry, str) and entry not in start["path"]]
    changed = {"environ": environ, "path": path, "matplotlib": _options()}
    for name in ("folder", "warnings", "random", "numpy"):
        if repr(now[name]) != repr(start[name]):
            changed[name] = now[name]
    if "warnings" in changed:
        changed["warnings"] = [(*item[:2], _by_name(item[2]), *item[3:]) for item in changed["warnings"]]
    return {name: value for name, value in changed.items() if value}


def _by_name(category):
    """The place of a package's warning, because to read the class would import the package; any other as it is."""
    module = getattr(category, "__module__", "")
    found = getattr(sys.modules.get(module), getattr(category, "__name__", ""), None)
    return (module, category.__name__) if found is category and module not in ("builtins", "__main__") else category


def _options():
    """What code has set of matplotlib's options. The mapping is read past its own methods: one of them chooses a backend."""
    matplotlib = sys.modules.get("matplotlib")
    try:
        first = matplotlib.rcParamsOrig
        return {
            name: value
            for name, value in dict.items(matplotlib.rcParams)
            if name != "backend" and value != dict.get(first, name)
        }
    except (AttributeError, TypeError, ValueError):
        return {}


def restore(kernel, name, value):
    """Makes one of the changes again; returns why that cannot be, if so."""
    try:
        return _RESTORE[name](kernel, value)
    except Exception as e:
        return "%s: %s" % (type(e).__name__, e)


def _restore_environ(_, changes):
    for name, value in changes.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _restore_path(_, entries):
    for at, entry in entries:
        if entry not in sys.path:
            sys.path.insert(at, entry)


def _restore_folder(_, folder):
    try:
        os.chdir(folder)
    except OSError:
        return "the folder %s is not there any more" % folder


def _restore_random(_, state):
    import random

    random.setstate(state)


def _restore_numpy(_, state):
    import numpy

    numpy.random.set_state(state)


def _restore_warnings(kernel, filters):
    """Sets the filters; one that is about a package's warning when that is imported."""
    import warnings

    def add(item, module):
        warnings.filters.insert(0, (*item[:2], getattr(module, item[2][1]), *item[3:]))

    warnings.resetwarnings()
    for item in reversed(filters):
        if not isinstance(item[2], tuple):
            warnings.filters.insert(0, tuple(item))
        elif item[2][0] in sys.modules:
            add(item, sys.modules[item[2][0]])
        else:
            kernel.import_hook.add(item[2][0], functools.partial(add, item))


def _restore_matplotlib(_, options):
    import matplotlib

    matplotlib.rcParams.update(options)


_RESTORE = {
    "environ": _restore_environ,
    "path": _restore_path,
    "folder": _restore_folder,
    "random": _restore_random,
    "numpy": _restore_numpy,
    "warnings": _restore_warnings,
    "matplotlib": _restore_matplotlib,
}
FIRST = ("environ", "path", "folder")  # which imports depend on
NAMES = {  # of what cannot be restored, to the user
    "environ": "os.environ",
    "path": "sys.path",
    "folder": "the current folder",
    "random": "the state of random",
    "numpy": "the state of numpy.random",
    "warnings": "the filters of warnings",
    "matplotlib": "matplotlib.rcParams",
}
