"""Which runs change no variable, known before them by their syntax and the objects that their names have then.

A value is *plain* if it is made of exact types of Python, numpy, pandas and polars all through, so that no method of the code's own is
called with it. An expression is known if it does nothing but what the table below has, with plain values. In doubt a run is not known.
"""

import ast
import builtins
import itertools
import sys
from collections import Counter, OrderedDict, deque
from types import BuiltinFunctionType, FunctionType, ModuleType

from holdings import _is_theirs
from imports import INSTALLED, is_installed

LONGEST = 2000  # characters of code: who looks says little
MOST = 1_000_000  # values that are looked at
PACKAGES = ("numpy", "pandas", "polars")
SCALARS = {int, float, str, bytes, bool, complex, type(None), type(...), range, slice}
LISTS = {list, tuple, set, frozenset, deque}
MAPS = {dict, Counter, OrderedDict}
STANDARD = {"datetime": "date datetime time timedelta timezone", "decimal": "Decimal", "fractions": "Fraction", "uuid": "UUID", "pathlib": "Path PosixPath PurePosixPath"}


def _names(text):
    return frozenset(text.split())


FUNCTIONS = {
    getattr(builtins, name)
    for name in _names(
        "abs all any ascii bin bool bytes chr complex dict divmod enumerate float format frozenset hash hex int isinstance issubclass len list max "
        "min oct ord pow print range repr reversed round set slice sorted str sum tuple zip"
    )
}
SHALLOW = {type, id, callable}  # they ask nothing of an object
MODULES = {
    "math": None,  # all functions
    "statistics": None,
    "time": _names("time monotonic perf_counter strftime ctime"),
    "datetime": _names("date datetime time timedelta"),
    "pathlib": _names("Path"),
    "os": _names("getcwd listdir"),
    "os.path": _names("exists isfile isdir getsize join basename dirname splitext abspath"),
    "sys": _names("getsizeof getrecursionlimit"),
    "json": _names("dumps"),
    "numpy": _names(
        "abs all any argmax argmin argsort allclose array_equal average ceil concatenate corrcoef cov cumsum diff exp floor histogram hstack isclose "
        "isfinite isinf isnan linspace arange log log10 log2 max mean median min nanmax nanmean nanmedian nanmin nanstd nansum ones percentile prod quantile "
        "ravel reshape round sort sqrt std sum trace transpose unique var vstack where zeros"
    ),
    "pandas": _names("concat crosstab isna isnull notna notnull merge pivot_table to_datetime to_numeric unique date_range cut qcut"),
    "polars": _names("col lit len concat"),
}
VALUES = {"math": None, "numpy": _names("pi e inf nan"), "sys": _names("version version_info platform maxsize"), "os": _names("sep")}
# Methods that change nothing, of whichever of those types: a name is not here if it changes one of them. What `inplace` and the like would
# change is refused by their names.
METHODS = _names(
    """abs agg aggregate all any argmax argmin argsort as_integer_ratio asof astype between bfill bit_length capitalize casefold ceil center
    clip combine_first conjugate contains copy corr count cov cummax cummin cumprod cumsum date day_name decode describe diff difference dot
    drop drop_duplicates drop_nulls dropna duplicated elements encode endswith equals estimated_size eq explode extract fill_nan fill_null
    fillna filter find findall first flatten floor floordiv format fullmatch ge get get_column glimpse group_by groupby gt head hex idxmax
    idxmin index info interpolate intersection is_duplicated is_empty is_integer is_in is_null is_not_null is_unique isalnum isalpha isdigit
    isdisjoint isin islower isna isnull isoformat isocalendar isnumeric isspace issubset issuperset istitle isupper item items iterrows
    itertuples join keys kurt last le len len_chars limit ljust lower lstrip lt max mean median melt memory_usage merge min
    mode month_name most_common n_unique nbytes ne ngroups nlargest normalize notna notnull nsmallest nth null_count nunique pad partition_by
    pct_change pivot pivot_table prod quantile rank ravel removeprefix removesuffix rename replace reset_index reshape rfind rindex rjust
    rolling round rows rsplit rstrip select select_dtypes sem set_index shift size skew slice sort_index sort_values split splitlines squeeze
    stack std startswith strftime strip sub sum swapcase symmetric_difference tail take time timestamp title to_dict to_dicts
    to_frame to_list to_markdown to_numpy to_period to_string to_timestamp tolist total_seconds transpose truncate tz_convert tz_localize
    union unique unpivot unstack upper value_counts values var weekday where with_columns with_row_index xs year zfill
    read read_text readline readlines exists is_dir is_file"""
)
ATTRIBUTES = _names(
    """T array at axes cat columns data day dayofweek days denominator dt dtype dtypes empty flags height hour iat iloc imag index
    is_monotonic_decreasing is_monotonic_increasing is_unique levels list loc microsecond minute month name names nbytes ndim nlevels
    numerator quarter real schema second seconds shape size start step stop str struct suffix stem parent tzinfo value values width year"""
)
MAKERS = _names("now today fromisoformat fromtimestamp strptime cwd home")  # methods of classes
REFUSED = _names("inplace out file buf into key default cls func")  # by name, of whatever is called
MANY = _names("allclose array_equal corrcoef cov isclose linspace arange where")  # of numpy's, those without an `out` behind the first argument
SHOWING = {print, repr, str}
ALWAYS = _names("__repr__ __str__ __len__ __iter__ __getitem__ __getattr__ __contains__ __format__ __eq__ __lt__ __gt__ __add__ __mul__ __array__ _repr_html_")  # called unnamed


