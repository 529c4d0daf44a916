"""A fork bomb ends at the limit of processes, and can be cleared away."""
import signal

children = []
try:
    while len(children) < 1000:
        pid = os.fork()
        if pid == 0:
            signal.pause()
        children.append(pid)
except BlockingIOError:
    pass
for pid in children:
    os.kill(pid, signal.SIGKILL)
for pid in children:
    os.waitpid(pid, 0)
assert len(children) < 64, len(children)
