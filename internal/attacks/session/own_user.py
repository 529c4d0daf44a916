"""Each session has a user and, where Podman is rootless, a user namespace that no other session has.

Tried: comparing both with another session's and the host's.
"""
theirs = FACTS["neighbour"]
owner = FACTS["rootless"] and FACTS["writable"]
assert owner or str(os.getuid()) != theirs[0], f"user {os.getuid()} has another session too"
if not owner:
    notes.append("another session is another user")
if not FACTS["rootless"]:
    notes.append("containers have no user namespace of their own")
elif FACTS["gvisor"]:
    notes.append("gVisor knows no users of the host")
else:
    mine = os.readlink("/proc/self/ns/user")
    namespace("user")
    assert mine != theirs[1], f"{mine} has another session too"
    notes.append("another session has another user namespace")
if owner:
    raise Unenforced("code that writes to a folder of --mount is its owner, and so are all such sessions", "leave ,rw out of --mount, where this weighs more")