class Doubt(Exception):
    """It is not known that nothing changes."""


class Value:
    """What an expression comes to: the object itself, if it is there already, else something plain."""

    def __init__(self, *real):
        self.real = real


PLAIN = Value()


class Looks:
    """One look at a run's code."""

    def __init__(self, namespace):
        self.namespace = namespace
        self.left = MOST
        self.used = set(ALWAYS)

    # -- statements

    def block(self, statements):
        for node in statements:
            match node:
                case ast.Expr(value):
                    self.shown([value])
                case ast.Pass():
                    pass
                case ast.Import(names):
                    for name in names:
                        module = name.name if name.asname else name.name.partition(".")[0]
                        self.again(name.asname or module, sys.modules.get(module), name.name in sys.modules)
                case ast.ImportFrom(module, names, 0):
                    for name in names:
                        own = getattr(sys.modules.get(module), "__dict__", {})
                        self.again(name.asname or name.name, own.get(name.name), name.name in own)
                case ast.If(test, body, orelse):
                    self.plain(test)
                    self.block(body + orelse)
                case ast.Assert(test, message):
                    self.plain(test)
                    self.plains([message])
                case _:
                    raise Doubt

    def again(self, name, value, there):
        """Doubts an import unless the name has its value already."""
        if not there or self.namespace.get(name) is not value:
            raise Doubt

    # -- expressions

    def plains(self, nodes, local=()):
        for node in nodes:
            if node is not None:
                self.plain(node, local)

    def shown(self, nodes, local=()):
        """Checks expressions of which no more than the text is made: a class has one without a method of its own."""
        for node in nodes:
            value = self.value(node, local)
            if value.real and type(value.real[0]) not in (type, BuiltinFunctionType, ModuleType):
                self.look(value.real[0])

    def plain(self, node, local=()):
        """Checks an expression whose value must be plain."""
        value = self.value(node, local)
        if value.real:
            self.look(value.real[0])
        return PLAIN

    def value(self, node, local):
        match node:
            case ast.Constant():
                return PLAIN
            case ast.Name(name) if name in local:
                return PLAIN
            case ast.Name(name) if name in self.namespace:
                return Value(self.namespace[name])
            case ast.Name(name) if hasattr(builtins, name):
                return Value(getattr(builtins, name))
            case ast.Attribute(of, name):
                return self.attribute(self.value(of, local), name)
            case ast.Subscript(of, key):
                self.plain(key, local)
                return self.plain(of, local)
            case ast.Call():
                return self.call(node, local)
            case ast.Compare(left, ops, rights) if all(isinstance(op, (ast.Is, ast.IsNot)) for op in ops):
                for side in (left, *rights):  # which asks nothing of them
                    self.value(side, local)
                return PLAIN
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                return self.comprehension(node, local)
            case ast.BinOp() | ast.UnaryOp() | ast.BoolOp() | ast.Compare() | ast.IfExp() | ast.JoinedStr() | ast.FormattedValue() | ast.Slice() | ast.Starred():
                self.plains((child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)), local)
                return PLAIN
            case ast.Tuple() | ast.List() | ast.Set() | ast.Dict():
                self.plains((child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)), local)
                return PLAIN
        raise Doubt

    def comprehension(self, node, local):
        for part in node.generators:
            self.plain(part.iter, local)
            if part.is_async or not all(isinstance(n, (ast.Name, ast.Tuple, ast.expr_context)) for n in ast.walk(part.target)):
                raise Doubt
            local = (*local, *(n.id for n in ast.walk(part.target) if isinstance(n, ast.Name)))
            self.plains(part.ifs, local)
        self.plains([node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt], local)
        return PLAIN

    def attribute(self, of, name):
        if not of.real:
            if name not in ATTRIBUTES:
                raise Doubt
            self.used.add(name)
            return PLAIN
        real = of.real[0]
        if type(real) is ModuleType:
            return self.of_module(real, name)
        if isinstance(real, type):
            if type(real) is type and name in ("__name__", "__module__"):
                return PLAIN
            if is_plain_type(real) and name in MAKERS:
                return Value(Known)
            raise Doubt
        self.look(real)
        self.used.add(name)
        columns = real.columns if _is_theirs(type(real)) and type(real).__name__ == "DataFrame" else ()
        if name in ATTRIBUTES or name in columns and not hasattr(type(real), name):
            return PLAIN
        raise Doubt

    @staticmethod
    def of_module(module, name):
        own = module.__dict__
        known, value = own.get("__name__"), own.get(name)
        known = "os.path" if known == "posixpath" else known
        if known not in MODULES or sys.modules.get(known) is not module or not is_installed(str(own.get("__file__") or INSTALLED[0])):
            raise Doubt
        if type(value) is ModuleType:
            return Value(value)
        if is_in(VALUES, known, name) and (type(value) in SCALARS or known == "sys"):
            return PLAIN
        if is_in(MODULES, known, name) and is_original(value, known):
            return Value(value) if type(value) is type else Value(Known, known)
        raise Doubt

    def call(self, node, local):
        words, of = {word.arg for word in node.keywords}, node.func
        values = [*node.args, *(word.value for word in node.keywords)]
        on = self.value(of.value, local) if isinstance(of, ast.Attribute) else None
        if on and not (on.real and isinstance(on.real[0], (ModuleType, type))):
            if on.real:
                self.look(on.real[0])
                if of.attr in getattr(on.real[0], "__dict__", ()):
                    raise Doubt
            if of.attr not in METHODS or words & REFUSED or None in words or not is_short(node.args):
                raise Doubt
            self.used.add(of.attr)
            self.plains(values, local)
            return PLAIN
        function, *home = self.value(of, local).real or (None,)
        if function is None or None in words:
            raise Doubt
        if any(function is known for known in SHALLOW):
            [argument] = values
            value = self.value(argument, local)
            return Value(type(value.real[0])) if function is type and value.real else PLAIN
        if function is len and len(values) == 1:
            value = self.value(values[0], local)
            if value.real and is_plain_type(type(value.real[0])):  # which asks nothing of what is in it
                return PLAIN
        if function in (isinstance, issubclass) and len(values) == 2:
            if any(type(kind) is not type for kind in self.value(values[1], local).real or (None,)):
                raise Doubt
            return self.plain(values[0], local)
        if function is dir or function is open:
            return self.seldom(function, values, words, local)
        if any(function is known for known in (sorted, min, max)) and "key" in words:
            self.key(next(word.value for word in node.keywords if word.arg == "key"), local)
            values = [*node.args, *(word.value for word in node.keywords if word.arg != "key")]
            words -= {"key"}
        if words & REFUSED or home == ["numpy"] and not is_short(node.args) and of.attr not in MANY:
            raise Doubt
        if any(function is shows for shows in SHOWING) or is_display(function):
            self.shown(values, local)
        elif function is Known or is_one_of(function, FUNCTIONS) or isinstance(function, type) and is_plain_type(function):
            self.plains(values, local)
        else:
            raise Doubt
        return PLAIN

    def seldom(self, function, values, words, local):
        if function is dir and not values:
            return PLAIN
        if function is open and not words and (len(values) == 1 or len(values) == 2 and isinstance(values[1], ast.Constant) and values[1].value in ("r", "rb")):
            self.plains(values, local)
            return PLAIN
        raise Doubt

    def key(self, node, local):
        if isinstance(node, ast.Lambda):
            names = node.args
            if names.defaults or names.kw_defaults or names.vararg or names.kwarg or names.kwonlyargs:
                raise Doubt
            self.plain(node.body, (*local, *(name.arg for name in names.posonlyargs + names.args)))
            return
        value = self.value(node, local).real
        if not value or not (is_one_of(value[0], FUNCTIONS) or value[0] is None):
            raise Doubt

    # -- objects

    def look(self, value):
        """Doubts an object unless it is plain all through."""
        kind = type(value)
        if kind in SCALARS:
            return
        self.left -= 1
        if self.left < 0:
            raise Doubt
        if kind in LISTS:
            self.elements(value)
        elif kind in MAPS:
            self.elements(value.keys())
            self.elements(value.values())
        elif kind is type and is_plain_type(value):
            return
        elif not is_plain_type(kind) or is_plain_type(type(getattr(value, "tzinfo", None))) is False:
            raise Doubt
        elif kind.__module__.partition(".")[0] in PACKAGES:
            self.table(value, kind)

    def elements(self, values):
        self.left -= len(values) // 50  # their types are found in C
        if self.left < 0:
            raise Doubt
        if not set(map(type, values)) <= SCALARS:
            for value in values:
                self.look(value)

    def table(self, value, kind):
        package, name = kind.__module__.partition(".")[0], kind.__name__
        if package == "numpy":
            numpy = sys.modules["numpy"]
            if name != "ndarray" and not issubclass(kind, (numpy.generic, numpy.dtype)):
                raise Doubt
            if name == "ndarray" and value.dtype.hasobject:
                self.elements(value.ravel().tolist())
        elif package == "polars":
            if name not in ("DataFrame", "Series") and not issubclass(kind, sys.modules["polars"].DataType):
                raise Doubt
            if any(str(of).startswith("Object") for of in (value.dtypes if name == "DataFrame" else [value.dtype] if name == "Series" else ())):
                raise Doubt
        elif name in ("DataFrame", "Series"):
            manager = value._mgr
            for block in manager.blocks:
                self.array(block.values)
            for axis in manager.axes:
                self.look(axis)
        elif name == "MultiIndex":
            for level in value.levels:
                self.look(level)
            self.elements(list(value.names))
        elif name.endswith("Index"):
            self.array(value._data)
            self.elements(list(value.names))
        elif name == "Categorical":
            self.look(value.categories)
        elif name.endswith("Array"):
            self.array(value)
        elif name not in ("Timestamp", "Timedelta", "Interval", "Period", "NaTType", "NAType", "CategoricalDtype", "DatetimeTZDtype", "StringDtype"):
            raise Doubt

    def array(self, values):
        """The values of a table, or of an index."""
        kind = type(values)
        if kind is range:
            return
        if not is_plain_type(kind):
            raise Doubt
        if kind.__name__ == "Categorical":
            self.look(values.categories)
        elif kind.__name__ == "ndarray":
            self.look(values)
        elif getattr(values.dtype, "hasobject", False) or kind.__name__ in ("NumpyExtensionArray", "SparseArray", "ArrowExtensionArray"):
            self.elements(values.to_numpy(dtype=object).tolist())


