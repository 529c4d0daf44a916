"""What /proc and /sys show of the kernel is masked or read-only.

Tried: writing to the kernel's switches and to cgroups, reading its memory, keys, log and hardware.
"""
for path in (
    "/proc/sys/kernel/hostname", "/proc/sys/kernel/core_pattern", "/proc/sys/vm/overcommit_memory", "/proc/sysrq-trigger",
    "/proc/sys/kernel/randomize_va_space", "/sys/kernel/uevent_helper", "/sys/power/state", "/proc/sys/net/ipv4/ip_forward",
    "/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory.max",
    "/sys/fs/cgroup/pids/pids.max", "/sys/fs/cgroup/pids.max", "/sys/fs/cgroup/memory/release_agent",
):
    refused(lambda: open(path, "w").write("1"))
for path in ("/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/interrupts", "/proc/kmsg", "/proc/sched_debug"):
    try:
        assert read(path) == "", path
    except OSError:
        pass
shown = [folder for folder in ("/sys/firmware", "/sys/class/dmi", "/proc/acpi", "/proc/scsi")
         if os.path.isdir(folder) and any(os.path.exists(os.path.join(folder, entry)) for entry in os.listdir(folder))]
if not POD:  # where runtimes make one for cgroup version 2 alone
    namespace("cgroup")
if FACTS["gvisor"] and shown == ["/sys/class/dmi"]:
    raise Unenforced("gVisor shows the machine's product name, and passes over what is masked")
assert shown == [], shown
