"""Restores the snapshot of freezing.py: in a new kernel, before its first run."""

import builtins
import io
import os
import sys
from itertools import islice

from changes import FIRST, NAMES, restore
from frozen import Limit, Losses, TimeUp, code_version, versions
from imports import import_seldom, is_in_cwd, own_imports
from lazy import LazyModule
from pickled import Missing, NotKept, make_pickler_class, make_unpickler_class, text_of
from pieces import Reader, Unreadable, Writer

MOST_CHANGES = 3  # of packages, that are named of a variable
MOST_COUNTED = 10_000  # variables that there was no time for


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
        self.has_missing = False
        self.hole = ""  # why a part of the present variable is not there
        self.unpickler = None
        self.memoized = 0  # how much the unpickler's memo had at the place up to which that was counted
        self.counted = 0

    def read(self, reader, seconds):
        self.reader, listed = reader, reader.listed
        self.at_ms = whole(listed.get("at_ms"))
        self.packages = dict_of(listed.get("packages"))
        self.made = {package: set(map(str, names)) for package, names in dict_of(listed.get("made")).items() if isinstance(names, list)}
        self.has_same_code = listed.get("code") == code_version()
        try:
            with Limit(0.8 * seconds):
                for entry in iter(reader.next_variable, None):
                    self._read_one(entry)
                for name, value in self.later:
                    self._restore(name, value)
        except TimeUp:
            self._lose_rest()
        if self.has_missing:
            self._drop_torn(0.2 * seconds)
        for lost in texts(listed.get("lost"), "name", "why"):
            self.losses.add(*lost)
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
        for entry in islice(iter(self.reader.next_variable, None), MOST_COUNTED):
            name = NAMES.get(entry.get("change")) or str(entry.get("name"))
            if name not in self.found:
                self._drop(name, "there was no time left to read it")

    def _drop(self, name, why):
        self.losses.add(name, why)
        self.found.pop(name, None)
        self.namespace.pop(name, None)

    def _read_one(self, entry):
        name, change, module = entry.get("name"), entry.get("change"), entry.get("module")
        self.hole = ""
        try:
            value = self._import(module) if module else self._load(entry)
            if self.hole:
                raise NotKept(self.hole)
        except (Unreadable, TimeUp):
            raise
        except BaseException as e:
            self.losses.add(NAMES.get(change) or str(name), str(e) if isinstance(e, NotKept) else self._unread(name, e))
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

    def _unread(self, name, error):
        if isinstance(error, MemoryError):
            return "there is not enough memory"
        if self.has_missing and Missing.__name__ in str(error):
            return Missing.why
        changes = map(self._change_of, ("python", *self._makers_of(name)))
        return "it cannot be made again (%s)%s" % (text_of(error), "".join("; " + change for change in changes if change))

    def _makers_of(self, name):
        """The packages of a variable's objects."""
        return [package for package, names in self.made.items() if name in names]

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
        why = restore(self.kernel, name, value)
        if why:
            self.losses.add(NAMES.get(name, str(name)), why)

    # -- pickles

    def _load(self, entry):
        if entry.get("alone") or self.unpickler is None:
            self.unpickler = self._new_unpickler()
            self.memoized, self.counted = 0, self.reader.variable_at
        at = self.reader.variable_at
        try:
            # Frames are looked through for variables by models with a formula, and for its module by a type alias.
            return eval("_load()", self.namespace, {"_load": self.unpickler.load})
        except (Unreadable, TimeUp):
            raise
        except BaseException:
            hole = self.hole
            self._pass_over(at)
            if hole:
                raise NotKept(hole) from None
            raise

    def _new_unpickler(self):
        with own_imports:
            kind = make_unpickler_class(self.namespace, self.has_same_code, self._missing)
        return kind(io.BufferedReader(self.reader), buffers=self.reader)

    def _missing(self, why, package=""):
        change = self._change_of(package)
        why += "; " + change if change else ""
        self.has_missing, self.hole = True, self.hole or why
        return type("Missing", (Missing,), {"why": why})

    def _pass_over(self, at):
        """Goes on behind the variable that begins there, with a memo as if that had been read."""
        torn = import_seldom("torn")  # which imports pickletools
        reader, memo, count = self.reader, self.unpickler.memo.copy(), self.memoized
        reader.skips_buffers = True
        reader.go_to(self.counted)
        try:
            while True:
                entry = reader.next_variable()
                if reader.variable_at == at:
                    break
                if not entry.get("module"):
                    count += torn.count_memoized(io.BufferedReader(reader))
            values = [memo.get(i) for i in range(count)]
            hole = self._missing(Missing.why)()
            torn.add_memoized(io.BufferedReader(reader), values, self.unpickler.find_class, hole)
        except Exception:
            raise Unreadable("it was changed") from None
        finally:
            reader.skips_buffers = False
        self.memoized, self.counted = len(values), reader.place()
        reader.go_to(self.counted)
        self._fill_memo(values)

    def _fill_memo(self, values):
        """Gives a new unpickler this memo, by a pickle: its attribute for that refuses them."""
        self.unpickler = self._new_unpickler()
        self.unpickler.persistent = values
        steps = (b"J%sQ\x940" % i.to_bytes(4, "little") for i in range(len(values)))  # the i-th is made, memoized, dropped
        self.reader.left = memoryview(b"".join((*steps, b"N.")))
        self.unpickler.load()

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
