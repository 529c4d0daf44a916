"""Reads the file that write.py has written: in a new kernel, before its first run."""

import builtins
import io
import os
import sys
from itertools import islice

from imports import is_in_cwd, own_imports

from .around import FIRST, name_of
from .losses import Limit, Losses, NotKept, TimeUp, code_version, text_of, versions
from .modules import LazyModule
from .pieces import Reader, Unreadable, Writer
from .values import Missing, make_pickler_class, make_unpickler_classes

MOST_CHANGES = 3  # of packages, that are named of a variable
DAMAGED = "the file is damaged"
MOST_COUNTED = 10_000  # variables that there was no time for


class Again(Exception):
    """The variables that may share something with the present one are read once more, by the tolerant unpickler."""


def wake(kernel, message):
    """Reads the variables; the answer to the supervisor."""
    waking = Waking(kernel)
    answer = {"type": "woken", "why": ""}
    try:
        path = os.path.join(kernel.settings.work_dir, message["path"])
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            waking.read(Reader(file), message["seconds"])
    except Unreadable as e:
        answer["why"] = str(e)
    except BaseException as e:  # a method of the code's may raise any
        answer["why"] = text_of(e)
    if answer["why"]:
        waking.forget()
    kernel.namespace["__builtins__"] = builtins  # which cloudpickle sets in another way
    found = {"variables": len(waking.found), "at_ms": waking.at_ms, "doubtful": waking.doubtful.listed()}
    return {**answer, **found, **waking.losses.report()}


