"""A pod has nothing of its cluster: no account, no addresses, no way to what is near it, and none into its keeper.

Tried: the token's folder, variables, name servers and hosts; the API server, the node's kubelet, cloud metadata and name servers by their addresses; the
keeper by its socket.
"""
import socket

for folder in ("/var/run/secrets", "/run/secrets", "/etc/kubernetes", "/var/lib/kubelet"):
    found = [os.path.join(f, name) for f, _, names in os.walk(folder) for name in names]
    assert not found, found
for name, value in os.environ.items():
    assert not name.startswith("KUBERNETES") or value == "", f"{name} has a value"
    assert not name.endswith(("_SERVICE_HOST", "_SERVICE_PORT")) or value == "", f"{name} is of a service"
servers = [line.split()[1] for line in read("/etc/resolv.conf").splitlines() if line.startswith("nameserver")]
assert servers == ["127.0.0.1"], servers
for name in ("kubernetes", "kubernetes.default", "kubernetes.default.svc.cluster.local", "metadata.google.internal"):
    refused(lambda: socket.getaddrinfo(name, 443), socket.gaierror)
near = [(address, port) for address, port in POD["near"]] + [("10.96.0.1", 443), ("10.43.0.1", 443), ("10.96.0.10", 53), ("169.254.169.254", 80), ("169.254.20.10", 53)]
for address, port in near:
    refused(lambda: socket.create_connection((address, port), timeout=2))

keepers = {line.split()[-1] for line in read("/proc/net/unix").splitlines() if line.endswith("-keeper")}
assert keepers, "no keeper listens"
for keeper in keepers:
    for question in (b"e", b"w", b"r"):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
            asking.settimeout(10)
            try:
                asking.connect("\0" + keeper[1:])
                asking.sendall(question)
                answer = asking.recv(1)
            except ConnectionError as err:
                refusals[errno.errorcode[err.errno]] += 1
            else:
                assert answer == b"", (keeper, question, answer)
                refusals["closed"] += 1
notes.append(f"{len(keepers)} keepers answered nothing")
