"""No capability in any set, no way to gain one, and no change of user."""
status = dict(line.split(":\t", 1) for line in read("/proc/self/status").splitlines() if ":\t" in line)
for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
    assert int(status[name], 16) == 0, (name, status[name])
assert status["NoNewPrivs"] == "1"
assert status["Seccomp"] == "2"
assert status["Uid"].split() == ["1000"] * 4 and status["Gid"].split() == ["1000"] * 4
assert os.getgroups() in ([], [1000]), os.getgroups()

refused(lambda: os.setuid(0))
refused(lambda: os.setgid(0))
refused(lambda: os.setgroups([0]))
refused(lambda: os.chown("/mnt/data", 0, 0))
refused(lambda: os.nice(-5))
refused(lambda: os.chroot("/tmp"))
