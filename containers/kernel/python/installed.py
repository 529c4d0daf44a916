"""Packages that are installed while the kernel runs: found at once, and told of where an older one stays imported."""

import os
import site
import sys
from _frozen_importlib_external import FileFinder, _get_supported_file_loaders

from imports import PACKAGES


class Installed:
    """The folder that pip installs into (site.USER_SITE), which may not be there yet."""

    def __init__(self):
        self.folder = site.USER_SITE or ""
        self.stamp = 0

    def enter(self):
        """Has imports look into the folder before those of the image, as an interpreter does that starts later."""
        self.stamp = self._stamp()
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
        """What has been installed since the last call over something that is imported, a line each; None: nothing was."""
        stamp = self._stamp()
        if stamp in (self.stamp, 0):
            return None
        since, self.stamp = self.stamp, stamp
        site.addsitedir(self.folder)  # for .pth files
        lines = []
        with os.scandir(self.folder) as entries:
            for entry in entries:
                if entry.name.endswith(".dist-info") and entry.stat().st_mtime_ns > since:
                    lines += self._stale(entry.path, *entry.name[: -len(".dist-info")].partition("-")[::2])
        return lines

    def _stale(self, info, name, version):
        try:
            with open(os.path.join(info, "RECORD"), encoding="utf-8") as record:
                tops = {line.partition(",")[0].partition("/")[0] for line in record}
        except (OSError, UnicodeDecodeError):
            return
        for top in sorted({top[:-3] if top.endswith(".py") else top for top in tops}):
            module = sys.modules.get(top)
            file = getattr(module, "__file__", None)
            if not file:
                continue
            had = str(getattr(module, "__version__", version))
            if had != version or not file.startswith(self.folder + os.sep):
                yield "note: %s %s is installed, and %s stays imported%s until a new interpreter starts (fresh: true has one)." % (
                    name, version, top, " as " + had if had != version else "",
                )
