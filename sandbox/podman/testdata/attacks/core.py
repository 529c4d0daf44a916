"""A crash leaves no core dump."""
import resource

assert resource.getrlimit(resource.RLIMIT_CORE) == (0, 0)
os.chdir("/mnt/data")
pid = os.fork()
if pid == 0:
    os.abort()
_, status = os.waitpid(pid, 0)
assert os.WIFSIGNALED(status) and not os.WCOREDUMP(status), status
assert os.listdir("/mnt/data") == [], os.listdir("/mnt/data")
