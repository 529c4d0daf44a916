"""The state beside variables: the environment, settings of libraries, random states. What code has changed of it is kept."""

import functools
import os
import sys
import time

FIRST = ("environ", "path", "folder")  # imports depend on them
ALTAIR = ("theme", "data_transformers", "renderers")  # one of each is in force
_UNSET = (0, True, False)  # level, propagate and disabled of a logger that nobody set


class Around:
    """The state of a kernel, and how it was before code changed it: before the first run, or when a module was imported."""

    def __init__(self, import_hook):
        self.import_hook = import_hook
        self.first = {}
        self.folder = ""  # the name of the current one, behind the last run
        self.enters = False  # the kernel is told to enter it once the files are there
        self.pending = {}  # changes of the kernel before, to modules that are not imported yet
        for name, (_, module, _, _) in STATES.items():
            import_hook.add(module, functools.partial(self._note, name))

    def note_folder(self):
        try:
            self.folder = os.readlink("/proc/self/cwd").removesuffix(" (deleted)")
        except OSError:
            pass

    def look(self):
        """Is called before each run; the first time counts."""
        self.first = self.first or {name: _state_of(name) for name in STATES}

    def _note(self, name, _):
        if self.first:
            self.first[name] = _state_of(name)

    def changes(self):
        """What differs, by name. Unchanged settings are the next kernel's own."""
        found = dict(self.pending)
        for name, first in self.first.items():
            now = _state_of(name)
            if name == "path":
                now = [(at, entry) for at, entry in enumerate(now) if isinstance(entry, str) and entry not in first]
            elif isinstance(now, dict):
                keys = {**first, **now} if first is not None else ()
                now = {key: now.get(key) for key in keys if repr(now.get(key)) != repr(first.get(key))}
            elif repr(now) == repr(first):
                continue
            if now:
                found[name] = now
        return found

    def restore(self, name, value):
        """Makes a change again, at the latest when its package is imported; returns why that cannot be, if so."""
        from importlib import import_module

        try:
            _, module, _, act = STATES[name]
            package = module.partition(".")[0]
            if package in sys.modules:
                act(self, import_module(module), value)
            else:
                self.pending[name] = value
                self.import_hook.add(package, lambda _: self.restore(name, self.pending.pop(name)))
            return None
        except Exception as e:
            return "%s: %s" % (type(e).__name__, e)


def name_of(state):
    """What people call it."""
    return STATES[state][0] if state in STATES else str(state)


def _state_of(name):
    _, module, look, _ = STATES[name]
    try:
        return look(sys.modules[module])
    except Exception:  # it is not imported, or another version looks different inside
        return None


# -- of Python


def _set_environ(_, os, changes):
    for name, value in changes.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    if "TZ" in changes:
        time.tzset()


def _set_path(_, sys, entries):
    for at, entry in entries:
        if entry not in sys.path:
            sys.path.insert(at, entry)


def _set_folder(around, os, folder):
    around.folder = folder
    try:
        os.chdir(folder)
    except OSError:
        if not around.enters:
            raise


def _filters(warnings):
    return [(*item[:2], _by_name(item[2]), *item[3:]) for item in warnings.filters]


def _by_name(category):
    """The place of a package's warning, because to read the class would import the package; any other as it is."""
    module = getattr(category, "__module__", "")
    found = getattr(sys.modules.get(module), getattr(category, "__name__", ""), None)
    return (module, category.__name__) if found is category and module not in ("builtins", "__main__") else category


def _set_filters(around, warnings, filters):
    """Sets the filters; one that is about a package's warning when that is imported."""

    def add(item, module):
        warnings.filters.insert(0, (*item[:2], getattr(module, item[2][1]), *item[3:]))

    warnings.resetwarnings()
    for item in reversed(filters):
        if not isinstance(item[2], tuple):
            warnings.filters.insert(0, tuple(item))
        elif item[2][0] in sys.modules:
            add(item, sys.modules[item[2][0]])
        else:
            around.import_hook.add(item[2][0], functools.partial(add, item))


def _locale(_):
    import _locale

    return _locale.setlocale(_locale.LC_ALL)


def _set_locale(_around, _, value):
    import locale

    locale.setlocale(locale.LC_ALL, value)


def _loggers(logging):
    """All, by their name."""
    loggers = {"root": logging.root, **logging.root.manager.loggerDict}
    return [(name, logger) for name, logger in list(loggers.items()) if isinstance(logger, logging.Logger)]


def _levels(logging):
    states = {name: (logger.level, logger.propagate, logger.disabled) for name, logger in _loggers(logging)}
    return {"": logging.root.manager.disable, **{name: state for name, state in states.items() if state != _UNSET}}


