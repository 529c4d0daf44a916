"""Operations on files for envd's API, as the sandbox's user: fs.py OPERATION REQUEST, both from the server. Answers are lines of JSON."""
import errno
import grp
import json
import os
import pwd
import shutil
import stat
import struct
import sys
import time

PREFIX = "user.e2b."
PART = ".e2b-part-"  # begins the name of a file that goes to its place
STATE = "/mnt/data/.state"  # no client's
PIECE = 1 << 18  # bytes
WORK = "/mnt/data"
names = ["/home/user", "/workspace"]  # its other names; the first is told


class Refused(Exception):
    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


def real(path):
    """The path that a client means: relative ones are of its home."""
    path = os.path.normpath(os.path.join(WORK, path.removeprefix("~/") if path != "~" else ""))
    for name in names:
        if path == name or path.startswith(name + "/"):
            names.insert(0, name)  # the client's own
            return WORK + path[len(name):]
    return path


def shown(path):
    return names[0] + path[len(WORK):] if path == WORK or path.startswith(WORK + "/") else path


def tell(answer):
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def name_of(find, number, own):
    if number == own:
        return "user"  # the vendor's name of the only one
    try:
        return find(number)[0]
    except KeyError:
        return str(number)


def attributes(path):
    try:
        return [n for n in os.listxattr(path) if n.startswith(PREFIX)]
    except OSError:  # its file system has none
        return []


def metadata_of(path):
    return {n[len(PREFIX):]: os.getxattr(path, n).decode("ascii", "replace") for n in attributes(path)}


def entry(path):
    own = os.lstat(path)
    target = None
    facts = own
    if stat.S_ISLNK(own.st_mode):
        target = os.path.realpath(path)
        try:
            facts = os.stat(path)
        except OSError:
            pass
    kind = "FILE_TYPE_UNSPECIFIED"
    if stat.S_ISDIR(facts.st_mode):
        kind = "FILE_TYPE_DIRECTORY"
    elif stat.S_ISREG(facts.st_mode):
        kind = "FILE_TYPE_FILE"
    elif stat.S_ISLNK(facts.st_mode):
        kind = "FILE_TYPE_SYMLINK"
    when = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(own.st_mtime)) + ".%09dZ" % (own.st_mtime_ns % 10**9)
    answer = {
        "name": os.path.basename(path.rstrip("/")) or "/", "type": kind, "path": shown(path), "size": str(own.st_size), "mode": stat.S_IMODE(own.st_mode),
        "permissions": stat.filemode(own.st_mode), "owner": name_of(pwd.getpwuid, own.st_uid, os.getuid()), "group": name_of(grp.getgrgid, own.st_gid, os.getgid()),
        "modifiedTime": when,
    }
    if stat.S_ISLNK(own.st_mode):
        answer["permissions"] = "L" + answer["permissions"][1:]
        answer["symlinkTarget"], answer["isSymlink"] = shown(target), True
    found = metadata_of(path)
    if found:
        answer["metadata"] = found
    return answer


def folder(path):
    if not os.path.isdir(path):
        os.lstat(path)
        raise Refused("invalid_argument", f"path is not a directory: {shown(path)}")


def listed(request):
    path = request["path"]
    folder(path)

    def walk(at, left):
        for name in sorted(os.listdir(at)):
            full = os.path.join(at, name)
            if full == STATE:
                continue
            try:
                tell({"entry": entry(full)})
                if left > 1 and os.path.isdir(full) and not os.path.islink(full):
                    walk(full, left - 1)
            except (FileNotFoundError, PermissionError):
                continue

    walk(path, request.get("depth") or 1)


def made(request):
    path = request["path"]
    if os.path.isdir(path):
        raise Refused("already_exists", f"directory already exists: {shown(path)}")
    if os.path.lexists(path):
        raise Refused("invalid_argument", f"path already exists but it is not a directory: {shown(path)}")
    os.makedirs(path)
    tell({"entry": entry(path)})


def moved(request):
    source, to = request["source"], request["destination"]
    os.lstat(source)
    os.makedirs(os.path.dirname(to), exist_ok=True)
    try:
        os.rename(source, to)
    except OSError as e:
        if e.errno != errno.EXDEV or os.path.isdir(to):
            raise
        shutil.move(source, to)
    tell({"entry": entry(to)})


