"""A crash leaves no core dump.

Tried: a crash in a folder that can be written to.
"""
import resource

assert resource.getrlimit(resource.RLIMIT_CORE) == (0, 0)
before = os.listdir("/mnt/data")
pid = os.fork()
if pid == 0:
    os.chdir("/mnt/data")
    signal.signal(signal.SIGABRT, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGABRT)
    os._exit(0)
_, status = os.waitpid(pid, 0)
assert os.WIFSIGNALED(status) and not os.WCOREDUMP(status), status
assert os.listdir("/mnt/data") == before, os.listdir("/mnt/data")
