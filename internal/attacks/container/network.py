"""There is no network but loopback, in any family or form.

Tried: IPv4, IPv6, UDP, broadcast, DNS, cloud metadata, the host's loopback and its abstract sockets.
"""
import socket

assert [name for _, name in socket.if_nameindex()] == ["lo"], socket.if_nameindex()
assert len(read("/proc/net/route").splitlines()) == 1, read("/proc/net/route")
namespace("net")

for address in ("1.1.1.1", "8.8.8.8", "10.0.0.1", "172.17.0.1", "192.168.1.1", "169.254.169.254", "100.100.100.200"):
    refused(lambda: socket.create_connection((address, 80), timeout=2))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        refused(lambda: udp.sendto(b"x", (address, 53)))
with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as six:
    six.settimeout(2)
    refused(lambda: six.connect(("2606:4700:4700::1111", 443)))
    refused(lambda: six.connect(("fd00:ec2::254", 80)))
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as broadcast:
    broadcast.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
    refused(lambda: broadcast.sendto(b"x", ("255.255.255.255", 9)))
refused(lambda: socket.getaddrinfo("example.com", 80), socket.gaierror)

# What listens on the host while this runs.
for address, port in FACTS["listeners"]:
    refused(lambda: socket.create_connection((address, port), timeout=2))
for name in FACTS["abstract"]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as unix:
        refused(lambda: unix.connect("\0" + name))
    assert "@" + name not in read("/proc/net/unix")
