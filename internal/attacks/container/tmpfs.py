"""Every tmpfs is full at its size, and the sizes add up to little.

Tried: filling each of them.
"""
sizes = {"/tmp": FACTS["limits"]["tmp_bytes"], "/var/tmp": 16 << 20, "/dev/shm": 64 << 20, "/run": 1 << 20}
if POD:  # it has one for all
    for folder in sizes:
        assert os.stat(folder).st_dev == os.stat("/tmp").st_dev, folder
    sizes = {"/tmp": POD["own_bytes"]}


def overfill(folder, size):
    # Several files, since one has a limit of its own.
    each = min(size, FACTS["limits"]["file_bytes"])
    files = [f"{folder}/.filler{i}" for i in range(size // each + 1)]
    written = sum(fill(file, each) for file in files)
    for file in files:
        os.unlink(file)
    assert size // 2 <= written <= size, (folder, written)


for folder, size in sizes.items():
    place = os.statvfs(folder)
    assert place.f_blocks * place.f_frsize <= size, f"{folder} holds {mib(place.f_blocks * place.f_frsize)}, more than {mib(size)}"
    # Newer Podman gives tmpfs mounts to the container's user, older ones keep /run root's.
    if not os.access(folder, os.W_OK):
        continue
    # What is written counts as memory, and is bounded by that limit too.
    if size * 2 > FACTS["limits"]["memory_bytes"]:
        notes.append(f"{folder} has {mib(size)}, which memory is too little to fill")
        continue
    overfill(folder, size)
    notes.append(f"{folder} has {mib(size)}")

for line in read("/proc/mounts").splitlines():
    _, place, kind, options, *_ = line.split()
    if kind == "tmpfs" and os.access(place, os.W_OK):
        assert POD and os.stat(place).st_dev == os.stat("/tmp").st_dev or place in sizes or not os.path.isdir(place), line
        assert "size=" in options, line
