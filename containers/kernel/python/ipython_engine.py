"""Running code in the image's IPython shell."""

import re
import sys

from errors import format_error
from event_loop import JOIN_SECONDS
from imports import import_seldom
from mimes import PICTURES, STYLER, BoundedText, Enough, Unshown, is_bare, styled_text
from pictures import figure_png, figure_title, is_figure
from plain_engine import name_of_cell, remember_source
from stand_ins import Exiter

SAVED = "saved"  # in the metadata of a figure's picture: the file that code saved it to
BLANK = re.compile(r"(?:[^\S\n]*\n)*")


class IPythonEngine:
    """Runs code in IPython's shell, which reports to the kernel instead of printing."""

    def __init__(self, kernel, plain):
        self.kernel = kernel
        self.error = None
        self.unshown = None  # of the value that is being formatted
        self.shell = make_shell(self, kernel)
        self._take_over(plain)

    def _take_over(self, plain):
        """Carries over the plain engine's inputs, outputs and future imports."""
        shell = self.shell
        shell.execution_count = self.kernel.count
        history = shell.history_manager
        history.input_hist_raw[:] = plain.inputs
        history.input_hist_parsed[:] = plain.inputs
        history.output_hist.update(plain.outputs)
        shell.user_ns.update(("_i%d" % number, text) for number, text in enumerate(plain.inputs) if text)
        shell.compile.flags |= plain.flags
        hook = shell.displayhook
        if plain.outputs:
            hook._, hook.__, hook.___ = plain.last
            shell.user_ns.update({"_": plain.last[0], "__": plain.last[1], "___": plain.last[2]})
            shell.user_ns.update(("_%d" % number, value) for number, value in plain.outputs.items())

    def own_names(self):
        """Names in the namespace, with the values given by the shell."""
        outputs = self.shell.history_manager.output_hist
        return {**self.shell.user_ns_hidden, **{"_%s" % number: value for number, value in outputs.items()}}

    def evaluate(self, code):
        shell = self.shell
        shell.execution_count = self.kernel.count
        self.error = None
        result = shell.run_cell(code, store_history=True)
        error = result.error_before_exec or result.error_in_exec or self.error
        self.error = None
        if isinstance(error, SyntaxError):
            error = self._explain(error, code)
        if error is not None:
            raise error

    def _explain(self, error, code):
        """Python's own error where the cell itself is at fault: IPython's says less."""
        try:
            code = self.shell.transform_cell(code)
        except SyntaxError:
            pass
        try:
            self.kernel.plain.compile(code, name_of_cell(self.kernel.count), "exec")
        except SyntaxError as e:
            return e.with_traceback(None)
        return error

    def forget_loop(self, is_ended):
        """The event loop of %%bash and the like runs in a thread that may be gone with its run."""
        magics = self.shell.magics_manager.registry.get("ScriptMagics")
        loop = getattr(magics, "event_loop", None)
        if loop is not None and is_ended(getattr(loop, "_thread_id", None)):
            magics.event_loop = None

    def rehearse(self):
        """Runs a cell that does nothing, unseen by the code's callbacks.

        Behind a fork each page of memory is copied when it is first written to; so the next run finds most of its own copied.
        """
        shell = self.shell
        result, callbacks, changes = shell.last_execution_result, shell.events.callbacks, shell.ast_transformers[:]
        try:
            shell.events.callbacks, shell.ast_transformers[:] = dict.fromkeys(callbacks, ()), ()
            shell.run_cell("0", store_history=False, silent=True)
        except Exception:  # code changed its signature
            pass
        finally:
            shell.events.callbacks, shell.ast_transformers[:] = callbacks, changes
            shell.last_execution_result = result
            shell.last_execution_succeeded = result is None or result.success

    def stop_idle_loop(self):
        """Ends the thread of that loop where nothing goes on in it; the next %%bash starts another."""
        magics = self.shell.magics_manager.registry.get("ScriptMagics")
        loop = getattr(magics, "event_loop", None)
        if loop is None or not loop.is_running() or len(loop._selector.get_map()) > 1:
            return
        import asyncio
        import threading

        thread = threading._active.get(loop._thread_id)
        if thread is None or asyncio.all_tasks(loop):
            return
        loop.call_soon_threadsafe(loop.stop)
        thread.join(JOIN_SECONDS)
        if not thread.is_alive():
            loop.close()
            magics.event_loop = None

    def on_traceback(self, error):
        """IPython would print this error. It fails the run instead, also one in a %magic."""
        if self.unshown is not None and error is not None:
            self.unshown.tell(error)
            return
        if error is None:
            error = getattr(sys, "last_value", None)  # %tb
            if error is not None:
                print("".join(format_error(error)), file=sys.stderr)
            return
        self.error = error


