"""What the supervisor starts for Python: ``python3 main.py ROLE``, with a socket as descriptor 3.

A *kernel* keeps a user's variables and runs the code on its main thread. A *zygote* has imported everything
that is heavy, and forks kernels that are ready. docs/kernel-protocol.md, "Supervisor and kernels".
"""

import os
import sys

import signal

from imports import OWN
from interrupts import ignore_signal
from kernel import Kernel
from prctl import raise_oom_score
from settings import Settings
from wire import Link
from zygote import Zygote

SOCKET_FD = 3

# The user's modules may have the names of this program's, whose folder they are not looked for in.
del sys.path[0]
for _name, _module in list(sys.modules.items()):
    if _name != "__main__" and str(getattr(_module, "__file__", "")).startswith(OWN):
        del sys.modules[_name]


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
