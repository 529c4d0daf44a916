"""Walks of a directory that hostile code changes meanwhile, and what the files in it take."""

import errno
import os
import stat
import time

ENTRIES = 200_000
DEPTH = 64
MOST_OPEN = 64  # folders of the way down, where it has no bound
GONE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)  # the last two: something else is there now
PASSES = 8  # over one folder where what is in it moves
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
MOST = 1 << 62  # a few sparse files can say that they are larger than the protocol's numbers


def unlock(folder, wanted=0o700):
    """Gives its owner all rights to a folder, by path or descriptor, where one that is wanted was taken away."""
    if os.stat(folder).st_mode & wanted != wanted:
        os.chmod(folder, 0o700)


class Name:
    """What is left of an os.DirEntry when its folder was closed and opened again."""

    def __init__(self, name, fd):
        self.name = name
        self.fd = fd

    def inode(self):
        return self.stat(follow_symlinks=False).st_ino

    def stat(self, follow_symlinks=True):
        return os.stat(self.name, dir_fd=self.fd, follow_symlinks=follow_symlinks)

    def is_dir(self, follow_symlinks=True):
        return stat.S_ISDIR(self.stat(follow_symlinks).st_mode)


class Level:
    """A folder on the way down, with what is still to be looked at in it."""

    def __init__(self, fd, prefix):
        self.fd = fd
        self.prefix = prefix
        self.passes = 1
        self.found = set()  # inodes
        self.has_missed = False  # in this pass
        try:
            self.entries = os.scandir(fd)
        except OSError:
            os.close(fd)
            raise

    def note(self, entry, was_there):
        try:
            if was_there:
                self.found.add(entry.inode())
                return
        except OSError:
            pass
        self.has_missed = True

    def begins_again(self):
        """Begins another pass, over what is new, where the last one has missed something."""
        if not self.has_missed or self.passes == PASSES:
            return False
        self.passes += 1
        self.has_missed = False
        self.entries.close()
        self.entries = self._new_entries()
        return True

    def _new_entries(self):
        with os.scandir(self.fd) as entries:
            for entry in entries:
                if entry.inode() not in self.found:
                    yield entry

    @property
    def is_folded(self):
        return self.fd == -1

    def fold(self):
        """Lets go of the descriptors."""
        self.identity = self._identity(self.fd)
        self.names = [entry.name for entry in self.entries]
        self.close()

    def unfold(self, fd):
        """Goes on with a descriptor that is new."""
        if self._identity(fd) != self.identity:
            os.close(fd)
            raise FileNotFoundError
        self.fd = fd
        self.entries = (Name(name, fd) for name in self.names)

    def close(self):
        if not self.is_folded:
            self.entries.close()
            os.close(self.fd)
            self.fd = -1

    @staticmethod
    def _identity(fd):
        info = os.fstat(fd)
        return info.st_dev, info.st_ino


