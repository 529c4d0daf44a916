"""Parts of plotly's figures in JSON: values, colors, texts and axes, as matplotlib takes them."""

import html
import re

import numpy as np
from matplotlib import colors as mcolors
from matplotlib import dates, ticker

UNKNOWN = ("transforms", "xcalendar", "rangebreaks", "offset", "q1", "median", "xperiod", "yperiod")  # of traces and axes
MOST_TICKS = 100  # that are named one by one
DATE = re.compile(r"\d{4}-\d\d?(-\d\d?([T ]\d\d?(:\d\d(:\d\d(\.\d*)?)?)?)?)?(Z|[+-]\d\d:?\d\d)?")


class Undrawn(Exception):
    """A part of a figure that is not drawn."""


def values(data):
    """A list of the JSON's, or an array that plotly wrote as base64."""
    if isinstance(data, dict) and "bdata" in data:
        import base64

        array = np.frombuffer(base64.b64decode(data["bdata"]), np.dtype(data["dtype"]))
        shape = data.get("shape")
        return array.reshape([int(n) for n in str(shape).split(",")]) if shape else array
    if isinstance(data, np.ndarray) and data.dtype.kind not in "iufM":
        data = data.tolist()
    if isinstance(data, (tuple, list)):
        return [value.isoformat() if hasattr(value, "isoformat") else value for value in data]
    return data


def merged(defaults, given):
    """Nested dictionaries, where given values come before defaults."""
    result = dict(defaults)
    for key, value in given.items():
        if value is not None:
            result[key] = merged(result[key], value) if isinstance(value, dict) and isinstance(result.get(key), dict) else value
    return result


def plain(text):
    """Text without plotly's markup, and in which matplotlib finds no formula."""
    if isinstance(text, dict):
        text = "\n".join(filter(None, (text.get("text"), (text.get("subtitle") or {}).get("text"))))
    text = re.sub(r"</?(?:b|i|em|strong|sub|sup|span|a|u|s)\b[^>]*>", "", re.sub(r"<br\s*/?>", "\n", str(text or "")))
    return html.unescape(text)[:300].replace("$", r"\$")


def color_of(text, alpha=None):
    """A color of CSS for matplotlib."""
    text = str(text).strip().lower()
    match = re.fullmatch(r"rgba?\(([^)]*)\)", text)
    try:
        if match:
            parts = [part.strip() for part in match[1].split(",")]
            scale = [255, 255, 255, 1]
            rgba = [float(part[:-1]) / 100 if part.endswith("%") else float(part) / scale[at] for at, part in enumerate(parts)]
            return mcolors.to_rgba([min(max(part, 0), 1) for part in rgba] if alpha is None else rgba[:3] + [alpha * (rgba[3:] or [1])[0]])
        rgba = mcolors.to_rgba(text)
        return rgba if alpha is None else (*rgba[:3], alpha * rgba[3])
    except (ValueError, IndexError, TypeError):
        raise Undrawn("the color %r" % text[:50]) from None


def is_number(value):
    return isinstance(value, (int, float, np.number)) and not isinstance(value, (bool, np.bool_))


def numbers(data):
    """Floats, with NaN for missing values."""
    data = values(data)
    try:
        return np.array(data, float)
    except (TypeError, ValueError):  # there are texts among them
        pass
    return np.array([np.nan if value is None else number_of(value) if isinstance(value, str) else float(value) for value in data], float)


def number_of(text):
    """The number that a text is for plotly, as $1,000 and 5%, or NaN."""
    text = re.sub(r"""^['"%,$#\s]+|[, ]|['"%,$#\s]+$""", "", text)
    return float(text) if re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", text, re.A) else np.nan


def days(data):
    """Days since 1970, which matplotlib counts in, of plotly's dates: texts, or milliseconds."""
    if isinstance(data, np.ndarray) and data.dtype.kind == "M":
        return np.where(np.isnat(data), np.nan, data.astype("datetime64[us]").astype("int64") / 86_400e6)
    result = np.full(len(data), np.nan)
    for at, value in enumerate(data):
        if is_number(value):
            result[at] = value / 86_400_000
        elif isinstance(value, str) and DATE.fullmatch(value):
            text = re.sub(r"(?<=\d)(Z|[+-]\d\d:?\d\d)$", "", value) if len(value) > 10 else value
            try:
                result[at] = np.datetime64(text.replace(" ", "T"), "us").astype("int64") / 86_400e6
            except ValueError:
                pass
    return result


# -- axes


