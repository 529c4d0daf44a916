# Runs before a cell in Python's kernel: tells what E2B's SDKs have of a result beside its text and picture, in their form. Of Matplotlib's
# figures it is put into their PNG, as a text named "chart"; of other values it is a display of a type of its own. Everything here is the
# session's own to change.
import importlib.abc
import importlib.util
import json
import os
import re
import struct
import sys
import zlib

MOST_POINTS = 20_000  # and values of a table
MOST_CHARS = 256 * 1024
HOME, WORK = "/home/user", "/mnt/data"


def text(value):
    return value or None


def unit(label):
    found = re.findall(r"\(([^()]+)\)|\[([^\[\]]+)\]", label or "")
    return (found[-1][0] or found[-1][1]) if found else None


def number(value):
    value = float(value)
    return value if abs(value) < 1e300 else None


def scale(axis):
    converter = type(axis.get_converter() if hasattr(axis, "get_converter") else axis.converter).__name__
    if converter == "StrCategoryConverter":
        return "categorical"
    return "datetime" if "Date" in converter or converter == "PeriodConverter" else axis.get_scale()


def reader(axis):
    """A function from places on an axis to their values."""
    kind = scale(axis)
    if kind == "datetime" and hasattr(axis, "freq"):  # pandas' own
        from pandas import Period

        return lambda value: Period(ordinal=int(value), freq=axis.freq).start_time.isoformat()
    if kind == "datetime":
        from matplotlib.dates import num2date

        return lambda value: num2date(value).isoformat()
    if kind == "categorical":
        names = {place: name for name, place in axis.units._mapping.items()}
        return lambda value: names.get(value, number(value))
    return number


def ticks(name, axis):
    read = reader(axis)
    low, high = sorted(axis.get_view_interval())
    places = [tick for tick in axis.get_ticklocs() if low <= tick <= high]
    labels = axis.get_major_formatter().format_ticks(places)
    return {name + "_ticks": [read(tick) for tick in places], name + "_tick_labels": list(labels), name + "_scale": scale(axis)}


def series(label, at, xs, ys):
    if len(xs) > MOST_POINTS:
        raise ValueError("too many points")
    readers = reader(at.xaxis), reader(at.yaxis)
    return {"label": label, "points": [[readers[0](x), readers[1](y)] for x, y in zip(xs, ys)]}


def bars(at):
    found = []
    for group in (group for group in at.containers if hasattr(group, "patches")):
        sideways = getattr(group, "orientation", "vertical") == "horizontal"
        axis = at.yaxis if sideways else at.xaxis
        names, read = dict(zip(axis.get_ticklocs(), (tick.get_text() for tick in axis.get_ticklabels()))), reader(axis)
        for bar in group.patches:
            place = bar.get_y() + bar.get_height() / 2 if sideways else bar.get_x() + bar.get_width() / 2
            label = names.get(place) or read(round(place, 6))
            label = "%g" % label if isinstance(label, float) else str(label)
            found.append({"label": label, "group": shown(group.get_label()), "value": number(bar.get_width() if sideways else bar.get_height())})
    return found


def boxes(at):
    return [
        {
            "label": str(box.get("label") or n + 1), "min": number(box["whislo"]), "first_quartile": number(box["q1"]), "median": number(box["med"]),
            "third_quartile": number(box["q3"]), "max": number(box["whishi"]), "outliers": [number(value) for value in box.get("fliers", ())],
        }
        for n, box in enumerate(at._chart_boxes)
    ]


def shown(label):
    return "" if str(label).startswith("_") else str(label)


def chart(at):
    from matplotlib.collections import PathCollection
    from matplotlib.container import BarContainer
    from matplotlib.patches import Wedge

    lines = [line for line in at.lines if len(line.get_xdata())]
    wedges = [patch for patch in at.patches if isinstance(patch, Wedge)]
    dots = [dot for dot in at.collections if isinstance(dot, PathCollection)]
    told = {"type": "unknown", "title": text(at.get_title()), "elements": []}
    planar = {"x_label": text(at.get_xlabel()), "y_label": text(at.get_ylabel()), "x_unit": unit(at.get_xlabel()), "y_unit": unit(at.get_ylabel())}
    if getattr(at, "_chart_boxes", None):
        told.update(planar, type="box_and_whisker", elements=boxes(at))
    elif wedges:
        angle = lambda wedge: number(round(abs(wedge.theta2 - wedge.theta1), 4))  # noqa: E731
        told.update(type="pie", elements=[{"label": shown(w.get_label()), "angle": angle(w), "radius": number(w.r)} for w in wedges])
    elif at.name != "rectilinear":
        pass
    elif any(isinstance(group, BarContainer) for group in at.containers):
        told.update(planar, type="bar", elements=bars(at))
    elif lines:
        told.update(planar, **ticks("x", at.xaxis), **ticks("y", at.yaxis), type="line")
        told["elements"] = [series(shown(line.get_label()), at, line.get_xdata(orig=False), line.get_ydata(orig=False)) for line in lines]
    elif dots:
        told.update(planar, **ticks("x", at.xaxis), **ticks("y", at.yaxis), type="scatter")
        told["elements"] = [series(shown(dot.get_label()), at, *dot.get_offsets().T) for dot in dots]
    return told