class Tree:
    """One walk of all that is below a directory, parents before children, never through a link.

    Iterating gives (path, os.DirEntry); an entry may be gone by then. `wanted`, given a name and
    how deep it is, tells what to pass over. Afterwards `complete` tells whether all was seen:
    it is false when `entries` (None: no bound) or `depth` was reached, or a folder could not be read;
    where that is the directory itself, iterating raises OSError. With `unlock` a folder is made readable first.
    `missed` tells whether something was gone whenever its turn came: a folder is read again where that
    was so, which finds what has only got another name.
    With a `depth` of None there is no bound; then the paths are bare names, for whole ones would take
    too much memory, and an entry may be a Name.
    """

    def __init__(self, dir_fd, wanted=None, entries=ENTRIES, unlock=False, depth=DEPTH):
        self.dir_fd = dir_fd
        self.wanted = wanted
        self.depth = depth
        self.left = float("inf") if entries is None else entries
        self.unlock = unlock
        self.complete = True
        self.missed = False
        self.here = -1  # descriptor of the folder that the entry just given is in
        self.was_there = True  # the entry just given; to be set by who finds that it is gone

    def __iter__(self):
        stack = []
        try:
            stack.append(Level(self._open_root(), ""))
            while stack:
                level = stack[-1]
                entry = next(level.entries, None)
                if entry is None:
                    if not level.begins_again():
                        self._leave(stack)
                    continue
                self.left -= 1
                if self.left < 0:
                    self.complete = False
                    return
                if self.wanted is None or self.wanted(entry.name, len(stack) - 1):
                    self.here, self.was_there = level.fd, True
                    yield level.prefix + entry.name, entry
                    level.note(entry, self._descend(stack, entry) and self.was_there)
        finally:
            for level in stack:
                level.close()

    def _open_root(self):
        """Gives a descriptor of its own: one that is shared by two walks has one place in the list."""
        if self.unlock:
            unlock(self.dir_fd, 0o500)
        return os.open(".", FOLDER, dir_fd=self.dir_fd)

    def _leave(self, stack):
        level = stack.pop()
        self.missed = self.missed or level.has_missed
        try:
            if stack and stack[-1].is_folded:
                stack[-1].unfold(os.open("..", FOLDER, dir_fd=level.fd))
        except OSError:  # it is somewhere else by now, or locked
            self.missed = True
            stack.clear()  # all above is folded as well
        finally:
            level.close()

    def _descend(self, stack, entry):
        """Goes down where the entry is a folder; tells whether it was still there."""
        above = stack[-1]
        try:
            if not entry.is_dir(follow_symlinks=False):
                return True
            if self.depth is not None and len(stack) > self.depth:
                self.complete = False
                return True
            prefix = "" if self.depth is None else above.prefix + entry.name + "/"
            stack.append(Level(self._open(above.fd, entry), prefix))
            if self.depth is None and len(stack) > MOST_OPEN:
                stack[-MOST_OPEN - 1].fold()
        except OSError as e:
            if e.errno in GONE:
                return False
            self.complete = False
        return True

    def _open(self, fd, entry):
        """Opens a folder; with `unlock` also one that its owner has locked, to hide what is in it."""
        if self.unlock and entry.stat(follow_symlinks=False).st_mode & 0o500 != 0o500:
            os.chmod(entry.name, 0o700, dir_fd=fd)
        return os.open(entry.name, FOLDER, dir_fd=fd)


class Count:
    """What the files below a directory take, as the limit of the work directory counts it.

    Every entry is a file; its bytes are its size or its blocks, whichever is more, and those of
    hard links count once; `disk_bytes` are those of the blocks alone. A folder takes bytes too, for what
    it is itself: else any number of empty ones would fit. The counting may be done in steps.
    """

    def __init__(self, dir_fd, entries=ENTRIES, unlock=False):
        self.bytes = self.disk_bytes = self.files = 0
        self.tree = Tree(dir_fd, entries=entries, unlock=unlock, depth=None)
        self._linked = set()
        self._walk = iter(self.tree)

    @property
    def complete(self):
        return self.tree.complete

    @property
    def missed(self):
        return self.tree.missed

    def step(self, until):
        """Counts on until that monotonic time; tells whether all is counted."""
        for number, (_, entry) in enumerate(self._walk, 1):
            try:
                self._add(entry.stat(follow_symlinks=False))
            except FileNotFoundError:
                self.tree.was_there = False
            except OSError:
                self.tree.complete = False
            if number % 32 == 0 and time.monotonic() >= until:
                return False
        return True

    def finish(self):
        self.step(float("inf"))
        return self

    def stop(self):
        self._walk.close()

    def _add(self, info):
        self.files += 1
        if info.st_nlink > 1 and not stat.S_ISDIR(info.st_mode):  # a folder's links are those below it
            if (info.st_dev, info.st_ino) in self._linked:
                return
            self._linked.add((info.st_dev, info.st_ino))
        self.bytes = min(self.bytes + max(info.st_size, info.st_blocks * 512), MOST)
        self.disk_bytes += info.st_blocks * 512
