"""The neighbour is as it was."""
for folder in ("/mnt/data", "/tmp", "/dev/shm"):
    assert read(f"{folder}/{FACTS['token']}") == FACTS["token"], folder
assert FACTS["token"] in read(f"/proc/{FACTS['pid']}/cmdline"), "its process has gone"
