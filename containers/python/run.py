"""One run, as the supervisor sees it."""

import functools
import time

from hostile import clean_int
from output import Stream
from processes import ticks_now


class Run:
    """One run, from its request to its answer."""

    def __init__(self, message, settings, make_spool):
        self.id = message["id"]
        self.code = message["code"]
        self.fresh = message.get("fresh") is True
        self.timeout = clean_int(message.get("timeout_ms"), 0, 0, 1 << 40) / 1000
        self.grace = clean_int(message.get("grace_ms"), 2000, 0, 1 << 31) / 1000
        self.started = time.monotonic()
        self.started_ticks = ticks_now()
        self.kernel = None
        self.losses = 0  # kernels that died before they began it
        self.before = set()  # the processes that were there when a fresh run began
        self.reason = ""  # why it was interrupted: timed_out, cancelled or quota
        self.over = ""  # how the files were over their limit then
        self.condemned = False  # killed because it ignored that
        self.displays = 0
        self.reported = (0, 0, self.started)  # what the last progress frame told, and when
        self.stdout = Stream(settings.output_bytes, functools.partial(make_spool, self.id, "stdout"))
        self.stderr = Stream(settings.output_bytes, functools.partial(make_spool, self.id, "stderr"))
        self.pipes = {}  # read end: stream

    @property
    def elapsed_ms(self):
        return int((time.monotonic() - self.started) * 1000)
