"""Writes a kernel's variables to a file."""

import io
import os
import time

from variables import user_names

from .around import name_of
from .losses import Limit, Losses, NotKept, TimeUp, code_version, explain, kind_of, text_of, versions
from .modules import name_of_module
from .pieces import VARIABLE, OverLimit, Unwritable, Writer, find_zstd
from .values import make_pickler_class

MOST_SOURCES = 1 << 18  # characters of the cells' own text
MOST_MADE = 1000  # variables that are named of a package
MOST_NAMED = 5000  # variables that are named at the beginning


def freeze(kernel, message):
    """Writes the variables; the answer to the supervisor. The file of before stays until the new one is whole."""
    path = os.path.join(kernel.settings.work_dir, message["path"])
    freezing = Freezing(kernel, message["limit_bytes"], message["seconds"])
    answer = {"type": "frozen", "variables": 0, "bytes": 0, "why": ""}
    try:
        os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
        kernel.data_limit.renew()  # the kernel's own work must not end it
        replace_file(path, freezing.write)
        answer.update(variables=freezing.kept, bytes=freezing.size)
    except OSError as e:
        answer["why"] = "the file cannot be written: %s" % (e.strerror or e)
    except (NotKept, OverLimit) as e:
        answer["why"] = str(e)
    except BaseException as e:  # a method of the code's may raise any
        answer["why"] = "the variables cannot be written: " + text_of(e)
    return {**answer, **freezing.losses.report()}


