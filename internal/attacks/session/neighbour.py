"""What another session holds: files, a process, servers. It makes them and tells the port."""
import subprocess

for folder in ("/mnt/data", "/tmp", "/dev/shm"):
    with open(f"{folder}/{FACTS['token']}", "w") as f:
        f.write(FACTS["token"])
server = """
import socket, sys, time
tcp = socket.create_server(("127.0.0.1", 0))
unix = socket.socket(socket.AF_UNIX)
unix.bind("\\0" + sys.argv[1])
unix.listen()
print(tcp.getsockname()[1], flush=True)
time.sleep(3600)
"""
child = subprocess.Popen(["python3", "-c", server, FACTS["token"]], stdout=subprocess.PIPE, cwd="/tmp")
notes.append(str(int(child.stdout.readline())))
notes.append(str(child.pid))
