"""The program that the supervisor starts for Python: ``python3 main.py ROLE``, with a socket as descriptor 3.

A *kernel* keeps a user's variables and runs the code on its main thread. A *zygote* holds all heavy
imports, and forks ready kernels. docs/kernel-protocol.md, "Supervisor and kernels".
"""

import os
import sys

import signal

from imports import hide_own
from interrupts import ignore_signal
from kernel import Kernel
from prctl import raise_oom_score
from settings import Settings
from wire import Link
from zygote import Zygote

SOCKET_FD = 3

del sys.path[0]
hide_own()


def main(role):
    signal.signal(signal.SIGINT, ignore_signal)
    os.chdir("/")
    raise_oom_score()
    link = Link(SOCKET_FD)
    message = link.next()
    settings = Settings(message)
    settings.set_environment(message)
    kernel = Kernel(settings)
    if role == "zygote":
        link = Zygote(kernel, link).serve()  # comes back in each kernel that it forks
    kernel.serve(link)


if __name__ == "__main__":
    main(sys.argv[1])
