"""A session's files may take no more than the volume's limit.

Tried: files with holes, as large as may be, until they are more than that, in a folder that its owner may not list.
"""
import time

os.makedirs("/mnt/data/.volume", exist_ok=True)
os.chmod("/mnt/data" if os.stat("/mnt/data").st_uid == os.getuid() else "/mnt/data/.volume", 0o300)
each = FACTS["limits"]["file_bytes"]
count = FACTS["limits"]["volume_bytes"] // each + 1
for number in range(count):
    with open(f"/mnt/data/.volume/{number}", "wb") as f:
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
