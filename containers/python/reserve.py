"""What later runs will want, made while nothing else is to do: the zygote, and a kernel that stands by."""

import signal
import socket
import time

from children import KernelProcess, ZygoteProcess
from frames import Lost
from hostile import clean_int
from processes import kill_quietly
from zygote import Zygote

# All of these double with each zygote that was lost, up to 64 times: neither must one that code kills again and
# again eat the time of the runs, nor a slow machine throw away for ever what was almost done.
LOAD_SECONDS = 600
FORK_SECONDS = 10
BACKOFF_SECONDS = 5
DOUBLINGS = 6


class Reserve:
    """The zygote, and the kernel that it has forked for a fresh run or for the time after a kernel's death.

    It is only ever a short cut: where it has no kernel the supervisor forks one. The supervisor is asked to fork
    the zygote and to listen to the kernel, and told when a run that waits for the kernel has waited enough.
    """

    def __init__(self, supervisor):
        self.supervisor = supervisor
        self.kernel = None
        self.zygote = None
        self.is_wanted = False
        self.zygotes_lost = 0
        self.due = 0.0  # when the next zygote may be started

    def want(self):
        self.is_wanted = True
        self.prepare()

    def prepare(self):
        """Makes what is missing: a zygote between runs, a kernel that stands by at any time."""
        if not self.is_wanted:
            return
        if self.zygote is None:
            if self.supervisor.run is not None:
                return
            wait = self.due - time.monotonic()
            if wait > 0:
                self.supervisor.set_timer("zygote due", wait, self.prepare)
            else:
                self._start_zygote()
        elif self.zygote.loaded and self.kernel is None:
            self._order_kernel()

    def take(self):
        """The kernel, or None where it is not ready. The next one is made by `prepare`."""
        if self.kernel is None or not self.kernel.ready:
            return None
        kernel, self.kernel = self.kernel, None
        kill_quietly(kernel.pid, signal.SIGCONT)  # code that has found it may have stopped it
        return kernel

    def is_promising(self):
        """Whether a run does well to wait for the kernel that is not ready."""
        return self.kernel is not None and not self.kernel.late

    def forget_kernel(self):
        """The kernel is dead."""
        self.kernel = None

    def give_up(self):
        """The zygote is stopped, or starved. The kernel may come yet, but no run waits for it again."""
        if self.kernel is not None:
            self.kernel.late = True
        self.supervisor.provide_waiting()

    def on_hello(self, header):
        """The kernel has said that it is there."""
        self.kernel.pid = clean_int(header.get("pid"), None, 2, 1 << 30)
        self.kernel.ready = self.kernel.pid is not None
        self.supervisor.drop_timer("zygote fork")
        if self.kernel.ready:
            self.supervisor.provide_waiting()

    def on_exit(self, pid):
        """A process has ended; it may have been the zygote."""
        if self.zygote is not None and self.zygote.pid == pid:
            self._drop_zygote("it died")

    def zygote_pids(self):
        return set() if self.zygote is None else {self.zygote.pid}

    def zygote_family(self, table):
        """The zygote and its children, also one that it forks just now and whose pid is not known yet."""
        roots = self.zygote_pids()
        return roots | {pid for pid, (parent, _) in table.items() if parent in roots}

    def _start_zygote(self):
        try:
            sock, pid = self.supervisor.fork(lambda fd: Zygote(self.supervisor.settings, fd).serve())
        except OSError as e:
            self._put_off_zygote("it could not be forked: %s" % e.strerror)
            return
        self.zygote = ZygoteProcess(sock, pid)
        self.supervisor.watch(self.zygote.link.fd, self._on_zygote)
        self._limit("zygote load", LOAD_SECONDS, "it did not load in time")

    def _limit(self, name, seconds, why):
        self.supervisor.set_timer(name, self._patience(seconds), lambda: self._drop_zygote(why))

    def _on_zygote(self):
        zygote = self.zygote
        try:
            for header, _ in zygote.link.receive():
                if header.get("type") == "loaded":
                    zygote.loaded = True
                    self.supervisor.drop_timer("zygote load")
                    self.prepare()
                elif header.get("type") == "exit":
                    self.supervisor.on_exit(header.get("pid"), clean_int(header.get("status"), None, 0, 1 << 16))
        except Lost as e:
            self._drop_zygote(str(e))

    def _order_kernel(self):
        ours, theirs = socket.socketpair()
        self.kernel = KernelProcess(ours)
        try:
            self.zygote.link.send({"type": "fork"}, (theirs.fileno(),))
        except Lost as e:
            self._drop_zygote(str(e))
            return
        finally:
            theirs.close()
        self.supervisor.watch_kernel(self.kernel)
        self._limit("zygote fork", FORK_SECONDS, "it did not fork in time")

    def _drop_zygote(self, why):
        zygote, self.zygote = self.zygote, None
        if zygote is None:
            return
        for name in ("zygote load", "zygote fork"):
            self.supervisor.drop_timer(name)
        kill_quietly(zygote.pid, signal.SIGKILL)
        self.supervisor.unwatch(zygote.link.fd)
        zygote.link.close()
        if self.kernel is not None and not self.kernel.ready:
            self._drop_kernel()
        self._put_off_zygote(why)

    def _drop_kernel(self):
        kernel, self.kernel = self.kernel, None
        kernel.ended = True
        self.supervisor.unwatch(kernel.link.fd)
        kernel.link.close()
        self.supervisor.provide_waiting()

    def _put_off_zygote(self, why):
        self.supervisor.log("info", "the zygote was lost: %s" % why)
        wait = self._patience(BACKOFF_SECONDS)
        self.zygotes_lost += 1
        self.due = time.monotonic() + wait
        self.supervisor.set_timer("zygote due", wait, self.prepare)

    def _patience(self, seconds):
        return seconds * 2 ** min(self.zygotes_lost, DOUBLINGS)
