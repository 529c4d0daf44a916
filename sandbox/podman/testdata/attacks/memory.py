"""Memory over the limit is not had: the process that asks for it dies, the others live on."""
import signal

pid = os.fork()
if pid == 0:
    with open("/proc/self/oom_score_adj", "w") as f:
        f.write("1000")
    hoard = []
    # Where no limit holds, the test must not take the whole machine down.
    while len(hoard) < 32:
        hoard.append(bytearray(16 << 20))
    os._exit(0)
_, status = os.waitpid(pid, 0)
assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL, status

# A limit on memory with swap beside it would be no limit.
for swap, limit in (("/sys/fs/cgroup/memory.swap.max", "0"), ("/sys/fs/cgroup/memory/memory.memsw.limit_in_bytes", str(128 << 20))):
    if os.path.exists(swap):
        assert read(swap).strip() == limit, (swap, read(swap))
