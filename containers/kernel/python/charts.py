"""Libraries of charts, fitted to a kernel: what they show, and what they save by the session's browser."""

import base64
import functools
import gzip
import json
import os
import re
import sys
from types import SimpleNamespace

from mimes import PAGE
from pictures import ask_browser

# -- plotly

# The script is in the page, so that the file is all that a person needs, also without the internet; packed it takes 1.9 MB of 4.8. The browser
# of the session opens the page once without its figure (browser/figure.go), and then draws one after another on it.
FIGURE = """<!DOCTYPE html>
<html>
<head><meta charset="utf-8"></head>
<body>
<script type="application/json" id="code-sandbox-figure">%s</script>
<script type="text/plain" id="packed-plotly">%s</script>
<script>
let place;
const loaded = (async () => {
  const packed = atob(document.getElementById("packed-plotly").textContent), bytes = new Uint8Array(packed.length);
  for (let at = 0; at < packed.length; at++) bytes[at] = packed.charCodeAt(at);
  const script = document.createElement("script");
  script.textContent = await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
  document.head.append(script);
})();
async function codeSandboxDraw(page) {
  await loaded;
  document.title = page.title;
  place = document.createElement("div");
  place.className = "plotly-graph-div";
  place.style.cssText = page.style;
  document.body.append(place);
  if (!own) page.figure.config.displayModeBar = false;
  const drawn = Plotly.newPlot(place, page.figure);
  await (own ? drawn : Promise.race([drawn, new Promise(done => setTimeout(done, 3000))])); // a map waits for what it cannot have
}
function codeSandboxClear() {
  Plotly.purge(place);
  place.remove();
  document.title = "";
}
const own = document.getElementById("code-sandbox-figure");
if (own) codeSandboxDraw(JSON.parse(own.textContent)).catch(error => document.body.append("This page needs a browser of 2023 or later: " + error));
</script>
</body>
</html>
"""
VEGA = "/usr/local/share/code-sandbox/pages/vega.js"
PACKED = "/usr/local/share/code-sandbox/pages/plotly.txt"  # of our image


@functools.cache
def packed_plotly():
    from plotly.offline import get_plotlyjs, get_plotlyjs_version

    try:
        with open(PACKED) as file:
            version, _, packed = file.read().partition("\n")
        if version == get_plotlyjs_version():
            return packed
    except OSError:
        pass
    return base64.b64encode(gzip.compress(get_plotlyjs().encode(), 6)).decode()


def figure_page(figure, **sizes):
    """The page of a plotly figure, given as its JSON's value."""
    from plotly.io.json import to_json_plotly

    parts = {part: figure[part] for part in ("data", "layout", "frames") if figure.get(part)}
    layout = parts["layout"] = {**(parts.get("layout") or {}), **sizes}
    parts["config"] = {"responsive": True, **(figure.get("config") or {})}
    style = "".join("%s:%s;" % (side, "%spx" % layout[side] if layout.get(side) else "100%") for side in ("height", "width"))
    page = {"title": title_of(figure), "style": style, "figure": parts}
    return FIGURE % (to_json_plotly(page).replace("<", "\\u003c"), packed_plotly())


def title_of(figure):
    """The title of a plotly figure, without markup."""
    title = (figure.get("layout") or {}).get("title") or {}
    return re.sub("<[^>]*>", " ", str(title.get("text") or "") if isinstance(title, dict) else str(title)).strip()[:500]


def same_renderer(module):
    """Makes each of plotly's renderers return the figure: theirs need a notebook, a browser or a program that draws."""
    for name in list(module.renderers):
        if name != "json":
            module.renderers[name] = module.renderers["plotly_mimetype"]
    if getattr(module, "nbformat", None) is None:  # figures are shown only beside it, and nothing of it is used
        module.nbformat = SimpleNamespace(__version__="5")


def hook_to_image(module):
    """Lets plotly save pictures by the session's browser, and by kaleido what that cannot."""
    original, available = module.to_image, module.kaleido_available

    @functools.wraps(original)
    def to_image(fig, format=None, scale=None, width=None, height=None, validate=True):
        defaults = module.defaults
        kind, figure = (format or defaults.default_format).lower().replace("jpg", "jpeg"), module.validate_coerce_fig_to_dict(fig, validate)
        layout = figure.get("layout") or {}
        own = {"width": defaults.default_width, "height": defaults.default_height, **((layout.get("template") or {}).get("layout") or {}), **layout}
        sizes = {"width": width or own["width"], "height": height or own["height"]}
        try:
            return draw_figure(figure, kind, sizes, scale or defaults.default_scale)
        except RuntimeError:
            if not available():
                raise
            return original(fig, format, scale=scale, width=width, height=height, validate=validate)

    module.to_image = to_image
    module.kaleido_available = lambda: True  # write_image asks, and then calls to_image


