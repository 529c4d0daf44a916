"""Pictures of plotly's figures (plotly_drawing.py): what is on their axes, by what the figures have in JSON."""

import json
import unittest

from test_support import can_import

HAS_MATPLOTLIB = can_import("matplotlib")
if HAS_MATPLOTLIB:
    import numpy as np
    import plotly_drawing


def drawn(*traces, **layout):
    """The figure as its picture shows it, after a way through JSON."""
    drawing = plotly_drawing.Drawing(json.loads(json.dumps({"data": traces, "layout": layout})))
    drawing.draw()
    drawing.canvas.draw()
    return drawing


def bars(axes):
    """Middle, width, bottom and height of each bar."""
    return [tuple(round(float(n), 6) for n in (b.get_x() + b.get_width() / 2, b.get_width(), b.get_y(), b.get_height())) for b in axes.patches]


def ticks(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


def legend(drawing):
    return [text.get_text() for found in drawing.figure.legends for text in found.get_texts()]


class Drawings(unittest.TestCase):
    def test_lines_and_what_is_written_around_them(self):
        drawing = drawn(
            {"name": "first", "x": [3, 1, 2], "y": [1, None, 2], "mode": "lines", "line": {"color": "rgb(255,0,0)", "dash": "dot"}},
            {"name": "<b>costs</b> $a$", "y": [4, 5], "mode": "lines+markers"},
            {"name": "hidden", "y": [9], "visible": "legendonly"},
            title={"text": "Two<br>lines"}, xaxis={"title": {"text": "Time"}}, yaxis={"title": {"text": "a $ b"}, "range": [0, 10]},
        )
        (axes,) = drawing.figure.axes
        first, second = axes.lines[:2]
        self.assertEqual(first.get_xdata().tolist(), [3, 1, 2])
        self.assertEqual(np.nan_to_num(first.get_ydata(), nan=-1).tolist(), [1, -1, 2])
        self.assertEqual((first.get_color(), first.get_linestyle()), ((1, 0, 0, 1), ":"))
        self.assertEqual((second.get_xdata().tolist(), second.get_ydata().tolist()), ([0, 1], [4, 5]))
        self.assertEqual(axes.collections[0].get_offsets().tolist(), [[0, 4], [1, 5]])
        self.assertEqual((axes.get_xlabel(), axes.get_ylabel(), axes.get_ylim()), ("Time", r"a \$ b", (0, 10)))
        self.assertEqual(drawing.figure.get_suptitle(), "Two\nlines")
        self.assertEqual(legend(drawing), ["first", r"costs \$a\$"])

    def test_bars(self):
        first, second = {"type": "bar", "x": ["a", "b"], "y": [1, 2]}, {"type": "bar", "x": ["b", "a"], "y": [3, -4]}
        for layout, expected in (
            ({}, [(-0.2, 0.4, 0, 1), (0.8, 0.4, 0, 2), (1.2, 0.4, 0, 3), (0.2, 0.4, 0, -4)]),
            ({"barmode": "stack"}, [(0, 0.8, 0, 1), (1, 0.8, 0, 2), (1, 0.8, 2, 3), (0, 0.8, 1, -4)]),
            ({"barmode": "relative", "bargap": 0}, [(0, 1, 0, 1), (1, 1, 0, 2), (1, 1, 2, 3), (0, 1, 0, -4)]),
            ({"barmode": "overlay"}, [(0, 0.8, 0, 1), (1, 0.8, 0, 2), (1, 0.8, 0, 3), (0, 0.8, 0, -4)]),
            ({"barmode": "overlay", "xaxis": {"categoryorder": "total descending"}}, [(1, 0.8, 0, 1), (0, 0.8, 0, 2), (0, 0.8, 0, 3), (1, 0.8, 0, -4)]),
        ):
            with self.subTest(layout):
                (axes,) = drawn(first, second, **layout).figure.axes
                self.assertEqual(bars(axes), expected)
        self.assertEqual(ticks(axes.xaxis), ["b", "a"])
        (axes,) = drawn(first, {**first, "base": [5, 6]}, first, barmode="stack").figure.axes
        self.assertEqual([bar[2] for bar in bars(axes)], [0, 0, 5, 6, 1, 2])
        (axes,) = drawn({"type": "bar", "orientation": "h", "y": ["a", "b"], "x": [1, 2], "text": ["one", "two"]}).figure.axes
        self.assertEqual([(p.get_width(), round(p.get_height(), 6)) for p in axes.patches], [(1, 0.8), (2, 0.8)])
        self.assertEqual((ticks(axes.yaxis), [text.get_text() for text in axes.texts]), (["a", "b"], ["one", "two"]))

    def test_histograms(self):
        numbers = [1, 1, 2, 2, 2, 3, 6]
        for trace, expected in (
            ({"x": numbers, "xbins": {"start": 0, "end": 8, "size": 2}}, [(1, 2, 0, 2), (3, 2, 0, 4), (5, 2, 0, 0), (7, 2, 0, 1)]),
            ({"x": numbers, "xbins": {"start": 0, "end": 8, "size": 4}, "histnorm": "percent"}, [(2, 4, 0, 85.714286), (6, 4, 0, 14.285714)]),
            ({"x": numbers, "xbins": {"start": 0, "end": 8, "size": 4}, "cumulative": {"enabled": True}}, [(2, 4, 0, 6), (6, 4, 0, 7)]),
            ({"x": list("aab"), "y": [1, 3, 5], "histfunc": "avg"}, [(0, 0.8, 0, 2), (1, 0.8, 0, 5)]),
            ({"x": numbers * 20}, [(n, 1, 0, 20 * count) for n, count in enumerate((2, 3, 1, 0, 0, 1), 1)]),
        ):
            with self.subTest(trace):
                (axes,) = drawn({"type": "histogram", **trace}).figure.axes
                self.assertEqual(bars(axes), expected)

    def test_boxes_and_violins(self):
        for kind in ("box", "violin"):
            (axes,) = drawn({"type": kind, "name": "A", "y": [1, 2, 3, 4, 5]}, {"type": kind, "name": "B", "y": [5, 6, 7]}).figure.axes
            self.assertEqual(ticks(axes.xaxis), ["A", "B"])
            if kind == "box":
                medians = [line.get_ydata()[0] for line in axes.lines if len(set(line.get_ydata())) == 1 and line.get_ydata()[0] in (3, 6)]
                self.assertEqual(medians, [3, 6])

    def test_quartiles_and_whiskers(self):
        ends = lambda axes: sorted({float(n) for line in axes.lines if line.get_linestyle() == "-" for n in line.get_ydata()})  # noqa: E731
        for trace, box, lines, outliers in (
            ({"y": [1, 2, 3, 4, 5]}, (1.75, 4.25), [1, 1.75, 3, 4.25, 5], []),
            ({"y": [1, 2, 3, 4, 5], "quartilemethod": "inclusive"}, (2, 4), [1, 2, 3, 4, 5], []),
            ({"y": [1, 2, 3, 4, 5], "quartilemethod": "exclusive"}, (1.5, 4.5), [1, 1.5, 3, 4.5, 5], []),
            ({"y": [5, 1, 3, 4, 2, 30]}, (2, 5), [1, 2, 3.5, 5], [30]),
            ({"y": [5, 1, 3, 4, 2, 30], "boxpoints": False}, (2, 5), [1, 2, 3.5, 5, 30], []),
            ({"y": [7]}, (7, 7), [7], []),
        ):
            with self.subTest(trace):
                (axes,) = drawn({"type": "box", **trace}).figure.axes
                heights = axes.patches[0].get_path().vertices[:, 1]
                self.assertEqual(((heights.min(), heights.max()), ends(axes)), (box, lines))
                self.assertEqual([float(n) for line in axes.lines if line.get_marker() == "o" for n in line.get_ydata()], outliers)
        self.assertEqual(drawn({"type": "box", "y": [1, 2], "name": "A", "boxpoints": "all"}).notes, ["the points beside the boxes of A are left out, but for outliers"])

    def test_heat_maps(self):
        trace = {"type": "heatmap", "z": [[1, 2], [3, None]], "x": ["a", "b"], "colorscale": [[0, "#000"], [1, "#fff"]], "texttemplate": "%{z}"}
        drawing = drawn(trace, yaxis={"autorange": "reversed"})
        axes, scale = drawing.figure.axes
        self.assertEqual(axes.collections[0].get_array().filled(-1).tolist(), [[1, 2], [3, -1]])
        self.assertEqual(([text.get_text() for text in axes.texts], axes.yaxis_inverted(), scale.get_ylim()), (["1", "2", "3"], True, (1, 3)))
        np.testing.assert_allclose(axes.collections[0].to_rgba(np.array([1, 2, 3]))[:, 0], [0, 0.5, 1], atol=0.01)

    def test_pies(self):
        drawing = drawn({"type": "pie", "labels": ["a", "b", "a", "c"], "values": [1, 5, 2, 0]})
        (axes,) = drawing.figure.axes
        self.assertEqual([(round(w.theta2 - w.theta1, 3), round(w.theta2 if at == 0 else w.theta1, 3)) for at, w in enumerate(axes.patches)], [(225, 90), (135, 90)])
        self.assertEqual(([text.get_text() for text in axes.texts if text.get_text()], legend(drawing)), (["62.5%", "37.5%"], ["b", "a"]))

    def test_kinds_of_axes(self):
        for x, layout, numbers, labels in (
            ([1, 10], {"type": "log", "range": [0, 2]}, [1, 10], ["1", "10", "100"]),
            (["2024-01-01", "2024-01-03 12:00"], {}, [19723, 19725.5], None),
            (["2024-01-01T00:00:00Z", "2024-01-02T00:00:00+00:00"], {}, [19723, 19724], None),
            (["x", "y"], {"categoryarray": ["y", "x"]}, [1, 0], ["y", "x"]),
            (["1", "$1,000"], {}, [1, 1000], None),
            (["10", "2"], {"autotypenumbers": "strict"}, [0, 1], ["10", "2"]),
            (["1_0", "inf"], {}, [0, 1], ["1_0", "inf"]),
            (["1", "2"], {"type": "linear", "tickvals": [1, 2], "ticktext": ["one", "two"]}, [1, 2], ["one", "two"]),
            ([0, 1], {"tickvals": None, "tickformat": ".0%", "range": [0, 1], "dtick": 1}, [0, 1], ["0%", "20%", "40%", "60%", "80%", "100%"]),
            ([0, 50_000_000], {"range": [0, 5e7]}, [0, 5e7], ["0", "10M", "20M", "30M", "40M", "50M"]),
            ({"dtype": "f8", "bdata": "AAAAAAAA8D8AAAAAAAAAQA=="}, {}, [1, 2], None),
        ):
            with self.subTest(x=x, layout=layout):
                (axes,) = drawn({"x": x, "y": [1, 2], "mode": "lines"}, xaxis=layout).figure.axes
                self.assertEqual(axes.lines[0].get_xdata().tolist(), numbers)
                shown = [t.get_text().replace("\u2212", "-") for t in axes.xaxis.get_ticklabels() if axes.get_xlim()[0] <= t.get_position()[0] <= axes.get_xlim()[1]]
                self.assertEqual(shown if labels else None, labels)

    def test_templates_say_whether_texts_are_numbers(self):
        for template, numbers in (({}, [1, 10, 2]), ({"layout": {"autotypenumbers": "strict"}}, [0, 1, 2])):
            (axes,) = drawn({"x": ["1", "10", "2"], "y": [1, 2, 3], "mode": "lines"}, template=template).figure.axes
            self.assertEqual(axes.lines[0].get_xdata().tolist(), numbers)

    def test_ranges_with_one_end(self):
        for given, shown in (([5, None], (5, 20.5)), ([None, 30], (9.5, 30)), ([None, None], (9.5, 20.5)), ([20, 5], (20, 5))):
            (axes,) = drawn({"y": [10, 20], "mode": "lines"}, yaxis={"range": given}).figure.axes
            self.assertEqual(axes.get_ylim(), shown)

    def test_charts_that_share_categories(self):
        traces = {"type": "bar", "x": ["a"], "y": [1]}, {"type": "bar", "x": ["b", "a"], "y": [2, 3], "xaxis": "x2", "yaxis": "y2"}
        for order, there, labels in ((None, [0, 1, 0], ["a", "b"]), ("category descending", [1, 0, 1], ["b", "a"])):
            left, right = drawn(
                *traces, xaxis={"domain": [0, 0.4], "categoryorder": order}, xaxis2={"domain": [0.6, 1], "matches": "x", "categoryorder": order}, yaxis2={"anchor": "x2"}
            ).figure.axes
            self.assertEqual([round(bar[0]) for bar in bars(left) + bars(right)], there)
            self.assertEqual((ticks(left.xaxis), ticks(right.xaxis)), (labels, labels))
        left, right = drawn({**traces[0], "x": [5]}, traces[1], xaxis2={"matches": "x"}).figure.axes
        self.assertEqual((left.get_xlim()[0] > 4, ticks(right.xaxis)), (True, ["b", "a"]), "axes of different kinds do not match")
        for orders in (("trace", "category ascending"), ("total descending", "total descending")):
            with self.subTest(orders), self.assertRaisesRegex(plotly_drawing.Undrawn, "share categories"):
                drawn(*traces, xaxis={"categoryorder": orders[0]}, xaxis2={"matches": "x", "categoryorder": orders[1]})

    def test_hidden_traces_and_legends(self):
        line = {"y": [1, 2], "mode": "lines"}
        drawing = drawn({**line, "name": "A", "line": {"color": "red"}}, {**line, "name": "A", "line": {"color": "blue"}}, {**line, "visible": "legendonly"}, {**line, "visible": False})
        self.assertEqual(drawing.notes, ["1 of its traces is hidden (legendonly)"])
        handles = drawing.figure.legends[0].legend_handles
        self.assertEqual((legend(drawing), [handle.get_color() for handle in handles]), (["A", "A"], [(1, 0, 0, 1), (0, 0, 1, 1)]))

    def test_several_charts(self):
        drawing = drawn(
            {"y": [1, 2], "name": "left"}, {"y": [100, 50], "name": "right", "yaxis": "y2"}, {"y": [5], "xaxis": "x2", "yaxis": "y3"},
            template={"layout": {"xaxis": {"showgrid": False}}}, xaxis={"domain": [0, 0.4], "anchor": "y", "title": {"text": "First"}}, xaxis2={"domain": [0.6, 1], "anchor": "y3"}, yaxis2={"overlaying": "y", "side": "right"},
            yaxis3={"anchor": "x2"}, annotations=[{"text": "Note", "x": 0.2, "y": 1, "xref": "paper", "yref": "paper", "showarrow": False}],
            shapes=[{"type": "line", "xref": "x domain", "yref": "y", "x0": 0, "x1": 1, "y0": 1.5, "y1": 1.5}],
        )
        left, right, other = drawing.figure.axes
        self.assertEqual([line.get_ydata().tolist() for axes in (left, right, other) for line in axes.lines if len(line.get_ydata())], [[1, 2], [100, 50], [5]])
        self.assertEqual(left.get_position().bounds, right.get_position().bounds)
        self.assertEqual([axes.get_xlabel() for axes in (left, other)], ["First", ""])
        self.assertLess(left.get_position().x1, other.get_position().x0)
        self.assertEqual([text.get_text() for text in left.texts], ["Note"])
        (line,) = drawing.figure.artists
        (x0, y), (x1, _) = left.transData.inverted().transform(drawing.figure.transFigure.transform(line.get_xydata()))
        self.assertEqual([round(float(n), 6) for n in (y, x0, x1)], [1.5, *(round(float(n), 6) for n in left.get_xlim())])

    def test_areas(self):
        (axes,) = drawn({"y": [1, 2], "stackgroup": "1"}, {"y": [3, 3], "stackgroup": "1"}).figure.axes
        self.assertEqual([line.get_ydata().tolist() for line in axes.lines if len(line.get_ydata())], [[1, 2], [4, 5]])

    def test_colors_by_numbers_share_their_scale(self):
        trace = {"mode": "markers", "marker": {"color": [0, 10], "coloraxis": "coloraxis", "size": [4, 1], "sizeref": 0.5, "sizemode": "area"}, "y": [1, 2]}
        drawing = drawn(trace, {**trace, "marker": {"color": [20], "coloraxis": "coloraxis"}, "y": [3]}, coloraxis={"colorscale": [[0, "black"], [1, "red"]], "colorbar": {"title": {"text": "Heat"}}})
        axes, scale = drawing.figure.axes
        self.assertEqual((scale.get_title(loc="left"), scale.get_ylim()), ("Heat", (0, 20)))
        reds = [round(float(color[0]), 1) for points in axes.collections for color in points.get_facecolors()]
        self.assertEqual(reds, [0, 0.5, 1])
        np.testing.assert_allclose(np.sqrt(axes.collections[0].get_sizes()) / plotly_drawing.PIXEL, [4, 2])

    def test_what_is_not_drawn_is_named(self):
        for figure, name in (
            ({"data": [{"type": "surface"}]}, "surface"),
            ({"data": []}, "0 traces"),
            ({"data": [{"y": [1]}] * 101}, "101 traces"),
            ({"data": [{"type": "bar", "y": [1] * 5001}]}, "5001 bars"),
            ({"data": [{"x": [["a", "b"], ["c", "d"]], "y": [1, 2]}]}, "two levels"),
            ({"data": [{"y": [1]}], "layout": {"xaxis": {"rangebreaks": [{}]}}}, "rangebreaks"),
            ({"data": [{"y": [1], "fill": "tonext"}]}, "tonext"),
            ({"data": [{"y": [1], "line": {"color": "hsl(1,2,3)"}}]}, "hsl"),
            ({"data": [{"y": [1]}], "layout": {"shapes": [{"type": "path"}]}}, "path"),
            ({"data": [{"y": [1]}], "layout": {"shapes": [{}] * 201}}, "201 shapes"),
            ({"data": [{"type": "bar", "y": [1]}], "layout": {"barnorm": "percent"}}, "shares"),
            ({"data": [{"type": "box", "q1": [1]}]}, "q1"),
            ({"data": [{"type": "box", "y": [1], "boxmean": "sd"}]}, "boxmean"),
        ):
            with self.subTest(name), self.assertRaisesRegex(plotly_drawing.Undrawn, name):
                plotly_drawing.draw(figure)

    def test_many_points_are_drawn_by_some(self):
        y = np.zeros(1_000_000)
        y[777_777], y[5] = 9, -9
        for mode, most in (("lines", plotly_drawing.MOST_POINTS + 2), ("markers", plotly_drawing.MOST_POINTS)):
            drawing = plotly_drawing.Drawing({"data": [{"y": y, "mode": mode}]})
            drawing.draw()
            (axes,) = drawing.figure.axes
            points = axes.lines[0].get_ydata() if mode == "lines" else axes.collections[0].get_offsets()
            self.assertLessEqual(len(points), most)
            self.assertIn("of its 1000000 points", drawing.notes[0])
            if mode == "lines":
                self.assertEqual((points.min(), points.max()), (-9, 9))

    def test_the_picture_and_the_settings_of_the_code(self):
        import matplotlib

        with matplotlib.rc_context({"lines.linewidth": 7, "axes.facecolor": "red"}):
            picture, notes = plotly_drawing.draw({"data": [{"y": [1, 2]}], "frames": [{}]})
            self.assertEqual(matplotlib.rcParams["lines.linewidth"], 7)
        self.assertEqual((picture[:4], notes), (b"\x89PNG", ["it is the first state of an animation"]))


def load_tests(_loader, tests, _pattern):
    """Chooses by what the interpreter has. The tests of internal/test/e2e run all of it in the image."""
    return tests if HAS_MATPLOTLIB else unittest.TestSuite()


if __name__ == "__main__":
    unittest.main()