def removed(request):
    path = request["path"]
    try:
        shutil.rmtree(path) if os.path.isdir(path) and not os.path.islink(path) else os.remove(path)
    except FileNotFoundError:
        pass


def described(request):
    path = request["path"]
    if "metadata" in request:
        for name in attributes(path):
            os.removexattr(path, name)
        for name, value in request["metadata"].items():
            os.setxattr(path, PREFIX + name, value.encode())
    tell({"entry": entry(path)})


def at_once(path, flags):
    """Opens a file without waiting for a pipe's other end."""
    return os.open(path, flags | os.O_NONBLOCK, 0o666)


def readable(request):
    path = request["path"]
    if os.path.isdir(path):
        raise Refused("invalid_argument", f"path '{shown(path)}' is a directory")
    with open(path, "rb", opener=at_once) as file:
        facts = os.fstat(file.fileno())
        if not stat.S_ISREG(facts.st_mode):
            raise Refused("invalid_argument", f"path '{shown(path)}' is no regular file")
        tell({"size": facts.st_size})  # which those of /proc do not say, and others outgrow: the content comes in HTTP's chunks
        while piece := file.read(PIECE):
            sys.stdout.buffer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        if os.fstat(file.fileno()).st_size < facts.st_size:
            sys.exit(1)  # a part must not be taken for the file
        sys.stdout.buffer.write(b"0\r\n\r\n")


def written(request):
    path = os.path.realpath(request["path"])
    if os.path.isdir(path):
        raise Refused("invalid_argument", f"path '{shown(path)}' is a directory")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    try:
        with open(os.open(path, os.O_WRONLY | os.O_NONBLOCK), "wb") as file:  # without waiting for a pipe's other end
            old = os.fstat(file.fileno())
            if not stat.S_ISREG(old.st_mode):
                shutil.copyfileobj(sys.stdin.buffer, file)
    except FileNotFoundError:
        old = None
    if old is None or stat.S_ISREG(old.st_mode):
        replace(path, old)
    described(request)


