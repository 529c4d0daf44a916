"""Other containers' and the host's processes are not to be seen."""
pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
assert pids == [1] and os.getpid() == 1, pids
assert os.getppid() == 0
refused(lambda: os.kill(2, 0))
with open("/proc/self/cgroup") as f:
    for line in f:
        assert line.rstrip().endswith(":/"), line
