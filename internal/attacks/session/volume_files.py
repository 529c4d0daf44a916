"""A session may have no more files and folders than the limit.

Tried: empty files, a thousand to a folder, until they are more than that. Where the limit is above 10,000, a session with that limit is attacked.
"""
import time

many = FACTS["limits"]["volume_files"] + 1
for number in range(many):
    if number % 1000 == 0:
        os.makedirs(f"/mnt/data/.volume/{number // 1000}", exist_ok=True)
    os.close(os.open(f"/mnt/data/.volume/{number // 1000}/{number}", os.O_CREAT | os.O_WRONLY, 0o600))
# It is stopped while it goes on, on a slow machine as late as its files are counted.
end = time.monotonic() + FACTS["patience_seconds"]
while time.monotonic() < end:
    many += 1
    os.close(os.open(f"/mnt/data/.volume/0/more {many}", os.O_CREAT | os.O_WRONLY, 0o600))
    time.sleep(0.02)
raise AssertionError(f"{many} files were had")
