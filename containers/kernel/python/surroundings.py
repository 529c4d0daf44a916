"""What code changes besides its variables: random states, warnings, the environment. It is looked at before the first run."""

import os
import sys

_STATES = {"random": ("random", "getstate"), "numpy": ("numpy.random", "get_state")}


def look_around():
    return {
        "environ": dict(os.environ),
        "path": sys.path[:],
        "folder": _current_folder(),
        "warnings": list(getattr(sys.modules.get("warnings"), "filters", ())),
        **{name: _random_state(name) for name in _STATES},
    }


def note_random(surroundings, name):
    """Is called when a module has been imported, whose state is a random one then."""
    if surroundings:
        surroundings[name] = _random_state(name)


def _random_state(name):
    module, function = _STATES[name]
    state = getattr(sys.modules.get(module), function, None)
    return state() if state is not None else None


def _current_folder():
    try:
        return os.getcwd()
    except OSError:  # code has removed it
        return ""
