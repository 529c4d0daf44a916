"""Woken modules that are imported when code first uses them: those that kernels import ahead, which takes longest."""

import copyreg
import sys
from importlib import import_module
from types import ModuleType


class LazyModule(ModuleType):
    """Stands for a module in the namespace until something of it is asked for."""

    def __init__(self, name, namespace):
        super().__init__(name)
        ModuleType.__setattr__(self, "namespace", namespace)

    def __getattribute__(self, name):
        return getattr(_resolve(self), name)

    def __setattr__(self, name, value):
        setattr(_resolve(self), name, value)

    def __delattr__(self, name):
        delattr(_resolve(self), name)

    def __dir__(self):
        return dir(_resolve(self))

    def __repr__(self):
        return repr(_resolve(self))


copyreg.pickle(LazyModule, lambda lazy: (import_module, (_own(lazy)["__name__"],)))  # for processes, which are sent it


def _resolve(lazy):
    """The module; once imported it also replaces its stand-in in the namespace."""
    own = _own(lazy)
    if "module" not in own:
        own["module"], namespace = import_module(own["__name__"]), own["namespace"]
        for name, value in list(namespace.items()):
            if value is lazy:
                namespace[name] = own["module"]
    return own["module"]


def _own(lazy):
    return ModuleType.__getattribute__(lazy, "__dict__")


def name_of_module(value):
    """The name by which a module can be imported again; nothing: it is none."""
    if type(value) is LazyModule:
        return _own(value)["__name__"]
    if not issubclass(type(value), ModuleType):
        return ""
    name = value.__dict__.get("__name__")
    return name if sys.modules.get(name) is value else ""
