"""The processors' time is bounded by a quota."""
for path, both in (("/sys/fs/cgroup/cpu.max", True), ("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", False)):
    if os.path.exists(path):
        quota, period = read(path).split() if both else (read(path), read("/sys/fs/cgroup/cpu/cpu.cfs_period_us"))
        assert int(quota) * 2 == int(period), (quota, period)
        break
else:
    raise AssertionError("no cgroup with a CPU quota")