class Known:
    """Stands for a function of the table."""


def is_display(function):
    return type(function) is FunctionType and function.__globals__.get("__name__") == "IPython.core.display_functions"


def is_short(arguments):
    """Whether no argument behind the first can be an array that is written to, or say `inplace`."""
    behind = [node.operand if isinstance(node, ast.UnaryOp) else node for node in arguments[1:]]
    flat = all(isinstance(node, ast.Constant) and node.value is not True for node in behind)
    return flat and not any(isinstance(node, ast.Starred) for node in arguments)


def is_in(table, module, name):
    names = table.get(module, ())
    return not name.startswith("_") if names is None else name in names


def is_one_of(function, known):
    try:
        return isinstance(function, (type, BuiltinFunctionType)) and function in known and type(function) in (type, BuiltinFunctionType)
    except TypeError:
        return False


def is_original(function, module):
    """Whether a function is the module's own, and none that code has put in its place."""
    package = module.partition(".")[0]
    if type(function) is FunctionType:
        home = function.__globals__.get("__name__", "")
        return home.partition(".")[0] in (package, "posixpath", "genericpath") and type(home) is str
    return type(function) is BuiltinFunctionType or _home(type(function)) == package or type(function) is type and _home(function) == package


def _home(kind):
    module = type.__dict__["__module__"].__get__(kind)
    return module.partition(".")[0] if type(module) is str else ""


