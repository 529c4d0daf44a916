"""A set-user-id program runs with no more than its caller has.

Tried: set-user-id programs of the image, if it has any; whether the places that can be written to honour the bit; to set it, set-group-id and capabilities on files there, which a folder of the host would keep.
"""
import subprocess

PR_GET_NO_NEW_PRIVS = 39
assert libc.prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1, "new privileges can be had"
programs = [p for p in ("/usr/bin/su", "/bin/su", "/usr/bin/passwd") if os.path.exists(p) and os.stat(p).st_mode & 0o4000]
# An image of the user's own may have some.
for program in programs[:1]:
    # It waits for a password on its stdin, which never comes.
    asking = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    asking.stdout.read(1)
    status = read(f"/proc/{asking.pid}/status")
    asking.kill()
    line = next(l for l in status.splitlines() if l.startswith("Uid:"))
    assert line.split()[1:] == [str(os.getuid())] * 4, line
refusals["no new privileges"] += 1

# Nor does one that the code makes itself: the places that it can write to ignore the bit.
for mount in ("/mnt/data", *(["/mnt/.state"] if os.path.isdir("/mnt/.state") else []), "/tmp", "/dev/shm", "/var/tmp"):
    # gVisor does not tell; there, what is above has to do.
    assert FACTS["gvisor"] or POD or os.statvfs(mount).f_flag & os.ST_NOSUID, mount
if POD:
    notes.append("Kubernetes has no options of mounts, so that no new privileges has to do")

# Folders of the host are other users' too, where it counts. A pod has none, and perhaps another list of calls.
HOW = ctypes.c_uint64 * 3
for folder in () if POD and not POD["seccomp"] else ("/mnt/data", "/tmp", *(FACTS["writable"] or ())):
    probe = os.path.join(folder, f".selftest-{os.getpid()}")
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY
    try:
        for bits in (0o4755, 0o2755, 0o6755):
            refused(lambda: os.open(probe, flags, bits))
            refused(lambda: os.open(folder, os.O_TMPFILE | os.O_WRONLY, bits))
            how = HOW(flags, bits, 0)
            # Process 1 keeps this call, and a bare container runs this as that.
            assert os.getpid() == 1 or syscall("openat2", -100, probe.encode(), how, ctypes.sizeof(how)) != 0, "openat2 made a file"
            assert MACHINE or syscall("creat", probe.encode(), bits) != 0, "creat made a file"
        descriptor = os.open(probe, flags, 0o755)
        for bits in (0o4755, 0o2755, 0o6755):
            refused(lambda: os.chmod(probe, bits))
            refused(lambda: os.fchmod(descriptor, bits))
            refused(lambda: os.chmod(os.path.basename(probe), bits, dir_fd=os.open(folder, os.O_PATH)))
            assert syscall("fchmodat2", -100, probe.encode(), bits, 0) != 0, "fchmodat2 set the bits"
        refused(lambda: os.setxattr(probe, "security.capability", bytes.fromhex("0100000202000000000000000000000000000000")))
        os.chmod(probe, 0o1777)
        assert os.stat(probe).st_mode & 0o7777 == 0o1777, "other rights cannot be set"
    finally:
        if os.path.lexists(probe):
            os.remove(probe)
    refusals["no set-user-id"] += 1
