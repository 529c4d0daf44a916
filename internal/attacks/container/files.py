"""One file, and the open files of one process, are bounded; the bounds cannot be raised.

Tried: writing and allocating past the limit, opening files without end, setrlimit.
"""
import resource

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
most = FACTS["limits"]["file_bytes"]
# The holes of a file count; and /tmp is no part of what the volume's own limit watches.
with open("/tmp/sparse", "wb", buffering=0) as f:
    f.seek(most - 1)
    assert f.write(b"x") == 1
    refused(lambda: f.write(b"x"))
    refused(lambda: f.truncate(most + 1))
    refused(lambda: os.posix_fallocate(f.fileno(), most, 1))
os.unlink("/tmp/sparse")
with open("/mnt/data/.sparse", "wb", buffering=0) as f:
    refused(lambda: f.truncate(most + 1))
    f.seek(most)
    refused(lambda: f.write(b"x"))
os.unlink("/mnt/data/.sparse")
notes.append(f"a file has at most {mib(most)}")

open_files = FACTS["limits"]["open_files"]
held = []
try:
    while len(held) < open_files + 100:
        held.append(os.open("/dev/null", os.O_RDONLY))
except OSError as err:
    assert err.errno == errno.EMFILE, err
    refusals["EMFILE"] += 1
for fd in held:
    os.close(fd)
assert len(held) <= open_files, f"{len(held)} files were open"
notes.append(f"a process has at most {open_files} open files")

for limit in (resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC, resource.RLIMIT_CORE):
    _, hard = resource.getrlimit(limit)
    assert hard != resource.RLIM_INFINITY, limit
    refused(lambda: resource.setrlimit(limit, (hard + 1, hard + 1)), ValueError, OSError)
