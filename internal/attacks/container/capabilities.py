"""No capability in any set, and no way to use one.

Tried: every set in /proc/self/status; chown, chroot, a higher priority.
"""
status = dict(line.split(":\t", 1) for line in read("/proc/self/status").splitlines() if ":\t" in line)
for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
    assert int(status[name], 16) == 0, (name, status[name])
refused(lambda: os.chown("/mnt/data", 0, 0))
refused(lambda: os.nice(-5))
refused(lambda: os.chroot("/tmp"))
