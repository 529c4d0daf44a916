"""What one session has frozen is never another's, and a frozen file that code has forged costs its own session only.

Tried: looking for what another session has frozen in every file, and by links in the place of the folder; variables that end the
interpreter when they are read, a file that is cut, one of noise.
"""
PLACE = "/mnt/.state/python.frozen"
theirs = (FACTS["token"] + "-kept").encode()
for top in ("/mnt/data", "/tmp", "/var/tmp", "/dev/shm", "/run", "/mnt", "/opt"):
    for folder, _, names in os.walk(top):
        for name in names:
            try:
                with open(os.path.join(folder, name), "rb") as f:
                    assert theirs not in f.read(1 << 24), f"{folder}/{name} is another session's"
            except OSError as err:
                refusals[errno.errorcode[err.errno]] += 1


class Deadly:
    def __reduce__(self):
        return os._exit, (3,)


if FACTS["forgery"] == "variables":
    read.__globals__["deadly"] = Deadly()
else:
    if not os.path.isfile(PLACE):
        raise NotTried("nothing was frozen")
    size = os.path.getsize(PLACE)
    if FACTS["forgery"] == "cut":
        os.truncate(PLACE, size // 2)
    else:
        with open(PLACE, "r+b") as f:
            f.seek(min(64, size // 2))
            f.write(os.urandom(1 << 20))