def replace(path, old):
    """Puts a file at its place when it is whole. Before that it has no name, where the file system can do this."""
    folder = os.path.dirname(path)
    beside = os.path.join(folder, PART + os.urandom(8).hex())
    try:
        part = os.open(folder, os.O_TMPFILE | os.O_WRONLY, 0o666)
        named = False
    except OSError as e:
        if e.errno not in (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL):
            raise
        part = os.open(beside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
        named = True
    try:
        with open(part, "wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
            if old:
                os.fchmod(part, stat.S_IMODE(old.st_mode))
            file.flush()
            if not named:
                os.link(f"/proc/self/fd/{part}", beside, dst_dir_fd=part)  # which makes it follow the link
                named = True
        if not old:  # for those who watch the folder a new file comes, and an old one changes
            try:
                os.link(beside, path)
            except OSError:  # another one has made it, or its file system has no links
                old = True
        if old:
            os.rename(beside, path)
            named = False
        os.chmod(path, stat.S_IMODE(os.stat(path).st_mode))  # the vendor's gives a file its owner, and then writes it
        os.truncate(path, os.path.getsize(path))
    finally:
        if named:
            os.unlink(beside)


def lacked(request):
    """Refuses what is not installed of packages, each behind apt, pip or npm and a colon."""
    import importlib.metadata
    import site
    import subprocess

    site.main()

    def has(kind, package):
        if kind == "apt":
            return subprocess.run(["dpkg-query", "-Wf", "${db:Status-Status}", "--", package], capture_output=True).stdout == b"installed"
        if kind == "npm":
            return os.path.isfile(f"/node_modules/{package}/package.json")
        try:
            from packaging.requirements import Requirement

            wanted = Requirement(package)
            return wanted.specifier.contains(importlib.metadata.version(wanted.name))
        except Exception:  # it is none, or not installed
            return False

    missing = [package for package in request["packages"] if not has(*package.split(":", 1))]
    if missing:
        raise Refused("invalid_argument", f"a template installs nothing here, and the image lacks {' '.join(missing)[:500]}")


def number(path):
    try:
        with open("/sys/fs/cgroup/" + path) as file:
            return int(file.read().split()[0])
    except (OSError, ValueError, IndexError):
        return 0


def counted(field, path):
    try:
        with open("/sys/fs/cgroup/" + path) as file:
            return int(dict(line.split() for line in file).get(field, 0))
    except (OSError, ValueError):
        return 0


def resident():
    """The memory of all processes, where the container's own count is hidden."""
    pages = 0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/statm") as file:
                pages += int(file.read().split()[1])
        except OSError:
            pass
    return pages * os.sysconf("SC_PAGESIZE")


def measured(request):
    began, used = time.monotonic(), counted("usage_usec", "cpu.stat")
    time.sleep(0.1)
    busy = (counted("usage_usec", "cpu.stat") - used) / 1e4 / (time.monotonic() - began)
    disk = shutil.disk_usage(request["path"])
    tell({"cpuUsedPct": round(busy, 2), "memUsed": number("memory.current") or resident(), "memCache": counted("file", "memory.stat"),
          "diskUsed": disk.used, "diskTotal": disk.total})


CREATE, WRITE, REMOVE, RENAME, CHMOD = ("EVENT_TYPE_" + name for name in ("CREATE", "WRITE", "REMOVE", "RENAME", "CHMOD"))
# inotify's masks, in the order in which one event counts.
MASKS = ((0x100, CREATE), (0x80, CREATE), (0x40, RENAME), (0x200, REMOVE), (0x2, WRITE), (0x4, CHMOD))
IS_FOLDER, IGNORED, OVERFLOW, MOST_FOLDERS = 0x40000000, 0x8000, 0x4000, 1000


def watched(request):
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    root, recursive, detailed = request["path"], request.get("recursive"), request.get("includeEntry")
    folder(root)
    fd, folders, part = libc.inotify_init1(0o2000000), {}, None
    wanted = sum(mask for mask, _ in MASKS)

    def add(path, known):
        if len(folders) >= MOST_FOLDERS or path == STATE:
            return
        number = libc.inotify_add_watch(fd, os.fsencode(path), wanted)
        if number < 0:
            return
        folders[number] = path
        if not recursive:
            return
        for item in os.scandir(path):
            if not known:  # it came before its folder was watched
                note(item.path, CREATE)
            if item.is_dir(follow_symlinks=False):
                add(item.path, known)

    def note(path, kind):
        if path == STATE or os.path.basename(path).startswith(PART):
            return
        event = {"name": os.path.relpath(path, root), "type": kind}
        if detailed:
            try:
                event["entry"] = entry(path)
            except OSError:
                pass
        tell({"event": event})

    add(root, True)
    if not folders:
        raise Refused("resource_exhausted", "no more folders can be watched")
    tell({"ready": True})
    while True:
        data = os.read(fd, 1 << 16)
        while data:
            number, mask, move, length = struct.unpack_from("iIII", data)
            name, data = data[16:16 + length].split(b"\0")[0], data[16 + length:]
            if mask & IGNORED:  # the folder is gone
                folders.pop(number, None)
            at = folders.get(number)
            if name.startswith(PART.encode()):
                part = move
                continue
            if at is None or mask & OVERFLOW or move and move == part:
                continue
            path = os.path.join(at, os.fsdecode(name))
            if name.startswith(b"#") and not os.path.lexists(path):  # one that has no name yet
                continue
            for bit, kind in MASKS:
                if mask & bit:
                    note(path, kind)
                    if kind == CREATE and mask & IS_FOLDER and recursive:
                        try:
                            add(path, False)
                        except OSError:
                            pass
                    break


OPERATIONS = {
    "list": listed, "make": made, "move": moved, "remove": removed, "stat": described, "read": readable, "write": written, "metrics": measured,
    "watch": watched, "lacks": lacked,
}


def main():
    try:
        request = json.loads(sys.argv[2])
        for field in ("path", "source", "destination"):
            if field in request:
                request[field] = real(request[field])
        OPERATIONS[sys.argv[1]](request)
    except Refused as e:
        tell({"error": {"code": e.code, "message": str(e)}})
    except FileNotFoundError as e:
        tell({"error": {"code": "not_found", "message": f"path '{shown(e.filename or '')}' does not exist"}})
    except (NotADirectoryError, FileExistsError, IsADirectoryError) as e:
        tell({"error": {"code": "invalid_argument", "message": f"{e.strerror}: {e.filename}"}})
    except OSError as e:
        if e.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            code, why = "permission_denied", "permission denied"
        else:
            code, why = "resource_exhausted" if e.errno in (errno.ENOSPC, errno.EDQUOT) else "internal", e.strerror
        tell({"error": {"code": code, "message": f"{why}: {e.filename}", "full": code == "resource_exhausted"}})


main()
