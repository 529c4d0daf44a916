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


def work(processes, seconds):
    """How many steps so many busy processes make together."""
    pipes = []
    for _ in range(processes):
        r, w = os.pipe()
        if os.fork() == 0:
            steps, end = 0, time.monotonic() + seconds
            while time.monotonic() < end:
                steps += 1
            os.write(w, str(steps).encode())
            os._exit(0)
        os.close(w)
        pipes.append(r)
    total = 0
    for r in pipes:
        total += int(os.read(r, 32))
        os.close(r)
        os.wait()
    return total


def by_work():
    """gVisor does not show the quota, which is its own process's: what it leaves is measured."""
    if os.cpu_count() <= cpus:
        return notes.append(f"the machine has {os.cpu_count()} and can give no more")
    # How much more all processors do than one process can. A busy machine may make it look like more.
    alone = min(cpus, 1)
    most = (cpus / alone + os.cpu_count()) / 2
    more = []
    while not more or min(more) >= most and len(more) < 5:
        one = work(1, 0.5)
        more.append(work(os.cpu_count(), 0.5) / one)
    assert min(more) < most, f"all processors do {min(more):.1f} times what one process does"
    notes.append(f"{min(more) * alone:.1f} processors were had, {cpus:g} is the quota")


def by_figures():
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


cpus = FACTS["limits"]["cpus"]
by_work() if FACTS["gvisor"] else by_figures()
