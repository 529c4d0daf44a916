"""A set-user-id program runs with no more than its caller has.

Tried: set-user-id programs of the image, if it has any; whether the places that can be written to honour the bit.
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
