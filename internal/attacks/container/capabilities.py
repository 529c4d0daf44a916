"""No capability in any set, and no way to use one.

Tried: every set in /proc/self/status; chown, chroot, a higher priority.
"""
status = dict(line.split(":\t", 1) for line in read("/proc/self/status").splitlines() if ":\t" in line)
for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
    # gVisor has no ambient ones.
    assert name == "CapAmb" and name not in status or int(status[name], 16) == 0, (name, status.get(name))
refused(lambda: os.chown("/mnt/data", 0, 0))
if FACTS["gvisor"]:
    notes.append("a priority in gVisor is a number that nothing follows")
else:
    refused(lambda: os.nice(-5))
refused(lambda: os.chroot("/tmp"))
