"""Twins: forks of a kernel that wait, with the variables as they are, until they take its place.

A fork runs one thread, and shares open files with its parent. So there is none while code keeps threads or files
open; those of the kernel and its libraries are stopped before, or made anew in the copy.
"""

import os
import signal
import stat
import sys

from descriptors import close_quietly
from imports import import_seldom
from prctl import fork_sibling, set_dumpable
from wire import Link, wait_readable

IDLE_SECONDS = 1


def fork_twin(kernel, fd):
    """Forks a copy with this descriptor as its link, and returns its id, or why there is none, and whether that may change soon.

    In the copy it returns None when its first message is there. Until then that touches as little memory as it can.
    """
    again, pid, stopped = False, 0, None
    try:
        if kernel.preload is not None and not kernel.preload.pause():
            why, again = "modules are still being imported", True
        else:
            stopped = stop_idle_threads(kernel)
            files = what_is_open(kernel, fd, stopped)
            why = what_goes_on(kernel, files) or stopped and stopped.stop_native()
        if not why:
            pid = fork_copy(kernel, fd, files)
            if pid == 0:
                if stopped:
                    stopped.start(is_copy=True)
                return None
            if has_threads():
                why, again = import_seldom("libraries").what_a_copy_lacks(kernel.link.peek)
    except Exception as e:
        why = "the fork failed: %s: %s" % (type(e).__name__, e)
    finally:
        if stopped:
            stopped.start()
    close_quietly(fd)
    return {"pid": pid, "why": why, "again": again}


def fork_copy(kernel, fd, files):
    """Forks, and returns the new id; in the copy 0 when its first message is there."""
    has_programs = has_children()
    kernel.threads.flush()
    random = getattr(sys.modules.get("random"), "_inst", None)
    state = random and random.getstate()  # which a fork changes
    pid = None if has_threads() else fork_sibling()  # the C library's fork() is for threads
    if pid is None:
        pid = fork_orphan()
    if pid != 0:
        return pid
    become(kernel, fd, files)
    if random:
        random.setstate(state)
    if has_programs:
        end_programs()
    return 0


# -- obstacles to a copy


def what_goes_on(kernel, files):
    """Why there can be no copy: something of the code's goes on; or nothing."""
    names = names_of_threads(kernel)
    if names:
        return "a thread of the code runs: " + ", ".join(names) + way_out()
    if kernel.event_loop.is_waiting():
        names = kernel.event_loop.names()
        return "a task of the code is not done: " + ", ".join(names) if names else "the event loop has something to do"
    for number, (path, info) in files.items():
        if path.startswith("socket:"):
            return "a socket is open (descriptor %d)" % number
        if "FLOCK" in info or "OFDLCK" in info:
            return "a file is locked (descriptor %d)" % number
    return ""


def what_is_open(kernel, fd, stopped):
    """Descriptors with their targets and flags from /proc, without the kernel's own sockets."""
    own, files = {fd, *kernel.link.fds, kernel.link.sock.fileno(), *kernel.event_loop.sockets()}, {}
    if stopped:
        own.update(stopped.sockets())
    for number in set(map(int, os.listdir("/proc/self/fd"))) - own:
        try:
            with open("/proc/self/fdinfo/%d" % number) as info:
                files[number] = os.readlink("/proc/self/fd/%d" % number), info.read()
        except OSError:  # the descriptor of the listing
            pass
    return files


def names_of_threads(kernel):
    known = getattr(sys.modules.get("threading"), "_active", {})
    others = sorted({*sys._current_frames(), *kernel.threads.owners} - {kernel.threads.main})
    return [str(getattr(known.get(ident), "name", ident)) for ident in others]


def way_out():
    """How the pool of processes is ended that joblib keeps for minutes, where it is there."""
    pool = getattr(sys.modules.get("joblib.externals.loky.reusable_executor"), "_executor", None)
    manager = getattr(pool, "_executor_manager_thread", None)
    is_there = manager is not None and manager.is_alive()
    return "; joblib.externals.loky.get_reusable_executor().shutdown() ends joblib's pool" if is_there else ""


def has_threads():
    return len(os.listdir("/proc/self/task")) > 1


# -- threads that can be stopped


def stop_idle_threads(kernel):
    """Stops threads that are no work of the code's and start again when they are needed: tqdm's looks after slow bars.

    Returns the monitor to start again, or nothing without threads.
    """
    if kernel.engine is not None:
        kernel.engine.stop_idle_loop()
    bars = getattr(sys.modules.get("tqdm.std"), "tqdm", None)
    if getattr(bars, "monitor", None) is not None:
        bars.monitor.exit()
        bars.monitor = None
    if not has_threads() and "duckdb" not in sys.modules:
        return None
    stopped = import_seldom("libraries").Stopped()
    stopped.stop_python()
    return stopped


