"""A session's files may take no more than the volume's limit.

Tried: files with holes, as large as may be, until they are more than that, in a folder that its owner may not list and where variables are kept.
"""
import time

os.makedirs("/mnt/data/.volume", exist_ok=True)
places = ["/mnt/data/.volume"]
if os.path.isdir("/mnt/.state"):
    places.append("/mnt/.state/.volume")
    os.makedirs(places[1], exist_ok=True)
os.chmod("/mnt/data" if os.stat("/mnt/data").st_uid == os.getuid() else "/mnt/data/.volume", 0o300)
each = FACTS["limits"]["file_bytes"]
count = FACTS["limits"]["volume_bytes"] // each + 1
for number in range(count):
    with open(f"{places[number % len(places)]}/{number}", "wb") as f:
        f.truncate(each)
# It is stopped while it goes on; one block after the other makes it known that it writes.
end = time.monotonic() + FACTS["patience_seconds"]
with open("/mnt/data/.volume/more", "wb", buffering=0) as f:
    while time.monotonic() < end:
        f.write(b"x" * 65536)
        time.sleep(0.02)
        if f.tell() > each // 2:
            f.seek(0)
            f.truncate()
raise AssertionError(f"{count} files of {mib(each)} were had")