def _set_levels(_, logging, states):
    logging.disable(states.pop("", 0))
    for name, state in states.items():
        logger = logging.getLogger(name)
        level, logger.propagate, logger.disabled = state or _UNSET
        logger.setLevel(level)


def _handlers(logging):
    """Those of the root and of the code's own loggers. Those that write to the standard streams can be made again."""

    def described(handler):
        stream = next((name for name in ("stdout", "stderr") if getattr(handler, "stream", None) is getattr(sys, name)), "")
        return (stream, handler.level, handler.formatter) if stream and type(handler) is logging.StreamHandler else handler

    return {
        name: [described(handler) for handler in logger.handlers]
        for name, logger in _loggers(logging)
        if logger.handlers and (name == "__main__" or name.partition(".")[0] not in sys.modules)
    }


def _set_handlers(_, logging, loggers):
    for name, described in loggers.items():
        for stream, level, formatter in described or ():
            handler = logging.StreamHandler(getattr(sys, stream))
            handler.setLevel(level)
            handler.setFormatter(formatter)
            logging.getLogger(name).addHandler(handler)


# -- of libraries


def _set_numpy(_, numpy, options):
    numpy.set_printoptions(**options.get("print", {}))
    numpy.seterr(**options.get("err", {}))


def _pandas(pandas):
    config = pandas._config.config
    names = set(config._registered_options) - set(config._deprecated_options)
    return {name: config.get_option(name) for name in names}


def _set_pandas(_, pandas, options):
    for name, value in options.items():
        pandas.set_option(name, value)


def _set_express(_, express, options):
    for name, value in options.items():
        setattr(express.defaults, name, value)


def _altair(altair):
    parts = {name: getattr(altair, name) for name in ALTAIR}
    return {name: (part.active, part.options) for name, part in parts.items()}


def _set_altair(_, altair, parts):
    for name, (active, options) in parts.items():
        getattr(altair, name).enable(active, **options)


def _set_bokeh(_, io, options):
    from bokeh.themes import Theme

    io.curdoc().theme = Theme(json=options["theme"])


STATES = {  # what people call it, its module, a function that returns it, and one that makes changes again. Of a mapping the changed items are kept
    "environ": ("os.environ", "os", lambda os: dict(os.environ), _set_environ),
    "path": ("sys.path", "sys", lambda sys: sys.path[:], _set_path),
    "folder": ("the current folder", "os", lambda os: os.getcwd(), _set_folder),
    "random": ("the state of random", "random", lambda random: random.getstate(), lambda _, random, state: random.setstate(state)),
    "numpy": ("the state of numpy.random", "numpy.random", lambda random: random.get_state(), lambda _, random, state: random.set_state(state)),
    "warnings": ("the filters of warnings", "warnings", _filters, _set_filters),
    "locale": ("the locale", "sys", _locale, _set_locale),
    "recursion": ("the recursion limit", "sys", lambda sys: sys.getrecursionlimit(), lambda _, sys, limit: sys.setrecursionlimit(limit)),
    "loggers": ("the levels of logging", "logging", _levels, _set_levels),
    "handlers": ("the handlers of logging", "logging", _handlers, _set_handlers),
    "decimal": ("the context of decimal", "decimal", lambda decimal: decimal.getcontext().copy(), lambda _, decimal, it: decimal.setcontext(it)),
    "matplotlib": (
        "matplotlib.rcParams",
        "matplotlib",
        # Read past its own methods: one of them chooses a backend.
        lambda matplotlib: {name: value for name, value in dict.items(matplotlib.rcParams) if name != "backend"},
        lambda _, matplotlib, options: matplotlib.rcParams.update(options),
    ),
    "numpy_options": ("the options of numpy", "numpy", lambda numpy: {"print": numpy.get_printoptions(), "err": numpy.geterr()}, _set_numpy),
    "pandas": ("the options of pandas", "pandas", _pandas, _set_pandas),
    "sklearn": ("the configuration of sklearn", "sklearn", lambda sklearn: sklearn.get_config(), lambda _, sklearn, it: sklearn.set_config(**it)),
    "polars": ("the options of polars", "polars", lambda polars: polars.Config.save(), lambda _, polars, options: polars.Config.load(options)),
    "plotly": (
        "the template of plotly",
        "plotly.io._templates",
        lambda module: module.templates.default,
        lambda _, module, template: setattr(module.templates, "default", template),
    ),
    "plotly_express": (
        "the defaults of plotly.express",
        "plotly.express",
        lambda express: {name: getattr(express.defaults, name) for name in express.defaults.__slots__},
        _set_express,
    ),
    "altair": ("the theme or a transformer of altair", "altair", _altair, _set_altair),
    "bokeh": ("the theme of bokeh", "bokeh.io", lambda io: {"theme": io.curdoc().theme._json}, _set_bokeh),
}