# -- the fork


def fork_orphan():
    """Forks a process that is no child of this one, and returns 0 in that, and its id here.

    Code must not see it: neither os.wait() nor a handler of SIGCHLD hears of it.
    """
    handler = signal.getsignal(signal.SIGCHLD)
    if handler is None:
        raise OSError("a library handles SIGCHLD")
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    reader, writer = os.pipe()
    try:
        child = fork()
        if child == 0:
            try:
                pid = fork()
                if pid != 0:
                    os.write(writer, str(pid).encode())
                    os._exit(0)
                signal.signal(signal.SIGCHLD, handler)
                return 0
            except BaseException:
                os._exit(1)
        if os.waitpid(child, 0)[1] != 0:
            raise OSError("no process is left")
        pid = int(os.read(reader, 20))
    finally:
        signal.signal(signal.SIGCHLD, handler)
        os.close(reader)
        os.close(writer)
    if callable(handler) and has_children() and os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
        signal.raise_signal(signal.SIGCHLD)  # which came meanwhile
    return pid


def has_children():
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        return True
    except ChildProcessError:
        return False


def fork():
    """os.fork() without its warning about threads, and without a change of filters, which would show old warnings again."""
    import warnings

    quiet = ("ignore", None, DeprecationWarning, None, 0)
    warnings.filters.insert(0, quiet)
    try:
        return os.fork()
    finally:
        warnings.filters.remove(quiet)


# -- in the copy


def become(kernel, fd, files):
    """Makes this process a kernel of its own, and waits for its first message. If nothing is open, most of that waits for the time behind
    further runs, that their copies take the place of this one."""
    try:
        os.setsid()
        kernel.link.close()
        if max(files, default=0) < 3:
            wait_readable(fd, IDLE_SECONDS)
        kernel.link = Link(fd)
        kernel.pid = os.getpid()
        kernel.begun = False
        set_dumpable(True)
        part_from_all({number: file for number, file in files.items() if is_still(number, file[0])}, kernel.null_fd)
        kernel.say_hello()
        kernel.link.receive()
        kernel.event_loop.renew()
    except BaseException:
        os._exit(1)


def is_still(number, path):
    """Whether a descriptor is still the kernel's: libraries renew some by themselves."""
    try:
        return os.readlink("/proc/self/fd/%d" % number) == path
    except OSError:
        return False


def part_from_all(files, null_fd):
    """Replaces the kernel's open files: a pipe ends only when nobody holds it open, and a lock goes with its file.

    It opens a file again at its position, and makes a pipe with both ends in the kernel anew.
    """
    pipes = {}
    for number, (path, info) in files.items():
        if path.startswith("pipe:"):
            pipes.setdefault(path, {})[number] = flags_in(info)
        else:
            try:
                part_from(number, info, null_fd)
            except OSError:  # it may not be opened any more
                pass
    for ends in pipes.values():
        if len({is_written(flags) for flags in ends.values()}) == 2:
            renew_pipe(ends)
        else:
            for number in ends:
                os.dup2(null_fd, number, os.get_inheritable(number))


def renew_pipe(ends):
    """Puts a pipe in the place of one, by its descriptors and how they are open."""
    new = os.pipe()
    for number, flags in ends.items():
        os.dup2(new[is_written(flags)], number, os.get_inheritable(number))
        os.set_blocking(number, not flags & os.O_NONBLOCK)
    for number in new:
        os.close(number)


def is_written(flags):
    return flags & os.O_ACCMODE != os.O_RDONLY


def part_from(number, info, null_fd):
    kind, inheritable = os.fstat(number).st_mode, os.get_inheritable(number)
    if stat.S_ISFIFO(kind) or os.isatty(number):
        os.dup2(null_fd, number, inheritable)
    elif stat.S_ISREG(kind):
        place = int(info.split()[1]) if info.startswith("pos:") else os.lseek(number, 0, os.SEEK_CUR)
        again = os.open("/proc/self/fd/%d" % number, flags_in(info) & (os.O_ACCMODE | os.O_APPEND | os.O_SYNC))
        os.dup2(again, number, inheritable)
        os.close(again)
        os.lseek(number, place, os.SEEK_SET)


def flags_in(info):
    """The flags of a descriptor: gVisor lists nothing else."""
    return int(info[info.index("flags:") :].split()[1], 8)


def end_programs():
    """Makes programs of the kernel before count as killed: for want of a child Popen takes them for well ended."""
    import gc

    kind = getattr(sys.modules.get("subprocess"), "Popen", ())
    for thing in gc.get_objects():
        if issubclass(type(thing), kind) and getattr(thing, "returncode", 0) is None:
            thing.returncode = -signal.SIGKILL