class Waking:
    """Reads variables one after the other. Shared objects come by the memo of one unpickler."""

    def __init__(self, kernel):
        self.kernel = kernel
        self.namespace = kernel.namespace
        self.losses = Losses()
        self.doubtful = Losses()  # variables made by another version of a package
        self.found = {}  # names, and whether they may share something with one with a hole
        self.at_ms = 0
        self.lazy = {}  # modules that are not imported yet
        self.later = []  # changes that imports would change again
        self.is_broken = False  # a pickle was damaged, to which the following ones refer
        self.has_missing = False
        self.hole = ""  # why a part of the present variable is not there
        self.unpickler = None
        self.begin = self.again = None  # where the variables begin that share an unpickler, and where those that are read again do

    def read(self, reader, seconds):
        self.reader, listed = reader, {**reader.heading, **reader.listed}
        self.at_ms = whole(listed.get("at_ms"))
        self.packages = dict_of(listed.get("packages"))
        self.made = {package: set(map(str, names)) for package, names in dict_of(listed.get("made")).items() if isinstance(names, list)}
        self.unpicklers = make_unpickler_classes(self.namespace, listed.get("code") == code_version(), self._missing, self._failed)
        try:
            with Limit(0.8 * seconds):
                for entry in reader.entries():
                    self._read_one(entry)
                for name, value in self.later:
                    self._restore(name, value)
        except TimeUp:
            self._lose_rest()
        if self.has_missing:
            self._drop_torn(0.2 * seconds)
        for lost in texts(listed.get("lost"), "name", "why"):
            self.losses.add(*lost)
        for name in listed.get("names") or () if reader.is_damaged else ():
            if name not in self.found:
                self.losses.add(str(name), DAMAGED)
        self._doubt()
        self.kernel.continue_cells(whole(listed.get("count")), listed.get("sources") or {})

    def forget(self):
        """Takes back the restored variables: a damaged file counts for nothing."""
        for name in self.found:
            self.namespace.pop(name, None)
        self.found.clear()

    def _lose_rest(self):
        """Names the variables not read, from the one at the end of the time."""
        self.reader.go_to(self.reader.variable_at)
        for entry in islice(self.reader.entries(), MOST_COUNTED):
            if title_of(entry) not in self.found:
                self._drop(title_of(entry), "there was no time left to read it")

    def _drop(self, name, why):
        self.losses.add(name, why)
        self.found.pop(name, None)
        self.namespace.pop(name, None)

    def _read_one(self, entry):
        name, change, module = entry.get("name"), entry.get("change"), entry.get("module")
        self.hole, self.name = "", name
        try:
            value = self._import(module) if module else self._load(entry)
            if self.hole:
                raise NotKept(self.hole)
        except TimeUp:
            raise
        except Again:
            return
        except Unreadable:
            self.losses.add(title_of(entry), DAMAGED)
            self.reader.is_damaged = self.is_broken = True
            return
        except BaseException as e:
            self.losses.add(title_of(entry), str(e) if isinstance(e, NotKept) else self._unread(e))
            return
        if change in FIRST:
            self._restore(change, value)
        elif change is not None:
            self.later.append((change, value))
        else:
            self.namespace[name] = value
            self.found[name] = self.has_missing and not module

    def _import(self, module):
        from importlib import import_module

        if module in self.kernel.settings.preload and module not in sys.modules and not is_in_cwd(module):
            return self.lazy.setdefault(module, LazyModule(module, self.namespace))
        try:
            return import_module(module)
        except TimeUp:
            raise
        except BaseException as e:
            raise NotKept("%s cannot be imported (%s)" % (module, text_of(e)))

    def _unread(self, error):
        """Why the present variable cannot be made, with the packages of its objects that are other ones now."""
        if isinstance(error, MemoryError):
            return "there is not enough memory"
        if self.has_missing and Missing.__name__ in str(error):
            return Missing.why
        makers = [package for package, names in self.made.items() if self.name in names]
        changes = map(self._change_of, ("python", *makers))
        return "it cannot be made again (%s)%s" % (text_of(error), "".join("; " + change for change in changes if change))

    def _change_of(self, package, parts=None, now=None):
        """The note about another version of a package, or Python, than the snapshot's, by so many parts of the version."""
        then, now = self.packages.get(package), (now or versions()).get(package, "not there")
        if not isinstance(then, str) or then.split(".")[:parts] == now.split(".")[:parts]:
            return ""
        return "%s was %s, and is %s" % (package, then, now)

    def _doubt(self):
        """Notes the variables whose package is another now; a patch of one does not change its pickles."""
        now, changes = versions(), {}
        for package, names in self.made.items():
            change = self._change_of(package, 2, now)
            for name in filter(self.found.__contains__, names if change else ()):
                changes.setdefault(name, []).append(change)
        for name, texts in changes.items():
            self.doubtful.add(name, ", ".join(sorted(texts)[:MOST_CHANGES]))

    def _restore(self, name, value):
        why = self.kernel.around.restore(name, value)
        if why:
            self.losses.add(name_of(name), why)

    # -- pickles

    def _load(self, entry):
        at = self.reader.variable_at
        if entry.get("alone") or self.unpickler is None:
            self.begin, self.is_broken = at, False
            with own_imports:
                self.unpickler = self.unpicklers[at == self.again](io.BufferedReader(self.reader), buffers=self.reader)
        if self.is_broken:
            raise Unreadable(DAMAGED)
        try:
            # Frames are looked through for variables by models with a formula, and for its module by a type alias.
            return eval("_load()", self.namespace, {"_load": self.unpickler.load})
        except (Unreadable, TimeUp):
            raise
        except BaseException:
            if self.begin == self.again:
                raise Unreadable(DAMAGED) from None
            self.again, self.unpickler = self.begin, None
            self.reader.go_to(self.begin)
            raise Again from None

    def _missing(self, why, package=""):
        """The class of what stands for an object that is not there."""
        change = self._change_of(package)
        why += "; " + change if change else ""
        self.has_missing, self.hole = True, self.hole or why
        return type("Missing", (Missing,), {"why": why})

    def _failed(self, error):
        return self._missing(self.hole or self._unread(error))()

    def _drop_torn(self, seconds):
        """Drops variables with a missing part, and those that there is no time to look through."""
        kind, left = make_pickler_class(self.namespace, set()), [name for name, doubtful in self.found.items() if doubtful]
        try:
            with Limit(seconds):
                while left:
                    self._drop_if_torn(left[0], kind)
                    del left[0]
        except TimeUp:
            for name in left:
                self._drop(name, "there was no time left to see whether all of it is there")

    def _drop_if_torn(self, name, kind):
        try:
            kind(Writer()).dump(self.namespace[name])
        except NotKept as e:
            self._drop(name, str(e))
        except TimeUp:
            raise
        except BaseException as e:
            self._drop(name, "a part of it could not be made again (%s)" % text_of(e))


def title_of(entry):
    """The name of a variable, or what people call a change beside them."""
    return name_of(entry["change"]) if "change" in entry else str(entry.get("name"))


def dict_of(value):
    return value if isinstance(value, dict) else {}


def whole(value):
    return value if isinstance(value, int) and 0 <= value < 1 << 62 else 0


def texts(entries, *names):
    """The texts of a list of objects, each with all of them."""
    for entry in entries if isinstance(entries, list) else ():
        found = tuple(entry.get(name) for name in names) if isinstance(entry, dict) else ()
        if found and all(isinstance(text, str) for text in found):
            yield found
