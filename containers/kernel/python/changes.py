"""The changes of code beside variables, for the snapshot and its restore."""

import functools
import os
import sys
import time

from surroundings import STATES, look_around


def changes_since(start):
    """The differences from before the first run: unchanged settings are the next kernel's own."""
    now = look_around()
    environ = {
        name: now["environ"].get(name)
        for name in {*start["environ"], *now["environ"]}
        if now["environ"].get(name) != start["environ"].get(name)
    }
    path = [(at, entry) for at, entry in enumerate(sys.path) if isinstance(entry, str) and entry not in start["path"]]
    changed = {**start["pending"], "environ": environ, "path": path, "matplotlib": _options()}
    for name in ("folder", "warnings", *STATES):
        if isinstance(now[name], dict):
            changed[name] = _other_items(now[name], start[name])
        elif repr(now[name]) != repr(start[name]):
            changed[name] = now[name]
    if "warnings" in changed:
        changed["warnings"] = [(*item[:2], _by_name(item[2]), *item[3:]) for item in changed["warnings"]]
    return {name: value for name, value in changed.items() if value}


def _other_items(now, first):
    """The changed settings; none if their first values are unknown."""
    return {key: value for key, value in now.items() if first is not None and repr(value) != repr(first.get(key))}


def _by_name(category):
    """The place of a package's warning, because to read the class would import the package; any other as it is."""
    module = getattr(category, "__module__", "")
    found = getattr(sys.modules.get(module), getattr(category, "__name__", ""), None)
    return (module, category.__name__) if found is category and module not in ("builtins", "__main__") else category


def _options():
    """The options of matplotlib that code set. The mapping is read past its own methods: one of them chooses a backend."""
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
    """Makes one of the changes again, settings of a package when that is imported; returns why that cannot be, if so."""
    package = STATES[name][0].partition(".")[0] if name in _SETTINGS else "sys"
    if package not in sys.modules:
        kernel.surroundings["pending"][name] = value
        kernel.import_hook.add(package, lambda _: restore(kernel, name, kernel.surroundings["pending"].pop(name)))
        return None
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
    if "TZ" in changes:
        time.tzset()


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


def _restore_numpy_options(_, options):
    import numpy

    numpy.set_printoptions(**options.get("print", {}))
    numpy.seterr(**options.get("err", {}))


def _restore_pandas(_, options):
    import pandas

    for name, value in options.items():
        pandas.set_option(name, value)


def _restore_sklearn(_, options):
    import sklearn

    sklearn.set_config(**options)


def _restore_polars(_, options):
    import polars

    polars.Config.load(options["options"])


def _restore_plotly(_, options):
    from plotly import io

    io.templates.default = options["template"]


def _restore_express(_, options):
    from plotly import express

    for name, value in options.items():
        setattr(express.defaults, name, value)


def _restore_altair(_, parts):
    import altair

    for name, (active, options) in parts.items():
        getattr(altair, name).enable(active, **options)


def _restore_bokeh(_, options):
    from bokeh.io import curdoc
    from bokeh.themes import Theme

    curdoc().theme = Theme(json=options["theme"])


def _restore_decimal(_, options):
    import decimal

    decimal.setcontext(options["context"])


def _restore_locale(_, options):
    import locale

    locale.setlocale(locale.LC_ALL, options["all"])


def _restore_loggers(_, states):
    import logging

    logging.disable(states.pop("", 0))
    for name, (level, propagate, disabled) in states.items():
        logger = logging.getLogger(name)
        logger.setLevel(level)
        logger.propagate, logger.disabled = propagate, disabled


def _restore_handlers(_, loggers):
    import logging

    for name, described in loggers.items():
        for stream, level, formatter in described:
            handler = logging.StreamHandler(getattr(sys, stream))
            handler.setLevel(level)
            handler.setFormatter(formatter)
            logging.getLogger(name).addHandler(handler)


_RESTORE = {
    "environ": _restore_environ,
    "path": _restore_path,
    "folder": _restore_folder,
    "random": _restore_random,
    "numpy": _restore_numpy,
    "warnings": _restore_warnings,
    "matplotlib": _restore_matplotlib,
    "numpy_options": _restore_numpy_options,
    "pandas": _restore_pandas,
    "sklearn": _restore_sklearn,
    "polars": _restore_polars,
    "plotly": _restore_plotly,
    "plotly_express": _restore_express,
    "altair": _restore_altair,
    "bokeh": _restore_bokeh,
    "decimal": _restore_decimal,
    "locale": _restore_locale,
    "recursion": lambda _, options: sys.setrecursionlimit(options["limit"]),
    "loggers": _restore_loggers,
    "handlers": _restore_handlers,
}
_SETTINGS = ("numpy_options", "pandas", "sklearn", "polars", "plotly", "plotly_express", "altair", "bokeh", "decimal")  # applied once their package is imported
FIRST = ("environ", "path", "folder")  # imports depend on them
NAMES = {  # shown to the user for a failed restore
    "environ": "os.environ",
    "path": "sys.path",
    "folder": "the current folder",
    "random": "the state of random",
    "numpy": "the state of numpy.random",
    "warnings": "the filters of warnings",
    "matplotlib": "matplotlib.rcParams",
    "numpy_options": "the options of numpy",
    "pandas": "the options of pandas",
    "sklearn": "the configuration of sklearn",
    "polars": "the options of polars",
    "plotly": "the template of plotly",
    "plotly_express": "the defaults of plotly.express",
    "altair": "the theme or a transformer of altair",
    "bokeh": "the theme of bokeh",
    "decimal": "the context of decimal",
    "locale": "the locale",
    "recursion": "the recursion limit",
    "loggers": "the levels of logging",
    "handlers": "the handlers of logging",
}
