"""Shared by freezing.py and waking.py: a limit of time, and lost variables."""

import signal
import sys
from _frozen_importlib_external import MAGIC_NUMBER

MOST_LOST = 100  # that are named


class TimeUp(BaseException):
    """A step took longer than it may."""


class Limit:
    """Ends a step of the main thread after some time, again and again: the code's own methods may swallow it once."""

    def __init__(self, seconds):
        self.seconds = max(seconds, 0.01)

    def __enter__(self):
        self.before = signal.signal(signal.SIGALRM, self._ring)
        signal.setitimer(signal.ITIMER_REAL, self.seconds, 0.5)

    def __exit__(self, *_):
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self.before)

    @staticmethod
    def _ring(*_):
        raise TimeUp


class Losses:
    """The lost variables, by name with the reason."""

    def __init__(self):
        self.reasons = {}

    def copy(self):
        other = Losses()
        other.reasons.update(self.reasons)
        return other

    def add(self, name, why):
        self.reasons.setdefault(name, why)

    def listed(self):
        return [{"name": name[:200], "why": why[:400]} for name, why in list(self.reasons.items())[:MOST_LOST]]

    def report(self):
        return {"lost": self.listed(), "lost_total": len(self.reasons)}


def code_version():
    """The compiler's version, which decides whether compiled functions run here."""
    return "%s %s" % (sys.implementation.name, MAGIC_NUMBER.hex())


def versions():
    """Those of Python and of the packages that are imported."""
    stdlib = getattr(sys, "stdlib_module_names", ())
    found = {"python": sys.version.split()[0]}
    found.update({
        name: _version_of(name, module)
        for name, module in list(sys.modules.items())
        if "." not in name and name not in stdlib and isinstance(module, type(sys))
    })
    return {name: version for name, version in found.items() if isinstance(version, str) and len(version) < 100}


def _version_of(name, module):
    """The module's object of the name; some make it when asked, from below."""
    below = getattr(sys.modules.get(name + "._version"), "__dict__", {})
    return vars(module).get("__version__") or below.get("version") or below.get("__version__")
