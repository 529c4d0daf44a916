"""The value of a --secret comes to code by no request.

Tried: the placeholder by plain HTTP to the secret's host and to another, in an address, a query and a body, in a tunnel for another host, and
by TLS to its own host, in a header; what comes back is searched for the value, as it is, in base64, in hex and as in an address.
"""
import hashlib
import socket
import ssl

WAY = FACTS["way_out"]
NO_HOST = "selftest.invalid"
came = 0


def search(secret, answer):
    """Fails where one of the value's forms, of which the attack has the sums alone, is in an answer."""
    global came
    came += bool(answer)
    for length, digest in secret["forms"]:
        for i in range(len(answer) - length + 1):
            assert hashlib.sha256(answer[i:i + length]).hexdigest() != digest, f"the value of {secret['variable']} came back"
    parts = answer.split(None, 2)
    refusals[f"status {parts[1].decode('latin-1')}" if answer.startswith(b"HTTP/1.") and len(parts) > 1 else "closed"] += 1


def read(conn):
    answer = b""
    while len(answer) < 65536 and (piece := conn.recv(4096)):
        answer += piece
    return answer


def request(method, address, host, placeholder, more="", body=""):
    head = f"{method} {address} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{more}Content-Length: {len(body)}\r\n"
    return (head + (f"Authorization: Bearer {placeholder}\r\nX-Api-Key: {placeholder}\r\n" if placeholder else "") + "\r\n" + body).encode()


def plainly(secret, data):
    try:
        with socket.create_connection(("127.0.0.1", WAY["port"]), timeout=30) as conn:
            conn.sendall(data)
            search(secret, read(conn))
    except OSError as err:
        refusals[errno.errorcode.get(err.errno, "closed")] += 1


def by_tls(secret, host, data):
    try:
        with socket.create_connection(("127.0.0.1", WAY["port"]), timeout=30) as conn:
            target = host if ":" in host else f"{host}:443"
            conn.sendall(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode())
            answer = conn.recv(4096)
            if not answer.startswith(b"HTTP/1.1 200"):
                return search(secret, answer)
            with ssl.create_default_context().wrap_socket(conn, server_hostname=target.rpartition(":")[0]) as inside:
                inside.sendall(data)
                search(secret, read(inside))
    except OSError as err:
        refusals[errno.errorcode.get(err.errno, "closed")] += 1


for secret in WAY["secrets"]:
    placeholder = os.environ[secret["variable"]]
    assert "placeholder" in placeholder, f"{secret['variable']} is no placeholder"
    for host in secret["hosts"]:
        for to in (host, NO_HOST):
            plainly(secret, request("GET", f"http://{to}/", to, placeholder))
            plainly(secret, request("GET", f"http://{to}/{placeholder}?key={placeholder}", to, ""))
            plainly(secret, request("POST", f"http://{to}/", to, "", body=f"key={placeholder}"))
        by_tls(secret, host, request("GET", "/", NO_HOST, placeholder))
        by_tls(secret, host, request("GET", f"/{placeholder}", host, ""))
        by_tls(secret, host, request("GET", "/", host, placeholder, more="Accept-Encoding: br\r\nRange: bytes=0-9\r\n"))
notes.append(f"{len(WAY['secrets'])} of them, {came} answers searched")
