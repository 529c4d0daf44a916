"""The files program: brings files into a session and out of it.

It speaks the frames of docs/kernel-protocol.md, "The files program", on stdin and stdout, is
started as ``python3 -I -c SOURCE`` in the session's container, and needs nothing but the standard
library of Python 3.8 or later. The session's code runs beside it as the same user and changes
files, folders and links at any moment; what it could not reach itself it does not reach through
this program.
"""

import errno
import fcntl
import json
import os
import signal
import stat
import sys
import time
import unicodedata

from prctl import hide
from tree import Count, Tree
from utf8 import partial_tail

HEADER_BYTES = 64 << 10
BLOB_BYTES = 1 << 20
ENTRIES_BYTES = 900_000  # of one frame of a list, before what JSON adds
ENTRIES_MOST = 500
LIST_DEPTH = 200
PATH_BYTES = 4096
NAME_BYTES = 255
UPLOADS = ".uploads"
STALE_SECONDS = 600  # after which a part is a dead program's
PRIVATE_NAMES = ("node_modules", "__pycache__")
COUNT_SHARE = 20  # counting takes no more than this part of the time that data comes
F_SETPIPE_SZ = 1031

CODES = {
    errno.ENOENT: "not_found",
    errno.EEXIST: "file_exists",
    errno.EISDIR: "is_directory",
    errno.ENOTDIR: "invalid_path",
    errno.ELOOP: "invalid_path",
    errno.ENAMETOOLONG: "invalid_path",
    errno.ENXIO: "invalid_path",
    errno.ENOSPC: "quota_exceeded",
    errno.EDQUOT: "quota_exceeded",
    errno.EFBIG: "quota_exceeded",
}


class Failure(Exception):
    """An answer that is an error."""

    def __init__(self, code, message, size_bytes=0):
        super().__init__(message)
        self.code = code
        self.size_bytes = size_bytes


class Breach(Exception):
    """The server broke the protocol; nothing that follows could be understood."""


# ---------------------------------------------------------------------------------------
# Frames


class Channel:
    """The frames on stdin and stdout."""

    def __init__(self):
        for fd in (0, 1):
            try:
                fcntl.fcntl(fd, F_SETPIPE_SZ, BLOB_BYTES)
            except OSError:  # no pipe, or no more room for this user
                pass
        self.stdin = sys.stdin.buffer

    def read(self):
        """The next (header, blob), or None at the end of stdin, also in the middle of a frame."""
        sizes = self.stdin.read(8)
        if len(sizes) < 8:
            return None
        header_size, blob_size = int.from_bytes(sizes[:4], "big"), int.from_bytes(sizes[4:], "big")
        if header_size > HEADER_BYTES or blob_size > BLOB_BYTES:
            raise Breach("a frame of %d and %d bytes" % (header_size, blob_size))
        header, blob = self.stdin.read(header_size), self.stdin.read(blob_size)
        if len(header) < header_size or len(blob) < blob_size:
            return None
        try:
            message = json.loads(header)
        except (ValueError, RecursionError):
            raise Breach("a header that is no JSON") from None
        if not isinstance(message, dict):
            raise Breach("a header that is no object")
        return message, blob

    def send(self, message, blob=b""):
        header = json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
        sizes = len(header).to_bytes(4, "big") + len(blob).to_bytes(4, "big")
        self._write(sizes + header)
        if blob:
            self._write(blob)

    @staticmethod
    def _write(data):
        data = memoryview(data)
        while data:
            data = data[os.write(1, data) :]


def integer(message, name, default=0):
    value = message.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int):
        raise Failure("failed", "%s is no whole number" % name)
    return max(-1, min(value, 1 << 62))


# ---------------------------------------------------------------------------------------
# Paths


def is_text(name):
    """Whether a name can be told: UTF-8 without control characters."""
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return name.isprintable() or not any(unicodedata.category(c) == "Cc" for c in name)


def path_parts(path):
    """The names in a path of a request, when it is one that may be used."""
    if not isinstance(path, str) or not path:
        raise Failure("invalid_path", "the path is no text, or empty")
    if not is_text(path):
        raise Failure("invalid_path", "the path is no UTF-8, or has control characters")
    parts = path.split("/")
    if any(part in ("", ".", "..") for part in parts):
        raise Failure("invalid_path", "the path is absolute, or has an empty, a '.' or a '..' part")
    if len(path.encode()) >= PATH_BYTES or any(len(part.encode()) > NAME_BYTES for part in parts):
        raise Failure("invalid_path", "the path is too long")
    if parts[0] == UPLOADS:
        raise Failure("invalid_path", "%s is where parts of files are kept" % UPLOADS)
    return parts


