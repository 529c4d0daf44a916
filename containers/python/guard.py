"""What is done about the limit of the work directory, in runs and between them.

docs/kernel-protocol.md, "The limit of the work directory". How full it is, volume.py tells.
"""

import time

from processes import activity, kill_all, process_table
from volume import SPARE, TICK

# How often a kernel is looked at that no run is in, and that may still fill the work directory.
THREADS_SECONDS = 1  # where it has threads
QUIET_SECONDS = 10  # where it seems to do nothing at all; code can have made it seem so

UNKNOWN = (None, None, None)


class Guard:
    """Stops what takes the work directory over its limit: the run, or what earlier ones have left."""

    def __init__(self, supervisor, volume):
        self.supervisor = supervisor
        self.volume = volume
        self.programs_seen = 0.0  # when programs that runs have left were last found
        self.last_activity = UNKNOWN  # of the main kernel, at the last look without a run
        self.counted_activity = None  # and at the last count

    def refuses_runs(self):
        if not self.volume.refuses_runs():
            return False
        self._look_soon()  # the kernel itself may hold what is too much
        return True

    def begin_run(self):
        """To be called when the run has its kernel already, so that it does not wait."""
        self.volume.begin_run()
        self._look_soon()

    def end_run(self):
        self.volume.end_run()
        self.counted_activity = None
        self._look_soon()

    def _look_soon(self):
        """Looks within a tick; calls that follow each other closely do not put it off."""
        self.supervisor.set_timer_by("volume", TICK, self._look)

    def _look(self):
        counted = self.volume.look()
        run = self.supervisor.run
        if run is None:
            pause = self._look_without_run(counted)
        else:
            pause = TICK
            if counted and run.kernel is not None and self.volume.is_exceeded():
                run.over = run.over or self.volume.describe()
                self.supervisor.interrupt("quota")
        if pause:
            self.supervisor.set_timer("volume", pause, self._look)

    def _look_without_run(self, counted):
        """Stops what fills the work directory between runs; tells when to look again, or None."""
        main = self.supervisor.main
        seen = activity(main.pid) if main is not None else UNKNOWN
        moved, self.last_activity = seen != self.last_activity, seen
        if counted:
            if self.volume.has_grown() or self.volume.is_full():
                self._stop_writers(seen)
            self.counted_activity = seen
        if self._has_programs() or not self.volume.is_settled:
            return TICK
        if main is None:
            return None
        if moved:
            return TICK
        return THREADS_SECONDS if seen[1] != 1 else QUIET_SECONDS

    def _has_programs(self):
        """Whether programs that runs have left still live; they are looked for once a second."""
        now = time.monotonic()
        if now - self.programs_seen < 1:
            return True
        if not self.supervisor.programs(process_table()):
            return False
        self.programs_seen = now
        return True

    def _stop_writers(self, seen):
        """Kills the programs that runs have left, or else the main kernel where its own threads write."""
        main = self.supervisor.main
        if self.supervisor.programs(process_table()):
            self.supervisor.log("warn", "programs that write between runs are killed: %s" % self.volume.describe())
            kill_all(self.supervisor.programs)
        elif main is not None and self._has_written(seen):
            main.fills = True
            self.supervisor.kill_kernel(main)

    def _has_written(self, seen):
        """Whether the main kernel wrote what was added since the last count, or made the files.

        The other language's container may have done it, and every kernel writes a little.
        """
        if self.volume.is_hidden or self.volume.is_full() and self.volume.held_bytes > SPARE[0]:
            return True
        if self.counted_activity is None:
            return False
        cpu, _, written = self.counted_activity
        if self.volume.is_full():
            return cpu != seen[0] and self.volume.is_filled_further()
        grown, more_files = (now - then for now, then in zip(self.volume.level, self.volume.before))
        if written is None or seen[2] is None or more_files > 0:
            return cpu != seen[0]
        return 2 * (seen[2] - written) >= grown
