"""The Python supervisor: process 1 of a sandbox container.

It speaks the frames of docs/kernel-protocol.md on stdin and stdout. boot.py reads its source
from there too, so it needs nothing but the standard library of Python 3.8 or later, and it
touches no path but the work directory, /proc and /sys/fs/cgroup.

Three kinds of process run this program:

* The *supervisor* is a loop over file descriptors. It never runs the sandboxed code and
  trusts nothing that comes from it. It reads the code's output, keeps time, scans for
  artifacts and talks to the server.
* A *kernel* keeps a user's variables and runs the code on its main thread. The first one
  is forked from the bare supervisor, so that it is there within a millisecond.
* The *zygote* has imported everything that is heavy. It forks kernels that are ready for
  `fresh` runs and for the time after a kernel died, and tells how they ended. It is only
  ever a short cut: without it, kernels are forked from the supervisor.

Between supervisor and kernels: a stream socket with frames of a JSON header and, from the
kernel, a blob. Each run comes to its kernel with two pipes for stdout and stderr.
"""

import functools
import gc
import os
import select
import signal
import socket
import sys
import time

from artifacts import Artifacts
from children import KernelProcess
from descriptors import close_all_but
from environment import DEFAULT_ENV, THREAD_LIMITS, cpu_count
from frames import READ_BYTES, Breach, Lost, pack
from guard import Guard
from hostile import clean, clean_int, relative_path
from interrupts import ignore_signal
from kernel import Kernel
from late import LateOutput
from links import READS_PER_TURN, claim_stdio
from loop import Loop
from mimes import SHOWN_MIMES
from output import Spool, Stream
from prctl import PR_SET_CHILD_SUBREAPER, hide, prctl
from processes import Become, OomCounter, family, kill_all, kill_quietly, process_table
from reserve import Reserve
from run import Run
from settings import Settings
from takeover import Memory, TakeOver
from tree import Count, unlock
from volume import Volume

PROTOCOL = 1
LEAVE_SECONDS = 0.5  # how long programs of an interrupted run may take to end
STANDBY_WAIT = 0.5  # seconds that a run waits for a kernel that is being forked
KILL_SECONDS = 5  # how long a killed process may take to vanish
MAX_LOSSES = 3  # kernels that may die before they begin a run
LOST_SECONDS = 0.1  # between a kernel's end of file and its exit status

# __main__ becomes the user's module in a kernel; this keeps the one that holds this code.
_OWN_MODULE = sys.modules["__main__"]

# The user's modules may have the names of this program's.
for _name in (
    "artifacts", "children", "descriptors", "display", "environment", "errors", "event_loop", "frames", "guard",
    "hostile", "imports", "interrupts", "ipython_engine", "kernel", "late", "links", "loop", "mimes", "notices",
    "output", "pictures", "plain_engine", "prctl", "preload", "processes", "reserve", "run", "screen", "settings", "spawning",
    "stand_ins", "tables", "takeover", "threads", "tree", "unnamed", "utf8", "volume", "zygote",
):
    del sys.modules[_name]


