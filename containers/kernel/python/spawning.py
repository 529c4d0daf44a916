"""Gives the definitions of cells to processes that multiprocessing starts anew.

Such a process runs a script once more for its functions. Cells cannot be run again, so it gets
their definitions by value.
"""

import os
import sys
from types import FunctionType

from imports import own_imports

_LOAD = """
import os, pickle, sys
os.chdir(folder)
sys.path[:] = path
vars(sys.modules["__main__"]).update(pickle.loads(pickled))
"""


class Definitions:
    """Pickles as a call that makes the functions and classes of __main__ where it is unpickled."""

    def __init__(self, namespace, path):
        self.namespace = namespace
        self.path = path

    def __reduce__(self):
        path, pickled = [*self.path, cloudpickle_folder()], dump_definitions(self.namespace)
        return exec, (_LOAD, {"folder": os.getcwd(), "path": path, "pickled": pickled})


def cloudpickle_folder():
    """Where cloudpickle is: in a place of its own, or in joblib, which takes long to import."""
    from importlib.util import find_spec

    for package, folder in (("cloudpickle", ".."), ("joblib", "externals")):
        for place in getattr(find_spec(package), "submodule_search_locations", None) or ():
            return os.path.normpath(os.path.join(place, folder))
    return os.devnull  # nothing is in there


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


def dump_definitions(namespace):
    import pickle

    dumps = getattr(load_cloudpickle(), "dumps", None)
    if dumps is None:
        return pickle.dumps({})
    found = {
        name: value for name, value in dict(namespace).items()
        if isinstance(value, (FunctionType, type)) and value.__module__ == "__main__"
    }
    try:
        return dumps(found)  # at once, so that shared objects stay one
    except Exception:
        return dumps({name: value for name, value in found.items() if can_dump(dumps, value)})


def can_dump(dumps, value):
    try:
        dumps(value)
    except Exception:  # it holds a lock, a pool, an open file
        return False
    return True


def hook_spawn(spawn, namespace):
    prepare = spawn.get_preparation_data

    def get_preparation_data(name):
        path = [entry or os.getcwd() for entry in sys.path]
        return {**prepare(name), "sys_path": path, "definitions": Definitions(namespace, path)}

    spawn.get_preparation_data = get_preparation_data
