"""The socket by which a later server takes a session over asks for a token.

Tried: runs without one, wrong, long and odd ones, a huge length, a crowd of connections.
"""
import socket
import struct



def connect():
    client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    client.settimeout(FACTS["patience_seconds"])
    try:
        client.connect("\0" + os.environ.get("CODE_SANDBOX_SOCKET", "@code-sandbox-mcp")[1:])
    except OSError:
        client.close()
        raise NotTried("the session has no such socket")
    return client


def frame(message):
    data = json.dumps(message).encode()
    return struct.pack(">I", len(data)) + b"c" + data


def silence(client):
    """Asserts that the connection ends without a word."""
    try:
        answer = client.recv(4096)
        assert answer == b"", answer
        refusals["closed"] += 1
    except ConnectionError as err:
        refusals[errno.errorcode[err.errno]] += 1
    finally:
        client.close()


run = {"type": "run", "id": "run-x", "code": "1", "timeout_ms": 0, "grace_ms": 0}
payloads = [
    frame(run), frame({"type": "attach", "protocol": 2}) + frame(run), frame({"type": "attach", "protocol": 2, "token": ""}) + frame(run),
    frame({"type": "attach", "protocol": 2, "token": "x" * 32}) + frame(run), frame({"type": "attach", "protocol": 2, "token": None}),
    frame({"type": "attach", "protocol": 2, "token": ["x"]}), frame({"type": "attach", "protocol": 2, "files_only": True}),
    struct.pack(">I", 0xFFFFFFFF) + b"x" * 8192, frame({"type": "stop"}),
]
# No more than four may wait for their word at once. A crowd that says nothing must not keep others out for good.
for at in range(0, len(payloads), 4):
    four = payloads[at:at + 4]
    for idler in [connect() for _ in range(12)]:
        idler.close()
    clients = [connect() for _ in four]
    for client, payload in zip(clients, four):
        try:
            client.sendall(payload)
        except OSError:
            pass  # it was closed before all had come
    for client in clients:
        silence(client)