def make_shell(engine, kernel):
    """Builds IPython's shell on the kernel's namespace: no history file, no colours, no config."""
    import tempfile
    import warnings

    from IPython.core.compilerop import CachingCompiler
    from IPython.core.displayhook import DisplayHook
    from IPython.core.displaypub import DisplayPublisher
    from IPython.core.formatters import DisplayFormatter, MimeBundleFormatter, PlainTextFormatter
    from IPython.core.interactiveshell import InteractiveShell
    from IPython.core.profiledir import ProfileDir
    from IPython.lib.pretty import RepresentationPrinter
    from traitlets.config import Any, Config, Configurable

    displays = kernel.displays

    class Compiler(CachingCompiler):
        def cache(self, transformed_code, number=0, raw_code=None):
            return remember_source(transformed_code, name_of_cell(number))

    class Formatter(DisplayFormatter):
        """Asks for HTML and the like only where there is neither a picture nor a text of its own."""

        def format(self, obj, include=None, exclude=None):
            outer, engine.unshown = engine.unshown, Unshown(obj)
            try:
                if include or exclude:
                    return self._checked(obj, include, exclude)
                is_formula = type(obj).__module__.startswith("sympy.")  # whose picture says no more than its text
                data, metadata = self._checked(obj, "text/plain" if is_formula else PICTURES)
                if is_figure(obj):
                    metadata["alt"] = figure_title(obj)
                if not (data or engine.unshown.textless) or len(data) > 1 or not is_bare(data.get("text/plain", "")):
                    return data, metadata
                more, of_more = self._checked(obj, exclude=PICTURES)
                return {**data, **more}, {**metadata, **of_more}
            finally:
                engine.unshown = outer

        def _checked(self, obj, include=None, exclude=None):
            data, metadata = super().format(obj, include, exclude)
            return engine.unshown.checked(data), metadata

    class Bundles(MimeBundleFormatter):
        """Asks a value once, also where it is formatted twice: its method may run a query."""

        def __call__(self, obj, include=None, exclude=None):
            if engine.unshown.bundle is None:
                include = None if include == PICTURES else include
                engine.unshown.bundle = super().__call__(obj, include=include, exclude=exclude)
            return engine.unshown.bundle

        def _check_return(self, r, obj):
            data, metadata = (*super()._check_return(r, obj), None)[:2]  # of whatever length it is
            return data, metadata if isinstance(metadata, dict) else {}

    class Text(PlainTextFormatter):
        """Ends where the rest would be cut off: a large value takes minutes to lay out."""

        def __call__(self, obj):
            return (engine.unshown or Unshown(obj)).text(self.bounded, obj)

        def bounded(self, obj):
            stream = BoundedText(2 * kernel.settings.output_bytes)
            printer = RepresentationPrinter(
                stream,
                self.verbose,
                self.max_width,
                self.newline,
                max_seq_length=self.max_seq_length,
                singleton_pprinters=self.singleton_printers,
                type_pprinters=self.type_printers,
                deferred_pprinters=self.deferred_printers,
            )
            try:
                printer.pretty(obj)
                printer.flush()
            except Enough:
                pass
            return "".join(stream.parts)

    class Hook(DisplayHook):
        def __call__(self, result=None):
            self.check_for_underscore()
            if result is None or self.quiet():
                return
            data = self.compute_format_data(result)[0]
            self.update_user_ns(result)
            self.fill_exec_result(result)
            kernel.show(result, data)

    class Publisher(DisplayPublisher):
        def publish(self, data, metadata=None, source=None, *, transient=None, **_):
            key = str((transient or {}).get("display_id") or "")
            metadata = metadata or {}
            displays.publish(data, str(metadata.get("alt") or ""), key=key, saved=saved_in(metadata.get("image/png")))

        def clear_output(self, wait=False):
            displays.clear(wait)

    class InlineBackend(Configurable):
        """Takes the %config lines that notebooks begin with; figures are shown without it."""

        figure_format = figure_formats = Any().tag(config=True)
        close_figures = print_figure_kwargs = rc = Any().tag(config=True)

    class System:
        """The shell's own method: a command's variables are looked for in the frame that calls that."""

        def __get__(self, shell, _):
            method = shell.system_raw  # the piped one needs a pseudo terminal
            kernel.threads.begin_output()
            return method

    class Shell(InteractiveShell):
        compiler_class = Compiler
        display_pub_class = Publisher
        displayhook_class = Hook
        system = System()

        def init_profile_dir(self, profile_dir):
            self.profile_dir = ProfileDir.create_profile_dir(tempfile.mkdtemp(prefix=".ipython-"))

        def init_display_formatter(self):
            self.display_formatter = Formatter(parent=self)
            self.configurables.append(self.display_formatter)

        def ask_exit(self):
            """IPython's own exit(), which %reset brings back."""
            raise SystemExit

        def enable_gui(self, gui=None):
            pass

        def enable_matplotlib(self, gui=None):
            return gui or "inline", "agg"

        def _format_exception_for_storage(self, *_, **__):
            """IPython's history of errors, which is not kept: it asks them for their text, and that may raise."""
            return {}

        def showtraceback(self, exc_tuple=None, *_, **__):
            engine.on_traceback(exc_tuple[1] if exc_tuple else sys.exc_info()[1])

        def showsyntaxerror(self, *_, **__):
            engine.on_traceback(sys.exc_info()[1])

        def showindentationerror(self):
            engine.on_traceback(sys.exc_info()[1])

    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "NoColor"
    config.InteractiveShell.banner1 = ""
    folder = tempfile.gettempdir()
    shell = Shell.instance(
        config=config, user_module=sys.modules["__main__"], user_ns=kernel.namespace, ipython_dir=folder
    )
    shell.configurables.append(InlineBackend(parent=shell))
    transform = shell.input_transformer_manager.transform_cell
    # IPython drops empty lines before the code, by which the lines of errors would be others than those that were sent.
    shell.input_transformer_manager.transform_cell = lambda cell: BLANK.match(cell)[0] + transform(cell)
    shell.loop_runner = kernel.event_loop.run
    publisher = shell.display_pub
    displays.capturing = lambda: None if shell.display_pub is publisher else shell.display_pub
    # The end of a cell within a cell, as in %%capture; the end of a run shows figures by itself.
    shell.events.register("post_execute", lambda: displays.capturing() and displays.show_open_figures())
    ends = {name: Exiter(name) for name in ("exit", "quit")}
    shell.user_ns.update(ends)
    shell.user_ns_hidden.update(ends)
    shell.set_hook("show_in_pager", show_in_pager)
    shell.display_formatter.mimebundle_formatter = Bundles(parent=shell.display_formatter)
    formatters = shell.display_formatter.formatters
    formatters["image/png"].for_type_by_name(
        "matplotlib.figure", "Figure", lambda figure: (figure_png(figure), {SAVED: displays.saved_as(figure)})
    )
    formatters["text/plain"] = Text(parent=shell.display_formatter)
    formatters["text/plain"].for_type_by_name(*STYLER, lambda value, printer, _: printer.text(styled_text(value)))
    for message in ("To exit: use", "This is now an optional IPython functionality"):
        warnings.filterwarnings("ignore", message=message, module="IPython")
    # This kernel finds their packages at once, too (installed.py).
    warnings.filterwarnings("ignore", message="You executed the system command !(pip|conda|mamba|uv)")
    shell.register_magic_function(lambda line: install(sys.executable + " -m pip", line), magic_name="pip")
    shell.register_magic_function(lambda line: install("uv", re.sub(r"^pip install\b", "pip install --system", line)), magic_name="uv")
    return shell


def install(command, line):
    import_seldom("install").magic(command, line)


def saved_in(metadata):
    saved = metadata.get(SAVED) if isinstance(metadata, dict) else ""
    return saved if isinstance(saved, str) else ""


def show_in_pager(_shell, data, **_):
    """IPython's hook for paged text, such as `len?`."""
    print(data["text/plain"] if isinstance(data, dict) else data)
