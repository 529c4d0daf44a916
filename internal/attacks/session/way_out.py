"""By the way out leaves what is allowed, and nothing gets to the host or to what is near it.

Tried: the proxy, by CONNECT and by whole URLs, to the host's loopback in many spellings, to its ports, to private and link-local addresses and
cloud metadata, to ports that no web server has; what is no HTTP; package indexes as a way to other addresses.
"""
import socket

WAY = FACTS["way_out"]
LOOPBACK = ("127.0.0.1", "localhost", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "0.0.0.0", "[::1]", "[::]", "[::ffff:127.0.0.1]")
NEAR = ("10.0.0.1", "172.17.0.1", "192.168.1.1", "169.254.169.254", "[fe80::1]", "[fd00:ec2::254]", "100.100.100.200", "168.63.129.16")


def say(data):
    """Sends bytes and returns the beginning of the answer."""
    with socket.create_connection(("127.0.0.1", WAY["port"]), timeout=30) as conn:
        conn.sendall(data)
        return conn.recv(4096)


def tunnel(head):
    """Asks for a tunnel and, where it is said to be there, for a page through it: the proxy may say only in there that it refuses."""
    with socket.create_connection(("127.0.0.1", WAY["port"]), timeout=30) as conn:
        conn.sendall(head)
        answer = conn.recv(4096)
        if status(answer) == 200:
            conn.sendall(b"GET /latest/meta-data/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            answer = conn.recv(4096)
        return answer


def status(answer):
    parts = answer.split(None, 2)
    return int(parts[1]) if answer.startswith(b"HTTP/1.") and len(parts) > 1 and parts[1].isdigit() else 0


def shut(host, port):
    for data in (
        f"CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n",
        f"GET http://{host}:{port}/latest/meta-data/ HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n",
        f"GET http://example.com@{host}:{port}/ HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n",
    ):
        try:
            answer = (tunnel if data.startswith("CONNECT") else say)(data.encode())
        except OSError as err:
            refusals[errno.errorcode.get(err.errno, "closed")] += 1
            continue
        assert not 200 <= status(answer) < 400, (data, answer)
        refusals[f"status {status(answer)}" if answer else "closed"] += 1


if not WAY["port"]:
    refused(lambda: socket.create_connection(("127.0.0.1", 9797), timeout=2))
    notes.append("there is no way out")
else:
    for spelling in LOOPBACK:
        shut(spelling, 22)
        for _, port in FACTS["listeners"]:
            shut(spelling, port)
    for address in NEAR:
        shut(address, 80)
    if not WAY["open"]:
        for host in ("selftest.invalid", "example.com", "1.1.1.1", "[2606:4700:4700::1111]"):
            if host not in WAY["hosts"]:
                shut(host, 443)
    for port in (22, 25, 6379):
        shut("example.com", port)
    for data in (b"SSH-2.0-x\r\n\r\n", b"\x16\x03\x01\x00\x05hello\r\n\r\n", b"GET\r\n\r\n", b"\r\n\r\n\0\0\r\n\r\n"):
        answer = say(data)
        assert not 200 <= status(answer) < 400, (data, answer)
    for path in ("//169.254.169.254/", "/../../etc/passwd", "/pypi/simple/numpy/", "/npm/lodash"):
        answer = say(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
        assert status(answer) >= 400, (path, answer)
    for address in (
        "files.pythonhosted.org/packages/..%2f..%2fetc%2fpasswd.whl", "files.pythonhosted.org/http:%2f%2f169.254.169.254%2flatest.whl",
        "files.pythonhosted.org/packages/%2e%2e/%2e%2e/selftest-0.0.0-py3-none-any.whl", "registry.npmjs.org/..%2f..%2f-/x.tgz",
    ):
        answer = say(f"GET http://{address} HTTP/1.1\r\nHost: {address.split('/')[0]}\r\nConnection: close\r\n\r\n".encode())
        assert WAY["open"] or status(answer) >= 400, (address, answer)
    notes.append("open to any public address" if WAY["open"] else "allowed: " + (", ".join(WAY["hosts"]) or "no host"))
