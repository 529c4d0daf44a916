"""Forged frames spoil nothing but the code's own run.

Tried: garbage, huge lengths, deep nesting and forged results, written to every descriptor that is inherited or found.
"""
import stat
import struct


def frame(message, kind=b"c"):
    data = message if isinstance(message, bytes) else json.dumps(message).encode()
    return struct.pack(">I", len(data)) + kind + data


def report(message):
    """A frame as a kernel tells it to its supervisor: a header and a blob."""
    data = json.dumps(message).encode()
    return struct.pack(">II", len(data), 0) + data


forged = [
    {"type": "done", "id": name, "status": "completed", "result": FACTS["token"], "kernel": "alive", "artifacts": [{"path": "../../etc/passwd"}]}
    for name in ("run-x", "", None, 1)
] + [
    {"type": kind, "id": "run-x", "pid": 1, "n": -1, "data": {"image/png": "!!"}, "path": "../../etc/passwd", "state": "dead"}
    for kind in ("display", "progress", "peek", "kernel", "usage", "log", "ready", "pong", "stop", "init", "run", "attach")
]
# What is well formed comes first: the rest ends a connection.
ends = [{"type": "done", "id": name, "result": FACTS["token"], "goes_on": [FACTS["token"]]} for name in ("run-x", "")]
payloads = [report(m) for m in ends + forged] + [frame(m) for m in forged] + [
    frame(b"[" * 60000), frame(b"hello"), frame(b""), frame(b'{"n": 1e999999}'), frame(b"\0" * 12, b"s"), frame(b"hello", b"s"), frame(b"", b"x"),
    struct.pack(">I", 1000) + b"c{", struct.pack(">II", 0xFFFFFFFF, 0xFFFFFFFF) + b"x" * 65536, b"\xff\x00garbage\n" * 1000,
]
targets = list(range(3, 1024))
for pid in [name for name in os.listdir("/proc") if name.isdigit() and name != str(os.getpid())]:
    try:
        for name in os.listdir(f"/proc/{pid}/fd"):
            targets.append(os.open(f"/proc/{pid}/fd/{name}", os.O_WRONLY | os.O_NONBLOCK))
    except OSError as err:
        refusals[errno.errorcode[err.errno]] += 1
for fd in targets:
    try:
        mode = os.fstat(fd).st_mode
        if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
            continue
        os.set_blocking(fd, False)
    except OSError:
        continue
    for payload in payloads:
        try:
            os.write(fd, payload)
        except OSError as err:
            refusals[errno.errorcode[err.errno]] += 1
