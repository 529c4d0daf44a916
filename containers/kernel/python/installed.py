"""Packages that are installed while the kernel runs: found at once, and told of where an older one stays imported."""

import os
import site
import sys
import time
from _frozen_importlib_external import FileFinder, _get_supported_file_loaders

from imports import PACKAGES


class Installed:
    """The folder that pip installs into (site.USER_SITE), which may not be there yet.

    It is a finder that finds nothing: it notes when a package is imported, because not every one has a version to ask.
    """

    def __init__(self):
        self.folder = site.USER_SITE or ""
        self.stamp = 0
        self.versions = {}  # in the folder at the last look
        self.imported = {}

    def find_spec(self, name, path=None, target=None):
        if path is None:
            self.imported[name] = time.time_ns()

    def enter(self):
        """Makes imports look into the folder before those of the image, as in an interpreter that starts later."""
        self.stamp = self._stamp()
        if self.stamp:
            self.versions = {name: version for _, name, version in self._distributions()}
        if self.folder and self.folder not in sys.path:
            at = next((i for i, entry in enumerate(sys.path) if entry.endswith(tuple(p[:-1] for p in PACKAGES))), len(sys.path))
            sys.path.insert(at, self.folder)
            # Python would remember that there is no such folder, and not look again.
            sys.path_importer_cache[self.folder] = FileFinder(self.folder, *_get_supported_file_loaders())

    def _stamp(self):
        try:
            return os.stat(self.folder).st_mtime_ns
        except OSError:
            return 0

    def changes(self):
        """A line for each imported package with a new version since the last call; None: nothing was installed."""
        stamp = self._stamp()
        if stamp in (self.stamp, 0):
            return None
        since, self.stamp = self.stamp, stamp
        site.addsitedir(self.folder)  # for .pth files
        lines, earlier, self.versions = [], self.versions, {}
        for entry, name, version in self._distributions():
            self.versions[name] = version
            if entry.stat().st_mtime_ns > since:
                lines += self._stale(entry, name, version, earlier.get(name))
        return lines

    def _distributions(self):
        """The installed packages: the describing folder, name and version."""
        with os.scandir(self.folder) as entries:
            for entry in entries:
                if entry.name.endswith(".dist-info"):
                    yield (entry, *entry.name[: -len(".dist-info")].partition("-")[::2])

    def _stale(self, info, name, version, earlier):
        """The imported packages of an earlier version, or of the image's."""
        try:
            with open(os.path.join(info.path, "RECORD"), encoding="utf-8") as record:
                tops = {line.partition(",")[0].partition("/")[0] for line in record}
        except (OSError, UnicodeDecodeError):
            return
        for top in sorted({top[:-3] if top.endswith(".py") else top for top in tops}):
            module = sys.modules.get(top)
            file = getattr(module, "__file__", None)
            if not file or self.imported.get(top, 0) >= info.stat().st_mtime_ns:
                continue
            had = str(getattr(module, "__version__", earlier or version))
            if had != version or not file.startswith(self.folder + os.sep):
                yield "note: %s %s is installed, and %s stays imported%s until a new interpreter starts (fresh: true has one)." % (
                    name, version, top, " as " + had if had != version else "",
                )
