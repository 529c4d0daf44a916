"""Another session's files, processes and servers are out of reach.

Tried: looking for its files and processes, its TCP port, its abstract socket, its volume by its name.
"""
import socket

token = FACTS["token"]
for top in ("/mnt/data", "/tmp", "/var/tmp", "/dev/shm", "/run", "/mnt"):
    for folder, _, names in os.walk(top):
        for name in names:
            assert token not in name, f"{folder}/{name} is another session's"
mine = {os.getpid(), os.getppid()}
for pid in [name for name in os.listdir("/proc") if name.isdigit() and int(name) not in mine]:
    try:
        assert token not in read(f"/proc/{pid}/cmdline"), f"process {pid} is another session's"
    except OSError as err:
        refusals[errno.errorcode[err.errno]] += 1
refused(lambda: socket.create_connection(("127.0.0.1", FACTS["listeners"][0][1]), timeout=2))
with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as unix:
    refused(lambda: unix.connect("\0" + token))
for root in ("/var/lib/containers/storage", "/mnt/data/../..", "/proc/1/root/mnt"):
    refused(lambda: os.stat(f"{root}/volumes/{FACTS['volume']}"))
