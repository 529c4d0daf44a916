"""The host's names are not in here, and the sandbox's own cannot be changed."""
import socket

assert socket.gethostname() == "sandbox"
refused(lambda: socket.sethostname("host"))
assert "host.containers.internal" not in read("/etc/hosts")
