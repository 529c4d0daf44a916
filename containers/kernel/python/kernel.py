"""A kernel: the process that keeps a user's variables and runs the code on its main thread."""

import builtins
import fcntl
import os
import re
import signal
import socket
import sys
from _thread import get_ident
from select import POLLIN, poll

from descriptors import close_quietly, move_high
from display import Displays
from errors import describe, format_error, left_out
from event_loop import EventLoop
from imports import ImportHook, forget_torn, import_quietly, import_seldom, own_imports
from installed import Installed
from interrupts import Interrupt, OutOfMemory, ignore_interrupts, ignore_signal, without_interrupts
from kept.around import Around
from mimes import DATA, PLOTLY, SHOWN_MIMES, mime_bundle, text_of
from notices import Notices
from pictures import Viewer, figure_title, hook_images, hook_savefig, is_figure
from plain_engine import PlainEngine, remember_source
from prctl import DataLimit, Heap, set_dumpable
from preload import Preload, PutOff
from spawning import hook_spawn
from stand_ins import Exiter, NoInput, plain_bars
from started import Started
from tables import widen_numpy, widen_pandas
from threads import Threads
from twin import fork_twin

RUN_SECONDS = 0.05  # in which the next run of a program or an eager client comes
PRELOAD_SECONDS = 0.05  # idle time of a kernel before it starts to preload, and until it looks whether that is done
IPYTHON = "IPython.core.interactiveshell"
AGG = "matplotlib.backends.backend_agg"
MOST_CELLS = 10_000  # of a kernel before this one that are counted
CLEAR = "\x1b[H\x1b[2J\x1b[3J"  # erases a terminal's screen and its scrollback


