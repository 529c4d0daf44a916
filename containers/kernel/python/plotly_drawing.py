"""Pictures of plotly's figures, drawn by matplotlib where they are made of common kinds of charts.

It draws nothing misleading: a figure with another part raises Undrawn with its name.
"""

import re

import matplotlib
import numpy as np
from matplotlib import colors as mcolors
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from plotly_axes import UNKNOWN, Axis, Undrawn, color_of, is_number, merged, numbers, plain, values

MOST_POINTS = 20_000  # of a trace, and ten times as many of all
MOST_TRACES = 100
MOST_BARS = 5_000
MOST_MARKS = 200  # shapes, notes and pairs of axes
MOST_CELLS = 4_000_000
MOST_LABELS = 200  # texts beside points and in cells
MOST_LEGEND = 20
PIXEL = 0.72  # points in a pixel of plotly's, at 100 dots per inch
DPI = 100
COLORS = ("#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b", "#e377c2", "#7f7f7f", "#bcbd22", "#17becf")
DASHES = {"dot": ":", "dash": "--", "longdash": (0, (8, 3)), "dashdot": "-.", "longdashdot": (0, (8, 3, 1, 3))}
STEPS = {"hv": "steps-post", "vh": "steps-pre", "hvh": "steps-mid"}
SYMBOLS = {
    "circle": "o", "square": "s", "diamond": "D", "cross": "P", "x": "X", "triangle-up": "^", "triangle-down": "v",
    "triangle-left": "<", "triangle-right": ">", "pentagon": "p", "hexagon": "h", "star": "*", "x-thin": "x", "cross-thin": "+",
}  # fmt: skip
CARTESIAN = ("scatter", "scattergl", "bar", "histogram", "box", "violin", "heatmap")


def draw(figure):
    """The picture of a figure in plotly's JSON, as (PNG, notes on omissions)."""
    with matplotlib.rc_context():
        matplotlib.rc_file_defaults()
        drawing = Drawing(figure)
        drawing.draw()
        from io import BytesIO

        buffer = BytesIO()
        drawing.canvas.print_figure(buffer, format="png", dpi=DPI, facecolor=drawing.figure.get_facecolor(), bbox_inches="tight", pad_inches=0.15)
        return buffer.getvalue(), drawing.notes


