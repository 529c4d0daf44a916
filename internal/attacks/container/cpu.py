"""The processors' time is bounded by a quota.

Tried: as many busy processes as there are processors, until the quota stops them.
"""
import time


def figures():
    for path, both in (("/sys/fs/cgroup/cpu.max", True), ("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", False)):
        if os.path.exists(path):
            return read(path).split() if both else [read(path).strip(), read("/sys/fs/cgroup/cpu/cpu.cfs_period_us").strip()]
    raise AssertionError("no cgroup with a CPU quota")


def throttled():
    for path in ("/sys/fs/cgroup/cpu.stat", "/sys/fs/cgroup/cpu/cpu.stat"):
        if os.path.exists(path):
            return int(dict(line.split() for line in read(path).splitlines()).get("nr_throttled", 0))
    return 0


cpus = FACTS["limits"]["cpus"]
quota, period = figures()
assert quota not in ("max", "-1"), quota
assert abs(int(quota) / int(period) - cpus) < 0.01, (quota, period)
notes.append(f"the quota is {cpus:g} processors")

before = throttled()
busy = []
for _ in range(os.cpu_count()):
    pid = os.fork()
    if pid == 0:
        end = time.monotonic() + 10
        while time.monotonic() < end:
            pass
        os._exit(0)
    busy.append(pid)
# Where the machine has no more than the quota, nothing is ever stopped.
end = time.monotonic() + (1 if os.cpu_count() > cpus else 0.3)
while throttled() == before and time.monotonic() < end:
    time.sleep(0.05)
for pid in busy:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
if throttled() > before:
    refusals["throttled"] += throttled() - before
elif os.cpu_count() <= cpus:
    notes.append(f"the machine has {os.cpu_count()} and can give no more")
