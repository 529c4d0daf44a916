"""One file, and the open files of one process, are bounded; the bounds cannot be raised."""
import resource
import signal

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
for folder in ("/mnt/data", "/tmp"):
    assert fill(folder + "/large", 64 << 20) <= 32 << 20, folder
    os.unlink(folder + "/large")
with open("/mnt/data/sparse", "wb") as f:
    refused(lambda: f.truncate((32 << 20) + 1))
    refused(lambda: os.posix_fallocate(f.fileno(), 0, 33 << 20))

held = []
try:
    while len(held) < 1000:
        held.append(os.open("/dev/null", os.O_RDONLY))
except OSError as err:
    assert err.errno == errno.EMFILE, err
assert len(held) < 256, len(held)
for fd in held:
    os.close(fd)

for limit in (resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC, resource.RLIMIT_CORE):
    _, hard = resource.getrlimit(limit)
    assert hard != resource.RLIM_INFINITY, limit
    refused(lambda: resource.setrlimit(limit, (hard + 1, hard + 1)), ValueError, OSError)
