"""Loopback itself works: servers and clients of the same session may talk."""
import socket

for host in ("127.0.0.1", "::1"):
    with socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET) as server:
        with socket.create_connection(server.getsockname()[:2], timeout=5) as client:
            peer, _ = server.accept()
            client.sendall(b"hello")
            assert peer.recv(5) == b"hello"
            peer.close()
