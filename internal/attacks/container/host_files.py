"""No file of the host can be reached.

Tried: files that the self-test has just made there, by their paths, by way of /proc and upwards from here.
"""
if not FACTS["files"]:
    raise NotTried("the engine is on another machine")
for path in FACTS["files"]:
    for way in (path, "/proc/1/root" + path, "/proc/self/root" + path, "/mnt/data/" + "../" * 20 + path, "/proc/1/cwd/" + "../" * 20 + path):
        refused(lambda: read(way))
