"""Every tmpfs is full at its size, and the sizes add up to little."""
sizes = {"/tmp": 64 << 20, "/var/tmp": 16 << 20, "/dev/shm": 64 << 20, "/run": 1 << 20}
for folder, size in sizes.items():
    # Newer Podman gives tmpfs mounts to the container's user, older ones keep /run root's.
    if folder == "/run" and not os.access(folder, os.W_OK):
        continue
    # Several files, since one has a limit of its own.
    files = [f"{folder}/filler{i}" for i in range(8)]
    written = sum(fill(file, size) for file in files)
    for file in files:
        os.unlink(file)
    assert size // 2 <= written <= size, (folder, written)

for line in read("/proc/mounts").splitlines():
    _, place, kind, options, *_ = line.split()
    if kind == "tmpfs" and os.access(place, os.W_OK):
        assert place in sizes or not os.path.isdir(place), line
        assert "size=" in options, line
