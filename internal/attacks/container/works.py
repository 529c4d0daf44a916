"""What ordinary programs need goes on working under all of this."""
import asyncio
import concurrent.futures
import fcntl
import multiprocessing
import multiprocessing.shared_memory
import pty
import resource
import select
import signal
import socket
import sqlite3
import subprocess
import tempfile
import time

os.chdir("/mnt/data")

with concurrent.futures.ThreadPoolExecutor(8) as pool:
    assert sum(pool.map(int, "12345678")) == 36
with multiprocessing.get_context("fork").Pool(2) as pool:
    assert pool.map(abs, [-1, -2, -3]) == [1, 2, 3]
shared = multiprocessing.shared_memory.SharedMemory(create=True, size=1 << 20)
shared.buf[0] = 7
shared.close()
shared.unlink()
lock = multiprocessing.get_context("fork").Lock()
assert lock.acquire()
lock.release()

assert subprocess.run(["/bin/sh", "-c", "echo $((6*7)) | cat"], capture_output=True, text=True, check=True).stdout == "42\n"


async def talk():
    child = await asyncio.create_subprocess_exec("cat", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    return (await child.communicate(b"async"))[0]


assert asyncio.run(talk()) == b"async"

db = sqlite3.connect("x.db")
db.execute("pragma journal_mode=wal")
db.execute("create table t (x)")
db.execute("insert into t values (1)")
db.commit()
db.close()

os.mkfifo("fifo")
os.symlink("fifo", "link")
os.link("x.db", "hard")
os.setxattr("x.db", "user.note", b"1")
left, right = socket.socketpair()
left.sendall(b"x")
assert select.select([right], [], [], 1)[0]
fd = os.memfd_create("m")
os.write(fd, b"abc")
with open("copy", "wb") as out:
    os.sendfile(out.fileno(), fd, 0, 3)
    fcntl.flock(out, fcntl.LOCK_EX)
assert open("copy", "rb").read() == b"abc"
handle = os.pidfd_open(os.getpid())
signal.pidfd_send_signal(handle, 0)

child, terminal = pty.fork()
if child == 0:
    os.execvp("sh", ["sh", "-c", "stty -a >/dev/null 2>&1; test -t 0 && echo terminal"])
assert b"terminal" in os.read(terminal, 100)

# In short sleeps: a signal that comes just before one begins does not end it. And no event of
# threading's: its lock may be held by the very wait that the handler interrupts.
rung = []
signal.signal(signal.SIGALRM, lambda *_: rung.append(True))
signal.setitimer(signal.ITIMER_REAL, 0.01)
end = time.monotonic() + 60
while not rung and time.monotonic() < end:
    time.sleep(0.05)
assert rung, "an alarm does not ring"
for kind in (resource.RLIMIT_NOFILE, resource.RLIMIT_CORE):
    resource.setrlimit(kind, resource.getrlimit(kind))
os.setpriority(os.PRIO_PROCESS, 0, os.nice(1) + 1)
os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
os.sched_setaffinity(0, os.sched_getaffinity(0))
subprocess.run(["/bin/sh", "-c", "ulimit -n 64 && nice -n 2 true"], check=True)
with tempfile.NamedTemporaryFile() as f:
    assert f.name.startswith("/tmp/")
assert os.stat("x.db").st_uid == os.getuid() and os.stat("x.db").st_gid == os.getgid()
assert socket.if_nameindex() == [(1, "lo")]
