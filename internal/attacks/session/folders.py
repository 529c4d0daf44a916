"""A folder of the host that code may only read cannot be written to, and nothing in any gives rights.

Tried: the options of every mount; in a read-only one a new file and folder, names changed and removed, every file that it may open, other times and rights, its mount made writable.
"""
import stat

for folder in FACTS["mounts"]:
    options = [line.split()[3].split(",") for line in read("/proc/self/mounts").splitlines() if line.split()[1] == folder]
    assert options and (folder in FACTS["writable"] or "ro" in options[-1]), (folder, options)
    # gVisor does not show them.
    assert FACTS["gvisor"] or {"nosuid", "nodev"} <= set(options[-1]), (folder, options)
    assert FACTS["gvisor"] or "noexec" in options[-1], (folder, options)
    if folder in FACTS["writable"]:
        continue
    probe = os.path.join(folder, ".selftest")
    refused(lambda: open(probe, "w"))
    refused(lambda: os.mkdir(probe))
    refused(lambda: os.symlink("/", probe))
    refused(lambda: os.utime(folder))
    refused(lambda: os.chmod(folder, 0o777))
    refused(lambda: os.rename(folder, "/mnt/data/.selftest"))
    for place in [os.path.join(folder, name) for name in os.listdir(folder)][:100] if os.access(folder, os.R_OK | os.X_OK) else []:
        if stat.S_ISREG(os.lstat(place).st_mode):
            refused(lambda: open(place, "r+b"))
        refused(lambda: os.utime(place, follow_symlinks=False))
        refused(lambda: os.rename(place, place + ".selftest"))
        refused(lambda: os.link(place, probe, follow_symlinks=False))
    # MS_REMOUNT and MS_BIND, without MS_RDONLY.
    assert syscall("mount", 0, folder.encode(), 0, 0x1020, 0) != 0, f"{folder} was made writable"
notes.append(f"{len(FACTS['mounts']) - len(FACTS['writable'])} read-only, {len(FACTS['writable'])} writable")
