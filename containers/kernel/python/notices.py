"""Warnings and log messages: pages of the same one are reported once, with their number."""

import os
import re
import sys
import time

from imports import OWN, is_installed

MOST_HELD = 1000
COARSE = 5  # the clock of files' times
LOOKED_AT = "<cell>"  # the name of code parsed for a look, and parsed again to run
_LOOKED_AT = (LOOKED_AT, "<>")  # the other is IPython's
# What pandas says of its own readers, of which nothing follows for the data.
_OF_READERS = re.compile(
    "pandas only supports SQLAlchemy connectable|The default engine for reading|Falling back to the 'python' engine|"
    "Workbook contains no default style|(?:Data Validation|Conditional Formatting|Unknown) extension is not supported"
)
_NUMBERS = re.compile(r"\\N\{[^}]*\}|\d+")


class Notices:
    """Holds a run's warnings until its end, when their number is known."""

    def __init__(self, kernel):
        self.kernel = kernel
        self.held = {}
        self.holds = False  # whether a run goes on that can still report them

    def install(self):
        import warnings

        warnings.showwarning = self.show_warning
        os.register_at_fork(after_in_child=self.held.clear)  # the parent reports them

    def show_warning(self, message, category, filename, lineno, file=None, line=None):
        """As warnings.showwarning, which code may replace."""
        import linecache
        import warnings

        if filename in _LOOKED_AT or _OF_READERS.match(str(message)):
            return
        if filename.startswith(OWN) or "/IPython/" in filename:  # at the end of a cell, or beside it
            filename = "<cell %d>" % self.kernel.count
            lineno = len(linecache.getlines(filename))
        text, stream = str(message), file or sys.stderr

        def form(note):
            if category is SyntaxWarning:  # of one line, however often that was compiled
                note = ""
            return warnings.formatwarning(text + note, category, filename, lineno, line)

        if self._can_hold(stream):
            self._hold((category, _NUMBERS.sub("", text)), text, form)
        elif stream is not None:
            try:
                stream.write(form(""))
            except OSError:  # nobody reads it
                pass

    def hook_logging(self, logging):
        """Takes over logged warnings of packages that Python just prints as code set up no logging."""
        emit = logging.StreamHandler.emit

        def emit_or_hold(handler, record):
            of_package = record.levelno >= logging.WARNING and is_installed(record.pathname)
            if not self._can_hold(handler.stream) or not (of_package or handler is logging.lastResort):
                emit(handler, record)
                return
            try:
                text = handler.format(record)
            except Exception:
                handler.handleError(record)
                return
            self._hold(text, text, lambda note: text + note + handler.terminator)

        logging.StreamHandler.emit = emit_or_hold

    def _can_hold(self, stream):
        """Whether output to a stream can wait for the end of the run: code may read a stream of its own before."""
        return self.holds and stream is not None and stream is self.kernel.stderr and self.kernel.in_run()

    def _hold(self, key, text, form):
        if key not in self.held and len(self.held) == MOST_HELD:
            self.report()
        entry = self.held.setdefault(key, [0, form, text, False])
        entry[0] += 1
        entry[3] = entry[3] or text != entry[2]

    def at_end(self, key, form):
        """Writes a form's text at the end of the run: the first form of each key."""
        if self.holds:
            self.held.setdefault(key, [0, form, "", False])

    def begin_run(self):
        self.holds, self.begun = True, time.clock_gettime(COARSE)

    def end_run(self):
        self.holds = False
        self.report()

    def report(self):
        """Writes the held warnings."""
        for key in list(self.held):
            count, form, _, differs = self.held.pop(key)
            note = " (%d times)" % count if count > 1 else ""
            self.kernel.stderr.write(form(note + ", with other numbers" if differs else note))
