"""Whoever broke out of the container would be an ordinary user, not root.

Tried: the map of users between the container and the host, the namespace that it belongs to.
"""
# A map within Podman's own says nothing of the host, so that what Podman says has to do as well.
assert FACTS["rootless"], "the container's root is the host's"
# The kernel's first user namespace has a number of its own (PROC_USER_INIT_INO).
assert FACTS["gvisor"] or os.readlink("/proc/self/ns/user") != "user:[4026531837]", "the container has the host's users"
notes.append("root in here is another user outside")