class Kernel:
    """One interpreter with a user's variables. Its main thread runs the code."""

    def __init__(self, settings):
        self.settings = settings
        self.module = sys.modules["__main__"] = type(sys)("__main__")
        self.namespace = self.module.__dict__
        self.namespace["__builtins__"] = builtins
        self.first_names = dict(self.namespace)
        self.threads = Threads()
        self.event_loop = EventLoop(self.threads.route_all, self.is_top_level)
        self.started = Started(self.threads, self.event_loop)
        self.interrupted = False
        self.for_memory = False  # why the last interrupt came that was taken
        self.on_interrupt = Interrupt(self.is_wanted, self._error_of_interrupt)
        self.displays = Displays(settings, self)
        self.plain = PlainEngine(self)
        self.engine = None
        self.building = False
        self.modules = {}  # sys.modules as it was before the first run
        self.preload = None
        self.warm = not settings.preloads
        self.put_off = PutOff()
        self.count = 0
        self.result = self.result_left = None
        self.run_id = None
        self.pid = 0
        self.stderr = None
        self.link = None
        self.begun = False
        self.data_limit = self.heap = None
        self.notices = Notices(self)
        self.installed = Installed()
        self.between_runs = {"describe": self._describe, "enter": self._enter_again, "freeze": self._freeze, "wake": self._wake, "twin": self._twin}
        changes = {
            AGG: self._hook_agg,
            IPYTHON: self._hook_ipython,
            "asyncio.events": self.event_loop.hook,
            "concurrent.futures.process": self._hook_pools,
            "concurrent.futures.thread": self._hook_pools,
            "logging": self.notices.hook_logging,
            "duckdb": self._hook_duckdb,
            "matplotlib.figure": lambda module: hook_savefig(module, self.displays.before_saving, self.displays.note_saved),
            "matplotlib.pyplot": self._hook_pyplot,
            "multiprocessing.spawn": lambda spawn: hook_spawn(spawn, self.namespace),
            "numpy": widen_numpy,
            "pandas": widen_pandas,
            "altair.utils.html": lambda module: import_seldom("charts").hook_altair_pages(module),
            "altair.vegalite.v6.display": lambda module: import_seldom("charts").hook_altair(module),
            "bokeh.io.notebook": lambda module: import_seldom("charts").hook_bokeh_notebook(module),
            "bokeh.io.showing": lambda module: import_seldom("charts").hook_bokeh_show(module, self.displays),
            "bokeh.models.ui.ui_element": lambda module: import_seldom("charts").hook_bokeh_models(module),
            "nokap": lambda module: import_seldom("charts").hook_nokap(module),
            "plotly.io._kaleido": lambda module: import_seldom("charts").hook_to_image(module),
            "plotly.io._renderers": lambda module: import_seldom("charts").same_renderer(module),
            "sympy.interactive.printing": self._hook_sympy,
            "tqdm.notebook": plain_bars,
            "vl_convert": lambda module: import_seldom("charts").hook_vl_convert(module),
            "docx.document": lambda module: import_seldom("losses").hook(module.Document, self.notices),
            "openpyxl.workbook.workbook": lambda module: import_seldom("losses").hook(module.Workbook, self.notices),
            "pandas.io.excel._base": lambda module: import_seldom("losses").hook(module.ExcelWriter, self.notices, "__init__"),
            "pptx.presentation": lambda module: import_seldom("losses").hook(module.Presentation, self.notices),
            "PIL.Image": hook_images,
            "PIL.ImageShow": lambda module: module.register(Viewer(self.displays), 0),
        }
        import_hook = ImportHook(changes, with_bars=("duckdb",))
        self.around = Around(import_hook)
        sys.meta_path[:0] = [self.installed, import_hook]

    def _hook_ipython(self, module):
        """Gives the shell to code that asks for it, as displays through IPython do, from then on."""
        kind = module.InteractiveShell
        for name in ("initialized", "instance"):
            original = getattr(kind, name).__func__

            def ask(cls, *args, original=original, **kwargs):
                if self.engine is None and not self.building and self.is_top_level():
                    without_interrupts(self._build_shell)
                return original(cls, *args, **kwargs)

            setattr(kind, name, classmethod(ask))

    def _hook_sympy(self, module):
        """Lets init_printing() find the shell, for which it looks among the builtins of a cell of IPython's."""
        if self.settings.ipython:
            from IPython import get_ipython

            module.get_ipython = get_ipython

    def _hook_agg(self, module):
        """Gives matplotlib's Agg backend, the default here, a show() that shows."""
        module.show = lambda *args, **kwargs: self.displays.show_open_figures()

    def _hook_pyplot(self, module):
        """Its own pause() needs a window, or shows the figure and closes it."""
        module.pause = self.displays.pause

    def _hook_duckdb(self, module):
        import_seldom("libraries").note_connections(module)
        if self.run_id is not None:
            self.data_limit.watch()

    def _hook_pools(self, module):
        kind = getattr(module, "_WorkItem", None)
        if isinstance(kind, type):
            module._WorkItem = self.threads.pool_item(kind)

    # -- before the first run

    def load(self):
        """Imports and builds everything at once: in the zygote."""
        for name in self._modules():
            import_quietly(name)
        self._build_shell()
        for name in ("holdings", "kept.read", "kept.write", "libraries", "sizes"):
            import_seldom(name)
        self.warm = True
        self.modules = dict(sys.modules)  # here, because a fork that touches them all copies all of their pages

    def _modules(self):
        names = ([IPYTHON] if self.settings.ipython else []) + self.settings.preload
        if "matplotlib.pyplot" in names:  # which the first figure would import
            names.append(AGG)
        return names

    def _build_shell(self):
        if self.engine is None and self.settings.ipython:
            self.building = True  # IPython itself asks whether there is a shell
            try:
                os.getcwd()
            except OSError:  # code removed the folder, and IPython begins in none
                self._enter_folder()
            try:
                with own_imports:
                    self.engine = import_seldom("ipython_engine").IPythonEngine(self, self.plain)
            except Exception as e:
                # An IPython that cannot be used must not cost the session: plain Python works on.
                self.settings.ipython = isinstance(e, OSError)  # such as for want of room, which is no lasting fault
                print("IPython could not be started: %s: %s" % (type(e).__name__, e), file=sys.stderr)
            finally:
                self.building = False

    def serve(self, link):
        """The life of a kernel; never returns."""
        self.link = link
        self._enter()
        self.say_hello()
        while True:
            message = self._next_message()
            fds = self.link.fds  # a copy uses another link
            if message.get("type") == "run":
                if len(fds) < 2:  # another process of the code's took them
                    os._exit(1)
                if not self.begun:  # a run that a kernel dies over before that is given to another kernel
                    self.begun = True
                    self.around.look()
                    self._send({"type": "begun", "id": message.get("id")})
                self._run(message, fds.pop(0), fds.pop(0))
            elif message.get("type") == "bind":
                self.settings.set_environment(message)
            elif message.get("type") in self.between_runs:
                answer = self.between_runs[message["type"]](message)
                if answer is not None:
                    self._send(answer)
            elif message.get("type") == "interrupt":  # for a run that was just over
                self._attempt(self._stop_started, self.threads.find(message.get("id")))

    def say_hello(self):
        features = ["ipython"] if self.settings.ipython else []
        version = "%d.%d.%d" % sys.version_info[:3]
        self._send({"type": "hello", "pid": self.pid, "version": version, "features": features})

    def _enter(self):
        self.pid = os.getpid()
        if os.getsid(0) != self.pid:  # a zygote's child
            os.setsid()
        self.null_fd = move_high(os.open(os.devnull, os.O_RDWR))
        for target in (0, 1, 2):
            os.dup2(self.null_fd, target)
        self._enter_folder()
        sys.argv = [""]
        import_own()
        self.installed.enter()
        sys.path.insert(0, "")
        self.modules = self.modules or dict(sys.modules)
        self.threads.install()
        self.heap = Heap()
        self.data_limit = DataLimit(self.settings.memory_bytes)
        self.threads.make_room = self.data_limit.make_room
        self.threads.loop_runs = self.event_loop.is_running
        self._set_up_builtins()
        signal.signal(signal.SIGINT, ignore_signal)
        signal.default_int_handler = self.on_interrupt  # asyncio puts its own only in the place of that one
        reseed()

    def _enter_folder(self):
        try:
            os.chdir(self.settings.work_dir)
        except OSError:
            os.chdir("/")

    def _set_up_builtins(self):
        import atexit
        import faulthandler

        # The callbacks so far are its parent's, which lives on: the child would remove the parent's folders.
        os.register_at_fork(after_in_child=atexit._clear)
        self.notices.install()
        builtins.exit, builtins.quit = Exiter("exit"), Exiter("quit")
        if not self.settings.ipython:
            builtins.display = self._display
        self.make_streams()
        faulthandler.enable(2)

    def _display(self, *values, **_):
        for value in values:
            alt, saved = self._of_figure(value)
            self.displays.publish(mime_bundle(value), alt, saved=saved)

    def _of_figure(self, value):
        """A figure's title and its file, if any; nothing for other objects."""
        return (figure_title(value), self.displays.saved_as(value)) if is_figure(value) else ("", "")

    # -- messages

    def _next_message(self):
        while not self.link.messages:
            if self._is_readable():
                self.link.receive()
            elif not self.warm:
                self._preload()
        return self.link.messages.pop(0)

    def _send(self, header, blob=b""):
        # A forked child of the code holds a copy of this socket and must not speak on it.
        if not self.is_child():
            with self.threads.lock:  # frames of two threads must not mix
                self.link.send(header, blob)

    def send_display(self, header, blob):
        """Sends a display while code runs: an interrupt must not tear a frame."""
        if not self.in_run():  # the run that it belongs to is over, or this is a forked child
            print("[%s] %s" % (header["mime"], header.get("path", "is not kept")))
            return
        header["id"] = self.run_id
        without_interrupts(self._send, header, blob)

    def clear_output(self):
        """Takes back the run's displays and output."""
        self.flush()
        without_interrupts(self._send, {"type": "clear", "id": self.run_id})
        for stream in (self.stdout, self.stderr):
            stream.write(CLEAR)
            stream.flush()

    def in_run(self):
        """Whether the caller is the run that goes on: no forked child of it, and no thread of one before."""
        return self.run_id is not None and not self.is_child() and self.threads.earlier_work() is None

    def is_top_level(self):
        """Whether the caller is a cell, or is called by one: no thread, no forked child, and nothing between runs."""
        return get_ident() == self.threads.main and self.run_id is not None and not self.is_child()

    def is_child(self):
        """Whether code forked this process."""
        return os.getpid() != self.pid

    # -- the time between runs

    def _is_readable(self):
        """Waits for a message, or where there is something to preload for that long; tasks go on meanwhile."""
        seconds = max(PRELOAD_SECONDS, self.put_off.left()) if self.count and not self.warm else None
        # A thread may give the loop something to do at any time.
        if seconds is None and not (self.event_loop.is_waiting() or self.event_loop.exists() and self.threads.owners):
            return self._await_message()
        ready, error = self._attempt(self.event_loop.wait, [self.link.sock], seconds)
        return bool(ready) and not self._tell(error)

    def _await_message(self):
        """Waits for a message, as long as no signal handler of the code raises."""
        link = poll()
        link.register(self.link.sock, POLLIN)
        try:
            link.poll()
        except BaseException as error:
            return not self._tell(error)
        return True

    def _tell(self, error):
        """Prints what a signal handler of the code raised between runs, and reports whether it did."""
        # An error of the wait itself has no further frame.
        if error is None or isinstance(error, Interrupt) or not error.__traceback__.tb_next:
            return False
        import traceback

        traceback.print_exception(error)
        return True

    def _preload(self):
        """Imports in the background until that is done. IPython's shell follows, on the main thread."""
        if self.preload is None:
            if self.put_off.by_others():
                return
            self.preload = Preload(self._modules())
            os.register_at_fork(
                before=self.preload.hold, after_in_parent=self.preload.let_go, after_in_child=self.preload.let_go
            )
        if self.preload.done:
            self.preload.finish()
            self._build_shell()
            self._end_preload()
        elif not self.preload.is_running():
            try:
                self.preload.start()
            except RuntimeError:  # no thread is left: the code imports by itself
                self._end_preload()

    def _end_preload(self):
        self.warm = True
        self._send({"type": "loaded"})

    # -- variables that outlive the kernel

    def _twin(self, _):
        answer = fork_twin(self, self.link.fds.pop(0)) if self.link.fds else {"why": "no descriptor came"}
        if answer is None:  # this is the copy
            return
        self._send({"type": "twinned", **answer})
        if self.engine is not None and not answer["why"] and not self._attempt(self.link.is_called, RUN_SECONDS)[0]:
            self.engine.rehearse()

    def hidden_names(self):
        """Names in the namespace, with their values, that are Python's or the shell's."""
        return {**self.first_names, **(self.engine.own_names() if self.engine is not None else {})}

    def _describe(self, message):
        return import_seldom("holdings").describe(self, message)

    def _freeze(self, message):
        answer = import_seldom("kept.write").freeze(self, message)
        if self.is_child():  # a method of the code's forked
            os._exit(1)
        return answer

    def _wake(self, message):
        self.around.look()
        self.around.enters = message.get("enters", False)
        return import_seldom("kept.read").wake(self, message)

    def _enter_again(self, _):
        """Enters the current folder by its name, where another one may be by now."""
        try:
            os.chdir(self.around.folder or self.settings.work_dir)
        except OSError:
            self._enter_folder()
            return {"type": "entered", "why": "%s is gone, and this is %s now" % (self.around.folder, os.getcwd())}
        return {"type": "entered", "why": ""}

    def continue_cells(self, count, sources):
        """Numbers cells behind those that variables come from, whose text tracebacks still find."""
        inputs = [self.plain.inputs]
        if self.engine is not None:
            history = self.engine.shell.history_manager
            inputs = [history.input_hist_raw, history.input_hist_parsed]
        for cells in inputs:
            cells.extend([""] * min(count - self.count, MOST_CELLS))
        self.count = max(count, self.count)
        for name, text in sources.items():
            remember_source(text, name)

    # -- a run

    def _run(self, message, out_fd, err_fd):
        self.run_id = message["id"]
        self.count += 1
        self.result = self.result_left = None
        self.interrupted = self.for_memory = False
        self.on_interrupt.begin_run()
        self._restore(out_fd, err_fd)
        reserve = self._reserve_fds()
        self.displays.begin_run()
        self.notices.begin_run()
        self.namespace.pop("__warningregistry__", None)  # a line of another cell did not warn before
        # As Python reads a file: Windows ends lines in another way, and may begin with a mark.
        code = re.sub("\r\n?", "\n", message["code"].lstrip("\ufeff"))
        report = {"type": "done", "id": self.run_id}
        looked = not message.get("before") and import_seldom("looks").only_looks(self, code)
        self.data_limit.renew()
        if "duckdb" in sys.modules:
            self.data_limit.watch()
        _, error = self._attempt(self._evaluate, code, message.get("before", ""))
        if self.is_child():
            self._end_child(error)
        if isinstance(error, MemoryError):
            self.data_limit.renew()  # for its description
        error = self._of_interrupt(error)
        linger = None if isinstance(error, (KeyboardInterrupt, OutOfMemory)) else message.get("linger_ms", 0) / 1000
        report["goes_on"], trouble = self._attempt(self._finish, linger)
        self.threads.before_output(None)
        error = trouble if error is None else error
        report["result"], report["result_left"] = self.result, self.result_left
        self._describe_outcome(report, error)
        report["looked"] = looked and not report["goes_on"]
        report["installed"], _ = self._attempt(self._tell_installed)
        self._attempt(self.notices.end_run)
        self._see_interrupts()
        if self.interrupted:
            self._attempt(self._stop_started, self.threads.current)
            self._attempt(forget_torn)
        self._stop_timers()
        for fd in reserve:
            close_quietly(fd)
        self.threads.end(self.event_loop.is_waiting())
        self.around.note_folder()
        self.data_limit.unwatch()
        self.run_id = None
        self._send(report)
        self._attempt(self.heap.give_back)

    def _tell_installed(self):
        """Reports whether packages were installed since the last run."""
        lines = self.installed.changes()
        for line in lines or ():
            print(line, file=self.stderr)
        return lines is not None

    def _stop_started(self, work):
        """Ends the tasks and threads of an interrupted run."""
        if work is None:
            return
        self.event_loop.stop_run(work)
        names = self.threads.stop(work)
        if self.engine is not None:
            self.engine.forget_loop(self.threads.is_ended)
        if names:
            print(
                "note: threads of this run have not ended yet and will when they come back from what they wait for: "
                + ", ".join(names)[:500],
                file=sys.stderr,
            )

    @staticmethod
    def _stop_timers():
        """An alarm that rings later would interrupt another run, or end the kernel."""
        for timer in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF):
            signal.setitimer(timer, 0)

    def _restore(self, out_fd, err_fd):
        """Gives the code its standard streams; earlier code may have closed or replaced them."""
        if "builtins" not in sys.modules:  # sys.modules.clear() would make every later run fail
            sys.modules.update(self.modules)
        self.threads.flush()  # output from between the runs
        set_dumpable(True)  # an earlier run may hide this process's open files
        # A stream put in their place by code may close its descriptor as soon as it is dropped.
        sys.stdin, sys.stdout, sys.stderr = self.stdin, self.stdout, self.stderr
        fds = [move_high(fd) for fd in (out_fd, err_fd)]
        for target, fd in enumerate(fds, 1):
            os.dup2(fd, target)
        try:
            os.dup2(self.null_fd, 0)
        except OSError:
            self.null_fd = move_high(os.open(os.devnull, os.O_RDWR))
            os.dup2(self.null_fd, 0)
        if not all(map(is_usual, (self.stdout, self.stderr))):
            self.make_streams()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT,))
        self.event_loop.begin_run()
        self.threads.begin(self.run_id, fds)

    def _reserve_fds(self):
        """Room for the next run's two descriptors, should this run use up all that there are."""
        try:
            return [fcntl.fcntl(self.null_fd, fcntl.F_DUPFD_CLOEXEC, 200) for _ in range(2)]
        except OSError:
            return []

    def make_streams(self):
        self.stdin, (self.stdout, self.stderr) = NoInput(), self.threads.make_outputs()
        sys.stdin = sys.__stdin__ = self.stdin
        sys.stdout = sys.__stdout__ = self.stdout
        sys.stderr = sys.__stderr__ = self.stderr

    def _attempt(self, step, *args):
        """Runs a step that an interrupt may end; returns (value, error)."""
        try:
            try:
                signal.signal(signal.SIGINT, self.on_interrupt)
                return step(*args), None
            finally:
                signal.signal(signal.SIGINT, ignore_signal)
        except BaseException as e:
            ignore_interrupts()  # one may come inside the finally
            return None, e

    def _evaluate(self, code, before):
        self._check_interrupt()
        exec(before, {"kernel": self})
        if self.engine is None and self.settings.ipython and self.plain.needs_ipython(code):
            without_interrupts(self._build_shell)  # half of IPython could not be imported again
        (self.engine or self.plain).evaluate(code)

    def _finish(self, linger):
        """Waits for the run's threads and tasks, then shows figures as a notebook does at the end of a cell."""
        try:
            return self.started.wait(linger, self.flush) if linger is not None else []
        finally:
            try:
                self.displays.show_open_figures(again=False)
                self.displays.finish_pages()
            finally:
                self.flush()

    def _check_interrupt(self):
        """Sees an interrupt that came before the signal could be taken."""
        self._see_interrupts()
        if self.interrupted:
            raise self._error_of_interrupt()

    def _error_of_interrupt(self):
        """The exception to raise in the code, by the reason of the last interrupt."""
        came = self.link.peek()
        for_memory = b'"reason":"memory"' in came[came.rfind(b"{") :] if b'"type":"interrupt"' in came else self.for_memory
        return OutOfMemory(OutOfMemory.TEXT) if for_memory else KeyboardInterrupt()

    def _of_interrupt(self, error):
        """The error of an interrupted run. asyncio.run() takes the signal itself, and raises KeyboardInterrupt, or
        CancelledError if the signal comes before it counts them."""
        self._see_interrupts()
        if not self.interrupted or type(error).__name__ not in ("KeyboardInterrupt", "CancelledError"):
            return error
        return self._error_of_interrupt().with_traceback(error.__traceback__)

    def _see_interrupts(self):
        """Takes the pending interrupts."""
        link = self.link
        link.receive(socket.MSG_DONTWAIT)
        came = [message for message in link.messages if message.get("type") == "interrupt"]
        # Code that forges the end of its run makes the next one come early: it must wait.
        link.messages = [message for message in link.messages if message not in came]
        if any(message.get("id") == self.run_id for message in came):
            self.interrupted = True
            self.for_memory = came[-1].get("reason") == "memory"

    def is_wanted(self):
        """Whether an interrupt is: between runs, by one that waits for a task which does not give way."""
        return self.run_id is not None or b'"type":"run"' in self.link.peek()

    def show(self, value, bundle):
        """Takes the value of a cell's last expression: as the result, and as a display if it is a picture."""
        self.threads.begin_output()
        if self.result is not None:  # of an expression before the last one, which IPython can be told to show
            print(self.result)
        text, most = text_of(bundle), self.settings.output_bytes
        self.result = cut_text(text, most) or None  # none: it displayed itself
        self.result_left = None
        if self.result not in (None, text):
            self.result_left = dict(left_out(text[len(self.result) - 1 :]), more=len(text) > 2 * most)  # where IPython ends
        if PLOTLY in bundle or isinstance(bundle.get(DATA), dict) or any(bundle.get(mime) for mime in SHOWN_MIMES):
            alt, saved = self._of_figure(value)
            self.displays.publish(bundle, alt, again=False, saved=saved)

    def _describe_outcome(self, report, error):
        if error is None:
            return
        if isinstance(error, SystemExit):
            report["exit"] = self._exit_code(error.code)
            return
        sys.last_type, sys.last_value, sys.last_traceback = type(error), error, error.__traceback__
        described, trouble = self._attempt(describe, error)
        report["error"] = described or {
            "name": type(error).__name__,
            "message": "the error could not be described: its own methods raised %s" % type(trouble).__name__,
            "traceback": "",
        }
        if isinstance(error, MemoryError):
            report["largest"] = self._free_memory(error)

    def _free_memory(self, error):
        """Frees the locals of failed functions, which their error keeps; names the largest variables."""
        import traceback

        try:
            traceback.clear_frames(error.__traceback__)
            return import_seldom("sizes").largest(self.namespace, self.hidden_names())
        except Exception:  # for want of memory
            return []

    def _exit_code(self, code):
        """As the interpreter does it: a number, nothing, or a text for stderr and 1."""
        if code is None:
            return 0
        if isinstance(code, int):
            return code & 0xFF
        self._attempt(self._print_exit, code)
        return 1

    @staticmethod
    def _print_exit(code):
        print(code, file=sys.stderr)

    def flush(self):
        for stream in {sys.stdout, sys.stderr, self.stdout, self.stderr}:
            try:
                stream.flush()
            except (OSError, ValueError, AttributeError):
                pass

    def _end_child(self, error):
        """Code that forked and did not exit in the child ends here, as a script would."""
        code, trouble = self._attempt(self._finish_child, error)
        self.flush()
        if isinstance(trouble or error, KeyboardInterrupt):
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)
        os._exit(1 if trouble is not None else code)

    def _finish_child(self, error):
        """Runs the interpreter's callbacks at its end; reports the exit code."""
        import atexit

        code = 0
        if isinstance(error, SystemExit):
            code = self._exit_code(error.code)
        elif error is not None:
            print("".join(format_error(error)), end="", file=sys.stderr)
            code = 1
        threading = sys.modules.get("threading")
        if threading is not None:
            threading._shutdown()  # waits for the threads that are no daemons
        atexit._run_exitfuncs()
        return code


def cut_text(text, limit):
    """A text of at most `limit` bytes."""
    data = text[: limit + 1].encode("utf-8", "replace")
    if len(data) <= limit:
        return text
    return data[: limit - 3].decode("utf-8", "ignore") + "…"


def is_usual(stream):
    """Whether a stream is open, and as it was made."""
    try:
        return not stream.closed and (stream.encoding, stream.errors) == ("utf-8", "backslashreplace")
    except ValueError:  # detached
        return False


def import_own():
    """Imports the kernel's own later modules, while no file of the user's can come before them."""
    for name in ("__future__", "ast", "binascii", "itertools", "linecache", "traceback", "warnings"):
        __import__(name)
    own_imports.install()


def reseed():
    """Forks of one zygote must not share a random sequence; Python's own random sees to itself."""
    random = sys.modules.get("numpy.random")
    if random is not None:
        random.seed()
