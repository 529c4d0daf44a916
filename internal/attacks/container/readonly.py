"""Nothing can be written but the session's two folders and the bounded tmpfs mounts.

Tried: a file in every folder, the system's own files.
"""
# As this user most of it could not be written to anyway.
roots = [line.split()[3].split(",") for line in read("/proc/self/mounts").splitlines() if line.split()[1] == "/"]
assert "ro" in roots[-1], "the root file system can be written to"
writable = set()
for folder, folders, _ in os.walk("/"):
    if folder == "/":
        folders.remove("proc")
    if os.access(folder, os.W_OK):
        try:
            with open(os.path.join(folder, ".probe"), "w"):
                pass
            os.unlink(os.path.join(folder, ".probe"))
            writable.add(folder)
        except OSError as err:
            assert err.errno in (errno.EROFS, errno.EACCES, errno.EPERM), (folder, err)
expected = {"/tmp", "/var/tmp", "/dev/shm", "/run", "/mnt/data", "/mnt/.state", "/dev/mqueue"}
# What is below them is theirs.
strange = {w for w in writable if not any(w == e or w.startswith(e + "/") for e in expected)}
assert not strange, strange
assert {"/tmp", "/dev/shm", "/mnt/data"} <= writable, writable

for path in ("/etc/passwd", "/etc/hosts", "/etc/hostname", "/usr/bin/python3", "/etc/ld.so.preload"):
    refused(lambda: open(path, "a"))
