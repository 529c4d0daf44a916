"""What code changes besides its variables: random states, warnings, the environment. It is looked at before the first run."""

import os
import sys


def look_around():
    return {
        "environ": dict(os.environ),
        "path": sys.path[:],
        "folder": _current_folder(),
        "random": _random_state("random", "getstate"),
        "numpy": _random_state("numpy.random", "get_state"),
        "warnings": list(getattr(sys.modules.get("warnings"), "filters", ())),
    }


def _current_folder():
    try:
        return os.getcwd()
    except OSError:  # code has removed it
        return ""


def _random_state(module, name):
    state = getattr(sys.modules.get(module), name, None)
    return state() if state is not None else None