def replace_file(path, write):
    """A file written beside its target, which it replaces once it is on the disk."""
    part = path + ".new"
    try:
        with open(os.open(part, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException:
        try:
            os.remove(part)
        except OSError:
            pass
        raise
    folder = os.open(os.path.dirname(path), os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


class Freezing:
    """Writes the variables: all by one pickler, so that shared objects stay one; if that fails, each is tried first."""

    def __init__(self, kernel, limit_bytes, seconds):
        self.kernel = kernel
        self.limit_bytes = limit_bytes
        self.begin = time.monotonic()
        self.seconds = seconds
        self.refused = Losses()  # which need not be tried
        self.losses = Losses()
        self.variables = {}
        self.made = {}  # names of variables, by the package of their objects
        self.kept = 0
        self.cells = set()
        self.size = 0

    def left(self, part=1.0):
        """The seconds that are left of a part of the time."""
        return self.begin + part * self.seconds - time.monotonic()

    def _look(self):
        for name in user_names(self.kernel.namespace, self.kernel.hidden_names()):
            value = self.kernel.namespace[name]
            if is_closed_file(value):
                continue
            if kind_of(value):
                self.refused.add(name, kind_of(value))
            else:
                self.variables[name] = value
        self.losses = Losses(self.refused)

    def write(self, file):
        self._look()
        self.make_pickler = make_pickler_class(self.kernel.namespace, self.cells)
        self.writer = Writer(file, self.limit_bytes, find_zstd()[0])
        if not self._write_all():  # its memory is free by now
            self._write_rest(self._try_each())
        self.size = self.writer.size
        if self.variables and not self.kept:
            raise NotKept("none of the variables can be kept")

    def _write_all(self):
        """Writes everything, or nothing and returns False."""
        try:
            with Limit(self.left(0.4)):
                self._begin()
                pickler = self.make_pickler(self.writer)
                for name in self.variables:
                    self._write_one(pickler, name)
                self._end()
            return True
        except Unwritable:
            raise
        except BaseException:
            self.kept = 0
            self.made.clear()
            self.losses = Losses(self.refused)
            self.writer.go_back(0)
            return False

    def _begin(self):
        """Writes changes beside variables, which some variables need at their restore."""
        names = list(self.variables)[:MOST_NAMED]
        self.writer.begin({"names": names, "code": code_version(), "at_ms": int(time.time() * 1000)})
        for name, value in self.kernel.around.changes().items():
            place, pickler = self.writer.place(), self.make_pickler(self.writer)
            try:
                self.writer.put_json(VARIABLE, {"change": name, "alone": True})
                pickler.dump(value)
                self.writer.flush()
            except (Unwritable, OverLimit, TimeUp):
                raise
            except BaseException as e:
                self.writer.go_back(place)
                self.losses.add(name_of(name), explain(e, value, pickler.last))

    def _write_one(self, pickler, name):
        value, entry = self.variables[name], {"name": name}
        module = name_of_module(value)
        if module:
            self.writer.put_json(VARIABLE, {**entry, "module": module})
        else:
            self.writer.put_json(VARIABLE, {**entry, "alone": not pickler.has_begun})
            pickler.has_begun = True
            pickler.met.clear()
            pickler.dump(value)
            self.writer.flush()
            for package in packages_of(pickler.met):
                self.made.setdefault(package, []).append(name)
        self.kept += 1

    def _end(self):
        packages = versions()
        self.writer.end({
            "packages": packages,
            "made": {package: names[-MOST_MADE:] for package, names in self.made.items() if package in packages},
            "count": self.kernel.count,
            "sources": sources_of(self.cells),
            **self.losses.report(),
        })

    def _try_each(self):
        """Notes lost variables; returns the other names with their sizes."""
        sizes = {}
        for name, value in self.variables.items():
            counter = Writer()
            pickler = self.make_pickler(counter)
            try:
                if not name_of_module(value):
                    with Limit(self.left(0.7) / 2):
                        pickler.dump(value)
                sizes[name] = counter.content
            except TimeUp:
                self.losses.add(name, "it takes too long to be written")
            except BaseException as e:
                self.losses.add(name, explain(e, value, pickler.last))
            del pickler  # perhaps large
        return sizes

    def _write_rest(self, sizes):
        """Writes the smallest first, so that where they do not all fit it is the largest that are left out."""
        names, writer = sorted(sizes, key=sizes.get), self.writer
        writer.limit_bytes -= min(self.limit_bytes // 4, 1 << 20)  # for the list at the end
        with Limit(self.left(0.8)):
            self._begin()
        pickler = self.make_pickler(writer)
        for at, name in enumerate(names):
            place = writer.place()
            try:
                with Limit(self.left(0.9)):
                    self._write_one(pickler, name)
            except Unwritable:
                raise
            except (OverLimit, TimeUp) as e:
                writer.go_back(place)
                for rest in names[at:]:
                    self.losses.add(rest, self._no_room(sizes[rest]) if isinstance(e, OverLimit) else "there was no time left")
                break
            except BaseException as e:  # the first time it went well
                writer.go_back(place)
                self.losses.add(name, explain(e, self.variables[name], pickler.last))
                pickler = self.make_pickler(writer)
        writer.limit_bytes = self.limit_bytes
        with Limit(self.left()):
            self._end()

    def _no_room(self, size):
        limit = self.limit_bytes
        words = "%d MiB that may be kept" % (limit >> 20) if limit >= 1 << 20 else "%d bytes that may be kept" % limit
        return "it is larger than the %s" % words if size > limit else "there is no room for it beside the others in the " + words


def is_closed_file(value):
    """Whether it is the closed file behind `with open(...) as file`, which nobody misses."""
    try:
        return issubclass(type(value), (io.TextIOWrapper, io.BufferedReader, io.BufferedWriter)) and value.closed
    except ValueError:  # its buffer was detached
        return True


def packages_of(kinds):
    """The packages whose classes these are, without those whose pickles any version of them reads."""
    places = {str(getattr(kind, "__module__", "")).partition(".")[0] for kind in kinds}
    return places - {"numpy", "builtins", "__main__"}


def sources_of(cells):
    """The text of the cells of kept functions, for tracebacks and inspect."""
    import linecache

    sources, left = {}, MOST_SOURCES
    for name in sorted(cells, key=lambda name: (len(name), name), reverse=True):  # the newest first
        text = "".join(linecache.cache.get(name, (0, None, ()))[2]) if name.startswith("<cell ") else ""
        if text and len(text) <= left:
            sources[name] = text
            left -= len(text)
    return sources
