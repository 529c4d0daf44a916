"""What the supervisor knows of the processes that it gave a role: the kernels and the zygote."""

from links import ChildLink


class KernelProcess:
    """The supervisor's view of one kernel."""

    def __init__(self, sock, pid=None):
        self.link = ChildLink(sock)
        self.pid = pid  # None until a kernel from the zygote has told it
        self.ready = pid is not None
        self.begun = False  # with a run, the first one: before that it has run no code
        self.killed = False  # its end is on its way
        self.late = False  # a run has waited for it in vain
        self.ended = False
        self.fills = False  # killed because it filled the work directory while no run was in it


class ZygoteProcess:
    """The supervisor's view of the zygote."""

    def __init__(self, sock, pid):
        self.link = ChildLink(sock)
        self.pid = pid
        self.loaded = False