class Axis:
    """One of plotly's axes: its values as numbers."""

    def __init__(self, name, layout, traces):
        self.name = name
        self.letter = name[0]
        self.layout = layout
        for key in UNKNOWN:
            if layout.get(key):
                raise Undrawn("%s of an axis" % key)
        self.kind = layout.get("type") or "-"
        self.categories = {}
        if self.kind == "-":
            self.kind = next((kind for kind in map(self._kind, traces) if kind), "linear")
        if self.kind not in ("linear", "log", "date", "category"):
            raise Undrawn("an axis of the type %s" % self.kind)
        if self.kind == "category":
            order = layout.get("categoryarray")
            for category in () if order is None else values(order):
                self.categories.setdefault(str(category), len(self.categories))

    def _kind(self, trace):
        data = values(trace.get(self.letter))
        if data is None or not len(data):
            return None
        if isinstance(data, np.ndarray):
            return "date" if data.dtype.kind == "M" else "linear"
        some = [value for value in data[:1000] if value is not None]
        if any(isinstance(value, (list, dict)) for value in some):
            raise Undrawn("an axis with two levels of categories")
        if not some:
            return None
        if all(map(is_number, some)):
            return "linear"
        if self.layout.get("autotypenumbers") != "strict" and all(is_number(value) or isinstance(value, str) and number_of(value) == number_of(value) for value in some):
            return "linear"
        if sum(isinstance(value, str) and bool(DATE.fullmatch(value)) and len(value) >= 7 for value in some) > len(some) / 2:
            return "date"
        return "category"

    def numbers(self, data):
        data = values(data)
        if self.kind == "date":
            return days(data)
        if self.kind != "category":
            return numbers(data)
        return np.array([np.nan if value is None else self.categories.setdefault(str(value), len(self.categories)) for value in data], float)

    def one(self, value):
        """A value in a range or of a shape: a category may be a number there."""
        if self.kind == "category" and is_number(value):
            return float(value)
        return float(self.numbers([value])[0])

    def sort(self, totals, others):
        """Puts categories into the requested order. totals are the sums of each one's bars, others are axes with the same categories."""
        order = self.layout.get("categoryorder") or "trace"
        if self.kind != "category":
            return
        if any((other.layout.get("categoryorder") or "trace") != order for other in others):
            raise Undrawn("charts that share categories in different orders")
        if order in ("trace", "array"):
            return
        what, _, direction = order.rpartition(" ")
        if what not in ("category", "total", "sum"):
            raise Undrawn("the order of categories %r" % str(order)[:30])
        if what != "category" and others:
            raise Undrawn("charts that share categories in the order %r" % order)
        key = (lambda name: name) if what == "category" else lambda name: totals.get(name, 0)
        names = sorted(self.categories, key=key, reverse=direction == "descending")
        self.categories.clear()  # others may share it
        self.categories.update((name, at) for at, name in enumerate(names))

    def finish(self, axes):
        """Applies the layout to matplotlib's axis."""
        layout, on = self.layout, axes.xaxis if self.letter == "x" else axes.yaxis
        limit = axes.set_xlim if self.letter == "x" else axes.set_ylim
        if self.kind == "log":
            (axes.set_xscale if self.letter == "x" else axes.set_yscale)("log")
        elif self.kind == "category":
            names = [plain(name)[:30] for name in self.categories]
            step = max(1, len(names) // 40)
            on.set_ticks(range(0, len(names), step), names[::step])
            if self.letter == "x" and sum(map(len, names[::step])) * 13 > axes.get_window_extent().width:
                on.set_tick_params(labelrotation=30)
                for label in on.get_ticklabels():
                    label.set_ha("right")
        elif self.kind == "date":
            axes.xaxis_date() if self.letter == "x" else axes.yaxis_date()
            on.set_major_formatter(dates.ConciseDateFormatter(on.get_major_locator()))
        given = layout.get("range")
        ends = [] if given is None else [value if value is None else 10 ** float(value) if self.kind == "log" else self.one(value) for value in values(given)]
        if len(ends) == 2 and ends != [None, None]:
            limit(*ends)  # None leaves an end where the data is
        elif layout.get("rangemode") == "tozero" and self.kind == "linear":
            low, high = axes.get_xlim() if self.letter == "x" else axes.get_ylim()
            limit(min(low, 0), max(high, 0))
        if layout.get("autorange") == "reversed":
            on.set_inverted(True)
        ticks, texts = layout.get("tickvals"), layout.get("ticktext")
        if ticks is not None and len(values(ticks)) <= MOST_TICKS:
            on.set_ticks([self.one(value) for value in values(ticks)], None if texts is None else [plain(text) for text in texts])
        elif self.kind in ("linear", "log"):
            self._format(on)
        if layout.get("visible") is False:
            on.set_visible(False)
        if layout.get("showticklabels") is False:
            on.set_tick_params(labelleft=False, labelbottom=False, labelright=False, labeltop=False)
        if layout.get("tickangle") and self.letter == "x":
            on.set_tick_params(labelrotation=-float(layout["tickangle"]))
        on.set_label_text(plain(layout.get("title")))
        if layout.get("showgrid") is not False and not layout.get("overlaying"):
            axes.grid(True, axis=self.letter, color=color_of(layout.get("gridcolor", "#eee")))

    def _format(self, on):
        prefix, suffix, form = plain(layout_text(self.layout, "tickprefix")), plain(layout_text(self.layout, "ticksuffix")), layout_text(self.layout, "tickformat")
        match = re.fullmatch(r"(\$?)(,?)(?:\.(\d+))?([%f]?)", form)
        if form and match and match[4] in ("%", "f"):
            python = "{:%s.%sf}%s" % (match[2], match[3] or 0, match[4].strip("f"))
            scale = 100 if match[4] == "%" else 1
            shown = lambda value: (r"\$" if match[1] else "") + python.format(value * scale)  # noqa: E731
        else:
            shown = short
        on.set_major_formatter(ticker.FuncFormatter(lambda value, _: prefix + shown(value) + suffix))


def short(value):
    """A number as plotly writes it at an axis."""
    value = float("%.10g" % value)
    for limit, unit in ((1e9, "B"), (1e6, "M"), (1e4, "k")):
        if 1e15 > abs(value) >= limit:
            return "%.10g%s" % (value / (1e3 if unit == "k" else limit), unit)
    return "%.10g" % value


def layout_text(layout, name):
    value = layout.get(name)
    return value if isinstance(value, str) else ""
