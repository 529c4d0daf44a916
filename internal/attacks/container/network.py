"""There is no network but loopback, in any family or form; where a policy keeps a pod from one, nothing answers.

Tried: IPv4, IPv6, UDP, broadcast, DNS, cloud metadata, the host's loopback and its abstract sockets; in a pod, what listens in its cluster.
"""
import contextlib
import socket
from concurrent.futures import ThreadPoolExecutor

if not POD.get("policy"):
    assert [name for _, name in socket.if_nameindex()] == ["lo"], socket.if_nameindex()
    assert len(read("/proc/net/route").splitlines()) == 1, read("/proc/net/route")
namespace("net")

# The last are what listens on the host, or in the cluster, while this runs.
PUBLIC = ["1.1.1.1", "8.8.8.8", "10.0.0.1", "172.17.0.1", "192.168.1.1", "169.254.169.254", "100.100.100.200"]
listeners = [tuple(at) for at in FACTS["listeners"] + POD.get("near", [])]
with ThreadPoolExecutor(8) as pool:
    list(pool.map(
        lambda at: refused(lambda: socket.create_connection(at, timeout=2)),
        [(address, 80) for address in PUBLIC] + [("2606:4700:4700::1111", 443), ("fd00:ec2::254", 80)] + listeners,
    ))

# A policy drops datagrams without a word, so what counts is that no server of names answers.
QUERY = b"\0\1\1\0\0\1\0\0\0\0\0\0\7example\3com\0\0\1\0\1"
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
    udp.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
    udp.settimeout(2)
    for address in (*PUBLIC, "255.255.255.255", *(address for address, _ in POD.get("near", []) if ":" not in address)):
        with contextlib.suppress(OSError):
            udp.sendto(QUERY, (address, 53))
    refused(lambda: udp.recvfrom(512))
refused(lambda: socket.getaddrinfo("example.com", 80), socket.gaierror)

for name in FACTS["abstract"]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as unix:
        refused(lambda: unix.connect("\0" + name))
    assert "@" + name not in read("/proc/net/unix")
