"""The host's names are not in here, and the sandbox's own cannot be changed.

Tried: sethostname, /etc/hosts, the namespaces of names and of shared memory.
"""
import socket

assert socket.gethostname() == "sandbox"
refused(lambda: socket.sethostname("host"))
for kind in ("uts", "ipc"):
    namespace(kind)
assert "host.containers.internal" not in read("/etc/hosts")
