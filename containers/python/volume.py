"""The limit of the work directory: docs/kernel-protocol.md, "The limit of the work directory"."""

import os
import time

from tree import GONE, Count
from unnamed import Unnamed

TICK = 0.1
SLICE = TICK / 20  # how long is counted in one tick
HASTE = 5  # times longer where the limit may be passed already
RECOUNT_SECONDS = (2, 32)  # between two counts where nothing has moved; longer and longer
SUSPICION_SECONDS = 0.5  # until the next count where a process, or a file, could not be looked at
HIDDEN_SECONDS = 3  # for how long one must be hidden to be believed to hide: a kernel is born so, and files come and go
DOUBTS = 3  # counts in a row that must miss nothing after one that did: some do by chance
SPARE = (1 << 20, 64)  # bytes and files that a run may add which began over the limit
END_SECONDS = 0.25  # for a count that a run's answer waits for
FULL_SECONDS = 5  # for one that shows whether a run may begin at all
FULL = (2, (512 << 20, 10_000))  # times the limit, and bytes and files more than that
FINE = (1 << 20, 64)  # a move of the free space that is too small to count for


class Volume:
    """How full the work directory is, known from the free space of the file system and from counts.

    `look` is called at every tick while something may write, and counts for a part of it where
    that is due. Levels are (bytes, files). Far over the limit it is full, by what is on the disk: runs
    that begin over the limit fill the holes of files, or each adds a little. `pids` tells the processes
    that may hold files open which have no name any more: those take room too.
    """

    def __init__(self, dir_fd, most_bytes, most_files, pids=tuple):
        self.dir_fd = dir_fd
        self.pids = pids
        self.most = (most_bytes or float("inf"), most_files or float("inf"))
        self.full = tuple(FULL[0] * most + more for most, more in zip(self.most, FULL[1]))
        self.level = None  # by the last count that is over
        self.disk_bytes = 0  # by the same: what counts for being full
        self.held_bytes = 0  # by the same: of files without a name
        self.base = None  # where the run began over the limit: the level then
        self.base_due = False
        self.is_hidden = False  # whether a process has hidden its files from the last counts
        self.hidden = {}  # the processes that the last count could not look at, and since when
        self.sure = None  # level, bytes on the disk and free space by the last count that left no doubt
        self.doubts = 0  # how many counts in a row must still miss nothing
        self.doubted_since = 0.0
        self.is_guess = False  # whether the level is by the free space, because of doubts
        self.before = None  # the level before the last, where no run has been between the two
        self.disk_before = 0  # by the same
        self.is_first = True  # whether no count has been made since a run began or ended
        self.count = None  # one that goes on
        self.free = self.counted_free = (0, 0)  # when the count began, and when the last one did
        self.due = 0.0
        self.pause = RECOUNT_SECONDS[0]

    def begin_run(self):
        """To be called when the run has its kernel already, so that it does not wait."""
        self._turn_over()
        self.base = None
        # Others may have written since the last count, or deleted what was too much.
        self.base_due = self.level is None or self.is_over() or self._has_moved(self.counted_free)
        if self.base_due:
            self._begin_count()
            self.look()

    def end_run(self):
        """What the run has left is counted once, in the time after it."""
        self._turn_over()
        self.base_due = False
        self._begin_count()

    def refuses_runs(self):
        """Whether it is full, so that no code may run."""
        if self.level is None:
            return self._count_now(END_SECONDS) and self.is_full()
        room = zip((self.disk_bytes, self.level[1]), self.counted_free, self._read_free(), self.full)
        if not self.is_full() and all(n + was - free <= full for n, was, free, full in room):
            return False
        return not self._count_now(FULL_SECONDS) or self.is_full()

    def is_exceeded_at_end(self, changed):
        """Whether the run, which is over, has taken it over the limit since the last count.

        `changed` is the (bytes, files) that the run is known to have changed.
        """
        if self.level is None or self.base_due:
            return False
        allowed = self.most if self.base is None else [n + spare for n, spare in zip(self.base, SPARE)]
        taken = [was - free for was, free in zip(self.counted_free, self._read_free())]
        if all(n + max(known, took) <= most for n, known, took, most in zip(self.level, changed, taken, allowed)):
            return False
        return self._count_now(END_SECONDS) and self.is_exceeded()

    def leave(self):
        """In a forked child: lets go of the descriptors of a count."""
        if self.count is not None:
            self.count.stop()

    def _turn_over(self):
        self.before, self.is_first = None, True
        self.due, self.pause = 0.0, RECOUNT_SECONDS[0]

    @property
    def is_settled(self):
        """Whether nothing is left to count, or to count again."""
        return self.count is None and not self.doubts

    def look(self):
        """Counts for a while where that is due; tells whether a count has come to its end."""
        if self.count is None:
            if time.monotonic() < self.due and not self._has_moved(self.counted_free):
                return False
            self._begin_count()
        try:
            patience = SLICE * HASTE if self._may_be_over() else SLICE
            if not self._step(patience):
                return False
        except OSError:  # there is no work directory any more
            self.count = None
            return False
        self._end_count()
        return True

    def is_over(self):
        return self.is_hidden or self.level[0] > self.most[0] or self.level[1] > self.most[1]

    def is_full(self):
        return self.disk_bytes > self.full[0] or self.level[1] > self.full[1]

    def is_exceeded(self):
        """Whether the run that goes on is to blame, by the last count."""
        if not self.is_over():
            return False
        if self.base is None or self.is_hidden or self.is_full():
            return True
        return any(now - then > spare for now, then, spare in zip(self.level, self.base, SPARE))

    def has_grown(self):
        """Whether more was added over the limit since the count before, with no run in between."""
        return self.is_hidden or self.is_over() and self.before is not None and any(n > b for n, b in zip(self.level, self.before))

    def is_filled_further(self):
        """Whether more was added on the disk, or files, since the count before, with no run in between."""
        return self.before is not None and (self.disk_bytes > self.disk_before or self.level[1] > self.before[1])

    def describe(self):
        if self.is_hidden:
            return "a program hides its open files, so what the work directory holds cannot be counted"
        if self.is_guess:
            return "folders are moved or locked, or open files sent on, all the time, so what the work directory holds cannot be counted"
        limits = ["%d %s" % (most, unit) for most, unit in zip(self.most, ("bytes", "files")) if most != float("inf")]
        return "the work directory holds %d bytes in %d files; it may hold %s" % (*self.level, " and ".join(limits))

    def _count_now(self, seconds):
        """Counts all of it; tells whether that took no longer."""
        self._begin_count()
        try:
            done = self._step(seconds)
        except OSError:  # there is no work directory any more
            self.count, done = None, False
        if done:
            self._end_count()
        return done

    def _step(self, seconds):
        """Counts for so long; tells whether that was the end. What does not let itself be read is missed, not empty."""
        try:
            return self.count.step(time.monotonic() + seconds)
        except OSError as e:
            if e.errno in GONE:
                raise
            self.count.tree.complete = False
            return True

    def _begin_count(self):
        if self.count is not None:
            self.count.stop()
        self.count = Count(self.dir_fd, entries=None, unlock=True)
        self.free = self._read_free()

    def _end_count(self):
        count, self.count = self.count, None
        unnamed = Unnamed(self.dir_fd, self.pids())
        self.held_bytes = unnamed.bytes
        self.disk_before = self.disk_bytes
        self.disk_bytes = count.disk_bytes + unnamed.disk_bytes
        now = time.monotonic()
        self.hidden = {pid: self.hidden.get(pid, now) for pid in unnamed.hidden}
        self.is_hidden = any(now - since >= HIDDEN_SECONDS for since in self.hidden.values())
        has_missed = count.missed or not count.complete or not unnamed.is_sure
        level = self._with_missed(has_missed, (count.bytes + self.held_bytes, count.files), now)
        self.pause = RECOUNT_SECONDS[0] if level != self.level else min(2 * self.pause, RECOUNT_SECONDS[1])
        self.due = time.monotonic() + (SUSPICION_SECONDS if self.hidden or self.doubts else self.pause)
        self.before = None if self.is_first else self.level
        self.level, self.is_first = level, False
        self.counted_free = self.free
        if self.base_due:
            self.base_due = False
            self.base = level if self.is_over() else None

    def _with_missed(self, has_missed, level, now):
        """The level with what counts have missed for long.

        What is renamed for ever is not found under the name that was listed, what is locked for ever
        cannot be looked into, and what is on its way for ever is open nowhere. The free space tells of it.
        """
        if has_missed:
            self.doubted_since = self.doubted_since if self.doubts else now
            self.doubts = DOUBTS
        elif self.doubts:
            self.doubts -= 1
        if self.sure is None or not self.doubts:
            self.sure = level, self.disk_bytes, self.free
        self.is_guess = self.doubts > 0 and now - self.doubted_since >= HIDDEN_SECONDS
        if not self.is_guess:
            return level
        sure, disk_bytes, was = self.sure
        taken = [then - free for then, free in zip(was, self._read_free())]
        self.disk_bytes = max(self.disk_bytes, disk_bytes + taken[0])
        return tuple(max(found, known + more) for found, known, more in zip(level, sure, taken))

    def _read_free(self):
        try:
            info = os.fstatvfs(self.dir_fd)
        except OSError:
            return (0, 0)
        # How many files there could be is no fixed number everywhere; minus those that there are is.
        return (info.f_bfree * info.f_frsize, info.f_ffree - info.f_files)

    def _may_be_over(self):
        """Whether it is if all that has gone from the free space since the last count is ours."""
        if self.level is None:
            return False
        return any(n + was - free > most for n, was, free, most in zip(self.level, self.counted_free, self._read_free(), self.most))

    def _has_moved(self, since):
        """Whether the free space has changed by more than a part of what is left to the limit."""
        if self.level is None:
            return True
        for free, was, most, level, fine in zip(self._read_free(), since, self.most, self.level, FINE):
            if most != float("inf") and abs(free - was) > max(fine, (most - level) / 4):
                return True
        return False
