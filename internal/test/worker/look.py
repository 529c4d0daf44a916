"""Looks for a key in all that code in a session can read, and prints the places in which it is.

    python3 look.py HEX [plant]

HEX is the key with its bits turned, so that this program and its command line do not have it. With plant it puts the key into each place
first, to show that it is found there.
"""
import json
import os
import subprocess
import sys
import tempfile

KEY = bytes(255 - b for b in bytes.fromhex(sys.argv[1]))
OWN = {"work folder": ["/mnt/data"], "state folder": ["/mnt/.state"], "temporary folders": ["/tmp", "/var/tmp", "/dev/shm", "/run"]}
OTHER = [p for p in (os.path.join("/", name) for name in os.listdir("/")) if p not in ("/proc", "/sys", "/mnt", "/tmp", "/run", "/dev")]
known = b"PRETTY_NAME="  # of /etc/os-release: code writes nowhere else, and so cannot plant anything there


def holds(path, wanted=KEY):
    try:
        with open(path, "rb") as file:
            kept = b""
            while piece := file.read(1 << 22):
                if wanted in piece or wanted in kept + piece[:len(wanted)]:
                    return True
                kept = piece[-len(wanted):]
    except OSError:
        pass
    return False


def in_files(tops, wanted=KEY):
    for top in tops:
        for folder, _, names in os.walk(top):
            if any(wanted in os.fsencode(name) for name in names):
                return True
            for name in names:
                path = os.path.join(folder, name)
                if os.path.isfile(path) and not os.path.islink(path) and holds(path, wanted):
                    return True
    return False


def in_memory(process):
    global readable
    try:
        with open(f"/proc/{process}/maps") as maps, open(f"/proc/{process}/mem", "rb", 0) as memory:
            for line in maps:
                span, rights = line.split()[:2]
                begin, end = (int(n, 16) for n in span.split("-"))
                if "r" not in rights:
                    continue
                try:
                    memory.seek(begin)
                    while begin < end:
                        piece = memory.read(min(end - begin, 1 << 24))
                        if not piece:
                            break
                        if KEY in piece:
                            return True
                        begin += len(piece)
                except (OSError, OverflowError, ValueError):
                    pass
            readable += 1
    except OSError:
        pass
    return False


def in_open_files(process):
    try:
        return any(os.path.isfile(f"/proc/{process}/fd/{number}") and holds(f"/proc/{process}/fd/{number}") for number in os.listdir(f"/proc/{process}/fd"))
    except OSError:
        return False


planted = None
if "plant" in sys.argv:
    os.environ["PLANTED"] = KEY.decode()
    for tops in OWN.values():
        with open(os.path.join(tops[0], "planted"), "wb") as file:
            file.write(KEY)
    gone = tempfile.TemporaryFile(dir="/tmp")
    gone.write(KEY)
    gone.flush()
    planted = subprocess.Popen(["python3", "-c", "import time; time.sleep(300)", KEY.decode()], stdin=gone)
    print(KEY.decode())
readable = 0
others = [p for p in os.listdir("/proc") if p.isdecimal() and int(p) != os.getpid()]
found = {
    "environment": KEY in b"\0".join(os.environb.values()),
    "environment of every process": any(holds(f"/proc/{p}/environ") for p in others),
    "command line of every process": any(holds(f"/proc/{p}/cmdline") for p in others),
    "memory of every process": any([in_memory(p) for p in others]),
    "open files of every process": any(in_open_files(p) for p in others),
    **{name: in_files(tops) for name, tops in OWN.items()},
    "all other files": in_files(OTHER, known if planted else KEY),
}
if planted:
    planted.kill()
    for tops in OWN.values():
        os.remove(os.path.join(tops[0], "planted"))
print("LOOKED " + json.dumps({"found": found, "processes": len(others), "readable": readable}))
