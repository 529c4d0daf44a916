"""Memory over the limit is not had: the process that asks for it dies, the others live on.

Tried: a process that has the system's own tables fill memory until it is stopped, because a supervisor stops the code before that
where it sees memory grow that is the code's own.
"""
import mmap

most = FACTS["limits"]["memory_bytes"]
block = 16 << 20
meminfo = dict(line.split(":") for line in read("/proc/meminfo").splitlines())
free = int(meminfo["MemAvailable"].split()[0]) << 10
# What gVisor tells is the limit.
if most + 4 * block > free and not FACTS["gvisor"]:
    raise Unenforced(f"the machine has {mib(free)} of memory left, less than the limit of {mib(most)}: it is the bound itself")


def hoard():
    # A page of each part of a mapping, which costs a page of tables. Where no limit holds, the test must not take the whole
    # machine down.
    part, parts = 2 << 20, (most + 2 * block) // mmap.PAGESIZE
    held = mmap.mmap(-1, parts * part, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_NORESERVE, mmap.PROT_READ)
    for at in range(parts):
        held[at * part]


def hoard_in_gvisor():  # whose tables are not the system's, and where no process is seen to have what is in a file
    file = os.memfd_create("hoard")
    for _ in range(most // block + 2):
        os.write(file, b"x" * block)


status = in_child(hoard_in_gvisor if FACTS["gvisor"] else hoard)
assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL, f"{mib(most + 2 * block)} were had"
refusals["SIGKILL"] += 1
notes.append(f"the limit is {mib(most)}")

# A limit on memory with swap beside it would be no limit.
for swap, limit in (("/sys/fs/cgroup/memory.swap.max", "0"), ("/sys/fs/cgroup/memory/memory.memsw.limit_in_bytes", str(most // 4096 * 4096))):
    if os.path.exists(swap):
        assert read(swap).strip() == limit, (swap, read(swap))
        notes.append("without swap")