class Drawing:
    def __init__(self, figure):
        self.notes = []
        given = figure.get("layout") or {}
        template = given.get("template")
        template = template if isinstance(template, dict) else {}
        self.defaults = template.get("layout") or {}
        self.layout = merged(self.defaults, {key: value for key, value in given.items() if key != "template"})
        self.colorway = self.layout.get("colorway") or COLORS
        self.traces, hidden = [], 0
        defaults = template.get("data") or {}
        for at, trace in enumerate(figure.get("data") or []):
            if trace.get("visible") not in (None, True):
                hidden += trace["visible"] == "legendonly"
                continue
            kind = trace.get("type") or "scatter"
            if kind not in CARTESIAN and kind != "pie":
                raise Undrawn(kind)
            for key in UNKNOWN:
                if trace.get(key) not in (None, []):
                    raise Undrawn("%s of a %s" % (key, kind))
            own = defaults.get(kind) or [{}]
            trace = merged(own[at % len(own)], trace)
            trace.update(type=kind, cycle=self.colorway[at % len(self.colorway)], label=plain(trace.get("name") or "trace %d" % at))
            self.traces.append(trace)
        if not 0 < len(self.traces) <= MOST_TRACES:
            raise Undrawn("a figure of %d traces" % len(self.traces))
        if hidden:
            self.notes.append("%d of its traces %s hidden (legendonly)" % (hidden, "is" if hidden == 1 else "are"))
        if figure.get("frames"):
            self.notes.append("it is the first state of an animation")
        elif self.layout.get("updatemenus") or self.layout.get("sliders"):
            self.notes.append("its buttons and sliders are left out")
        size = [min(max(float(self.layout.get(name) or most), 200), 2000) / 100 for name, most in (("width", 700), ("height", 500))]
        self.figure = Figure(figsize=size, dpi=DPI, facecolor=color_of(self.layout.get("paper_bgcolor", "white")))
        self.canvas = FigureCanvasAgg(self.figure)
        self.area = (0.09, 0.11, 0.82, 0.77)  # of the figure, that plotly's domains are parts of
        self.axes, self.pairs, self.previous, self.stacks = {}, {}, {}, {}
        self.legend, self.bars, self.scales = [], [], 0
        self.most = max(min(MOST_POINTS, 10 * MOST_POINTS // len(self.traces)), 100)  # points of a trace
        marks = sum(len(self.layout.get(name) or []) for name in ("shapes", "annotations"))
        if marks > MOST_MARKS:
            raise Undrawn("a figure of %d shapes and notes" % marks)

    def draw(self):
        family = (self.layout.get("font") or {}).get("color")
        if family:
            color = color_of(family)
            for name in ("text.color", "axes.labelcolor", "xtick.color", "ytick.color"):
                matplotlib.rcParams[name] = color
        flat = [trace for trace in self.traces if trace["type"] != "pie"]
        for trace in flat:
            self._place(trace)
        self._make_axes(flat)
        self._find_color_ranges()
        for trace in self.traces:
            getattr(self, "_" + trace["type"])(trace)
        for (x, y), axes in self.pairs.items():
            for axis, other in ((self.axes[x], y), (self.axes[y], x)):
                axis.finish(axes)
                if axis.layout.get("anchor") not in (None, "free", other):
                    on = axes.xaxis if axis.letter == "x" else axes.yaxis
                    on.set_tick_params(labelleft=False, labelbottom=False)
                    on.set_label_text("")
        self._finish()

    def _place(self, trace):
        """Completes a trace: its direction, and the places of values without one."""
        kind = trace["type"]
        has_x, has_y = (values(trace.get(name)) is not None for name in "xy")
        if kind in ("bar", "histogram", "box", "violin"):
            sideways = trace.get("orientation") == "h" or (trace.get("orientation") is None and has_x and not has_y and kind != "bar")
            if kind == "histogram":
                sideways = trace.get("orientation") == "h" or (trace.get("orientation") is None and has_y and not has_x)
            trace["along"], trace["across"] = ("y", "x") if sideways else ("x", "y")
            if kind in ("box", "violin") and values(trace.get(trace["along"])) is None and values(trace.get(trace["across"])) is not None:
                place = trace.get(trace["along"] + "0") or trace.get("name") or trace["label"]
                trace[trace["along"]] = [str(place)] * len(values(trace[trace["across"]]))
        if kind in ("scatter", "scattergl", "bar") and not (has_x and has_y):
            if not (has_x or has_y):
                trace["x"] = trace["y"] = []
            else:
                there, other = ("x", "y") if has_x else ("y", "x")
                start, step = trace.get(other + "0") or 0, trace.get("d" + other) or 1
                if not is_number(start) or not is_number(step):
                    raise Undrawn("%s0 that is no number" % other)
                trace[other] = start + step * np.arange(len(values(trace[there])))
        if kind == "heatmap":
            z = values(trace.get("z"))
            z = np.array([numbers(row) for row in z]) if z is not None and len(z) else np.zeros((0, 0))
            if z.ndim != 2 or not z.size:
                raise Undrawn("a heat map without a table")
            trace["z"] = z.T if trace.get("transpose") else z
            for name, length in (("x", trace["z"].shape[1]), ("y", trace["z"].shape[0])):
                if values(trace.get(name)) is None:
                    start, step = trace.get(name + "0") or 0, trace.get("d" + name) or 1
                    trace[name] = float(start) + float(step) * np.arange(length)

    def _make_axes(self, traces):
        tables = {}  # of categories: one for all the axes that match

        def axis(name, of):
            if name not in self.axes:
                letter = name[0] + "axis"
                layout = merged(self.defaults.get(letter) or {}, self.layout.get(letter + name[1:]) or {})
                made = self.axes[name] = Axis(name, merged({"autotypenumbers": self.layout.get("autotypenumbers")}, layout), of)
                for category in made.categories:
                    tables.setdefault(self._root(made), {}).setdefault(category, len(tables[self._root(made)]))
                made.categories = tables.setdefault(self._root(made), {})
            return self.axes[name]

        for trace in traces:
            for letter in "xy":
                name = trace[letter + "axis"] = trace.get(letter + "axis") or letter
                axis(name, [other for other in traces if (other.get(letter + "axis") or letter) == name])
        totals = {}
        for trace in traces:
            x, y = self.axes[trace["xaxis"]], self.axes[trace["yaxis"]]
            for one, other in ((x, y), (y, x)):
                if one.kind != "category" or values(trace.get(one.letter)) is None:
                    continue
                at = one.numbers(trace[one.letter])
                if trace["type"] == "bar":
                    amounts = numbers(trace[other.letter]) if other.kind in ("linear", "log") else np.ones(len(at))
                else:
                    amounts = np.ones(len(at))
                sums = totals.setdefault(one.name, {})
                names = list(one.categories)
                for place, amount in zip(at, np.nan_to_num(amounts)):
                    if place == place:
                        sums[names[int(place)]] = sums.get(names[int(place)], 0) + amount
        for name, one in self.axes.items():
            one.sort(totals.get(name, {}), [other for other in self.axes.values() if other is not one and other.categories is one.categories])
        for trace in traces:
            self._pair(trace["xaxis"], trace["yaxis"])

    def _root(self, axis):
        """The common part of matching axes: the first one's name, and the kind, without which they do not match."""
        name, seen = axis.name, []
        while name not in seen:
            seen.append(name)
            name = (self.layout.get(name[0] + "axis" + name[1:]) or {}).get("matches") or name
        return min(seen) if name != seen[-1] else name, axis.kind

    def _pair(self, x, y):
        """matplotlib's axes for two of plotly's."""
        if (x, y) in self.pairs:
            return self.pairs[x, y]
        if len(self.pairs) >= MOST_MARKS // 4:
            raise Undrawn("a figure of more than %d charts" % len(self.pairs))
        layouts = [self.axes[name].layout if name in self.axes else {} for name in (x, y)]
        over_x, over_y = (layout.get("overlaying") for layout in layouts)
        if over_y and over_y in self.axes:
            axes = self._pair(x, over_y).twinx()
            axes.set_frame_on(False)
        elif over_x and over_x in self.axes:
            axes = self._pair(over_x, y).twiny()
            axes.set_frame_on(False)
        else:
            (left, right), (low, high) = (layout.get("domain") or (0, 1) for layout in layouts)
            shared = {}
            for at, name in enumerate((x, y)):
                for pair, other in self.pairs.items():
                    if name in self.axes and self._root(self.axes[pair[at]]) == self._root(self.axes[name]):
                        shared.setdefault("sharey" if at else "sharex", other)
            axes = self.figure.add_axes(self._rectangle(left, right, low, high), **shared)
            axes.set_facecolor(color_of(self.layout.get("plot_bgcolor", "white")))
            axes.set_axisbelow(True)
            for spine in axes.spines.values():
                spine.set_visible(False)
            axes.tick_params(length=0)
            if any(layout.get("scaleanchor") for layout in layouts):
                axes.set_aspect("equal", adjustable="box")
        self.pairs[x, y] = axes
        return axes

    def _rectangle(self, left, right, low, high):
        x, y, width, height = self.area
        return [x + left * width, y + low * height, max(right - left, 1e-3) * width, max(high - low, 1e-3) * height]

    def _of(self, trace):
        return self._pair(trace["xaxis"], trace["yaxis"]), self.axes[trace["xaxis"]], self.axes[trace["yaxis"]]

    def _name(self, trace, handle):
        if trace.get("showlegend") is not False:
            self.legend.append((trace["label"], handle, trace.get("showlegend")))

    # -- colors

    def _find_color_ranges(self):
        self.ranges = {}
        for trace in self.traces:
            for holder, data in ((trace, trace.get("z")), (trace.get("marker") or {}, (trace.get("marker") or {}).get("color"))):
                if holder.get("coloraxis") and data is not None and not isinstance(data, str):
                    found = numbers(np.ravel(data) if isinstance(data, np.ndarray) else data)
                    found = found[np.isfinite(found)]
                    if found.size:
                        low, high = self.ranges.get(holder["coloraxis"], (np.inf, -np.inf))
                        self.ranges[holder["coloraxis"]] = min(low, found.min()), max(high, found.max())

    def _scale(self, holder, data, letter, shown):
        """The colors of numbers, as (map, norm), with a bar beside the figure that explains them."""
        key = holder.get("coloraxis")
        spec, letter = (self.layout.get(key) or {}, "c") if key else (holder, letter)
        finite = data[np.isfinite(data)]
        low, high = self.ranges.get(key, (finite.min(), finite.max()) if finite.size else (0, 1))
        middle = spec.get(letter + "mid")
        if middle is not None:
            reach = max(abs(high - middle), abs(low - middle))
            low, high = middle - reach, middle + reach
        low, high = (float(given) if given is not None else own for given, own in ((spec.get(letter + "min"), low), (spec.get(letter + "max"), high)))
        scale = spec.get("colorscale") or (self.layout.get("colorscale") or {}).get("sequential")
        if isinstance(scale, list):
            stops = [(min(max(float(at), 0), 1), color_of(color)) for at, color in scale]
            colors = mcolors.LinearSegmentedColormap.from_list("given", stops)
        elif scale is None or str(scale).lower() in ("viridis", "cividis", "plasma", "inferno", "magma", "turbo"):
            colors = matplotlib.colormaps[str(scale or "viridis").lower()]
        else:
            raise Undrawn("the colors %r" % str(scale)[:30])
        if spec.get("reversescale"):
            colors = colors.reversed()
        norm = mcolors.Normalize(low, high if high > low else low + 1)
        named = self.__dict__.setdefault("bars_of_colors", set())
        if spec.get("showscale", shown or bool(key)) and (key is None or key not in named):
            named.add(key)
            _, y, _, height = self.area
            cax = self.figure.add_axes([0.94 + 0.12 * self.scales, y, 0.025, height])
            bar = self.figure.colorbar(matplotlib.cm.ScalarMappable(norm, colors), cax=cax)
            bar.outline.set_visible(False)
            cax.set_title(plain((spec.get("colorbar") or {}).get("title")), fontsize="medium", loc="left")
            self.scales += 1
        return colors, norm

    def _colors(self, holder, default, alpha, count):
        """One color, or as many as there are marks, from a marker."""
        given = values(holder.get("color"))
        if given is None:
            return color_of(default, alpha)
        if isinstance(given, (str, int, float)) and not isinstance(given, bool):
            return color_of(given if isinstance(given, str) else default, alpha)
        given = list(given)[:count]
        if any(isinstance(value, str) for value in given):
            return [color_of(default if value is None else value, alpha) for value in given]
        data = numbers(given)
        colors, norm = self._scale(holder, data, "c", False)
        result = colors(norm(np.ma.masked_invalid(data)))
        result[:, 3] *= 1 if alpha is None else alpha
        return result

    # -- kinds of traces

    def _scatter(self, trace):
        axes, x_axis, y_axis = self._of(trace)
        xs, ys = values(trace["x"]), values(trace["y"])
        count = min(len(xs), len(ys))
        mode = trace.get("mode") or ("lines+markers" if count < 20 else "lines")
        if mode == "none":
            mode = ""
        lines = "lines" in mode
        chosen = None
        if count > self.most:
            if trace.get("stackgroup") or trace.get("fill") not in (None, "none", "tozeroy"):
                raise Undrawn("an area of %d points" % count)
            chosen = thinned(y_axis.numbers(ys) if lines and y_axis.kind in ("linear", "log") else None, count, self.most)
            self.notes.append("%s is drawn by %d of its %d points" % (trace["label"].replace("\\$", "$"), len(chosen), count))
        x, y = x_axis.numbers(picked(xs, chosen, count)), y_axis.numbers(picked(ys, chosen, count))
        line, marker = trace.get("line") or {}, trace.get("marker") or {}
        alpha = trace.get("opacity")
        own = marker.get("color") if isinstance(marker.get("color"), str) else trace["cycle"]
        base = y
        if trace.get("stackgroup"):
            if trace.get("groupnorm") or trace.get("orientation") == "h":
                raise Undrawn("a stack by shares")
            key = trace["xaxis"], trace["yaxis"], trace["stackgroup"]
            below_x, below = self.stacks.get(key, (x, np.zeros(len(x))))
            if not np.array_equal(below_x, x):
                raise Undrawn("a stack of areas that have not the same places")
            base, y = below, below + np.nan_to_num(y)
            self.stacks[key] = x, y
        color = color_of(line.get("color") or own)
        handle = None
        fill = trace.get("fill") or ("tonexty" if trace.get("stackgroup") else "none")
        if fill != "none":
            filled = color_of(trace["fillcolor"]) if trace.get("fillcolor") else (*color[:3], 0.5)
            previous = self.previous.get((trace["xaxis"], trace["yaxis"]))
            if trace.get("stackgroup"):
                axes.fill_between(x, base, y, color=filled, linewidth=0)
            elif fill == "tozeroy" or fill == "tonexty" and previous is None:
                axes.fill_between(x, 0, y, color=filled, linewidth=0)
            elif fill == "tonexty":
                axes.fill(np.append(x, previous[0][::-1]), np.append(y, previous[1][::-1]), color=filled, linewidth=0)
            elif fill == "toself":
                axes.fill(x, y, color=filled, linewidth=0)
            else:
                raise Undrawn("fill %r" % str(fill)[:30])
            handle = Patch(color=filled)
        self.previous[trace["xaxis"], trace["yaxis"]] = x, y
        if lines:
            style = {"linewidth": min(float(line.get("width", 2)), 100) * PIXEL, "alpha": alpha, "drawstyle": STEPS.get(line.get("shape"), "default")}
            kept = ~np.isnan(y) if trace.get("connectgaps") else slice(None)
            (handle,) = axes.plot(x[kept], y[kept], color=color, linestyle=DASHES.get(line.get("dash"), "-"), **style)
        for letter in "xy":
            self._error_bars(axes, trace, letter, x, y, chosen, color)
        if "markers" in mode:
            handle = self._markers(axes, trace, marker, x, y, chosen, own, alpha, count)
        if "text" in mode and trace.get("text") is not None:
            texts = values(trace["text"])
            texts = [texts] * count if isinstance(texts, str) else list(texts)
            for at in range(min(len(x), len(texts), MOST_LABELS)):
                if np.isfinite(x[at]) and np.isfinite(y[at]):
                    axes.annotate(plain(texts[at]), (x[at], y[at]), fontsize="small", ha="center", va="bottom" if "markers" in mode else "center")
        self._name(trace, handle or Patch(color=color))

    _scattergl = _scatter

    def _markers(self, axes, trace, marker, x, y, chosen, color, alpha, count):
        def part(name):
            data = values(marker.get(name))
            return data if data is None or isinstance(data, (str, int, float)) else picked(data, chosen, count)

        sizes = part("size")
        bubbles = sizes is not None and not isinstance(sizes, (int, float))
        if bubbles:
            sizes, unit = np.nan_to_num(numbers(sizes)), float(marker.get("sizeref") or 1)
            if marker.get("sizemode") == "area":
                sizes = 2 * np.sqrt(np.maximum(sizes, 0) / 2 / unit)
            else:
                sizes = sizes / unit
            sizes = np.maximum(sizes, float(marker.get("sizemin") or 0))
        else:
            sizes = float(sizes or 6)
        opacity = part("opacity")
        opacity = numbers(opacity) if opacity is not None and not isinstance(opacity, (int, float)) else opacity
        alpha = (0.7 if bubbles else 1) * (1 if alpha is None else alpha) if opacity is None else opacity * (1 if alpha is None else alpha)
        colors = self._colors({**marker, "color": part("color")}, color, None, len(x))
        edge = marker.get("line") or {}
        width = edge.get("width")
        width = float(width) if is_number(width) else 1 if bubbles else 0
        around = color_of(edge["color"]) if isinstance(edge.get("color"), str) else "white" if bubbles else "none"
        symbols = part("symbol")
        symbols = "circle" if symbols is None else symbols
        one = isinstance(symbols, (str, int, float))
        handle = None
        for symbol in [symbols] if one else dict.fromkeys(symbols):
            mask = slice(None) if one else np.array([other == symbol for other in symbols])
            pick = lambda data: data[mask] if isinstance(data, np.ndarray) and data.ndim else data  # noqa: E731, B023
            here = np.array(colors)[mask] if np.ndim(colors) > 1 and len(colors) == len(x) else colors
            name = list(SYMBOLS)[int(symbol) % 100] if is_number(symbol) and int(symbol) % 100 < len(SYMBOLS) else str(symbol)
            shape = SYMBOLS.get(re.sub("-open|-dot", "", name), "o")
            if "-open" in name or shape in ("x", "+"):
                style = {"edgecolors": here, "linewidths": 1} if shape not in ("x", "+") else {"color": here, "linewidths": 1.5}
                style.update({} if shape in ("x", "+") else {"facecolors": "none"})
            else:
                style = {"c": [here] if np.ndim(here) == 1 else here, "edgecolors": around, "linewidths": width * PIXEL}
            area = (np.minimum(pick(np.asarray(sizes)), 1000) * PIXEL) ** 2
            axes.scatter(x[mask], y[mask], s=area, marker=shape, alpha=pick(alpha), zorder=2.5, **style)
            first = here if np.ndim(here) == 1 else here[0] if len(here) else color_of(color)
            (handle,) = axes.plot([], [], linestyle="none", marker=shape, color=first, fillstyle="none" if "-open" in name else "full", markersize=6 * PIXEL + 1)
        return handle

    def _error_bars(self, axes, trace, letter, x, y, chosen, color):
        spec = trace.get("error_" + letter) or {}
        if spec.get("visible") is False or (spec.get("array") is None and spec.get("value") is None):
            return
        data = y if letter == "y" else x
        kind = spec.get("type") or ("data" if spec.get("array") is not None else "percent")

        def reach(array, value):
            if kind == "data":
                return numbers(picked(values(array), chosen, len(values(array))))[: len(data)]
            return np.abs(data) * float(value) / 100 if kind == "percent" else np.full(len(data), float(value))

        if kind not in ("data", "percent", "constant") or spec.get("array") is None and spec.get("value") is None:
            raise Undrawn("error bars of the type %r" % str(kind)[:30])
        above = reach(spec.get("array"), spec.get("value"))
        other = spec.get("arrayminus") if kind == "data" else spec.get("valueminus")
        below = above if other is None else reach(other, other)
        axes.errorbar(x, y, **{letter + "err": np.nan_to_num([below, above])}, fmt="none", ecolor=color, elinewidth=1.5, capsize=3)

    def _bar(self, trace):
        """Draws all bars of its axes when the first of them comes."""
        pair = trace["xaxis"], trace["yaxis"]
        if pair in self.bars:
            return
        self.bars.append(pair)
        group = [t for t in self.traces if t["type"] in ("bar", "histogram") and (t["xaxis"], t["yaxis"]) == pair]
        along = group[0]["along"]
        if any(t["along"] != along for t in group):
            raise Undrawn("bars of both directions")
        axes, x_axis, y_axis = self._of(trace)
        axis, other = (x_axis, y_axis) if along == "x" else (y_axis, x_axis)
        histograms = [t for t in group if t["type"] == "histogram"]
        if histograms:
            self._count(histograms, axis, other)
        places = [axis.numbers(t[along]) for t in group]
        everything = np.unique(np.concatenate([p[np.isfinite(p)] for p in places]) if places else [])
        gaps = np.diff(everything)
        unit = 1.0 if axis.kind == "category" or not gaps.size else gaps.min()
        if histograms and axis.kind != "category":
            unit = max(float(t["bin"]) for t in histograms)
        gap = self.layout.get("bargap")
        gap = float(gap) if gap is not None else 0.0 if histograms and axis.kind != "category" else 0.2
        mode = self.layout.get("barmode") or "group"
        if self.layout.get("barnorm"):
            raise Undrawn("bars by shares")
        slots = list(dict.fromkeys(t.get("offsetgroup") or id(t) for t in group)) if mode == "group" else [None]
        size = unit * (1 - gap) / max(len(slots), 1)
        if sum(map(len, places)) > MOST_BARS:
            raise Undrawn("a chart of %d bars" % sum(map(len, places)))
        ends = {True: {}, False: {}}
        for t, place in zip(group, places):
            amount = other.numbers(t[t["across"]])
            count = min(len(place), len(amount))
            place, amount = place[:count], amount[:count]
            base = values(t.get("base"))
            base = np.zeros(count) if base is None else np.full(count, other.one(base)) if isinstance(base, (int, float, str)) else other.numbers(base)[:count]
            if other.kind == "date" and t.get("base") is not None:
                amount = numbers(t[t["across"]])[:count] / 86_400_000
            width = values(t.get("width"))
            width = size if width is None else numbers([width])[0] if is_number(width) else numbers(width)[:count]
            if axis.kind == "date" and width is not size:
                width = width / 86_400_000
            if mode == "group":
                place = place + size * (slots.index(t.get("offsetgroup") or id(t)) - (len(slots) - 1) / 2)
            elif mode in ("stack", "relative") and t.get("base") is None:
                for at in range(count):
                    if np.isfinite(place[at]) and np.isfinite(amount[at]):
                        end = ends[mode == "stack" or amount[at] >= 0]
                        base[at] += end.get(place[at], 0)
                        end[place[at]] = end.get(place[at], 0) + amount[at]
            marker = t.get("marker") or {}
            alpha = t.get("opacity") if t.get("opacity") is not None else marker.get("opacity")
            alpha = alpha if is_number(alpha) else None
            colors = self._colors(marker, t["cycle"], alpha, count)
            edge = marker.get("line") or {}
            style = {"color": colors, "linewidth": float(edge["width"]) * PIXEL if is_number(edge.get("width")) else 0}
            if style["linewidth"] and isinstance(edge.get("color"), str):
                style["edgecolor"] = color_of(edge["color"])
            draw = axes.bar if along == "x" else axes.barh
            drawn = draw(place, amount, width, base, **style)
            end = base + amount
            first = colors if np.ndim(colors) == 1 else colors[0] if len(colors) else t["cycle"]
            self._error_bars(axes, t, t["across"], *((place, end) if along == "x" else (end, place)), None, "black")
            self._label_bars(axes, t, drawn, amount)
            self._name(t, Patch(color=first))

    _histogram = _bar

    @staticmethod
    def _label_bars(axes, trace, drawn, amount):
        text, template = values(trace.get("text")), trace.get("texttemplate")
        if trace.get("textposition") == "none" or len(amount) > MOST_LABELS:
            return
        if isinstance(template, str) and re.fullmatch(r"%\{(value|x|y)[^}]*\}", template):
            labels = ["%.4g" % value for value in amount]
        elif text is not None and template is None:
            labels = [text] * len(amount) if isinstance(text, (str, int, float)) else ["%.6g" % t if is_number(t) else t for t in list(text)[: len(amount)]]
        else:
            return
        labels = [plain(label) for label in labels] + [""] * (len(amount) - len(labels))
        axes.bar_label(drawn, labels, fontsize="small", label_type="center" if trace.get("textposition") == "inside" else "edge")

    def _count(self, traces, axis, other):
        """Makes bars of histograms, which share their bins."""
        along = traces[0]["along"]
        data = [axis.numbers(t[along]) for t in traces]
        finite = np.concatenate([d[np.isfinite(d)] for d in data])
        if axis.kind == "log":
            raise Undrawn("a histogram on a log axis")
        if axis.kind == "category" or not finite.size:
            edges = np.arange(len(axis.categories) + 1) - 0.5
        else:
            edges = bins_of(finite, traces[0], along, axis)
        for trace, own in zip(traces, data):
            trace["bin"] = edges[1] - edges[0] if len(edges) > 1 else 1
            weights, kept = None, np.isfinite(own)
            how, norm = trace.get("histfunc") or "count", trace.get("histnorm") or ""
            across = values(trace.get(trace["across"]))
            if how != "count" and across is not None:
                weights = other.numbers(across)
                kept &= np.isfinite(weights)
            counts = np.histogram(own[kept], edges)[0].astype(float)
            if weights is not None:
                sums = np.histogram(own[kept], edges, weights=weights[kept])[0]
                if how not in ("sum", "avg"):
                    raise Undrawn("a histogram by %r" % str(how)[:30])
                counts = sums if how == "sum" else sums / np.where(counts, counts, np.nan)
            total = max(counts.sum(), 1e-300)
            shares = {"": 1, "percent": 100 / total, "probability": 1 / total, "density": 1 / trace["bin"], "probability density": 1 / total / trace["bin"]}
            if norm not in shares or (trace.get("cumulative") or {}).get("direction", "increasing") != "increasing":
                raise Undrawn("a histogram by %r" % str(norm)[:30])
            counts = counts * shares[norm]
            if (trace.get("cumulative") or {}).get("enabled"):
                counts = np.cumsum(counts)
            centers = (edges[:-1] + edges[1:]) / 2
            trace[along] = list(axis.categories) if axis.kind == "category" else centers * 86_400_000 if axis.kind == "date" else centers
            trace[trace["across"]] = counts

    def _box(self, trace):
        axes, x_axis, y_axis = self._of(trace)
        axis, other = (x_axis, y_axis) if trace["along"] == "x" else (y_axis, x_axis)
        place, amount = axis.numbers(trace[trace["along"]]), other.numbers(trace[trace["across"]])
        group = [t for t in self.traces if t["type"] == trace["type"] and (t["xaxis"], t["yaxis"]) == (trace["xaxis"], trace["yaxis"])]
        slots = list(dict.fromkeys(t.get("offsetgroup") or id(t) for t in group))
        slots = slots if self.layout.get(trace["type"] + "mode") == "group" else [None]
        at = slots.index(trace.get("offsetgroup") or id(trace)) if len(slots) > 1 else 0
        size = 0.6 / len(slots)
        color = color_of((trace.get("marker") or {}).get("color") if isinstance((trace.get("marker") or {}).get("color"), str) else (trace.get("line") or {}).get("color") or trace["cycle"])
        where = np.unique(place[np.isfinite(place)])
        parts = [amount[(place == one) & np.isfinite(amount)] for one in where]
        if sum(map(len, parts)) == 0:
            return
        positions = where + size * 1.15 * (at - (len(slots) - 1) / 2)
        kept = [(part, position) for part, position in zip(parts, positions) if len(part)]
        parts, positions = zip(*kept)
        if trace["type"] == "violin":
            parts = [part[:: len(part) // MOST_POINTS + 1] for part in parts]
            drawn = axes.violinplot(parts, positions, orientation=("horizontal", "vertical")[trace["along"] == "x"], widths=size, showmedians=True, showextrema=False)
            for body in drawn["bodies"]:
                body.set(facecolor=color, edgecolor=color, alpha=0.5)
            drawn["cmedians"].set_color(color)
        else:
            line = {"color": color, "linewidth": 1.5}
            for key, shown in (("sizemode", "quartiles"), ("boxmean", True), ("quartilemethod", "linear")):
                if trace.get(key) not in (None, False, shown) and trace[key] not in ("inclusive", "exclusive"):
                    raise Undrawn("a box with the %s %r" % (key, str(trace[key])[:30]))
            if trace.get("boxpoints") == "all":
                self.notes.append("the points beside the boxes of %s are left out, but for outliers" % trace["label"].replace("\\$", "$"))
            axes.bxp(
                [box_of(np.sort(part), trace.get("quartilemethod"), trace.get("boxpoints")) for part in parts],
                positions=positions, widths=size, orientation=("horizontal", "vertical")[trace["along"] == "x"], patch_artist=True, manage_ticks=False,
                shownotches=bool(trace.get("notched")), showmeans=bool(trace.get("boxmean")), meanline=True, showfliers=trace.get("boxpoints") is not False,
                boxprops={"facecolor": (*color[:3], 0.5), "edgecolor": color}, whiskerprops=line, capprops=line, medianprops=line,
                meanprops={"color": color, "linestyle": ":"}, flierprops={"marker": "o", "markersize": 4, "markerfacecolor": color, "markeredgecolor": "none"},
            )  # fmt: skip
        self._name(trace, Patch(color=color))

    _violin = _box

    def _heatmap(self, trace):
        axes, x_axis, y_axis = self._of(trace)
        z = trace["z"]
        if z.size > MOST_CELLS:
            raise Undrawn("a heat map of %d cells" % z.size)
        x, y = edges_of(x_axis.numbers(trace["x"]), z.shape[1]), edges_of(y_axis.numbers(trace["y"]), z.shape[0])
        colors, norm = self._scale(trace, z, "z", True)
        many = z.size > MOST_POINTS
        if many and "log" in (x_axis.kind, y_axis.kind):
            raise Undrawn("a heat map of %d cells on a log axis" % z.size)
        (axes.pcolorfast if many else axes.pcolormesh)(x, y, np.ma.masked_invalid(z), cmap=colors, norm=norm, zorder=1.5)
        axes.margins(0)
        template, text = trace.get("texttemplate"), trace.get("text")
        if template and z.size <= MOST_LABELS * 2:
            texts = values(text) if text is not None and "text" in template else None
            for row, column in np.ndindex(z.shape):
                if np.isfinite(z[row, column]):
                    label = plain(texts[row][column]) if texts is not None else "%.4g" % z[row, column]
                    dark = sum(colors(norm(z[row, column]))[:3]) < 1.5
                    middle = (x[column] + x[column + 1]) / 2, (y[row] + y[row + 1]) / 2
                    axes.text(*middle, label, ha="center", va="center", fontsize="small", color="white" if dark else "black")

    def _pie(self, trace):
        data = values(trace.get("values"))
        labels = values(trace.get("labels"))
        labels = list(range(len(data))) if labels is None else list(labels)
        amounts = np.ones(len(labels)) if data is None else numbers(data)
        sums = {}
        for label, amount in zip(labels, amounts):
            if amount > 0:
                sums[str(label)] = sums.get(str(label), 0) + amount
        order = list(sums) if trace.get("sort") is False else sorted(sums, key=sums.get, reverse=True)
        if not order or len(order) > 60:
            raise Undrawn("a pie of %d parts" % len(order))
        given = dict(zip(map(str, labels), values((trace.get("marker") or {}).get("colors")) or []))
        named = self.__dict__.setdefault("slices", {})
        way = trace.get("piecolorway") or self.layout.get("piecolorway") or self.colorway
        colors = []
        for label in order:
            if label not in named:
                color = given.get(label)
                if color is not None and not isinstance(color, str):
                    raise Undrawn("a pie in colors by numbers")
                named[label] = color or way[len(named) % len(way)]
            colors.append(color_of(named[label]))
        domain = trace.get("domain") or {}
        (left, right), (low, high) = domain.get("x") or (0, 1), domain.get("y") or (0, 1)
        axes = self.figure.add_axes(self._rectangle(left, right, low, high))
        info = trace.get("textinfo") or "percent"
        total = sum(sums.values())
        texts = []
        for label in order:
            part = {"label": plain(label), "value": "%.6g" % sums[label], "percent": "%.3g%%" % (100 * sums[label] / total), "text": "", "none": ""}
            texts.append("\n".join(filter(None, (part.get(word, "") for word in info.split("+")))))
        # Against the clock, the first part ends at the top.
        clockwise = trace.get("direction") == "clockwise"
        start = 90 - float(trace.get("rotation") or 0) - (0 if clockwise else 360 * sums[order[0]] / total)
        wedges, _ = axes.pie(
            [sums[label] for label in order], labels=texts, labeldistance=1.08, colors=colors, startangle=start, counterclock=not clockwise, 
            wedgeprops={"width": 1 - float(trace.get("hole") or 0), "edgecolor": "white", "linewidth": 0.5},
        )  # fmt: skip
        axes.set_title(plain(trace.get("title")), fontsize="medium")
        if trace.get("showlegend") is not False:
            there = self.__dict__.setdefault("parts", set())  # of this and other pies that are in the legend
            self.legend += [(plain(label), wedge, True) for label, wedge in zip(order, wedges) if label not in there]
            there.update(order)

    # -- parts of the whole

    def _finish(self):
        title = plain(self.layout.get("title"))
        if title:
            x = (self.layout["title"].get("x") if isinstance(self.layout["title"], dict) else None) or 0.5
            self.figure.suptitle(title, x=x if x > 0.2 else self.area[0], ha="left" if x < 0.35 else "center", y=0.98)
        shown = self.layout.get("showlegend")
        wanted = shown if shown is not None else len(self.legend) > 1 or any(explicit for *_, explicit in self.legend)
        if wanted and self.legend:
            handles = [handle for _, handle, _ in self.legend[:MOST_LEGEND]]
            names = [label[:40] for label, *_ in self.legend[:MOST_LEGEND]]
            if len(self.legend) > MOST_LEGEND:
                handles.append(Patch(alpha=0))
                names.append("… and %d more" % (len(self.legend) - MOST_LEGEND))
            twins = sum(bool(axis.layout.get("overlaying")) for axis in self.axes.values())
            place = (0.93 + 0.12 * self.scales + 0.06 * bool(twins), self.area[1] + self.area[3])
            self.figure.legend(handles, names, title=plain((self.layout.get("legend") or {}).get("title")) or None, loc="upper left", bbox_to_anchor=place, frameon=False)
        for shape in values(self.layout.get("shapes")) or []:
            self._shape(shape)
        for note in values(self.layout.get("annotations")) or []:
            self._annotate(note)
        if self.layout.get("images"):
            self.notes.append("its background images are left out")

    def _point(self, reference, value, letter):
        """Where something is in a figure, as a part of it; references are 'x2', 'x2 domain' and 'paper'."""
        start, length = (self.area[0], self.area[2]) if letter == "x" else (self.area[1], self.area[3])
        if reference in (None, "paper"):
            return start + length * float(value)
        name, _, domain = str(reference).partition(" ")
        axis = self.axes.get(name)
        if axis is None:
            return None
        axes = next(axes for pair, axes in self.pairs.items() if name in pair)
        if domain:
            low, high = axis.layout.get("domain") or (0, 1)
            return start + length * (low + (high - low) * float(value))
        number = axis.one(value)
        if axis.kind == "log" and not isinstance(value, str):
            number = 10**number
        at = 0 if letter == "x" else 1
        place = axes.transData.transform((number, axes.get_ylim()[0]) if at == 0 else (axes.get_xlim()[0], number))
        return self.figure.transFigure.inverted().transform(place)[at]

    def _shape(self, shape):
        from matplotlib.lines import Line2D
        from matplotlib.patches import Ellipse, Rectangle

        kind = shape.get("type") or "rect"
        if shape.get("visible") is False:
            return
        if kind not in ("line", "rect", "circle"):
            raise Undrawn("a shape of the type %r" % str(kind)[:30])
        x0, x1 = (self._point(shape.get("xref"), shape.get(name), "x") for name in ("x0", "x1"))
        y0, y1 = (self._point(shape.get("yref"), shape.get(name), "y") for name in ("y0", "y1"))
        if None in (x0, x1, y0, y1):
            return
        line = shape.get("line") or {}
        style = {"linewidth": float(line.get("width", 2)) * PIXEL, "linestyle": DASHES.get(line.get("dash"), "-"), "transform": self.figure.transFigure}
        color = color_of(line.get("color") or "#444", shape.get("opacity"))
        if kind == "line":
            self.figure.add_artist(Line2D([x0, x1], [y0, y1], color=color, **style)).set_in_layout(False)
            return
        fill = color_of(shape["fillcolor"], shape.get("opacity")) if shape.get("fillcolor") else "none"
        patch = Rectangle((x0, y0), x1 - x0, y1 - y0) if kind == "rect" else Ellipse(((x0 + x1) / 2, (y0 + y1) / 2), x1 - x0, y1 - y0)
        patch.set(facecolor=fill, edgecolor=color, **style)
        self.figure.add_artist(patch).set_in_layout(False)  # one far away would make the picture as large

    def _annotate(self, note):
        if note.get("visible") is False or not note.get("text"):
            return
        x, y = (self._point(note.get(letter + "ref"), note.get(letter, 0), letter) for letter in "xy")
        if None in (x, y) or not (-0.5 <= x <= 1.5 and -0.5 <= y <= 1.5):
            return
        anchors = [str(note.get(name) or "auto") for name in ("xanchor", "yanchor")]
        across = {"left": "left", "right": "right"}.get(anchors[0], "center")
        up = {"bottom": "bottom", "top": "top"}.get(anchors[1], "center")
        style = {"fontsize": "medium", "xycoords": "figure fraction", "rotation": -float(note.get("textangle") or 0)}
        if (note.get("font") or {}).get("color"):
            style["color"] = color_of(note["font"]["color"])
        if note.get("showarrow") is False:
            self.figure.axes[0].annotate(plain(note["text"]), (x, y), ha=across, va=up, **style)
        else:
            shift = [float(note.get(name) if is_number(note.get(name)) else default) for name, default in (("ax", -10), ("ay", -30))]
            shift = [min(max(length, -300), 300) * PIXEL for length in shift]
            self.figure.axes[0].annotate(
                plain(note["text"]), (x, y), (shift[0], -shift[1]), textcoords="offset points", ha="center", va="center", arrowprops={"arrowstyle": "->"}, **style
            )


def box_of(data, method, points):
    """The figures of a box for sorted data, by plotly's rules."""
    low, median, high = np.quantile(data, (0.25, 0.5, 0.75), method="hazen")
    if method in ("inclusive", "exclusive") and len(data) > 1:
        half = (len(data) + (method == "inclusive")) // 2
        low, high = np.median(data[:half]), np.median(data[-half:])
    inner = data if points is False else data[(data >= low - 1.5 * (high - low)) & (data <= high + 1.5 * (high - low))]
    ends = (min(low, inner[0]), max(high, inner[-1])) if len(inner) else (low, high)
    notch = 1.57 * (high - low) / len(data) ** 0.5
    return {
        "q1": low, "med": median, "q3": high, "mean": data.mean(), "cilo": median - notch, "cihi": median + notch,
        "whislo": ends[0], "whishi": ends[1], "fliers": data[(data < ends[0]) | (data > ends[1])],
    }  # fmt: skip


def picked(data, chosen, count):
    if chosen is None:
        return data[:count]
    return data[chosen] if isinstance(data, np.ndarray) else [data[at] for at in chosen]


def thinned(y, count, most):
    """Which of many points are drawn: of a line the lowest and highest of each part, else every so manyth."""
    if y is None:
        return np.unique(np.linspace(0, count - 1, most).astype(int))
    parts = most // 2
    length = -(-count // parts)
    padded = np.full(parts * length, np.nan)
    padded[:count] = y[:count]
    padded = padded.reshape(parts, length)
    starts = np.arange(parts) * length
    low, high = np.where(np.isnan(padded), np.inf, padded).argmin(1), np.where(np.isnan(padded), -np.inf, padded).argmax(1)
    chosen = np.unique(np.concatenate([starts + low, starts + high, [0, count - 1]]))
    return chosen[chosen < count]


def edges_of(centers, length):
    """The borders of a heat map's cells, whose middles or borders are given."""
    if len(centers) == length + 1:
        return centers
    if len(centers) != length or not np.isfinite(centers).all():
        raise Undrawn("a heat map whose axes do not fit its table")
    if length == 1:
        return np.array([centers[0] - 0.5, centers[0] + 0.5])
    between = (centers[:-1] + centers[1:]) / 2
    return np.concatenate([[2 * centers[0] - between[0]], between, [2 * centers[-1] - between[-1]]])


def bins_of(data, trace, letter, axis):
    """The bins of a histogram: those that are asked for, or of a size that people count by."""
    spec, most = trace.get(letter + "bins") or {}, trace.get("nbins" + letter)
    low, high = data.min(), data.max()
    size = spec.get("size")
    if size is not None and not is_number(size):
        raise Undrawn("bins of the size %r" % str(size)[:30])
    if size is not None and axis.kind == "date":
        size = size / 86_400_000
    if size is None:
        rough = (high - low) / int(most) if most else 2 * data.std() / len(data) ** 0.4
        if not most and data.size < 100_000:
            steps = np.diff(np.unique(data))
            rough = max(rough, steps.min() if steps.size else 0)
        if rough <= 0:
            return np.array([low - 0.5, low + 0.5])
        base = 10 ** np.floor(np.log10(rough))
        size = next(base * step for step in (1, 2, 5, 10) if base * step >= rough * 0.999)
    size = max(float(size), (high - low) / 10_000, 1e-300)
    start = spec.get("start")
    if start is not None:
        start = axis.one(start)
    else:
        start = np.floor(low / size) * size
        if size == int(size) and axis.kind == "linear" and np.equal(np.mod(data, 1), 0).all():
            start -= 0.5  # whole numbers are in the middle, not on a border
            if start + size <= low:
                start += size
    end = spec.get("end")
    count = int(np.floor((high - start) / size + 1e-9)) + 1 if end is None else max(1, int(np.ceil((axis.one(end) - start) / size - 1e-9)))
    return start + size * np.arange(min(count, 10_001) + 1)
