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
if FACTS["gvisor"]:
    # Its own, with nothing of the host behind them; and they cannot be used.
    allowed |= {"/dev/fuse", "/dev/net/tun"}
    TUNSETIFF, IFF_TAP = 0x400454CA, 2
    if os.path.exists("/dev/net/tun"):
        with open("/dev/net/tun", "r+b", buffering=0) as tun:
            request = ctypes.create_string_buffer(b"tap0".ljust(16, b"\0") + IFF_TAP.to_bytes(2, "little"), 40)
            assert syscall("ioctl", tun.fileno(), TUNSETIFF, request) != 0, "a network interface was made"
    if os.path.exists("/dev/fuse"):
        with open("/dev/fuse", "r+b", buffering=0) as fuse:
            options = f"fd={fuse.fileno()},rootmode=40000,user_id=1000,group_id=1000".encode()
            assert syscall("mount", b"fuse", b"/tmp", b"fuse", 0, options) != 0, "a file system was mounted"
assert devices <= allowed, devices - allowed
for name in ("mem", "kmem", "port", "kvm", "fuse", "net/tun", "sda", "vda", "loop-control", "kmsg", "mapper/control"):
    assert "/dev/" + name in allowed or not os.path.exists("/dev/" + name), name
for kind in (stat.S_IFCHR, stat.S_IFBLK):
    for folder in ("/tmp", "/mnt/data", "/dev/shm"):
        refused(lambda: os.mknod(folder + "/node", kind | 0o666, os.makedev(1, 3)))
