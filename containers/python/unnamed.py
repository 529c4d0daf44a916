"""Files that have no name any more and still take room, because a process has them open or mapped.

No walk of a folder finds them; the processes that hold them do, in /proc.
"""

import os
import stat

from processes import has_ended, shown_in

THREADS = 5  # that may end, one after the other, while one process is looked at
LISTINGS = 8  # of what one process has open, where something was gone whenever its turn came


class Unnamed:
    """Those of a work directory, each counted once.

    `bytes` is what counts, `disk_bytes` what their blocks take; of one that is only mapped both are its length
    as far as it is mapped. `hidden` is the processes that do not let their files be looked at. Where `is_sure`
    is false, something may have been missed: what is on its way through a socket, say, is open nowhere.
    """

    def __init__(self, dir_fd, pids):
        self.hidden = set()
        self.is_sure = True
        self._device = os.fstat(dir_fd).st_dev
        self._below = os.readlink("/proc/self/fd/%d" % dir_fd) + "/"
        self._opened = {}  # inode: bytes, and those on the disk
        self._mapped = {}  # inode: length
        for pid in pids:
            self._add(pid)
        only_mapped = sum(self._mapped[inode] for inode in self._mapped.keys() - self._opened.keys())
        self.bytes = sum(max(sizes) for sizes in self._opened.values()) + only_mapped
        self.disk_bytes = sum(on_disk for _, on_disk in self._opened.values()) + only_mapped

    def _add(self, pid):
        try:
            for _ in range(THREADS):
                folder = shown_in(pid)
                try:
                    if not self._add_all(folder):
                        self.is_sure = False
                except (FileNotFoundError, ProcessLookupError):
                    continue
                except PermissionError:
                    if has_ended(folder):
                        continue
                    if _is_undumpable(folder):  # and not only of other rights
                        self.hidden.add(pid)
                    return
                if not has_ended(folder):
                    return
            self.is_sure = False
        except (FileNotFoundError, ProcessLookupError):
            pass  # it has ended
        except OSError:
            self.is_sure = False  # for want of descriptors, perhaps

    def _add_all(self, folder):
        """Tells whether nothing was missed: what gets another number meanwhile is looked for again."""
        self._add_file(os.stat(folder + "/exe"))
        self._add_mapped(folder)
        seen = set()
        for _ in range(LISTINGS):
            missed = False
            for name in os.listdir(folder + "/fd"):
                if name not in seen:
                    try:
                        self._add_open(folder, name)
                    except OSError:  # closed meanwhile
                        missed = True
                    else:
                        seen.add(name)
            if not missed:
                return True
        return False

    def _add_open(self, folder, name):
        info = os.stat("%s/fd/%s" % (folder, name))
        self._add_file(info)
        if stat.S_ISSOCK(info.st_mode):
            with open("%s/fdinfo/%s" % (folder, name), "rb") as lines:
                if any(line.startswith(b"scm_fds:") and line.split()[1:] != [b"0"] for line in lines):
                    self.is_sure = False

    def _add_file(self, info):
        if info.st_dev == self._device and info.st_nlink == 0 and stat.S_ISREG(info.st_mode):
            self._opened[info.st_ino] = info.st_size, info.st_blocks * 512

    def _add_mapped(self, folder):
        mark = (self._below + "%s (deleted)\n").split("%s")
        with open(folder + "/maps", encoding="utf-8", errors="surrogateescape", newline="\n") as lines:
            for line in lines:
                if not line.endswith(mark[1]):
                    continue
                span, _, offset, _, inode, name = line.split(None, 5)
                if name.startswith(mark[0]):
                    start, end = (int(address, 16) for address in span.split("-"))
                    length = int(offset, 16) + end - start
                    self._mapped[int(inode)] = max(length, self._mapped.get(int(inode), 0))


def _is_undumpable(folder):
    """Whether a process of our own user is one that others may not look at: what is in its folder is root's then."""
    try:
        return os.stat(folder + "/fd").st_uid != os.getuid()
    except OSError:
        return False