class Supervisor(Loop):
    """Process 1."""

    SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)

    def __init__(self, server):
        super().__init__()
        self.server = server
        self.settings = None
        self.main = None
        self.reserve = Reserve(self)
        self.run = None
        self.late = LateOutput(self)
        self.oom = OomCounter()
        self.oom_seen = 0
        self.last_frame = time.monotonic()
        self.last_id = ""
        self.takeover = None
        self.memory = None  # where a later server may come
        self.work_fd = -1
        self.artifacts = None
        self.guard = None  # where the work directory has a limit

    def serve(self):
        self._watch_signals()
        self.watch(self.server.in_fd, self._on_server)
        self.turn()

    def _watch_signals(self):
        for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(signum, lambda *_: self._shut_down())
        signal.signal(signal.SIGCHLD, lambda *_: None)
        wake_r, wake_w = os.pipe()
        os.set_blocking(wake_r, False)
        os.set_blocking(wake_w, False)
        signal.set_wakeup_fd(wake_w, warn_on_full_buffer=False)

        def on_signal():
            try:
                os.read(wake_r, 4096)
            except BlockingIOError:
                pass
            self._reap()

        self.watch(wake_r, on_signal)

    def _shut_down(self):
        kill_all(lambda table: family(table, os.getpid()))
        os._exit(0)

    def log(self, level, message):
        self.server.send({"type": "log", "level": level, "message": clean(message, 2000)})

    # -- frames of the server

    def _on_server(self):
        try:
            messages = self.server.read()
        except Breach as e:
            self.log("error", "the server broke the protocol: %s" % e)
            self._shut_down()
        if messages is None:
            if self.settings is None or not self.settings.wait_on_eof:
                self._shut_down()
            self.unwatch(self.server.in_fd)
            return
        self.last_frame = time.monotonic()
        for message in messages:
            self._dispatch(message)

    def _on_take_over(self, link):
        """A later server has come: it takes the place of the one before and hears what that may have missed."""
        self.unwatch(self.server.in_fd)
        self.server.close()
        self.server = link
        self.watch(link.in_fd, self._on_server)
        self.last_frame = time.monotonic()
        self._send_ready()
        for frame in self.memory.frames:
            link.write(frame)
        for message in link.frames():
            self._dispatch(message)

    def _dispatch(self, message):
        kind = message.get("type")
        if kind == "run":
            self._on_run(message)
        elif kind == "interrupt":
            reason = "timed_out" if message.get("reason") == "timed_out" else "cancelled"
            if self.run is not None and message.get("id") == self.run.id:
                self.interrupt(reason)
        elif kind == "peek":
            self._on_peek(message)
        elif kind == "ping":
            self.server.send({"type": "pong", "n": message.get("n")})
        elif kind == "usage":
            self._on_usage(message)
        elif kind == "init":
            self._on_init(message)
        elif kind == "stop":
            self._shut_down()

    def _on_init(self, message):
        self.settings = Settings(message)
        token = message.pop("token", None)
        if token and isinstance(token, str) and self.takeover is None:
            self._listen(token)
        self._send_ready()
        self._open_work_dir()
        if self.settings.idle_seconds:
            self.set_timer("idle", self.settings.idle_seconds, self._on_idle)
        if self.settings.warm and self.settings.preloads:
            self.reserve.want()

    def _listen(self, token):
        try:
            self.takeover = TakeOver(self, token, self._on_take_over)
        except OSError as e:
            self.log("warn", "no later server can take this over: %s" % e.strerror)
            return
        self.memory = Memory()

    def _send_ready(self):
        self.server.send({
            "type": "ready",
            "protocol": PROTOCOL,
            "language": "python",
            "version": "%d.%d.%d" % sys.version_info[:3],
            "features": ["ipython"] if self.settings.ipython else [],
            "run": self.run.id if self.run is not None else "",
            "last": self.last_id,
        })

    def _open_work_dir(self):
        if self.work_fd >= 0:
            return
        try:
            os.makedirs(self.settings.work_dir, exist_ok=True)
            unlock(self.settings.work_dir)  # code of an earlier container may have locked it
            self.work_fd = os.open(self.settings.work_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as e:
            self.log("error", "the work directory cannot be used: %s" % e)
            return
        self.artifacts = Artifacts(self.work_fd)
        if self.settings.has_volume_limit:
            most = self.settings.volume_bytes, self.settings.volume_files
            self.guard = Guard(self, Volume(self.work_fd, *most, pids=self._holders))
        for name in ("input", "output"):
            if not os.path.lexists(os.path.join(self.settings.work_dir, name)):
                self._make_folder(name)

    def _make_folder(self, name):
        try:
            os.mkdir(name, dir_fd=self.work_fd)
        except OSError as e:
            self.log("error", "the folder %s cannot be made: %s" % (name, e.strerror))

    def _holders(self):
        """The processes that code of the session runs in, which may hold files that have no name any more."""
        return family(process_table(), os.getpid()) - self.reserve.zygote_pids()

    def _on_usage(self, message):
        try:
            count = Count(self.work_fd).finish()
            usage = {"files": count.files, "bytes": count.bytes, "complete": count.complete}
        except OSError:  # there is no work directory any more, or never was
            usage = {"files": 0, "bytes": 0, "complete": False}
        self.server.send(dict(usage, type="usage", n=message.get("n")))

    def _on_idle(self):
        seconds = self.settings.idle_seconds
        left = self.last_frame + seconds - time.monotonic()
        if self.run is not None:
            left = seconds
        if left <= 0:
            self._shut_down()
        self.set_timer("idle", left, self._on_idle)

    def _on_peek(self, message):
        run = self.run
        if run is None or message.get("id") != run.id:
            return
        self.server.send({
            "type": "peek",
            "id": run.id,
            "stdout": run.stdout.report(),
            "stderr": run.stderr.report(),
            "elapsed_ms": run.elapsed_ms,
        })

    # -- a run begins

    def _on_run(self, message):
        run_id, code = message.get("id"), message.get("code")
        if not isinstance(run_id, str) or not isinstance(code, str) or self.settings is None:
            self.log("warn", "a run without an id, without code or before init was ignored")
            return
        if self.run is not None:
            self._refuse(run_id, "SessionBusy", "another run goes on in this kernel")
            return
        if self.guard is None and self.settings.has_volume_limit:
            self._refuse(run_id, "WorkDirectoryError", "the work directory cannot be used, so its limit could not be kept")
            return
        if self.guard is not None and self.guard.refuses_runs():
            self._refuse(run_id, "QuotaExceeded", self.guard.volume.describe(), "full")
            return
        run = self.run = Run(message, self.settings, self._make_spool)
        if self.artifacts is not None:
            self.artifacts.begin_run()
        self.oom_seen = self.oom.read()
        if self.memory is not None:
            self.memory.begin()
        if run.timeout:
            self.set_timer("timeout", run.timeout, lambda: self.interrupt("timed_out"))
        self.set_timer("progress", 1.0, self._on_progress)
        self._provide_kernel(run)

    def _refuse(self, run_id, name, message, cause=""):
        error = {"name": name, "message": message, "traceback": ""}
        empty = Stream(256, None)
        self.server.send({
            "type": "done", "id": run_id, "status": "failed", "exit_code": 1, "result": None, "error": error,
            "stdout": empty.report(), "stderr": empty.report(), "artifacts": [], "artifacts_total": 0,
            "displays_total": 0, "duration_ms": 0, "cause": cause, "kernel": "dead" if self.main is None else "alive",
        })

    def _make_spool(self, run_id, stream):
        name = "".join(c if c.isalnum() and c.isascii() or c in "_-" else "_" for c in run_id[:64])
        return Spool(self.work_fd, "%s.%s.txt" % (name, stream), self.settings.spool_bytes)

    def _provide_kernel(self, run):
        """Hands the run to the main kernel, to one from the reserve or to a new one; or waits for the reserve."""
        if not run.fresh and self.main is not None:
            if not self.main.killed:  # else the run waits for its end, and for the next one
                self._hand_over(run, self.main)
            return
        kernel = self.reserve.take()
        if kernel is not None:
            self._adopt(run, kernel)
        elif self.reserve.is_promising():
            self.set_timer("standby wait", STANDBY_WAIT, self.reserve.give_up)
        else:
            self._adopt_bare(run)

    def provide_waiting(self):
        """Asks again what a run that waits for a kernel can have: one from the reserve, or one without."""
        if self.run is not None and self.run.kernel is None:
            self.drop_timer("standby wait")
            self._provide_kernel(self.run)

    def _adopt_bare(self, run):
        try:
            kernel = self._fork_kernel()
        except OSError as e:
            self._finish(run, "failed", 1, error={
                "name": "KernelStartError",
                "message": "no interpreter could be started: %s" % e.strerror,
                "traceback": "",
            }, kernel="fresh" if run.fresh else "dead")
            return
        self.watch_kernel(kernel)
        self._adopt(run, kernel)

    def _adopt(self, run, kernel):
        if run.fresh:
            run.before = set(process_table())
        else:
            self.main = kernel
        self._hand_over(run, kernel)
        self.reserve.prepare()

    def _hand_over(self, run, kernel):
        """Gives a kernel the run and the two pipes that it is to write to."""
        run.kernel = kernel
        stdout_r, stdout_w = os.pipe()
        stderr_r, stderr_w = os.pipe()
        for fd, stream in ((stdout_r, run.stdout), (stderr_r, run.stderr)):
            os.set_blocking(fd, False)
            run.pipes[fd] = stream
            self.watch(fd, functools.partial(self._on_output, fd, run, stream))
        try:
            kernel.link.send({"type": "run", "id": run.id, "code": run.code}, (stdout_w, stderr_w))
        except Lost as e:
            self._lose(kernel, e)
        finally:
            os.close(stdout_w)
            os.close(stderr_w)
        self._await_flush(kernel)
        if self.guard is not None:
            self.guard.begin_run()

    def _await_flush(self, kernel):
        """Lets poll tell when a full socket takes more. A kernel that never reads runs into the timeout."""
        if kernel.link.outbox and kernel.link.fd in self.handlers:
            self.poller.modify(kernel.link.fd, select.EPOLLIN | select.EPOLLOUT)

    # -- kernels

    def _fork_kernel(self):
        """Forks a kernel with nothing imported."""
        sock, pid = self.fork(lambda fd: Kernel(self.settings).serve(fd))
        return KernelProcess(sock, pid)

    def fork(self, role):
        """Forks a child that becomes `role`, a function of its socket; tells (our socket, pid)."""
        ours, theirs = socket.socketpair()
        # An interrupt that comes early must meet the child's handlers, not the supervisor's.
        signal.pthread_sigmask(signal.SIG_BLOCK, self.SIGNALS)
        try:
            pid = os.fork()
            if pid == 0:
                fd = theirs.detach()
                self._leave(ours, fd)
                raise Become(functools.partial(role, fd))
        except OSError:
            ours.close()
            raise
        finally:
            theirs.close()
            signal.pthread_sigmask(signal.SIG_UNBLOCK, self.SIGNALS)
        return ours, pid

    def _leave(self, ours, kept):
        """In a forked child: lets go of all that is the supervisor's."""
        signal.set_wakeup_fd(-1)
        for signum in self.SIGNALS:
            signal.signal(signum, signal.SIG_DFL)
        signal.signal(signal.SIGINT, ignore_signal)
        # A socket object that is collected later would close a number that is someone else's by then.
        for sock in [ours] + [child.link.sock for child in (self.main, self.reserve.kernel, self.reserve.zygote) if child]:
            sock.detach()
        if self.run is not None and self.run.kernel is not None:
            self.run.kernel.link.sock.detach()
        if self.takeover is not None:
            self.takeover.leave()
        if self.guard is not None:
            self.guard.volume.leave()
        self.poller.close()
        close_all_but({kept})

    def watch_kernel(self, kernel):
        self.watch(kernel.link.fd, functools.partial(self._on_kernel, kernel))

    def _on_kernel(self, kernel):
        try:
            if kernel.link.outbox and kernel.link.flush():
                self.poller.modify(kernel.link.fd, select.EPOLLIN)
            for header, blob in kernel.link.receive():
                self._on_report(kernel, header, blob)
                if kernel.ended:
                    return
        except Lost as e:
            self._lose(kernel, e)
        except (TypeError, ValueError, LookupError) as e:  # what no check of a hostile frame foresaw
            self._lose(kernel, Breach("a frame that led to %s: %s" % (type(e).__name__, e)))

    def _lose(self, kernel, why):
        """Its link is of no use any more: it dies, or is made to."""
        if kernel.ended:
            return
        self.unwatch(kernel.link.fd)
        if isinstance(why, Breach):
            self.log("warn", "a kernel was killed, because it sent %s" % why)
            self.kill_kernel(kernel)
        else:  # mostly a death whose status is on its way
            self.set_timer("lost %s" % kernel.pid, LOST_SECONDS, lambda: self.kill_kernel(kernel))

    def kill_kernel(self, kernel):
        kernel.killed = True
        if kernel.pid is not None:
            kill_quietly(kernel.pid, signal.SIGKILL)
        # One that no signal can end (a hung file system) must not keep the session locked.
        self.set_timer("kill %s" % kernel.pid, KILL_SECONDS, lambda: self._on_kernel_end(kernel, None))

    def _on_report(self, kernel, header, blob):
        kind = header.get("type")
        run = self.run
        if kind == "hello" and kernel is self.reserve.kernel and not kernel.ready:
            self.reserve.on_hello(header)
        elif kind == "loaded" and kernel is self.main:
            self.reserve.want()
        elif run is None or kernel is not run.kernel or header.get("id") != run.id:
            return
        elif kind == "begun":
            kernel.begun = True
        elif kind == "display":
            self._on_display(run, header, blob)
        # One that came to its end as it was killed is over with its kernel: the next run needs another.
        elif kind == "done" and not run.condemned:
            self._on_done(run, header)

    def _on_display(self, run, header, blob):
        run.displays += 1
        mime = header.get("mime")
        if run.displays > self.settings.max_displays or not isinstance(mime, str) or mime not in SHOWN_MIMES:
            return
        message = {"type": "display", "id": run.id, "data": {}, "alt": clean(header.get("alt"), 500)}
        message["size_bytes"] = clean_int(header.get("size"), len(blob), 0, 1 << 50)
        path = relative_path(header.get("path"))
        if path:
            message["path"] = path
        if 0 < len(blob) <= self.settings.image_bytes:
            message["data"][mime] = self._display_text(mime, blob)
        frame = pack(message)
        if self.memory is not None:
            self.memory.add_display(frame)
        self.server.write(frame)

    @staticmethod
    def _display_text(mime, blob):
        if mime.startswith("image/") and mime != "image/svg+xml":
            return to_base64(blob)
        return blob.decode("utf-8", "replace")

    # -- output

    def _on_output(self, fd, run, stream):
        for _ in range(READS_PER_TURN):
            try:
                chunk = os.read(fd, READ_BYTES)
            except BlockingIOError:
                return
            if not chunk:
                self.unwatch(fd)
                os.close(fd)
                run.pipes.pop(fd, None)
                return
            stream.feed(chunk)

    def _on_progress(self):
        run = self.run
        self.set_timer("progress", 1.0, self._on_progress)
        now = time.monotonic()
        stdout_bytes, stderr_bytes, when = run.reported
        changed = (stdout_bytes, stderr_bytes) != (run.stdout.bytes, run.stderr.bytes)
        if not changed and now - when < 5:
            return
        latest = run.stderr if run.stderr.bytes != stderr_bytes and run.stdout.bytes == stdout_bytes else run.stdout
        run.reported = (run.stdout.bytes, run.stderr.bytes, now)
        self.server.send({
            "type": "progress", "id": run.id, "elapsed_ms": run.elapsed_ms, "stdout_bytes": run.stdout.bytes,
            "stderr_bytes": run.stderr.bytes, "last_line": latest.last_line(),
        })

    # -- a run is stopped

    def interrupt(self, reason):
        run = self.run
        if run is None or run.reason:
            return
        run.reason = reason
        if run.kernel is None:
            self._finish(run, reason, self._exit_code_of(reason), kernel="fresh" if run.fresh else "dead")
            return
        self.set_timer("grace", run.grace, lambda: self._condemn(run))
        self._keep_signalling(run)

    def _keep_signalling(self, run):
        """Interrupts again while the grace lasts: os.system() and some handlers swallow a signal."""
        self.set_timer("again", max(0.05, run.grace / 4), lambda: self._keep_signalling(run))
        self._signal_run(run)

    def _signal_run(self, run):
        """Interrupts the kernel and what this run started, as the terminal's Ctrl-C would."""
        kernel = run.kernel
        try:
            # Says it to a kernel that has not begun yet, where the signal would be ignored.
            kernel.link.send({"type": "interrupt", "id": run.id})
        except Lost:
            pass
        self._await_flush(kernel)
        table = process_table()
        for pid in family(table, kernel.pid):
            if table[pid][1] >= run.started_ticks:
                kill_quietly(pid, signal.SIGINT)
        kill_quietly(kernel.pid, signal.SIGINT)

    def _condemn(self, run):
        run.condemned = True
        self.drop_timer("again")
        self.kill_kernel(run.kernel)

    # -- a run ends

    def _on_done(self, run, header):
        exit_code = clean_int(header.get("exit"), None, 0, 255)
        error = self._clean_error(header.get("error"))
        result = header.get("result")
        result = clean(result, self.settings.output_bytes) if isinstance(result, str) else None
        kernel = "fresh" if run.fresh else "alive"
        if run.reason and not run.fresh:
            self._end_programs(run)
        if run.reason == "quota":
            self._finish_over(run, kernel, result)
            return
        if run.reason:
            status, exit_code = run.reason, self._exit_code_of(run.reason)
        elif error is not None:
            status, exit_code = "failed", 1
        else:
            status, exit_code = ("failed", exit_code) if exit_code else ("completed", 0)
        self._finish(run, status, exit_code, result, error, kernel)

    def _end_programs(self, run):
        """Sees to it that what an interrupted run started ends, also what ignores interrupts."""
        table = process_table()
        started = {(pid, table[pid][1]) for pid in self.programs(table) if table[pid][1] >= run.started_ticks}

        def choose(table):
            left = {pid for pid, start in started if pid in table and table[pid][1] == start}
            return left.union(*(family(table, pid) for pid in left))

        if started:
            self.set_timer("programs of %s" % run.id, LEAVE_SECONDS, lambda: kill_all(choose))

    def _finish_over(self, run, kernel, result=None):
        self._finish(run, "failed", 1, result, self._quota_error(run.over), kernel, "quota")

    @staticmethod
    def _quota_error(message):
        return {"name": "QuotaExceeded", "message": message, "traceback": ""}

    @staticmethod
    def _exit_code_of(reason):
        return 124 if reason == "timed_out" else 130

    @staticmethod
    def _clean_error(error):
        if not isinstance(error, dict):
            return None
        return {
            "name": clean(error.get("name"), 200) or "Error",
            "message": clean(error.get("message"), 8000),
            "traceback": clean(error.get("traceback"), 32_000),
        }

    def _finish(self, run, status, exit_code, result=None, error=None, kernel="alive", cause=""):
        for name in ("timeout", "progress", "again", "grace", "standby wait"):
            self.drop_timer(name)
        self.late.settle(run)
        if run.fresh and run.kernel is not None:
            self._end_fresh(run)
        try:
            artifacts, total = self.artifacts.scan(self.settings.max_artifacts)
        except (OSError, AttributeError):  # there is no work directory any more, or never was
            artifacts, total = [], 0
        if self.guard is not None and not run.reason and status in ("completed", "failed"):
            changed = sum(artifact["size_bytes"] for artifact in artifacts), total
            if self.guard.volume.is_exceeded_at_end(changed):
                status, exit_code, result, cause = "failed", 1, None, "quota"
                error = self._quota_error(self.guard.volume.describe())
        self.run = None
        self.last_id = run.id
        self.last_frame = time.monotonic()
        frame = pack({
            "type": "done", "id": run.id, "status": status, "exit_code": exit_code, "result": result, "error": error,
            "stdout": run.stdout.report(), "stderr": run.stderr.report(), "artifacts": artifacts,
            "artifacts_total": total, "displays_total": run.displays, "duration_ms": run.elapsed_ms,
            "cause": cause, "kernel": kernel, "late": self.late.take_paths(),
        })
        self.late.retire(run)
        if self.memory is not None:
            self.memory.add_done(frame)
        self.server.write(frame)
        if self.guard is not None:
            self.guard.end_run()
        self.reserve.prepare()

    def _end_fresh(self, run):
        """Kills what a fresh run leaves: its kernel and all that was not there before it."""
        kernel = run.kernel
        if not kernel.ended:
            kernel.ended = True
            self.unwatch(kernel.link.fd)
            kill_quietly(kernel.pid, signal.SIGKILL)
            kernel.link.close()
        kill_all(lambda table: self._strays(table) - run.before)

    def _strays(self, table):
        """What was started by code and is not, and does not belong to, a kernel or zygote that stays."""
        strays = self.programs(table)
        for kernel in self._staying_kernels():
            strays -= family(table, kernel.pid)
        return strays

    def programs(self, table):
        """What runs have started and have left behind: all that is no kernel and no zygote."""
        programs = family(table, os.getpid()) - self.reserve.zygote_family(table)
        return programs - {kernel.pid for kernel in self._staying_kernels()}

    def _staying_kernels(self):
        """The kernels that no single run has for itself, where their pid is known."""
        return [kernel for kernel in (self.main, self.reserve.kernel) if kernel is not None and kernel.pid is not None]

    # -- processes end

    def _reap(self):
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self.on_exit(pid, status)

    def on_exit(self, pid, status):
        self.reserve.on_exit(pid)
        for kernel in (self.main, self.reserve.kernel, self.run.kernel if self.run else None):
            if kernel is not None and kernel.pid == pid:
                self._on_kernel_end(kernel, status)

    def _on_kernel_end(self, kernel, status):
        """A kernel is dead. What it said before still counts."""
        if kernel.ended:
            return
        self._read_last_words(kernel)
        if kernel.ended:
            return
        kernel.ended = True
        for name in ("kill", "lost"):
            self.drop_timer("%s %s" % (name, kernel.pid))
        self.unwatch(kernel.link.fd)
        kernel.link.close()
        if kernel is self.reserve.kernel:
            self.reserve.forget_kernel()
            return
        cause = "quota" if kernel.fills else self._cause(status)
        run = self.run
        if kernel is self.main:
            self.main = None
            self._kill_leftovers()
        if run is not None and run.kernel is kernel:
            if self._can_be_given_again(run):
                run.kernel = None
                self._provide_kernel(run)
            else:
                self._finish_killed(run, cause)
        else:
            self.server.send({"type": "kernel", "state": "dead", "cause": cause})
            self.provide_waiting()
            self.reserve.prepare()

    @staticmethod
    def _can_be_given_again(run):
        """Whether a run that its kernel has died over can go to another.

        Code of runs before may have killed the kernel as it stood by, and its death was not known yet.
        """
        if run.kernel.begun or run.reason:
            return False
        run.losses += 1
        return run.losses < MAX_LOSSES

    def _read_last_words(self, kernel):
        try:
            for header, blob in kernel.link.receive(most=64):
                self._on_report(kernel, header, blob)
                if kernel.ended:
                    return
        except (Lost, ValueError, OSError):
            pass

    def _kill_leftovers(self):
        """Kills what a dead main kernel had started, and nothing of a fresh run that goes on."""
        keep, before = None, None
        if self.run is not None and self.run.fresh and self.run.kernel is not None:
            keep, before = self.run.kernel.pid, self.run.before

        def choose(table):
            strays = self._strays(table)
            if keep is not None:
                strays = (strays & before) - family(table, keep) - {keep}
            return strays

        kill_all(choose)

    def _cause(self, status):
        if status is None:
            return "signal %d" % signal.SIGKILL
        if not os.WIFSIGNALED(status):
            return "exit %d" % os.WEXITSTATUS(status)
        if os.WTERMSIG(status) == signal.SIGKILL and self.oom.read() > self.oom_seen:
            return "memory"
        return "signal %d" % os.WTERMSIG(status)

    def _finish_killed(self, run, cause):
        kernel = "fresh" if run.fresh else "dead"
        if run.reason == "quota" or cause == "quota":
            run.over = run.over or self.guard.volume.describe()
            self._finish_over(run, kernel)
        elif run.condemned:
            self._finish(run, run.reason, self._exit_code_of(run.reason), kernel=kernel, cause="ignored_interrupt")
        elif run.reason and cause != "memory":
            self._finish(run, run.reason, self._exit_code_of(run.reason), kernel=kernel, cause=cause)
        else:
            self._finish(run, "killed", 137, kernel=kernel, cause=cause)


def to_base64(data):
    import binascii

    return binascii.b2a_base64(data, newline=False).decode("ascii")


def main():
    os.chdir("/")
    for name in THREAD_LIMITS:
        DEFAULT_ENV[name] = str(cpu_count())
    server = claim_stdio()
    gc.freeze()  # forked children need not look at what is here already
    hide()
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    role = Supervisor(server).serve
    while True:
        try:
            role()
        except Become as become:
            role = become.role


if __name__ == "__main__":
    main()
