"""Running code as plain Python."""

import re

from mimes import mime_bundle
from notices import LOOKED_AT


class PlainEngine:
    """Runs code with compile and exec: the whole engine where there is no IPython, else the first one."""

    CO_COROUTINE = 0x80

    def __init__(self, kernel):
        import __future__

        self.kernel = kernel
        self.namespace = kernel.namespace
        self.inputs = [""]
        self.outputs = {}
        self.flags = 0
        self.features = [getattr(__future__, name).compiler_flag for name in __future__.all_feature_names]
        self.last = [None, None, None]

    def parse(self, code, name):
        import ast

        return self.compile(code, name, "exec", ast.PyCF_ONLY_AST)

    def compile(self, source, name, mode, more=0):
        import ast

        flags = self.flags | more | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        return compile(source, name, mode, flags, dont_inherit=True)

    def evaluate(self, code):
        """Runs a cell and shows its last expression."""
        import ast

        name = remember_source(code, name_of_cell(self.kernel.count))
        self.inputs.append(code)
        try:
            tree = self.parse(code, name)
        except SyntaxError as e:
            raise self._explain(e, code) from None
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        parts = [self.compile(tree, name, "exec")] if tree.body else []
        if last is not None:
            parts.append(self.compile(ast.Expression(last.value), name, "eval"))
        value = self._execute(parts)
        if last is not None and value is not None and not self._silenced(last, code):
            if self.kernel.engine is not None:  # code of the cell asked for it
                self.kernel.engine.shell.displayhook(value)
                return
            self._remember(value)
            self.kernel.show(value, mime_bundle(value))

    def _execute(self, parts):
        """Runs the parts of a cell; all of them inside the event loop when one awaits."""
        for code in parts:
            self.flags |= sum(flag for flag in self.features if code.co_flags & flag and not self.flags & flag)
        if any(code.co_flags & self.CO_COROUTINE for code in parts):
            return self.kernel.event_loop.run(self._await(parts))
        value = None
        for code in parts:
            value = eval(code, self.namespace)
        return value

    async def _await(self, parts):
        value = None
        for code in parts:
            value = eval(code, self.namespace)
            if code.co_flags & self.CO_COROUTINE:
                value = await value
        return value

    def _explain(self, error, code):
        """Says of IPython's own syntax why it does not work here."""
        lines = code.split("\n")
        line = lines[error.lineno - 1].strip() if error.lineno and error.lineno <= len(lines) else ""
        if line[:1] in ("%", "!") or "=!" in line.replace(" ", "") or "=%" in line.replace(" ", ""):
            error.msg = (
                "%magic and !command need IPython, which this image does not have; use the subprocess module instead"
            )
        return error

    @staticmethod
    def _silenced(last, code):
        """Whether a semicolon follows the last expression."""
        line = code.split("\n")[last.end_lineno - 1].encode("utf-8")
        return line[last.end_col_offset :].lstrip().startswith(b";")

    def _remember(self, value):
        """Keeps `_`, `__` and `___`, unless the code uses that name for itself."""
        names = ("_", "__", "___")
        if any(name in self.namespace and self.namespace[name] is not old for name, old in zip(names, self.last)):
            return
        self.last = [value] + self.last[:2]
        self.namespace.update(zip(names, self.last))
        if self.kernel.settings.ipython:
            self.outputs[self.kernel.count] = value

    IPYTHON_NAMES = re.compile(r"display|get_ipython|In|Out|_[iod]h|_i{1,3}|_i?\d+")

    def needs_ipython(self, code):
        """Whether a cell is not plain Python, or uses names of IPython alone."""
        import ast

        try:
            tree = self.parse(code, LOOKED_AT)
        except SyntaxError:
            return True
        if not any(text in code for text in ("display", "get_ipython", "In", "Out", "_")):
            return False
        names, stored = set(), set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Name):
                (names if isinstance(node.ctx, ast.Load) else stored).add(node.id)
        return any(map(self.IPYTHON_NAMES.fullmatch, names - stored - self.namespace.keys()))


def name_of_cell(number):
    return "<cell %d>" % number


def remember_source(code, name):
    """Lets tracebacks and inspect find the lines of a cell."""
    import io
    import linecache

    # Without a time, linecache does not look for a file of that name.
    linecache.cache[name] = (len(code), None, io.StringIO(code).readlines(), name)
    return name
