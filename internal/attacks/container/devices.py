"""There are the few harmless devices, and none can be made.

Tried: looking for all others, mknod in every place that can be written to.
"""
import stat

devices = set()
for folder, _, names in os.walk("/dev"):
    for name in names:
        path = os.path.join(folder, name)
        mode = os.lstat(path).st_mode
        if stat.S_ISBLK(mode) or stat.S_ISCHR(mode):
            devices.add(path)
allowed = {"/dev/" + d for d in ("null", "zero", "full", "tty", "random", "urandom", "ptmx", "pts/ptmx", "console")}
assert devices <= allowed, devices - allowed
for name in ("mem", "kmem", "port", "kvm", "fuse", "net/tun", "sda", "vda", "loop-control", "kmsg", "mapper/control"):
    assert not os.path.exists("/dev/" + name), name
for kind in (stat.S_IFCHR, stat.S_IFBLK):
    for folder in ("/tmp", "/mnt/data", "/dev/shm"):
        refused(lambda: os.mknod(folder + "/node", kind | 0o666, os.makedev(1, 3)))