def is_plain_type(kind):
    """Whether a class is one of those that are known, and as its package has it."""
    if kind in SCALARS or kind in LISTS or kind in MAPS:
        return True
    if type(kind) is type and kind.__name__ in STANDARD.get(_home(kind), "").split():
        return _home(kind) == "pathlib" or getattr(sys.modules.get(kind.__module__), kind.__name__, None) is kind
    return _home(kind) in PACKAGES and _is_theirs(kind)


def is_as_made(kernel):
    """Whether nothing of the code's own is called with each run or with what it shows, and nothing of it goes on."""
    if kernel.threads.owners or kernel.event_loop.is_waiting() or sys.displayhook is not sys.__displayhook__ and kernel.engine is None:
        return False
    own, folder = kernel.namespace, kernel.settings.work_dir

    def is_own(function):
        function = getattr(function, "func", getattr(function, "__func__", function))
        code = getattr(function, "__code__", None)
        return code is not None and (function.__globals__ is own or code.co_filename.startswith(("<", folder))) or type(function).__module__ == "__main__"

    if kernel.engine is not None:
        shell = kernel.engine.shell
        called = [f for functions in shell.events.callbacks.values() for f in functions]
        for formatter in shell.display_formatter.formatters.values():
            called += [*formatter.type_printers.values(), *formatter.deferred_printers.values()]
        if shell.ast_transformers or any(map(is_own, called)):
            return False
        transforms = shell.input_transformer_manager
        if any(map(is_own, (*shell.input_transformers_post, *transforms.cleanup_transforms, *transforms.line_transforms, *transforms.token_transformers))):
            return False
    pandas, numpy = sys.modules.get("pandas"), sys.modules.get("numpy")
    if hasattr(pandas, "get_option") and type(pandas.get_option("display.float_format")) not in (type(None), BuiltinFunctionType):
        return False
    if hasattr(numpy, "geterrcall") and (numpy.get_printoptions().get("formatter") or numpy.geterrcall()):
        return False
    return True


def is_patched(used):
    """Whether code has put a method of its own in the place of a used one of the tables."""
    for package, name in itertools.product(PACKAGES, ("DataFrame", "Series", "Index")):
        table = getattr(sys.modules.get(package), name, None)
        for kind in getattr(table, "__mro__", ()):
            for method in used & vars(kind).keys():
                value = vars(kind)[method]
                value = value.fget if type(value) is property else value
                if type(value) is FunctionType and _home(kind) == package and not is_original(value, package):
                    return True
    return False


def only_looks(kernel, code):
    """Whether code surely changes no variable. A line that begins with `!` is a command, which changes none."""
    if len(code) > LONGEST:
        return False
    try:
        lines = ["pass" if line[:1] == "!" and "{" not in line and line[-1:] != "\\" else line for line in code.split("\n")]
        tree = ast.parse("\n".join(lines))
        if not all(isinstance(node, (ast.Expr, ast.Pass, ast.If, ast.Assert, ast.Import, ast.ImportFrom)) for node in tree.body):
            return False
        looks = Looks(kernel.namespace)
        looks.block(tree.body)
        return not tree.body or is_as_made(kernel) and not is_patched(looks.used)
    except Exception:  # a syntax of IPython's own, or an object that is odd
        return False
