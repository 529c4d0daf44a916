"""The zygote: a process from which kernels are forked, which imports everything once it is asked to."""

import gc
import os
import signal

from prctl import set_dumpable
from wire import Link


class Zygote:
    """Forks a kernel for each `fork` that comes with a socket."""

    def __init__(self, kernel, link):
        self.kernel = kernel
        self.link = link

    def serve(self):
        """Returns only in a kernel that was forked, with the link of that."""
        set_dumpable(False)
        self._be_ready()
        while True:
            message = self.link.next()
            if message.get("type") == "bind":
                self.kernel.settings.set_environment(message)
            elif message.get("type") == "load":
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # what imports start is theirs
                self.kernel.load()
                self._be_ready()
            if not self.link.fds:  # none was left to receive it with
                continue
            fd = self.link.fds.pop(0)
            try:
                if self._fork() == 0:
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    set_dumpable(True)
                    self.link.close()
                    return Link(fd)
            except OSError:  # no process is left; the supervisor sees the end of the socket
                pass
            os.close(fd)

    def _be_ready(self):
        gc.collect()
        gc.freeze()
        signal.signal(signal.SIGCHLD, self._report_ends)
        self._report_ends()
        self.link.send({"type": "loaded"})

    @staticmethod
    def _fork():
        import warnings

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about threads: the libraries' own, which know of forks
            return os.fork()

    def _report_ends(self, *_):
        """Reports how kernels ended. When the zygote is gone, they are the supervisor's own children."""
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                self.link.send({"type": "exit", "pid": pid, "status": status})
        except OSError:  # none is left to wait for; or the supervisor is gone, which the socket's end tells as well
            pass