class WorkDir:
    """The work directory, and the way from a path to what is there."""

    def __init__(self, path):
        self.fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self.root = location(self.fd)

    def find(self, message):
        """The names of a request's path as they are on the disk: each in the Unicode form that is there."""
        path = message.get("path")
        parts = path_parts(path)
        if message.get("exact") is True or path.isascii() or self._is_there(parts):
            return parts
        found = []
        for part in parts:
            forms = (part, unicodedata.normalize("NFC", part), unicodedata.normalize("NFD", part))
            found.append(next((form for form in forms if self._is_there(found + [form])), part))
        return found

    def _is_there(self, parts):
        try:
            os.stat("/".join(parts), dir_fd=self.fd, follow_symlinks=False)
        except OSError:
            return False
        return True

    def check_inside(self, fd):
        """Refuses what a link has led to outside: /proc tells where a descriptor really is."""
        where = location(fd)
        if where != self.root and not where.startswith(self.root.rstrip("/") + "/"):
            raise Failure("invalid_path", "a link leads out of the work directory")

    def open_file(self, parts):
        """Opens a regular file for reading. Nothing else is opened, so that nothing waits or takes effect."""
        place = os.open("/".join(parts), os.O_PATH | os.O_CLOEXEC, dir_fd=self.fd)
        try:
            self.check_inside(place)
            mode = os.fstat(place).st_mode
            if stat.S_ISDIR(mode):
                raise Failure("is_directory", "it is a folder")
            if not stat.S_ISREG(mode):
                raise Failure("invalid_path", "it is no regular file")
            return os.open("/proc/self/fd/%d" % place, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        finally:
            os.close(place)

    def open_folder(self, parts, make=False):
        """Opens a folder, step by step, and makes what is missing; None where it is missing and stays so."""
        fd = os.dup(self.fd)
        for part in parts:
            try:
                inner = self._step(fd, part, make)
            finally:
                os.close(fd)
            if inner is None:
                return None
            fd = inner
        return fd

    def _step(self, fd, part, make):
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        try:
            inner = os.open(part, flags, dir_fd=fd)
        except FileNotFoundError:
            if not make:
                return None
            try:
                os.mkdir(part, dir_fd=fd)
            except FileExistsError:  # another was faster, or it is a link to nothing
                pass
            try:
                inner = os.open(part, flags, dir_fd=fd)
            except FileNotFoundError:
                raise Failure("invalid_path", "a link in the path leads nowhere") from None
        try:
            self.check_inside(inner)
        except BaseException:
            os.close(inner)
            raise
        return inner

    def uploads(self):
        """The folder of the parts: a real one, whatever code has put in its place."""
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            return os.open(UPLOADS, flags, dir_fd=self.fd)
        except FileNotFoundError:
            pass
        except OSError as e:
            if e.errno not in (errno.ELOOP, errno.ENOTDIR):
                raise
            os.unlink(UPLOADS, dir_fd=self.fd)
        try:
            os.mkdir(UPLOADS, 0o700, dir_fd=self.fd)
        except FileExistsError:  # another program of this kind
            pass
        return os.open(UPLOADS, flags, dir_fd=self.fd)

    def remove_stale_parts(self):
        try:
            folder = os.open(UPLOADS, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self.fd)
        except OSError:
            return
        try:
            for name in os.listdir(folder):
                try:
                    info = os.stat(name, dir_fd=folder, follow_symlinks=False)
                    if not stat.S_ISDIR(info.st_mode) and time.time() - info.st_mtime > STALE_SECONDS:
                        os.unlink(name, dir_fd=folder)
                except OSError:
                    continue
        finally:
            os.close(folder)


def location(fd):
    return os.readlink("/proc/self/fd/%d" % fd)


# ---------------------------------------------------------------------------------------
# A file comes


class Quota:
    """Holds the work directory to its limit while a part grows, with what others write meanwhile."""

    def __init__(self, work, message):
        self.work = work
        self.most_bytes = max(0, integer(message, "limit_bytes"))
        self.most_files = max(0, integer(message, "limit_files"))
        self.bytes = self.files = 0  # without the part
        self.due = 0.0

    def count(self, part_bytes=0, part_files=0):
        if not self.most_bytes and not self.most_files:
            return
        started = time.monotonic()
        count = Count(self.work.fd, entries=None, unlock=True).finish()
        self.bytes, self.files = count.bytes - part_bytes, count.files - part_files
        if not count.complete:
            raise Failure("quota_exceeded", "the files cannot be counted: a folder does not let itself be read")
        now = time.monotonic()
        self.due = now + max(1.0, COUNT_SHARE * (now - started))

    def check(self, part_bytes, more_files):
        """Refuses a part of that size that brings so many new entries."""
        if self.most_bytes and self.bytes + part_bytes > self.most_bytes:
            raise Failure(
                "quota_exceeded", "the files would take more than %d bytes" % self.most_bytes, self.bytes + part_bytes
            )
        if self.most_files and self.files + more_files > self.most_files:
            raise Failure("quota_exceeded", "there would be more than %d files" % self.most_files, self.bytes)


class Put:
    """One file on its way in: a part in a folder of its own until it is whole."""

    def __init__(self, work, message):
        self.work = work
        self.parts = work.find(message)
        self.overwrite = message.get("overwrite") is True
        self.mode = integer(message, "mode") & 0o777 or 0o644
        self.modified_ms = integer(message, "modified_ms")
        self.size = 0
        self.folder = self.fd = -1
        self.name = os.urandom(8).hex()
        self.quota = Quota(work, message)
        self.new_files = 1
        self._check_place()
        self.quota.count()
        self.quota.check(0, self.new_files)
        try:
            self._make_part()
        except BaseException:
            self.drop()
            raise

    def _make_part(self):
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        self.folder = self.work.uploads()
        self.fd = os.open(self.name, flags, 0o644, dir_fd=self.folder)

    def _check_place(self):
        """Tells early what would stand in the way, and how many entries the file brings."""
        folders = self.parts[:-1]
        folder = self.work.open_folder(folders)
        while folder is None:
            self.new_files += 1
            folders = folders[:-1]
            folder = self.work.open_folder(folders)
        try:
            if self.new_files == 1:
                self._check_name(folder)
        finally:
            os.close(folder)

    def _check_name(self, folder):
        name = self.parts[-1]
        try:
            info = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return
        if stat.S_ISDIR(info.st_mode) or (stat.S_ISLNK(info.st_mode) and is_folder(name, folder)):
            raise Failure("is_directory", "there is a folder of that name")
        if not stat.S_ISREG(info.st_mode) and not stat.S_ISLNK(info.st_mode):
            raise Failure("invalid_path", "there is something of that name that is no regular file")
        if not self.overwrite:
            raise Failure("file_exists", "there is a file of that name", info.st_size)

    def write(self, data):
        self.quota.check(self.size + len(data), self.new_files)
        data = memoryview(data)
        while data:
            written = os.write(self.fd, data)
            self.size += written
            data = data[written:]
        if time.monotonic() > self.quota.due > 0:
            self.quota.count(self.size, 1)
            self.quota.check(self.size, self.new_files)

    def commit(self):
        try:
            self._finish_part()
            folder = self.work.open_folder(self.parts[:-1], make=True)
            try:
                self._check_name(folder)
                self._place(folder)
            finally:
                os.close(folder)
        finally:
            self.drop()
        return {"ok": True, "path": "/".join(self.parts), "size_bytes": self.size}

    def _finish_part(self):
        os.fchmod(self.fd, self.mode)
        if self.modified_ms > 0:
            os.utime(self.fd, ns=(self.modified_ms * 1_000_000,) * 2)
        there = os.stat(self.name, dir_fd=self.folder, follow_symlinks=False)
        mine = os.fstat(self.fd)
        if (there.st_dev, there.st_ino, mine.st_size) != (mine.st_dev, mine.st_ino, self.size):
            raise Failure("changed", "code in the sandbox changed the file before it was whole")

    def _place(self, folder):
        if self.overwrite:
            os.rename(self.name, self.parts[-1], src_dir_fd=self.folder, dst_dir_fd=folder)
            self.name = ""
        else:
            os.link(self.name, self.parts[-1], src_dir_fd=self.folder, dst_dir_fd=folder, follow_symlinks=False)

    def drop(self):
        """Removes what is left of the part. More calls do nothing."""
        if self.folder < 0:
            return
        if self.fd >= 0:
            os.close(self.fd)
            try:
                if self.name:
                    os.unlink(self.name, dir_fd=self.folder)
            except OSError:
                pass
        os.close(self.folder)
        self.folder = self.fd = -1


def is_folder(name, dir_fd):
    try:
        return stat.S_ISDIR(os.stat(name, dir_fd=dir_fd).st_mode)
    except OSError:
        return False


# ---------------------------------------------------------------------------------------
# A file goes


class Get:
    """One file on its way out, no further than its size was when it was opened."""

    def __init__(self, work, message):
        self.offset = max(0, integer(message, "offset"))
        self.limit = integer(message, "limit")
        self.in_lines = message.get("unit") == "lines"
        self.most = integer(message, "max_bytes") if self.in_lines else 0
        parts = work.find(message)
        self.path = "/".join(parts)
        self.fd = work.open_file(parts)
        self.info = os.fstat(self.fd)
        self.size = self.info.st_size
        self.at = 0  # how far the file has been read
        self.sent = self.lines = 0

    def answer(self, send):
        send({"ok": True, "path": self.path, "size_bytes": self.size, "modified_ms": modified_ms(self.info)})
        pieces = self._line_pieces() if self.in_lines else self._byte_pieces()
        for piece in pieces:
            self.sent += len(piece)
            send({"data": True}, piece)
        now = os.fstat(self.fd)
        send({
            "end": True,
            "bytes": self.sent,
            "first_line": self.offset + 1 if self.lines else 0,
            "lines": self.lines,
            "complete": self.at >= self.size,
            "changed": [now.st_size, now.st_mtime_ns, now.st_ctime_ns]
            != [self.size, self.info.st_mtime_ns, self.info.st_ctime_ns],
        })

    def close(self):
        os.close(self.fd)

    def _read(self, most):
        piece = os.pread(self.fd, min(most, BLOB_BYTES, self.size - self.at), self.at)
        self.at += len(piece)
        return piece

    def _byte_pieces(self):
        self.at = min(self.offset, self.size)
        end = self.size if self.limit < 0 else min(self.size, self.at + self.limit)
        while self.at < end:
            piece = self._read(end - self.at)
            if not piece:
                return
            yield piece

    def _line_pieces(self):
        left_bytes = self.most if self.most > 0 else self.size
        left_lines = self.size if self.limit < 0 else self.limit
        if not left_lines or not self._pass_over(self.offset):
            return
        open_line = False  # a line whose end has not come yet
        while left_bytes > 0 and left_lines > 0:
            piece = self._read(left_bytes)
            if not piece:
                break
            kept = first_lines(piece, left_lines)
            cut = self.at < self.size and len(piece) == left_bytes and kept == len(piece)
            if cut:  # the last that there is room for: no half character
                kept = len(piece) - half_character(piece)
            self.at -= len(piece) - kept
            piece = piece[:kept]
            ends = piece.count(b"\n")
            left_lines -= ends
            left_bytes = 0 if cut else left_bytes - kept
            self.lines += ends
            open_line = not piece.endswith(b"\n")
            yield piece
        self.lines += open_line

    def _pass_over(self, lines):
        """Reads over so many lines; tells whether anything follows."""
        while lines > 0:
            piece = self._read(BLOB_BYTES)
            if not piece:
                return False
            ends = piece.count(b"\n")
            if ends >= lines:
                self.at -= len(piece) - first_lines(piece, lines)
            lines -= ends
        return self.at < self.size


def first_lines(piece, lines):
    """Where the first so many lines of a piece end; its length where it has no more."""
    if piece.count(b"\n") < lines:
        return len(piece)
    end = 0
    if lines > 1000:  # from the back where that is the shorter way
        end = len(piece)
        for _ in range(piece.count(b"\n") - lines + 1):
            end = piece.rindex(b"\n", 0, end)
        return end + 1
    for _ in range(lines):
        end = piece.index(b"\n", end) + 1
    return end


def half_character(piece):
    """How many bytes at the end begin a character that is not complete; 0 where it is all there is."""
    partial = partial_tail(piece)
    return partial if partial < len(piece) else 0


def modified_ms(info):
    return info.st_mtime_ns // 1_000_000


# ---------------------------------------------------------------------------------------
# The list


class List:
    """What is in the work directory."""

    def __init__(self, work, message):
        self.everything = message.get("everything") is True
        self.tree = Tree(work.fd, wanted=self._wanted, depth=LIST_DEPTH)
        self.skipped = 0
        self.entries, self.bytes = [], 0

    def _wanted(self, name, depth):
        if depth == 0 and name == UPLOADS:
            return False
        if not self.everything and (name[0] == "." or name in PRIVATE_NAMES):
            return False
        if not is_text(name):
            self.skipped += 1
            return False
        return True

    def answer(self, send):
        for path, entry in self.tree:
            try:
                described = self._describe(path, entry)
            except OSError:
                continue  # gone since it was listed
            if described is not None:
                self._add(described, send)
        self._flush(send)
        send({"end": True, "complete": self.tree.complete, "skipped": self.skipped})

    def _describe(self, path, entry):
        info = entry.stat(follow_symlinks=False)
        kind, target, size = "f", "", info.st_size
        if not stat.S_ISREG(info.st_mode):
            if not self.everything:
                return None
            if stat.S_ISDIR(info.st_mode):
                kind, size = "d", 0
            elif stat.S_ISLNK(info.st_mode):
                kind, target = "l", os.readlink(entry.name, dir_fd=self.tree.here)
            if kind == "f" or not is_text(target):
                self.skipped += 1
                return None
        return [path, kind, size, modified_ms(info), stat.S_IMODE(info.st_mode), target]

    def _add(self, described, send):
        size = 2 * len(described[0].encode()) + 2 * len(described[5].encode())
        if len(self.entries) == ENTRIES_MOST or self.bytes + size > ENTRIES_BYTES:
            self._flush(send)
        self.entries.append(described)
        self.bytes += size

    def _flush(self, send):
        if self.entries:
            send({"entries": self.entries})
        self.entries, self.bytes = [], 0


# ---------------------------------------------------------------------------------------
# Requests


class Program:
    """Answers requests, one after another."""

    def __init__(self, channel):
        self.channel = channel
        self.work = None
        self.put = None
        self.passing = False  # data of a put that has failed

    def serve(self):
        try:
            while True:
                frame = self.channel.read()
                if frame is None:
                    return
                self._take(*frame)
        finally:
            self._end_put()

    def _take(self, message, blob):
        op = message.get("op")
        if op in ("data", "commit", "abort"):
            answer = self._go_on(op, blob)
        else:
            self.passing = False
            self._end_put()
            answer = self._attempt(self._begin, op, message)
        if answer is not None:
            self.channel.send(answer)

    def _attempt(self, step, *args):
        """What a step answers, or the error that it ended in."""
        try:
            return step(*args)
        except Failure as e:
            error = {"code": e.code, "message": str(e), "size_bytes": e.size_bytes}
        except BrokenPipeError:
            raise  # nobody reads any more
        except OSError as e:
            error = {"code": CODES.get(e.errno, "failed"), "message": os.strerror(e.errno or 0), "size_bytes": 0}
        return {"error": error}

    def _begin(self, op, message):
        if op == "hello":
            return self._hello(message)
        if self.work is None:
            raise Failure("failed", "hello has to come first")
        if op == "put":
            self.passing = True  # until it has worked
            self.put = Put(self.work, message)
            self.passing = False
            return {"ok": True}
        if op == "get":
            return self._get(message)
        if op == "list":
            return List(self.work, message).answer(self.channel.send)
        if op == "mkdir":
            return self._make_folder(self.work.find(message))
        if op == "symlink":
            return self._make_link(self.work.find(message), message.get("target"))
        if op == "usage":
            count = Count(self.work.fd).finish()
            return {"ok": True, "bytes": count.bytes, "files": count.files, "complete": count.complete}
        raise Failure("failed", "there is no such request")

    def _hello(self, message):
        path = message.get("work_dir")
        if not isinstance(path, str) or "\0" in path:
            raise Failure("failed", "work_dir is no path")
        self.work = WorkDir(path)
        self.work.remove_stale_parts()
        return {"ok": True}

    def _go_on(self, op, blob):
        """A frame of a put that goes on, or that has failed."""
        if self.put is None:
            if not self.passing:
                return {"error": {"code": "failed", "message": "no put goes on", "size_bytes": 0}}
            self.passing = op == "data"
            return None
        if op == "abort":
            self._end_put()
            return {"ok": True}
        answer = self._attempt(self.put.commit if op == "commit" else lambda: self.put.write(blob))
        if op == "commit" or answer is not None:
            self._end_put()
            self.passing = op == "data"
        return answer

    def _end_put(self):
        if self.put is not None:
            self.put.drop()
            self.put = None

    def _get(self, message):
        get = Get(self.work, message)
        try:
            get.answer(self.channel.send)
        finally:
            get.close()

    def _make_folder(self, parts):
        try:
            os.close(self.work.open_folder(parts, make=True))
        except NotADirectoryError:
            raise Failure("file_exists", "there is a file where a folder should be") from None
        return {"ok": True}

    def _make_link(self, parts, target):
        if not isinstance(target, str) or not 0 < len(target) < PATH_BYTES or not is_text(target):
            raise Failure("invalid_path", "the target of a link is empty, too long, or no text")
        folder = self.work.open_folder(parts[:-1], make=True)
        try:
            os.symlink(target, parts[-1], dir_fd=folder)
        finally:
            os.close(folder)
        return {"ok": True}


def main():
    hide()  # or the session's code could write frames in this program's name
    for signum in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(signum, lambda *_: sys.exit(1))
    try:
        Program(Channel()).serve()
    except BrokenPipeError:
        pass
    except Breach as e:
        sys.exit("the server broke the protocol: %s" % e)


if __name__ == "__main__":
    main()