def draw_figure(figure, kind, sizes, scale):
    page = figure_page({**figure, "config": {}}, **sizes)
    if kind == "pdf":
        return ask_browser(page.replace("<body>", "<style>@page { margin: 0; size: %(width)dpx %(height)dpx }</style><body style='margin: 0'>" % sizes), pdf=True)
    url = ask_browser(page, script="Plotly.toImage(place, %s)" % json.dumps({"format": kind, "scale": scale, **sizes}))
    head, _, content = url.partition(",")
    if head.endswith(";base64"):
        return base64.b64decode(content)
    from urllib.parse import unquote_to_bytes

    return unquote_to_bytes(content)


# -- Altair


def hook_altair_pages(module):
    """Puts Vega into the pages of charts."""
    original = module.spec_to_html

    @functools.wraps(original)
    def spec_to_html(spec, *args, template="standard", **options):
        return original(spec, *args, template="inline" if template in ("standard", "universal") else template, **options)

    module.spec_to_html = spec_to_html


def hook_vl_convert(module):
    """It joins the script of its parts each time, which takes seconds; our image has it ready."""
    original = module.javascript_bundle

    def javascript_bundle(snippet=None, vl_version=None):
        if snippet or not os.path.exists(VEGA):
            return original(snippet, vl_version)
        with open(VEGA, encoding="utf-8") as file:
            return file.read()

    module.javascript_bundle = javascript_bundle


ALTAIR_RENDERERS = ("default", "html", "mimetype", "jupyter", "jupyterlab", "nteract", "colab", "kaggle", "zeppelin", "olli", "browser")
MOST_DATA_BYTES = 16 << 20  # of a file that a chart names


def hook_altair(module):
    """Makes Altair's renderers give a chart's picture, by vl-convert, beside its page."""
    renderers, page_of = module.renderers, module.html_renderer

    def render(chart, **options):
        elsewhere = []
        chart = with_data(chart, elsewhere)
        page = page_of(chart, **options)["text/html"]
        if elsewhere:  # the browser tells what of it is not there, vl-convert does not
            return {"text/html": page}
        try:
            return {"image/png": picture_of_chart(chart), PAGE: page}
        except Exception as error:  # the browser draws the page
            print("note: vl-convert does not draw this chart: %s" % str(error).strip().partition("\n")[0][:300], file=sys.stderr)
            return {"text/html": page}

    for name in ALTAIR_RENDERERS:
        renderers.register(name, render)
    renderers.enable("default")


def picture_of_chart(chart):
    import vl_convert

    if "/vega/" in chart.get("$schema", ""):
        return vl_convert.vega_to_png(chart, scale=2)
    return vl_convert.vegalite_to_png(chart, scale=2)


def with_data(part, elsewhere):
    """A chart with the content of the session's files that it names by their path, which no page could read; collects other addresses."""
    if isinstance(part, list):
        return [with_data(item, elsewhere) for item in part]
    if not isinstance(part, dict):
        return part
    path = part.get("url")
    kind = isinstance(path, str) and os.path.splitext(path)[1][1:].lower()
    if kind in ("csv", "tsv", "json") and "://" not in path and os.path.isfile(path) and os.path.getsize(path) <= MOST_DATA_BYTES:
        with open(path, encoding="utf-8-sig", errors="replace") as file:
            text = file.read()
        print("note: the chart's page has the data of %s in it, as it cannot reach the file" % path, file=sys.stderr)
        rest = {name: item for name, item in part.items() if name != "url"}
        return {**rest, "values": json.loads(text) if kind == "json" else text, "format": {"type": kind, **part.get("format", {})}}
    if isinstance(path, str):
        elsewhere.append(path)
    return {name: item if name in ("values", "datasets") else with_data(item, elsewhere) for name, item in part.items()}


# -- great-tables and polars, which save tables by nokap


def hook_nokap(module):
    original = module.from_html

    @functools.wraps(original)
    def from_html(html, file="webshot.png", **options):
        try:
            if os.path.splitext(file)[1].lower() == ".png" and options.get("selector") == "table" and options.get("zoom") == 2:
                with open(file, "wb") as out:
                    out.write(ask_browser(html))
                return file
            return original(html, file, **options)
        finally:
            module.close()  # its own browser

    module.from_html = from_html


# -- Bokeh


def bokeh_page(shown, document=None):
    from bokeh.embed import file_html
    from bokeh.resources import CDN

    return file_html(shown, CDN, bokeh_title(shown), theme=document and document.theme, suppress_callback_warning=True)


def bokeh_title(shown):
    title = getattr(shown, "title", None)
    return str(getattr(title, "text", "") or "Bokeh")[:500]


def hook_bokeh_show(module, displays):
    """show() displays: there is neither a notebook nor a screen."""

    def show(shown, state, browser=None, new="tab", notebook_handle=False):
        if state.file:
            from bokeh.io.saving import save

            displays.show_file(save(shown, state=state), bokeh_title(shown))
        else:
            displays.publish({"text/html": bokeh_page(shown, state.document)}, bokeh_title(shown))

    module._show_with_state = show


def hook_bokeh_models(module):
    def bundle(shown, **_):
        return {"text/plain": "%s(...)" % type(shown).__name__, "text/html": bokeh_page(shown)}

    module.UIElement._repr_mimebundle_ = bundle


def hook_bokeh_notebook(module):
    module.load_notebook = lambda *args, **kwargs: None  # each page has its scripts
