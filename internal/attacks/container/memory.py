"""Memory over the limit is not had: the process that asks for it dies, the others live on.

Tried: a process that fills memory until it is stopped.
"""
most = FACTS["limits"]["memory_bytes"]
block = 16 << 20
meminfo = dict(line.split(":") for line in read("/proc/meminfo").splitlines())
free = int(meminfo["MemAvailable"].split()[0]) << 10
# What gVisor tells is the limit.
if most + 4 * block > free and not FACTS["gvisor"]:
    raise Unenforced(f"the machine has {mib(free)} of memory left, less than the limit of {mib(most)}: it is the bound itself")


def hoard():
    held = []
    # Where no limit holds, the test must not take the whole machine down.
    while len(held) * block < most + 2 * block:
        held.append(bytearray(b"x") * block)


status = in_child(hoard)
assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL, f"{mib(most + 2 * block)} were had"
refusals["SIGKILL"] += 1
notes.append(f"the limit is {mib(most)}")

# A limit on memory with swap beside it would be no limit.
for swap, limit in (("/sys/fs/cgroup/memory.swap.max", "0"), ("/sys/fs/cgroup/memory/memory.memsw.limit_in_bytes", str(most // 4096 * 4096))):
    if os.path.exists(swap):
        assert read(swap).strip() == limit, (swap, read(swap))
        notes.append("without swap")
