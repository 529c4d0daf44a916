"""A fork bomb ends at the limit of processes, and can be cleared away.

Tried: starting processes without end.
"""
most = FACTS["limits"]["pids"]
if FACTS["gvisor"] and not FACTS["rootless"]:  # an ordinary user's has no limit, and a fork bomb would take the machine
    most *= 4  # what is counted there are the host's tasks, of which a process may be as little as one
if POD:
    most = POD["tasks"]
if most > 4096:
    raise NotTried(f"a limit of {most} processes is more than a test should start")
children = []
try:
    while len(children) < most + 50:
        pid = os.fork()
        if pid == 0:
            signal.pause()
            os._exit(0)
        children.append(pid)
except BlockingIOError:
    refusals["EAGAIN"] += 1
for pid in children:
    os.kill(pid, signal.SIGKILL)
for pid in children:
    os.waitpid(pid, 0)
if FACTS["gvisor"] and len(children) > most:
    if FACTS["rootless"]:
        raise Unenforced(f"gVisor makes no cgroups for an ordinary user: {len(children)} processes were started, and {most} is the limit")
    raise Unenforced(f"gVisor counts its own processes as one or few of the host's: {len(children)} were started, and memory bounds them")
assert len(children) <= most, f"{len(children)} processes were started, and {most} is the limit"
if POD:
    raise Unenforced(
        f"{len(children)} processes could be started, up to the limit of the session's user, which is {most}: a pod has none of its own",
        "podPidsLimit in the kubelet's configuration, where a session's limit has to hold for each container")
notes.append(f"{len(children)} could be started, {most} is the limit")
