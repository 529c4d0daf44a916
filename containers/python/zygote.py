"""The zygote: a process with everything imported, from which kernels are forked."""

import functools
import gc
import os
import signal
import socket

from descriptors import close_all_but
from environment import DEFAULT_ENV
from kernel import Kernel
from links import pack_report, receive_fds
from prctl import PR_SET_DUMPABLE, hide, prctl
from processes import Become, raise_oom_score


class Zygote:
    """A process with everything imported, from which kernels are forked."""

    def __init__(self, settings, fd):
        self.settings = settings
        self.fd = fd

    def serve(self):
        prctl(PR_SET_DUMPABLE, 1)  # or its own /proc entry is not writable
        raise_oom_score()
        hide()
        os.environ.update(self.settings.env)
        for name, value in DEFAULT_ENV.items():
            os.environ.setdefault(name, value)
        os.chdir("/")
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, self.fd)
        self.kernel = Kernel(self.settings)
        self.kernel.load()
        gc.collect()
        gc.freeze()
        signal.signal(signal.SIGCHLD, self._report_ends)
        self.sock.sendall(pack_report({"type": "loaded"}))
        while True:
            data, fds = receive_fds(self.sock, 4096)
            if not data:
                os._exit(0)
            for fd in fds:
                try:
                    self._fork(fd)
                except OSError:  # no process is left; the supervisor sees the end of the socket
                    os.close(fd)

    def _fork(self, fd):
        import warnings

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about threads: the libraries' own, which know of forks
            if os.fork() == 0:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                self.sock.detach()
                close_all_but({fd})
                raise Become(functools.partial(self.kernel.serve, fd))
        os.close(fd)

    def _report_ends(self, *_):
        """Tells how kernels ended. When the zygote is gone, they are the supervisor's own children."""
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                self.sock.sendall(pack_report({"type": "exit", "pid": pid, "status": status}))
        except OSError:  # none is left to wait for; or the supervisor is gone, which the socket's end tells as well
            pass
