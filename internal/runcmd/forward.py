# Joins its standard input and output to a port of the session, until both sides have ended.
import os
import socket
import sys
import threading

server = socket.create_connection(("127.0.0.1", int(sys.argv[1])))


def send():
    while data := os.read(0, 32768):
        server.sendall(data)
    server.shutdown(socket.SHUT_WR)


threading.Thread(target=send, daemon=True).start()
while data := server.recv(32768):
    while data:
        data = data[os.write(1, data) :]
