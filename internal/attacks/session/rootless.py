"""Whoever broke out of the container would be an ordinary user, not root.

Tried: the map of users between the container and the host.
"""
if FACTS["gvisor"]:
    # Its map tells of its own users, so that what Podman says has to do.
    assert FACTS["rootless"], "the container's root is the host's"
maps = [[int(n) for n in line.split()] for line in read("/proc/self/uid_map").splitlines()]
assert FACTS["gvisor"] or [0, 0] not in [m[:2] for m in maps], "the container's root is the host's"
notes.append("root in here is another user outside")
