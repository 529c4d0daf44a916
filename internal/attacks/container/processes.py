"""Other containers' and the host's processes are not to be seen.

Tried: all of /proc, the cgroup's name, signals to processes that are not there.
"""
pids = sorted(int(name) for name in os.listdir("/proc") if name.isdigit())
namespace("pid")
for pid in pids:
    try:
        status = read(f"/proc/{pid}/status")
    except OSError:
        continue  # it has ended meanwhile
    line = next(l for l in status.splitlines() if l.startswith("Uid:"))
    assert line.split()[1:] == [str(os.getuid())] * 4, (pid, status.splitlines()[0], line)
threads = {int(tid) for pid in pids if os.path.isdir(f"/proc/{pid}/task") for tid in os.listdir(f"/proc/{pid}/task")}
refused(lambda: os.kill(next(n for n in range(2, 1 << 15) if n not in threads and n not in pids), 0))
with open("/proc/self/cgroup") as f:
    for line in f:
        path = line.rstrip().rpartition(":")[2]
        # gVisor has cgroups of its own making, which it names by the random number of the container.
        own = FACTS["gvisor"] and path[:1] == "/" and len(path) == 65 and set(path[1:]) <= set("0123456789abcdef")
        if POD and path != "/" and not os.path.exists("/sys/fs/cgroup/cgroup.controllers"):
            raise Unenforced("the nodes' container runtime hides the names of cgroups where they have version 2 alone: code sees its pod's own", "nodes with cgroup version 2")
        assert path == "/" or own, line
