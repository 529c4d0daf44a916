"""A set-user-id program of the image runs with no more than its caller has."""
import subprocess

programs = [p for p in ("/usr/bin/su", "/bin/su", "/usr/bin/passwd") if os.path.exists(p) and os.stat(p).st_mode & 0o4000]
assert programs, "the image has no set-user-id program to try"
# It waits for a password on its stdin, which never comes.
asking = subprocess.Popen([programs[0]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
asking.stdout.read(1)
status = read(f"/proc/{asking.pid}/status")
asking.kill()
line = next(l for l in status.splitlines() if l.startswith("Uid:"))
assert line.split()[1:] == ["1000"] * 4, line

# Nor does one that the code makes itself: the places that it can write to ignore the bit.
for mount in ("/mnt/data", "/tmp", "/dev/shm", "/var/tmp"):
    assert os.statvfs(mount).f_flag & os.ST_NOSUID, mount