def described(figure):
    """A figure's text and chart as JSON, which has no chart where that cannot be told."""
    try:
        charts = [chart(at) for at in figure.axes if at.get_label() != "<colorbar>"]
        title = getattr(figure, "_suptitle", None)
        told = charts[0] if len(charts) == 1 else {"type": "superchart", "title": text(title and title.get_text()), "elements": charts}
        found = json.dumps({"text": repr(figure), "chart": told})
        if charts and len(found) <= MOST_CHARS:
            return found
    except Exception:  # a figure of an unusual kind is a picture alone
        pass
    return json.dumps({"text": repr(figure)})


def hook_canvas(module):
    original = module.FigureCanvasBase.print_figure

    def print_figure(self, filename, *args, **kwargs):
        if kwargs.get("format") == "png" and hasattr(filename, "getbuffer"):
            kwargs["metadata"] = {**(kwargs.get("metadata") or {}), "chart": described(self.figure)}
        return original(self, filename, *args, **kwargs)

    module.FigureCanvasBase.print_figure = print_figure


def hook_boxes(module):
    original = module.Axes.bxp

    def bxp(self, bxpstats, *args, **kwargs):
        self._chart_boxes = [*getattr(self, "_chart_boxes", ()), *bxpstats]
        return original(self, bxpstats, *args, **kwargs)

    module.Axes.bxp = bxp


def hook_images(module):
    original = module.Image.save

    def save(self, fp, *args, **kwargs):
        original(self, fp, *args, **kwargs)
        if isinstance(fp, str) and not sys._getframe(1).f_globals.get("__name__", "").startswith(("matplotlib.", "PIL.")):
            kernel.displays.publish({"image/png": self._repr_png_()}, saved=os.path.relpath(os.path.realpath(fp), WORK))  # noqa: F821

    module.Image.save = save


def hook_frames(module):
    def described(frame, **_):
        found = {"html": frame._repr_html_()}
        if frame.size <= MOST_POINTS:
            columns = [(str(name), frame.iloc[:, at]) for at, name in enumerate(frame.columns)]
            found["data"] = {name: json.loads(column.to_json(orient="values", date_format="iso")) for name, column in columns}
        return {DATA: found} if len(json.dumps(found)) <= MOST_CHARS else {}

    module.DataFrame._repr_mimebundle_ = described


DATA = "application/vnd.code-sandbox.data+json"  # a dict of the kernel's, with more fields of a result
FIELDS = {"text/markdown": "markdown", "text/latex": "latex", "application/json": "json"}


def hook_displays(displays):
    publish = displays.publish

    def published(bundle, *args, **kwargs):
        """A display without a picture is a result, and no output. The picture of a value gets its text, as a figure's has it."""
        picture = bundle.get("image/png")
        if not kwargs.get("again", True) and isinstance(picture, bytes) and b"tEXtchart\0" not in picture:
            told = b"tEXtchart\0" + json.dumps({"text": bundle.get("text/plain")}).encode()
            part = struct.pack(">I", len(told) - 4) + told + struct.pack(">I", zlib.crc32(told))
            bundle = {**bundle, "image/png": picture[:33] + part + picture[33:]}  # behind its head
        if not kwargs.get("key") and not any(mime.startswith("image/") or "html" in mime or "vnd." in mime for mime in bundle):
            bundle = {**bundle, DATA: {field: bundle[mime] for mime, field in FIELDS.items() if bundle.get(mime)}}
        publish(bundle, *args, **kwargs)

    displays.publish = published


def hook_folder():
    getcwd = os.getcwd

    def by_name():
        found = getcwd()
        return HOME + found[len(WORK):] if found == WORK or found.startswith(WORK + "/") else found

    if os.path.realpath(HOME) == WORK:  # else the image lacks the link
        os.getcwd, os.environ["PWD"] = by_name, HOME  # by which a shell goes


HOOKS = {"matplotlib.backend_bases": hook_canvas, "matplotlib.axes._axes": hook_boxes, "PIL.Image": hook_images, "pandas.core.frame": hook_frames}


class Finder(importlib.abc.MetaPathFinder):
    """Has a module of Matplotlib hooked once it is imported."""

    def find_spec(self, name, path, target=None):
        hook = HOOKS.get(name)
        if hook is None:
            return None
        HOOKS.pop(name)
        spec = importlib.util.find_spec(name)
        load = spec.loader.exec_module

        def exec_module(module):
            load(module)
            hook(module)

        spec.loader.exec_module = exec_module
        return spec


sys._results = True
hook_folder()
hook_displays(kernel.displays)  # noqa: F821
for name in [name for name in HOOKS if name in sys.modules]:
    HOOKS.pop(name)(sys.modules[name])
sys.meta_path.insert(0, Finder())
