"""The state that code changes beside variables: random states, settings of libraries, warnings, the environment. It is looked at before the first run."""

import os
import sys

_UNSET = (0, True, False)  # level, propagate and disabled of a logger that nobody set


def look_around():
    return {
        "environ": dict(os.environ),
        "path": sys.path[:],
        "folder": _current_folder(),
        "warnings": list(getattr(sys.modules.get("warnings"), "filters", ())),
        "pending": {},  # settings of the kernel before, for packages not imported yet
        **{name: _state_of(name) for name in STATES},
    }


def note_state(surroundings, *names):
    """Is called after the import of a module: its state then is the first one."""
    if surroundings:
        surroundings.update((name, _state_of(name)) for name in names)


def _state_of(name):
    module, look = STATES[name]
    try:
        return look(sys.modules[module])
    except Exception:  # it is not imported, or another version looks different inside
        return None


def _current_folder():
    try:
        return os.getcwd()
    except OSError:  # code removed it
        return ""


def _look_at_numpy(numpy):
    return {"print": numpy.get_printoptions(), "err": numpy.geterr()}


def _look_at_pandas(config):
    names = set(config._registered_options) - set(config._deprecated_options)
    return {name: config.get_option(name) for name in names}


def _look_at_altair(altair):
    parts = {name: getattr(altair, name) for name in ALTAIR}
    return {name: (part.active, part.options) for name, part in parts.items()}


def _look_at_bokeh(state):
    return {"theme": state.curstate().document.theme._json}


def _look_at_locale(_):
    import _locale

    return {"all": _locale.setlocale(_locale.LC_ALL)}


def _look_at_loggers(logging):
    states = {name: (logger.level, logger.propagate, logger.disabled) for name, logger in _loggers(logging)}
    return {"": logging.root.manager.disable, **{name: state for name, state in states.items() if state != _UNSET}}


def _look_at_handlers(logging):
    """Those of the root and of the code's own loggers. Those that write to the standard streams can be made again."""

    def described(handler):
        stream = next((name for name in ("stdout", "stderr") if getattr(handler, "stream", None) is getattr(sys, name)), "")
        return (stream, handler.level, handler.formatter) if stream and type(handler) is logging.StreamHandler else handler

    return {
        name: [described(handler) for handler in logger.handlers]
        for name, logger in _loggers(logging)
        if logger.handlers and (name == "__main__" or name.partition(".")[0] not in sys.modules)
    }


def _loggers(logging):
    """All, by their name."""
    loggers = {"root": logging.root, **logging.root.manager.loggerDict}
    return [(name, logger) for name, logger in list(loggers.items()) if isinstance(logger, logging.Logger)]


ALTAIR = ("theme", "data_transformers", "renderers")  # one of each is in force

STATES = {  # the module, and a function that returns its state; settings are a mapping, of which the changed are kept
    "random": ("random", lambda random: random.getstate()),
    "numpy": ("numpy.random", lambda random: random.get_state()),
    "numpy_options": ("numpy", _look_at_numpy),
    "pandas": ("pandas._config.config", _look_at_pandas),
    "sklearn": ("sklearn", lambda sklearn: sklearn.get_config()),
    "polars": ("polars.config", lambda config: {"options": config.Config.save()}),
    "plotly": ("plotly.io._templates", lambda module: {"template": module.templates.default}),
    "plotly_express": ("plotly.express", lambda express: {name: getattr(express.defaults, name) for name in express.defaults.__slots__}),
    "altair": ("altair", _look_at_altair),
    "bokeh": ("bokeh.io.state", _look_at_bokeh),
    "decimal": ("decimal", lambda decimal: {"context": decimal.getcontext().copy()}),
    "locale": ("sys", _look_at_locale),
    "recursion": ("sys", lambda sys: {"limit": sys.getrecursionlimit()}),
    "loggers": ("logging", _look_at_loggers),
    "handlers": ("logging", _look_at_handlers),
}
