"""Of the host's file systems, only the session's volumes are there, with their options, what --mount names, and our own programs to read.

Tried: every mount, the sockets of Podman, Docker and systemd.
"""
# These three Podman writes for the container; they name its own user and host name.
OWN = {"/etc/passwd", "/etc/group", "/etc/hostname", "/run/.containerenv"}
# These are the kubelet's, made for the pod, of the node's own file system.
KUBELET = {"/etc/hosts", "/etc/hostname", "/etc/resolv.conf"} if POD else set()
MESSAGE = "/root/termination-log"
VIRTUAL = {"proc", "sysfs", "tmpfs", "devpts", "mqueue", "cgroup", "cgroup2"}
volumes = {}
for line in read("/proc/self/mounts").splitlines():
    _, place, kind, options, *_ = line.split()
    options = options.split(",")
    if place == "/":
        pass  # whether it can be written to is told elsewhere
    elif place in ("/mnt/data", "/mnt/.state"):
        volumes[place] = options
    elif place == "/opt/code-sandbox-mcp":
        # The programs of the sandbox itself, for all containers.
        assert "ro" in options, line
        refused(lambda: open(place + "/own", "w"))
    elif place in FACTS["mounts"]:
        pass  # what may be done there is told elsewhere
    elif place in KUBELET:
        refused(lambda: open(place, "a"))
    elif POD and place == MESSAGE:
        pass  # it comes below
    elif place in OWN:
        assert "ro" in options, line
    elif kind == "devtmpfs" and place.startswith(("/proc/", "/sys/")):
        # A file is masked with /dev/null over it.
        assert read(place) == "", line
    elif kind == "devtmpfs":
        # Rootless, the harmless devices are bound from the host one by one.
        assert place in {"/dev/" + d for d in ("null", "zero", "full", "tty", "random", "urandom")}, line
    else:
        assert kind in VIRTUAL, line
assert "rw" in volumes["/mnt/data"], volumes
# gVisor does not show the two; that no device can be made is tried elsewhere.
assert FACTS["gvisor"] or POD or all({"nosuid", "nodev"} <= set(options) for options in volumes.values()), volumes
for sock in ("/run/podman/podman.sock", "/var/run/docker.sock", "/run/user/1000/podman/podman.sock", "/run/systemd/private", *FACTS["sockets"]):
    refused(lambda: os.stat(sock))
namespace("mnt")
if POD and os.access(MESSAGE, os.W_OK):
    raise Unenforced(
        f"the kubelet gives each container a file of the node for its last words, {MESSAGE}, which code can write to, up to the limit of one file, until the pod is removed: the image's /root is open",
        "an image whose /root is its owner's alone, or a smaller --file-limit")
