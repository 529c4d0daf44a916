"""The code is an ordinary user and its group, and cannot become another.

Tried: setuid, setgid, setgroups to root.
"""
status = dict(line.split(":\t", 1) for line in read("/proc/self/status").splitlines() if ":\t" in line)
user = os.getuid()
assert user >= 1000, user
assert status["Uid"].split() == [str(user)] * 4, status["Uid"]
assert status["Gid"].split() == [str(user)] * 4, status["Gid"]
assert os.getgroups() in ([], [user]), os.getgroups()

refused(lambda: os.setuid(0))
refused(lambda: os.setgid(0))
refused(lambda: os.setgroups([0]))
